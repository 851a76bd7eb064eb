"""Arithmetic with Python's meaning on any mix of compile-time and run-time numbers.

Two compile-time values are computed now, by Python itself. A Python literal beside a run-time
value is *weak*: it takes the other's dtype where it fits. Run-time integers wrap at their width.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops.arith import Binary, Cast, Compare, Constant, Unary
from tiledsl.codegen.ir.types import Scalar
from tiledsl.frontend import overloads
from tiledsl.frontend.registry import operators_of

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "matmul": "@",
    "min": "min", "max": "max",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "neg": "-", "pos": "+", "invert": "~", "not": "not", "abs": "abs",
}  # fmt: skip

_PYTHON: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "shl": operator.lshift,
    "shr": operator.rshift, "matmul": operator.matmul, "min": min, "max": max,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
    "neg": operator.neg, "pos": operator.pos, "invert": operator.invert, "not": operator.not_,
    "abs": abs,
}  # fmt: skip

_BITS = ("and", "or", "xor", "shl", "shr")
_IDENTITY = {"add": 0, "sub": 0, "mul": 1, "floordiv": 1, "shl": 0, "shr": 0, "or": 0, "xor": 0}
_LARGEST_EXPONENT = 64


def python_number(x: object) -> bool | int | float | None:
    """A compile-time number as a Python bool, int or float (NumPy scalars too), or None."""
    if isinstance(x, bool | int | float):
        return x
    if isinstance(x, numbers.Integral):
        return int(x)
    if isinstance(x, numbers.Real):
        return float(x)
    return bool(x) if type(x).__name__ in ("bool_", "bool") and hasattr(x, "dtype") else None


def as_python(value: float, dtype: DType) -> bool | int | float:
    """A number as the Python type that constants of ``dtype`` hold."""
    if dtype.kind == "bool":
        return bool(value)
    return float(value) if dtype.is_float else int(value)


def dtype_of(x: object) -> DType | None:
    """The dtype of a run-time scalar; None for everything else."""
    return x.type.dtype if isinstance(x, Value) and isinstance(x.type, Scalar) else None


def fits(value: float, dtype: DType) -> bool:
    """Whether a compile-time integer lies in the range of an integer dtype."""
    low, high = dtypes.int_range(dtype)
    return low <= value <= high


def natural_dtype(value: float) -> DType | None:
    """The dtype of a Python number that stands alone; None for an integer beyond 64 bits."""
    if isinstance(value, bool):
        return dtypes.bool_
    if isinstance(value, float):
        return dtypes.float32
    return next((d for d in (dtypes.int32, dtypes.int64, dtypes.uint64) if fits(value, d)), None)


def beside(value: float, dtype: DType) -> DType | None:
    """The dtype in which a literal is combined with a run-time value of ``dtype``."""
    if isinstance(value, bool):
        return dtype
    if isinstance(value, float):
        return dtype if dtype.is_float else dtypes.float32
    if dtype.is_float or (dtype.is_integer and fits(value, dtype)):
        return dtype
    alone = natural_dtype(value)
    return alone if alone is None else dtypes.promote(dtype, alone)


def cast(cx: Context, value: Value, dtype: DType) -> Value:
    """A run-time scalar in another dtype; the same value where it has it already."""
    if value.type == Scalar(dtype):
        return value
    if isinstance(value.owner, Constant) and dtype.kind != "bool":
        number = value.owner.value
        exact = dtype.is_float or (not isinstance(number, float) and fits(number, dtype))
        if exact and dtype.bits >= 32:
            return cx.constant(number, dtype)
    return cx.emit(Cast(value, dtype), value.name)


def scalar(cx: Context, x: object, dtype: DType) -> Value:
    """See ``Context.scalar``."""
    number = python_number(x)
    source = dtype_of(x)
    if number is None and source is None:
        raise cx.type_error(f"expected {_noun(dtype)}, got {cx.describe(x)}")
    is_float = isinstance(number, float) or (source is not None and source.is_float)
    if dtype.is_integer and is_float:
        raise cx.type_error(
            f"expected {_noun(dtype)}, got {cx.describe(x)}",
            hint=f"convert it: td.{dtype}(...) truncates towards zero",
        )
    if dtype.kind == "bool" and (number not in (None, 0, 1) or source not in (None, dtypes.bool_)):
        raise cx.type_error(
            f"expected a bool_, got {cx.describe(x)}", hint="compare it: write x != 0"
        )
    if source is not None:
        assert isinstance(x, Value)
        return cast(cx, x, dtype)
    assert number is not None
    if dtype.is_integer and not fits(number, dtype):
        low, high = dtypes.int_range(dtype)
        raise cx.value_error(
            f"{short_number(number)} does not fit {dtype}: expected {low} to {high}"
        )
    return cx.constant(number, dtype)


def short_number(number: float) -> str:
    """``str(number)``, unless Python refuses to write so many digits."""
    if isinstance(number, int) and number.bit_length() > 1000:
        return f"an integer of {number.bit_length()} bits"
    return str(number)


def _noun(dtype: DType) -> str:
    from tiledsl.frontend.describe import article

    return article(str(dtype))


# ---------------------------------------------------------------------------------- operators


def binary(cx: Context, kind: str, lhs: Any, rhs: Any) -> Any:
    """See ``Context.binary``."""
    family = operators_of(lhs) or operators_of(rhs)
    if family is None and not isinstance(lhs, Value) and not isinstance(rhs, Value):
        return python_operator(cx, kind, lhs, rhs)
    if kind == "pow":
        return _power(cx, lhs, rhs)
    if kind == "matmul":
        raise cx.type_error(
            f"`@` does not exist for {cx.describe(lhs)} and {cx.describe(rhs)}",
            hint="write td.mma(a, b, acc)",
        )
    if family is not None:
        return family.binary(cx, kind, lhs, rhs)
    if overloads.is_overloaded(lhs) or overloads.is_overloaded(rhs):
        return overloads.binary(cx, kind, SYMBOLS[kind], lhs, rhs)
    dtype = _common(cx, kind, lhs, rhs)
    if kind in ("shl", "shr"):
        # The count does not widen the result.
        dtype = dtype_of(lhs) or dtype
    if dtype.kind == "bool":
        if kind in ("min", "max"):
            kind = "and" if kind == "min" else "or"
        elif kind not in ("and", "or", "xor"):
            dtype = dtypes.int32
    if kind == "truediv" and not dtype.is_float:
        dtype = dtypes.float32
    _check_operands(cx, kind, dtype, lhs, rhs)
    if dtype.is_integer and not isinstance(rhs, Value) and _IDENTITY.get(kind) == rhs:
        return cast(cx, lhs, dtype)
    result = cx.emit(Binary(kind, _operand(cx, lhs, dtype), _operand(cx, rhs, dtype)))
    if is_weak(cx, lhs) and is_weak(cx, rhs):
        cx.weak.add(result)
    return result


def compare(cx: Context, kind: str, lhs: Any, rhs: Any) -> Any:
    """See ``Context.compare``."""
    family = operators_of(lhs) or operators_of(rhs)
    if family is not None:
        return family.compare(cx, kind, lhs, rhs)
    if not isinstance(lhs, Value) and not isinstance(rhs, Value):
        if kind in ("eq", "ne") and isinstance(lhs, tuple | list) and type(lhs) is type(rhs):
            return _compare_sequences(cx, kind, lhs, rhs)
        return python_operator(cx, kind, lhs, rhs)
    if overloads.is_overloaded(lhs) or overloads.is_overloaded(rhs):
        return overloads.binary(cx, kind, SYMBOLS[kind], lhs, rhs)
    if kind in ("eq", "ne") and not (cx.is_number(lhs) and cx.is_number(rhs)):
        if lhs is rhs:
            return kind == "eq"
        if any(x is None or isinstance(x, str | tuple | list | dict) for x in (lhs, rhs)):
            return kind == "ne"  # a number equals none of these
    dtype = _common(cx, kind, lhs, rhs)
    if dtype.kind == "bool" and kind not in ("eq", "ne"):
        dtype = dtypes.int32
    return cx.emit(Compare(kind, _operand(cx, lhs, dtype), _operand(cx, rhs, dtype)))


def _compare_sequences(cx: Context, kind: str, lhs: Any, rhs: Any) -> Any:
    """``==`` of tuples or lists that may hold run-time numbers: every pair must be equal."""
    if len(lhs) != len(rhs):
        return kind == "ne"
    result: Any = True
    for left, right in zip(lhs, rhs, strict=True):
        equal = compare(cx, "eq", left, right)
        if equal is False:
            return kind == "ne"
        if equal is not True:
            result = equal if result is True else cx.emit(Binary("and", result, equal))
    return result if kind == "eq" else unary(cx, "not", result)


def unary(cx: Context, kind: str, value: Any) -> Any:
    """See ``Context.unary``."""
    if kind == "not":
        truth = cx.truth(value)
        return (not truth) if isinstance(truth, bool) else cx.emit(Unary("not", truth))
    family = operators_of(value)
    if family is not None:
        return value if kind == "pos" else family.unary(cx, kind, value)
    if not isinstance(value, Value):
        return python_operator(cx, kind, value)
    if kind == "pos":
        _number_or_raise(cx, kind, value)
        return cast(cx, value, dtypes.int32) if dtype_of(value) == dtypes.bool_ else value
    dtype = _number_or_raise(cx, kind, value)
    if dtype.kind == "bool":
        if kind == "invert":
            raise cx.type_error("`~` of a run-time bool_", hint="write `not x`")
        value, dtype = cast(cx, value, dtypes.int32), dtypes.int32
    _check_operands(cx, kind, dtype, value)
    if kind == "abs" and dtype.kind == "uint":
        return value
    result = cx.emit(Unary(kind, value))
    if value in cx.weak:
        cx.weak.add(result)
    return result


def python_operator(cx: Context, kind: str, *operands: Any) -> Any:
    """Apply Python's own operator to compile-time values; its exceptions become ours."""
    if any(overloads.is_overloaded(x) for x in operands):
        return overloads.binary(cx, kind, SYMBOLS[kind], *operands)
    try:
        return _PYTHON[kind](*operands)
    except TypeError:
        described = " and ".join(cx.describe(x) for x in operands)
        raise cx.type_error(f"`{SYMBOLS[kind]}` does not exist for {described}") from None
    except (ValueError, ArithmeticError, MemoryError, Warning) as error:
        # A warning of NumPy's is an exception where the user makes warnings errors.
        reason = error if str(error) else "out of memory"
        raise cx.value_error(f"`{SYMBOLS[kind]}`: {reason}") from None


def _number_or_raise(cx: Context, kind: str, value: Value) -> DType:
    dtype = dtype_of(value)
    if dtype is None:
        raise cx.type_error(f"`{SYMBOLS[kind]}` does not exist for {cx.describe(value)}")
    return dtype


def is_weak(cx: Context, x: object) -> bool:
    """Whether ``x`` adapts to the dtype of what it is combined with."""
    return x in cx.weak if isinstance(x, Value) else True


def _common(cx: Context, kind: str, lhs: Any, rhs: Any) -> DType:
    """The dtype in which two numbers, at least one of them run-time, are combined."""
    found: DType | None = None
    left, right = dtype_of(lhs), dtype_of(rhs)
    if left is not None and right is not None:
        found = _promote(cx, lhs, left, rhs, right)
    elif left is not None and (number := python_number(rhs)) is not None:
        found = beside(number, left)
    elif right is not None and (number := python_number(lhs)) is not None:
        found = beside(number, right)
    if found is None:
        numeric = all(dtype_of(x) or python_number(x) is not None for x in (lhs, rhs))
        raise cx.type_error(
            f"`{SYMBOLS[kind]}` does not exist for {cx.describe(lhs)} and {cx.describe(rhs)}",
            hint="convert one of them, such as td.int64(x) or td.float32(x)" if numeric else None,
        )
    return found


def _promote(cx: Context, lhs: Value, left: DType, rhs: Value, right: DType) -> DType | None:
    """As ``dtypes.promote``, where a weak value takes the other's dtype as a literal does."""
    for weak, dtype, other, strong in ((lhs, left, rhs, right), (rhs, right, lhs, left)):
        if weak in cx.weak and other not in cx.weak and strong.kind != "bool":
            return beside(0.0 if dtype.is_float else 0, strong)
    return dtypes.promote(left, right)


def _operand(cx: Context, x: Any, dtype: DType) -> Value:
    if isinstance(x, Value):
        return cast(cx, x, dtype)
    number = python_number(x)
    assert number is not None
    return cx.constant(number, dtype)


def _check_operands(cx: Context, kind: str, dtype: DType, *operands: Any) -> None:
    described = " and ".join(cx.describe(x) for x in operands)
    if dtype.is_float and dtype.bits == 8:
        raise cx.type_error(
            f"`{SYMBOLS[kind]}` does not exist for {described}",
            hint="convert to float32 first: x.to(td.float32)",
        )
    if dtype.is_float and (kind in _BITS or kind == "invert"):
        raise cx.type_error(f"`{SYMBOLS[kind]}` does not exist for {described}")
    divisor = operands[-1]
    if kind in ("floordiv", "mod") and dtype.is_integer and python_number(divisor) == 0:
        raise cx.value_error(f"`{SYMBOLS[kind]}`: division by zero")
    if kind in ("shl", "shr"):
        count = python_number(divisor)
        if count is not None and not 0 <= count < dtype.bits:
            raise cx.value_error(
                f"`{SYMBOLS[kind]}` of {cx.describe(operands[0])}: expected a count from 0 to"
                f" {dtype.bits - 1}, got {count}"
            )


def _power(cx: Context, base: Any, exponent: Any) -> Any:
    """``base ** n`` for a compile-time integer n, by repeated squaring."""
    n = python_number(exponent)
    if operators_of(exponent) is not None or not isinstance(n, int) or abs(n) > _LARGEST_EXPONENT:
        raise cx.type_error(
            f"`**` of {cx.describe(base)} and {cx.describe(exponent)}: expected a compile-time"
            f" integer exponent of at most {_LARGEST_EXPONENT}"
        )
    if n < 0:
        return cx.binary("truediv", 1.0, _power(cx, base, -n))
    if n == 0:
        return cx.binary("add", cx.binary("mul", base, 0), 1)
    result: Any = None
    square: Any = base
    while n:
        if n & 1:
            result = square if result is None else cx.binary("mul", result, square)
        n >>= 1
        if n:
            square = cx.binary("mul", square, square)
    return result


def truth(cx: Context, x: Any) -> bool | Value:
    """See ``Context.truth``."""
    dtype = dtype_of(x)
    if dtype is None and (isinstance(x, Value) or operators_of(x) is not None):
        raise cx.type_error(f"{cx.describe(x)} is neither true nor false")
    if dtype is not None:
        assert isinstance(x, Value)
        if dtype.kind == "bool":
            return x
        return cx.emit(Compare("ne", x, cx.constant(0, dtype)))
    if overloads.is_overloaded(x):
        return overloads.truth(cx, x)
    try:
        return bool(x)
    except (TypeError, ValueError) as error:
        raise cx.type_error(f"{cx.describe(x)} is neither true nor false: {error}") from None
