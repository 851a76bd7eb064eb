"""Checks of arguments that several intrinsics share. ``what`` names call and argument."""

from __future__ import annotations

import operator
from difflib import get_close_matches
from typing import TYPE_CHECKING

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType, as_dtype
from tiledsl.codegen.ir.types import Scalar, TensorType

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

MAX_RANK = 5  # of a tensor map
_CONSTANT_HINT = "use a literal, or a kernel parameter annotated td.Constant[int]"
_BOOL_HINT = "use a literal, or a kernel parameter annotated td.Constant[bool]"


def index_of(value: object) -> int | None:
    """A compile-time integer (of Python, NumPy, ...) as an int; None for anything else."""
    if isinstance(value, bool | Value):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def static_int(
    cx: Context, value: object, what: str, *, least: int | None = None, most: int | None = None
) -> int:
    """A compile-time integer within bounds (both inclusive)."""
    if isinstance(value, Value):
        raise cx.type_error(
            f"{what}: expected an int known at compile time, got {cx.describe(value)}",
            hint=_CONSTANT_HINT,
        )
    number = index_of(value)
    if number is None:
        raise cx.type_error(f"{what}: expected an int, got {cx.describe(value)}")
    if (least is not None and number < least) or (most is not None and number > most):
        bounds = f"at least {least}" if most is None else f"a number from {least} to {most}"
        raise cx.value_error(f"{what}: expected {bounds}, got {number}")
    return number


def is_integer_value(value: Value) -> bool:
    """Whether a run-time value is an integer scalar."""
    return isinstance(value.type, Scalar) and value.type.dtype.is_integer


def static_shape(cx: Context, value: object, what: str) -> tuple[int, ...]:
    """A compile-time tuple of one to five positive extents."""
    if not isinstance(value, tuple | list):
        raise cx.type_error(
            f"{what}: expected a tuple of ints known at compile time, got {cx.describe(value)}",
            hint="write (rows, columns)",
        )
    for axis, extent in enumerate(value):
        if isinstance(extent, Value):
            raise cx.type_error(
                f"{what}: expected extents known at compile time, but extent {axis} is"
                f" {cx.describe(extent)}",
                hint=_CONSTANT_HINT,
            )
    shape = tuple(
        static_int(cx, extent, f"{what}: extent {axis}", least=1)
        for axis, extent in enumerate(value)
    )
    if not 1 <= len(shape) <= MAX_RANK:
        raise cx.value_error(f"{what}: expected 1 to {MAX_RANK} extents, got {shape}")
    return shape


def static_dtype(cx: Context, value: object, what: str) -> DType:
    """A dtype of tiledsl, or what stands for one (torch, NumPy, ml_dtypes, a name)."""
    try:
        return as_dtype(value)
    except TypeError:
        raise cx.type_error(
            f"{what}: expected a dtype such as td.float32, got {cx.describe(value)}"
        ) from None


def static_text(cx: Context, value: object, what: str) -> str:
    """A compile-time string."""
    if not isinstance(value, str):
        raise cx.type_error(
            f"{what}: expected a str known at compile time, got {cx.describe(value)}"
        )
    return value


def integer(cx: Context, value: object, what: str, hint: str | None = None) -> Value | int:
    """An integer: a compile-time int, or an integer scalar as an int32 value."""
    number = index_of(value)
    if number is not None:
        return number
    if isinstance(value, Value) and is_integer_value(value):
        return cx.int32(value)
    raise cx.type_error(f"{what}: expected an integer, got {cx.describe(value)}", hint=hint)


def tensor(cx: Context, value: object, what: str) -> Value:
    """A tensor parameter of the kernel."""
    if not isinstance(value, Value) or not isinstance(value.type, TensorType):
        raise cx.type_error(f"{what}: expected a tensor, got {cx.describe(value)}")
    return value


def coordinates(cx: Context, value: object, of: Value, what: str) -> tuple[Value, ...]:
    """One int32 value for each dimension of a tensor."""
    assert isinstance(of.type, TensorType)
    rank = of.type.rank
    if not isinstance(value, tuple | list):
        raise cx.type_error(
            f"{what}: coords: expected a tuple of {rank} integers, got {cx.describe(value)}",
            hint="write (x,) for one coordinate" if rank == 1 else None,
        )
    if len(value) != rank:
        raise cx.type_error(
            f"{what}: coords: expected {rank} coordinates for a tensor of rank {rank}, got"
            f" {len(value)}"
        )
    found = [integer(cx, x, f"{what}: coordinate {axis}") for axis, x in enumerate(value)]
    return tuple(cx.int32(x) for x in found)


def static_choice(cx: Context, value: object, what: str, choices: tuple[str, ...]) -> str | None:
    """One of some words, or None."""
    if value is None:
        return None
    text = static_text(cx, value, what)
    if text not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        close = get_close_matches(text, choices, 1)
        raise cx.value_error(
            f"{what}: expected one of {known}, got {text!r}",
            hint=f"did you mean {close[0]!r}?" if close else None,
        )
    return text


def static_bool(cx: Context, value: object, what: str) -> bool:
    """A compile-time True or False."""
    if isinstance(value, bool):
        return value
    raise cx.type_error(
        f"{what}: expected True or False, known at compile time, got {cx.describe(value)}",
        hint=_BOOL_HINT if isinstance(value, Value) else None,
    )


def static_ints(
    cx: Context, value: object, what: str, length: int, each: str, *, least: int, most: int
) -> tuple[int, ...]:
    """A compile-time tuple of ``length`` integers within bounds; ``each`` says what one is for."""
    if not isinstance(value, tuple | list) or len(value) != length:
        plural = "s" if length != 1 else ""
        got = f"{len(value)} of them" if isinstance(value, tuple | list) else cx.describe(value)
        raise cx.type_error(
            f"{what}: expected a tuple of {length} int{plural}, one for each {each}, got {got}",
            hint="write (x,) for one" if length == 1 else None,
        )
    return tuple(
        static_int(cx, number, f"{what}: number {place}", least=least, most=most)
        for place, number in enumerate(value)
    )
