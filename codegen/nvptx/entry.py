"""The kernel around its roles: parameters, barrier initialisation, dispatch on warps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from tiledsl.codegen.ir.core import Block, Effect, Level
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, tile
from tiledsl.codegen.ir.plan import ParamSlot, Plan, RolePlan
from tiledsl.codegen.ir.types import TensorType
from tiledsl.codegen.nvptx import arith, barrier, memory, printf, staging, tma, wgmma
from tiledsl.codegen.nvptx.casts import from_bits
from tiledsl.codegen.nvptx.context import Lowering, Where, shared_base
from tiledsl.codegen.nvptx.control import Join
from tiledsl.codegen.nvptx.debug import DebugInfo
from tiledsl.codegen.nvptx.llvm_ext import (
    GLOBAL_POINTER,
    I32,
    I64,
    POINTER,
    VOID,
    FunctionAttributes,
    TensorMapAttributes,
    llvm_name,
)
from tiledsl.codegen.nvptx.memory import MBARRIER_BYTES
from tiledsl.codegen.nvptx.targets import get_target
from tiledsl.errors import InternalError, InvalidValue, SyntaxNotSupported

# Importing a family registers its lowerings.
FAMILIES = (arith, barrier, memory, printf, staging, tma, wgmma)

TRIPLE = "nvptx64-nvidia-cuda"
WARPGROUP_WARPS = 4
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*\Z", re.ASCII)


def lower_kernel(kernel: Kernel) -> str:
    """LLVM IR text of a kernel at protocol level."""
    target = get_target(kernel.target, kernel.loc)
    plan = _checked_plan(kernel)
    module = ir.Module(kernel.name, context=ir.Context())
    module.triple = TRIPLE
    debug = DebugInfo(module, kernel.name, kernel.loc)
    function = _declare(module, kernel, plan)
    function.set_metadata("dbg", debug.kernel)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    builder.debug_metadata = debug.location(kernel.loc)
    low = Lowering(kernel, plan, target, module, function, builder, debug)
    _Entry(low).emit()
    return str(module)


def _checked_plan(kernel: Kernel) -> Plan:
    if kernel.level is not Level.PROTOCOL or kernel.plan is None:
        raise InternalError(
            f"kernel {kernel.name!r} is at {kernel.level.value} level: expected protocol level"
            " with a plan",
            kernel.loc,
        )
    if not _IDENTIFIER.match(kernel.name) or "cutlass" in kernel.name.lower():
        # ptxas changes its heuristics for kernels whose name contains "cutlass" (hazard H14).
        raise InvalidValue(
            f"a kernel cannot be called {kernel.name!r}: expected letters, digits and"
            " underscores, without 'cutlass' in them, which ptxas treats specially",
            kernel.loc,
            hint="rename the function",
        )
    return kernel.plan


# -------------------------------------------------------------------------- parameters


def _parameter_type(slot: ParamSlot) -> Any:
    match slot.kind:
        case "tensormap":
            return POINTER
        case "pointer":
            return GLOBAL_POINTER
        case "dim":
            return I32
        case "stride":
            return I64
        case "scalar" if slot.dtype is not None:
            return ir.IntType(slot.dtype.bits)  # its bits, whatever it is
        case _:
            raise InternalError(f"unknown machine parameter {slot}")


def _parameter_name(kernel: Kernel, slot: ParamSlot, number: int) -> str:
    base = kernel.params[slot.param].name
    return base if slot.kind == "scalar" else f"{base}.{slot.kind}.{number}"


def _declare(module: Any, kernel: Kernel, plan: Plan) -> Any:
    """The function with its machine parameters and attributes."""
    kinds = [_parameter_type(slot) for slot in plan.params]
    function = ir.Function(module, ir.FunctionType(VOID, kinds), kernel.name)
    function.calling_convention = "ptx_kernel"
    function.attributes = FunctionAttributes(
        ("nounwind",),
        {
            # Both together fix the registers at entry, without which ptxas ignores setmaxnreg (H1).
            "nvvm.maxntid": str(plan.threads),
            "nvvm.minctasm": "1",
            "denormal-fp-math-f32": "ieee,ieee",
        },
    )
    for number, (argument, slot) in enumerate(zip(function.args, plan.params, strict=True)):
        argument.name = llvm_name(_parameter_name(kernel, slot, number))
        if slot.kind == "tensormap":
            argument.attributes = TensorMapAttributes()
    return function


# ----------------------------------------------------------------------------- dispatch


@dataclass(slots=True)
class _Segment:
    """Neighbouring warpgroups that run the same: ``first`` ... ``end`` - 1."""

    first: int
    end: int
    roles: list[RolePlan]
    registers: int | None


def segments(plan: Plan) -> list[_Segment]:
    """Which warpgroups run what, in order.

    Roles of one thread share a warpgroup, and may own idle warps in the next; all warps of a
    warpgroup change its register count together, idle ones too.
    """
    found = []
    groups = -(-plan.threads // 128)
    group = 0
    while group < groups:
        warps = range(group * WARPGROUP_WARPS, (group + 1) * WARPGROUP_WARPS)
        here = [
            r
            for r in plan.roles
            if r.first_warp < warps.stop and warps.start < r.first_warp + r.warps
        ]
        end = group + 1
        if any(role.mode == "warpgroup" for role in here):
            if len(here) > 1 or here[0].first_warp != warps.start:
                raise InternalError(f"roles share warpgroup {group} with {here[0].name!r}")
            end = group + here[0].parts
            starting = here
        else:
            starting = [role for role in here if role.first_warp in warps]
        budgets = {role.registers for role in here}
        if len(budgets) > 1:
            raise InternalError(f"roles of warpgroup {group} disagree on registers: {budgets}")
        found.append(_Segment(group, end, starting, next(iter(budgets), None)))
        group = end
    return found


class _Entry:
    """Emits the kernel's body."""

    def __init__(self, low: Lowering) -> None:
        self.low = low
        self.plan = low.plan
        self.roles = {op.name: op for op in low.kernel.body.ops if isinstance(op, control.Role)}

    def emit(self) -> None:
        low = self.low
        low.exit = Join(low, (), "exit")
        self._bind_parameters()
        low.thread = low.intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", I32, ())
        if self.plan.shared:
            low.shared = shared_base(low.module, low.builder)
        self._prepare()
        if self.roles:
            self._before_roles()
        if not low.ended:
            self._dispatch()
        low.exit.enter()
        low.builder.debug_metadata = low.debug.location(low.kernel.loc)
        if not low.ended:
            low.builder.ret_void()

    def _bind_parameters(self) -> None:
        low = self.low
        for number, param in enumerate(low.kernel.params):
            if isinstance(param.type, TensorType):
                low.define(param.value, number)
        for argument, slot in zip(low.function.args, self.plan.params, strict=True):
            low.slots[slot] = argument
            if slot.kind == "scalar":
                assert slot.dtype is not None
                value = low.kernel.params[slot.param].value
                low.define(value, from_bits(low, argument, slot.dtype))

    def _prepare(self) -> None:
        """One thread fetches the tensor maps and initialises all barriers; then all go on."""
        low, builder = self.low, self.low.builder
        rings = [op for op in low.kernel.body.walk() if isinstance(op, tile.PipelineCreate)]
        maps = [a for s, a in low.slots.items() if s.kind == "tensormap"]
        if not rings and not maps:
            return
        inside, behind = low.label("init"), low.label("start")
        builder.cbranch(builder.icmp_unsigned("==", low.thread, I32(0)), inside, behind)
        builder.position_at_end(inside)
        for tensor_map in maps:
            low.asm("prefetch.tensormap [$0];", [("l", tensor_map)])
        for ring in rings:
            self._init_barriers(ring)
        if rings:
            low.asm("fence.mbarrier_init.release.cluster;")
        builder.branch(behind)
        builder.position_at_end(behind)
        if rings:
            low.asm("bar.sync 0;", convergent=True)

    def _init_barriers(self, ring: tile.PipelineCreate) -> None:
        low = self.low
        for which in ("full", "empty"):
            count = self.plan.counts[ring.name, which]
            inits = [
                f"mbarrier.init.shared::cta.b64 [$0+{MBARRIER_BYTES * n}], {count};"
                for n in range(ring.ring.stages)
            ]
            low.asm(" ".join(inits), [("r", low.shared_at(f"{ring.name}.{which}"))])

    def _before_roles(self) -> None:
        """What stands outside of the roles: all warps run it."""
        low = self.low
        low.where = Where(
            role=None,
            single=False,
            part=I32(0),
            leads_part=low.builder.icmp_unsigned("==", low.thread, I32(0)),
            leads_role=low.builder.icmp_unsigned("==", low.thread, I32(0)),
        )
        seen: control.Role | None = None
        for op in low.kernel.body.ops:
            if low.ended:
                return
            if isinstance(op, control.Role):
                seen = op
            elif seen is None or op.effect in (Effect.PURE, Effect.READ):
                low.operation(op)
            elif not op.is_terminator:
                raise SyntaxNotSupported(
                    "the roles of a kernel run side by side, so nothing can run behind them:"
                    " expected the role blocks last",
                    op.loc,
                    notes=((f"role {seen.name!r} stands before it", seen.loc),),
                    hint="move this before the first role, or into a role",
                )

    def _dispatch(self) -> None:
        """A chain of branches on the warpgroup's index, which ptxas must know to be uniform."""
        low = self.low
        found = segments(self.plan)
        low.group = I32(0)
        if len(found) > 1 or found[0].end > 1:
            low.group = self._uniform(low.builder.lshr(low.thread, I32(7)))
        for segment in found[:-1]:
            mine, others = low.label(_label(segment.roles)), low.label("dispatch")
            is_mine = low.builder.icmp_unsigned("<", low.group, I32(segment.end))
            low.builder.cbranch(is_mine, mine, others)
            low.builder.position_at_end(mine)
            self._segment(segment)
            low.builder.position_at_end(others)
        self._segment(found[-1])

    def _uniform(self, value: Any) -> Any:
        """Lane 0's value: the same number, but known to be the same in the whole warp."""
        arguments = (I32(-1), value, I32(0), I32(31))
        return self.low.intrinsic("llvm.nvvm.shfl.sync.idx.i32", I32, arguments)

    def _segment(self, segment: _Segment) -> None:
        low = self.low
        self._set_registers(segment.registers)
        for role in segment.roles:
            if role.mode == "warpgroup":
                self._run(role, self._warpgroup(role))
                return
            mine, others = low.label(f"role.{role.name}"), low.label("others")
            first = I32(role.first_warp * 32)
            low.builder.cbranch(low.builder.icmp_unsigned("==", low.thread, first), mine, others)
            low.builder.position_at_end(mine)
            self._run(role, Where(role, True, I32(0), None, None))
            low.builder.position_at_end(others)
        self._leave()

    def _set_registers(self, registers: int | None) -> None:
        entry = self.plan.entry_registers
        if registers is None or entry is None or registers == entry:
            return
        if "setmaxnreg" not in self.low.target.features:
            return
        way = "inc" if registers > entry else "dec"
        self.low.asm(f"setmaxnreg.{way}.sync.aligned.u32 {registers};", convergent=True)

    def _warpgroup(self, role: RolePlan) -> Where:
        low, builder = self.low, self.low.builder
        part: Any = I32(0)
        if role.parts > 1:
            first = role.first_warp // WARPGROUP_WARPS
            part = builder.sub(low.group, I32(first)) if first else low.group
        thread = builder.and_(low.thread, I32(127))
        return Where(
            role=role,
            single=False,
            part=part,
            leads_part=builder.icmp_unsigned("==", thread, I32(0)),
            leads_role=builder.icmp_unsigned("==", low.thread, I32(role.first_warp * 32)),
        )

    def _run(self, role: RolePlan, where: Where) -> None:
        self.low.where = where
        self.low.block(self._body(role))
        if not self.low.ended:
            self._leave()

    def _body(self, role: RolePlan) -> Block:
        if not self.roles:
            return self.low.kernel.body
        return self.roles[role.name].body

    def _leave(self) -> None:
        assert self.low.exit is not None
        self.low.exit.jump()


def _label(roles: Sequence[RolePlan]) -> str:
    return "warpgroup." + ".".join(role.name for role in roles) if roles else "idle"
