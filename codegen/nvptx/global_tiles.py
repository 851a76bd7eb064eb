"""Register tiles from and to global memory: any alignment and strides, bounds checked.

Two neighbours go at once where the tensor's address, strides, extent and the coordinates allow it,
which is found out at run time, by one branch that is the same for all threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.layouts import SliceLayout, WgmmaFragment
from tiledsl.codegen.ir.ops import memory
from tiledsl.codegen.ir.types import Tile
from tiledsl.codegen.nvptx import packing
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.fragments import (
    Holder,
    column_offsets,
    holder,
    pairs_of,
    row_offsets,
    writes_slice,
)
from tiledsl.codegen.nvptx.global_address import Source
from tiledsl.codegen.nvptx.llvm_ext import I1, I32, I64
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.codegen.nvptx.values import RegisterTile, layout_of


@lower(memory.TileLoad)
def _load(low: Lowering, op: memory.TileLoad) -> None:
    tile = op.result.type
    assert isinstance(tile, Tile)
    layout, source = layout_of(tile), Source(low, op.tensor, op.coords)
    dtype = tile.dtype
    if isinstance(layout, SliceLayout):
        places = _slice_places(low, holder(low, op, layout.parent), layout, source)
        low.define(op.result, RegisterTile(dtype, [_element(low, dtype, *p) for p in places]))
        return
    grid = _grid(low, holder(low, op, layout), layout, source)

    def wide() -> list[Any]:
        pairs = [_pair(low, dtype, *grid.pair(row, run)) for row, run in pairs_of(layout)]
        return packing.registers_of(low, pairs, dtype)

    def narrow() -> list[Any]:
        found = []
        for row, run in pairs_of(layout):
            first, second = (_register(low, dtype, *grid.element(row, run, n)) for n in (0, 1))
            found += packing.joined(low, first, second, dtype)
        return found

    registers = _either(low, grid.paired(), wide, narrow)
    low.define(op.result, packing.from_registers(low, registers, dtype))


@lower(memory.TileStore)
def _store(low: Lowering, op: memory.TileStore) -> None:
    value = op.value.type
    assert isinstance(value, Tile)
    layout, source = layout_of(value), Source(low, op.tensor, op.coords)
    tile, dtype = low.get(op.value), value.dtype
    assert isinstance(tile, RegisterTile)
    if isinstance(layout, SliceLayout):
        here = holder(low, op, layout.parent)
        mine = writes_slice(low, here, layout)
        places = _slice_places(low, here, layout, source)
        for (address, inside), each in zip(places, packing.to_registers(low, tile), strict=True):
            _put(low, dtype, address, each, low.builder.and_(mine, inside))
        return
    grid = _grid(low, holder(low, op, layout), layout, source)
    where = pairs_of(layout)
    text, pairs = packing.store_pairs(low, tile)

    def wide() -> list[Any]:
        for (row, run), operands in zip(where, pairs, strict=True):
            address, inside = grid.pair(row, run)
            named = f"@${len(operands) + 1} st.global.{text};"
            low.asm(named, [("l", address), *operands, ("b", inside)])
        return []

    def narrow() -> list[Any]:
        found = iter(packing.to_registers(low, tile))
        for row, run in where:
            for half in (0, 1):
                address, inside = grid.element(row, run, half)
                _put(low, dtype, address, next(found), inside)
        return []

    _either(low, grid.paired(), wide, narrow)


# -------------------------------------------------------------------------------- where it lies


@dataclass(frozen=True, slots=True)
class _Grid:
    """Addresses of a thread's elements of a fragment, from its rows and its columns."""

    low: Lowering
    source: Source
    rows: list[tuple[Any, Any]]  # address (i64) of the tensor's column 0, and whether inside (i1)
    columns: list[tuple[Any, Any]]  # bytes (i64) from there, and whether inside (i1)

    def element(self, row: int, run: int, half: int) -> tuple[Any, Any]:
        builder = self.low.builder
        (start, row_inside), (offset, inside) = self.rows[row], self.columns[2 * run + half]
        return builder.add(start, offset), builder.and_(row_inside, inside)

    def pair(self, row: int, run: int) -> tuple[Any, Any]:
        """Two neighbours: where ``paired`` holds, both are inside or none is."""
        builder = self.low.builder
        (start, row_inside), (_, inside) = self.rows[row], self.columns[2 * run]
        # The columns of a thread are constants apart, which become part of the instructions.
        first = builder.add(start, self.columns[0][0])
        address = builder.add(first, I64(8 * run * self.source.itemsize)) if run else first
        return address, builder.and_(row_inside, inside)

    def paired(self) -> Any:
        """Whether all pairs of neighbours can be moved at once (i1)."""
        builder, itemsize = self.low.builder, self.source.itemsize
        extent = builder.mul(builder.trunc(self.source.extents[-1], I32), I32(itemsize))
        loose = builder.or_(self.source.alignment(), extent)
        return builder.icmp_unsigned("==", builder.and_(loose, I32(2 * itemsize - 1)), I32(0))


def _grid(low: Lowering, here: Holder, layout: WgmmaFragment, source: Source) -> _Grid:
    builder = low.builder
    start, started = _leading(low, source, 2)
    rows = []
    for offset in row_offsets(layout):
        moved, inside = source.at(source.rank - 2, builder.add(here.row, I32(offset)))
        rows.append((builder.add(start, moved), builder.and_(started, inside)))
    columns = [
        source.at(source.rank - 1, builder.add(here.column, I32(offset)))
        for offset in column_offsets(layout)
    ]
    return _Grid(low, source, rows, columns)


def _leading(low: Lowering, source: Source, rank: int) -> tuple[Any, Any]:
    """Where the coordinates of all but the last ``rank`` dimensions lead, and whether inside."""
    builder = low.builder
    address, inside = source.pointer, I1(1)
    for axis in range(source.rank - rank):
        offset, here = source.at(axis, None)
        address, inside = builder.add(address, offset), builder.and_(inside, here)
    return address, inside


def _slice_places(
    low: Lowering, here: Holder, layout: SliceLayout, source: Source
) -> list[tuple[Any, Any]]:
    """Address and whether inside, of each value of a thread."""
    builder = low.builder
    start, started = _leading(low, source, 1)
    first, offsets = here.column, column_offsets(layout.parent)
    if layout.axis == 1:
        first, offsets = here.row, row_offsets(layout.parent)
    found = []
    for offset in offsets:
        moved, inside = source.at(source.rank - 1, builder.add(first, I32(offset)))
        found.append((builder.add(start, moved), builder.and_(started, inside)))
    return found


def _either(
    low: Lowering, condition: Any, first: Callable[[], list[Any]], second: Callable[[], list[Any]]
) -> list[Any]:
    """Run one of two; the values that it gives."""
    builder = low.builder
    labels, behind = (low.label("pairs"), low.label("elements")), low.label("moved")
    builder.cbranch(condition, *labels)
    found = []
    for label, function in zip(labels, (first, second), strict=True):
        builder.position_at_end(label)
        values = function()
        found.append((values, builder.block))
        builder.branch(behind)
    builder.position_at_end(behind)
    merged = []
    for column in zip(*(values for values, _ in found), strict=True):
        phi = builder.phi(column[0].type)
        for value, (_, block) in zip(column, found, strict=True):
            phi.add_incoming(value, block)
        merged.append(phi)
    return merged


# ---------------------------------------------------------------------------------- one by one


def _register(low: Lowering, dtype: DType, address: Any, inside: Any) -> Any:
    """One element as a register, zero where it is outside."""
    constraint, kind = packing.register(dtype)
    return low.asm(
        f"mov.b{max(16, dtype.bits)} $0, 0; @$2 ld.global.b{dtype.bits} $0, [$1];",
        [("l", address), ("b", inside)],
        outputs=f"=&{constraint}",
        result=kind,
    )


def _element(low: Lowering, dtype: DType, address: Any, inside: Any) -> Any:
    return packing.from_register(low, _register(low, dtype, address, inside), dtype)


def _pair(low: Lowering, dtype: DType, address: Any, inside: Any) -> Any:
    """Two neighbours, as ``packing.load_pair`` says."""
    text, outputs, kind = packing.load_pair(dtype)
    count = outputs.count(",") + 1
    width = 2 * dtype.bits // count
    zeros = " ".join(f"mov.b{width} ${n}, 0;" for n in range(count))
    return low.asm(
        f"{zeros} @${count + 1} ld.global.{text}, [${count}];",
        [("l", address), ("b", inside)],
        outputs=outputs.replace("=", "=&"),
        result=kind,
    )


def _put(low: Lowering, dtype: DType, address: Any, register: Any, when: Any) -> None:
    constraint, _ = packing.register(dtype)
    text = f"@$2 st.global.b{dtype.bits} [$0], $1;"
    low.asm(text, [("l", address), (constraint, register), ("b", when)])
