"""How many bytes the loads on a producer's stage bring: what its full barrier will expect.

The number must be the same on every path from acquire to release, because the barrier is told
once. Loops around the loads of a stage are followed iteration by iteration as long as their
counters are known; conditions on these are known then, too. A multicast load brings the whole tile
to each block that takes part; ``cp.async`` copies are counted in arrivals, not in bytes. An
explicit ``stage.expect_bytes(n)`` is checked against the sum. The result is stored in the
acquire's ``nbytes``. Runs at tile level, after the linear check.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.codegen.checks.evaluate import Known, yielded
from tiledsl.codegen.checks.paths import Exits, PathWalker, carried, given_by
from tiledsl.codegen.checks.stages import BULK_LOADS, Guards, list_loads, tile_bytes
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import control, tile
from tiledsl.errors import StageError

MOST_ITERATIONS = 256  # that are followed one by one
MOST_BYTES = (1 << 20) - 1  # that an mbarrier counts in a phase


@dataclass(frozen=True, slots=True)
class _Sum:
    """Bytes seen on one path, and the loads that brought them."""

    nbytes: int = 0
    loads: tuple[tuple[Op, int], ...] = ()  # each with how often it ran

    def add(self, load: Op, times: int = 1) -> _Sum:
        counts = dict(self.loads)
        counts[load] = counts.get(load, 0) + times
        return _Sum(self.nbytes + times * tile_bytes(load), tuple(counts.items()))


State = dict[Value, _Sum]


def derive_bytes(kernel: Kernel) -> None:
    """Set ``nbytes`` of every ``pipeline.acquire_producer``.

    Raises:
        StageError: when the bytes differ between paths, or from an explicit ``expect_bytes``.
    """
    for _, body in roles_of(kernel):
        walker = _ByteWalker(Guards(body))
        walker.walk(body, {})
        for op in body.walk():
            if isinstance(op, tile.AcquireProducer):
                op.nbytes = walker.bytes_of(op.result)
            elif isinstance(op, tile.ExpectBytes):
                walker.check_expectation(op)


def loads_by_stage(body: Block) -> dict[Op, tuple[tuple[Op, int], ...]]:
    """Each acquire of a producer with the loads on its stage, and how often each of them runs."""
    walker = _ByteWalker(Guards(body))
    walker.walk(body, {})
    acquires = (op for op in body.walk() if isinstance(op, tile.AcquireProducer))
    return {op: walker.totals.get(op.result, _Sum()).loads for op in acquires}


class _ByteWalker(PathWalker[State]):
    def __init__(self, guards: Guards) -> None:
        super().__init__()
        self.guards = guards
        self.known = Known()
        self.totals: dict[Value, _Sum] = {}

    def transfer(self, op: Op, state: State) -> State:
        if not op.blocks:
            self.known.run(op)
        match op:
            case tile.AcquireProducer():
                return {**state, op.result: _Sum()}
            case tile.Release():
                stage = self.guards.stage(op.stage)
                if stage is not None and stage in state:
                    self._settle(op, stage, state[stage])
                    return {key: total for key, total in state.items() if key is not stage}
        if isinstance(op, BULK_LOADS):
            stage = self.guards.stage(op.barrier)
            if stage is not None and stage in state:
                return {**state, stage: state[stage].add(op)}
        return state

    def bytes_of(self, stage: Value) -> int:
        total = self.totals.get(stage, _Sum())
        if total.nbytes > MOST_BYTES:
            raise StageError(
                f"the loads on this stage bring {total.nbytes} bytes: an mbarrier counts at most"
                f" {MOST_BYTES} in a phase",
                stage.loc,
                notes=list_loads(total.loads),
                hint="load less into each stage",
            )
        return total.nbytes

    def _settle(self, op: Op, stage: Value, total: _Sum) -> None:
        known = self.totals.setdefault(stage, total)
        if known.nbytes != total.nbytes:
            raise self._differ(op, stage, known, total)

    @staticmethod
    def _differ(op: Op, stage: Value, one: _Sum, other: _Sum) -> StageError:
        more, fewer = (one, other) if one.nbytes > other.nbytes else (other, one)
        hint = "load on every path (what lies outside of the tensor reads as zero), or use two"
        hint += " pipelines"
        if any(getattr(load, "multicast", ()) for load, _ in more.loads):
            hint = "let every block run a multicast load: each brings its share, or the first along"
            hint += " the axis brings all with partitioned=False"
        return StageError(
            f"the loads on this stage bring {more.nbytes} bytes on one path and"
            f" {fewer.nbytes} on another: expected the same number on every path, because the"
            " barrier is told once what to wait for",
            stage.loc,
            notes=(
                ("the paths meet here", op.loc),
                *((f"counted: {text}", loc) for text, loc in list_loads(more.loads)),
            ),
            hint=hint,
        )

    # ---------------------------------------------------------------- branches and loops

    def _if(self, op: control.If, state: State) -> State | None:
        condition = self.known.get(op.condition)
        if condition is None:
            after = super()._if(op, state)
            self._forget(op.results)
            return after
        taken = op.then if condition else op.orelse
        after = self.walk(taken, state)
        for number, result in enumerate(op.results):
            value = yielded(taken, number)
            self.known.set(result, None if value is None else self.known.get(value))
        return after

    def _scope(self, op: control.Scope, state: State) -> State | None:
        after = super()._scope(op, state)
        self._forget(op.results)
        return after

    def _loop(self, op: control.For | control.Loop, state: State) -> State | None:
        after = self._follow(op, state) if self._fills(op, state) else self._once(op, state)
        self._forget(op.results)
        return after

    def _fills(self, loop: control.For | control.Loop, state: State) -> bool:
        """Whether loads in the loop belong to a stage that was acquired before it."""
        return any(
            isinstance(op, BULK_LOADS) and self.guards.stage(op.barrier) in state
            for op in loop.body.walk()
        )

    def _forget(self, values: tuple[Value, ...] | list[Value]) -> None:
        for value in values:
            self.known.set(value, None)

    def _once(self, op: control.For | control.Loop, state: State) -> State | None:
        self._forget(op.body.args)
        return super()._loop(op, state)

    def _follow(self, op: control.For | control.Loop, state: State) -> State | None:
        """Iteration by iteration, until nothing new can come of another one."""
        counters = self._counters(op)
        endless = isinstance(op, control.Loop)
        if counters is None and not endless:
            return self._unknown_trips(op, state)
        arrivals: list[tuple[Op, State]] = []
        given = [self.known.get(init) for init in op.inits]
        current: State | None = state
        for number in range(MOST_ITERATIONS) if counters is None else counters:
            assert current is not None
            if isinstance(op, control.For):
                self.known.set(op.body.args[0], number)
            for arg, value in zip(carried(op), given, strict=True):
                self.known.set(arg, value)
            exits = self._walk_body(op, current)
            arrivals += exits.breaks
            if not exits.continues:
                current = None
                break
            before, current = current, self._agree(op, exits.continues)
            given = self._carried_on(op, exits.continues)
            # Behind a condition of the run time an endless loop goes on in the same way for ever.
            if endless and all(value is None for value in given):
                self._gains_nothing(op, before, current)
                current = None
                break
        if endless and current is not None:
            self._gains_nothing(op, state, current)
        if not endless and current is not None:
            arrivals.insert(0, (op, current))
        return self.join(op, arrivals) if arrivals else None

    def _unknown_trips(self, op: control.For | control.Loop, state: State) -> State | None:
        """A loop whose first iteration, if there is one, is all that may be known of it."""
        assert isinstance(op, control.For)
        self._forget(op.body.args)
        self.known.set(op.body.args[0], self.known.get(op.start))
        exits = self._walk_body(op, state)
        if exits.continues:
            return self._once(op, state)
        return self.join(op, [(op, state), *exits.breaks])

    def _counters(self, op: control.For | control.Loop) -> range | None:
        if not isinstance(op, control.For):
            return None
        bounds = [self.known.get(value) for value in (op.start, op.stop, op.step)]
        if None in bounds or not bounds[2]:
            return None
        counters = range(*(int(bound or 0) for bound in bounds))
        return counters if len(counters) <= MOST_ITERATIONS else None

    def _walk_body(self, op: control.For | control.Loop, state: State) -> Exits[State]:
        self._loops.append(Exits(op))
        self.walk(op.body, state)
        return self._loops.pop()

    def _agree(self, loop: Op, arrivals: list[tuple[Op, State]]) -> State:
        """The one state of all paths that end an iteration."""
        return self.join(loop, arrivals)

    def _carried_on(
        self, op: control.For | control.Loop, arrivals: list[tuple[Op, State]]
    ) -> list[int | bool | None]:
        paths = [[self.known.get(value) for value in given_by(end)] for end, _ in arrivals]
        return [
            values[0] if all(value == values[0] for value in values) else None
            for values in zip(*paths, strict=True)
        ] or [None] * len(op.inits)

    def join(self, op: Op, arrivals: list[tuple[Op, State]]) -> State:
        first = arrivals[0][1]
        for _, state in arrivals[1:]:
            for stage, total in first.items():
                if stage in state and state[stage].nbytes != total.nbytes:
                    raise self._differ(op, stage, total, state[stage])
        return first

    def repeat(self, loop: Op, entry: State, arrivals: list[tuple[Op, State]]) -> State:
        """Of a loop that was walked once: iterations that bring bytes must be countable."""
        if not arrivals:
            return entry
        after = self._agree(loop, arrivals)
        trips = self._trips(loop)
        if trips is None:
            self._gains_nothing(loop, entry, after)
            return entry
        totals: State = {}
        for stage, before in entry.items():
            totals[stage] = before
            if stage in after:
                ran = dict(before.loads)
                for load, count in after[stage].loads:
                    times = trips * (count - ran.get(load, 0))
                    totals[stage] = totals[stage].add(load, times) if times else totals[stage]
        return totals

    def _trips(self, loop: Op) -> int | None:
        if not isinstance(loop, control.For):
            return None
        bounds = [self.known.get(value) for value in (loop.start, loop.stop, loop.step)]
        if None in bounds or not bounds[2]:
            return None
        return len(range(*(int(bound or 0) for bound in bounds)))

    @staticmethod
    def _gains_nothing(loop: Op, before: State, after: State) -> None:
        for stage, total in after.items():
            gained = total.nbytes - before[stage].nbytes if stage in before else 0
            if gained:
                raise StageError(
                    "loads on one stage inside of a loop whose trip count is only known at"
                    f" run time: each iteration brings {gained} bytes, expected a total that"
                    " is known at compile time",
                    total.loads[-1][0].loc,
                    notes=(("the stage is acquired here", stage.loc), ("the loop", loop.loc)),
                    hint="acquire the stage inside of the loop, or loop over td.static_range(...)",
                )

    def check_expectation(self, op: tile.ExpectBytes) -> None:
        stage = self.guards.stage(op.stage)
        total = _Sum() if stage is None else self.totals.get(stage, _Sum())
        if total.nbytes != op.nbytes:
            raise StageError(
                f"expect_bytes({op.nbytes}) disagrees with the loads on this stage, which bring"
                f" {total.nbytes} bytes",
                op.loc,
                notes=list_loads(total.loads),
                hint="leave expect_bytes out: the number is derived from the loads",
            )
