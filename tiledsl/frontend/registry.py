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

    @calling(DType)                      # td.float32(x): calling an instance of a Python class
    def convert(cx: Context, dtype: DType, x: object) -> Value: ...

    @operators(Tile)                     # +, -, <, ... where an operand is a register tile
    class TileOperators: ...             # three static methods, see ``Operators``
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.types import Type

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

Implementation = Callable[..., Any]
_F = TypeVar("_F", bound=Implementation)
_C = TypeVar("_C", bound="type[Operators]")

_FUNCTIONS: dict[Any, Implementation] = {}
_ATTRIBUTES: dict[tuple[type[Type], str], Implementation] = {}
_METHODS: dict[tuple[type[Type], str], Implementation] = {}
_CALLS: dict[type, Implementation] = {}
_OPERATORS: dict[type, type[Operators]] = {}


class Operators(Protocol):
    """What the operators of Python mean for run-time values of an IR type that is no scalar.

    Also for a class of traced objects. The kinds are those of ``codegen.ir.ops.arith``; ``binary``
    and ``compare`` are asked when at least one operand is of the type, the other may be any Python
    object or ``Value``.
    """

    @staticmethod
    def binary(cx: Context, kind: str, lhs: object, rhs: object) -> Any: ...

    @staticmethod
    def compare(cx: Context, kind: str, lhs: object, rhs: object) -> Any: ...

    @staticmethod
    def unary(cx: Context, kind: str, value: Any) -> Any: ...


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


def calling(cls: type) -> Callable[[_F], _F]:
    """Register what calling an instance of a Python class means: ``td.float32(x)``.

    The implementation takes the context, the instance and the arguments.
    """

    def register(function: _F) -> _F:
        _CALLS[cls] = function
        return function

    return register


def operators(type: type) -> Callable[[_C], _C]:
    """Register the operators of an IR type or a class of traced objects; see ``Operators``."""

    def register(cls: _C) -> _C:
        _OPERATORS[type] = cls
        return cls

    return register


def call_of(callee: Any) -> Implementation | None:
    """What calling this compile-time object means, or None; it takes context, object, arguments."""
    return _CALLS.get(type(callee))


def operators_of(value: Any) -> type[Operators] | None:
    """The operators of a run-time value's type or an object's class; None for numbers."""
    return _OPERATORS.get(value.type.__class__ if isinstance(value, Value) else type(value))


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
