"""Operators that a user's class defines (``__add__`` and its kin) are traced like any function."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir.core import Value
from tiledsl.frontend.library import is_library

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

_NAMES = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "truediv", "floordiv": "floordiv",
    "mod": "mod", "pow": "pow", "and": "and", "or": "or", "xor": "xor", "shl": "lshift",
    "shr": "rshift", "matmul": "matmul", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le",
    "gt": "gt", "ge": "ge", "neg": "neg", "pos": "pos", "invert": "invert", "abs": "abs",
}  # fmt: skip
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def method(x: Any, name: str) -> types.FunctionType | None:
    """The Python function ``type(x).name`` of a user's class, or None."""
    if isinstance(x, Value):
        return None
    found = getattr(type(x), name, None)
    if not isinstance(found, types.FunctionType):
        return None
    if is_library(found):
        return None
    # What dataclasses generate has no source; Python's own comparison of fields will do.
    return None if found.__code__.co_filename == "<string>" else found


def is_overloaded(x: Any) -> bool:
    """Whether operators on ``x`` may run a user's Python code."""
    if isinstance(x, Value) or type(x).__module__ in ("builtins", "numpy", "enum"):
        return False
    return any(
        method(x, f"__{prefix}{name}__") is not None
        for name in (*_NAMES.values(), "bool", "len")
        for prefix in ("", "r")
    )


def binary(cx: Context, kind: str, symbol: str, lhs: Any, *rest: Any) -> Any:
    """``lhs kind rhs`` (or ``kind lhs``) through the methods of the operands' classes."""
    if kind not in _NAMES:
        raise cx.type_error(f"`{symbol}` does not exist for {cx.describe(lhs)}")
    name = _NAMES[kind]
    direct = method(lhs, f"__{name}__")
    if direct is not None:
        result = cx.call(direct, lhs, *rest)
        if result is not NotImplemented:
            return result
    for rhs in rest:
        mirrored = _MIRRORED.get(kind)
        reflected = method(rhs, f"__{mirrored}__" if mirrored else f"__r{name}__")
        if reflected is not None:
            result = cx.call(reflected, rhs, lhs)
            if result is not NotImplemented:
                return result
        if kind == "ne" and method(lhs, "__eq__") is not None:
            return cx.unary("not", binary(cx, "eq", "==", lhs, rhs))
        if kind in ("eq", "ne") and not isinstance(lhs, Value) and not isinstance(rhs, Value):
            return (lhs == rhs) if kind == "eq" else (lhs != rhs)
    described = " and ".join(cx.describe(x) for x in (lhs, *rest))
    raise cx.type_error(f"`{symbol}` does not exist for {described}")


def truth(cx: Context, x: Any) -> bool | Value:
    """``bool(x)`` through ``__bool__`` or ``__len__``; any other object is true."""
    for name in ("__bool__", "__len__"):
        found = method(x, name)
        if found is not None:
            return cx.truth(cx.call(found, x))
    return True
