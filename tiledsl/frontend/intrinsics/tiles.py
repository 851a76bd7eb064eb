"""Register tiles (creation, operators) and the attributes of shared tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import arith
from tiledsl.codegen.ir.ops import tile as ops
from tiledsl.codegen.ir.types import Scalar, SharedTile, Tile
from tiledsl.frontend.arithmetic import SYMBOLS, natural_dtype, python_number
from tiledsl.frontend.intrinsics.arguments import static_dtype, static_shape
from tiledsl.frontend.registry import attribute, implements, operators
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


# ---------------------------------------------------------------------------------- operators


@operators(Tile)
class TileOperators:
    """Element by element, in the tile's dtype; numbers adapt to it, other tiles must have it."""

    @staticmethod
    def binary(cx: Context, kind: str, lhs: object, rhs: object) -> Value:
        left, right = _operands(cx, kind, lhs, rhs)
        dtype = _tile(left).dtype
        _check_kind(cx, kind, dtype)
        if dtype.is_integer:
            _check_integer_operand(cx, kind, dtype, rhs)
        return cx.emit(arith.Binary(kind, left, right))

    @staticmethod
    def compare(cx: Context, kind: str, lhs: object, rhs: object) -> Value:
        left, right = _operands(cx, kind, lhs, rhs)
        dtype = _tile(left).dtype
        if dtype.is_float and dtype.bits == 8:
            raise _no_arithmetic(cx, kind, dtype)
        return cx.emit(arith.Compare(kind, left, right))

    @staticmethod
    def unary(cx: Context, kind: str, value: Value) -> Value:
        dtype = _tile(value).dtype
        legal = {
            "neg": dtype.kind != "bool" and not (dtype.is_float and dtype.bits == 8),
            "abs": dtype.kind != "bool" and not (dtype.is_float and dtype.bits == 8),
            "invert": dtype.is_integer,
            "not": dtype.kind == "bool",
        }
        if kind == "not" and not legal["not"]:
            raise cx.type_error(f"`not` has no meaning for {cx.describe(value)}")
        if not legal[kind]:
            raise _no_arithmetic(cx, kind, dtype)
        return cx.emit(arith.Unary(kind, value))


def _no_arithmetic(cx: Context, kind: str, dtype: DType) -> Exception:
    hint = None
    if dtype.is_float and dtype.bits == 8:
        hint = "convert it first: tile.to(td.float32)"
    elif dtype.is_integer and kind == "truediv":
        hint = "write // for integers, or convert the tile first: tile.to(td.float32)"
    return cx.type_error(f"`{SYMBOLS[kind]}` does not exist for a tile of {dtype}", hint=hint)


def _check_kind(cx: Context, kind: str, dtype: DType) -> None:
    bits = kind in ("and", "or", "xor", "shl", "shr")
    if (
        (dtype.is_float and (dtype.bits == 8 or bits))
        or (dtype.kind == "bool" and kind not in ("and", "or", "xor"))
        or (dtype.is_integer and kind == "truediv")
    ):
        raise _no_arithmetic(cx, kind, dtype)


def _check_integer_operand(cx: Context, kind: str, dtype: DType, rhs: object) -> None:
    """Known numbers that no integer can be divided or shifted by."""
    number = python_number(rhs)
    if kind in ("floordiv", "mod") and number == 0:
        raise cx.value_error(f"`{SYMBOLS[kind]}` of a tile: division by zero")
    if kind in ("shl", "shr") and number is not None and not 0 <= number < dtype.bits:
        raise cx.value_error(
            f"`{SYMBOLS[kind]}` of a tile of {dtype}: expected a count from 0 to {dtype.bits - 1},"
            f" got {number}"
        )


def _operands(cx: Context, kind: str, lhs: object, rhs: object) -> tuple[Value, Value]:
    """Both operands as tiles of one type."""
    left_tile = isinstance(lhs, Value) and isinstance(lhs.type, Tile)
    right_tile = isinstance(rhs, Value) and isinstance(rhs.type, Tile)
    if left_tile and right_tile:
        assert isinstance(lhs, Value) and isinstance(rhs, Value)
        _check_alike(cx, kind, lhs, rhs)
        return lhs, rhs
    if left_tile:
        assert isinstance(lhs, Value)
        return lhs, _broadcast(cx, kind, rhs, lhs)
    assert isinstance(rhs, Value)
    return _broadcast(cx, kind, lhs, rhs), rhs


def _check_alike(cx: Context, kind: str, lhs: Value, rhs: Value) -> None:
    left, right = _tile(lhs), _tile(rhs)
    if left.shape != right.shape:
        raise cx.type_error(
            f"`{SYMBOLS[kind]}` of tiles: expected two tiles of one shape, got shapes"
            f" {left.shape} and {right.shape}"
        )
    if left.dtype != right.dtype:
        wider = dtypes.promote(left.dtype, right.dtype) or dtypes.float32
        raise cx.type_error(
            f"`{SYMBOLS[kind]}` of tiles: expected two tiles of one dtype, got {left.dtype} and"
            f" {right.dtype}",
            hint=f"convert one of them: tile.to(td.{wider})",
        )


def _broadcast(cx: Context, kind: str, number: object, like: Value) -> Value:
    """A number as a tile like another one. It takes the tile's dtype if that loses nothing."""
    tile = _tile(like)
    known = python_number(number)
    if isinstance(number, Value) and isinstance(number.type, Scalar):
        dtype = number.type.dtype
        fits = dtype == tile.dtype or dtypes.promote(dtype, tile.dtype) == tile.dtype
        if not fits and number not in cx.weak:
            raise cx.type_error(
                f"`{SYMBOLS[kind]}` of a tile and a number: a {dtype} does not convert to the"
                f" tile's {tile.dtype} by itself",
                hint=f"convert one of them: x.to(td.{tile.dtype}) or tile.to(td.{dtype})",
            )
    elif isinstance(known, float) and not tile.dtype.is_float:
        raise cx.type_error(
            f"`{SYMBOLS[kind]}` of a tile and a number: {known} does not convert to the tile's"
            f" {tile.dtype} by itself",
            hint="convert the tile first: tile.to(td.float32)",
        )
    elif known is None:
        raise cx.type_error(
            f"`{SYMBOLS[kind]}` of a tile: expected a tile of shape {tile.shape} or a number on"
            f" the other side, got {cx.describe(number)}"
        )
    return cx.emit(arith.Full(cx.scalar(number, tile.dtype), tile.shape))
