"""Instances of the user's own classes: dataclasses, named tuples, enums, small classes."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiledsl.frontend.aggregates import contains_value
from tiledsl.frontend.library import is_library

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

Native = Callable[..., Any]


def construct(
    cx: Context, cls: type, args: Sequence[Any], kwargs: Mapping[str, Any], native: Native
) -> Any:
    """``cls(*args, **kwargs)``.

    Dataclasses and classes with an ``__init__`` in Python are built here, so that their fields
    may be run-time values; everything else is Python's own business and takes compile-time
    arguments.
    """
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _bind(cx, cls, args, kwargs, lambda: cls(*args, **kwargs))
    if issubclass(cls, enum.Enum | BaseException | type) or is_library(cls):
        return native(cx, cls, args, kwargs)
    init = cls.__init__
    generated = not isinstance(init, types.FunctionType) or init.__code__.co_filename[:1] == "<"
    if dataclasses.is_dataclass(cls) and generated:
        return _dataclass(cx, cls, args, kwargs)
    if isinstance(init, types.FunctionType) and cls.__new__ is object.__new__:
        made = cx.made(object.__new__(cls))
        cx.call(init, made, *args, **kwargs)
        return made
    if init is object.__init__ and cls.__new__ is object.__new__ and not args and not kwargs:
        return cx.made(object.__new__(cls))
    return native(cx, cls, args, kwargs)


def _bind(
    cx: Context,
    cls: type,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    build: Callable[[], Any],
) -> Any:
    try:
        return build()
    except TypeError as error:
        raise cx.type_error(f"{cls.__name__}: {error}") from None


def _dataclass(cx: Context, cls: type, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    signature = inspect.signature(cls)
    bound = _bind(cx, cls, args, kwargs, lambda: signature.bind(*args, **kwargs))
    after = getattr(cls, "__post_init__", None)
    known = not any(contains_value(x) for x in (*args, *kwargs.values()))
    if known and not isinstance(after, types.FunctionType):
        return cx.made(_bind(cx, cls, args, kwargs, lambda: cls(*args, **kwargs)))
    made = cx.made(object.__new__(cls))
    fields = dataclasses.fields(cls)
    if set(bound.arguments) - {f.name for f in fields}:
        raise cx.syntax_error(
            f"{cls.__name__} has an InitVar, which is not supported in a kernel",
            hint="make it a field",
        )
    for f in fields:
        if f.name in bound.arguments:
            value = bound.arguments[f.name]
        elif f.default is not dataclasses.MISSING:
            value = f.default
        elif f.default_factory is not dataclasses.MISSING:
            value = cx.call(f.default_factory)
        else:
            continue
        object.__setattr__(made, f.name, value)
    if isinstance(after, types.FunctionType):
        cx.call(after, made)
    return made
