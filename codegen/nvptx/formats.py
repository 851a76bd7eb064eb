"""Floating-point formats as numbers: rounding a Python number to one, and the bits of fp8.

Constants are rounded here, once and to nearest even, because LLVM takes only constants that its
type represents exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format.

    Attributes:
        mantissa: bits behind the point.
        min_exponent: exponent of the smallest normal number.
        largest: the largest finite number.
        saturates: whether what is larger becomes ``largest`` (fp8) instead of infinity.
    """

    mantissa: int
    min_exponent: int
    largest: float
    saturates: bool = False


FORMATS: dict[DType, Format] = {
    dtypes.float8_e4m3fn: Format(3, -6, 448.0, saturates=True),
    dtypes.float8_e5m2: Format(2, -14, 57344.0, saturates=True),
    dtypes.float16: Format(10, -14, 65504.0),
    dtypes.bfloat16: Format(7, -126, (2 - 2.0**-7) * 2.0**127),
    dtypes.float32: Format(23, -126, (2 - 2.0**-23) * 2.0**127),
}


def round_to(value: int | float, dtype: DType) -> float:
    """``value`` rounded to nearest even in a float dtype, as a Python float."""
    try:
        number = float(value)
    except OverflowError:  # an int beyond float64
        number = math.inf if value > 0 else -math.inf
    form = FORMATS.get(dtype)
    if form is None or math.isnan(number) or number == 0:
        return number
    overflow = math.copysign(form.largest if form.saturates else math.inf, number)
    if abs(number) >= 2 * form.largest:  # near the end of float64 the scaling would overflow
        return overflow
    _, exponent = math.frexp(number)  # number = f * 2**exponent with 0.5 <= |f| < 1
    quantum = max(exponent - 1, form.min_exponent) - form.mantissa
    # Scaling by a power of two is exact, and `round` of a float rounds half to even.
    rounded = math.ldexp(round(math.ldexp(number, -quantum)), quantum)
    return math.copysign(rounded, number) if abs(rounded) <= form.largest else overflow


def fp8_bits(value: int | float, dtype: DType) -> int:
    """The byte that stands for ``value`` in an fp8 dtype."""
    form = FORMATS[dtype]
    number = round_to(value, dtype)
    sign = 0x80 if math.copysign(1.0, number) < 0 else 0
    if math.isnan(number):
        return 0x7F
    if number == 0:
        return sign
    exponent = max(math.frexp(number)[1] - 1, form.min_exponent)
    fraction = int(math.ldexp(abs(number), form.mantissa - exponent))
    # A subnormal lacks the leading one, which makes its biased exponent field 0.
    biased = exponent - form.min_exponent + (fraction >> form.mantissa)
    return sign | biased << form.mantissa | fraction & ((1 << form.mantissa) - 1)
