"""The floating family: f16, bf16, f32, f64 and packed arithmetic, comparisons, approximations.

Approximations (``.approx``) are computed in float64 and rounded once: within the documented error,
but not the hardware's bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine import opcodes
from tiledsl.runtime.ptx_machine.core.bits import ONE, ZERO, combine, ones, width
from tiledsl.runtime.ptx_machine.core.common import lanes
from tiledsl.runtime.ptx_machine.core.doubles import directed, directed_sum, product_rest
from tiledsl.runtime.ptx_machine.core.floats import (
    RM,
    RN,
    RZ,
    is_subnormal,
    pack,
    rounded,
    rounded_or_zero,
    sum_rest,
    unpack,
    zeroed,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, f64, i64, u64
from tiledsl.runtime.ptx_machine.core.raw import (
    f32_bits,
    f32_of,
    f64_bits,
    f64_of,
    fma32,
    fma64,
    i64p,
)
from tiledsl.runtime.ptx_machine.isa.floating_ops import (
    ABS,
    ADD,
    APPROX,
    COPYSIGN,
    DIV,
    EX2,
    FMA,
    FTZ,
    LG2,
    MAX,
    MIN,
    MUL,
    NAN,
    NEG,
    RCP,
    RELU,
    ROUNDING,
    RSQRT,
    SAT,
    SET,
    SETP,
    SIN,
    SQRT,
    SUB,
    TANH,
    TESTP,
    XORSIGN,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.opcodes import (
    BF16,
    BF16X2,
    D0,
    D1,
    F16,
    F16X2,
    F32,
    F64,
    MODE,
    MODE2,
    NEXT,
    OP,
    TYPE,
    TYPE2,
    X0,
    X1,
    A,
    B,
    C,
)  # fmt: skip

SIGN64, INFINITY64, QUIET64 = np.uint64(1 << 63), np.uint64(0x7FF << 52), np.uint64(0xFFF << 51)
HIGH, NAN_HIGH = np.uint64(0xFFFFFFFF00000000), np.uint64(0x7FFFFFFF00000000)
TURN = 0.15915493667125702  # 1 / 2 pi, in float32
NEGLIGIBLE = 2.0**126  # div.approx by more gives zero


@compiled(u64, f64, f64, i64, i64, state=False)
def finish(x: float, rest: float, kind: int, mode: int) -> int:
    """Round an exact result x + rest, then flush, saturate, clamp, as the modifiers say.

    A float64 is already rounded.
    """
    rounding = mode & ROUNDING
    if kind != F64:
        if mode & FTZ:
            x = rounded_or_zero(x, rest, kind, rounding)
        else:
            x = rounded(x, rest, kind, rounding)
    if mode & SAT:
        x = 0.0 if not x > 0.0 else 1.0 if x > 1.0 else x
    if mode & RELU and x <= 0.0:
        x = 0.0
    return pack(x, kind)


@compiled(f64, u64, i64, i64, state=False)
def operand(code: int, kind: int, mode: int) -> float:
    """An operand as a number; ``.ftz`` flushes subnormal ones."""
    x = unpack(code, kind)
    if mode & FTZ and is_subnormal(x, kind):
        return zeroed(x)
    return x


@compiled(u64, i64, u64, u64, u64, i64, i64, state=False)
def least(kind: int, a: int, b: int, c: int, op: int, mode: int) -> int:
    """``min`` and ``max``: -0 is less than +0; a NaN counts only with ``.NaN``, or if both are."""
    x, y = operand(a, kind, mode), operand(b, kind, mode)
    sign = (a ^ b) >> np.uint64(width(kind) - 1) & ONE != ZERO  # also that of a NaN
    if mode & XORSIGN:
        x, y = np.abs(x), np.abs(y)
    if x != x or y != y:
        if mode & NAN or (x != x and y != y):
            result = np.nan
        else:
            result = y if x != x else x
    elif x == y:
        first = np.signbit(x) == (op == MIN)
        result = x if first else y
    else:
        result = x if (x < y) == (op == MIN) else y
    if mode & XORSIGN and result == result:
        result = -result if sign else result
    return finish(result, 0.0, kind, mode)


@compiled(f64, i64, f64, state=False)
def function(op: int, x: float) -> float:
    """Functions of one number."""
    if op == SQRT:
        return np.sqrt(x) if x >= 0.0 else (x if x == 0.0 else np.nan)
    if op == RCP:
        return np.copysign(np.inf, x) if x == 0.0 else 1.0 / x
    if op == RSQRT:
        if x == 0.0:
            return np.copysign(np.inf, x)
        if x > 0.0:
            return 1.0 / np.sqrt(x)
        return np.nan
    if op == EX2:
        return np.exp2(x)
    if op == LG2:
        if x == 0.0:
            return -np.inf
        return np.log2(x) if x > 0.0 else np.nan
    if op == TANH:
        return np.tanh(x)
    if x - x != 0.0:
        return np.nan
    # As the hardware does: first turns, in float32, of which the whole ones are dropped.
    turns = rounded(x * TURN, 0.0, F32, RZ)
    angle = (turns - np.floor(turns)) * 6.283185307179586
    return np.sin(angle) if op == SIN else np.cos(angle)


@compiled(u64, i64, u64, i64, state=False)
def coarse(op: int, a: int, mode: int) -> int:
    """``rcp.approx.ftz.f64``, ``rsqrt.approx.f64``: the upper half of the result counts."""
    x = f64_of(a & HIGH) if mode & FTZ else f64_of(a)
    if x != x:
        return NAN_HIGH if mode & FTZ else a | QUIET64
    if mode & FTZ and is_subnormal(x, F64):
        x = zeroed(x)
    result = function(op, x)
    if result != result:
        return NAN_HIGH if mode & FTZ else QUIET64 | SIGN64
    if is_subnormal(result, F64):
        result = zeroed(result)
    code = f64_bits(result)
    return code & HIGH if result - result != 0.0 else (code + np.uint64(1 << 31)) & HIGH


@compiled(f64, i64, f64, f64, state=False)
def function_rest(op: int, x: float, result: float) -> float:
    """The sign of what the exact result has beyond the float64: where it must be rounded right."""
    if result - result != 0.0 or result == 0.0:
        return 0.0
    if op == SQRT:
        return fma64(-result, result, x)
    if op == RCP:
        rest = fma64(-result, x, 1.0)
        return rest if x > 0.0 else -rest
    return 0.0


@compiled(b1, u64, state=False)
def is_nan64(code: int) -> bool:
    """Whether the bits of a float64 are a NaN."""
    return code & ~SIGN64 > INFINITY64


@compiled(u64, i64, u64, u64, u64, state=False)
def nan64(op: int, a: int, b: int, c: int) -> int:
    """The NaN among operands in float64 that the hardware hands on, quiet; zero: there is none.

    Of several that of b, then c, then a; a division prefers a. Where there is no b, it is a.
    """
    if op == DIV and is_nan64(a):
        return a | QUIET64
    if (op == MIN or op == MAX) and not (is_nan64(a) and is_nan64(b)):
        return ZERO
    if is_nan64(b):
        return b | QUIET64
    if op == FMA and is_nan64(c):
        return c | QUIET64
    return a | QUIET64 if is_nan64(a) else ZERO


@compiled(u64, i64, i64, u64, u64, u64, i64, state=False)
def arithmetic(op: int, kind: int, a: int, b: int, c: int, mode: int) -> int:
    """The same, but for NaNs in float64."""
    if op == NEG or op == ABS:
        bits = width(kind)
        sign = ONE << np.uint64(bits - 1)
        x = unpack(a, kind)
        if x != x:
            return pack(x, kind)
        result = a ^ sign if op == NEG else a & ~sign
        if mode & FTZ and is_subnormal(unpack(result, kind), kind):
            result &= sign
        return result
    if kind == F32 and mode == 0:
        # The common case, by the CPU's own arithmetic.
        x, y = f32_of(np.uint32(a)), f32_of(np.uint32(b))
        z = x + y
        if op == SUB:
            z = x - y
        elif op == MUL:
            z = x * y
        elif op == FMA:
            z = fma32(x, y, f32_of(np.uint32(c)))
        if op <= FMA:
            return np.uint64(0x7FFFFFFF) if z != z else np.uint64(f32_bits(z))
    if op == MIN or op == MAX:
        return least(kind, a, b, c, op, mode)
    if op == COPYSIGN:  # the sign of a, the rest of b
        sign = ONE << np.uint64(width(kind) - 1)
        return (a & sign) | (b & ~sign)
    x = operand(a, kind, mode)
    rounding = mode & ROUNDING
    exact = kind == F64 and rounding != RN and x - x == 0.0  # by directed(): needs finite numbers
    if op > DIV:
        if exact and x != 0.0 and (op == RCP or (op == SQRT and x > 0.0)):
            return pack(directed(op, x, x, x, rounding), kind)
        result = function(op, x)
        return finish(result, function_rest(op, x, result), kind, mode)
    y = operand(b, kind, mode)
    exact = exact and x != 0.0 and y - y == 0.0 and y != 0.0
    if op == ADD or op == SUB:
        y = -y if op == SUB else y
        total = x + y
        if kind == F64 and rounding != RN:
            return pack(directed_sum(x, y, total, rounding), kind)
        if total == 0.0 and rounding == RM and (x != 0.0 or np.signbit(x) != np.signbit(y)):
            total = -0.0  # x + -x, rounded down
        return finish(total, sum_rest(x, y, total), kind, mode)
    if exact and (op == MUL or op == DIV):
        return pack(directed(op, x, y, x, rounding), kind)
    if op == MUL:
        total = x * y
        rest = fma64(x, y, -total) if total - total == 0.0 else 0.0
        return finish(total, rest, kind, mode)
    if op == DIV:
        if mode & APPROX and np.abs(y) > NEGLIGIBLE and y - y == 0.0:
            # The reciprocal is subnormal, and flushed.
            total = x * np.copysign(0.0, y)
            return finish(total, 0.0, kind, mode)
        if y == 0.0:
            total = np.nan if x == 0.0 or x != x else np.copysign(np.inf, x) * np.copysign(1.0, y)
            return finish(total, 0.0, kind, mode)
        total = x / y
        rest = 0.0
        if total - total == 0.0 and y - y == 0.0:
            rest = fma64(-total, y, x)
            rest = rest if y > 0.0 else -rest
        return finish(total, rest, kind, mode)
    z = operand(c, kind, mode)
    if exact and z - z == 0.0:
        return pack(directed(op, x, y, z, rounding), kind)
    total = fma64(x, y, z)
    if total == 0.0 and rounding == RM and np.signbit(x * y) != np.signbit(z):
        total = -0.0
    return finish(total, product_rest(x, y, z, total), kind, mode)


@compiled(u64, i64, i64, u64, u64, u64, i64, state=False)
def floating(op: int, kind: int, a: int, b: int, c: int, mode: int) -> int:
    """One operation on the bits of its operands."""
    if kind != F64:
        return arithmetic(op, kind, a, b, c, mode)
    if mode & APPROX:
        return coarse(op, a, mode)
    if op == COPYSIGN:
        return (a & SIGN64) | (b & ~SIGN64)
    given = nan64(op, a, b, c)
    if given != ZERO:
        return given
    result = arithmetic(op, kind, a, b, c, mode)
    return QUIET64 | SIGN64 if is_nan64(result) else result


@compiled(b1, f64, f64, i64, state=False)
def holds(x: float, y: float, comparison: int) -> bool:
    """A comparison as in COMPARISONS; those with u hold for NaN, too."""
    nan = x != x or y != y
    if comparison >= 12:
        return nan == (comparison == 13)
    kind = comparison % 6
    if nan:
        return comparison >= 6
    if kind == 0:
        return x == y
    if kind == 1:
        return x != y
    if kind == 2:
        return x < y
    if kind == 3:
        return x <= y
    return x > y if kind == 4 else x >= y


@compiled(b1, f64, i64, i64, state=False)
def tested(x: float, kind: int, test: int) -> bool:
    """``testp``, in the order of TESTS."""
    finite = x - x == 0.0
    if test == 0:
        return finite
    if test == 1:
        return x == x and not finite
    if test == 2:
        return x == x
    if test == 3:
        return x != x
    small = is_subnormal(x, kind)
    return small if test == 5 else finite and not small  # zeros are normal


@compiled(i64, i64, i64, i64)
def _step_predicate(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """SETP, SET and TESTP. X0, X1: the predicate that is combined, and whether it is negated."""
    columns = i64p(row)
    kind, op, mode = columns[TYPE], columns[OP], columns[MODE]
    packed = kind in (F16X2, BF16X2)
    half = F16 if kind == F16X2 else BF16
    comparison, how = columns[MODE2] & 31, columns[MODE2] >> 5
    a = lanes(M, W, warp, columns[A])
    b = lanes(M, W, warp, columns[B] if columns[B] >= 0 else columns[A])
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        other = np.int64(0)
        if how:
            other = (np.int64(lanes(M, W, warp, columns[X0])[lane]) & 1) ^ columns[X1]
        value = ZERO
        for part in range(2 if packed else 1):
            shift = np.uint64(16 * part)
            of = half if packed else kind
            x, y = operand(a[lane] >> shift & ones(width(of)), of, mode), 0.0
            if op != TESTP:
                y = operand(b[lane] >> shift & ones(width(of)), of, mode)
            truth = tested(x, of, comparison) if op == TESTP else holds(x, y, comparison)
            result = combine(1 if truth else 0, other, how)
            if op == SET:
                true = ones(32)
                if columns[TYPE2] == F32:
                    true = np.uint64(0x3F800000)
                elif columns[TYPE2] == F16X2 or columns[TYPE2] == F16:
                    true = np.uint64(0x3C00)
                elif columns[TYPE2] == BF16X2 or columns[TYPE2] == BF16:
                    true = np.uint64(0x3F80)
                elif packed or width(columns[TYPE2]) == 16:
                    true = np.uint64(0xFFFF)
                value |= true << shift if result else ZERO
            elif part == 0 and columns[D0] >= 0:
                lanes(M, W, warp, columns[D0])[lane] = np.uint64(result)
                if not packed and columns[D1] >= 0:
                    negated = combine(0 if truth else 1, other, how)
                    lanes(M, W, warp, columns[D1])[lane] = np.uint64(negated)
            elif part == 1 and columns[D1] >= 0:
                lanes(M, W, warp, columns[D1])[lane] = np.uint64(result)
        if op == SET:
            lanes(M, W, warp, columns[D0])[lane] = value
    return NEXT


@compiled(i64, i64, i64, i64, link=opcodes.FLOATING)
def step_floating(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Run a row of the floating family."""
    columns = i64p(row)
    op, kind, mode = columns[OP], columns[TYPE], columns[MODE]
    if op == SETP or op == SET or op == TESTP:
        return _step_predicate(M, W, warp, row, mask)
    a = lanes(M, W, warp, columns[A])
    b = lanes(M, W, warp, columns[B] if columns[B] >= 0 else columns[A])
    c = lanes(M, W, warp, columns[C] if columns[C] >= 0 else columns[A])
    result = lanes(M, W, warp, columns[D0])
    if kind in (F16X2, BF16X2):
        half, low, up = F16 if kind == F16X2 else BF16, np.uint64(0xFFFF), np.uint64(16)
        for lane in range(32):
            if (mask >> lane) & 1:
                x, y, z = a[lane], b[lane], c[lane]
                first = floating(op, half, x & low, y & low, z & low, mode)
                second = floating(op, half, x >> up & low, y >> up & low, z >> up & low, mode)
                result[lane] = first | second << up
        return NEXT
    for lane in range(32):
        if (mask >> lane) & 1:
            result[lane] = floating(op, kind, a[lane], b[lane], c[lane], mode)
    return NEXT
