"""Conversion of scalars and register tiles between dtypes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import arith
from tiledsl.codegen.ir.types import Scalar, Tile
from tiledsl.frontend.arithmetic import python_number
from tiledsl.frontend.intrinsics.arguments import static_dtype
from tiledsl.frontend.registry import attribute, calling, method

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


def convert(cx: Context, value: Value, dtype: DType) -> Value:
    """A scalar or register tile in another dtype; the same value where it has it already."""
    if arith.element_type(value.type) == dtype:
        return value
    return cx.emit(arith.Cast(value, dtype))


@method(Scalar, "to")
@method(Tile, "to")
def to(cx: Context, value: Value, dtype: object) -> Value:
    return convert(cx, value, static_dtype(cx, dtype, ".to"))


@attribute(Scalar, "dtype")
@attribute(Tile, "dtype")
def dtype(cx: Context, value: Value) -> DType:
    return arith.element_type(value.type)


@calling(DType)
def call_dtype(cx: Context, dtype: DType, value: object) -> Value:
    """``td.float32(x)``: a conversion, or a run-time scalar from a Python number."""
    if isinstance(value, Value):
        if isinstance(value.type, Scalar | Tile):
            return convert(cx, value, dtype)
    elif (number := python_number(value)) is not None:
        if dtype.kind == "bool":
            return cx.constant(bool(number), dtype)
        if dtype.is_integer and not math.isfinite(number):
            raise cx.value_error(f"td.{dtype}: expected a finite number, got {number}")
        # A conversion truncates, but a number that does not fit is refused.
        return cx.scalar(int(number) if dtype.is_integer else number, dtype)
    raise cx.type_error(
        f"td.{dtype}: expected a number or a register tile, got {cx.describe(value)}"
    )
