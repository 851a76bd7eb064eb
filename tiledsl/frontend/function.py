"""``@td.function``: helpers that kernels inline."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from tiledsl.errors import TypeMismatch

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Function(Generic[_P, _R]):
    """A Python function that kernels inline. Made by ``@td.function``.

    Called outside of a kernel it is the plain Python function.
    """

    __tiledsl_function__ = True

    def __init__(self, function: Callable[_P, _R]) -> None:
        if not callable(function):
            raise TypeMismatch(
                f"@td.function: expected a Python function, got {type(function).__name__}"
            )
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str:
        return self.function.__qualname__  # pickled by name, as Python's own functions are

    def __repr__(self) -> str:
        return f"<tiledsl function {getattr(self, '__qualname__', '?')}>"


def function(function: Callable[_P, _R]) -> Function[_P, _R]:
    """Mark a helper that kernels call: it is inlined, and messages name both lines.

    Arguments and results may be any mix of run-time values and compile-time objects. ``return``
    may stand anywhere. Recursion is possible where a compile-time condition ends it.

    Example::

        @td.function
        def load_tiles(stage, m, n, k):
            ...
    """
    return Function(function)
