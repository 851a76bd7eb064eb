"""Calls: what each kind of callable means, and the inlining of Python functions."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir.core import Block, Value
from tiledsl.codegen.ir.ops.control import Leave
from tiledsl.errors import Loc, TileError
from tiledsl.frontend import python_builtins, records
from tiledsl.frontend.aggregates import contains_value
from tiledsl.frontend.attributes import BoundMethod
from tiledsl.frontend.branches import Outcome, scope
from tiledsl.frontend.function import Function
from tiledsl.frontend.library import is_library, is_ours
from tiledsl.frontend.nested_function import NestedFunction
from tiledsl.frontend.objects import TracedObject
from tiledsl.frontend.registry import call_of, function_of
from tiledsl.frontend.scope import Exit, Frame, State
from tiledsl.frontend.source import FunctionSource, source_of
from tiledsl.language import math as language_math

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

MOST_NESTED = 48  # inlined calls within each other

Args = Sequence[Any]
Kwargs = Mapping[str, Any]

_MUTATORS = {
    "append", "extend", "insert", "pop", "clear", "reverse", "update", "setdefault", "popitem",
    "remove", "sort", "__setitem__", "__delitem__",
}  # fmt: skip
_MOVES_ONLY = {  # methods of lists and dicts that never look into an item
    "append", "extend", "insert", "pop", "clear", "reverse", "update", "copy", "items", "keys",
    "values", "get", "setdefault", "popitem",
}  # fmt: skip


def call(cx: Context, callee: Any, args: Args, kwargs: Kwargs) -> Any:
    """The value of ``callee(*args, **kwargs)``."""
    implementation = function_of(callee)
    if implementation is not None:
        return _intrinsic(cx, callee, implementation, args, kwargs)
    by_type = call_of(callee)
    if by_type is not None:
        return _checked(cx, callee, by_type, (cx, callee, *args), kwargs, skip=2)
    match callee:
        case BoundMethod(function=function, owner=owner):
            # Traced methods take self before the context, methods of values after it.
            first = (owner, cx) if isinstance(owner, TracedObject) else (cx, owner)
            return _checked(cx, callee, function, (*first, *args), kwargs, skip=2)
        case NestedFunction():
            return _inline(cx, callee.source, callee.signature, args, kwargs, parent=callee.frame)
        case Function(function=types.FunctionType() as function):
            return _inline_python(cx, function, args, kwargs)
        case functools.partial():
            return call(cx, callee.func, [*callee.args, *args], {**callee.keywords, **kwargs})
        case types.MethodType():
            return call(cx, callee.__func__, [callee.__self__, *args], kwargs)
        case Value() | TracedObject():
            raise cx.type_error(f"{cx.describe(callee)} cannot be called")
    if is_ours(callee):
        raise cx.type_error(
            f"{name_of(callee)} cannot be called in a kernel",
            hint="a kernel calls functions, not kernels" if hasattr(callee, "launch") else None,
        )
    if isinstance(callee, types.FunctionType) and not is_library(callee):
        return _inline_python(cx, callee, args, kwargs)
    builtin = python_builtins.find(callee)
    if builtin is not None:
        return _checked(cx, callee, builtin, (cx, *args), kwargs, skip=1)
    if isinstance(callee, type):
        return records.construct(cx, callee, args, kwargs, _native)
    user = inspect.getattr_static(type(callee), "__call__", None)
    if isinstance(user, types.FunctionType) and not is_library(user):
        return call(cx, user, [callee, *args], kwargs)
    return _native(cx, callee, args, kwargs)


def keywords_of(cx: Context, x: Any) -> dict[str, Any]:
    """The items of ``**x``."""
    if not isinstance(x, Mapping):
        raise cx.type_error(f"expected a dict behind **, got {cx.describe(x)}")
    return dict(x)


def name_of(callee: Any) -> str:
    if isinstance(callee, BoundMethod):
        return callee.name
    return str(getattr(callee, "__name__", None) or callee)


@functools.lru_cache(maxsize=1024)
def _signature(stub: Any) -> inspect.Signature:
    return inspect.signature(stub)


def _intrinsic(
    cx: Context, stub: Any, implementation: Callable[..., Any], args: Args, kwargs: Kwargs
) -> Any:
    """A function of the language: the stub's signature binds, its implementation builds IR."""
    signature = _signature(stub)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise cx.type_error(
            f"td.{name_of(stub)}: {error}",
            hint=f"its signature is td.{name_of(stub)}{_plain(signature)}",
        ) from None
    bound.apply_defaults()
    return implementation(cx, *bound.args, **bound.kwargs)


def _plain(signature: inspect.Signature) -> str:
    """A signature without annotations, which would only make the message longer."""
    parameters = [
        p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"
    ]
    return str(inspect.Signature(parameters))


def _checked(
    cx: Context,
    callee: Any,
    function: Callable[..., Any],
    args: Args,
    kwargs: Kwargs,
    *,
    skip: int,
) -> Any:
    """Call an implementation; arguments that do not bind are the user's error."""
    signature = _signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        visible = list(signature.parameters.values())[skip:]
        shape = _plain(inspect.Signature(visible))
        raise cx.type_error(
            f"{name_of(callee)}: {error}", hint=f"its signature is {name_of(callee)}{shape}"
        ) from None
    return function(*args, **kwargs)


def _native(cx: Context, callee: Any, args: Args, kwargs: Kwargs) -> Any:
    """Let Python itself run a callable; only compile-time values may go in."""
    owner = getattr(callee, "__self__", None)
    name = name_of(callee)
    on_container = isinstance(owner, list | dict)
    if on_container and name in _MUTATORS:
        if not cx.is_made_here(owner):
            raise cx.type_error(
                f"{name}: the kernel did not make this {type(owner).__name__} and cannot change it",
                hint="copy it first, such as list(x) or dict(x)",
            )
        cx.origins.check_change(cx, owner)
    if not callable(callee):
        raise cx.type_error(f"{cx.describe(callee)} cannot be called")
    if not (on_container and name in _MOVES_ONLY):
        for x in (*args, *kwargs.values(), owner):
            if contains_value(x):
                raise cx.type_error(
                    f"{name} is run by Python while the kernel is compiled: expected compile-time"
                    f" arguments, got {cx.describe(x)}",
                    hint=f"td.{name} works on run-time floats and on tiles"
                    if function_of(getattr(language_math, name, None)) is not None
                    else f"call {name} outside of the kernel, or write it as a td.function",
                )
    try:
        result = callee(*args, **kwargs)
    except TileError:
        raise
    except Exception as error:
        raise cx.value_error(f"{name}: {type(error).__name__}: {error}") from error
    return cx.made(result) if type(result) in (list, dict) and result is not owner else result


# ------------------------------------------------------------------------------- inlining


def _inline_python(cx: Context, function: types.FunctionType, args: Args, kwargs: Kwargs) -> Any:
    source = source_of(function)
    signature = inspect.signature(function, follow_wrapped=False)
    return _inline(cx, source, signature, args, kwargs, function=function)


def _inline(
    cx: Context,
    source: FunctionSource,
    signature: inspect.Signature,
    args: Args,
    kwargs: Kwargs,
    *,
    function: types.FunctionType | None = None,
    parent: Frame | None = None,
) -> Any:
    """Trace a function's body here, in a frame of its own."""
    from tiledsl.frontend.statements import run_block

    if len(cx.frames) > MOST_NESTED:
        cx.loc = replace(cx.loc, call_site=_outermost(cx.loc))
        raise cx.syntax_error(
            f"{source.name}: calls are nested deeper than {MOST_NESTED}",
            hint="end a recursion by a condition that is known at compile time, or write a loop",
        )
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise cx.type_error(
            f"{source.name}: {error}",
            hint=f"its signature is {source.name}{_plain(signature)}",
        ) from None
    bound.apply_defaults()
    frame = Frame(cx, source, kind="function", parent=parent, function=function, call_site=cx.loc)
    for name, value in bound.arguments.items():
        # Python gathers **kwargs in a dict that the function owns.
        frame.assign(name, cx.made(value) if isinstance(value, dict) else value)
    start = State.capture(frame)
    block = Block()
    cx.frames.append(frame)
    try:
        if not source.returns_early:
            outcome, result = run_block(frame, source.statements, tail=True)
            if outcome is Outcome.DEAD:
                raise _never_returns(cx, source)
            return result
        with cx.inside(block):
            outcome, result = run_block(frame, source.statements, tail=True)
            if outcome is Outcome.DEAD and not frame.returns:
                raise _never_returns(cx, source)
            if frame.returns and outcome is Outcome.RETURN:
                with frame.at(frame.jump or cx.loc):
                    op = cx.end(Leave(()))
                frame.returns.append(Exit(op, State.capture(frame), result))
    finally:
        cx.frames.pop()
    if not frame.returns:
        cx.splice(block)
        return result
    return scope(frame, start, block, frame.returns, lambda exit: ())


def _outermost(loc: Loc) -> Loc | None:
    """The call in the kernel itself: all the calls between would hide it."""
    site = loc.call_site
    while site is not None and site.call_site is not None:
        site = site.call_site
    return site


def _never_returns(cx: Context, source: FunctionSource) -> Exception:
    return cx.syntax_error(
        f"{source.name} never returns: it ends in a loop without break or return",
        hint="write an endless loop in the kernel itself",
    )
