"""Which implementation stands behind a name of the language.

The language package holds signatures and docstrings only; what a call *means* is registered
here by the intrinsics modules, so that the stub serves the reader and the IDE, and the
implementation builds IR::

    @implements(language.mma)
    def mma(cx: Context, a: object, b: object, acc: object) -> Value: ...

    @attribute(SharedTile, "T")          # tile.T, for a run-time value of IR type SharedTile
    def shared_transpose(cx: Context, tile: Value) -> Value: ...

    @method(Tile, "to")                  # acc.to(dtype)
    def tile_to(cx: Context, tile: Value, dtype: object) -> Value: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from tiledsl.codegen.ir.types import Type

Implementation = Callable[..., Any]
_F = TypeVar("_F", bound=Implementation)

_FUNCTIONS: dict[Any, Implementation] = {}
_ATTRIBUTES: dict[tuple[type[Type], str], Implementation] = {}
_METHODS: dict[tuple[type[Type], str], Implementation] = {}


def implements(stub: Any) -> Callable[[_F], _F]:
    """Register the implementation of a function or class of ``tiledsl.language``.

    The implementation takes the context first, then parameters named as the stub's: checked here.
    """

    def register(function: _F) -> _F:
        if stub in _FUNCTIONS:
            raise ValueError(f"{stub} is implemented twice")
        target = stub.__init__ if inspect.isclass(stub) else stub
        wanted = [p for p in inspect.signature(target).parameters if p != "self"]
        given = list(inspect.signature(function).parameters)[1:]
        if wanted != given:
            raise ValueError(f"{stub}: the stub takes {wanted}, the implementation {given}")
        _FUNCTIONS[stub] = function
        return function

    return register


def attribute(type: type[Type], name: str) -> Callable[[_F], _F]:
    """Register ``value.name`` for run-time values of an IR type."""

    def register(function: _F) -> _F:
        _ATTRIBUTES[type, name] = function
        return function

    return register


def method(type: type[Type], name: str) -> Callable[[_F], _F]:
    """Register ``value.name(...)`` for run-time values of an IR type."""

    def register(function: _F) -> _F:
        _METHODS[type, name] = function
        return function

    return register


def function_of(stub: Any) -> Implementation | None:
    """The implementation of a language function or class, or None."""
    try:
        return _FUNCTIONS.get(stub)
    except TypeError:  # unhashable: certainly not a stub
        return None


def attribute_of(type: Type, name: str) -> Implementation | None:
    return _ATTRIBUTES.get((type.__class__, name))


def method_of(type: Type, name: str) -> Implementation | None:
    return _METHODS.get((type.__class__, name))


def members_of(type: Type) -> list[str]:
    """Every attribute and method name of an IR type, for error messages."""
    names = {n for t, n in (*_ATTRIBUTES, *_METHODS) if t is type.__class__}
    return sorted(names)
