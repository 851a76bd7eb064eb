"""The kernel around its roles: parameters, attributes, barrier initialisation, exit."""

from __future__ import annotations

import re
from typing import Any

from llvmlite import ir

from tiledsl.codegen.ir.core import Effect, Level
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, sync, tile
from tiledsl.codegen.ir.plan import ParamSlot, Plan
from tiledsl.codegen.ir.types import TensorType
from tiledsl.codegen.nvptx import (
    arith,
    async_copy,
    barrier,
    bulk_load,
    cluster,
    fragments,
    global_tiles,
    lockstep,
    memory,
    printf,
    shared_tiles,
    staging,
    tma,
    wgmma,
    words,
)
from tiledsl.codegen.nvptx.casts import from_bits
from tiledsl.codegen.nvptx.context import Lowering, Where, shared_base
from tiledsl.codegen.nvptx.control import Join
from tiledsl.codegen.nvptx.debug import DebugInfo
from tiledsl.codegen.nvptx.dispatch import Dispatch
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
FAMILIES = (
    arith,
    async_copy,
    barrier,
    bulk_load,
    cluster,
    fragments,
    global_tiles,
    lockstep,
    memory,
    printf,
    shared_tiles,
    staging,
    tma,
    wgmma,
    words,
)

TRIPLE = "nvptx64-nvidia-cuda"
MAX_ARRIVALS = 2**20 - 1  # that an mbarrier counts
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*\Z", re.ASCII)


def lower_kernel(kernel: Kernel) -> str:
    """LLVM IR text of a kernel at protocol level."""
    target = get_target(kernel.target, kernel.loc)
    plan = _checked_plan(kernel)
    cluster.check_cluster(kernel, target)
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
    attributes = {
        # Both together fix the registers at entry, without which ptxas ignores setmaxnreg (H1).
        "nvvm.maxntid": str(plan.threads),
        "nvvm.minctasm": "1",
        "denormal-fp-math-f32": "ieee,ieee",
    }
    if kernel.cluster_size > 1:
        attributes["nvvm.cluster_dim"] = ",".join(map(str, kernel.cluster_dims))
    function.attributes = FunctionAttributes(("nounwind",), attributes)
    for number, (argument, slot) in enumerate(zip(function.args, plan.params, strict=True)):
        argument.name = llvm_name(_parameter_name(kernel, slot, number))
        if slot.kind == "tensormap":
            argument.attributes = TensorMapAttributes()
    return function


# ------------------------------------------------------------------------------- the body


class _Entry:
    """Emits the kernel's body."""

    def __init__(self, low: Lowering) -> None:
        self.low = low
        self.plan = low.plan
        body = low.kernel.body
        self.roles = {op.name: op.body for op in body.ops if isinstance(op, control.Role)}
        self.barriers = [
            op for op in body.walk() if isinstance(op, tile.PipelineCreate | sync.MbarrierCreate)
        ]
        self.words = [op for op in body.walk() if isinstance(op, sync.WordCreate)]
        # Whether other blocks signal barriers of this one, or write where these guard.
        self.shares = bool(self.barriers) and low.kernel.cluster_size > 1
        self.met = not self.shares  # whether this thread knows that all blocks are ready

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
            self._await_cluster()
            bodies = self.roles or {role.name: low.kernel.body for role in self.plan.roles}
            Dispatch(low, bodies, main=not self.roles).emit()
        low.exit.enter()
        low.builder.debug_metadata = low.debug.location(low.kernel.loc)
        if not low.ended:
            if self.shares:
                cluster.leave_together(low)
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
        """One thread fetches the tensor maps and initialises all barriers; then all go on.

        In a cluster all threads of all its blocks go on together, but only where they need the
        barriers: see ``_await_cluster``.
        """
        low, builder = self.low, self.low.builder
        maps = [a for s, a in low.slots.items() if s.kind == "tensormap"]
        if not self.barriers and not self.words and not maps:
            return
        inside, behind = low.label("init"), low.label("start")
        builder.cbranch(builder.icmp_unsigned("==", low.thread, I32(0)), inside, behind)
        builder.position_at_end(inside)
        for tensor_map in maps:
            low.asm("prefetch.tensormap [$0];", [("l", tensor_map)])
        for op in self.barriers:
            self._init_barriers(op)
        for word in self.words:
            words.init_word(low, word)
        if self.words and self.shares:
            # What follows then orders nothing by itself (it is relaxed).
            low.asm("fence.acq_rel.cluster;")
        if self.barriers:
            low.asm("fence.mbarrier_init.release.cluster;")
        builder.branch(behind)
        builder.position_at_end(behind)
        if self.shares:
            low.asm(f"bar.warp.sync 0xffffffff; {cluster.ARRIVE_RELAXED}", convergent=True)
        elif self.barriers or self.words:
            low.asm("bar.sync 0;", convergent=True)

    def _await_cluster(self) -> None:
        """Wait until every block of the cluster has initialised its barriers."""
        if not self.met:
            self.met = True
            self.low.asm(cluster.WAIT, convergent=True)

    def _init_barriers(self, op: tile.PipelineCreate | sync.MbarrierCreate) -> None:
        low = self.low
        if isinstance(op, sync.MbarrierCreate):
            rows = [("raw", op.name, op.number)]
        else:
            rows = [(which, f"{op.name}.{which}", op.ring.stages) for which in ("full", "empty")]
        for which, item, number in rows:
            count = self.plan.counts.get((op.name, which), 0)
            if not 1 <= count <= MAX_ARRIVALS:
                raise InvalidValue(
                    f"a phase of the mbarriers {item!r} is completed by {count} arrivals: expected"
                    f" 1 to {MAX_ARRIVALS}",
                    op.loc,
                )
            inits = [
                f"mbarrier.init.shared::cta.b64 [$0+{MBARRIER_BYTES * n}], {count};"
                for n in range(number)
            ]
            low.asm(" ".join(inits), [("r", low.shared_at(item))])

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
                if op.effect is not Effect.PURE:
                    self._await_cluster()
                low.operation(op)
            elif not op.is_terminator:
                raise SyntaxNotSupported(
                    "the roles of a kernel run side by side, so nothing can run behind them:"
                    " expected the role blocks last",
                    op.loc,
                    notes=((f"role {seen.name!r} stands before it", seen.loc),),
                    hint="move this before the first role, or into a role",
                )
