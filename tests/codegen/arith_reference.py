"""What arithmetic means, written down a second time: in Python integers and exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from tiledsl.codegen.ir.dtypes import ALL_DTYPES, DType, int_range

NUMPY: dict[DType, Any] = {
    dtype: np.dtype(getattr(ml_dtypes, dtype.name, None) or getattr(np, dtype.name))
    for dtype in ALL_DTYPES
}

# name: (mantissa bits, smallest exponent, largest number, saturates)
_FORMATS: dict[str, tuple[int, int, float, bool]] = {
    "float8_e4m3fn": (3, -6, 448.0, True),
    "float8_e5m2": (2, -14, 57344.0, True),
    "float16": (10, -14, 65504.0, False),
    "bfloat16": (7, -126, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max), False),
    "float32": (23, -126, float(np.finfo(np.float32).max), False),
}


def wrap(value: int, dtype: DType) -> int:
    low, high = int_range(dtype)
    return (value - low) % (high - low + 1) + low


def round_exactly(value: int | float, dtype: DType) -> float:
    """To nearest even, once, by fractions."""
    mantissa, least, largest, saturates = _FORMATS[dtype.name]
    beyond = largest if saturates else math.inf
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    if isinstance(value, float) and math.isinf(value):
        return math.copysign(beyond, value)
    exact = abs(Fraction(value))
    if exact == 0:
        return math.copysign(0.0, value)
    sign = 1 if value > 0 else -1
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= exact < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, least) - mantissa)
    rounded = round(exact / quantum) * quantum
    return sign * (float(rounded) if rounded <= largest else beyond)


def cast(value: Any, source: DType, dtype: DType) -> bool | int | float:
    """``value`` (a NumPy scalar of ``source``) as ``dtype``."""
    number = float(value) if source.is_float else int(value)
    if dtype == source:
        return number
    if dtype.kind == "bool":
        return number != 0
    if dtype.is_float:
        return float(number) if dtype.bits == 64 else round_exactly(number, dtype)
    if not source.is_float:
        return wrap(int(number), dtype)
    if math.isnan(number):
        return 0
    low, high = int_range(dtype)
    return int(max(low, min(high, number if math.isinf(number) else int(number))))


def _shift(a: int, b: int, bits: int, left: bool) -> int:
    if not 0 <= b < bits:
        return -1 if a < 0 and not left else 0
    return a << b if left else a >> b


def _integer(kind: str, dtype: DType, a: int, b: int) -> int:
    if kind in ("floordiv", "mod") and b == 0:
        return 0
    table: dict[str, Callable[[], int]] = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b,
        "floordiv": lambda: a // b, "mod": lambda: a % b,
        "min": lambda: min(a, b), "max": lambda: max(a, b),
        "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b,
        "shl": lambda: _shift(a, b, dtype.bits, True),
        "shr": lambda: _shift(a, b, dtype.bits, False),
    }  # fmt: skip
    return wrap(table[kind](), dtype)


def _extreme(function: Any, negative: bool) -> Callable[[Any, Any], Any]:
    """min or max; -0.0 is below 0.0."""

    def run(a: Any, b: Any) -> Any:
        if a == b:
            return a if np.signbit(a) == negative else b
        return function(a, b)

    return run


_FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide,
    "floordiv": np.floor_divide, "mod": np.mod,
    "min": _extreme(np.minimum, True), "max": _extreme(np.maximum, False),
}  # fmt: skip


def binary(kind: str, dtype: DType, a: Any, b: Any) -> bool | int | float:
    """``a kind b`` for NumPy scalars of ``dtype``."""
    if dtype.kind == "bool":
        return {"and": a & b, "or": a | b, "xor": a ^ b}[kind]  # type: ignore[no-any-return]
    if dtype.is_integer:
        return _integer(kind, dtype, int(a), int(b))
    wide = np.float64 if dtype.bits == 64 else np.float32
    with np.errstate(all="ignore"):
        return float(NUMPY[dtype].type(_FLOAT[kind](wide(a), wide(b))))


def unary(kind: str, dtype: DType, a: Any) -> bool | int | float:
    if dtype.kind == "bool":
        return not a
    if dtype.is_integer:
        value = int(a)
        return wrap({"neg": -value, "invert": ~value, "abs": abs(value)}[kind], dtype)
    return -float(a) if kind == "neg" else abs(float(a))


def compare(kind: str, a: Any, b: Any) -> bool:
    table = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    return bool(table[kind])


def same(given: Any, expected: Any) -> bool:
    """Equal, where NaN equals NaN, and 0.0 differs from -0.0."""
    if isinstance(expected, int):  # exact: float64 does not hold every int64
        return int(given) == expected
    given, expected = float(given), float(expected)
    if math.isnan(expected):
        return math.isnan(given)
    return given == expected and math.copysign(1, given) == math.copysign(1, expected)


def inputs(dtype: DType, count: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Two arrays of values that are likely to show a mistake: small, huge, special, equal."""
    x, y = _values(dtype, count, rng), _values(dtype, count, rng)
    quarter = count // 4
    y[:quarter] = x[rng.permutation(quarter)]
    y[quarter : quarter + count // 8] = x[quarter : quarter + count // 8]
    return x, y


def _values(dtype: DType, count: int, rng: np.random.Generator) -> Any:
    raw = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    if dtype.kind == "bool":
        return (raw & 1).astype(bool)
    anything = raw.view(NUMPY[dtype])
    if dtype.is_integer:
        low, high = int_range(dtype)
        edges = [low, high, 0, 1, max(low, -1), high - 1, low + 1]
        small = rng.integers(max(low, -40), 41, count).astype(NUMPY[dtype])
        found = np.where(rng.random(count) < 0.6, small, anything)
    else:
        edges = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 300.5, -127.5, 2.0**31]
        edges += [5e-324, 1e-40, 1e308, 65519.0, 65520.0, 464.0, 61440.0]
        spread = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 7, count)
        spread = np.where(rng.random(count) < 0.3, np.round(spread), spread)
        with np.errstate(all="ignore"):
            found = np.where(rng.random(count) < 0.85, spread.astype(NUMPY[dtype]), anything)
    with np.errstate(all="ignore"):
        places = rng.permutation(count)[: len(edges)]
        found[places] = np.array(edges, dtype=object if dtype.is_integer else float).astype(
            NUMPY[dtype]
        )[: len(places)]
    return found
