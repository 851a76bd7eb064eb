"""``td.cdiv``, ``td.minimum``, ``td.maximum``, and functions of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import arith
from tiledsl.frontend.arithmetic import python_number
from tiledsl.frontend.intrinsics.arguments import index_of, is_integer_value
from tiledsl.frontend.intrinsics.elementwise import dtype_of, each, is_operand
from tiledsl.frontend.intrinsics.expanded import ExpandedTile
from tiledsl.frontend.intrinsics.scalars import convert
from tiledsl.frontend.registry import implements
from tiledsl.language import math as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


@implements(language.cdiv)
def cdiv(cx: Context, a: object, b: object) -> Any:
    """``-(-a // b)``; an unsigned ``a`` has no negative, so there ``a // b``, plus 1 if inexact."""
    for name, value in (("a", a), ("b", b)):
        if index_of(value) is None and not (isinstance(value, Value) and is_integer_value(value)):
            raise cx.type_error(f"td.cdiv: {name}: expected an integer, got {cx.describe(value)}")
    if not isinstance(b, Value) and b == 0:
        raise cx.value_error("td.cdiv: b: expected a number that is not zero, got 0")
    if not (_is_unsigned(a) or _is_unsigned(b)):
        return cx.unary("neg", cx.binary("floordiv", cx.unary("neg", a), b))
    down = cx.binary("floordiv", a, b)
    return cx.binary("add", down, cx.compare("ne", cx.binary("mul", down, b), a))


def _is_unsigned(value: object) -> bool:
    return isinstance(value, Value) and arith.element_type(value.type).kind == "uint"


@implements(language.minimum)
def minimum(cx: Context, a: object, b: object) -> Any:
    return _extreme(cx, "min", a, b)


@implements(language.maximum)
def maximum(cx: Context, a: object, b: object) -> Any:
    return _extreme(cx, "max", a, b)


def _extreme(cx: Context, kind: str, a: object, b: object) -> Any:
    for name, value in (("a", a), ("b", b)):
        if not is_operand(value):
            raise cx.type_error(
                f"td.{kind}imum: {name}: expected a number or a register tile, got"
                f" {cx.describe(value)}"
            )
    return cx.binary(kind, a, b)


# ---------------------------------------------------------------------------- functions of floats


def _function(cx: Context, name: str, x: object, compute: Callable[[Value], Value]) -> Any:
    """A function of a float scalar or tile; ``compute`` is given at least 32 bits."""
    stub = getattr(language, name)
    if (number := python_number(x)) is not None:
        return stub(number)
    if not is_operand(x):
        raise cx.type_error(
            f"td.{name}: expected a number or a register tile, got {cx.describe(x)}"
        )
    assert isinstance(x, Value | ExpandedTile)
    dtype = dtype_of(x)
    if not arith.has_unary("exp", dtype):
        raise cx.type_error(
            f"td.{name}: expected a float of at least 16 bits, got {cx.describe(x)}",
            hint="convert it first: x.to(td.float32)",
        )

    if dtype == dtypes.float64 and name not in ("sqrt", "rsqrt"):
        raise cx.type_error(
            f"td.{name} does not exist for float64: expected float32, float16 or bfloat16, got"
            f" {cx.describe(x)}",
            hint="convert it first: x.to(td.float32)",
        )

    def widened(value: Value) -> Value:
        if dtype.bits >= 32:
            return compute(value)
        return convert(cx, compute(convert(cx, value, dtypes.float32)), dtype)

    return each(cx, x, widened)


def _unary(name: str) -> Callable[[Context, object], Any]:
    def implementation(cx: Context, x: object) -> Any:
        return _function(cx, name, x, lambda value: cx.emit(arith.Unary(name, value)))

    return implementation


for _name in arith.FLOAT_KINDS:
    implements(getattr(language, _name))(_unary(_name))


@implements(language.sigmoid)
def sigmoid(cx: Context, x: object) -> Any:
    def compute(value: Value) -> Value:
        power = cx.emit(arith.Unary("exp", cx.unary("neg", value)))
        found = cx.binary("truediv", 1.0, cx.binary("add", 1.0, power))
        assert isinstance(found, Value)
        return found

    return _function(cx, "sigmoid", x, compute)


@implements(language.abs)
def absolute(cx: Context, x: object) -> Any:
    return cx.unary("abs", x)
