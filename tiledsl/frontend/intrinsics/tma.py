"""``td.tma_load`` and ``td.tma_store``, with what the hardware demands of a tile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.layouts import pick_swizzle, tma_box
from tiledsl.codegen.ir.ops import tile as ops
from tiledsl.codegen.ir.ops.arith import Constant
from tiledsl.codegen.ir.types import BarrierType, SharedTile, TensorType, Tile
from tiledsl.frontend.intrinsics.arguments import coordinates
from tiledsl.frontend.intrinsics.arguments import tensor as tensor_argument
from tiledsl.frontend.registry import implements
from tiledsl.language import tma as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

MAX_BOX = 256  # elements along one dimension of a bulk tensor copy
CHUNK = 16  # bytes of which a copied row is a multiple


@implements(language.tma_load)
def tma_load(cx: Context, tensor: object, coords: object, tile: object, barrier: object) -> None:
    call = "td.tma_load"
    source = tensor_argument(cx, tensor, f"{call}: tensor")
    if not isinstance(tile, Value) or not isinstance(tile.type, SharedTile):
        raise cx.type_error(
            f"{call}: tile: expected a tile in shared memory, got {cx.describe(tile)}",
            hint="take it from the stage: stage.payload().get_tile(stage.stage())",
        )
    if tile.type.transposed:
        raise cx.type_error(
            f"{call}: tile: expected a tile as it is stored, got a transposed one",
            hint="load into the tile itself and write .T where it is used",
        )
    if not isinstance(barrier, Value) or not isinstance(barrier.type, BarrierType):
        raise cx.type_error(
            f"{call}: barrier: expected the barrier of a stage, got {cx.describe(barrier)}",
            hint="write stage.barrier()",
        )
    _check_pair(cx, call, source, tile.type.shape, tile.type.dtype, loads=True)
    at = coordinates(cx, coords, source, call)
    _check_coordinates(cx, call, source, at, loads=True)
    check_copyable(cx, call, tile.type.shape, tile.type.dtype, tile.type.swizzle)
    cx.add(ops.TmaLoad(source, at, tile, barrier))


@implements(language.tma_store)
def tma_store(cx: Context, tile: object, tensor: object, coords: object) -> None:
    call = "td.tma_store"
    if not isinstance(tile, Value) or not isinstance(tile.type, Tile | SharedTile):
        raise cx.type_error(
            f"{call}: tile: expected a register tile or a tile in shared memory, got"
            f" {cx.describe(tile)}",
            hint="the tile comes first: td.tma_store(tile, tensor, coords)"
            if isinstance(tile, Value) and isinstance(tile.type, TensorType)
            else None,
        )
    target = tensor_argument(cx, tensor, f"{call}: tensor")
    kind = tile.type
    if isinstance(kind, SharedTile) and kind.transposed:
        raise cx.type_error(
            f"{call}: tile: expected a tile as it is stored, got a transposed one",
            hint="a copy cannot transpose: store the tile itself",
        )
    _check_pair(cx, call, target, kind.shape, kind.dtype, loads=False)
    at = coordinates(cx, coords, target, call)
    _check_coordinates(cx, call, target, at, loads=False)
    # A register tile is staged in shared memory with the widest swizzle that fits.
    swizzle = (
        kind.swizzle
        if isinstance(kind, SharedTile)
        else pick_swizzle(kind.shape[-1] * kind.dtype.itemsize)
    )
    check_copyable(cx, call, kind.shape, kind.dtype, swizzle)
    cx.add(ops.TmaStore(tile, target, at))


def _check_coordinates(
    cx: Context, call: str, tensor: Value, coords: tuple[Value, ...], *, loads: bool
) -> None:
    """What is known at compile time of the coordinates must suit the hardware."""
    assert isinstance(tensor.type, TensorType)
    itemsize = tensor.type.dtype.itemsize
    known = [c.owner.value if isinstance(c.owner, Constant) else None for c in coords]
    if known[-1] is not None and int(known[-1]) * itemsize % CHUNK:
        raise cx.value_error(
            f"{call}: coords: the last coordinate {known[-1]} is byte {int(known[-1]) * itemsize}"
            f" of a row of {tensor.type.dtype} elements: expected a multiple of {CHUNK} bytes",
            hint=f"use a multiple of {CHUNK // itemsize}",
        )
    for axis, number in enumerate(known):
        if number is not None and number < 0 and not loads:
            raise cx.value_error(
                f"{call}: coords: coordinate {axis} is {number}: expected at least 0, for a store"
                " cannot start before the tensor",
                hint="only loads may start before a tensor, where they read zeros",
            )


def _check_pair(
    cx: Context, call: str, tensor: Value, shape: tuple[int, ...], dtype: DType, *, loads: bool
) -> None:
    """The tile must have the tensor's dtype and no more dimensions."""
    kind = tensor.type
    assert isinstance(kind, TensorType)
    name = f" {tensor.name}" if tensor.name else ""
    if dtype != kind.dtype:
        hint = (
            f"declare the payload with {tensor.name or 'tensor'}.dtype"
            if loads
            else f"convert the tile first: tile.to({tensor.name or 'tensor'}.dtype)"
        )
        raise cx.type_error(
            f"{call}: the tile is {dtype}, but tensor{name} is {kind.dtype}: expected one dtype,"
            " because a copy converts nothing",
            hint=hint,
        )
    if len(shape) > kind.rank:
        raise cx.type_error(
            f"{call}: expected a tile of at most the tensor's rank {kind.rank}, got one of shape"
            f" {shape}"
        )


def check_copyable(
    cx: Context, call: str, shape: tuple[int, ...], dtype: DType, swizzle: int
) -> None:
    """Raise ``InvalidValue`` where no sequence of bulk tensor copies can move the tile."""
    row = shape[-1] * dtype.itemsize
    if row % CHUNK:
        raise cx.value_error(
            f"{call}: a row of this tile is {row} bytes ({shape[-1]} {dtype} elements): expected"
            f" a multiple of {CHUNK} bytes",
            hint=f"use a multiple of {CHUNK // dtype.itemsize} for the last extent of {shape}",
        )
    box = tma_box(shape, dtype.itemsize, swizzle)
    for axis, extent in enumerate(box):
        if extent > MAX_BOX:
            last = axis == len(shape) - 1
            raise cx.value_error(
                f"{call}: extent {axis} of a tile of shape {shape} is {extent}: expected at most"
                f" {MAX_BOX}" + (", as no swizzle divides its rows" if last else ""),
                hint=f"use a multiple of {32 // dtype.itemsize} elements, which is copied in pieces"
                if last
                else "only the first extent and swizzled rows are copied in pieces",
            )
