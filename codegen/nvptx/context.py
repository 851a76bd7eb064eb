"""The lowering in progress: module, builder, values, and who runs the code being emitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, protocol
from tiledsl.codegen.ir.plan import ParamSlot, Plan, RolePlan
from tiledsl.codegen.ir.types import BarrierType, Scalar, SharedTile, Tile, Type
from tiledsl.codegen.nvptx.debug import DebugInfo
from tiledsl.codegen.nvptx.llvm_ext import F32, I8, I32, SHARED_POINTER, VOID, llvm_name
from tiledsl.codegen.nvptx.registry import LOWERINGS
from tiledsl.codegen.nvptx.targets import Target
from tiledsl.codegen.nvptx.values import RegisterTile
from tiledsl.errors import InternalError, TargetNotSupported

if TYPE_CHECKING:
    from tiledsl.codegen.nvptx.control import Join, LoopTargets

SHARED_SYMBOL = "tiledsl_shared"

# Intrinsics whose names LLVM 22 knows. Another name would silently become an external function.
INTRINSICS = frozenset({
    "llvm.abs", "llvm.copysign", "llvm.exp2", "llvm.fabs", "llvm.floor", "llvm.fma",
    "llvm.fptosi.sat", "llvm.fptoui.sat", "llvm.maximum", "llvm.minimum", "llvm.smax", "llvm.smin",
    "llvm.sqrt", "llvm.umax", "llvm.umin", "llvm.nvvm.rsqrt.approx.f",
    "llvm.nvvm.e4m3x2.to.f16x2.rn", "llvm.nvvm.e5m2x2.to.f16x2.rn",
    "llvm.nvvm.ff.to.e4m3x2.rn", "llvm.nvvm.ff.to.e5m2x2.rn",
    "llvm.nvvm.ff2bf16x2.rn", "llvm.nvvm.ff2f16x2.rn", "llvm.nvvm.d2f.rz",
    "llvm.nvvm.read.ptx.sreg.tid.x", "llvm.nvvm.read.ptx.sreg.cluster.ctarank",
    *(f"llvm.nvvm.read.ptx.sreg.{what}.{axis}" for what in ("ctaid", "nctaid") for axis in "xyz"),
    "llvm.nvvm.shfl.sync.idx.i32",
})  # fmt: skip


@dataclass(slots=True)
class Where:
    """Who runs the code being emitted.

    Attributes:
        role: the role's plan, or None outside of roles.
        single: whether one thread alone runs it, so that electing means nothing.
        part: index of this thread's part (i32).
        leads_part: whether this thread acts for its part (i1).
        leads_role: whether this thread acts for the role, or outside of roles for the block (i1).
    """

    role: RolePlan | None
    single: bool
    part: Any
    leads_part: Any
    leads_role: Any


@dataclass
class Lowering:
    """One kernel on its way to LLVM.

    Attributes:
        builder: emits at the current place.
        values: what each IR value has become: an LLVM value; a ``RegisterTile``; the i32 address
            of a shared tile, barrier or buffer; the slot of a variable; the name of a pipeline;
            the number of a tensor parameter.
        slots: the LLVM argument of each machine parameter.
        shared: i32 address of dynamic shared memory.
        thread: i32 index of this thread in the block.
        group: i32 index of this thread's warpgroup in the block, uniform in a warp.
        where: who runs the code being emitted.
        drawn_in: what stands behind a loop and is emitted on the paths out of it, by loop.
        policies: L2 cache policies (i64) made in the entry block, by hint.
        lockstep: the words of global memory that loops in lockstep count in, by counter.
    """

    kernel: Kernel
    plan: Plan
    target: Target
    module: Any
    function: Any
    builder: Any
    debug: DebugInfo
    slots: dict[ParamSlot, Any] = field(default_factory=dict)
    values: dict[Value, Any] = field(default_factory=dict)
    shared: Any = None
    thread: Any = None
    group: Any = None
    where: Where | None = None
    drawn_in: dict[Op, DrawnIn] = field(default_factory=dict)
    policies: dict[str, Any] = field(default_factory=dict)
    lockstep: dict[str, Any] = field(default_factory=dict)
    # Targets of the terminators; the innermost is the last.
    ifs: list[Join] = field(default_factory=list)
    loops: list[LoopTargets] = field(default_factory=list)
    scopes: list[Join] = field(default_factory=list)
    exit: Join | None = None
    _intrinsics: dict[str, Any] = field(default_factory=dict)

    # ------------------------------------------------------------------------ program

    def block(self, block: Block) -> None:
        """Emit the operations of a block, as far as they can be reached."""
        place = 0
        while place < len(block.ops) and not self.ended:
            op = block.ops[place]
            place += 1
            drawn = draw_in(op, block.ops[place:])
            if drawn is not None:
                self.drawn_in[op] = drawn
                place += len(drawn.before) + 1
            self.operation(op)

    def operation(self, op: Op) -> None:
        function = LOWERINGS.get(type(op))
        if function is None:
            raise InternalError(f"{op.opcode} cannot be lowered for {self.target.name}", op.loc)
        if op.needs is not None and op.needs not in self.target.features:
            raise TargetNotSupported(
                f"{op.opcode} needs {op.needs!r}, which {self.target.name} lacks", op.loc
            )
        self.builder.debug_metadata = self.debug.location(op.loc)
        function(self, op)

    @property
    def ended(self) -> bool:
        """Whether the current place cannot be reached: a terminator stands before it."""
        return bool(self.builder.block.is_terminated)

    @property
    def runner(self) -> Where:
        assert self.where is not None
        return self.where

    # ------------------------------------------------------------------------- values

    def define(self, value: Value, lowered: Any) -> None:
        self.values[value] = lowered

    def get(self, value: Value) -> Any:
        """What an IR value has become."""
        try:
            return self.values[value]
        except KeyError:
            raise InternalError(
                f"%{value.name} ({value.type}) is used before it is made", value.loc
            ) from None

    def elements(self, value: Value) -> list[Any]:
        """What this thread holds of a register tile, one LLVM value an element."""
        tile = self.get(value)
        assert isinstance(tile, RegisterTile)
        return tile.unpack(self.builder)

    def label(self, name: str) -> Any:
        return self.function.append_basic_block(llvm_name(name))

    def new_variable(self, kind: Any, name: str) -> Any:
        """A stack slot, made in the entry block; LLVM turns it into registers."""
        with self.builder.goto_entry_block():
            return self.builder.alloca(kind, name=llvm_name(name))

    # ------------------------------------------------------------------- instructions

    def asm(
        self,
        text: str,
        operands: Sequence[tuple[str, Any]] = (),
        *,
        outputs: str = "",
        result: Any = VOID,
        memory: bool = True,
        convergent: bool = False,
        pure: bool = False,
    ) -> Any:
        """Inline PTX. ``$n`` counts the outputs first, then the operands.

        Args:
            text: one or more PTX instructions.
            operands: constraint and value of each input.
            outputs: constraints of the outputs, comma separated.
            result: LLVM type of the result, a struct for several outputs.
            memory: whether it reads or writes memory, so that no access may move across.
            convergent: whether threads run it together: LLVM must not copy it or make it
                depend on more conditions.
            pure: whether it only computes its outputs.
        """
        constraints = [outputs] if outputs else []
        constraints += [constraint for constraint, _ in operands]
        if memory and not pure:
            constraints.append("~{memory}")
        arguments = [value for _, value in operands]
        kind = ir.FunctionType(result, [value.type for value in arguments])
        code = ir.InlineAsm(kind, text, ",".join(constraints), side_effect=not pure)
        attributes = ("convergent", "nounwind") if convergent else ("nounwind",)
        return self.builder.call(code, arguments, attrs=attributes)

    def elected(
        self, text: str, operands: Sequence[tuple[str, Any]], elect: str, when: Any = None
    ) -> None:
        """One PTX instruction, run by the elected thread alone, and only when ``when`` is true.

        The condition is a predicate inside of the asm. A branch around it would do the same, but
        LLVM may fold its empty join into loop edges, and ptxas then takes the loop for divergent.
        """
        condition = when
        if not self.runner.single:
            leads = self.runner.leads_part if elect == "part" else self.runner.leads_role
            condition = leads if when is None else self.builder.and_(leads, when)
        if condition is None:
            self.asm(text, operands)
            return
        self.asm(f"@${len(operands)} {text}", [*operands, ("b", condition)])

    def intrinsic(
        self, name: str, result: Any, arguments: Sequence[Any], suffix: Any = None
    ) -> Any:
        """Call an LLVM intrinsic; ``suffix`` is the type or types its name ends with."""
        if name not in INTRINSICS:
            raise InternalError(f"{name} is not on the list of intrinsics that LLVM knows")
        kinds = suffix if isinstance(suffix, tuple) else () if suffix is None else (suffix,)
        full = ".".join([name, *(kind.intrinsic_name for kind in kinds)])
        if full not in self._intrinsics:
            kind = ir.FunctionType(result, [argument.type for argument in arguments])
            self._intrinsics[full] = ir.Function(self.module, kind, full)
        return self.builder.call(self._intrinsics[full], arguments)

    def struct_of_floats(self, count: int) -> Any:
        """A named struct of floats: the name keeps the text of the module short."""
        kind = self.module.context.get_identified_type(f"f32x{count}")
        if kind.is_opaque:
            kind.set_body(*[F32] * count)
        return kind

    # --------------------------------------------------------------------- shared memory

    def shared_at(self, name: str) -> Any:
        """i32 address of an object of ``plan.shared``."""
        return self.builder.add(self.shared, I32(self.plan.shared_offset(name)))


@dataclass(frozen=True, slots=True)
class DrawnIn:
    """What stands behind a loop and is emitted on the paths out of it (see ``LoopExit``).

    Attributes:
        before: operations between the loop and the wait.
        wait: the ``wgmma.wait`` for accumulators that the loop leaves in flight.
    """

    before: Sequence[Op]
    wait: protocol.WgmmaWait


def draw_in(loop: Op, behind: Sequence[Op]) -> DrawnIn | None:
    """What of the operations ``behind`` a loop belongs on the paths out of it, if anything.

    Between the loop and the wait may stand what is emitted without a branch and reads no
    accumulator in flight, such as the arrival that hands a turn on.
    """
    if not isinstance(loop, control.For | control.Loop):
        return None
    for number, op in enumerate(behind):
        if isinstance(op, protocol.WgmmaWait):
            if op.values and all(value in loop.results for value in op.values):
                return DrawnIn(behind[:number], op)
            return None
        plain = not op.blocks and not op.is_terminator and not isinstance(op, protocol.Wgmma)
        if not plain or any(not _in_one_register(result.type) for result in op.results):
            return None
        if any(isinstance(value.type, Tile) for value in op.operands):
            return None
    return None


def _in_one_register(kind: Type) -> bool:
    return isinstance(kind, Scalar | BarrierType | SharedTile)


def shared_base(module: Any, builder: Any) -> Any:
    """i32 address of dynamic shared memory, aligned to 1024 bytes.

    Addresses are integers from here on, used by inline PTX only: 64-bit pointers would cost
    registers, and LLVM must not reason about memory that asynchronous copies write.
    """
    symbol = ir.GlobalVariable(
        module, ir.ArrayType(I8, 0), SHARED_SYMBOL, addrspace=SHARED_POINTER.addrspace
    )
    symbol.linkage = "external"
    symbol.align = 1024
    return builder.ptrtoint(symbol, I32, name="shared")
