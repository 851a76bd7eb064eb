"""Which elements of a register tile a thread holds: run-time indices, and views of one tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.layouts import MMA_ROWS, SliceLayout, WgmmaFragment
from tiledsl.codegen.ir.ops import memory
from tiledsl.codegen.ir.types import Tile
from tiledsl.codegen.nvptx.casts import convert
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I32
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.codegen.nvptx.values import RegisterTile, fragment, layout_of
from tiledsl.errors import InternalError


@dataclass(frozen=True, slots=True)
class Holder:
    """This thread's place in a fragment; all values are i32.

    Attributes:
        lane: 0 ... 31.
        warp: of the warpgroup, 0 ... 3.
        first_row: the tile's row that is the first of this warp, in its part's first block.
        row: the first row that this thread holds.
        column: the first of the two columns that it holds in each run of eight.
    """

    lane: Any
    warp: Any
    first_row: Any
    row: Any
    column: Any


def holder(low: Lowering, op: Op, layout: WgmmaFragment) -> Holder:
    """Where this thread stands. Roles with register tiles start at whole warpgroups."""
    builder, runner = low.builder, low.runner
    if runner.single or (runner.role is not None and runner.role.mode != "warpgroup"):
        raise InternalError(f"{op.opcode} outside of a warpgroup role", op.loc)
    lane = builder.and_(low.thread, I32(31))
    warp = builder.and_(builder.lshr(low.thread, I32(5)), I32(3))
    first_row = builder.shl(warp, I32(4))
    if layout.parts > 1:
        first_row = builder.add(first_row, builder.mul(runner.part, I32(layout.rows)))
    row = builder.add(first_row, builder.lshr(lane, I32(2)))
    column = builder.shl(builder.and_(lane, I32(3)), I32(1))
    return Holder(lane, warp, first_row, row, column)


def row_offsets(layout: WgmmaFragment) -> list[int]:
    """The rows of a thread, from its first one on: two in each block."""
    return [MMA_ROWS * block + 8 * half for block in range(layout.blocks) for half in (0, 1)]


def column_offsets(layout: WgmmaFragment) -> list[int]:
    """The columns of a thread, from its first one on: two in each run of eight."""
    return [8 * run + half for run in range(layout.columns // 8) for half in (0, 1)]


def pairs_of(layout: WgmmaFragment) -> list[tuple[int, int]]:
    """(number in ``row_offsets``, run of columns) of each two neighbouring values, in order."""
    return [
        (2 * block + half, run)
        for block in range(layout.blocks)
        for run in range(layout.columns // 8)
        for half in (0, 1)
    ]


def writes_slice(low: Lowering, holder: Holder, layout: SliceLayout) -> Any:
    """Whether this thread is the one that writes its values of a slice, which others hold too."""
    builder = low.builder
    if layout.axis == 1:  # four lanes share a row
        return builder.icmp_unsigned("==", holder.column, I32(0))
    # Eight lanes of every warp share a column.
    others = builder.or_(builder.lshr(holder.lane, I32(2)), holder.warp)
    if layout.parent.parts > 1:
        others = builder.or_(others, low.runner.part)
    return builder.icmp_unsigned("==", others, I32(0))


@lower(memory.Iota)
def _iota(low: Lowering, op: memory.Iota) -> None:
    assert isinstance(op.result.type, Tile)
    layout = layout_of(op.result.type)
    parent = layout.parent if isinstance(layout, SliceLayout) else layout
    here = holder(low, op, parent)

    def indices(first: Any, offsets: list[int]) -> list[Any]:
        moved = [low.builder.add(first, I32(offset)) if offset else first for offset in offsets]
        return [convert(low, index, dtypes.int32, op.dtype) for index in moved]

    if isinstance(layout, SliceLayout):
        along_rows = layout.axis == 1
    else:
        along_rows = op.axis == 0
    if along_rows:
        found = indices(here.row, row_offsets(parent))
    else:
        found = indices(here.column, column_offsets(parent))
    if isinstance(layout, WgmmaFragment):
        found = _spread(found, layout, per_row=along_rows)
    low.define(op.result, RegisterTile(op.dtype, found))


def _spread(values: list[Any], layout: WgmmaFragment, *, per_row: bool) -> list[Any]:
    """The values of a fragment from one value per row, or per column, of each thread."""
    found = []
    for row, run in pairs_of(layout):
        found += [values[row]] * 2 if per_row else values[2 * run : 2 * run + 2]
    return found


@lower(memory.Broadcast)
def _broadcast(low: Lowering, op: memory.Broadcast) -> None:
    source, result = op.value.type, op.result.type
    assert isinstance(source, Tile) and isinstance(result, Tile)
    layout, slices = fragment(result), layout_of(source)
    if not isinstance(slices, SliceLayout) or slices.axis != op.axis:
        raise InternalError(f"{source} cannot be repeated along axis {op.axis}", op.loc)
    per_row = op.axis == 1
    parent = slices.parent
    here = (parent.parts, parent.rows) if per_row else parent.columns
    wanted = (layout.parts, layout.rows) if per_row else layout.columns
    if here != wanted:
        raise InternalError(f"{source} does not lie as {result} needs it", op.loc)
    elements = low.elements(op.value)
    low.define(op.result, RegisterTile(source.dtype, _spread(elements, layout, per_row=per_row)))
