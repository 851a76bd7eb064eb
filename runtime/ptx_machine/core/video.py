"""Video instructions: the bytes or halves of registers, each by itself."""

from __future__ import annotations

import numpy as np

from tiledsl.runtime.ptx_machine.core.bits import ones, signed
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64, u64
from tiledsl.runtime.ptx_machine.isa.integer_ops import (
    V_ADD,
    V_BYTES,
    V_COMPARISON,
    V_SAT,
    V_SIGNED_A,
    V_SIGNED_B,
    V_SIGNED_D,
)  # fmt: skip


@compiled(u64, u64, u64, u64, i64, state=False)
def video(a: int, b: int, c: int, mode: int) -> int:
    """VIDEO: elements of 8 or 16 bits, each by itself; or their sum and c."""
    bits, which, result = 8 if mode & V_BYTES else 16, mode & 7, np.int64(0)
    total, comparison = np.int64(c), (mode >> V_COMPARISON) & 7
    for k in range(32 // bits):
        shift, kept = np.uint64(k * bits), ones(bits)
        x, y = np.int64(a >> shift & kept), np.int64(b >> shift & kept)
        x = signed(np.uint64(x), bits) if mode & V_SIGNED_A else x
        y = signed(np.uint64(y), bits) if mode & V_SIGNED_B else y
        if which == 0:
            value = x + y
        elif which == 1:
            value = x - y
        elif which == 2:
            value = (x + y + (1 if x + y >= 0 else 0)) >> 1
        elif which == 3:
            value = x - y if x > y else y - x
        elif which == 4:
            value = x if x < y else y
        elif which == 5:
            value = x if x > y else y
        else:  # eq ne lt le gt ge
            holds = x == y if comparison < 2 else x < y if comparison in (2, 5) else x > y
            value = 1 if holds != (comparison in (1, 3, 5)) else 0
        if mode & V_SAT:
            low = -(1 << (bits - 1)) if mode & V_SIGNED_D else 0
            high = (1 << (bits - 1)) - 1 if mode & V_SIGNED_D else (1 << bits) - 1
            value = low if value < low else high if value > high else value
        total += value
        result |= (value & np.int64(kept)) << (k * bits)
    return np.uint64(total if mode & V_ADD else result)
