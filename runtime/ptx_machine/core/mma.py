"""mma.sync: the warp's own matrix product, m16n8 of several depths, and m8n8k4 in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.core.bits import ones, signed, width
from tiledsl.runtime.ptx_machine.core.common import fault, lanes, row_of
from tiledsl.runtime.ptx_machine.core.floats import RN, pack, rounded, unpack
from tiledsl.runtime.ptx_machine.core.jit import compiled, f64, i64, none, u64
from tiledsl.runtime.ptx_machine.core.raw import f64p, i64p
from tiledsl.runtime.ptx_machine.isa.tensor_ops import SATURATE
from tiledsl.runtime.ptx_machine.opcodes import (
    F16,
    F64,
    F_DIVERGED,
    FAULTED,
    MODE,
    NEXT,
    NVEC,
    S8,
    S32,
    TYPE,
    TYPE2,
    U8,
    VEC2,
    X0,
    X1,
    X2,
)  # fmt: skip


@compiled(f64, u64, i64, state=False)
def element(code: int, kind: int) -> float:
    """An operand element as a number; integers, too."""
    if kind == U8:
        return np.float64(np.int64(code & ones(8)))
    if kind == S8:
        return np.float64(signed(code, 8))
    return unpack(code, kind)


@compiled(i64, i64, i64, i64, i64, state=False)
def place_in_a(register: int, lane: int, part: int, per: int) -> int:
    """Row * 64 + k of part ``part`` of a register of A, with ``per`` elements in a register."""
    row = (lane >> 2) + 8 * (register & 1)
    return row * 64 + 4 * per * (register >> 1) + per * (lane & 3) + part


@compiled(none, i64, i64, i64, i64, i64, i64, i64)
def _gather(
    M: Any, W: Any, warp: int, place: int, kind: int, rows: int, depth: int, step: int, target: int
) -> None:
    """An operand as float64 [rows][depth], of the registers listed at ``place``.

    B is held as A's registers of its upper rows are, if those of the lower rows are left out: so
    ``step`` is 1 for A and 2 for B.
    """
    out = f64p(target)
    bits = width(kind)
    per = 32 // bits if bits < 32 else 1
    for r in range(rows * depth // (32 * per)):
        values = lanes(M, W, warp, i64p(M.vectors)[place + r])
        for lane in range(32):
            for part in range(per):
                code = values[lane] >> np.uint64(bits * part) & ones(bits)
                at = place_in_a(step * r, lane, part, per)
                out[(at >> 6) * depth + (at & 63)] = element(code, kind)


@compiled(i64, i64, i64, i64)
def step_mma(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """D = A * B + C; VEC2 lists where the registers of D, A, B, C begin."""
    columns = i64p(row)
    if mask != 0xFFFFFFFF:
        fault(M, W, F_DIVERGED, warp, row_of(M, W, row), -1, mask, 0xFFFFFFFF)
        return FAULTED
    starts, kind, depth = i64p(M.vectors + 8 * columns[VEC2]), columns[X0], columns[X2]
    a, b = f64p(M.mma_buffer), f64p(M.mma_buffer + 8 * 1024)
    sums = f64p(M.mma_buffer + 8 * 2048)
    _gather(M, W, warp, starts[1], columns[TYPE], columns[X1], depth, 1, M.mma_buffer)
    _gather(M, W, warp, starts[2], columns[TYPE2], 8, depth, 2, M.mma_buffer + 8 * 1024)
    for r in range(columns[X1]):
        for n in range(8):
            total = 0.0
            for k in range(depth):
                total += a[r * depth + k] * b[n * depth + k]
            sums[r * 8 + n] = total
    for lane in range(32):
        for i in range(columns[NVEC]):
            halves = 2 if kind == F16 else 1
            value = np.uint64(0)
            old = lanes(M, W, warp, i64p(M.vectors)[starts[3] + i])[lane]
            for part in range(halves):
                index = 2 * i + part if kind == F16 else i
                r = (lane >> 2) + 8 * (index >> 1)
                n = 2 * (lane & 3) + (index & 1)
                total = sums[r * 8 + n]
                if kind == S32:
                    whole = np.int64(total) + signed(old, 32)
                    if columns[MODE] & SATURATE:
                        whole = 0x7FFFFFFF if whole > 0x7FFFFFFF else whole
                        whole = -0x80000000 if whole < -0x80000000 else whole
                    value = np.uint64(whole) & ones(32)
                elif kind == F64:
                    value = pack(total + unpack(old, F64), F64)
                else:
                    shift = np.uint64(16 * part)
                    code = old >> shift & ones(16) if kind == F16 else old
                    result = rounded(total + unpack(code, kind), 0.0, kind, RN)
                    value |= pack(result, kind) << shift
            lanes(M, W, warp, i64p(M.vectors)[starts[0] + i])[lane] = value
    return NEXT
