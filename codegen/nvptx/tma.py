"""Bulk tensor copies between global and shared memory, and the groups of those that store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.layouts import tma_box
from tiledsl.codegen.ir.ops import protocol, tile
from tiledsl.codegen.ir.plan import ParamSlot, TensorMapSpec
from tiledsl.codegen.ir.types import BufferType, SharedTile, TensorType
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I32
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.errors import InternalError, InvalidValue

MAX_RANK = 5  # dimensions of a tensor map
SHARED_ALIGNMENT = 128  # bytes, of the shared-memory address of a copy


def _tensor_map(
    low: Lowering, op: Op, tensor: Value, box: Sequence[int], swizzle: int, use: str
) -> Any:
    """The parameter that holds the tensor map of a copy with this box."""
    kind = tensor.type
    assert isinstance(kind, TensorType)
    if kind.rank > MAX_RANK:
        raise InvalidValue(
            f"a bulk tensor copy takes tensors of rank 1 to {MAX_RANK}: got rank {kind.rank}",
            op.loc,
            hint="pass a view of the tensor with fewer dimensions",
        )
    padded = (1,) * (kind.rank - len(box)) + tuple(box)
    number = low.get(tensor)
    spec = TensorMapSpec(number, kind.dtype, padded, swizzle, use)
    found = low.slots.get(ParamSlot("tensormap", number, dtype=kind.dtype, spec=spec))
    if found is None:
        raise InternalError(f"the plan has no tensor map with box {padded} for {op.opcode}", op.loc)
    return found


def _boxes(shared: SharedTile) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The copies that make up a tile: byte offset in the tile, and first element.

    A tile is stored in panels as wide as the swizzle; a panel holds all rows, which are cut where
    they are more than one copy takes.
    """
    shape = shared.stored_shape
    itemsize = shared.dtype.itemsize
    box = tma_box(shape, itemsize, shared.swizzle)
    row_bytes = box[-1] * itemsize  # of a panel
    rows = shared.nbytes // (shape[-1] * itemsize)
    outer = shape[0] if len(shape) > 1 else 1
    box_outer = box[0] if len(shape) > 1 else 1
    for panel, column in enumerate(range(0, shape[-1], box[-1])):
        for first in range(0, outer, box_outer):
            offset = (panel * rows + first * (rows // outer)) * row_bytes
            start = (first, *[0] * (len(shape) - 2), column) if len(shape) > 1 else (column,)
            yield offset, start


def _aligned_boxes(op: Op, tile_value: Value) -> list[tuple[int, tuple[int, ...]]]:
    """The copies of a tile.

    Raises:
        InvalidValue: one of them would start where the hardware cannot copy.
    """
    shared = tile_value.type
    assert isinstance(shared, SharedTile)
    boxes = list(_boxes(shared))
    for start, _ in boxes:  # the tile itself is aligned: see TileArray.pitch
        if start % SHARED_ALIGNMENT:
            raise InvalidValue(
                f"bulk tensor copies of {shared} would start {start} bytes into shared memory:"
                f" expected a multiple of {SHARED_ALIGNMENT}",
                op.loc,
                hint="use a tile with more rows, or with longer rows"
                f" ({shared.nbytes} bytes in {len(boxes)} copies)",
            )
    return boxes


def _coordinates(low: Lowering, coords: Sequence[Value], start: Sequence[int]) -> list[Any]:
    """Coordinates of one copy, innermost first as PTX wants them."""
    padded = [0] * (len(coords) - len(start)) + list(start)
    moved = []
    for coord, more in zip(coords, padded, strict=True):
        value = low.get(coord)
        moved.append(low.builder.add(value, I32(more)) if more else value)
    return moved[::-1]


def _places(first: int, count: int) -> str:
    return ", ".join(f"${first + n}" for n in range(count))


@lower(tile.TmaLoad)
def _load(low: Lowering, op: tile.TmaLoad) -> None:
    shared = op.tile.type
    assert isinstance(shared, SharedTile)
    box = tma_box(shared.stored_shape, shared.dtype.itemsize, shared.swizzle)
    tensor_map = _tensor_map(low, op, op.tensor, box, shared.swizzle, "load")
    rank = len(op.coords)
    text = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile"
        f".mbarrier::complete_tx::bytes [$0], [$1, {{{_places(3, rank)}}}], [$2];"
    )
    address, barrier = low.get(op.tile), low.get(op.barrier)
    for offset, start in _aligned_boxes(op, op.tile):
        to = low.builder.add(address, I32(offset)) if offset else address
        operands = [("r", to), ("l", tensor_map), ("r", barrier)]
        operands += [("r", coord) for coord in _coordinates(low, op.coords, start)]
        low.elected(text, operands, "role")


def _store(low: Lowering, address: Any, tensor_map: Any, coords: Sequence[Any], elect: str) -> None:
    rank = len(coords)
    text = (
        f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
        f" [$1, {{{_places(2, rank)}}}], [$0];"
    )
    operands = [("r", address), ("l", tensor_map), *(("r", coord) for coord in coords)]
    low.elected(text, operands, elect)


@lower(protocol.TmaStoreBuffer)
def _store_buffer(low: Lowering, op: protocol.TmaStoreBuffer) -> None:
    buffer = op.buffer.type
    assert isinstance(buffer, BufferType)
    tensor_map = _tensor_map(low, op, op.tensor, buffer.shape, buffer.swizzle, "store")
    address = low.get(op.buffer)
    if op.box:
        address = low.builder.add(address, I32(op.box * (buffer.nbytes // buffer.count)))
    _store(low, address, tensor_map, _coordinates(low, op.coords, ()), "part")


@lower(protocol.TmaStoreShared)
def _store_shared(low: Lowering, op: protocol.TmaStoreShared) -> None:
    shared = op.tile.type
    assert isinstance(shared, SharedTile)
    box = tma_box(shared.stored_shape, shared.dtype.itemsize, shared.swizzle)
    tensor_map = _tensor_map(low, op, op.tensor, box, shared.swizzle, "store")
    for offset, start in _aligned_boxes(op, op.tile):
        address = low.get(op.tile)
        if offset:
            address = low.builder.add(address, I32(offset))
        _store(low, address, tensor_map, _coordinates(low, op.coords, start), "role")


@lower(protocol.BulkCommit)
def _commit(low: Lowering, op: protocol.BulkCommit) -> None:
    low.elected("cp.async.bulk.commit_group;", [], op.elect)


@lower(protocol.BulkWait)
def _wait(low: Lowering, op: protocol.BulkWait) -> None:
    read = ".read" if op.read else ""
    low.elected(f"cp.async.bulk.wait_group{read} {op.pending};", [], op.elect)
