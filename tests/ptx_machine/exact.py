"""Floating-point arithmetic with exact numbers: what a result must be, rounded once."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

__all__ = ["FORMATS", "Format", "Value", "root"]

Value = Fraction | str
"""A finite number; or "inf", "-inf", "nan"; and "-0", as zero has a sign."""


@dataclass(frozen=True)
class Format:
    """An IEEE-like format; ``finite``: no infinities, and the NaN is all ones (e4m3)."""

    name: str
    ebits: int
    mbits: int
    finite: bool = False

    @property
    def bits(self) -> int:
        return 1 + self.ebits + self.mbits

    @property
    def bias(self) -> int:
        return (1 << (self.ebits - 1)) - 1

    @property
    def least(self) -> Fraction:
        """The smallest normal number."""
        return Fraction(2) ** (1 - self.bias)

    @property
    def greatest(self) -> Fraction:
        if self.finite:
            return (2 - Fraction(2) ** (1 - self.mbits)) * Fraction(2) ** (self.bias + 1)
        return (2 - Fraction(2) ** -self.mbits) * Fraction(2) ** self.bias

    def value(self, code: int) -> Value:
        sign, size = code >> (self.bits - 1), code & ((1 << (self.bits - 1)) - 1)
        exponent, fraction = size >> self.mbits, size & ((1 << self.mbits) - 1)
        if self.finite and size == (1 << (self.bits - 1)) - 1:
            return "nan"
        if not self.finite and exponent == (1 << self.ebits) - 1:
            return "nan" if fraction else "-inf" if sign else "inf"
        if size == 0:
            return "-0" if sign else Fraction(0)
        whole = fraction if exponent == 0 else fraction + (1 << self.mbits)
        x = whole * Fraction(2) ** (max(exponent, 1) - self.bias - self.mbits)
        return -x if sign else x

    def code(self, x: Value) -> int | None:
        """The bits of a value of the format; None for NaN, of which there are many."""
        sign = 1 << (self.bits - 1)
        if x == "nan":
            return None
        if isinstance(x, str):
            infinite = ((1 << self.ebits) - 1) << self.mbits
            return {"inf": infinite, "-inf": sign | infinite, "-0": sign}[x]
        size = abs(x)
        exponent = max(_exponent(size), 1 - self.bias) if size else 1 - self.bias
        whole = size / Fraction(2) ** (exponent - self.mbits)
        assert whole.denominator == 1, (self.name, x)
        code = (exponent + self.bias - 1 << self.mbits) + int(whole)
        return code | (sign if x < 0 else 0)

    def rounded(self, x: Value, mode: str, sticky: int = 0) -> Value:
        """By rn, rz, rm, rp or rna; ``sticky``: the exact number is that little more or less."""
        if isinstance(x, str) or x == 0:
            return x
        size, negative = abs(x), x < 0
        exponent = max(_exponent(size), 1 - self.bias)
        unit = Fraction(2) ** (exponent - self.mbits)
        count, part = divmod(size / unit, 1)
        more = sticky if not negative else -sticky
        assert part or not more, "an exact result has no rest"
        up = {"rp": not negative, "rm": negative, "rz": False}.get(mode)
        if up is None:
            tie = part == Fraction(1, 2) and (
                more > 0 or (more == 0 and (mode == "rna" or count % 2 == 1))
            )
            away = part > Fraction(1, 2) or tie
        else:
            away = up and (part > 0)
        result = (count + away) * unit
        if result > self.greatest:
            inward = mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative)
            if inward:
                result = self.greatest
            else:
                return "-inf" if negative else "inf"
        if result == 0:
            return "-0" if negative else Fraction(0)
        return -result if negative else result

    def flushed(self, x: Value) -> Value:
        """A subnormal number as a zero of its sign."""
        if isinstance(x, str) or x == 0 or abs(x) >= self.least:
            return x
        return "-0" if x < 0 else Fraction(0)


def _exponent(size: Fraction) -> int:
    """The exponent of the highest bit."""
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if size >= Fraction(2) ** guess else guess - 1


FORMATS = {
    "f16": Format("f16", 5, 10), "bf16": Format("bf16", 8, 7), "f32": Format("f32", 8, 23),
    "f64": Format("f64", 11, 52), "e4m3": Format("e4m3", 4, 3, True), "e5m2": Format("e5m2", 5, 2),
    "tf32": Format("tf32", 8, 10),
}  # fmt: skip


def negative(x: Value) -> bool:
    """The sign bit of a value that is no NaN."""
    return x in ("-0", "-inf") if isinstance(x, str) else x < 0


def number(x: Value) -> Fraction | float:
    """For comparisons: infinities as floats."""
    if isinstance(x, str):
        return Fraction(0) if x == "-0" else float(x)
    return x


def opposite(x: Value) -> Value:
    if isinstance(x, str):
        return Fraction(0) if x == "-0" else {"inf": "-inf", "-inf": "inf", "nan": "nan"}[x]
    return "-0" if x == 0 else -x


def signed(x: Value, minus: bool) -> Value:
    """The size of x with a sign."""
    return opposite(x) if x != "nan" and negative(x) != minus else x


def added(x: Value, y: Value, mode: str) -> Value:
    if "nan" in (x, y):
        return "nan"
    if "inf" in (x, y) or "-inf" in (x, y):
        infinite = {v for v in (x, y) if v in ("inf", "-inf")}
        return infinite.pop() if len(infinite) == 1 else "nan"
    a, b = number(x), number(y)
    total = a + b
    if total == 0:
        minus = (negative(x) and negative(y)) or (negative(x) != negative(y) and mode == "rm")
        return "-0" if minus else Fraction(0)
    return total  # type: ignore[return-value]


def multiplied(x: Value, y: Value) -> Value:
    if "nan" in (x, y):
        return "nan"
    minus = negative(x) != negative(y)
    if {"inf", "-inf"} & {x, y}:
        return "nan" if 0 in (number(x), number(y)) else "-inf" if minus else "inf"
    product = number(x) * number(y)
    return signed(Fraction(0), minus) if product == 0 else product  # type: ignore[return-value]


def divided(x: Value, y: Value) -> Value:
    if "nan" in (x, y):
        return "nan"
    minus = negative(x) != negative(y)
    x_infinite, y_infinite = x in ("inf", "-inf"), y in ("inf", "-inf")
    if (x_infinite and y_infinite) or (number(x) == 0 and number(y) == 0):
        return "nan"
    if x_infinite or number(y) == 0:
        return "-inf" if minus else "inf"
    if y_infinite or number(x) == 0:
        return "-0" if minus else Fraction(0)
    return number(x) / number(y)  # type: ignore[return-value]


def root(x: Value) -> tuple[Value, int]:
    """The square root, cut off at 400 bits behind its first, and 1 if there is more of it."""
    if x == "nan" or (negative(x) and x != "-0"):
        return "nan", 0
    if isinstance(x, str) or x == 0:
        return x, 0
    shift = 400 - _exponent(x) // 2
    scaled = x * Fraction(4) ** shift
    whole = isqrt(scaled.numerator // scaled.denominator)
    exact = scaled.denominator == 1 and whole * whole == scaled.numerator
    return Fraction(whole) / Fraction(2) ** shift, 0 if exact else 1
