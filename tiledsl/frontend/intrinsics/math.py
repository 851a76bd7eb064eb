"""``td.cdiv``, ``td.minimum``, ``td.maximum``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import arith
from tiledsl.codegen.ir.types import Scalar, Tile
from tiledsl.frontend.arithmetic import python_number
from tiledsl.frontend.intrinsics.arguments import index_of, is_integer_value
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
        fits = (
            isinstance(value.type, Scalar | Tile)
            if isinstance(value, Value)
            else python_number(value) is not None
        )
        if not fits:
            raise cx.type_error(
                f"td.{kind}imum: {name}: expected a number or a register tile, got"
                f" {cx.describe(value)}"
            )
    return cx.binary(kind, a, b)
