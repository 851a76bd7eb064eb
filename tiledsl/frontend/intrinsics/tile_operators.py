"""Python's operators on register tiles, and the choice between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import arith
from tiledsl.codegen.ir.types import Scalar, Tile
from tiledsl.frontend.aggregates import join, leaf_as, leaf_type
from tiledsl.frontend.arithmetic import SYMBOLS, python_number
from tiledsl.frontend.intrinsics.elementwise import (
    Elements,
    combine,
    common_dtype,
    common_shape,
    dtype_of,
    each,
    is_elements,
    is_operand,
)
from tiledsl.frontend.intrinsics.expanded import ExpandedTile
from tiledsl.frontend.registry import implements, operators
from tiledsl.language import tile as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


@operators(ExpandedTile)
@operators(Tile)
class TileOperators:
    """Element by element, in the tile's dtype; numbers adapt to it, other tiles must have it."""

    @staticmethod
    def binary(cx: Context, kind: str, lhs: object, rhs: object) -> Elements:
        what = f"`{SYMBOLS[kind]}`"
        dtype = common_dtype(cx, what, (lhs, rhs))
        _check_kind(cx, kind, dtype)
        if dtype.is_integer:
            _check_integer_operand(cx, kind, dtype, rhs)
        return combine(cx, what, lhs, rhs, lambda a, b: arith.Binary(kind, a, b))

    @staticmethod
    def compare(cx: Context, kind: str, lhs: object, rhs: object) -> Elements:
        what = f"`{SYMBOLS[kind]}`"
        dtype = common_dtype(cx, what, (lhs, rhs))
        if dtype.is_float and dtype.bits == 8:
            raise _no_arithmetic(cx, kind, dtype)
        return combine(cx, what, lhs, rhs, lambda a, b: arith.Compare(kind, a, b))

    @staticmethod
    def unary(cx: Context, kind: str, value: Elements) -> Elements:
        dtype = dtype_of(value)
        if kind == "invert" and dtype.kind == "bool":
            kind = "not"  # `~mask`, since Python's `not` asks for one truth
        if not arith.has_unary(kind, dtype):
            raise _no_arithmetic(cx, kind, dtype)
        return each(cx, value, lambda tile: cx.emit(arith.Unary(kind, tile)))


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


# ------------------------------------------------------------------------------------- choices


@implements(language.where)
def where(cx: Context, condition: object, a: object, b: object) -> Any:
    _check_condition(cx, condition)
    for name, value in (("a", a), ("b", b)):
        if not is_operand(value):
            raise cx.type_error(
                f"td.where: {name}: expected a number or a register tile, got {cx.describe(value)}"
            )
    if is_elements(a) or is_elements(b):
        dtype = common_dtype(cx, "td.where", (a, b))
        shape = common_shape(cx, "td.where", [x for x in (condition, a, b) if is_elements(x)])
    elif is_elements(condition):
        dtype = _number_type(cx, a, b).dtype
        shape = common_shape(cx, "td.where", (condition,))
    else:
        kind = _number_type(cx, a, b)
        chosen = [leaf_as(cx, x, kind) for x in (_leaf(a), _leaf(b))]
        return cx.emit(arith.Select(cx.boolean(condition), *chosen))
    mask = shape.spread(cx, condition, dtypes.bool_)
    true, false = (shape.spread(cx, x, dtype) for x in (a, b))
    return shape.finish(cx.emit(arith.Select(mask, true, false)))


def _check_condition(cx: Context, condition: object) -> None:
    if isinstance(condition, Value | ExpandedTile) and is_operand(condition):
        dtype = dtype_of(condition)
        if dtype.kind == "bool":
            return
        raise cx.type_error(
            f"td.where: condition: expected bool_, got {cx.describe(condition)}",
            hint="compare it: write x != 0",
        )
    if not isinstance(condition, bool):
        raise cx.type_error(
            "td.where: condition: expected a bool_ or a register tile of them, got"
            f" {cx.describe(condition)}"
        )


def _leaf(x: object) -> Any:
    return x if isinstance(x, Value) else python_number(x)


def _number_type(cx: Context, a: object, b: object) -> Scalar:
    """The dtype that holds both numbers without loss."""
    found = join(leaf_type(cx, _leaf(a)), leaf_type(cx, _leaf(b)))
    if found is None:
        raise cx.type_error(
            f"td.where: {cx.describe(a)} and {cx.describe(b)} have no dtype in common",
            hint="convert one of them, such as td.float32(x)",
        )
    assert isinstance(found.type, Scalar)
    return found.type
