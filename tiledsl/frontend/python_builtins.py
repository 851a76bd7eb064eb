"""Python's built-in functions, where run-time values give them a meaning of their own.

What is not listed here is called as it is, with compile-time arguments.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops.arith import Cast
from tiledsl.codegen.ir.types import Scalar, SharedTile, TensorType, Tile
from tiledsl.frontend import overloads
from tiledsl.frontend.aggregates import contains_value
from tiledsl.frontend.arithmetic import dtype_of, python_number
from tiledsl.frontend.iteration import elements, make_range
from tiledsl.frontend.objects import FormatString, TracedObject

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

_MISSING: Any = object()
_BUILTINS: dict[Any, Callable[..., Any]] = {}


def find(callee: Any) -> Callable[..., Any] | None:
    """The implementation of a built-in function or type; it takes the context first."""
    try:
        return _BUILTINS.get(callee)
    except TypeError:
        return None


def _builtin(*callees: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for callee in callees:
            _BUILTINS[callee] = function
        return function

    return register


_builtin(range)(make_range)


@_builtin(len)
def _len(cx: Context, x: Any, /) -> int:
    user = overloads.method(x, "__len__")
    if user is not None:
        return cast(int, cx.call(user, x))
    if isinstance(x, Value):
        if isinstance(x.type, Tile | SharedTile):
            return x.type.shape[0]
        hint = "x.shape[0] is the first extent" if isinstance(x.type, TensorType) else None
        raise cx.type_error(f"len of {cx.describe(x)}", hint=hint)
    try:
        return len(x)
    except TypeError:
        raise cx.type_error(f"{cx.describe(x)} has no length") from None


def _extreme(cx: Context, kind: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    python = min if kind == "min" else max
    values = list(args) if len(args) > 1 else elements(cx, args[0] if args else None, f"for {kind}")
    if not any(contains_value(x) for x in values):
        try:
            return python(*args, **options)
        except (TypeError, ValueError) as error:
            raise cx.type_error(f"{kind}: {error}") from None
    if options:
        raise cx.type_error(f"{kind} of run-time values takes neither key nor default")
    for x in values:
        if not cx.is_number(x) and python_number(x) is None:
            hint = f"td.{kind}imum works on tiles, element by element"
            raise cx.type_error(
                f"{kind}: expected numbers, got {cx.describe(x)}",
                hint=hint if isinstance(x, Value) and isinstance(x.type, Tile) else None,
            )
    result = values[0]
    for x in values[1:]:
        result = cx.binary(kind, result, x)
    return result


@_builtin(min)
def _min(cx: Context, /, *args: Any, **options: Any) -> Any:
    return _extreme(cx, "min", args, options)


@_builtin(max)
def _max(cx: Context, /, *args: Any, **options: Any) -> Any:
    return _extreme(cx, "max", args, options)


@_builtin(abs)
def _abs(cx: Context, x: Any, /) -> Any:
    return cx.unary("abs", x)


@_builtin(int)
def _int(cx: Context, x: Any = 0, /, *base: Any) -> Any:
    """Of a run-time float: int32, truncated towards zero; an integer stays what it is."""
    dtype = dtype_of(x)
    if dtype is None:
        return _python(cx, int, x, *base)
    if dtype.is_integer:
        return x
    return cx.emit(Cast(x, dtypes.int32), x.name)


@_builtin(float)
def _float(cx: Context, x: Any = 0.0, /) -> Any:
    """Of a run-time integer: float32; a float stays what it is."""
    dtype = dtype_of(x)
    if dtype is None:
        return _python(cx, float, x)
    return x if dtype.is_float else cx.emit(Cast(x, dtypes.float32), x.name)


@_builtin(bool)
def _bool(cx: Context, x: Any = False, /) -> Any:
    return cx.truth(x)


@_builtin(round)
def _round(cx: Context, x: Any, /, *digits: Any) -> Any:
    return _python(cx, round, x, *digits)


@_builtin(pow)
def _pow(cx: Context, base: Any, exponent: Any, /, *modulus: Any) -> Any:
    if modulus:
        return _python(cx, pow, base, exponent, *modulus)
    return cx.binary("pow", base, exponent)


@_builtin(divmod)
def _divmod(cx: Context, a: Any, b: Any, /) -> Any:
    return cx.binary("floordiv", a, b), cx.binary("mod", a, b)


@_builtin(sum)
def _sum(cx: Context, values: Any, /, start: Any = 0) -> Any:
    result = start
    for number, x in enumerate(elements(cx, values, "for sum")):
        # 0 + x is x, which spares tiles an addition.
        skip = number == 0 and isinstance(result, int) and result == 0 and isinstance(x, Value)
        result = x if skip else cx.binary("add", result, x)
    return result


@_builtin(any)
def _any(cx: Context, values: Any, /) -> Any:
    return _all_any(cx, "or", values)


@_builtin(all)
def _all(cx: Context, values: Any, /) -> Any:
    return _all_any(cx, "and", values)


def _all_any(cx: Context, kind: str, values: Any) -> Any:
    decided = kind == "or"
    result: Any = not decided
    for x in elements(cx, values, "for any or all"):
        truth = cx.truth(x)
        if truth is decided:
            return decided
        if not isinstance(truth, bool):
            result = truth if isinstance(result, bool) else cx.binary(kind, result, truth)
    return result


@_builtin(tuple)
def _tuple(cx: Context, x: Any = (), /) -> Any:
    return tuple(elements(cx, x, "for tuple"))


@_builtin(list)
def _list(cx: Context, x: Any = (), /) -> Any:
    return cx.made(elements(cx, x, "for list"))


@_builtin(dict)
def _dict(cx: Context, /, *args: Any, **kwargs: Any) -> Any:
    try:
        return cx.made(dict(*args, **kwargs))
    except (TypeError, ValueError) as error:
        raise cx.type_error(f"dict: {error}") from None


@_builtin(enumerate)
def _enumerate(cx: Context, x: Any, /, start: int = 0) -> Any:
    return tuple(enumerate(elements(cx, x, "for enumerate"), start))


@_builtin(zip)
def _zip(cx: Context, /, *sequences: Any, strict: bool = False) -> Any:
    found = [elements(cx, x, "for zip") for x in sequences]
    if strict and len({len(x) for x in found}) > 1:
        raise cx.value_error(f"zip: lengths differ: {[len(x) for x in found]}")
    return tuple(zip(*found, strict=False))


@_builtin(map)
def _map(cx: Context, function: Any, /, *sequences: Any) -> Any:
    found = [elements(cx, x, "for map") for x in sequences]
    return tuple(cx.call(function, *args) for args in zip(*found, strict=False))


@_builtin(reversed)
def _reversed(cx: Context, x: Any, /) -> Any:
    if isinstance(x, range):
        return x[::-1]
    return tuple(reversed(elements(cx, x, "for reversed")))


@_builtin(sorted)
def _sorted(cx: Context, x: Any, /, *, key: Any = None, reverse: bool = False) -> Any:
    found = elements(cx, x, "for sorted")
    keys = found if key is None else [cx.call(key, item) for item in found]
    if any(contains_value(k) for k in keys):
        raise cx.type_error("sorted: run-time values cannot be sorted at compile time")
    order = _python(cx, sorted, range(len(found)), key=keys.__getitem__, reverse=reverse)
    return cx.made([found[i] for i in order])


@_builtin(isinstance)
def _isinstance(cx: Context, x: Any, kinds: Any, /) -> bool:
    """A run-time scalar counts as Python's int, float or bool."""
    if not isinstance(x, Value):
        return cast(bool, _python(cx, isinstance, x, kinds))
    names = {k.__name__ for k in (kinds if isinstance(kinds, tuple) else (kinds,))}
    match x.type:
        case Scalar(dtype):
            kind = {"int": "int", "uint": "int", "float": "float", "bool": "bool"}[dtype.kind]
            return kind in names or (kind == "bool" and "int" in names)
        case TensorType():
            return "Tensor" in names
        case Tile():
            return "Tile" in names
        case SharedTile():
            return "SharedTile" in names
    return False


@_builtin(getattr)
def _getattr(cx: Context, x: Any, name: str, default: Any = _MISSING, /) -> Any:
    from tiledsl.errors import TypeMismatch
    from tiledsl.frontend.attributes import get_attribute

    try:
        return get_attribute(cx, x, name)
    except TypeMismatch:
        if default is _MISSING:
            raise
        return default


@_builtin(hasattr)
def _hasattr(cx: Context, x: Any, name: str, /) -> bool:
    return _getattr(cx, x, name, None) is not None


@_builtin(str)
def _str(cx: Context, x: Any = "", /) -> Any:
    if isinstance(x, Value | FormatString | TracedObject):
        raise cx.type_error(
            f"str of {cx.describe(x)}", hint='td.print(x) prints it, or td.print(f"... {x}")'
        )
    return _python(cx, str, x)


@_builtin(print)
def _print(cx: Context, /, *args: Any, **options: Any) -> Any:
    raise cx.type_error(
        "print is not supported in a kernel",
        hint="write td.print(...), which prints from the GPU",
    )


@_builtin(type)
def _type(cx: Context, x: Any, /) -> Any:
    if isinstance(x, Value):
        raise cx.type_error(f"type of {cx.describe(x)}", hint="x.dtype is its element type")
    return type(x)


_REFUSED = (
    input, open, exec, eval, compile, globals, locals, vars, setattr, delattr, __import__,
    breakpoint, super, iter, next, filter, id,
)  # fmt: skip


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(cx: Context, /, *args: Any, **kwargs: Any) -> Any:
        raise cx.syntax_error(f"{name} is not supported in a kernel")

    return refuse


for _callee in _REFUSED:
    _BUILTINS[_callee] = _refuse(_callee.__name__)


@_builtin(functools.partial)
def _partial(cx: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    return functools.partial(function, *args, **kwargs)


@_builtin(itertools.product)
def _product(cx: Context, /, *sequences: Any, repeat: int = 1) -> Any:
    found = [elements(cx, x, "for product") for x in sequences]
    return tuple(itertools.product(*found, repeat=repeat))


def _python(cx: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Python's own function on compile-time values."""
    for x in args:
        if contains_value(x):
            raise cx.type_error(
                f"{function.__name__} does not exist for {cx.describe(x)}",
                hint="convert it, such as td.int32(x) or td.float32(x)"
                if isinstance(x, Value)
                else None,
            )
    try:
        return function(*args, **kwargs)
    except (TypeError, ValueError, ArithmeticError, Warning) as error:
        raise cx.value_error(f"{function.__name__}: {error}") from None
