"""Linear stages: what is acquired is released exactly once, on every path.

Tile level, by dataflow over the structured IR of each role, through inlined helpers and both
styles (``with`` and flat), for a stage that is: never released, released on one path only or in a
loop, released twice, used after its release, acquired beyond the ring's depth, or carried out of
the branch or iteration that acquired it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.codegen.checks.paths import PathWalker
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel, outside_roles, roles_of
from tiledsl.codegen.ir.ops import control, tile
from tiledsl.codegen.ir.ops.arith import Binary, Cast
from tiledsl.codegen.ir.types import BarrierType, RingType, SharedTile, StageType, Tile
from tiledsl.errors import Loc, StageError

_ACQUIRES = (tile.AcquireProducer, tile.AcquireConsumer)
# Operations that touch what a stage guards. Index arithmetic on a stage's number may outlive it.
_USES = (
    tile.TmaLoad, tile.TmaStore, tile.Mma, tile.StageIndex, tile.StageBarrier, tile.ExpectBytes,
)  # fmt: skip

_READS = (tile.Mma, tile.TmaStore)  # of what a stage holds


@dataclass(frozen=True, slots=True)
class _Held:
    """What is known about one acquired stage."""

    acquire: Op
    release: Op | None = None  # where it was released, once it was


State = dict[Value, _Held]


def stage_sources(block: Block) -> dict[Value, Value]:
    """Values that stand for a stage (its number, barrier, tiles) -> the stage they come from."""
    sources: dict[Value, Value] = {}
    for op in block.walk():
        if isinstance(op, _ACQUIRES):
            sources[op.result] = op.result
            continue
        if isinstance(op, tile.PayloadTile):
            slot = _slot_of(op)
            if isinstance(slot.owner, tile.StageIndex) and slot in sources:
                sources[op.result] = sources[slot]
            continue
        for value in op.operands:
            if value in sources:
                for result in op.results:
                    # Data that was computed from a stage's tiles or number is not the stage.
                    if not isinstance(result.type, Tile):
                        sources.setdefault(result, sources[value])
                break
    return sources


def _slot_of(op: tile.PayloadTile) -> Value:
    """``slot`` of the tile's index ``slot * k_group + k``: what must be the number of a stage."""
    assert isinstance(op.ring.type, RingType)
    slot = _uncast(op.index)
    if op.ring.type.k_group == 1:
        return slot
    if isinstance(slot.owner, Binary) and slot.owner.kind == "add":
        slot = _uncast(slot.owner.lhs)
    if isinstance(slot.owner, Binary) and slot.owner.kind == "mul":
        slot = _uncast(slot.owner.lhs)
    return slot


def _uncast(value: Value) -> Value:
    while isinstance(value.owner, Cast):
        value = value.owner.value
    return value


def _ring_of(value: Value, stage: Value) -> Value:
    """The ring that holds a tile; of anything else, the ring of its stage."""
    owner = value.owner
    while isinstance(owner, tile.SharedTranspose):
        owner = owner.tile.owner
    held = owner if isinstance(owner, tile.PayloadTile) else stage.owner
    assert isinstance(held, tile.PayloadTile | tile.AcquireProducer | tile.AcquireConsumer)
    return held.ring


def check_linear_stages(kernel: Kernel) -> None:
    """Raise ``StageError`` at the user's line unless every stage is used linearly."""
    _check_outside_roles(kernel)
    for name, body in roles_of(kernel):
        walker = _LinearWalker(name, stage_sources(body))
        end = walker.walk(body, {})
        if end is not None:
            walker.finish(None, end)


def _check_outside_roles(kernel: Kernel) -> None:
    roles = [op for op in kernel.body.ops if isinstance(op, control.Role)]
    if not roles:
        return
    for op in outside_roles(kernel):
        if isinstance(op, (*_ACQUIRES, tile.Drain)):
            raise StageError(
                "a pipeline stage can only be acquired inside of a role in a kernel that has roles",
                op.loc,
                hint=f"move this into one of the roles: {', '.join(r.name for r in roles)}",
            )


class _LinearWalker(PathWalker[State]):
    def __init__(self, role: str, sources: dict[Value, Value]) -> None:
        super().__init__()
        self.role = role
        self.sources = sources

    def transfer(self, op: Op, state: State) -> State:
        if isinstance(op, _ACQUIRES):
            return self._acquire(op, state)
        if isinstance(op, tile.Release):
            return self._release(op, state)
        if isinstance(op, _USES):
            self._use(op, state)
        nests = isinstance(op, control.If | control.For | control.Loop | control.Scope)
        if nests or op.is_terminator:
            self._no_escape(op, op.operands)
        return state

    def _acquire(self, op: Op, state: State) -> State:
        (ring,) = op.operands
        assert isinstance(ring.type, RingType)
        live = [
            held
            for stage, held in state.items()
            if held.release is None
            and held.acquire.operands == [ring]
            and type(held.acquire) is type(op)
            and stage is not op.result
        ]
        if len(live) >= ring.type.stages:
            raise StageError(
                f"role {self.role!r} holds {len(live)} stage(s) of a pipeline with"
                f" {ring.type.stages} and acquires another: it would wait for itself for ever",
                op.loc,
                notes=tuple(("held since here", held.acquire.loc) for held in live),
                hint="release a stage before this acquire, or give the pipeline more stages",
            )
        return {**state, op.result: _Held(op)}

    def _release(self, op: tile.Release, state: State) -> State:
        stage = self._stage(op, op.stage)
        held = state.get(stage)
        if held is None:
            raise self._escaped(op)
        if held.release is not None:
            raise StageError(
                "this stage has been released already: expected exactly one release on each path",
                op.loc,
                notes=(
                    ("released here before", held.release.loc),
                    ("acquired here", held.acquire.loc),
                ),
                hint="remove one of the two; a `with` statement releases at its end by itself",
            )
        return {**state, stage: _Held(held.acquire, op)}

    def _use(self, op: Op, state: State) -> None:
        for value in op.operands:
            if not isinstance(value.type, StageType | SharedTile | BarrierType):
                continue  # a number, which may outlive its stage
            stage = self.sources.get(value)
            if stage is None or _ring_of(value, stage) is not _ring_of(stage, stage):
                raise self._unguarded(op, value)
            if isinstance(op, _READS) and not isinstance(stage.owner, tile.AcquireConsumer):
                raise self._unfilled(op, stage)
            held = state.get(stage)
            if held is None:
                raise self._escaped(op)
            if held.release is not None:
                raise StageError(
                    "a stage is used after its release: its tiles may hold other data by now",
                    op.loc,
                    notes=(
                        ("released here", held.release.loc),
                        ("acquired here", held.acquire.loc),
                    ),
                    hint="move the release behind the last use of the stage and its tiles",
                )

    @staticmethod
    def _unguarded(op: Op, value: Value) -> StageError:
        return StageError(
            f"{op.opcode} uses a tile or barrier that no stage held here guards: the other side"
            " may use it at the same time",
            op.loc,
            notes=(("it is taken here", value.loc),),
            hint="take tiles from the stage: stage.payload().get_tile(stage.stage(), k)",
        )

    @staticmethod
    def _unfilled(op: Op, stage: Value) -> StageError:
        return StageError(
            f"{op.opcode} reads a tile of a producer stage, whose loads may not have arrived:"
            " expected a consumer stage",
            op.loc,
            notes=(("the stage is acquired here", stage.loc),),
            hint="release the stage, acquire it from the pipeline's consumer() and read that",
        )

    def _stage(self, op: Op, value: Value) -> Value:
        stage = self.sources.get(value)
        if stage is None:
            raise self._escaped(op)
        return stage

    @staticmethod
    def _escaped(op: Op) -> StageError:
        return StageError(
            "this stage was acquired in a branch, iteration or role that has ended, or on another"
            " path: expected a stage acquired on every path to here",
            op.loc,
            hint="acquire and release a stage in the same block",
        )

    def _no_escape(self, op: Op, values: list[Value]) -> None:
        for value in values:
            if isinstance(value.type, StageType):
                raise StageError(
                    "a stage cannot be carried from one iteration or branch to another:"
                    " expected it to be released where it was acquired",
                    value.loc,
                    notes=(("carried here", op.loc),),
                    hint="acquire and release a stage in the same block",
                )

    # -------------------------------------------------------------------- where paths meet

    def join(self, op: Op, arrivals: list[tuple[Op, State]]) -> State:
        first = arrivals[0][1]
        known = set(first)
        for _, state in arrivals[1:]:
            known &= set(state)
        for _, state in arrivals:
            for stage, held in state.items():
                if stage not in known and held.release is None:
                    raise self._unreleased(held, op, "on every path: it leaves the branch held")
        merged: State = {}
        for stage in first:
            if stage not in known:
                continue
            releases = [state[stage].release for _, state in arrivals]
            if any(r is None for r in releases) and any(r is not None for r in releases):
                released = next(r for r in releases if r is not None)
                raise StageError(
                    "this stage is released on one path only: expected a release on every path",
                    first[stage].acquire.loc,
                    notes=(
                        ("released here", released.loc),
                        ("but not on another path through this statement", op.loc),
                    ),
                    hint="release it behind the statement, or in each of its branches",
                )
            merged[stage] = first[stage]
        return merged

    def repeat(self, loop: Op, entry: State, arrivals: list[tuple[Op, State]]) -> State:
        for _, state in arrivals:
            for stage, held in state.items():
                if stage not in entry and held.release is None:
                    raise self._unreleased(held, loop, "by the end of the iteration")
                if stage in entry and held.release is not entry[stage].release:
                    assert held.release is not None
                    raise StageError(
                        "a stage acquired before a loop is released inside of it: the next"
                        " iteration would release it again",
                        held.release.loc,
                        notes=(("acquired here", held.acquire.loc), ("the loop", loop.loc)),
                        hint="release it behind the loop, or acquire it inside",
                    )
        return entry

    def finish(self, op: Op | None, state: State) -> None:
        for held in state.values():
            if held.release is None:
                where = f"before role {self.role!r} ends"
                raise self._unreleased(held, op, where)

    @staticmethod
    def _unreleased(held: _Held, where: Op | None, text: str) -> StageError:
        side = "producer" if isinstance(held.acquire, tile.AcquireProducer) else "consumer"
        notes: tuple[tuple[str, Loc | None], ...] = ()
        if where is not None and where.loc.line:
            notes = (("the path ends here", where.loc),)
        return StageError(
            f"this {side} stage is never released: expected a release {text}",
            held.acquire.loc,
            notes=notes,
            hint=f"call stage.release(), or write `with {side}.acquire() as stage:`",
        )
