"""Register tiles made from nothing, and the attributes of tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import arith, memory
from tiledsl.codegen.ir.ops import tile as ops
from tiledsl.codegen.ir.types import Scalar, SharedTile, Tile
from tiledsl.frontend.arithmetic import natural_dtype, python_number
from tiledsl.frontend.intrinsics.arguments import static_dtype, static_int, static_shape
from tiledsl.frontend.registry import attribute, implements
from tiledsl.language import tile as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


def _tile(value: Value) -> Tile:
    assert isinstance(value.type, Tile)
    return value.type


def _shared(value: Value) -> SharedTile:
    assert isinstance(value.type, SharedTile)
    return value.type


# ----------------------------------------------------------------------------------- creation


@implements(language.zeros)
def zeros(cx: Context, shape: object, dtype: object = dtypes.float32) -> Value:
    extents = static_shape(cx, shape, "td.zeros: shape")
    element = static_dtype(cx, dtype, "td.zeros: dtype")
    zero = cx.constant(0.0 if element.is_float else 0, element)
    return cx.emit(arith.Full(zero, extents))


@implements(language.full)
def full(cx: Context, shape: object, value: object, dtype: object = None) -> Value:
    extents = static_shape(cx, shape, "td.full: shape")
    element = static_dtype(cx, dtype, "td.full: dtype") if dtype is not None else None
    number = python_number(value)
    if isinstance(value, Value) and isinstance(value.type, Scalar):
        element = element or value.type.dtype
    elif number is not None:
        element = element or natural_dtype(number)
    else:
        raise cx.type_error(f"td.full: value: expected a number, got {cx.describe(value)}")
    if element is None:
        raise cx.value_error(f"td.full: value: the integer {number} does not fit 64 bits")
    return cx.emit(arith.Full(cx.scalar(value, element), extents))


@implements(language.iota)
def iota(cx: Context, shape: object, axis: object = 0, dtype: object = dtypes.int32) -> Value:
    extents = static_shape(cx, shape, "td.iota: shape")
    along = static_int(cx, axis, "td.iota: axis", least=0, most=len(extents) - 1)
    element = static_dtype(cx, dtype, "td.iota: dtype")
    if element.kind == "bool" or (element.is_float and element.bits == 8):
        raise cx.type_error(
            f"td.iota: dtype: expected an integer or a float of at least 16 bits, got {element}"
        )
    return cx.emit(memory.Iota(extents, along, element))


@implements(language.Tile)
def tile(cx: Context) -> None:
    raise cx.type_error(
        "td.Tile is an annotation and cannot be created", hint="write td.zeros(shape, dtype)"
    )


@implements(language.SharedTile)
def shared_tile(cx: Context) -> None:
    raise cx.type_error(
        "td.SharedTile is an annotation and cannot be created",
        hint="take shared tiles from a pipeline: stage.payload().get_tile(stage.stage())",
    )


# --------------------------------------------------------------------------------- attributes


@attribute(Tile, "shape")
def tile_shape(cx: Context, tile: Value) -> tuple[int, ...]:
    return _tile(tile).shape


@attribute(SharedTile, "shape")
def shared_shape(cx: Context, tile: Value) -> tuple[int, ...]:
    return _shared(tile).shape


@attribute(SharedTile, "dtype")
def shared_dtype(cx: Context, tile: Value) -> DType:
    return _shared(tile).dtype


@attribute(SharedTile, "nbytes")
def shared_nbytes(cx: Context, tile: Value) -> int:
    return _shared(tile).nbytes


@attribute(SharedTile, "T")
def transpose(cx: Context, tile: Value) -> Value:
    shape = _shared(tile).shape
    if len(shape) != 2:
        raise cx.type_error(f".T: expected a shared tile of rank 2, got {cx.describe(tile)}")
    if isinstance(tile.owner, ops.SharedTranspose):
        return tile.owner.tile  # .T.T
    return cx.emit(ops.SharedTranspose(tile))
