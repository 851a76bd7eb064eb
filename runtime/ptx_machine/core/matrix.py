"""ldmatrix, stmatrix, movmatrix: 8 x 8 matrices of 16-bit elements between lanes and memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.core.address import locate
from tiledsl.runtime.ptx_machine.core.common import fault, lanes, row_of
from tiledsl.runtime.ptx_machine.core.conflicts import note_access
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64
from tiledsl.runtime.ptx_machine.core.order import READ, WRITE
from tiledsl.runtime.ptx_machine.core.raw import i64p, u16p
from tiledsl.runtime.ptx_machine.isa.tensor_ops import LDMATRIX, MOVMATRIX
from tiledsl.runtime.ptx_machine.opcodes import (
    D0,
    F_DIVERGED,
    FAULTED,
    IMM,
    MODE,
    NEXT,
    NVEC,
    OFFSET_MASK,
    OP,
    SPACE,
    VEC,
    A,
)  # fmt: skip

LOW = np.uint64(0xFFFF)


@compiled(i64, i64, i64, i64)
def step_matrix(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Lane l holds element 2 * (l % 4) and the next of row l // 4; transposed: of column l // 4."""
    columns = i64p(row)
    number, turned = row_of(M, W, row), columns[MODE]
    if mask != 0xFFFFFFFF:
        fault(M, W, F_DIVERGED, warp, number, -1, mask, 0xFFFFFFFF)
        return FAULTED
    if columns[OP] == MOVMATRIX:
        a, result = lanes(M, W, warp, columns[A]), lanes(M, W, warp, columns[D0])
        scratch = i64p(M.scratch)
        for lane in range(32):
            value = np.uint64(0)
            for half in range(2):
                # Element (row, column) of the result is (column, row) of the operand.
                r, c = lane >> 2, 2 * (lane & 3) + half
                word = a[c * 4 + (r >> 1)]
                value |= (word >> np.uint64(16 * (r & 1)) & LOW) << np.uint64(16 * half)
            scratch[lane] = np.int64(value)
        for lane in range(32):
            result[lane] = np.uint64(scratch[lane])
        return NEXT
    loads = columns[OP] == LDMATRIX
    base = lanes(M, W, warp, columns[A])
    for k in range(columns[NVEC]):
        register = i64p(M.vectors)[columns[VEC] + k]
        if M.profiling:
            for r in range(8):
                address = np.int64(base[8 * k + r]) + columns[IMM]
                i64p(M.scratch)[r] = address & OFFSET_MASK
            note_access(M, W, row, 8, 16)
        for r in range(8):
            address = np.int64(base[8 * k + r]) + columns[IMM]
            place = locate(
                M, W, warp, number, 8 * k + r, address, 16, columns[SPACE], READ if loads else WRITE
            )
            if place == 0:
                return FAULTED
            for c in range(8):
                lane, half = r * 4 + (c >> 1), c & 1
                if turned:
                    lane, half = c * 4 + (r >> 1), r & 1
                if register < 0:
                    continue
                values, shift = lanes(M, W, warp, register), np.uint64(16 * half)
                if loads:
                    kept = values[lane] & ~(LOW << shift) & np.uint64(0xFFFFFFFF)
                    values[lane] = kept | np.uint64(u16p(place)[c]) << shift
                else:
                    u16p(place)[c] = np.uint16(values[lane] >> shift & LOW)
    return NEXT
