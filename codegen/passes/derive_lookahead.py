"""How far a producer runs ahead: the stages that it must get before it fills the oldest of them.

A producer that takes one stage at a time fills it before it waits for the next: lookahead 1. One
that holds two stages of a ring at once may fill neither before it has both. One that drains the
ring and then goes on needs every stage back. ``schedule_async`` reads the number: a consumer may
put releases off only as long as the producer can still fill the stage that the consumer waits for.
Runs at tile level, where stages can still be told apart.
"""

from __future__ import annotations

from tiledsl.codegen.checks.paths import PathWalker
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import control, tile

Held = frozenset[Value]  # producer stages that were acquired and not yet released


def derive_lookahead(kernel: Kernel) -> None:
    """Set ``lookahead`` of every ``pipeline.create``."""
    for _, body in roles_of(kernel):
        _HeldWalker().walk(body, frozenset())
        for op in body.walk():
            if isinstance(op, tile.Drain) and _goes_on(body, op.ring):
                create = _create(op.ring)
                create.lookahead = create.ring.stages


def _create(ring: Value) -> tile.PipelineCreate:
    assert isinstance(ring.owner, tile.PipelineCreate)
    return ring.owner


def _goes_on(body: Block, ring: Value) -> bool:
    """Whether an acquire may follow a drain of the ring, below it or in the next iteration."""
    if _acquires_after_drain(body, ring):
        return True
    loops = [op for op in body.walk() if isinstance(op, control.For | control.Loop)]
    return any(
        any(_uses(op, tile.Drain, ring) for op in loop.body.walk())
        and any(_uses(op, tile.AcquireProducer, ring) for op in loop.body.walk())
        for loop in loops
    )


def _acquires_after_drain(body: Block, ring: Value) -> bool:
    drained = False
    for op in body.walk():
        if drained and _uses(op, tile.AcquireProducer, ring):
            return True
        drained = drained or _uses(op, tile.Drain, ring)
    return False


def _uses(op: Op, kind: type[tile.Drain] | type[tile.AcquireProducer], ring: Value) -> bool:
    return isinstance(op, kind) and op.ring is ring


class _HeldWalker(PathWalker[Held]):
    """Follows the producer stages that are held, and notes the most of one ring."""

    def transfer(self, op: Op, state: Held) -> Held:
        match op:
            case tile.AcquireProducer():
                create = _create(op.ring)
                same = [stage for stage in state if _ring_of(stage) is op.ring]
                create.lookahead = max(create.lookahead, len(same) + 1)
                return state | {op.result}
            case tile.Release():
                return state - {op.stage}
        return state

    def join(self, op: Op, arrivals: list[tuple[Op, Held]]) -> Held:
        return frozenset().union(*(state for _, state in arrivals))

    def repeat(self, loop: Op, entry: Held, arrivals: list[tuple[Op, Held]]) -> Held:
        return entry


def _ring_of(stage: Value) -> Value:
    assert isinstance(stage.owner, tile.AcquireProducer)
    return stage.owner.ring
