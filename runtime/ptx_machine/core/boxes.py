"""Where the elements of a box are: tensor maps, tiled and im2col, bounds, swizzle.

``row_of_box`` says where one row of a box (its innermost dimension) lies in memory; the copy itself
is in core/queue.py.
"""

from __future__ import annotations

from typing import Any

from tiledsl.runtime.ptx_machine.core.jit import compiled, i64
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.isa.bulk_ops import (
    MAP_ADDRESS,
    MAP_BOX,
    MAP_BYTES,
    MAP_COLUMNS,
    MAP_EXTENT,
    MAP_IM2COL,
    MAP_LOWER,
    MAP_RANK,
    MAP_STEP,
    MAP_STRIDE,
    MAP_SWIZZLE,
    MAP_UPPER,
    Q_COORDS,
    Q_SHIFT,
)  # fmt: skip

NOWHERE = -1


@compiled(i64, i64, i64, state=False)
def swizzled(offset: int, span: int) -> int:
    """Where a byte of a tile goes: 16-byte chunks change places within 128, 64 or 32 bytes.

    ``offset``: in shared memory, whose swizzle patterns repeat every 1024 bytes.
    """
    if span == 128:
        return offset ^ (((offset >> 7) & 7) << 4)
    if span == 64:
        return offset ^ (((offset >> 7) & 3) << 4)
    if span == 32:
        return offset ^ (((offset >> 7) & 1) << 4)
    return offset


@compiled(i64, i64)
def map_row(M: Any, W: Any, number: int) -> int:
    """The address of a tensor map's columns."""
    return M.maps + 8 * MAP_COLUMNS * number


@compiled(i64, i64, state=False)
def rows_of(tensor_map: int) -> int:
    """Rows of a box: all that is not in its innermost dimension."""
    columns = i64p(tensor_map)
    if columns[MAP_IM2COL]:
        return columns[MAP_BOX + 1]
    count = 1
    for axis in range(1, columns[MAP_RANK]):
        count *= columns[MAP_BOX + axis]
    return count


@compiled(i64, i64, i64, i64, state=False)
def _tiled_row(tensor_map: int, entry: int, row: int) -> int:
    """The machine address of element 0 of a row, of a tensor's own coordinate 0, or NOWHERE."""
    columns, coords = i64p(tensor_map), i64p(entry)
    address = columns[MAP_ADDRESS]
    left = row
    for axis in range(1, columns[MAP_RANK]):
        size = columns[MAP_BOX + axis]
        at = coords[Q_COORDS + axis] + (left % size) * columns[MAP_STEP + axis]
        left //= size
        if at < 0 or at >= columns[MAP_EXTENT + axis]:
            return NOWHERE
        address += at * columns[MAP_STRIDE + axis]
    return address


@compiled(i64, i64, i64, i64, state=False)
def _im2col_row(tensor_map: int, entry: int, row: int) -> int:
    """The same of a pixel: windows walk from the lower to the upper corner, W first."""
    columns, coords = i64p(tensor_map), i64p(entry)
    rank = columns[MAP_RANK]
    address, carry = columns[MAP_ADDRESS], row
    inside = True
    for axis in range(1, rank):
        start = coords[Q_COORDS + axis]
        if axis == rank - 1:
            at = start + carry
        else:
            first = columns[MAP_LOWER + axis - 1]
            last = columns[MAP_EXTENT + axis] - 1 + columns[MAP_UPPER + axis - 1]
            step = columns[MAP_STEP + axis]
            # Steps until the window leaves the box on the way, then whole lines.
            here = (last - start) // step + 1 if start <= last else 1
            if carry < here:
                at = start + carry * step
                carry = 0
            else:
                line = (last - first) // step + 1
                line = 1 if line < 1 else line
                carry -= here
                at = first + (carry % line) * step
                carry = carry // line + 1
            at += coords[Q_SHIFT + axis - 1]
        if at < 0 or at >= columns[MAP_EXTENT + axis]:
            inside = False
        address += at * columns[MAP_STRIDE + axis]
    return address if inside else NOWHERE


@compiled(i64, i64, i64, i64, state=False)
def row_of_box(tensor_map: int, entry: int, row: int) -> int:
    """The machine address of element 0 of the tensor line that a row of a box lies in."""
    if i64p(tensor_map)[MAP_IM2COL]:
        return _im2col_row(tensor_map, entry, row)
    return _tiled_row(tensor_map, entry, row)


@compiled(i64, i64, state=False)
def row_bytes(tensor_map: int) -> int:
    """Bytes of a row of a box in shared memory."""
    return i64p(tensor_map)[MAP_BOX] * i64p(tensor_map)[MAP_BYTES]


@compiled(i64, i64, state=False)
def row_pitch(tensor_map: int) -> int:
    """Bytes from row to row in shared memory: rows shorter than the swizzle's span have gaps."""
    span = i64p(tensor_map)[MAP_SWIZZLE]
    return span if span else row_bytes(tensor_map)
