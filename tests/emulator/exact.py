"""Arithmetic on exact fractions, rounded once: what each float operation must give.

Independent of NumPy and of the emulator, and slow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType


@dataclass(frozen=True)
class Format:
    """``bits`` of the significand with the leading one; ``lowest``: exponent of the last bit of
    the smallest numbers; ``largest`` finite number; whether more than that ``saturates``."""

    bits: int
    lowest: int
    largest: Fraction
    saturates: bool = False


FORMATS = {
    dtypes.float8_e4m3fn: Format(4, -9, Fraction(448), True),
    dtypes.float8_e5m2: Format(3, -16, Fraction(57344), True),
    dtypes.float16: Format(11, -24, Fraction(65504)),
    dtypes.bfloat16: Format(8, -133, Fraction(2**8 - 1) * 2 ** (127 - 7)),
    dtypes.float32: Format(24, -149, Fraction(2**24 - 1) * 2 ** (127 - 23)),
    dtypes.float64: Format(53, -1074, Fraction(2**53 - 1) * 2 ** (1023 - 52)),
}


def rounded(value: Fraction | float, dtype: DType, sign: float = 1.0) -> float:
    """``value`` to nearest even in a float dtype; ``sign`` of the result when it is 0."""
    form = FORMATS[dtype]
    if isinstance(value, float):
        if math.isnan(value) or (math.isinf(value) and not form.saturates):
            return value
        if math.isinf(value):
            return math.copysign(float(form.largest), value)
        sign = math.copysign(1.0, value)
        value = Fraction(value)
    if value == 0:
        return math.copysign(0.0, sign)
    size = abs(value)
    # The exponent e with 2**e <= size < 2**(e + 1).
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - form.bits + 1, form.lowest)
    size = round(size / unit) * unit  # `round` of a Fraction rounds half to even
    if size > form.largest:
        size = form.largest if form.saturates else Fraction(0)
        result = float(size) if form.saturates else math.inf
    else:
        result = float(size)
    return math.copysign(result, 1.0 if value > 0 else -1.0)


def binary(kind: str, a: float, b: float, dtype: DType) -> float:
    """``a kind b`` of two numbers of ``dtype``."""
    special = math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b)
    if kind in ("min", "max"):
        if math.isnan(a) or math.isnan(b):
            return math.nan
        if a == b == 0:
            pick = min if kind == "min" else max
            return pick((a, b), key=lambda v: math.copysign(1.0, v))
        return min(a, b) if kind == "min" else max(a, b)
    if special or (b == 0 and kind in ("truediv", "floordiv", "mod")):
        return _special(kind, a, b)
    x, y = Fraction(a), Fraction(b)
    if kind in ("add", "sub"):
        y = y if kind == "add" else -y
        b = b if kind == "add" else -b
        both = math.copysign(1.0, a) < 0 and math.copysign(1.0, b) < 0
        return rounded(x + y, dtype, -1.0 if both and a == b == 0 else 1.0)
    sign = math.copysign(1.0, a) * math.copysign(1.0, b)
    if kind == "mul":
        return rounded(x * y, dtype, sign)
    if kind == "truediv":
        return rounded(x / y, dtype, sign)
    if kind == "mod":
        rest = abs(x) % abs(y)
        rest = -rest if x < 0 else rest
        if rest and (rest < 0) != (y < 0):
            rest += y
        return rounded(rest, dtype, math.copysign(1.0, b))
    assert kind == "floordiv"
    return rounded(Fraction(math.floor(x / y)), dtype, sign)


def _special(kind: str, a: float, b: float) -> float:
    """With an infinity, a NaN or a zero divisor: as IEEE 754 and Python have it."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if kind in ("add", "sub", "mul"):
        return {"add": a + b, "sub": a - b, "mul": a * b}[kind]
    if b == 0:
        if kind == "mod" or a == 0:
            return math.nan
        return math.copysign(math.inf, math.copysign(1.0, a) * math.copysign(1.0, b))
    if kind == "truediv":
        return a / b
    if math.isinf(a):
        return math.nan
    return a % b if kind == "mod" else a // b
