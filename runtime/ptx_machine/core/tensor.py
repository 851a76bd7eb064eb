"""The tensor family: dispatch."""

from __future__ import annotations

from typing import Any

from tiledsl.runtime.ptx_machine import opcodes
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64
from tiledsl.runtime.ptx_machine.core.matrix import step_matrix
from tiledsl.runtime.ptx_machine.core.mma import step_mma
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.core.wgmma import step_wgmma, step_wgmma_sync
from tiledsl.runtime.ptx_machine.isa.tensor_ops import MMA, WG_WAIT, WGMMA
from tiledsl.runtime.ptx_machine.opcodes import (
    OP,
)  # fmt: skip


@compiled(i64, i64, i64, i64, link=opcodes.TENSOR)
def step_tensor(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Run a row of the tensor family."""
    op = i64p(row)[OP]
    if op == WGMMA:
        return step_wgmma(M, W, warp, row, mask)
    if op <= WG_WAIT:
        return step_wgmma_sync(M, W, warp, row, mask)
    if op == MMA:
        return step_mma(M, W, warp, row, mask)
    return step_matrix(M, W, warp, row, mask)
