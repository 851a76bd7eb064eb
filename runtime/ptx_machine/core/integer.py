"""The integer family: arithmetic, logic, shifts, bit fields, comparisons, lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine import opcodes
from tiledsl.runtime.ptx_machine.core.bits import (
    ALL_ONES,
    ONE,
    ZERO,
    bit_field,
    combine,
    divide,
    funnel,
    insert,
    logic3,
    ones,
    permute,
    product_high,
    rare,
    signed,
    width,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.core.common import lanes
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64, u64
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.isa.integer_ops import (
    ABS,
    ADD,
    AND,
    BFE,
    BFI,
    CARRY,
    CARRY_ADD,
    CARRY_MAD_HI,
    CARRY_SUB,
    DIV,
    LOP3,
    MAD_HI,
    MAD_LO,
    MAD_WIDE,
    MAX,
    MIN,
    MOV,
    MUL_HI,
    MUL_LO,
    MUL_WIDE,
    NEG,
    NOT,
    OR,
    PRMT,
    RELU,
    REM,
    SAT,
    SELP,
    SET,
    SETP,
    SHF,
    SHL,
    SHR,
    SUB,
    XOR,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.opcodes import (
    D0,
    D1,
    F16,
    F32,
    MODE,
    MODE2,
    NEXT,
    OP,
    S8,
    S64,
    TYPE,
    TYPE2,
    X0,
    X1,
    A,
    B,
    C,
    D,
)  # fmt: skip


@compiled(u64, i64, i64, u64, u64, u64, u64, i64, state=False)
def integer(op: int, type_code: int, a: int, b: int, c: int, d: int, mode: int) -> int:
    """One operation on the bits of its operands; the caller keeps the result's width."""
    bits = width(type_code)
    is_signed = 1 if S8 <= type_code <= S64 else 0
    if op == MOV:
        return a
    if op == ADD or op == SUB:
        result = a + b if op == ADD else a - b
        if mode & SAT:
            x, y = signed(a, 32), signed(b, 32)
            total = x + y if op == ADD else x - y
            total = 0x7FFFFFFF if total > 0x7FFFFFFF else total
            result = np.uint64(-0x80000000 if total < -0x80000000 else total)
        return result
    if op == MUL_LO:
        return a * b
    if op == MAD_LO:
        return a * b + c
    if op == MUL_WIDE or op == MAD_WIDE:
        result = a * b
        if is_signed:
            result = np.uint64(signed(a, bits) * signed(b, bits))
        return result + c if op == MAD_WIDE else result
    if op == MUL_HI:
        return product_high(a, b, bits, is_signed)
    if op == MAD_HI:
        result = product_high(a, b, bits, is_signed)
        if mode & SAT:
            total = signed(result, 32) + signed(c, 32)
            total = 0x7FFFFFFF if total > 0x7FFFFFFF else total
            return np.uint64(-0x80000000 if total < -0x80000000 else total)
        return result + c
    if op == AND:
        return a & b
    if op == OR:
        return a | b
    if op == XOR:
        return a ^ b
    if op == NOT:
        return ~a
    if op == SHL:
        amount = b & np.uint64(0xFFFFFFFF)
        return a << amount if amount < np.uint64(bits) else ZERO
    if op == SHR:
        amount = b & np.uint64(0xFFFFFFFF)
        if is_signed:
            most = np.int64(amount) if amount < np.uint64(bits) else bits - 1
            return np.uint64(signed(a, bits) >> most)
        return a >> amount if amount < np.uint64(bits) else ZERO
    if op == SELP:
        return a if c & ONE else b
    if op == MIN or op == MAX:
        less = a < b
        if is_signed:
            less = signed(a, bits) < signed(b, bits)
        result = a if less == (op == MIN) else b
        if mode & RELU and signed(result, bits) < 0:
            result = ZERO
        return result
    if op == NEG:
        return ZERO - a
    if op == ABS:
        return ZERO - a if signed(a, bits) < 0 else a
    if op == DIV:
        return divide(a, b, bits, is_signed)
    if op == REM:
        if b == ZERO:
            return ALL_ONES
        return a - divide(a, b, bits, is_signed) * b
    if op == BFE:
        return bit_field(op, a, b, c, bits, is_signed)
    if op == BFI:
        return insert(a, b, c, d, bits)
    if op == PRMT:
        return permute(a, b, c, mode)
    if op == SHF:
        return funnel(a, b, c, mode)
    if op == LOP3:
        return logic3(a, b, c, mode)
    return rare(op, type_code, a, b, c, mode)


@compiled(i64, u64, u64, i64, i64, state=False)
def compare(a: int, b: int, type_code: int, comparison: int) -> int:
    """1 if a comparison of two integers holds; comparisons as in COMPARISONS."""
    bits = width(type_code)
    less, equal = a < b, a == b
    if S8 <= type_code <= S64 and comparison < 6:
        less = signed(a, bits) < signed(b, bits)
    kind = comparison if comparison < 6 else comparison - 4  # lo ls hi hs: lt le gt ge
    if kind == 0:
        holds = equal
    elif kind == 1:
        holds = not equal
    elif kind == 2:
        holds = less
    elif kind == 3:
        holds = less or equal
    elif kind == 4:
        holds = not less and not equal
    else:
        holds = not less
    return 1 if holds else 0


@compiled(u64, i64, u64, u64, u64, u64, i64, i64, state=False)
def with_carry(which: int, a: int, b: int, c: int, carry: int, bits: int, is_signed: int) -> int:
    """The sum of an operation with a carry: 64 bits of it, and the carry out in ``carry_out``."""
    if which == CARRY_ADD:
        return a + b + carry
    if which == CARRY_SUB:
        return a - b - carry
    if which == CARRY_MAD_HI:
        return (product_high(a, b, bits, is_signed) & ones(bits)) + c + carry
    return ((a * b) & ones(bits)) + c + carry


@compiled(u64, i64, u64, u64, u64, u64, i64, i64, state=False)
def carry_out(which: int, a: int, b: int, c: int, carry: int, bits: int, is_signed: int) -> int:
    """The carry (or borrow) that the operation leaves."""
    x, y = a, b
    if which == CARRY_SUB:
        return ONE if a < b or (a == b and carry != ZERO) else ZERO
    if which != CARRY_ADD:
        x, y = (a * b) & ones(bits), c
        if which == CARRY_MAD_HI:
            x = product_high(a, b, bits, is_signed) & ones(bits)
    if bits < 64:
        return ((x + y + carry) >> np.uint64(bits)) & ONE
    total = x + y
    over = total < x or (carry != ZERO and total == ALL_ONES)
    return ONE if over else ZERO


@compiled(i64, i64, i64, i64)
def _step_predicate(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """SETP and SET: compare, and combine with a predicate (X0: the register, X1: negated)."""
    columns = i64p(row)
    a, b = lanes(M, W, warp, columns[A]), lanes(M, W, warp, columns[B])
    how, type_code, comparison = columns[MODE2], columns[TYPE], columns[MODE]
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        holds = compare(a[lane], b[lane], type_code, comparison)
        other = np.int64(0)
        if how:
            other = (np.int64(lanes(M, W, warp, columns[X0])[lane]) & 1) ^ columns[X1]
        result = combine(holds, other, how)
        if columns[OP] == SET:
            value = ZERO
            if result:
                value = ones(32)
                if columns[TYPE2] == F32 or columns[TYPE2] == F16:
                    value = np.uint64(0x3F800000 if columns[TYPE2] == F32 else 0x3C00)
            lanes(M, W, warp, columns[D0])[lane] = value
        else:
            if columns[D0] >= 0:
                lanes(M, W, warp, columns[D0])[lane] = np.uint64(result)
            if columns[D1] >= 0:
                negated = combine(1 - holds, other, how)
                lanes(M, W, warp, columns[D1])[lane] = np.uint64(negated)
    return NEXT


@compiled(i64, i64, i64, i64)
def _step_carry(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """CARRY: X0 is the register that holds the carry of each lane."""
    columns = i64p(row)
    a, b = lanes(M, W, warp, columns[A]), lanes(M, W, warp, columns[B])
    c = lanes(M, W, warp, columns[C] if columns[C] >= 0 else columns[A])
    flag = lanes(M, W, warp, columns[X0])
    bits, is_signed = width(columns[TYPE]), 1 if S8 <= columns[TYPE] <= S64 else 0
    for lane in range(32):
        if (mask >> lane) & 1:
            carry = flag[lane] if columns[MODE2] & 1 else ZERO
            x, y, z, which = a[lane], b[lane], c[lane], columns[MODE]
            result = with_carry(which, x, y, z, carry, bits, is_signed) & ones(bits)
            if columns[MODE2] & 2:
                flag[lane] = carry_out(which, x, y, z, carry, bits, is_signed)
            if columns[D0] >= 0:
                lanes(M, W, warp, columns[D0])[lane] = result
    return NEXT


@compiled(i64, i64, i64, i64)
def _step_logic(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """LOP3 with a predicate: whether the result is not zero, combined with another."""
    columns = i64p(row)
    a, b = lanes(M, W, warp, columns[A]), lanes(M, W, warp, columns[B])
    c, other = lanes(M, W, warp, columns[C]), lanes(M, W, warp, columns[X0])
    for lane in range(32):
        if (mask >> lane) & 1:
            value = logic3(a[lane], b[lane], c[lane], columns[MODE]) & ones(32)
            given = (np.int64(other[lane]) & 1) ^ columns[X1]
            if columns[D0] >= 0:
                lanes(M, W, warp, columns[D0])[lane] = value
            if columns[D1] >= 0:
                holds = combine(1 if value != ZERO else 0, given, columns[MODE2])
                lanes(M, W, warp, columns[D1])[lane] = np.uint64(holds)
    return NEXT


@compiled(i64, i64, i64, i64, link=opcodes.INTEGER)
def step_integer(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Run a row of the integer family."""
    columns = i64p(row)
    op = columns[OP]
    if op == SETP or op == SET:
        return _step_predicate(M, W, warp, row, mask)
    if op == CARRY:
        return _step_carry(M, W, warp, row, mask)
    if op == LOP3 and columns[MODE2]:
        return _step_logic(M, W, warp, row, mask)
    type_code, mode = columns[TYPE], columns[MODE]
    a = lanes(M, W, warp, columns[A])
    b = lanes(M, W, warp, columns[B] if columns[B] >= 0 else columns[A])
    c = lanes(M, W, warp, columns[C] if columns[C] >= 0 else columns[A])
    d = lanes(M, W, warp, columns[D] if columns[D] >= 0 else columns[A])
    kept = ones(width(columns[TYPE2]))
    flip = ONE if op == SELP and columns[X1] else ZERO  # selp with !p
    if columns[D0] < 0:
        return NEXT
    result = lanes(M, W, warp, columns[D0])
    for lane in range(32):
        if (mask >> lane) & 1:
            result[lane] = (
                integer(op, type_code, a[lane], b[lane], c[lane] ^ flip, d[lane], mode) & kept
            )
    return NEXT
