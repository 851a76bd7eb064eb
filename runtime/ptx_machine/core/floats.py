"""Floating-point formats: bits to numbers, and numbers to bits with PTX's rounding modes.

A number is a float64, which holds every value of every smaller format. A result that float64 cannot
hold is a pair: the nearest float64 and what is missing (``rest``), whose sign decides directed
rounding and ties, so that each result is rounded once, as if from infinite precision.
"""

from __future__ import annotations

import numpy as np

from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, f64, i64, u64
from tiledsl.runtime.ptx_machine.core.raw import f32_bits, f32_of, f64_bits, f64_of
from tiledsl.runtime.ptx_machine.opcodes import BF16, BF16X2, E4M3, E5M2, F16, F16X2, F32, F64, TF32

# Rounding modes: nearest even, zero, down, up, nearest with ties away from zero.
RN, RZ, RM, RP, RNA = range(5)

ONE, ZERO = np.uint64(1), np.uint64(0)
SIGN64 = np.uint64(1 << 63)


@compiled(i64, i64, state=False)
def precision(kind: int) -> int:
    """Bits of a significand, the leading one included."""
    if kind == F32:
        return 24
    if kind == F64:
        return 53
    if kind in (F16, TF32):
        return 11
    if kind == BF16:
        return 8
    return 4 if kind == E4M3 else 3


@compiled(i64, i64, state=False)
def least_exponent(kind: int) -> int:
    """Exponent of the smallest normal number."""
    if kind in (F32, BF16, TF32):
        return -126
    if kind in (F16, E5M2):
        return -14
    return -6 if kind == E4M3 else -1022


@compiled(f64, i64, state=False)
def greatest(kind: int) -> float:
    """The greatest finite number."""
    if kind == F16:
        return 65504.0
    if kind == BF16:
        return 3.3895313892515355e38
    if kind == E4M3:
        return 448.0
    if kind == E5M2:
        return 57344.0
    if kind == TF32:
        return 3.4011621342146535e38
    return 3.4028234663852886e38


@compiled(f64, i64, state=False)
def power(exponent: int) -> float:
    """2 ** exponent, -1022 <= exponent <= 1023."""
    return f64_of(np.uint64(exponent + 1023) << np.uint64(52))


@compiled(i64, f64, state=False)
def exponent_of(x: float) -> int:
    """The exponent of a normal number; -1023 for subnormal numbers and zero."""
    return np.int64((f64_bits(x) >> np.uint64(52)) & np.uint64(0x7FF)) - 1023


@compiled(f64, f64, f64, i64, i64, i64, state=False)
def _rounded(x: float, rest: float, kind: int, mode: int, least: int) -> float:
    """``rounded``, with ``least`` as the exponent below which units get no smaller."""
    if x != x or x == 0.0 or x - x != 0.0:
        return x
    negative = x < 0.0
    size = -x if negative else x
    sticky = 0
    if rest != 0.0:
        sticky = 1 if (rest < 0.0) == negative else -1
    bits = precision(kind)
    exponent = exponent_of(size)
    exponent = least if exponent < least else exponent
    unit = exponent - (bits - 1)
    count = np.floor(size * power(-unit)) if unit > -1000 else 0.0
    part = size * power(-unit) - count
    away = False
    if mode == RN or mode == RNA:
        tie = sticky > 0 or (sticky == 0 and (mode == RNA or count % 2.0 == 1.0))
        away = part > 0.5 or (part == 0.5 and tie)
    else:
        if sticky < 0 and part == 0.0:
            # Just below a number of the format: where exponents change, units are finer there.
            if count == power(bits - 1) and exponent > least:
                unit -= 1
                count *= 2.0
            count -= 1.0
            part = 0.5
        up = (mode == RP and not negative) or (mode == RM and negative)
        away = up and (part > 0.0 or sticky > 0)
    result = (count + 1.0 if away else count) * power(unit)
    if result > greatest(kind):
        inward = mode == RZ or (mode == RM and not negative) or (mode == RP and negative)
        result = greatest(kind) if inward else np.inf
    return -result if negative else result


@compiled(f64, f64, f64, i64, i64, state=False)
def rounded(x: float, rest: float, kind: int, mode: int) -> float:
    """The exact number x + rest in a format below float64, by a rounding mode.

    Too large ones become infinite, or the greatest where the mode rounds towards zero.
    """
    return _rounded(x, rest, kind, mode, least_exponent(kind))


@compiled(f64, f64, f64, i64, i64, state=False)
def rounded_or_zero(x: float, rest: float, kind: int, mode: int) -> float:
    """``rounded``, with subnormal results flushed as by ``.ftz``.

    Whether a result is subnormal is seen behind the rounding, as if exponents had no bound: what
    the format would round up to its smallest normal number may be flushed for all that.
    """
    least = least_exponent(kind)
    if x == x and np.abs(_rounded(x, rest, kind, mode, least - 1)) < power(least):
        return np.copysign(0.0, x)
    return _rounded(x, rest, kind, mode, least)


@compiled(u64, f64, i64, state=False)
def pack(x: float, kind: int) -> int:
    """The bits of a number that the format holds exactly; NaN in NVIDIA's form."""
    if kind == F64:
        return f64_bits(x)
    if kind in (F32, TF32):
        return np.uint64(0x7FFFFFFF) if x != x else np.uint64(f32_bits(np.float32(x)))
    if kind == BF16:
        if x != x:
            return np.uint64(0x7FFF)
        return np.uint64(f32_bits(np.float32(x))) >> np.uint64(16)
    sign = f64_bits(x) >> np.uint64(63)
    bits = precision(kind)
    width = 16 if kind == F16 else 8
    if x != x:
        return np.uint64(0x7FFF if kind == F16 else 0x7F)
    size = -x if sign else x
    least = least_exponent(kind)
    if size > greatest(kind):
        code = np.uint64(0x7C00 if kind == F16 else 0x7C if kind == E5M2 else 0x7F)
    elif size < power(least):
        code = np.uint64(np.int64(size * power(bits - 1 - least)))
    else:
        exponent = exponent_of(size)
        fraction = np.uint64(np.int64((size * power(-exponent) - 1.0) * power(bits - 1)))
        code = np.uint64(exponent - least + 1) << np.uint64(bits - 1) | fraction
    return sign << np.uint64(width - 1) | code


@compiled(f64, u64, i64, state=False)
def unpack(code: int, kind: int) -> float:
    """The number that bits of a format stand for."""
    if kind == F32:
        return np.float64(f32_of(np.uint32(code)))
    if kind == F64:
        return f64_of(code)
    if kind == TF32:  # the hardware does not read the lowest 13 bits
        return np.float64(f32_of(np.uint32(code & np.uint64(0xFFFFE000))))
    if kind == BF16:
        return np.float64(f32_of(np.uint32((code & np.uint64(0xFFFF)) << np.uint64(16))))
    width = 16 if kind == F16 else 8
    bits, least = precision(kind), least_exponent(kind)
    negative = (code >> np.uint64(width - 1)) & ONE != ZERO
    size = code & ((ONE << np.uint64(width - 1)) - ONE)
    exponent = np.int64(size >> np.uint64(bits - 1))
    fraction = np.float64(np.int64(size & ((ONE << np.uint64(bits - 1)) - ONE))) * power(1 - bits)
    if kind == E4M3:
        if size == np.uint64(0x7F):
            return np.nan
    elif exponent == (1 << (width - bits)) - 1:
        if fraction != 0.0:
            return np.nan
        return -np.inf if negative else np.inf
    value = fraction * power(least)
    if exponent:
        value = (1.0 + fraction) * power(exponent + least - 1)
    return -value if negative else value


@compiled(f64, f64, f64, f64, state=False)
def sum_rest(a: float, b: float, total: float) -> float:
    """What a + b has beyond its float64 sum."""
    if total - total != 0.0:
        return 0.0
    other = total - a
    return (a - (total - other)) + (b - other)


@compiled(b1, f64, i64, state=False)
def is_subnormal(x: float, kind: int) -> bool:
    """Below the smallest normal number of a format, and not zero."""
    return x != 0.0 and -power(least_exponent(kind)) < x < power(least_exponent(kind))


@compiled(f64, f64, state=False)
def zeroed(x: float) -> float:
    """Zero, with the sign of a number."""
    return np.copysign(0.0, x)


@compiled(u64, i64, u64, u64, state=False)
def add_floats(kind: int, a: int, b: int) -> int:
    """The sum, to nearest even, also of the halves of a packed type: what atomics compute."""
    if kind in (F16X2, BF16X2):
        half = F16 if kind == F16X2 else BF16
        result, low = ZERO, np.uint64(0xFFFF)
        for shift in (np.uint64(0), np.uint64(16)):
            x, y = unpack(a >> shift & low, half), unpack(b >> shift & low, half)
            result |= pack(rounded(x + y, sum_rest(x, y, x + y), half, RN), half) << shift
        return result
    x, y = unpack(a, kind), unpack(b, kind)
    total = x + y
    if kind != F64:
        total = rounded(total, sum_rest(x, y, total), kind, RN)
    return pack(total, kind)


@compiled(u64, i64, u64, u64, i64, state=False)
def end_float(kind: int, a: int, b: int, least: int) -> int:
    """The least or greatest of two numbers; one that is no NaN, and -0 is less than +0."""
    x, y = unpack(a, kind), unpack(b, kind)
    if x != x or y != y:
        if x == x:
            return a
        return b if y == y else pack(np.nan, kind)
    first = np.signbit(x) == (least == 1) if x == y else (x < y) == (least == 1)
    return a if first else b


@compiled(u64, i64, u64, u64, state=False)
def add_in_global(kind: int, old: int, b: int) -> int:
    """Sums of atomics in global memory: f32 ones flush, f64 ones keep a NaN as it is."""
    x, y = unpack(old, kind), unpack(b, kind)
    if kind == F64:
        if x != x:
            return old
        return b if y != y else add_floats(kind, old, b)
    x = zeroed(x) if is_subnormal(x, kind) else x
    y = zeroed(y) if is_subnormal(y, kind) else y
    total = rounded(x + y, sum_rest(x, y, x + y), kind, RN)
    return pack(zeroed(total) if is_subnormal(total, kind) else total, kind)
