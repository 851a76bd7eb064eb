"""Arithmetic on scalars and, element by element, on register tiles. Pure at both levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Op, Value, attribute, define, operand
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.types import Scalar, Tile, Type

# ``floordiv`` and ``mod`` round as in Python (towards minus infinity); ``truediv`` is for floats.
BINARY_KINDS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "min", "max",
    "and", "or", "xor", "shl", "shr",
)  # fmt: skip
COMPARE_KINDS = ("eq", "ne", "lt", "le", "gt", "ge")
FLOAT_KINDS = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "erf")  # of a float
UNARY_KINDS = ("neg", "invert", "not", "abs", *FLOAT_KINDS)


def element_type(type: Type) -> DType:
    """The dtype of a scalar or register tile."""
    if not isinstance(type, Scalar | Tile):
        raise ValueError(f"expected a scalar or register tile, got {type}")
    return type.dtype


def with_dtype(type: Type, dtype: DType) -> Type:
    """The same scalar or tile type with another dtype."""
    if isinstance(type, Tile):
        return Tile(type.shape, dtype, type.layout)
    return Scalar(dtype)


@define("const")
class Constant(Op):
    """A scalar known at compile time (a Python bool, int or float)."""

    value: bool | int | float = attribute()
    dtype: DType = attribute()

    def result_types(self) -> Sequence[Type]:
        return (Scalar(self.dtype),)

    def print_head(self, name: Callable[[Value], str]) -> str:
        return f"const {self.value} : {self.dtype.short}"

    def verify(self) -> None:
        if self.dtype.is_integer or self.dtype.kind == "bool":
            low, high = dtypes.int_range(self.dtype)
            if not low <= int(self.value) <= high:
                raise ValueError(f"constant {self.value} does not fit {self.dtype}")


class _SameType(Op):
    lhs: Value
    rhs: Value

    def verify(self) -> None:
        if self.lhs.type != self.rhs.type:
            raise ValueError(f"operands differ in type: {self.lhs.type} and {self.rhs.type}")
        element_type(self.lhs.type)


@define("arith")
class Binary(_SameType):
    """``lhs kind rhs`` on two operands of one type."""

    kind: str = attribute()
    lhs: Value = operand()
    rhs: Value = operand()

    def result_types(self) -> Sequence[Type]:
        return (self.lhs.type,)

    def print_head(self, name: Callable[[Value], str]) -> str:
        return f"{self.kind} {name(self.lhs)}, {name(self.rhs)} : {self.lhs.type}"

    def verify(self) -> None:
        super().verify()
        dtype = element_type(self.lhs.type)
        if self.kind not in BINARY_KINDS:
            raise ValueError(f"unknown arithmetic {self.kind!r}")
        if dtype.is_float and (dtype.bits == 8 or self.kind in ("and", "or", "xor", "shl", "shr")):
            raise ValueError(f"{self.kind} does not exist for {dtype}")
        if dtype.kind == "bool" and self.kind not in ("and", "or", "xor"):
            raise ValueError(f"{self.kind} does not exist for bool_")
        if dtype.is_integer and self.kind == "truediv":
            raise ValueError("truediv is for floats: cast first")


@define("compare")
class Compare(_SameType):
    """A comparison; the result is bool_ (a NaN compares unequal to everything)."""

    kind: str = attribute()
    lhs: Value = operand()
    rhs: Value = operand()

    def result_types(self) -> Sequence[Type]:
        return (with_dtype(self.lhs.type, dtypes.bool_),)

    def print_head(self, name: Callable[[Value], str]) -> str:
        return f"{self.kind} {name(self.lhs)}, {name(self.rhs)} : {self.lhs.type}"

    def verify(self) -> None:
        super().verify()
        if self.kind not in COMPARE_KINDS:
            raise ValueError(f"unknown comparison {self.kind!r}")
        dtype = element_type(self.lhs.type)
        if dtype.is_float and dtype.bits == 8:
            raise ValueError(f"{dtype} has no comparison: cast first")


def has_unary(kind: str, dtype: DType) -> bool:
    """Whether a kind of ``Unary`` exists for elements of ``dtype``."""
    if kind == "invert":
        return dtype.is_integer
    if kind == "not":
        return dtype.kind == "bool"
    if kind in FLOAT_KINDS:
        return dtype.is_float and dtype.bits > 8
    return dtype.kind != "bool" and not (dtype.is_float and dtype.bits == 8)


@define("unary")
class Unary(Op):
    """``neg``, ``abs`` (numbers), ``invert`` (bits of an integer), ``not`` (bool_).

    And the functions of floats of at least 16 bits, ``FLOAT_KINDS``: a result is that of the real
    function within a few units in the last place, and IEEE's infinities and NaNs at the edges.
    """

    kind: str = attribute()
    value: Value = operand()

    def result_types(self) -> Sequence[Type]:
        return (self.value.type,)

    def print_head(self, name: Callable[[Value], str]) -> str:
        return f"{self.kind} {name(self.value)} : {self.value.type}"

    def verify(self) -> None:
        dtype = element_type(self.value.type)
        if self.kind not in UNARY_KINDS:
            raise ValueError(f"unknown arithmetic {self.kind!r}")
        if not has_unary(self.kind, dtype):
            raise ValueError(f"{self.kind} does not exist for {dtype}")


@define("cast")
class Cast(Op):
    """Conversion to another dtype.

    Float to narrower float rounds to nearest even (fp8 saturates); float to integer truncates
    towards zero and saturates; integer to narrower integer wraps; anything to bool_ is ``!= 0``.
    """

    value: Value = operand()
    dtype: DType = attribute()

    def result_types(self) -> Sequence[Type]:
        return (with_dtype(self.value.type, self.dtype),)

    def print_head(self, name: Callable[[Value], str]) -> str:
        return f"cast {name(self.value)} : {self.value.type} -> {self.result.type}"

    def verify(self) -> None:
        element_type(self.value.type)


@define("select")
class Select(Op):
    """``true`` where the bool_ condition holds, else ``false``. Both are evaluated."""

    condition: Value = operand()
    true: Value = operand()
    false: Value = operand()

    def result_types(self) -> Sequence[Type]:
        return (self.true.type,)

    def verify(self) -> None:
        if self.true.type != self.false.type:
            raise ValueError(f"branches differ: {self.true.type} and {self.false.type}")
        if element_type(self.condition.type).kind != "bool":
            raise ValueError(f"the condition must be bool_, got {self.condition.type}")


@define("tile.full")
class Full(Op):
    """A register tile with every element equal to a scalar. At protocol level it has a layout."""

    value: Value = operand()
    shape: tuple[int, ...] = attribute()
    layout: Any = attribute(default=None)

    def result_types(self) -> Sequence[Type]:
        return (Tile(self.shape, element_type(self.value.type), self.layout),)

    def print_head(self, name: Callable[[Value], str]) -> str:
        return f"tile.full {name(self.value)} : {self.result.type}"

    def verify(self) -> None:
        if not isinstance(self.value.type, Scalar):
            raise ValueError(f"expected a scalar, got {self.value.type}")
