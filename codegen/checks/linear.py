"""Linear stages: what is acquired is released exactly once, on every path.

Tile level, by dataflow over the structured IR of each role, through inlined helpers and both
styles (``with`` and flat), for a stage that is: never released, released on one path only or in a
loop, released twice, used after its release (also by the caller of a helper that released it) or
behind its arrival, acquired beyond the ring's depth, or carried out of the branch or iteration that
acquired it. The same walk sees that each stage has its arrival: by the release, or by one
``stage.arrive()``; and that no drain waits for a stage that its own role still holds.

A ring through which a role moves by hand (``wait_full``, ``consumer_step`` ...) is the user's own
there: its tiles need no handle. Handles of the same ring are checked all the same: both styles move
one cursor, so that a role may mix them. Only a step behind an acquire, without a wait of its own
between, is refused: the acquire has stepped already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiledsl.codegen.checks import linear_errors as errors
from tiledsl.codegen.checks.paths import PathWalker
from tiledsl.codegen.checks.stages import (
    ACQUIRES,
    BULK_LOADS,
    COPIES,
    ON_SIDE,
    READS,
    WRITES,
    Guards,
    arrays_of,
    explicit_count,
    ring_and_side,
    ring_of,
    side_of,
)
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel, outside_roles, roles_of
from tiledsl.codegen.ir.ops import control, copy, memory, protocol, ring, tile
from tiledsl.codegen.ir.types import BarrierType, RingType, SharedTile, StageType
from tiledsl.errors import StageError

# Operations that touch what a stage guards. Index arithmetic on a stage's number may outlive it.
_USES = (
    *READS, *WRITES, tile.StageIndex, tile.StageBarrier, tile.ExpectBytes, ring.StageArrive,
    protocol.MbarrierArrive, protocol.MbarrierArriveExpectTx,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Held:
    """What is known about one acquired stage."""

    acquire: Op
    release: Op | None = None  # where it was released, once it was
    arrive: Op | None = None  # where ``stage.arrive()`` was called, once it was
    load: Op | None = None  # one of the bulk loads on its barrier
    drained: Op | None = None  # a drain that waits for its consumers, while it is held
    waited: bool = False  # the role has waited for the slot behind it since


State = dict[Value, _Held]


def check_linear_stages(kernel: Kernel) -> None:
    """Raise ``StageError`` at the user's line unless every stage is used linearly."""
    _check_outside_roles(kernel)
    for name, body in roles_of(kernel):
        walker = _LinearWalker(name, body)
        end = walker.walk(body, {})
        if end is not None:
            walker.finish(None, end)


def _check_outside_roles(kernel: Kernel) -> None:
    roles = [op for op in kernel.body.ops if isinstance(op, control.Role)]
    if not roles:
        return
    for op in outside_roles(kernel):
        if isinstance(op, (*ACQUIRES, *ON_SIDE, tile.Drain)):
            raise StageError(
                "a pipeline stage can only be acquired inside of a role in a kernel that has roles",
                op.loc,
                hint=f"move this into one of the roles: {', '.join(r.name for r in roles)}",
            )


class _LinearWalker(PathWalker[State]):
    def __init__(self, role: str, body: Block) -> None:
        super().__init__()
        self.role, self.body = role, body
        self.guards = Guards(body)
        # Rings that the role fills by stores or cp.async: an arrival says that these are done.
        self.by_arrival: set[Value] = set()
        for op in body.walk():
            if isinstance(op, memory.SharedStore | copy.AsyncCopy):
                filled = self.guards.rings(
                    op.tile if isinstance(op, memory.SharedStore) else op.barrier
                )
                self.by_arrival |= filled or self._bare_rings(body)

    @staticmethod
    def _bare_rings(body: Block) -> set[Value]:
        """Rings without tiles, which may guard any of the kernel's own."""
        acquired = (op.ring for op in body.walk() if isinstance(op, tile.AcquireProducer))
        return {ring for ring in acquired if not arrays_of(ring)}

    def transfer(self, op: Op, state: State) -> State:
        if isinstance(op, ACQUIRES):
            return self._acquire(op, state)
        if isinstance(op, tile.Release):
            return self._release(op, state)
        if isinstance(op, _USES):
            self._use(op, state)
        if isinstance(op, ring.StageArrive):
            return self._arrive(op, state)
        if isinstance(op, BULK_LOADS):
            return self._note_load(op, state)
        if isinstance(op, ring.Wait):
            return self._wait(op, state)
        if isinstance(op, ring.Step):
            self._step_by_hand(op, state)
        if isinstance(op, tile.Drain):
            return self._drain(op, state)
        self._no_escape(op)
        return state

    def _acquire(self, op: Op, state: State) -> State:
        found = ring_and_side(op)
        assert found is not None and isinstance(found[0].type, RingType)
        live = [
            held.acquire
            for stage, held in state.items()
            if held.release is None
            and ring_and_side(held.acquire) == found
            and stage is not op.result
        ]
        if len(live) >= found[0].type.stages:
            raise errors.too_deep(op, self.role, found[0].type.stages, live)
        return {**self._forget_waits(found, state), op.result: _Held(op)}

    @staticmethod
    def _forget_waits(side: tuple[Value, str], state: State) -> State:
        return {
            stage: replace(held, waited=False) if ring_and_side(held.acquire) == side else held
            for stage, held in state.items()
        }

    # ----------------------------------------------------------------- release and arrival

    def _release(self, op: tile.Release, state: State) -> State:
        stage, held = self._held(op, op.stage, state)
        if held.release is not None:
            raise errors.released_twice(op, held.acquire, held.release)
        if not explicit_count(ring_of(stage), side_of(stage)):
            if op.signal and held.arrive is not None:
                raise errors.arrived_twice(op, held.arrive, stage)
            # Bytes complete what is loaded; stores and cp.async copies need an arrival beside them.
            by_bytes = held.load is not None and ring_of(stage) not in self.by_arrival
            if not op.signal and held.arrive is None and not by_bytes:
                raise errors.never_arrived(op, stage, self._by_hand(ring_of(stage)))
            if held.arrive is not None and held.load is not None and by_bytes:
                raise errors.arrived_with_bytes(held.arrive, held.load, stage)
        return {**state, stage: replace(held, release=op)}

    def _by_hand(self, of: Value) -> Op | None:
        """An arrival of this role on an mbarrier of a ring."""
        arrivals = (op for op in self.body.walk() if isinstance(op, protocol.MbarrierArrive))
        return next((op for op in arrivals if of in self.guards.rings(op.barrier)), None)

    def _arrive(self, op: ring.StageArrive, state: State) -> State:
        stage, held = self._held(op, op.stage, state)
        if held.arrive is not None and not explicit_count(ring_of(stage), side_of(stage)):
            raise errors.arrived_twice(op, held.arrive, stage)
        return {**state, stage: replace(held, arrive=op)}

    def _note_load(self, op: Op, state: State) -> State:
        assert isinstance(op, BULK_LOADS)
        stage = self.guards.stage(op.barrier)
        if stage is None or stage not in state:
            return state
        if (drain := state[stage].drained) is not None:
            raise errors.drains_held(drain, stage, op)
        return {**state, stage: replace(state[stage], load=op)}

    def _wait(self, op: ring.Wait, state: State) -> State:
        side = (op.ring, op.side)
        return {
            stage: replace(held, waited=True) if ring_and_side(held.acquire) == side else held
            for stage, held in state.items()
        }

    def _step_by_hand(self, op: ring.Step, state: State) -> None:
        """An acquire has stepped: whoever steps again without a wait skips a slot."""
        for held in state.values():
            open_here = held.release is None and not held.waited
            if open_here and ring_and_side(held.acquire) == (op.ring, op.side):
                raise errors.steps_past(op, op.side, held.acquire)

    def _drain(self, op: tile.Drain, state: State) -> State:
        """Only loads complete a stage that is still held; its consumers never see another one."""
        drained = dict(state)
        for stage, held in state.items():
            if held.release is not None or ring_and_side(held.acquire) != (op.ring, "producer"):
                continue
            by_bytes = held.load is not None and op.ring not in self.by_arrival
            if held.arrive is None and not by_bytes and not explicit_count(op.ring, "producer"):
                raise errors.drains_held(op, stage)
            drained[stage] = replace(held, drained=op)
        return drained

    # ------------------------------------------------------------------------------ uses

    def _use(self, op: Op, state: State) -> None:
        for value in op.operands:
            if isinstance(value.type, StageType | SharedTile | BarrierType):
                self._use_value(op, value, state)
        if isinstance(op, COPIES):
            self._pair(op)

    def _use_value(self, op: Op, value: Value, state: State) -> None:
        stage = self.guards.stage(value)
        if stage is None:
            self._use_unheld(op, value)
            return
        of_rings = self.guards.rings(value)
        if of_rings and of_rings != {ring_of(stage)}:
            raise errors.other_ring(op, value, stage, next(iter(of_rings - {ring_of(stage)})))
        side = side_of(stage)
        if isinstance(value.type, SharedTile):
            if isinstance(op, READS) and side == "producer":
                raise errors.unfilled(op, stage)
            if isinstance(op, WRITES) and side == "consumer":
                raise errors.consumer_writes(op, stage)
        held = state.get(stage)
        if held is None:
            raise errors.escaped(op)
        if held.release is not None:
            raise errors.used_after_release(op, held.acquire, held.release)
        # Bulk loads may come behind the arrival: the acquire has announced their bytes.
        counted = isinstance(op, BULK_LOADS) or explicit_count(ring_of(stage), side)
        if isinstance(value.type, SharedTile) and held.arrive is not None and not counted:
            raise errors.used_after_arrival(op, held.arrive, stage)

    def _use_unheld(self, op: Op, value: Value) -> None:
        """A tile or barrier of no stage: the kernel's own, or of a ring that is moved by hand."""
        if isinstance(value.type, StageType):
            raise errors.escaped(op)
        if self.guards.is_own(value) or self.guards.is_raw(value):
            return
        if isinstance(op, protocol.MbarrierArrive | protocol.MbarrierArriveExpectTx):
            return  # on a ring's barrier, from outside: see check_raw_barriers
        raise errors.unguarded(op, value)

    def _pair(self, op: Op) -> None:
        """The barrier of a load must be the one that guards its tile."""
        assert isinstance(op, COPIES)
        guards = self.guards
        tile_stage, barrier_stage = guards.stage(op.tile), guards.stage(op.barrier)
        if guards.is_own(op.tile) and guards.is_own(op.barrier):
            return
        if guards.is_own(op.barrier):
            raise errors.mixed_barrier(
                op,
                "a tile of a pipeline",
                "an mbarrier of your own",
                "pass stage.barrier() of the tile's stage",
            )
        if guards.is_own(op.tile):
            if all(not arrays_of(ring) for ring in guards.rings(op.barrier)):
                self._needs_producer(op, barrier_stage)
                return  # a bare ring guards tiles of the kernel's own
            raise errors.mixed_barrier(
                op,
                "a shared tile of your own",
                "the barrier of a pipeline",
                "make a td.mbarrier() for it, or give the pipeline an array for this tile",
            )
        if barrier_stage is None and tile_stage is None:
            if guards.rings(op.tile) != guards.rings(op.barrier):
                raise errors.mixed_barrier(
                    op,
                    "a tile of one pipeline",
                    "the barrier of another",
                    "pass full_mbar(slot) of the tile's pipeline",
                )
            return
        self._needs_producer(op, barrier_stage)
        if tile_stage is not barrier_stage:
            raise errors.other_stage(op, barrier_stage or op.barrier)

    def _needs_producer(self, op: Op, barrier_stage: Value | None) -> None:
        if barrier_stage is not None and side_of(barrier_stage) == "producer":
            return
        if barrier_stage is None and all(
            isinstance(origin, protocol.RingBarrier) and origin.which == "full"
            for value in op.operands
            if isinstance(value.type, BarrierType)
            for origin in self.guards.origins(value)
        ):
            return  # by hand
        raise errors.not_a_producer(op)

    def _held(self, op: Op, value: Value, state: State) -> tuple[Value, _Held]:
        stage = self.guards.stage(value)
        held = None if stage is None else state.get(stage)
        if stage is None or held is None:
            raise errors.escaped(op)
        return stage, held

    def _no_escape(self, op: Op) -> None:
        nests = isinstance(op, control.If | control.For | control.Loop | control.Scope)
        if not nests and not op.is_terminator:
            return
        text = "carried from one iteration of a loop to the next"
        if isinstance(op, control.Yield):
            text = "the result of a branch"
        elif isinstance(op, control.Leave):
            text = "returned from one of several places in a function"
        for value in op.operands:
            if isinstance(value.type, StageType):
                raise errors.carried(op, value, text)

    # -------------------------------------------------------------------- where paths meet

    def join(self, op: Op, arrivals: list[tuple[Op, State]]) -> State:
        first = arrivals[0][1]
        known = set(first)
        for _, state in arrivals[1:]:
            known &= set(state)
        for _, state in arrivals:
            for stage, held in state.items():
                if stage not in known and held.release is None:
                    raise errors.unreleased(
                        held.acquire, op, "on every path: it leaves the branch held"
                    )
        return {
            stage: _meet(op, stage, [state[stage] for _, state in arrivals])
            for stage in first
            if stage in known
        }

    def repeat(self, loop: Op, entry: State, arrivals: list[tuple[Op, State]]) -> State:
        after = dict(entry)
        for _, state in arrivals:
            for stage, held in state.items():
                before = entry.get(stage)
                if before is None:
                    if held.release is None:
                        raise errors.unreleased(held.acquire, loop, "by the end of the iteration")
                    continue
                if held.release is not before.release:
                    assert held.release is not None
                    raise errors.released_in_loop(held.release, held.acquire, loop)
                if held.arrive is not before.arrive and not explicit_count(
                    ring_of(stage), side_of(stage)
                ):
                    assert held.arrive is not None
                    raise errors.arrives_in_loop(stage, held.arrive, loop)
                if held.drained is not before.drained and held.load is not before.load:
                    assert held.drained is not None
                    raise errors.drains_held(held.drained, stage, held.load)
                after[stage] = replace(
                    after[stage],
                    load=after[stage].load or held.load,
                    drained=after[stage].drained or held.drained,
                )
        return after

    def finish(self, op: Op | None, state: State) -> None:
        for held in state.values():
            if held.release is None:
                raise errors.unreleased(held.acquire, op, f"before role {self.role!r} ends")


def _meet(op: Op, stage: Value, paths: list[_Held]) -> _Held:
    """What is known about a stage where paths meet on all of which it was acquired."""
    first = paths[0]
    releases = [held.release for held in paths]
    if any(r is None for r in releases) and any(r is not None for r in releases):
        released = next(r for r in releases if r is not None)
        raise StageError(
            "this stage is released on one path only: expected a release on every path",
            first.acquire.loc,
            notes=(
                ("released here", released.loc),
                ("but not on another path through this statement", op.loc),
            ),
            hint="release it behind the statement, or in each of its branches",
        )
    arrive = next((held.arrive for held in paths if held.arrive is not None), None)
    if (
        arrive is not None
        and any(held.arrive is None for held in paths)
        and not explicit_count(ring_of(stage), side_of(stage))
    ):
        raise errors.arrivals_differ(stage, arrive, op)
    return replace(
        first,
        arrive=arrive,
        load=next((held.load for held in paths if held.load is not None), None),
        drained=next((held.drained for held in paths if held.drained is not None), None),
        waited=all(held.waited for held in paths),
    )
