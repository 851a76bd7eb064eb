"""Which stage guards a tile, a barrier or a slot number; which operations touch what is guarded."""

from __future__ import annotations

from collections.abc import Iterable

from tiledsl.codegen.checks.paths import Merges
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.ops import copy, memory, protocol, ring, sync, tile
from tiledsl.codegen.ir.ops.arith import Binary, Cast
from tiledsl.codegen.ir.types import RingType, SharedTile
from tiledsl.errors import Loc

ACQUIRES = (tile.AcquireProducer, tile.AcquireConsumer)

# Bulk copies that a barrier counts in bytes; ``async.copy`` is counted in arrivals.
BULK_LOADS = (tile.TmaLoad, copy.TmaLoadIm2col, copy.BulkLoad)
COPIES = (*BULK_LOADS, copy.AsyncCopy)
WRITES = (*COPIES, memory.SharedStore)  # of a shared tile
READS = (tile.Mma, tile.TmaStore, memory.SharedLoad)

# Raw style: the user moves through the ring by hand.
RAW = (ring.Wait, ring.Signal, ring.Step)
ON_SIDE = (*RAW, ring.Position, ring.TryAcquire)

# Arrivals that the user makes on a barrier.
ARRIVALS = (protocol.MbarrierArrive, protocol.MbarrierArriveExpectTx)


_CALLS = {
    "tma.load": "td.tma_load",
    "tma.load_im2col": "td.tma_load_im2col",
    "tma.store": "td.tma_store",
    "bulk.load": "td.bulk_load",
    "async.copy": "td.async_copy",
    "mma": "td.mma",
    "shared.load": "tile.load()",
    "shared.store": "tile.store(...)",
}


def user_call(op: Op) -> str:
    """An operation as the user writes it."""
    return _CALLS.get(op.opcode, op.opcode)


def ring_and_side(op: Op) -> tuple[Value, str] | None:
    """The side of a ring on which an operation of tile level works, if it does."""
    match op:
        case tile.AcquireProducer() | tile.Drain():
            return op.ring, "producer"
        case tile.AcquireConsumer():
            return op.ring, "consumer"
        case ring.TryAcquire() | ring.Position() | ring.Wait() | ring.Signal() | ring.Step():
            return op.ring, op.side
    return None


def ring_name(value: Value) -> str:
    owner = value.owner
    return owner.name if isinstance(owner, tile.PipelineCreate) else value.name


def side_of(stage: Value) -> str:
    return "producer" if isinstance(stage.owner, tile.AcquireProducer) else "consumer"


def ring_of(stage: Value) -> Value:
    """The ring of an acquired stage."""
    assert isinstance(stage.owner, tile.AcquireProducer | tile.AcquireConsumer)
    return stage.owner.ring


def tile_bytes(load: Op) -> int:
    """Bytes that a bulk load brings to the barrier of each block that takes part."""
    assert isinstance(load, BULK_LOADS) and isinstance(load.tile.type, SharedTile)
    return load.tile.type.nbytes


def list_loads(loads: Iterable[tuple[Op, int]]) -> tuple[tuple[str, Loc | None], ...]:
    """A note for each load that was counted, with how often it ran."""
    return tuple(
        (
            f"this load brings {tile_bytes(load)} bytes"
            + (f", {count} times: {count * tile_bytes(load)}" if count > 1 else ""),
            load.loc,
        )
        for load, count in loads
    )


class Guards:
    """What the values of one role stand for.

    Attributes:
        stages: tiles, barriers and slot numbers of a stage -> the handle that its acquire gave.
        raw_rings: rings through which the role moves by hand: their slots are the user's own.
    """

    def __init__(self, body: Block) -> None:
        self.merges = Merges(body)
        self.stages: dict[Value, Value] = {}
        self.raw_rings: set[Value] = set()
        for op in body.walk():
            if isinstance(op, RAW):
                self.raw_rings.add(op.ring)
            self._visit(op)

    def _visit(self, op: Op) -> None:
        match op:
            case tile.AcquireProducer() | tile.AcquireConsumer():
                self.stages[op.result] = op.result
            case tile.StageIndex() | tile.StageBarrier():
                self._same(op.result, op.stage)
            case protocol.RingBarrier():
                slot = self._handle_of_slot(op.index)
                if slot is not None and ring_of(slot) is op.ring:
                    own = "full" if side_of(slot) == "producer" else "empty"
                    if op.which == own:
                        self.stages[op.result] = slot
            case tile.PayloadTile():
                slot = self._handle_of_slot(slot_of(op))
                if slot is not None:
                    self.stages[op.result] = slot
            case tile.SharedTranspose():
                self._same(op.result, op.tile)

    def _same(self, result: Value, value: Value) -> None:
        stage = self.stage(value)
        if stage is not None:
            self.stages[result] = stage

    def _handle_of_slot(self, slot: Value) -> Value | None:
        """The stage whose number this is."""
        owners = [root.owner for root in self.merges.roots(uncast(slot))]
        if all(isinstance(owner, tile.StageIndex) for owner in owners):
            return self.stage(uncast(slot))
        return None

    def stage(self, value: Value) -> Value | None:
        """The handle of the stage that a value belongs to; None of none, or of several."""
        known = self.stages.get(value)
        if known is not None or value not in self.merges.incoming:
            return known
        found = {self.stages.get(root) for root in self.merges.roots(value)}
        return found.pop() if len(found) == 1 else None

    def origins(self, value: Value) -> set[Op]:
        """The operations that made a tile or barrier, views looked through."""
        found: set[Op] = set()
        for root in self.merges.roots(value):
            owner = root.owner
            if isinstance(owner, tile.SharedTranspose):
                found |= self.origins(owner.tile)
            elif isinstance(owner, Op):
                found.add(owner)
        return found

    def is_own(self, value: Value) -> bool:
        """Whether a tile or barrier is the kernel's own, of no ring."""
        origins = self.origins(value)
        return bool(origins) and all(
            isinstance(op, memory.SharedAt | sync.MbarrierAt) for op in origins
        )

    def is_raw(self, value: Value) -> bool:
        """Whether a tile or barrier is of a slot that the user counts by hand."""
        origins = self.origins(value)
        return bool(origins) and all(self._is_raw(op) for op in origins)

    def _is_raw(self, op: Op) -> bool:
        if not isinstance(op, tile.PayloadTile | protocol.RingBarrier) or op.result in self.stages:
            return False
        if op.ring in self.raw_rings:
            return True
        slot = slot_of(op) if isinstance(op, tile.PayloadTile) else uncast(op.index)
        return all(isinstance(v.owner, ring.Position) for v in self.merges.roots(slot))

    def rings(self, value: Value) -> set[Value]:
        """The rings that a tile or barrier belongs to, handles and numbers looked through."""
        found: set[Value] = set()
        for op in self.origins(value):
            if isinstance(op, tile.PayloadTile | protocol.RingBarrier):
                found.add(op.ring)
            elif isinstance(op, tile.StageBarrier) and (stage := self.stage(op.stage)) is not None:
                found.add(ring_of(stage))
        return found


def slot_of(op: tile.PayloadTile) -> Value:
    """``slot`` of the tile's index ``slot * tiles + k``: what must be the number of a stage."""
    assert isinstance(op.ring.type, RingType)
    slot = uncast(op.index)
    if op.ring.type.arrays[op.array].tiles == 1:
        return slot
    if isinstance(slot.owner, Binary) and slot.owner.kind == "add":
        slot = uncast(slot.owner.lhs)
    if isinstance(slot.owner, Binary) and slot.owner.kind == "mul":
        slot = uncast(slot.owner.lhs)
    return slot


def uncast(value: Value) -> Value:
    while isinstance(value.owner, Cast):
        value = value.owner.value
    return value


def arrays_of(of: Value) -> tuple[object, ...]:
    assert isinstance(of.type, RingType)
    return of.type.arrays


def explicit_count(of: Value, side: str) -> bool:
    """Whether the user states how many arrivals the barrier has on which a side arrives."""
    create = of.owner
    assert isinstance(create, tile.PipelineCreate)
    return create.counts[0 if side == "producer" else 1] is not None
