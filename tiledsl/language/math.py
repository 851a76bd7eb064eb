"""Arithmetic that Python has no operator for. Works on plain numbers outside of kernels too.

The functions of floats take numbers, and register tiles element by element. They compute in
float32, 16-bit floats rounded afterwards; ``sqrt`` and ``rsqrt`` take float64 too, for which the
GPU has no others. A float32 result is within a few units in the last place. Beyond the domain they
give infinities and NaNs, as IEEE 754 has them, and raise nothing.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import TypeVar

from tiledsl.errors import TypeMismatch

_Number = TypeVar("_Number", int, float)


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up: how many pieces of size ``b`` cover ``a``. Computed as ``-(-a // b)``.

    Args:
        a, b: integers, known at compile time or at run time, in any mix; ``b`` is not zero.

    Raises:
        TypeMismatch: an argument that is no integer.
        InvalidValue: ``b`` is known to be zero (outside of kernels: ZeroDivisionError).

    Example::

        for k in range(td.cdiv(K, BK)):
            ...
    """
    try:
        return -(-operator.index(a) // operator.index(b))
    except TypeError:
        raise TypeMismatch(f"td.cdiv: expected two integers, got {a!r} and {b!r}") from None


def minimum(a: _Number, b: _Number) -> _Number:
    """The smaller of two numbers; of two register tiles, or a tile and a number, by element.

    Raises:
        TypeMismatch: arguments without a common dtype, or tiles of different shapes.
    """
    return builtins.min(a, b)


def maximum(a: _Number, b: _Number) -> _Number:
    """The larger of two numbers; of two register tiles, or a tile and a number, by element.

    Raises:
        TypeMismatch: arguments without a common dtype, or tiles of different shapes.
    """
    return builtins.max(a, b)


def _real(call: str, x: object, function: Callable[[float], float]) -> float:
    """A function of a plain number, as IEEE 754 has it at the edges."""
    try:
        number = float(x)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise TypeMismatch(f"{call}: expected a number, got {x!r}") from None
    try:
        return function(number)
    except OverflowError:
        return math.inf
    except ZeroDivisionError:  # 1 / sqrt(0)
        return math.copysign(math.inf, number)
    except ValueError:
        return -math.inf if number == 0.0 else math.nan  # only logarithms have an edge at zero


def exp(x: float) -> float:
    """The exponential function, ``e ** x``.

    Raises:
        TypeMismatch: not a number or register tile of floats (integers: convert them first).
    """
    return _real("td.exp", x, math.exp)


def exp2(x: float) -> float:
    """``2 ** x``. The GPU computes this one directly.

    Raises:
        TypeMismatch: not a number or register tile of floats (integers: convert them first).
    """
    return _real("td.exp2", x, math.exp2)


def log(x: float) -> float:
    """The natural logarithm.

    Raises:
        TypeMismatch: not a number or register tile of floats (integers: convert them first).
    """
    return _real("td.log", x, math.log)


def log2(x: float) -> float:
    """The logarithm to base 2. The GPU computes this one directly.

    Raises:
        TypeMismatch: not a number or register tile of floats (integers: convert them first).
    """
    return _real("td.log2", x, math.log2)


def sqrt(x: float) -> float:
    """The square root.

    Raises:
        TypeMismatch: not a number or register tile of floats (integers: convert them first).
    """
    return _real("td.sqrt", x, math.sqrt)


def rsqrt(x: float) -> float:
    """One over the square root.

    Raises:
        TypeMismatch: not a number or register tile of floats (integers: convert them first).
    """
    return _real("td.rsqrt", x, lambda v: 1.0 / math.sqrt(v))


def tanh(x: float) -> float:
    """The hyperbolic tangent.

    Raises:
        TypeMismatch: not a number or register tile of floats (integers: convert them first).
    """
    return _real("td.tanh", x, math.tanh)


def sigmoid(x: float) -> float:
    """The logistic function, ``1 / (1 + exp(-x))``.

    Raises:
        TypeMismatch: not a number or register tile of floats (integers: convert them first).
    """
    return _real("td.sigmoid", x, _sigmoid)


def erf(x: float) -> float:
    """The error function.

    Raises:
        TypeMismatch: not a number or register tile of floats (integers: convert them first).
    """
    return _real("td.erf", x, math.erf)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0


def abs(x: _Number) -> _Number:
    """The absolute value of a number, or of each element of a register tile; as Python's ``abs``.

    Raises:
        TypeMismatch: neither a number nor a register tile.
    """
    return builtins.abs(x)
