"""Tensor maps that a program changes: tensormap.replace, and their way to global memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.core.address import locate
from tiledsl.runtime.ptx_machine.core.boxes import map_row
from tiledsl.runtime.ptx_machine.core.common import fault, lanes, row_of
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64
from tiledsl.runtime.ptx_machine.core.order import READ, WRITE
from tiledsl.runtime.ptx_machine.core.queue import copy_bytes
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.isa.bulk_ops import (
    MAGIC,
    MAP_BOX,
    MAP_BYTES,
    MAP_COLUMNS,
    MAP_COPY,
    MAP_STEP,
    MAP_STRIDE,
    MAP_TYPE,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.opcodes import (
    F_OVERFLOW,
    F_TENSORMAP,
    FAULTED,
    IMM,
    MODE,
    NEXT,
    OP,
    SHARED,
    SPACE,
    X0,
    X1,
    X3,
    A,
    B,
)  # fmt: skip


@compiled(i64, i64, i64, i64)
def step_map(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """MAP_REPLACE and MAP_COPY: changes of tensor maps in memory.

    A map in memory is a number (isa/bulk_ops.py): a changed one gets a number of its own, so that
    copies under way keep theirs.
    """
    columns, number = i64p(row), row_of(M, W, row)
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        address = np.int64(lanes(M, W, warp, columns[A])[lane]) + columns[X3]
        nbytes = 128 if columns[OP] == MAP_COPY else 64
        place = locate(M, W, warp, number, lane, address, nbytes, columns[SPACE], WRITE)
        if place == 0:
            return FAULTED
        if columns[OP] == MAP_COPY:
            address = np.int64(lanes(M, W, warp, columns[B])[lane]) + columns[IMM]
            source = locate(M, W, warp, number, lane, address, 128, SHARED, READ)
            if source == 0:
                return FAULTED
            copy_bytes(place, source, 128)
            return NEXT  # once for the warp
        if i64p(place)[0] != MAGIC or not 0 <= i64p(place)[1] < M.nmaps:
            fault(M, W, F_TENSORMAP, warp, number, lane, address, 0)
            return FAULTED
        if M.nmaps >= M.maps_limit:
            fault(M, W, F_OVERFLOW, warp, number, lane, M.nmaps, 0)
            return FAULTED
        old, new = i64p(map_row(M, W, i64p(place)[1])), i64p(map_row(M, W, M.nmaps))
        for k in range(MAP_COLUMNS):
            new[k] = old[k]
        value, column = np.int64(lanes(M, W, warp, columns[B])[lane]) + columns[X0], columns[MODE]
        if MAP_BOX <= column < MAP_BOX + 5:
            value = (value + old[column - MAP_BOX + MAP_STEP] - 1) // old[
                column - MAP_BOX + MAP_STEP
            ]
        new[column] = value
        if column == MAP_BYTES:
            new[MAP_TYPE], new[MAP_STRIDE] = columns[X1], value
        i64p(place)[1] = M.nmaps
        M.nmaps += 1
    return NEXT
