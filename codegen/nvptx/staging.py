"""Register tiles into shared memory, as a bulk tensor copy will read them.

16-bit elements go by ``stmatrix``: each lane gives the address of one row of an 8 x 8 matrix, and
the hardware deals the registers to the rows. Other sizes are stored two neighbours at a time.
"""

from __future__ import annotations

from typing import Any

from tiledsl.codegen.ir.layouts import MMA_ROWS, WgmmaFragment
from tiledsl.codegen.ir.ops import protocol
from tiledsl.codegen.ir.types import BufferType, Tile
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I32
from tiledsl.codegen.nvptx.packing import store_pairs, words
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.codegen.nvptx.shared_address import Place, place
from tiledsl.codegen.nvptx.values import RegisterTile, fragment
from tiledsl.errors import InternalError

COLUMNS = 8  # of one matrix, and of the run of columns that four lanes share


@lower(protocol.StagingWrite)
def _write(low: Lowering, op: protocol.StagingWrite) -> None:
    value, kind = op.value.type, op.buffer.type
    assert isinstance(value, Tile) and isinstance(kind, BufferType)
    layout = fragment(value)
    if kind.shape[0] != layout.rows or kind.shape[1] % COLUMNS or op.column % COLUMNS:
        raise InternalError(f"{kind} cannot take columns from {op.column} of {value}", op.loc)
    if kind.swizzle not in (0, kind.shape[1] * kind.dtype.itemsize):
        raise InternalError(f"a box of {kind} is not one panel wide", op.loc)
    tile = low.get(op.value)
    assert isinstance(tile, RegisterTile)
    thread = low.builder.and_(low.thread, I32(127))
    lane = low.builder.and_(thread, I32(31))
    warp_row = low.builder.shl(low.builder.lshr(thread, I32(5)), I32(4))
    writer = _write_matrices if value.dtype.bits == 16 else _write_pairs
    writer(low, op, tile, layout, kind, warp_row, lane)


def _place(low: Lowering, buffer: Any, kind: BufferType, row: Any, lane_bytes: Any) -> Place:
    row_bytes = kind.shape[1] * kind.dtype.itemsize
    return place(low, buffer, row, lane_bytes, row_bytes, kind.swizzle)


def _write_matrices(
    low: Lowering,
    op: protocol.StagingWrite,
    tile: RegisterTile,
    layout: WgmmaFragment,
    kind: BufferType,
    warp_row: Any,
    lane: Any,
) -> None:
    """stmatrix: lane l gives row l mod 16; lanes 16 ... 31 give the second run of 8 columns."""
    builder = low.builder
    row = builder.add(warp_row, builder.and_(lane, I32(15)))
    lane_bytes = builder.and_(lane, I32(16))  # 16 bytes, for lanes 16 ... 31
    if kind.shape[1] == COLUMNS:
        lane_bytes = I32(0)  # one run of columns: lanes 16 ... 31 give no addresses
    where = _place(low, low.get(op.buffer), kind, row, lane_bytes)
    found = words(low, tile)
    for number in range(op.boxes):
        box = (op.first_box + number) * kind.nbytes // kind.count
        for block in range(layout.blocks):
            first = (block * layout.columns + op.column + number * kind.shape[1]) // 4
            further = box + block * MMA_ROWS * kind.shape[1] * kind.dtype.itemsize
            for column in range(0, kind.shape[1], 2 * COLUMNS):
                count = 4 if column + COLUMNS < kind.shape[1] else 2
                at = first + column // 4
                store_matrices(low, where.at(low, further, 2 * column), found[at : at + count])


def store_matrices(low: Lowering, address: Any, found: list[Any], *, trans: bool = False) -> None:
    """``stmatrix`` of two or four 8 x 8 matrices of 16-bit elements, one word a lane of each."""
    names = ", ".join(f"${n + 1}" for n in range(len(found)))
    how = ".trans" if trans else ""
    low.asm(
        f"stmatrix.sync.aligned.m8n8.x{len(found)}{how}.shared.b16 [$0], {{{names}}};",
        [("r", address), *(("r", word) for word in found)],
        convergent=True,
    )


def _write_pairs(
    low: Lowering,
    op: protocol.StagingWrite,
    tile: RegisterTile,
    layout: WgmmaFragment,
    kind: BufferType,
    warp_row: Any,
    lane: Any,
) -> None:
    """Lane l holds columns 2 (l mod 4) and the next of rows l / 4 and l / 4 + 8 in each run."""
    builder, itemsize = low.builder, tile.dtype.itemsize
    row = builder.add(warp_row, builder.lshr(lane, I32(2)))
    lane_bytes = builder.mul(builder.and_(lane, I32(3)), I32(2 * itemsize))
    buffer = low.get(op.buffer)
    places = [
        _place(low, buffer, kind, builder.add(row, I32(8 * half)) if half else row, lane_bytes)
        for half in (0, 1)
    ]
    text, pairs = store_pairs(low, tile)
    for number in range(op.boxes):
        box = (op.first_box + number) * kind.nbytes // kind.count
        for block in range(layout.blocks):
            first = (block * layout.columns + op.column + number * kind.shape[1]) // 4
            further = box + block * MMA_ROWS * kind.shape[1] * itemsize
            for column in range(0, kind.shape[1], COLUMNS):
                for half, where in enumerate(places):
                    address = where.at(low, further, column * itemsize)
                    operands = pairs[first + column // 4 + half]
                    low.asm(f"st.shared.{text};", [("r", address), *operands])
