"""``object.name``, read and written."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir.core import Value
from tiledsl.frontend.aggregates import contains_value
from tiledsl.frontend.objects import FormatString, TracedObject
from tiledsl.frontend.other_names import hint_for
from tiledsl.frontend.registry import attribute_of, members_of, method_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tiledsl.frontend.context import Context


@dataclass(frozen=True, eq=False)
class BoundMethod:
    """A method of a run-time value or traced object; called with the context first."""

    name: str
    function: Callable[..., Any]
    owner: Any


def get_attribute(cx: Context, x: Any, name: str) -> Any:
    """The value of ``x.name``."""
    if isinstance(x, Value):
        return _value_attribute(cx, x, name)
    if isinstance(x, TracedObject):
        found = getattr(type(x), name, None)
        if getattr(found, "__tiledsl_traced__", False):
            assert found is not None
            return BoundMethod(name, found, x)
        return x.attribute(cx, name)
    static = inspect.getattr_static(type(x), name, None)
    traced = cx.is_made_here(x) or contains_value(x)
    if traced and isinstance(static, property) and static.fget is not None:
        return cx.call(static.fget, x)
    try:
        found = getattr(x, name)
        if isinstance(x, types.ModuleType):
            cx.frames[-1].capture(name, vars(x), found, lambda: getattr(x, name, None))
        return found
    except AttributeError:
        what = "an f-string with run-time parts" if isinstance(x, FormatString) else cx.describe(x)
        known_elsewhere = isinstance(x, types.ModuleType) and x.__name__ == "tiledsl"
        hint = hint_for(name) if known_elsewhere else None
        hint = hint or _did_you_mean(name, dir(x))
        if hint is None and dataclasses.is_dataclass(x):
            hint = f"its fields are: {', '.join(f.name for f in dataclasses.fields(x))}"
        raise cx.type_error(f"{what} has no attribute {name!r}", hint=hint) from None


def _value_attribute(cx: Context, x: Value, name: str) -> Any:
    getter = attribute_of(x.type, name)
    if getter is not None:
        return getter(cx, x)
    found = method_of(x.type, name)
    if found is not None:
        return BoundMethod(name, found, x)
    members = [member for member in members_of(x.type) if not member.startswith("__")]
    hint = _did_you_mean(name, members)
    if hint is None and members:
        hint = f"it has: {', '.join(members)}"
    raise cx.type_error(f"{cx.describe(x)} has no attribute {name!r}", hint=hint)


def _did_you_mean(name: str, known: Iterable[str]) -> str | None:
    close = difflib.get_close_matches(name, list(known), n=3)
    return f"did you mean {' or '.join(close)}?" if close else None


def set_attribute(cx: Context, x: Any, name: str, value: Any) -> None:
    """``x.name = value`` for an instance that the kernel made."""
    if not cx.is_made_here(x) or isinstance(x, list | dict):
        raise cx.type_error(
            f"cannot assign attribute {name!r} of {cx.describe(x)}",
            hint="a kernel can only change objects that it made itself",
        )
    static = inspect.getattr_static(type(x), name, None)
    if isinstance(static, property):
        if static.fset is None:
            raise cx.type_error(f"the property {name!r} of {cx.describe(x)} cannot be assigned")
        cx.call(static.fset, x, value)
        return
    parameters = getattr(type(x), "__dataclass_params__", None)
    if parameters is not None and parameters.frozen:
        raise cx.type_error(
            f"cannot assign attribute {name!r} of {cx.describe(x)}: its dataclass is frozen"
        )
    cx.origins.check_change(cx, x)
    object.__setattr__(x, name, value)
