"""float64 arithmetic rounded towards zero, down or up.

The CPU rounds to nearest. Here an operation is done on significands between 1 and 2, where nothing
overflows or underflows and the error is known exactly; ``settled`` then rounds once, at the
exponent that the result has.
"""

from __future__ import annotations

import numpy as np

from tiledsl.runtime.ptx_machine.core.floats import RM, RN, RP, RZ, exponent_of, power, sum_rest
from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, f64, i64
from tiledsl.runtime.ptx_machine.core.raw import f64_bits, f64_of, fma64
from tiledsl.runtime.ptx_machine.isa.floating_ops import DIV, MUL, RCP, SQRT

ONE = np.uint64(1)
HIDDEN = np.uint64(1 << 52)
LARGEST = 1.7976931348623157e308
FAR = 900  # exponents further apart than this: the smaller number only breaks ties


@compiled(b1, i64, i64, state=False)
def inward(mode: int, negative: int) -> bool:
    """Whether a mode rounds a number of this sign towards zero."""
    return mode == RZ or (mode == RP if negative else mode == RM)


@compiled(i64, f64, state=False)
def scale_of(x: float) -> int:
    """The exponent of a number that is finite and not zero, subnormal or not."""
    e = exponent_of(x)
    return e if e > -1023 else exponent_of(x * power(64)) - 64


@compiled(f64, f64, state=False)
def significand(x: float) -> float:
    """The number divided by two to its ``scale_of``."""
    if exponent_of(x) == -1023:
        x *= power(64)
    bits = f64_bits(x) & ~(np.uint64(0x7FF) << np.uint64(52))
    return f64_of(bits | np.uint64(1023) << np.uint64(52))


@compiled(f64, f64, f64, i64, i64, state=False)
def settled(near: float, rest: float, scale: int, mode: int) -> float:
    """(near + rest) * 2 ** scale, rounded once. ``rest``: only its sign counts."""
    negative = 1 if near < 0.0 else 0
    exponent = exponent_of(near) + scale
    digits = ((f64_bits(near) & (HIDDEN - ONE)) | HIDDEN) << np.uint64(2)
    if rest != 0.0:
        if (rest < 0.0) == (near < 0.0):
            digits |= ONE
        else:
            digits -= ONE
            if digits < HIDDEN << np.uint64(2):  # units are finer below a power of two
                digits = digits << ONE | ONE
                exponent -= 1
    drop = 2
    if exponent < -1022:
        drop += -1022 - exponent
        exponent = -1022
    drop = 58 if drop > 58 else drop
    count, part = digits >> np.uint64(drop), digits & ((ONE << np.uint64(drop)) - ONE)
    half = ONE << np.uint64(drop - 1)
    if mode == RN:
        away = part > half or (part == half and count & ONE == ONE)
    else:
        away = part != np.uint64(0) and not inward(mode, negative)
    if away:
        count += ONE
    if count >= HIDDEN << ONE:
        count >>= ONE
        exponent += 1
    result = LARGEST if inward(mode, negative) else np.inf
    if exponent <= 1023:
        field = np.uint64(exponent + 1022) << np.uint64(52)
        result = f64_of(count if count < HIDDEN else field + count)
    return -result if negative else result


@compiled(f64, f64, f64, f64, f64, state=False)
def product_rest(a: float, b: float, c: float, result: float) -> float:
    """The sign (and about the size) of what a * b + c has beyond its nearest float64."""
    if result - result != 0.0:
        return 0.0
    p = a * b
    below = fma64(a, b, -p)
    u1 = p + c
    u2 = sum_rest(p, c, u1)
    a1 = u2 + below
    a2 = sum_rest(u2, below, a1)
    return ((u1 - result) + a1) + a2


@compiled(f64, i64, f64, f64, f64, i64, state=False)
def directed(op: int, x: float, y: float, z: float, mode: int) -> float:
    """MUL, DIV, FMA, RCP, SQRT of finite numbers, x and y not zero, in any rounding mode."""
    a, scale = significand(x), scale_of(x)
    if op == SQRT:
        if scale & 1:
            a *= 2.0
            scale -= 1
        near = np.sqrt(a)
        return settled(near, fma64(-near, near, a), scale >> 1, mode)
    if op == RCP:
        near = 1.0 / a
        rest = fma64(-near, a, 1.0)
        return settled(near, rest if a > 0.0 else -rest, -scale, mode)
    b = significand(y)
    if op == DIV:
        near = a / b
        rest = fma64(-near, b, a)
        return settled(near, rest if b > 0.0 else -rest, scale - scale_of(y), mode)
    scale += scale_of(y)
    if op == MUL or z == 0.0:
        near = a * b
        return settled(near, fma64(a, b, -near), scale, mode)
    c, far = significand(z), scale_of(z) - scale
    if far > FAR:
        return settled(c, a * b, scale + far, mode)
    c *= power(far if far > -FAR else -FAR)
    near = fma64(a, b, c)
    if near == 0.0:
        return -0.0 if mode == RM else 0.0
    return settled(near, product_rest(a, b, c, near), scale, mode)


@compiled(f64, f64, f64, f64, i64, state=False)
def directed_sum(x: float, y: float, total: float, mode: int) -> float:
    """x + y from its nearest ``total``, in a mode that is not to nearest."""
    if total - total != 0.0:
        if x - x == 0.0 and y - y == 0.0 and inward(mode, 1 if total < 0.0 else 0):
            return LARGEST if total > 0.0 else -LARGEST
        return total
    if total == 0.0:  # exact: x + -x is -0 when rounded down
        if mode == RM and (x != 0.0 or np.signbit(x) != np.signbit(y)):
            return -0.0
        return total
    if exponent_of(total) == -1023:  # sums of subnormal size are exact
        return total
    return settled(total, sum_rest(x, y, total), 0, mode)
