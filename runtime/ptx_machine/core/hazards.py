"""What registers of a wgmma in flight forbid to the rows behind it."""

from __future__ import annotations

from typing import Any

from tiledsl.runtime.ptx_machine.core.common import fault, row_of
from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, i64, none
from tiledsl.runtime.ptx_machine.core.raw import i32p, i64p
from tiledsl.runtime.ptx_machine.isa.memory_ops import ST
from tiledsl.runtime.ptx_machine.isa.tensor_ops import WGMMA
from tiledsl.runtime.ptx_machine.opcodes import (
    D0,
    D1,
    F_REGISTER,
    FAMILY,
    MEMORY,
    NUSED,
    NVEC,
    OP,
    TENSOR,
    USED,
    VEC,
)  # fmt: skip


@compiled(b1, i64, i64)
def register_hazard(M: Any, W: Any, warp: int, row: int) -> bool:
    """May a row run while the warp has products in flight? A fault, and False, if it may not.

    Nobody may touch their accumulators, but for another wgmma, nor change A's registers.
    """
    columns = i64p(row)
    if columns[FAMILY] == TENSOR and columns[OP] == WGMMA:
        return True
    here = warp * M.nregs
    for k in range(columns[NUSED]):
        register = i64p(M.vectors)[columns[USED] + k]
        if i32p(M.inflight)[here + register]:
            fault(M, W, F_REGISTER, warp, row_of(M, W, row), -1, register, 0)
            return False
    written = columns[NVEC] if columns[FAMILY] == MEMORY and columns[OP] != ST else 0
    for k in range(written + 2):
        register = columns[D0] if k == 0 else columns[D1]
        if k >= 2:
            register = i64p(M.vectors)[columns[VEC] + k - 2]
        if register >= 0 and i32p(M.inflight_a)[here + register]:
            fault(M, W, F_REGISTER, warp, row_of(M, W, row), -1, register, 1)
            return False
    return True


@compiled(none, i64, i64)
def note_writes(M: Any, W: Any, warp: int, row: int) -> None:
    """Stamp the registers that a row writes: a wgmma that takes them needs a fence behind."""
    columns = i64p(row)
    if columns[FAMILY] == TENSOR and columns[OP] == WGMMA:
        return
    here, stamp = warp * M.nregs, W[warp].wgmma_fences
    for k in range(columns[NVEC] + 2):
        register = columns[D0] if k == 0 else columns[D1]
        if k >= 2:
            register = i64p(M.vectors)[columns[VEC] + k - 2]
        if register >= 0:
            i64p(M.stamps)[here + register] = stamp
