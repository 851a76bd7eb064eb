"""How many bytes the loads on a producer's stage bring: what its full barrier will expect.

The number must be the same on every path from acquire to release, because the barrier is told
once. A loop around loads counts when its trip count is a compile-time constant. An explicit
``stage.expect_bytes(n)`` is checked against the sum. The result is stored in the acquire's
``nbytes``. Runs at tile level, after the linear check.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.codegen.checks.linear import stage_sources
from tiledsl.codegen.checks.paths import PathWalker
from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import arith, control, tile
from tiledsl.codegen.ir.types import SharedTile
from tiledsl.errors import Loc, StageError


@dataclass(frozen=True, slots=True)
class _Sum:
    """Bytes seen on one path, and the loads that brought them."""

    nbytes: int = 0
    loads: tuple[tile.TmaLoad, ...] = ()


State = dict[Value, _Sum]


def derive_bytes(kernel: Kernel) -> None:
    """Set ``nbytes`` of every ``pipeline.acquire_producer``.

    Raises:
        StageError: when the bytes differ between paths, or from an explicit ``expect_bytes``.
    """
    for _, body in roles_of(kernel):
        walker = _ByteWalker(stage_sources(body))
        walker.walk(body, {})
        for op in body.walk():
            if isinstance(op, tile.AcquireProducer):
                op.nbytes = walker.totals.get(op.result, _Sum()).nbytes
            elif isinstance(op, tile.ExpectBytes):
                walker.check_expectation(op)


def _list_loads(loads: tuple[tile.TmaLoad, ...]) -> tuple[tuple[str, Loc | None], ...]:
    notes: list[tuple[str, Loc | None]] = []
    for load in loads:
        assert isinstance(load.tile.type, SharedTile)
        notes.append((f"this load brings {load.tile.type.nbytes} bytes", load.loc))
    return tuple(notes)


class _ByteWalker(PathWalker[State]):
    def __init__(self, sources: dict[Value, Value]) -> None:
        super().__init__()
        self.sources = sources
        self.totals: dict[Value, _Sum] = {}

    def transfer(self, op: Op, state: State) -> State:
        match op:
            case tile.AcquireProducer():
                return {**state, op.result: _Sum()}
            case tile.TmaLoad():
                return self._load(op, state)
            case tile.Release():
                stage = self.sources[op.stage]
                if stage in state:
                    self._settle(op, stage, state[stage])
                    return {key: total for key, total in state.items() if key is not stage}
        return state

    def _load(self, op: tile.TmaLoad, state: State) -> State:
        stage = self.sources.get(op.barrier)
        if stage is None or stage not in state:
            raise StageError(
                "a load must complete on the barrier of a producer stage that is held here",
                op.loc,
                hint="pass stage.barrier() of the stage that `producer.acquire()` gave",
            )
        if self.sources.get(op.tile) is not stage:
            raise StageError(
                "this load writes a tile that its barrier does not guard: expected a tile of the"
                " same stage",
                op.loc,
                notes=(("the stage of the barrier is acquired here", stage.loc),),
                hint="take the tile from stage.payload().get_tile(stage.stage(), k)",
            )
        assert isinstance(op.tile.type, SharedTile)
        before = state[stage]
        total = _Sum(before.nbytes + op.tile.type.nbytes, (*before.loads, op))
        return {**state, stage: total}

    def _settle(self, op: Op, stage: Value, total: _Sum) -> None:
        known = self.totals.setdefault(stage, total)
        if known.nbytes != total.nbytes:
            raise self._differ(op, stage, known, total)

    @staticmethod
    def _differ(op: Op, stage: Value, one: _Sum, other: _Sum) -> StageError:
        more, fewer = (one, other) if one.nbytes > other.nbytes else (other, one)
        return StageError(
            f"the loads on this stage bring {more.nbytes} bytes on one path and"
            f" {fewer.nbytes} on another: expected the same number on every path, because the"
            " barrier is told once what to wait for",
            stage.loc,
            notes=(
                ("the paths meet here", op.loc),
                *((f"counted: {text}", loc) for text, loc in _list_loads(more.loads)),
            ),
            hint="load on every path (what lies outside of the tensor reads as zero), or use"
            " two pipelines",
        )

    def join(self, op: Op, arrivals: list[tuple[Op, State]]) -> State:
        first = arrivals[0][1]
        for _, state in arrivals[1:]:
            for stage, total in first.items():
                if stage in state and state[stage].nbytes != total.nbytes:
                    raise self._differ(op, stage, total, state[stage])
        return first

    def repeat(self, loop: Op, entry: State, arrivals: list[tuple[Op, State]]) -> State:
        after = dict(entry)
        for stage, before in entry.items():
            ends = [state.get(stage, before) for _, state in arrivals]
            for total in ends[1:]:
                if total.nbytes != ends[0].nbytes:  # one of them skips a load by `continue`
                    raise self._differ(loop, stage, ends[0], total)
            if not ends or ends[0].nbytes == before.nbytes:
                continue
            total = ends[0]
            gained = total.nbytes - before.nbytes
            trips = _trip_count(loop)
            if trips is None:
                raise StageError(
                    "loads on one stage inside of a loop whose trip count is only known at"
                    f" run time: each iteration brings {gained} bytes, expected a total that"
                    " is known at compile time",
                    total.loads[-1].loc,
                    notes=(("the stage is acquired here", stage.loc), ("the loop", loop.loc)),
                    hint="acquire the stage inside of the loop, or loop over td.static_range(...)",
                )
            after[stage] = _Sum(before.nbytes + trips * gained, total.loads)
        return after

    def check_expectation(self, op: tile.ExpectBytes) -> None:
        total = self.totals.get(self.sources[op.stage], _Sum())
        if total.nbytes != op.nbytes:
            raise StageError(
                f"expect_bytes({op.nbytes}) disagrees with the loads on this stage, which bring"
                f" {total.nbytes} bytes",
                op.loc,
                notes=_list_loads(total.loads),
                hint="leave expect_bytes out: the number is derived from the loads",
            )


def _trip_count(loop: Op) -> int | None:
    if not isinstance(loop, control.For):
        return None
    bounds = []
    for value in (loop.start, loop.stop, loop.step):
        if not isinstance(value.owner, arith.Constant):
            return None
        bounds.append(int(value.owner.value))
    return len(range(*bounds)) if bounds[2] else None
