"""The convert family: cvt between all types, and registers packed into and out of wider ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine import opcodes
from tiledsl.runtime.ptx_machine.core.bits import ONE, ZERO, ones, signed, width
from tiledsl.runtime.ptx_machine.core.common import lanes
from tiledsl.runtime.ptx_machine.core.floats import (
    RN,
    RNA,
    RZ,
    greatest,
    is_subnormal,
    pack,
    precision,
    rounded,
    rounded_or_zero,
    unpack,
    zeroed,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, f64, i64, u64
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.isa.convert_ops import (
    CVT,
    CVT_PACK,
    CVT_PAIR,
    FTZ,
    PACK,
    RELU,
    ROUNDING,
    SAT,
    SATFINITE,
    TO_INTEGER,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.opcodes import (
    BF16,
    BF16X2,
    D0,
    E4M3,
    E4M3X2,
    E5M2,
    F16,
    F16X2,
    F32,
    F64,
    MODE,
    NEXT,
    NVEC,
    OP,
    S8,
    S64,
    TF32,
    TYPE,
    TYPE2,
    VEC,
    A,
    B,
    C,
)  # fmt: skip


@compiled(b1, i64, state=False)
def is_float(kind: int) -> bool:
    """A floating-point type of one number."""
    return F16 <= kind <= E5M2


@compiled(f64, f64, i64, state=False)
def to_integer(x: float, mode: int) -> float:
    """The integer that a rounding mode makes of a number."""
    if mode == RZ:
        return np.trunc(x)
    if mode == 2:
        return np.floor(x)
    if mode == 3:
        return np.ceil(x)
    down = np.floor(x)
    part = x - down
    if part > 0.5 or (part == 0.5 and down % 2.0 != 0.0):
        down += 1.0
    return np.copysign(down, x)


@compiled(u64, f64, i64, state=False)
def clamped(x: float, kind: int) -> int:
    """A whole number as bits of an integer type, the nearest one where it does not fit."""
    bits = width(kind)
    if S8 <= kind <= S64:
        if x != x:
            return ZERO if bits < 64 else np.uint64(1 << 63)
        top = 2.0 ** (bits - 1)
        if x >= top:
            return ones(bits - 1)
        if x < -top:
            return ~ones(bits - 1) & ones(bits)
        return np.uint64(np.int64(x)) & ones(bits)
    if x != x:
        return ZERO if bits < 64 else np.uint64(1 << 63)
    if x <= 0.0:
        return ZERO
    if x >= 2.0**bits:
        return ones(bits)
    if x >= 2.0**63:
        return np.uint64(np.int64(x - 2.0**63)) | np.uint64(1 << 63)
    return np.uint64(np.int64(x))


@compiled(f64, u64, i64, i64, state=False)
def _integer_value(a: int, source: int, part: int) -> float:
    """An integer as a float64; part 1: what that one is short of."""
    if S8 <= source <= S64:
        x = signed(a, width(source))
        near = np.float64(x)
        if part == 0:
            return near
        if near == 2.0**63:
            return np.float64(x - (1 << 62) - (1 << 62))
        return np.float64(x - np.int64(near))
    near = np.float64(a)
    if part == 0:
        return near
    if near >= 2.0**64:
        return -np.float64(~a) - 1.0
    below = (
        np.uint64(near)
        if near < 2.0**63
        else np.uint64(np.int64(near - 2.0**63)) + np.uint64(1 << 63)
    )
    return np.float64(np.int64(a - below))


@compiled(u64, f64, f64, i64, i64, i64, state=False)
def packed(x: float, rest: float, kind: int, rounding: int, mode: int) -> int:
    """Round to a floating-point type, with .relu, .sat and .satfinite."""
    if x != x and mode & SAT == 0:
        return pack(x, kind)
    if kind != F64:
        infinite = x == x and x - x != 0.0
        if mode & FTZ and kind == F32:
            x = rounded_or_zero(x, rest, kind, rounding)
        else:
            x = rounded(x, rest, kind, rounding)
        if mode & SATFINITE and x == x and (infinite or x - x != 0.0):
            x = np.copysign(greatest(kind), x)
    if mode & SAT:
        x = 0.0 if not x > 0.0 else 1.0 if x > 1.0 else x
    if mode & RELU and x <= 0.0:
        x = 0.0
    return pack(x, kind)


@compiled(u64, u64, i64, i64, i64, state=False)
def converted_nan(a: int, source: int, target: int, mode: int) -> int:
    """A NaN in another type, as the H200 has it: to and from f64 its highest bits stay."""
    if target == TF32:
        if mode & ROUNDING != RNA:
            return np.uint64(0x7FFFE000)
        cut = a & np.uint64(0xFFFFE000)
        return cut - np.uint64(0x2000) if mode & SATFINITE else cut
    if source == BF16 and target == F32:
        return a << np.uint64(16)
    if (source != F64 and target != F64) or (mode & FTZ and source == F32):
        return np.uint64(0x7FFFFFFFE0000000) if target == F64 else pack(np.nan, target)
    from_bits, to_bits = width(source), width(target)
    fraction, kept = np.uint64(precision(source) - 1), np.uint64(precision(target) - 1)
    sign = (a >> np.uint64(from_bits - 1)) << np.uint64(to_bits - 1)
    payload = a & ((ONE << fraction) - ONE)
    payload = payload << (kept - fraction) if kept > fraction else payload >> (fraction - kept)
    quiet = ones(to_bits - 1) & ~((ONE << (kept - ONE)) - ONE)
    return sign | quiet | payload


@compiled(u64, u64, i64, i64, i64, state=False)
def converted(a: int, source: int, target: int, mode: int) -> int:
    """The bits of one type, of a value of another."""
    rounding = mode & ROUNDING
    if is_float(source):
        x = unpack(a, source)
        if mode & FTZ and source == F32 and target != F16 and is_subnormal(x, source):
            x = zeroed(x)  # .ftz is about f32 alone, and nothing to f16
        if not is_float(target):
            if x != x and source == F64:
                return ONE << np.uint64(width(target) - 1)
            return clamped(to_integer(x, rounding), target)
        if x != x and mode & SAT == 0:
            return converted_nan(a, source, target, mode)
        if mode & TO_INTEGER:
            x = to_integer(x, rounding) if x - x == 0.0 else x
            rounding = RN
        return packed(x, 0.0, target, rounding, mode)
    if is_float(target):
        x, rest = _integer_value(a, source, 0), _integer_value(a, source, 1)
        if target == F64:
            if rounding != RN and rest != 0.0:
                up = rounding == 3 or (rounding == RZ and x < 0.0)
                if up and rest > 0.0:
                    x = np.nextafter(x, np.inf)
                elif not up and rest < 0.0:
                    x = np.nextafter(x, -np.inf)
        return packed(x, rest, target, rounding, mode)
    # Integers: extended or cut off, or the nearest with .sat.
    if mode & SAT:
        from_signed, to_signed = S8 <= source <= S64, S8 <= target <= S64
        bits = width(target)
        if from_signed:
            x = signed(a, width(source))
            if to_signed:
                if bits < 64:
                    most = (np.int64(1) << (bits - 1)) - 1
                    x = most if x > most else -most - 1 if x < -most - 1 else x
                return np.uint64(x) & ones(bits)
            if x < 0:
                return ZERO
            return ones(bits) if np.uint64(x) > ones(bits) else np.uint64(x)
        top = ones(bits - 1) if to_signed else ones(bits)
        return top if a > top else a
    if S8 <= source <= S64:
        return np.uint64(signed(a, width(source))) & ones(width(target))
    return a & ones(width(target))


@compiled(i64, i64, state=False)
def half_of(kind: int) -> int:
    """The type of each half of a packed one."""
    if kind == F16X2:
        return F16
    if kind == BF16X2:
        return BF16
    return E4M3 if kind == E4M3X2 else E5M2


@compiled(i64, i64, i64, i64)
def _step_packing(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """PACK: D0 of the registers in VEC, the first lowest. UNPACK: the other way from A."""
    columns = i64p(row)
    count = columns[NVEC]
    bits = width(columns[TYPE]) // count
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        if columns[OP] == PACK:
            value = ZERO
            for k in range(count):
                part = lanes(M, W, warp, i64p(M.vectors)[columns[VEC] + k])
                value |= (part[lane] & ones(bits)) << np.uint64(bits * k)
            lanes(M, W, warp, columns[D0])[lane] = value
        else:
            value = lanes(M, W, warp, columns[A])[lane]
            for k in range(count):
                register = i64p(M.vectors)[columns[VEC] + k]
                if register >= 0:
                    lanes(M, W, warp, register)[lane] = (value >> np.uint64(bits * k)) & ones(bits)
    return NEXT


@compiled(i64, i64, i64, i64, link=opcodes.CONVERT)
def step_convert(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Run a row of the convert family: TYPE is the result's type, TYPE2 the operand's."""
    columns = i64p(row)
    op, target, source, mode = columns[OP], columns[TYPE], columns[TYPE2], columns[MODE]
    if op >= PACK:
        return _step_packing(M, W, warp, row, mask)
    result = lanes(M, W, warp, columns[D0])
    a = lanes(M, W, warp, columns[A])
    b = lanes(M, W, warp, columns[B] if columns[B] >= 0 else columns[A])
    kept = ones(columns[NVEC])  # bits of the result's register, which may be wider
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        if op == CVT:
            value = converted(a[lane], source, target, mode)
            if S8 <= target <= S64:
                value = np.uint64(signed(value, width(target))) & kept
            result[lane] = value
        elif op == CVT_PAIR:  # a goes to the upper half, b to the lower
            half = half_of(target)
            upper = converted(a[lane], source, half, mode)
            lower = converted(b[lane], source, half, mode)
            result[lane] = upper << np.uint64(width(half)) | lower
        elif op == CVT_PACK:
            bits = np.uint64(width(target))
            value = converted(a[lane], source, target, mode) << bits
            value |= converted(b[lane], source, target, mode)
            if columns[C] >= 0:
                value |= lanes(M, W, warp, columns[C])[lane] << (bits + bits)
            result[lane] = value & ones(32)
        else:  # CVT_UNPAIR: two fp8 numbers to f16x2, or f16x2 to two fp8 numbers
            narrow, wide, value = half_of(source), half_of(target), ZERO
            for k in range(2):
                part = (a[lane] >> np.uint64(k * width(narrow))) & ones(width(narrow))
                value |= converted(part, narrow, wide, mode) << np.uint64(k * width(wide))
            result[lane] = value
    return NEXT
