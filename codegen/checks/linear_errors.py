"""What is said of a stage that is not used linearly: what, where, expected, a hint."""

from __future__ import annotations

from tiledsl.codegen.checks.stages import ring_name, ring_of, side_of, user_call
from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.ops import tile
from tiledsl.errors import Loc, StageError, counted

Note = tuple[str, Loc | None]


def _frames(loc: Loc) -> list[Loc]:
    """Where each function was called from, outermost first, and the place itself last."""
    found: list[Loc] = []
    current: Loc | None = loc
    while current is not None:
        found.append(current)
        current = current.call_site
    return found[::-1]


def moved_into(release: Op, acquire: Op, use: Op) -> tuple[str, Loc] | None:
    """The helper that took a stage and released it, and where it was called: seen from ``use``."""
    inside, outside, taken = (_frames(op.loc) for op in (release, use, acquire))
    for depth, call in enumerate(inside[:-1]):
        if taken[: depth + 1] == inside[: depth + 1]:
            continue  # the stage was acquired in this very call
        if outside[: depth + 1] != inside[: depth + 1]:
            return inside[depth + 1].function or "a function", call
    return None


def released_twice(op: Op, acquire: Op, release: Op) -> StageError:
    moved = moved_into(release, acquire, op)
    if moved is not None:
        name, call = moved
        return StageError(
            f"this stage was handed to {name!r}, which releases it, and is released again here:"
            " expected exactly one release on each path",
            op.loc,
            notes=(
                ("handed on here", call),
                ("released there", release.loc),
                ("acquired here", acquire.loc),
            ),
            hint=f"remove this release, or the `with`: the stage is {name}'s since the call",
        )
    return StageError(
        "this stage has been released already: expected exactly one release on each path",
        op.loc,
        notes=(("released here before", release.loc), ("acquired here", acquire.loc)),
        hint="remove one of the two; a `with` statement releases at its end by itself",
    )


def released_in_loop(release: Op, acquire: Op, loop: Op) -> StageError:
    return StageError(
        "a stage acquired before a loop is released inside of it: the next iteration would release"
        " it again",
        release.loc,
        notes=(("acquired here", acquire.loc), ("the loop", loop.loc)),
        hint="release it behind the loop, or acquire it inside",
    )


def used_after_release(op: Op, acquire: Op, release: Op) -> StageError:
    moved = moved_into(release, acquire, op)
    if moved is not None:
        name, call = moved
        return StageError(
            f"a stage is used after it was handed to {name!r}, which releases it: its tiles may"
            " hold other data by now",
            op.loc,
            notes=(
                ("handed on here", call),
                ("released there", release.loc),
                ("acquired here", acquire.loc),
            ),
            hint=f"use it before the call, or let the caller release it instead of {name}",
        )
    return StageError(
        "a stage is used after its release: its tiles may hold other data by now",
        op.loc,
        notes=(("released here", release.loc), ("acquired here", acquire.loc)),
        hint="move the release behind the last use of the stage and its tiles",
    )


def unreleased(acquire: Op, where: Op | None, text: str) -> StageError:
    side = side_of(acquire.result)
    notes: tuple[Note, ...] = ()
    if where is not None and where.loc.line:
        notes = (("the path ends here", where.loc),)
    return StageError(
        f"this {side} stage is never released: expected a release {text}",
        acquire.loc,
        notes=notes,
        hint=f"call stage.release(), or write `with {side}.acquire() as stage:`",
    )


def steps_past(op: Op, side: str, acquire: Op) -> StageError:
    return StageError(
        f"{side}_step() while a stage is held: its acquire has gone on to the next slot already, so"
        " this would leave one out",
        op.loc,
        notes=(("the stage is acquired here", acquire.loc),),
        hint="end the stage with release(); step only past slots that you waited for by hand"
        f" ({'wait_empty' if side == 'producer' else 'wait_full'})",
    )


def escaped(op: Op) -> StageError:
    return StageError(
        "this stage was acquired in a branch, iteration or role that has ended, or on another"
        " path: expected a stage acquired on every path to here",
        op.loc,
        hint="acquire and release a stage in the same block",
    )


def too_deep(op: Op, role: str, stages: int, held: list[Op]) -> StageError:
    return StageError(
        f"role {role!r} holds {counted(len(held), 'stage')} of a pipeline with {stages} and"
        " acquires another: it would wait for itself for ever",
        op.loc,
        notes=tuple(("held since here", acquire.loc) for acquire in held),
        hint="release a stage before this acquire, or give the pipeline more stages",
    )


def unguarded(op: Op, value: Value) -> StageError:
    return StageError(
        f"{user_call(op)} uses a tile or barrier that no stage held here guards: the other side"
        " may use it at the same time",
        op.loc,
        notes=(("it is taken here", value.loc),),
        hint="take tiles from the stage: stage.payload().get_tile(stage.stage(), k)",
    )


def other_ring(op: Op, value: Value, stage: Value, ring: Value) -> StageError:
    return StageError(
        f"{user_call(op)} uses a tile of pipeline {ring_name(ring)!r} with the slot of a stage of"
        f" {ring_name(ring_of(stage))!r}: that stage guards tiles of its own pipeline only",
        op.loc,
        notes=(("the tile is taken here", value.loc), ("the stage is acquired here", stage.loc)),
        hint="acquire a stage of the tile's pipeline, and take the tile from that",
    )


def unfilled(op: Op, stage: Value) -> StageError:
    return StageError(
        f"{user_call(op)} reads a tile of a producer stage, whose loads may not have arrived:"
        " expected a consumer stage",
        op.loc,
        notes=(("the stage is acquired here", stage.loc),),
        hint="release the stage, acquire it from the pipeline's consumer() and read that",
    )


def consumer_writes(op: Op, stage: Value) -> StageError:
    return StageError(
        f"{user_call(op)} writes a tile of a consumer stage, which other consumers may be reading:"
        " expected a producer stage",
        op.loc,
        notes=(("the stage is acquired here", stage.loc),),
        hint="write to a stage of the pipeline's producer(), or to a tile of td.shared(...)",
    )


def carried(op: Op, value: Value, text: str) -> StageError:
    return StageError(
        f"a stage cannot be {text}: expected it to be released where it was acquired",
        value.loc,
        notes=(("given on here", op.loc),),
        hint="acquire and release a stage in the same block: before the branch, inside of the"
        " iteration",
    )


# -------------------------------------------------------------------- barriers of a load


def other_stage(op: Op, stage: Value) -> StageError:
    return StageError(
        "this load writes a tile that its barrier does not guard: expected a tile of the"
        " same stage",
        op.loc,
        notes=(("the stage of the barrier is acquired here", stage.loc),),
        hint="take the tile from stage.payload().get_tile(stage.stage(), k)",
    )


def mixed_barrier(op: Op, tile_is: str, barrier_is: str, hint: str) -> StageError:
    return StageError(
        f"this load writes {tile_is} and completes on {barrier_is}, which does not guard it",
        op.loc,
        hint=hint,
    )


def not_a_producer(op: Op) -> StageError:
    return StageError(
        "a load must complete on the barrier of a producer stage that is held here",
        op.loc,
        hint="pass stage.barrier() of the stage that `producer.acquire()` gave",
    )


# -------------------------------------------------------------------------- arrivals


def _other_side(stage: Value) -> str:
    return "consumers" if side_of(stage) == "producer" else "producers"


def never_arrived(release: Op, stage: Value, by_hand: Op | None) -> StageError:
    """``by_hand``: an arrival on a barrier of this ring, which no stage accounts for."""
    notes: tuple[Note, ...] = ()
    if stage.loc != release.loc:  # a ``with`` statement is both
        notes = (("acquired here", stage.loc),)
    hint = "call stage.arrive() before, on every path, or release it with stage.release()"
    create = ring_of(stage).owner
    assert isinstance(create, tile.PipelineCreate)
    if by_hand is not None and not create.ring.arrays:
        notes += (("this arrival is made by hand, and is not counted", by_hand.loc),)
        hint = (
            "state how many arrivals a phase takes: td.ProducerConsumerPipeline(...,"
            f" {side_of(stage)}_count=n); or call stage.arrive() instead of the arrival by hand"
        )
    return StageError(
        f"this stage is released without a signal and nothing has arrived for it: its"
        f" {_other_side(stage)} would wait for ever",
        release.loc,
        notes=notes,
        hint=hint,
    )


def drains_held(op: Op, stage: Value, later: Op | None = None) -> StageError:
    """``later``: a load of the stage behind the drain; without it none comes before."""
    notes: tuple[Note, ...] = (("acquired here", stage.loc),)
    if later is not None:
        notes += (("this load of the stage comes after the drain", later.loc),)
    return StageError(
        "drain() while a stage is held: it waits until the consumers have given all stages back,"
        " and this one has not been handed to them",
        op.loc,
        notes=notes,
        hint="release the stage before",
    )


def arrived_twice(op: Op, before: Op, stage: Value) -> StageError:
    return StageError(
        "a second arrival for this stage: its barrier counts one of each role, so that a later"
        " phase would end too early",
        op.loc,
        notes=(("arrived here before", before.loc), ("acquired here", stage.loc)),
        hint="behind stage.arrive(), end the stage with stage.release_without_signal()",
    )


def used_after_arrival(op: Op, arrive: Op, stage: Value) -> StageError:
    does, told = "read", "that it is free, so that it may hold other data by now"
    if side_of(stage) == "producer":
        does, told = "written", "that it is full, so that they may have read it already"
    return StageError(
        f"a tile is {does} behind stage.arrive(), which told the {_other_side(stage)} {told}",
        op.loc,
        notes=(("arrived here", arrive.loc), ("acquired here", stage.loc)),
        hint="move the arrive behind the last use of the stage's tiles, or let the release arrive",
    )


def arrived_with_bytes(op: Op, load: Op, stage: Value) -> StageError:
    return StageError(
        "stage.arrive() on a producer stage that is filled by loads: the arrival that announces"
        " their bytes is made by the acquire, and a second one would end a later phase too early",
        op.loc,
        notes=(("this load is counted", load.loc), ("acquired here", stage.loc)),
        hint="remove the arrive: the loads complete the stage by themselves",
    )


def arrivals_differ(stage: Value, arrive: Op, meet: Op) -> StageError:
    return StageError(
        "stage.arrive() runs on one path only: expected one arrival for this stage on every path",
        stage.loc,
        notes=(
            ("arrives here", arrive.loc),
            ("but not on another path through this statement", meet.loc),
        ),
        hint="arrive behind the statement, or in each of its branches",
    )


def arrives_in_loop(stage: Value, arrive: Op, loop: Op) -> StageError:
    return StageError(
        "stage.arrive() in a loop, for a stage that was acquired before it: the next iteration"
        " would arrive again",
        arrive.loc,
        notes=(("acquired here", stage.loc), ("the loop", loop.loc)),
        hint="arrive behind the loop, or acquire the stage inside",
    )
