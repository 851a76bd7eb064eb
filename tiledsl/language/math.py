"""Arithmetic that Python has no operator for. Works on plain numbers outside of kernels too."""

from __future__ import annotations

import builtins
import operator
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
