"""The memory family: loads, stores, atomics, addresses of other spaces."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine import opcodes
from tiledsl.runtime.ptx_machine.core.address import locate, space_of
from tiledsl.runtime.ptx_machine.core.bits import ONE, ZERO, ones, signed, width
from tiledsl.runtime.ptx_machine.core.common import count_lanes, counts_of, lanes, row_of
from tiledsl.runtime.ptx_machine.core.conflicts import count_conflicts
from tiledsl.runtime.ptx_machine.core.floats import add_floats, add_in_global, end_float
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64, none, u64
from tiledsl.runtime.ptx_machine.core.order import ATOMIC, READ, WRITE
from tiledsl.runtime.ptx_machine.core.raw import i64p, u8p, u16p, u32p, u64p
from tiledsl.runtime.ptx_machine.isa.memory_ops import (
    A_ADD,
    A_AND,
    A_CAS,
    A_DEC,
    A_EXCH,
    A_INC,
    A_MIN,
    A_OR,
    A_XOR,
    ATOM,
    ATOM_WIDE,
    CVTA,
    CVTA_TO,
    LD,
    MAPA,
    OWN_BLOCK,
    POLICY,
    PREFETCH,
    RANK_OF,
    ST,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.opcodes import (
    BF16,
    BF16X2,
    D0,
    F16,
    F16X2,
    F32,
    F64,
    FAULTED,
    GENERIC,
    GLOBAL,
    IMM,
    LOCAL,
    LOCAL_WINDOW,
    MODE,
    MODE2,
    NEXT,
    NVEC,
    OFFSET_MASK,
    OP,
    PARAM,
    PARAM_WINDOW,
    RANK_SHIFT,
    S8,
    S64,
    SHARED,
    SHARED_WINDOW,
    SPACE,
    TYPE,
    TYPE2,
    VEC,
    WINDOW_MASK,
    A,
    B,
    C,
)  # fmt: skip


@compiled(u64, i64, i64, state=False)
def read_bytes(place: int, nbytes: int) -> int:
    """1, 2, 4 or 8 bytes at a host address."""
    if nbytes == 4:
        return np.uint64(u32p(place)[0])
    if nbytes == 8:
        return u64p(place)[0]
    if nbytes == 2:
        return np.uint64(u16p(place)[0])
    return np.uint64(u8p(place)[0])


@compiled(none, i64, i64, u64, state=False)
def write_bytes(place: int, nbytes: int, value: int) -> None:
    """Store 1, 2, 4 or 8 bytes at a host address."""
    if nbytes == 4:
        u32p(place)[0] = np.uint32(value)
    elif nbytes == 8:
        u64p(place)[0] = value
    elif nbytes == 2:
        u16p(place)[0] = np.uint16(value)
    else:
        u8p(place)[0] = np.uint8(value)


@compiled(i64, i64, i64, i64)
def _step_access(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """LD and ST, also of vectors: VEC lists the registers."""
    columns = i64p(row)
    number, space, count = row_of(M, W, row), columns[SPACE], columns[NVEC]
    nbytes = width(columns[TYPE]) >> 3
    base = lanes(M, W, warp, columns[A])
    is_signed, kept = S8 <= columns[TYPE] <= S64, ones(width(columns[TYPE2]))
    kind, counts = READ if columns[OP] == LD else WRITE, counts_of(M, W, number)
    M.progress += 1 if kind == WRITE else 0
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        address = np.int64(base[lane]) + columns[IMM]
        place = locate(M, W, warp, number, lane, address, nbytes * count, space, kind)
        if place == 0:
            return FAULTED
        if space == GENERIC:
            counts[space_of(address)] += nbytes * count
        for k in range(count):
            register = i64p(M.vectors)[columns[VEC] + k]
            if register < 0:
                continue
            value = lanes(M, W, warp, register)
            if kind == WRITE:
                write_bytes(place + k * nbytes, nbytes, value[lane])
            else:
                found = read_bytes(place + k * nbytes, nbytes)
                if is_signed:
                    found = np.uint64(signed(found, 8 * nbytes)) & kept
                value[lane] = found
    if space != GENERIC:
        counts[space] += nbytes * count * count_lanes(mask)
    if M.profiling:
        count_conflicts(M, W, warp, row, mask, nbytes * count)
    return NEXT


@compiled(u64, i64, i64, u64, u64, u64, state=False)
def modify(how: int, type_code: int, old: int, b: int, c: int) -> int:
    """What an atomic operation leaves where ``old`` was."""
    if how == A_EXCH:
        return b
    if how == A_CAS:
        return c if old == b else old
    if how == A_AND:
        return old & b
    if how == A_OR:
        return old | b
    if how == A_XOR:
        return old ^ b
    if how == A_INC:
        return ZERO if old >= b else old + ONE
    if how == A_DEC:
        return b if old == ZERO or old > b else old - ONE
    is_float = F16 <= type_code <= F64 or type_code in (F16X2, BF16X2)
    if how == A_ADD:
        return add_floats(type_code, old, b) if is_float else old + b
    if type_code in (F16X2, BF16X2):
        half, low, high = F16 if type_code == F16X2 else BF16, ones(16), np.uint64(16)
        upper = end_float(half, old >> high, b >> high, 1 if how == A_MIN else 0)
        return upper << high | end_float(half, old & low, b & low, 1 if how == A_MIN else 0)
    if is_float:
        return end_float(type_code, old, b, 1 if how == A_MIN else 0)
    if S8 <= type_code <= S64:
        less = signed(old, width(type_code)) < signed(b, width(type_code))
    else:
        less = old < b
    return old if less == (how == A_MIN) else b


@compiled(i64, i64, i64, i64)
def _step_atom(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """ATOM: also ``red``, whose D0 is -1. B and C are its operands."""
    columns = i64p(row)
    number, nbytes = row_of(M, W, row), width(columns[TYPE]) >> 3
    base, b = lanes(M, W, warp, columns[A]), lanes(M, W, warp, columns[B])
    c = lanes(M, W, warp, columns[C] if columns[C] >= 0 else columns[B])
    kept, counts = ones(8 * nbytes), counts_of(M, W, number)
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        address = np.int64(base[lane]) + columns[IMM]
        place = locate(M, W, warp, number, lane, address, nbytes, columns[SPACE], ATOMIC)
        if place == 0:
            return FAULTED
        old, space = read_bytes(place, nbytes), columns[SPACE]
        counts[space_of(address) if space == GENERIC else space] += nbytes
        if columns[MODE2] == A_ADD and (columns[TYPE] == F32 or columns[TYPE] == F64):
            if space == GLOBAL or (space == GENERIC and space_of(address) == GLOBAL):
                new = add_in_global(columns[TYPE], old, b[lane])
                write_bytes(place, nbytes, new)
                M.progress += 1
                if columns[D0] >= 0:
                    lanes(M, W, warp, columns[D0])[lane] = old
                continue
        # The operand first: the result's register may be the operand's, too.
        new = modify(columns[MODE2], columns[TYPE], old, b[lane] & kept, c[lane] & kept)
        write_bytes(place, nbytes, new)
        M.progress += 1 if new & kept != old else 0
        if columns[D0] >= 0:
            lanes(M, W, warp, columns[D0])[lane] = old
    return NEXT


@compiled(i64, i64, i64, i64)
def _step_atom_wide(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """ATOM_WIDE: exchange, or compare and swap, of 16 bytes."""
    columns = i64p(row)
    number, registers = row_of(M, W, row), i64p(M.vectors + 8 * columns[VEC])
    base, swaps = lanes(M, W, warp, columns[A]), columns[MODE2] == A_CAS
    counts = counts_of(M, W, number)
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        address = np.int64(base[lane]) + columns[IMM]
        place = locate(M, W, warp, number, lane, address, 16, columns[SPACE], ATOMIC)
        if place == 0:
            return FAULTED
        space = columns[SPACE]
        counts[space_of(address) if space == GENERIC else space] += 16
        M.progress += 1
        low, high = u64p(place)[0], u64p(place)[1]
        first, second = lanes(M, W, warp, registers[2]), lanes(M, W, warp, registers[3])
        same = low == first[lane] and high == second[lane]
        if swaps:
            first, second = lanes(M, W, warp, registers[4]), lanes(M, W, warp, registers[5])
        if same or not swaps:
            new_low, new_high = first[lane], second[lane]
            u64p(place)[0] = new_low
            u64p(place)[1] = new_high
        if registers[0] >= 0:
            lanes(M, W, warp, registers[0])[lane] = low
            lanes(M, W, warp, registers[1])[lane] = high
    return NEXT


@compiled(i64, i64, i64, state=False)
def _window(space: int, address: int) -> int:
    """A generic address from one of a space."""
    if space == SHARED:
        return SHARED_WINDOW | address & 0xFFFFFFFF
    if space == LOCAL:
        return LOCAL_WINDOW | address
    if space == PARAM:
        return PARAM_WINDOW | address
    return address


@compiled(i64, i64, i64, i64)
def _step_address(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """CVTA, CVTA_TO, MAPA, RANK_OF, IS_SPACE."""
    columns = i64p(row)
    op, space = columns[OP], columns[SPACE]
    a = lanes(M, W, warp, columns[A])
    b = lanes(M, W, warp, columns[B] if columns[B] >= 0 else columns[A])
    result, kept = lanes(M, W, warp, columns[D0]), ones(width(columns[TYPE2]))
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        address = np.int64(a[lane]) + columns[IMM]
        value = address
        if op == CVTA:
            value = _window(space, address)
        elif op == CVTA_TO:
            if space not in (GENERIC, GLOBAL):
                value = address & WINDOW_MASK
        elif op == MAPA:
            inside = address & OFFSET_MASK
            value = inside | np.int64(b[lane]) << RANK_SHIFT
            if space == GENERIC:
                value |= SHARED_WINDOW
        elif op == RANK_OF:
            value = (address & WINDOW_MASK) >> RANK_SHIFT
        else:
            value = 1 if space_of(address) == space else 0
            rank = (address & WINDOW_MASK) >> RANK_SHIFT
            if columns[MODE] == OWN_BLOCK and rank != warp // M.nwarps % M.cluster_size:
                value = 0
        result[lane] = np.uint64(value) & kept
    return NEXT


@compiled(i64, i64, i64, i64, link=opcodes.MEMORY)
def step_memory(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Run a row of the memory family."""
    op = i64p(row)[OP]
    if op in (LD, ST):
        return _step_access(M, W, warp, row, mask)
    if op == ATOM:
        return _step_atom(M, W, warp, row, mask)
    if op == ATOM_WIDE:
        return _step_atom_wide(M, W, warp, row, mask)
    if op == PREFETCH:
        return NEXT
    if op == POLICY:
        # An opaque value that only says where data stays in a cache.
        result = lanes(M, W, warp, i64p(row)[D0])
        for lane in range(32):
            if (mask >> lane) & 1:
                result[lane] = np.uint64(0x14F0000000000000)
        return NEXT
    return _step_address(M, W, warp, row, mask)
