"""Addresses inside of shared tiles: panels, and the swizzle of their 16-byte chunks."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tiledsl.codegen.ir.types import SharedTile
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I32

ROW_BITS = {128: 7, 64: 3, 32: 1}
"""Which bits of the address, above its lowest seven, a swizzle XORs into the chunk number."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a lane reads or writes in rows of one panel: ``base + (offset of the columns ^ flip)``.

    The swizzle XORs the 16-byte chunk number with bits of the row. The bits that come from the
    lane and those that come from the columns must be disjoint, so that the lane's own part of the
    offset and the row's bits make one value, ``flip``, that serves all columns.
    """

    base: Any  # i32: address of the lane's row
    flip: Any  # i32

    def at(self, low: Lowering, further: int, column_bytes: int) -> Any:
        """The address for columns at ``column_bytes`` of the panel's row, ``further`` bytes on.

        ``further`` must be a multiple of eight rows (other rows, other panels).
        """
        inside = low.builder.xor(self.flip, I32(column_bytes)) if column_bytes else self.flip
        address = low.builder.add(self.base, inside)
        return low.builder.add(address, I32(further)) if further else address


def place(
    low: Lowering, address: Any, row: Any, lane_bytes: Any, row_bytes: int, swizzle: int
) -> Place:
    """``row`` is this lane's row (i32), ``lane_bytes`` its offset within the columns (i32)."""
    builder = low.builder
    start = builder.mul(row, I32(row_bytes))
    flip = lane_bytes
    if swizzle:
        flip = builder.xor(lane_bytes, _chunk_bits(low, start, swizzle))
    return Place(builder.add(address, start), flip)


def _chunk_bits(low: Lowering, offset: Any, swizzle: int) -> Any:
    builder = low.builder
    bits = builder.and_(builder.lshr(offset, I32(7)), I32(ROW_BITS[swizzle]))
    return builder.shl(bits, I32(4))


def row_bytes(shared: SharedTile) -> int:
    """Bytes of one row of a panel."""
    return shared.swizzle or shared.stored_shape[-1] * shared.dtype.itemsize


def panel_bytes(shared: SharedTile) -> int:
    """Bytes from one panel to the next."""
    return prod(shared.stored_shape[:-1]) * row_bytes(shared)


def shared_address(low: Lowering, address: Any, shared: SharedTile, row: Any, byte: Any) -> Any:
    """The address of byte ``byte`` of row ``row`` (both i32) of a tile as stored, as TMA writes it.

    The rows of a tile of rank 3 and more are counted through.
    """
    builder = low.builder
    span = row_bytes(shared)
    offset = builder.mul(row, I32(span))
    if shared.swizzle and shared.stored_shape[-1] * shared.dtype.itemsize > span:
        shift = I32(span.bit_length() - 1)
        panel = builder.mul(builder.lshr(byte, shift), I32(panel_bytes(shared)))
        offset = builder.add(offset, panel)
        byte = builder.and_(byte, I32(span - 1))
    offset = builder.add(offset, byte)
    if shared.swizzle:
        offset = builder.xor(offset, _chunk_bits(low, offset, shared.swizzle))
    return builder.add(address, offset)
