"""How far a producer runs ahead: the stages that it must get before it fills the oldest of them.

A producer that takes one stage at a time fills it before it waits for the next: lookahead 1. One
that holds two stages of a ring at once may fill neither before it has both. One that drains the
ring and then goes on needs every stage back, and of one whose stages are filled by hand nothing is
known. ``schedule_async`` reads the number: a consumer may put releases off only as long as the
producer can still fill the stage that the consumer waits for. Runs at tile level, where stages can
still be told apart.
"""

from __future__ import annotations

from tiledsl.codegen.checks.paths import PathWalker
from tiledsl.codegen.checks.stages import Guards
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import control, protocol, ring, tile
from tiledsl.codegen.passes.ring_use import PRODUCER

Held = frozenset[Value]  # producer stages that were acquired and not yet filled


def derive_lookahead(kernel: Kernel) -> None:
    """Set ``lookahead`` of every ``pipeline.create``."""
    for _, body in roles_of(kernel):
        _HeldWalker().walk(body, frozenset())
        for op in body.walk():
            match op:
                case tile.Drain() if _goes_on(body, op.ring):
                    _need_all(op.ring)
                case protocol.RingBarrier(which="full"):
                    if Guards(body).stage(op.result) is None:
                        _need_all(op.ring)  # to arrive there, or for loads, at any time
                case ring.Step() if op.side == PRODUCER:
                    if not any(_on(one, op.ring, ring.Signal) for one in body.walk()):
                        _need_all(op.ring)
                case protocol.MbarrierArrive() | protocol.MbarrierArriveExpectTx():
                    if isinstance(op.barrier.owner, tile.StageBarrier):
                        _by_hand(op.barrier.owner.stage)
                case tile.Release(signal=False):
                    _by_hand(op.stage)


def _create(on: Value) -> tile.PipelineCreate:
    assert isinstance(on.owner, tile.PipelineCreate)
    return on.owner


def _need_all(on: Value) -> None:
    create = _create(on)
    create.lookahead = create.ring.stages


def _by_hand(stage: Value) -> None:
    """A stage whose arrival may come after its release, from anywhere."""
    if isinstance(stage.owner, tile.AcquireProducer) and not stage.owner.nbytes:
        _need_all(stage.owner.ring)


def _goes_on(body: Block, on: Value) -> bool:
    """Whether an acquire may follow a drain of the ring, below it or in the next iteration."""
    if _acquires_after_drain(body, on):
        return True
    loops = [op for op in body.walk() if isinstance(op, control.For | control.Loop)]
    return any(
        any(_on(op, on, tile.Drain) for op in loop.body.walk())
        and any(_acquires(op, on) for op in loop.body.walk())
        for loop in loops
    )


def _acquires_after_drain(body: Block, on: Value) -> bool:
    drained = False
    for op in body.walk():
        if drained and _acquires(op, on):
            return True
        drained = drained or _on(op, on, tile.Drain)
    return False


def _acquires(op: Op, on: Value) -> bool:
    by_hand = isinstance(op, ring.Wait) and op.side == PRODUCER and op.ring is on
    return by_hand or _on(op, on, tile.AcquireProducer)


def _on(op: Op, on: Value, kind: type[Op]) -> bool:
    return isinstance(op, kind) and op.operands[0] is on


class _HeldWalker(PathWalker[Held]):
    """Follows the producer stages that are held, and notes the most of one ring."""

    def transfer(self, op: Op, state: Held) -> Held:
        match op:
            case tile.AcquireProducer():
                create = _create(op.ring)
                same = [stage for stage in state if _ring_of(stage) is op.ring]
                create.lookahead = max(create.lookahead, len(same) + 1)
                return state | {op.result}
            case tile.Release() | ring.StageArrive():
                return state - {op.stage}
        return state

    def join(self, op: Op, arrivals: list[tuple[Op, Held]]) -> Held:
        return frozenset().union(*(state for _, state in arrivals))

    def repeat(self, loop: Op, entry: Held, arrivals: list[tuple[Op, Held]]) -> Held:
        return entry


def _ring_of(stage: Value) -> Value:
    assert isinstance(stage.owner, tile.AcquireProducer)
    return stage.owner.ring
