"""Scalar building blocks of integer arithmetic: bits in, bits out."""

from __future__ import annotations

import numpy as np

from tiledsl.runtime.ptx_machine.core.jit import compiled, i64, u64
from tiledsl.runtime.ptx_machine.isa.integer_ops import (
    ADD_X2,
    BFIND,
    BMSK,
    BREV,
    CLAMP,
    CLZ,
    CNOT,
    DP2A,
    DP4A,
    FNS,
    MAD24_HI,
    MAD24_LO,
    MAX_X2,
    MIN_X2,
    MUL24_HI,
    MUL24_LO,
    NEG_X2,
    POPC,
    RELU,
    SAD,
    SAT,
    SHF_LEFT,
    SHF_WRAP,
    SHIFT_AMOUNT,
    SLCT,
    SUB_X2,
    SZEXT,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.opcodes import BITS, F32, S8, S16, S64

_BITS = BITS  # a tuple of numbers: Numba makes it a constant table
ONE, ZERO, ALL_ONES = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled(i64, i64, state=False)
def width(type_code: int) -> int:
    """Bits of a type."""
    return _BITS[type_code]


@compiled(u64, i64, state=False)
def ones(bits: int) -> int:
    """A mask of the lowest bits."""
    if bits >= 64:
        return ALL_ONES
    return (ONE << np.uint64(bits)) - ONE


@compiled(i64, u64, i64, state=False)
def signed(x: int, bits: int) -> int:
    """The lowest bits as a two's complement number."""
    return np.int64(x << np.uint64(64 - bits)) >> (64 - bits)


@compiled(u64, u64, u64, state=False)
def high_product(a: int, b: int) -> int:
    """The high 64 bits of an unsigned product."""
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> shift, b & low, b >> shift
    middle = a1 * b0 + (a0 * b0 >> shift)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> shift) + (other >> shift)


@compiled(u64, u64, u64, i64, i64, state=False)
def product_high(a: int, b: int, bits: int, is_signed: int) -> int:
    """The upper half of a product of two numbers of so many bits."""
    if bits < 64:
        if is_signed:
            return np.uint64((signed(a, bits) * signed(b, bits)) >> bits)
        return (a * b) >> np.uint64(bits)
    high = high_product(a, b)
    if is_signed:
        if np.int64(a) < 0:
            high -= b
        if np.int64(b) < 0:
            high -= a
    return high


@compiled(i64, u64, state=False)
def count_ones(x: int) -> int:
    """The number of ones."""
    n = np.int64(0)
    while x != ZERO:
        x &= x - ONE
        n += 1
    return n


@compiled(i64, u64, i64, state=False)
def leading_zeros(x: int, bits: int) -> int:
    """Zeros above the highest one."""
    n = np.int64(0)
    for k in range(bits - 1, -1, -1):
        if (x >> np.uint64(k)) & ONE:
            break
        n += 1
    return n


@compiled(u64, u64, u64, i64, i64, state=False)
def divide(a: int, b: int, bits: int, is_signed: int) -> int:
    """The quotient, towards zero; all ones where the divisor is zero, as the H200 does."""
    if b == ZERO:
        return ALL_ONES
    if not is_signed:
        return a // b
    x, y = signed(a, bits), signed(b, bits)
    ax = ZERO - np.uint64(x) if x < 0 else np.uint64(x)
    ay = ZERO - np.uint64(y) if y < 0 else np.uint64(y)
    quotient = ax // ay
    return ZERO - quotient if (x < 0) != (y < 0) else quotient


@compiled(u64, u64, u64, u64, i64, state=False)
def permute(a: int, b: int, selector: int, mode: int) -> int:
    """``prmt``: bytes of {b, a} chosen by the selector."""
    pool = a | b << np.uint64(32)
    result = ZERO
    first = np.int64(selector & np.uint64(3))
    for k in range(4):
        s = np.int64(selector >> np.uint64(4 * k)) & 15
        sign = False
        if mode == 0:
            sign = s & 8 != 0
            s &= 7
        elif mode == 1:  # f4e: forwards
            s = first + k
        elif mode == 2:  # b4e: backwards
            s = (first - k) & 7
        elif mode == 3:  # rc8: one byte everywhere
            s = first
        elif mode == 4:  # ecl: clamped from below
            s = k if k > first else first
        elif mode == 5:  # ecr: clamped from above
            s = k if k < first else first
        else:  # rc16: one half everywhere
            s = 2 * (first & 1) + (k & 1)
        byte = (pool >> np.uint64(8 * s)) & np.uint64(0xFF)
        if sign:
            byte = np.uint64(0xFF) if byte & np.uint64(0x80) else ZERO
        result |= byte << np.uint64(8 * k)
    return result


@compiled(i64, u64, i64, state=False)
def field_place(x: int, bits: int) -> int:
    """The start or length of a bit field: eight bits of it count, but of 64-bit fields all."""
    x &= np.uint64(0xFFFFFFFF)
    if bits < 64:
        return np.int64(x & np.uint64(0xFF))
    return np.int64(x) if x < np.uint64(255) else 255


@compiled(u64, i64, u64, u64, u64, i64, i64, state=False)
def bit_field(op: int, a: int, b: int, c: int, bits: int, is_signed: int) -> int:
    """``bfe``: c bits of a from place b on, sign-extended for signed types."""
    start, length = field_place(b, bits), field_place(c, bits)
    if length == 0:
        return ZERO
    top = start + length - 1
    if top > bits - 1:
        top = bits - 1
    sign = is_signed and (a >> np.uint64(top)) & ONE != ZERO
    field = ZERO
    if start < bits:
        field = (a >> np.uint64(start)) & ones(length)
    kept = bits - start if start + length > bits else length
    if kept < 0:
        kept = 0
    if sign:
        field |= ALL_ONES & ~ones(kept)
    return field


@compiled(u64, u64, u64, u64, u64, i64, state=False)
def insert(a: int, b: int, c: int, d: int, bits: int) -> int:
    """``bfi``: b with d bits of a at place c."""
    start, length = field_place(c, bits), field_place(d, bits)
    if start >= bits:
        return b
    mask = (ones(length) << np.uint64(start)) & ones(bits)
    return (b & ~mask) | ((a << np.uint64(start)) & mask)


@compiled(u64, u64, u64, u64, i64, state=False)
def logic3(a: int, b: int, c: int, table: int) -> int:
    """``lop3``: any function of three bits, by its truth table."""
    result = ZERO
    for k in range(8):
        if (table >> k) & 1:
            x = a if k & 4 else ~a
            y = b if k & 2 else ~b
            z = c if k & 1 else ~c
            result |= x & y & z
    return result


@compiled(u64, u64, u64, u64, i64, state=False)
def funnel(a: int, b: int, c: int, mode: int) -> int:
    """``shf``: the 64 bits {b, a} shifted, of which 32 are left."""
    amount = np.int64(c & np.uint64(0xFFFFFFFF))
    amount = amount & 31 if mode & SHF_WRAP else (32 if amount > 32 else amount)
    both = a | b << np.uint64(32)
    if mode & SHF_LEFT:
        if amount == 0:
            return b
        return both >> np.uint64(32 - amount)
    if amount == 32:
        return b
    return both >> np.uint64(amount)


@compiled(u64, i64, u64, u64, u64, i64, i64, state=False)
def dot_bytes(op: int, a: int, b: int, c: int, types: int, high: int) -> int:
    """``dp4a``, ``dp2a``: sums of products of bytes (or halves); ``types``: 1 a, 2 b is signed."""
    total = np.int64(c)
    for k in range(4 if op == DP4A else 2):
        if op == DP4A:
            x, bits, place = a >> np.uint64(8 * k), 8, k
        else:
            x, bits, place = a >> np.uint64(16 * k), 16, k + 2 * high
        y = b >> np.uint64(8 * place)
        xs = signed(x, bits) if types & 1 else np.int64(x & ones(bits))
        ys = signed(y, 8) if types & 2 else np.int64(y & ones(8))
        total += xs * ys
    return np.uint64(total)


@compiled(u64, u64, u64, i64, state=False)
def nth_set(a: int, base: int, offset: int) -> int:
    """``fns``: the place of the offset-th one of a, counted from place ``base``."""
    place = np.int64(base & np.uint64(31))
    if offset == 0:
        return np.uint64(place) if (a >> np.uint64(place)) & ONE else np.uint64(0xFFFFFFFF)
    step = 1 if offset > 0 else -1
    left = offset if offset > 0 else -offset
    while 0 <= place <= 31:
        if (a >> np.uint64(place)) & ONE:
            left -= 1
            if left == 0:
                return np.uint64(place)
        place += step
    return np.uint64(0xFFFFFFFF)


@compiled(u64, i64, u64, u64, i64, i64, i64, state=False)
def halves(op: int, a: int, b: int, is_signed: int, mode: int, unused: int) -> int:
    """``add.u16x2`` and its kind: two 16-bit numbers in one register."""
    result = ZERO
    for k in range(2):
        x, y = (a >> np.uint64(16 * k)) & ones(16), (b >> np.uint64(16 * k)) & ones(16)
        r = x + y
        less = signed(x, 16) < signed(y, 16) if is_signed else x < y
        if op == SUB_X2:
            r = x - y
        elif op == NEG_X2:
            r = ZERO - x
        elif op == MIN_X2:
            r = x if less else y
        elif op == MAX_X2:
            r = y if less else x
        if mode & RELU and signed(r, 16) < 0:
            r = ZERO
        result |= (r & ones(16)) << np.uint64(16 * k)
    return result


@compiled(u64, i64, i64, u64, u64, u64, i64, state=False)
def rare(op: int, type_code: int, a: int, b: int, c: int, mode: int) -> int:
    """Operations that few programs have."""
    bits = width(type_code)
    is_signed = 1 if S8 <= type_code <= S64 else 0
    if op == POPC:
        return np.uint64(count_ones(a))
    if op == CLZ:
        return np.uint64(leading_zeros(a, bits))
    if op == BREV:
        result = ZERO
        for k in range(bits):
            result |= ((a >> np.uint64(k)) & ONE) << np.uint64(bits - 1 - k)
        return result
    if op == BFIND:
        x = a
        if is_signed and signed(a, bits) < 0:
            x = ~a & ones(bits)
        zeros = leading_zeros(x, bits)
        if zeros == bits:
            return ALL_ONES
        return np.uint64(zeros if mode & SHIFT_AMOUNT else bits - 1 - zeros)
    if op == FNS:
        return nth_set(a, b, signed(c, 32))
    if op == CNOT:
        return ONE if a == ZERO else ZERO
    if op == SLCT:
        if type_code == F32:  # the type of c here; -0 counts as not negative, NaN as negative
            if mode and c & np.uint64(0x7F800000) == ZERO:
                return a  # flushed
            negative = np.uint64(c & np.uint64(0x7FFFFFFF)) > np.uint64(0x7F800000)
            return b if negative or (signed(c, 32) < 0 and c != np.uint64(0x80000000)) else a
        return a if signed(c, 32) >= 0 else b
    if op == SAD:
        less = signed(a, bits) < signed(b, bits) if is_signed else a < b
        return c + (b - a if less else a - b)
    if op == MUL24_LO or op == MAD24_LO or op == MUL24_HI or op == MAD24_HI:
        x = np.uint64(signed(a, 24)) if is_signed else a & ones(24)
        y = np.uint64(signed(b, 24)) if is_signed else b & ones(24)
        result = x * y
        if op == MUL24_HI or op == MAD24_HI:
            result = np.uint64(np.int64(result) >> 16)
        if op == MAD24_HI and mode & SAT:
            total = signed(result, 32) + signed(c, 32)
            total = 0x7FFFFFFF if total > 0x7FFFFFFF else total
            return np.uint64(-0x80000000 if total < -0x80000000 else total)
        return result + c if op == MAD24_LO or op == MAD24_HI else result
    if op == BMSK:
        start, length = a & np.uint64(0xFFFFFFFF), b & np.uint64(0xFFFFFFFF)
        if mode & CLAMP:
            if start > np.uint64(31):
                return ZERO
            length = np.uint64(32) if length > np.uint64(32) else length
        else:
            start, length = start & np.uint64(31), length & np.uint64(31)
        return (ones(np.int64(length)) << start) & ones(32)
    if op == SZEXT:
        count = b & np.uint64(0xFFFFFFFF)
        if mode & CLAMP:
            count = np.uint64(32) if count > np.uint64(32) else count
        else:
            count &= np.uint64(31)
        if count == ZERO:
            return ZERO
        if is_signed:
            return np.uint64(signed(a, np.int64(count)))
        return a & ones(np.int64(count))
    if op == DP4A or op == DP2A:
        return dot_bytes(op, a, b, c, mode & 3, mode >> 2)
    if op >= ADD_X2:
        return halves(op, a, b, 1 if type_code == S16 else 0, mode, 0)
    return ZERO


@compiled(i64, i64, i64, i64, state=False)
def combine(holds: int, other: int, how: int) -> int:
    """A comparison's result with another predicate: and, or, xor."""
    if how == 1:
        return holds & other
    if how == 2:
        return holds | other
    if how == 3:
        return holds ^ other
    return holds
