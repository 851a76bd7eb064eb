"""Register tiles into shared memory, as a bulk tensor copy will read them.

16-bit elements go by ``stmatrix``: each lane gives the address of one row of an 8 x 8 matrix, and
the hardware deals the registers to the rows. Other sizes are stored two neighbours at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.layouts import MMA_ROWS, WgmmaFragment
from tiledsl.codegen.ir.ops import protocol
from tiledsl.codegen.ir.types import BufferType, Tile
from tiledsl.codegen.nvptx.casts import as_bits
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I16, I32
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.codegen.nvptx.values import RegisterTile, fragment
from tiledsl.errors import InternalError

COLUMNS = 8  # of one matrix, and of the run of columns that four lanes share


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a lane stores in a box: ``base + (offset of the columns ^ flip)``.

    The swizzle XORs the 16-byte chunk number with bits of the row. The bits that come from the
    lane and those that come from the columns are disjoint, so the lane's own part of the offset
    and the row's bits make one value, ``flip``, that serves all columns.
    """

    base: Any  # i32: address of the lane's row in the buffer's first box
    flip: Any  # i32
    row_bytes: int

    def at(self, low: Lowering, box: int, row: int, column_bytes: int) -> Any:
        """The address for columns at ``column_bytes``, ``row`` rows further down."""
        inside = low.builder.xor(self.flip, I32(column_bytes)) if column_bytes else self.flip
        address = low.builder.add(self.base, inside)
        further = box + row * self.row_bytes
        return low.builder.add(address, I32(further)) if further else address


def _place(low: Lowering, buffer: Any, kind: BufferType, row: Any, lane_bytes: Any) -> _Place:
    """``row`` is this lane's row (i32), ``lane_bytes`` its offset within the columns (i32)."""
    builder = low.builder
    row_bytes = kind.shape[1] * kind.dtype.itemsize
    start = builder.mul(row, I32(row_bytes))
    flip = lane_bytes
    if kind.swizzle:
        mask = {128: 7, 64: 3, 32: 1}[kind.swizzle]
        bits = builder.and_(builder.lshr(start, I32(7)), I32(mask))
        flip = builder.xor(lane_bytes, builder.shl(bits, I32(4)))
    return _Place(builder.add(buffer, start), flip, row_bytes)


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
    place = _place(low, low.get(op.buffer), kind, row, lane_bytes)
    words = _words(low, tile)
    for number in range(op.boxes):
        box = (op.first_box + number) * kind.nbytes // kind.count
        for block in range(layout.blocks):
            first = (block * layout.columns + op.column + number * kind.shape[1]) // 4
            for column in range(0, kind.shape[1], 2 * COLUMNS):
                count = 4 if column + COLUMNS < kind.shape[1] else 2
                address = place.at(low, box, block * MMA_ROWS, 2 * column)
                at = first + column // 4
                names = ", ".join(f"${n + 1}" for n in range(count))
                low.asm(
                    f"stmatrix.sync.aligned.m8n8.x{count}.shared.b16 [$0], {{{names}}};",
                    [("r", address), *(("r", word) for word in words[at : at + count])],
                    convergent=True,
                )


def _words(low: Lowering, tile: RegisterTile) -> list[Any]:
    """Neighbouring 16-bit elements as 32-bit words, the first in the lower half."""
    builder = low.builder
    if tile.pairs is not None:
        return [builder.bitcast(pair, I32) for pair in tile.pairs]
    halves = [builder.zext(as_bits(low, e, tile.dtype), I32) for e in tile.unpack(builder)]
    return [
        builder.or_(first, builder.shl(second, I32(16)))
        for first, second in zip(halves[0::2], halves[1::2], strict=True)
    ]


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
    text, pairs = _pairs(low, tile)
    for number in range(op.boxes):
        box = (op.first_box + number) * kind.nbytes // kind.count
        for block in range(layout.blocks):
            first = (block * layout.columns + op.column + number * kind.shape[1]) // 4
            for column in range(0, kind.shape[1], COLUMNS):
                for half, place in enumerate(places):
                    address = place.at(low, box, block * MMA_ROWS, column * itemsize)
                    operands = pairs[first + column // 4 + half]
                    low.asm(text, [("r", address), *operands])


def _pairs(low: Lowering, tile: RegisterTile) -> tuple[str, list[list[tuple[str, Any]]]]:
    """The store of two neighbours, and its operands for each pair."""
    builder, dtype = low.builder, tile.dtype
    if dtype.bits == 8:
        return "st.shared.b16 [$0], $1;", [[("h", pair)] for pair in _bytes(low, tile, dtype)]
    text = f"st.shared.v2.b{dtype.bits} [$0], {{$1, $2}};"
    constraint = _constraint(dtype)
    elements = tile.unpack(builder)
    return text, [
        [(constraint, first), (constraint, second)]
        for first, second in zip(elements[0::2], elements[1::2], strict=True)
    ]


def _constraint(dtype: DType) -> str:
    if dtype.is_float:
        return "f" if dtype.bits == 32 else "d"
    return "r" if dtype.bits == 32 else "l"


def _bytes(low: Lowering, tile: RegisterTile, dtype: DType) -> list[Any]:
    """Neighbouring bytes as 16-bit words, the first in the lower half."""
    builder = low.builder
    if tile.pairs is not None:
        return tile.pairs
    found = [builder.zext(as_bits(low, e, dtype), I16) for e in tile.unpack(builder)]
    return [
        builder.or_(first, builder.shl(second, I16(8)))
        for first, second in zip(found[0::2], found[1::2], strict=True)
    ]
