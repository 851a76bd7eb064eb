"""What the schedule of wgmma groups must know about other operations."""

from __future__ import annotations

from tiledsl.codegen.checks.stages import Guards
from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.ops import arith, copy, memory, protocol, sync, tile
from tiledsl.codegen.ir.types import RingType


def ring_barrier(op: Op) -> protocol.RingBarrier | None:
    """The barrier of a ring that ``op`` waits for or arrives on, if that is what it does."""
    if isinstance(op, protocol.MbarrierWait | protocol.MbarrierArrive):
        barrier = op.barrier.owner
        return barrier if isinstance(barrier, protocol.RingBarrier) else None
    return None


def waits_on(op: Op, which: str) -> protocol.RingBarrier | None:
    """The full or empty barrier of a ring that ``op`` waits for."""
    barrier = ring_barrier(op)
    waits = isinstance(op, protocol.MbarrierWait)
    return barrier if waits and barrier is not None and barrier.which == which else None


def releases(op: Op) -> protocol.RingBarrier | None:
    """The empty barrier on which ``op`` frees tiles of a ring."""
    barrier = ring_barrier(op)
    arrives = isinstance(op, protocol.MbarrierArrive)
    if arrives and barrier is not None and barrier.which == "empty" and not _is_bare(barrier.ring):
        return barrier
    return None


def _is_bare(ring: Value) -> bool:
    """A ring without tiles guards something that is not known here."""
    return isinstance(ring.type, RingType) and not ring.type.arrays


def hands_on(op: Op) -> bool:
    """Whether ``op`` may be part of handing a turn on: it says nothing about groups in flight."""
    if isinstance(op, protocol.MbarrierArrive):
        at = op.barrier.owner
        row = at.barriers.owner if isinstance(at, sync.MbarrierAt) else None
        return isinstance(row, sync.MbarrierCreate) and row.turns
    pure = (arith.Constant, arith.Binary, arith.Select, arith.Compare)
    turn = (
        sync.MbarrierAt, sync.WordSet, protocol.LocalGet, protocol.LocalSet,
        protocol.RoleSync, protocol.FenceProxyAsync,
    )  # fmt: skip
    return isinstance(op, pure + turn)


def must_be_done(op: Op) -> bool:
    """Whether ``op`` tells others that all above it is done, or writes what a group may read."""
    match op:
        case protocol.MbarrierArrive():
            barrier = ring_barrier(op)
            return _is_bare(barrier.ring) if barrier is not None else not hands_on(op)
        case protocol.MbarrierArriveExpectTx():
            return not isinstance(op.barrier.owner, protocol.RingBarrier)
        case sync.NamedSync() | sync.NamedArrive() | sync.ClusterSync():
            return True
        case memory.SharedStore() | tile.TmaLoad() | copy.AsyncCopy() | copy.BulkLoad():
            return not isinstance(op.tile.owner, tile.PayloadTile)
        case copy.TmaLoadIm2col():
            return not isinstance(op.tile.owner, tile.PayloadTile)
    return False


def rings_read(op: tile.Mma, guards: Guards) -> frozenset[Value]:
    """The rings whose tiles a product may read, whatever branch or loop they came through."""
    return frozenset(guards.rings(op.a) | guards.rings(op.b))


def starves(ring: Value, held: int) -> bool:
    """Whether a role that holds ``held`` slots leaves the producer too few to fill the next one."""
    assert isinstance(ring.owner, tile.PipelineCreate)
    return held + ring.owner.lookahead > ring.owner.ring.stages


def chain_root(acc: Value) -> Value:
    """The accumulator that the first mma of a chain continues; all of it lives in its registers."""
    while isinstance(acc.owner, tile.Mma):
        acc = acc.owner.acc
    return acc
