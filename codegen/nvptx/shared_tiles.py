"""Register tiles from and to shared tiles, by generic loads and stores of all threads.

16-bit elements of rank 2 go by ``ldmatrix`` and ``stmatrix``, which read a transposed view as
readily. Other sizes go two neighbours at a time where the view's columns lie along the stored
rows, else one by one. Where several threads hold the same element, one of them writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from tiledsl.codegen.ir.layouts import MMA_ROWS, SliceLayout, WgmmaFragment
from tiledsl.codegen.ir.ops import memory
from tiledsl.codegen.ir.types import SharedTile, Tile
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
from tiledsl.codegen.nvptx.llvm_ext import I32
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.codegen.nvptx.shared_address import panel_bytes, place, row_bytes, shared_address
from tiledsl.codegen.nvptx.staging import store_matrices
from tiledsl.codegen.nvptx.values import RegisterTile, layout_of
from tiledsl.errors import InternalError

RUN = 8  # columns of a matrix, and those that four lanes share


@lower(memory.SharedLoad)
def _load(low: Lowering, op: memory.SharedLoad) -> None:
    tile, shared = op.result.type, op.tile.type
    assert isinstance(tile, Tile) and isinstance(shared, SharedTile)
    layout, address = layout_of(tile), low.get(op.tile)
    _check(op, shared)
    if isinstance(layout, SliceLayout):
        here = holder(low, op, layout.parent)
        low.define(op.result, _load_slice(low, here, layout, shared, address))
        return
    here = holder(low, op, layout)
    if shared.dtype.bits == 16:
        loaded = [
            word
            for at, count in _matrices(low, here, layout, shared, address)
            for word in _load_matrices(low, at, count, shared.transposed)
        ]
        # A block's words come run by run, in the order of the fragment's values.
        low.define(op.result, packing.from_words(low, loaded, shared.dtype))
    elif shared.transposed:
        elements = [
            _load_element(low, at, shared)
            for at in _element_addresses(low, here, layout, shared, address)
        ]
        low.define(op.result, RegisterTile(shared.dtype, elements))
    else:
        text, outputs, kind = packing.load_pair(shared.dtype)
        source = _operand_after(outputs)
        pairs = [
            low.asm(f"ld.shared.{text}, [{source}];", [("r", at)], outputs=outputs, result=kind)
            for at in _pair_addresses(low, here, layout, shared, address)
        ]
        low.define(op.result, packing.from_pairs(low, pairs, shared.dtype))


@lower(memory.SharedStore)
def _store(low: Lowering, op: memory.SharedStore) -> None:
    value, shared = op.value.type, op.tile.type
    assert isinstance(value, Tile) and isinstance(shared, SharedTile)
    layout, address = layout_of(value), low.get(op.tile)
    tile = low.get(op.value)
    assert isinstance(tile, RegisterTile)
    _check(op, shared)
    if isinstance(layout, SliceLayout):
        here = holder(low, op, layout.parent)
        _store_slice(low, here, layout, shared, address, tile)
        return
    here = holder(low, op, layout)
    if shared.dtype.bits == 16:
        found = iter(packing.words(low, tile))
        for at, count in _matrices(low, here, layout, shared, address):
            taken = [next(found) for _ in range(count)]
            store_matrices(low, at, taken, trans=shared.transposed)
    elif shared.transposed:
        addresses = _element_addresses(low, here, layout, shared, address)
        for at, each in zip(addresses, packing.to_registers(low, tile), strict=True):
            _store_element(low, at, each, shared, None)
    else:
        text, pairs = packing.store_pairs(low, tile)
        addresses = _pair_addresses(low, here, layout, shared, address)
        for at, operands in zip(addresses, pairs, strict=True):
            low.asm(f"st.shared.{text};", [("r", at), *operands])


def _check(op: memory.SharedLoad | memory.SharedStore, shared: SharedTile) -> None:
    if len(shared.shape) > 2:
        raise InternalError(f"no register tile has the shape of {shared}", op.loc)


def _operand_after(outputs: str) -> str:
    return f"${outputs.count(',') + 1}"


# ---------------------------------------------------------------------- 16-bit, by matrices


def _matrices(
    low: Lowering, here: Holder, layout: WgmmaFragment, shared: SharedTile, address: Any
) -> Iterator[tuple[Any, int]]:
    """Address and number of the 8 x 8 matrices of each ldmatrix or stmatrix, in value order.

    Four matrices are 16 rows x 16 columns of the view: the upper and lower half of the first run
    of 8 columns, then of the second. Lane l addresses one row of matrix l // 8 as stored: a row of
    the view, or in a transposed view a column.
    """
    builder = low.builder
    low_lanes = builder.and_(here.lane, I32(7))
    second = builder.and_(builder.lshr(here.lane, I32(3)), I32(1))  # of each two matrices
    later = builder.lshr(here.lane, I32(4))  # the second run of columns
    span, whole = row_bytes(shared), panel_bytes(shared)
    if layout.columns == RUN:
        later = I32(0)  # the addresses of lanes 16 ... 31 are not used
    if not shared.transposed:
        row = builder.add(here.first_row, builder.and_(here.lane, I32(15)))
        where = place(low, address, row, builder.shl(later, I32(4)), span, shared.swizzle)
        for block in range(layout.blocks):
            for column in range(0, layout.columns, 2 * RUN):
                panel, inside = divmod(2 * column, span)
                further = panel * whole + block * MMA_ROWS * span
                yield where.at(low, further, inside), 4 if column + RUN < layout.columns else 2
        return
    stored_row = builder.add(low_lanes, builder.shl(later, I32(3)))
    first = builder.add(builder.shl(here.first_row, I32(1)), builder.shl(second, I32(4)))
    for block in range(layout.blocks):
        byte = builder.add(first, I32(2 * MMA_ROWS * block)) if block else first
        at = shared_address(low, address, shared, stored_row, byte)
        for column in range(0, layout.columns, 2 * RUN):
            # Sixteen stored rows further the swizzle is the same.
            moved = builder.add(at, I32(column * span)) if column else at
            yield moved, 4 if column + RUN < layout.columns else 2


def _load_matrices(low: Lowering, address: Any, count: int, transposed: bool) -> list[Any]:
    outputs = ", ".join(f"${n}" for n in range(count))
    how = ".trans" if transposed else ""
    loaded = low.asm(
        f"ldmatrix.sync.aligned.m8n8.x{count}{how}.shared.b16 {{{outputs}}}, [${count}];",
        [("r", address)],
        outputs=",".join(["=r"] * count),
        result=ir.LiteralStructType([I32] * count),
        convergent=True,
    )
    return [low.builder.extract_value(loaded, n) for n in range(count)]


# -------------------------------------------------------------------------------- other sizes


def _pair_addresses(
    low: Lowering, here: Holder, layout: WgmmaFragment, shared: SharedTile, address: Any
) -> Iterator[Any]:
    """Where each two neighbours lie in a view that is as stored, in the order of ``pairs_of``."""
    builder, itemsize = low.builder, shared.dtype.itemsize
    span, whole = row_bytes(shared), panel_bytes(shared)
    lane_bytes = builder.mul(here.column, I32(itemsize))
    rows = [builder.add(here.row, I32(8 * half)) if half else here.row for half in (0, 1)]
    if RUN * itemsize <= span:
        places = [place(low, address, row, lane_bytes, span, shared.swizzle) for row in rows]
        for row, run in pairs_of(layout):
            panel, inside = divmod(run * RUN * itemsize, span)
            further = panel * whole + row // 2 * MMA_ROWS * span
            yield places[row % 2].at(low, further, inside)
        return
    for row, run in pairs_of(layout):  # a run of columns lies in two panels
        byte = builder.add(lane_bytes, I32(run * RUN * itemsize))
        at = shared_address(low, address, shared, rows[row % 2], byte)
        yield builder.add(at, I32(row // 2 * MMA_ROWS * span))


def _element_addresses(
    low: Lowering, here: Holder, layout: WgmmaFragment, shared: SharedTile, address: Any
) -> Iterator[Any]:
    """Where each element of a transposed view lies, in the order of the fragment's values."""
    builder, itemsize = low.builder, shared.dtype.itemsize
    span = row_bytes(shared)
    # Along the stored rows go the view's rows; its columns are eight stored rows apart, run by run.
    firsts: dict[tuple[int, int], Any] = {}
    for number, offset in enumerate(row_offsets(layout)):
        byte = builder.mul(builder.add(here.row, I32(offset)), I32(itemsize))
        for half in (0, 1):
            stored_row = builder.add(here.column, I32(half))
            firsts[number, half] = shared_address(low, address, shared, stored_row, byte)
    for row, run in pairs_of(layout):
        for half in (0, 1):
            at = firsts[row, half]
            yield builder.add(at, I32(run * RUN * span)) if run else at


def _load_element(low: Lowering, address: Any, shared: SharedTile) -> Any:
    constraint, kind = packing.register(shared.dtype)
    text = f"ld.shared.b{shared.dtype.bits} $0, [$1];"
    loaded = low.asm(text, [("r", address)], outputs=f"={constraint}", result=kind)
    return packing.from_register(low, loaded, shared.dtype)


def _store_element(
    low: Lowering, address: Any, register: Any, shared: SharedTile, when: Any
) -> None:
    constraint, _ = packing.register(shared.dtype)
    operands = [("r", address), (constraint, register)]
    text = f"st.shared.b{shared.dtype.bits} [$0], $1;"
    if when is not None:
        text, operands = f"@$2 {text}", [*operands, ("b", when)]
    low.asm(text, operands)


# ------------------------------------------------------------------------------------ rank 1


def _slice_addresses(
    low: Lowering, here: Holder, layout: SliceLayout, shared: SharedTile, address: Any
) -> Iterator[Any]:
    builder, itemsize = low.builder, shared.dtype.itemsize
    first, offsets = here.column, column_offsets(layout.parent)
    if layout.axis == 1:
        first, offsets = here.row, row_offsets(layout.parent)
    for offset in offsets:
        byte = builder.mul(builder.add(first, I32(offset)), I32(itemsize))
        yield shared_address(low, address, shared, I32(0), byte)


def _load_slice(
    low: Lowering, here: Holder, layout: SliceLayout, shared: SharedTile, address: Any
) -> RegisterTile:
    addresses = _slice_addresses(low, here, layout, shared, address)
    return RegisterTile(shared.dtype, [_load_element(low, at, shared) for at in addresses])


def _store_slice(
    low: Lowering,
    here: Holder,
    layout: SliceLayout,
    shared: SharedTile,
    address: Any,
    tile: RegisterTile,
) -> None:
    when = writes_slice(low, here, layout)
    addresses = _slice_addresses(low, here, layout, shared, address)
    for at, each in zip(addresses, packing.to_registers(low, tile), strict=True):
        _store_element(low, at, each, shared, when)
