"""Kernels at protocol level that synchronise, made by hand or out of a lowered GEMM.

``Protocol`` plans what it builds; ``hand_over`` and ``share_stages`` put into a GEMM what the
passes would: a turn of a replica, and arrivals in other blocks of a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager

from tests.codegen.ir_samples import GemmShape, Sketch, gemm, lowered
from tiledsl.codegen.assemble import Assembled, assemble
from tiledsl.codegen.ir.core import Block, Builder, Level, Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, protocol, sync, tile
from tiledsl.codegen.ir.plan import NamedBarrier, Plan, RolePlan, SharedItem
from tiledsl.codegen.nvptx.lower import emit_llvm, emit_ptx
from tiledsl.codegen.passes.plan_params import plan_params

SHAPE = GemmShape()


class Protocol(Sketch):
    """A sketch of a kernel at protocol level."""

    def __init__(self, name: str = "sample") -> None:
        super().__init__(name)
        self.plans: list[RolePlan] = []

    @contextmanager
    def planned_role(self, plan: RolePlan):  # type: ignore[no-untyped-def]
        """A role whose place is given."""
        self.plans.append(plan)
        with self.role(plan.name, plan.warps):
            yield plan

    def barrier(self, name: str = "bar", index: int = 0, number: int = 1) -> Value:
        row = self.value(sync.MbarrierCreate(name, number), name)
        return self.value(sync.MbarrierAt(row, self.const(index)))

    def named(self, name: str = "meet") -> Value:
        return self.value(sync.NamedCreate(name), name)

    def planned(
        self,
        counts: Mapping[str, int] | None = None,
        named: Mapping[str, NamedBarrier] | None = None,
        cluster: tuple[int, ...] = (1,),
        entry_registers: int | None = None,
    ) -> Kernel:
        """The kernel with its plan: ``counts`` of raw barriers (1 where none is given)."""
        plan = Plan(self.plans, entry_registers=entry_registers)
        plan.threads = 32 * max(r.first_warp + r.warps for r in self.plans)
        plan.named = dict(named or {})
        kernel = self.kernel(level=Level.PROTOCOL, plan=plan, cluster=cluster)
        for op in kernel.body.walk():
            if isinstance(op, sync.MbarrierCreate):
                plan.counts[op.name, "raw"] = (counts or {}).get(op.name, 1)
                add_shared(plan, op.name, 8 * op.number)
            elif isinstance(op, sync.WordCreate):
                add_shared(plan, op.name, 4)
        plan_params(kernel)
        return kernel


def add_shared(plan: Plan, name: str, nbytes: int) -> None:
    """One more object in shared memory, behind all others."""
    offset = -(-plan.shared_bytes // 8) * 8
    plan.shared.append(SharedItem(name, offset, nbytes, 8, "for a test"))
    plan.shared_bytes = offset + nbytes


def ptx_of(kernel: Kernel) -> str:
    return emit_ptx(emit_llvm(kernel), "sm_90a")[1]


def machine_code(kernel: Kernel) -> Assembled:
    """As ptxas makes it; nothing may be said about it."""
    found = assemble(ptx_of(kernel), "sm_90a", kernel.name, assembler="ptxas")
    assert found.resources.warnings == (), found.log
    assert found.resources.stack_bytes == 0
    return found


# ---------------------------------------------------------------------------- out of a GEMM


def _find(block: Block, kind: type[Op]) -> tuple[Block, int]:
    """The block and the place in it of the innermost first operation of a kind."""
    for number, op in enumerate(block.ops):
        if isinstance(op, kind):
            return block, number
        for nested in op.blocks:
            try:
                return _find(nested, kind)
            except LookupError:
                pass
    raise LookupError(kind)


def role_body(kernel: Kernel, name: str) -> Block:
    return next(o.body for o in kernel.body.ops if isinstance(o, control.Role) and o.name == name)


def hand_over(shape: GemmShape = SHAPE, *, sync_role: bool = False) -> Kernel:
    """A GEMM whose consumer runs its k loop in turns: it takes its cursor from words of shared
    memory, and hands it on while its last products are still being computed."""
    kernel = lowered(gemm(shape))
    assert kernel.plan is not None
    top = Builder(Block(), kernel.loc)
    turns = top.value(sync.MbarrierCreate("turns", 2), "turns")
    word = top.value(sync.WordCreate("cursor", 1 << 16), "cursor")
    at = next(n for n, op in enumerate(kernel.body.ops) if isinstance(op, control.Role))
    kernel.body.ops[at:at] = top.block.ops
    kernel.plan.counts["turns", "raw"] = 1
    add_shared(kernel.plan, "turns", 16)
    add_shared(kernel.plan, "cursor", 4)

    body = role_body(kernel, "mma")
    if sync_role:
        kernel.plan.role("mma").role_barrier = 15
    cursors = {op.name: op.result for op in body.walk() if isinstance(op, protocol.LocalNew)}
    slot, parity = cursors["pipeline.consumer.slot"], cursors["pipeline.consumer.parity"]
    inner = body
    while not any(isinstance(op, protocol.WgmmaWait) for op in inner.ops):
        inner = next(op.body for op in inner.ops if isinstance(op, control.For))
    loop = next(n for n, op in enumerate(inner.ops) if isinstance(op, control.For))
    assert isinstance(inner.ops[loop + 1], protocol.WgmmaWait)

    s = Sketch()
    with s.inside(Block()) as behind:
        if sync_role:
            s.add(protocol.RoleSync())
        held = s.value(protocol.LocalGet(slot))
        phase = s.op("shl", s.value(protocol.LocalGet(parity)), 16)
        s.add(sync.WordSet(word, s.op("or", held, phase)))
        following = s.value(sync.MbarrierAt(turns, s.const(1)))
        s.add(protocol.MbarrierArrive(following, (), "role"))
    with s.inside(Block()) as before:
        mine = s.value(sync.MbarrierAt(turns, s.const(0)))
        s.add(protocol.MbarrierWait(mine, s.const(1)))
        found = s.value(sync.WordGet(word))
        s.add(protocol.LocalSet(slot, s.op("and", found, 0xFFFF)))
        s.add(protocol.LocalSet(parity, s.op("shr", found, 16)))
    inner.ops[loop + 1 : loop + 1] = behind.ops
    inner.ops[loop:loop] = before.ops
    return kernel


def share_stages(
    shape: GemmShape = SHAPE,
    cluster: tuple[int, ...] = (2, 1),
    axes: Sequence[int] = (0,),
) -> Kernel:
    """A GEMM in a cluster whose consumers free each slot in every block that shares ``axes``."""
    kernel = lowered(gemm(shape))
    assert kernel.plan is not None
    kernel.cluster = cluster
    for op in kernel.body.walk():
        if isinstance(op, protocol.MbarrierArrive):
            op.axes = tuple(axes)
        elif isinstance(op, tile.PipelineCreate):
            op.axes = tuple(axes)
    peers = 1 + sum(cluster[axis] - 1 for axis in axes)
    kernel.plan.counts["pipeline", "empty"] *= peers
    return kernel
