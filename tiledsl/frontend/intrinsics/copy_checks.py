"""What copies between tensors and shared memory demand of their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.layouts import tma_box
from tiledsl.codegen.ir.ops.arith import Constant
from tiledsl.codegen.ir.types import BarrierType, SharedTile, TensorType
from tiledsl.frontend.intrinsics.arguments import tensor as tensor_argument
from tiledsl.frontend.objects import TracedObject

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

MAX_BOX = 256  # elements along one dimension of a bulk tensor copy
CHUNK = 16  # bytes of which a copied row is a multiple


def destination(
    cx: Context, call: str, tensor: object, tile: object, barrier: object
) -> tuple[Value, Value, Value]:
    """Tensor, shared tile and barrier of a copy to shared memory; they fit each other."""
    source = tensor_argument(cx, tensor, f"{call}: tensor")
    if not isinstance(tile, Value) or not isinstance(tile.type, SharedTile):
        raise cx.type_error(
            f"{call}: tile: expected a tile in shared memory, got {cx.describe(tile)}",
            hint=_one_of(tile) or "take it from the stage: stage.payload().get_tile(stage.stage())",
        )
    if tile.type.transposed:
        raise cx.type_error(
            f"{call}: tile: expected a tile as it is stored, got a transposed one",
            hint="load into the tile itself and write .T where it is used",
        )
    if not isinstance(barrier, Value) or not isinstance(barrier.type, BarrierType):
        raise cx.type_error(
            f"{call}: barrier: expected the barrier of a stage, got {cx.describe(barrier)}",
            hint=_one_of(barrier) or "write stage.barrier()",
        )
    check_pair(cx, call, source, tile.type.shape, tile.type.dtype, loads=True)
    return source, tile, barrier


def _one_of(x: object) -> str | None:
    """A hint where a row of objects was given for one of them."""
    row = isinstance(x, TracedObject) and type(x).item is not TracedObject.item
    return "choose one of them: x[i]" if row else None


def check_pair(
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
    check_rank(cx, call, tensor, shape)


def check_rank(cx: Context, call: str, tensor: Value, shape: tuple[int, ...]) -> None:
    """A tile has no more dimensions than its tensor."""
    assert isinstance(tensor.type, TensorType)
    if len(shape) > tensor.type.rank:
        raise cx.type_error(
            f"{call}: expected a tile of at most the tensor's rank {tensor.type.rank}, got one of"
            f" shape {shape}"
        )


def known(value: Value) -> int | None:
    """An integer that is known at compile time, else None."""
    return int(value.owner.value) if isinstance(value.owner, Constant) else None


def check_last_coordinate(cx: Context, call: str, tensor: Value, coords: tuple[Value, ...]) -> None:
    """What is known of the last coordinate must be at a multiple of 16 bytes."""
    assert isinstance(tensor.type, TensorType)
    itemsize = tensor.type.dtype.itemsize
    last = known(coords[-1])
    if last is not None and last * itemsize % CHUNK:
        raise cx.value_error(
            f"{call}: coords: the last coordinate {last} is byte {last * itemsize}"
            f" of a row of {tensor.type.dtype} elements: expected a multiple of {CHUNK} bytes",
            hint=f"use a multiple of {CHUNK // itemsize}",
        )


def check_not_before(cx: Context, call: str, coords: tuple[Value, ...], what: str) -> None:
    """What is known of the coordinates must not lie before the tensor."""
    for axis, coord in enumerate(coords):
        number = known(coord)
        if number is not None and number < 0:
            raise cx.value_error(
                f"{call}: coords: coordinate {axis} is {number}: expected at least 0, for {what}"
                " cannot start before the tensor",
                hint="only loads may start before a tensor, where they read zeros"
                if what == "a store"
                else "td.tma_load may start before a tensor, where it reads zeros",
            )


def check_copyable(
    cx: Context, call: str, shape: tuple[int, ...], dtype: DType, swizzle: int
) -> None:
    """Raise ``InvalidValue`` where no sequence of bulk tensor copies can move the tile."""
    check_row(cx, call, shape, dtype)
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


def check_row(cx: Context, call: str, shape: tuple[int, ...], dtype: DType) -> None:
    """A row of a tile must be a multiple of 16 bytes."""
    row = shape[-1] * dtype.itemsize
    if row % CHUNK:
        raise cx.value_error(
            f"{call}: a row of this tile is {row} bytes ({shape[-1]} {dtype} elements): expected"
            f" a multiple of {CHUNK} bytes",
            hint=f"use a multiple of {CHUNK // dtype.itemsize} for the last extent of {shape}",
        )
