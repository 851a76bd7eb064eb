"""Several producers of one ring: each of them fills tiles of its own.

Every producer acquires every stage, so that two of them which write the same tile overwrite each
other, whatever the barriers count. A view taken on the wrong side is the usual reason. What is
refused is certain: one role writes the tile in each stage that it acquires, and the other in some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tiledsl.codegen.checks.evaluate import Known
from tiledsl.codegen.checks.stages import WRITES, Guards, ring_name, uncast
from tiledsl.codegen.checks.turns import turns_of_rings
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, control, tile
from tiledsl.codegen.ir.types import RingType
from tiledsl.errors import StageError

Slice = tuple[Value, int, int]  # a ring, an array of it, and which of the array's tiles in a stage


@dataclass(slots=True)
class _Fills:
    """What one role writes to the stages that it acquires as a producer.

    Attributes:
        always: a write of each tile that is written in every stage, whatever the branches.
        ever: the same for some stage.
        branched: rings of which the role may acquire stages on some paths only.
    """

    always: dict[Slice, Op] = field(default_factory=dict)
    ever: dict[Slice, Op] = field(default_factory=dict)
    branched: set[Value] = field(default_factory=set)


def check_producers(kernel: Kernel) -> None:
    """Raise ``StageError`` where two producers of a ring certainly write the same tile."""
    found: list[tuple[control.Role, _Fills]] = []
    for role in kernel.body.ops:
        if not isinstance(role, control.Role):
            continue
        fills = _fills(role.body)
        if role.replicas > 1:
            _check_replicas(role, fills)
        for other, before in found:
            for what in (what for what in fills.ever if what in before.ever):
                if what in fills.always or what in before.always:
                    raise _overwrites(role, fills.ever[what], other, before.ever[what], what)
        found.append((role, fills))


def _check_replicas(role: control.Role, fills: _Fills) -> None:
    turns = turns_of_rings(role.body)
    for what, op in fills.always.items():
        ring = what[0]
        # A branch may let a single replica through.
        if (ring, "producer") in turns or ring in fills.branched:
            continue
        raise StageError(
            f"the {role.replicas} replicas of role {role.name!r} fill the same tile of each stage"
            f" of pipeline {ring_name(ring)!r}, {_described(what)}: each of them acquires every"
            " stage, so that one overwrites what another wrote",
            op.loc,
            hint="acquire the stages in turns: `with me.turn():`; or fill tile number me.index",
        )


def _overwrites(
    role: control.Role, op: Op, other: control.Role, before: Op, what: Slice
) -> StageError:
    return StageError(
        f"roles {other.name!r} and {role.name!r} fill the same tile of a stage of pipeline"
        f" {ring_name(what[0])!r}, {_described(what)}: each of them acquires every stage, so that"
        " one overwrites what the other wrote",
        op.loc,
        notes=((f"role {other.name!r} fills it here", before.loc),),
        hint="let each of them fill tiles of its own; a role that reads acquires from consumer()",
    )


def _described(what: Slice) -> str:
    ring, array, k = what
    assert isinstance(ring.type, RingType)
    kind = ring.type.arrays[array]
    return f"{kind.name!r}" if kind.tiles == 1 else f"number {k} of {kind.name!r}"


def _fills(body: Block) -> _Fills:
    guards = Guards(body)
    result = _Fills()
    of_stages: dict[Value, list[dict[Slice, Op]]] = {}  # by ring, for each acquire
    leaves = any(
        not isinstance(block.terminator, control.Yield)
        for op in body.walk()
        if isinstance(op, control.If)
        for block in op.blocks
    )  # so that what stands behind a branch may be skipped
    for block, branched in _blocks(body, False):
        stages: dict[Value, dict[Slice, Op]] = {}
        for op in block.ops:
            if isinstance(op, tile.AcquireProducer):
                stages[op.result] = {}
                of_stages.setdefault(op.ring, []).append(stages[op.result])
                if branched or leaves:
                    result.branched.add(op.ring)
            elif isinstance(op, WRITES):
                stage = guards.stage(op.tile)
                what = _slice(guards, op.tile)
                if what is not None and stage in stages:
                    stages[stage].setdefault(what, op)
    for ring, written in of_stages.items():
        for fills in written:
            result.ever.update(fills)
        if ring in guards.raw_rings:
            continue  # there are stages without a handle
        common = set.intersection(*(set(fills) for fills in written))
        result.always.update({what: op for what, op in written[0].items() if what in common})
    return result


def _blocks(block: Block, branched: bool) -> Iterator[tuple[Block, bool]]:
    """The block and all that are nested in it, and whether each stands in a branch."""
    yield block, branched
    for op in block.ops:
        for inner in op.blocks:
            yield from _blocks(inner, branched or isinstance(op, control.If))


def _slice(guards: Guards, value: Value) -> Slice | None:
    """Which tile of a stage this is, if that is known."""
    origins = guards.origins(value)
    if len(origins) != 1:
        return None
    (origin,) = origins
    if not isinstance(origin, tile.PayloadTile):
        return None
    assert isinstance(origin.ring.type, RingType)
    if origin.ring.type.arrays[origin.array].tiles == 1:
        return origin.ring, origin.array, 0
    index = uncast(origin.index)  # slot * tiles, or that + k
    k: int | None = 0
    if isinstance(index.owner, arith.Binary) and index.owner.kind == "add":
        k = Known().get(uncast(index.owner.rhs))
    return None if k is None else (origin.ring, origin.array, int(k))
