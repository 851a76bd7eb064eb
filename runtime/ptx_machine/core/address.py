"""Where an address points: windows, bounds, alignment, and the checks of an access."""

from __future__ import annotations

from typing import Any

from tiledsl.runtime.ptx_machine.core.common import block_at, fault
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64
from tiledsl.runtime.ptx_machine.core.order import READ, generic_access
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.opcodes import (
    CONST,
    F_ALIGN,
    F_BOUNDS,
    F_EXITED,
    F_READ_ONLY,
    GENERIC,
    GLOBAL,
    GLOBAL_BASE,
    LOCAL,
    LOCAL_WINDOW,
    OFFSET_MASK,
    PARAM,
    PARAM_WINDOW,
    SHARED,
    SHARED_BASE,
    SHARED_WINDOW,
    WINDOW_MASK,
)  # fmt: skip

__all__ = ["in_arrays", "locate", "shared_place", "space_of"]


@compiled(i64, i64, state=False)
def space_of(address: int) -> int:
    """The state space of a generic address."""
    if address >= GLOBAL_BASE or address < PARAM_WINDOW:
        return GLOBAL
    if address >= LOCAL_WINDOW:
        return LOCAL
    return SHARED if address >= SHARED_WINDOW else PARAM


@compiled(i64, i64, i64, i64, i64, i64, i64)
def in_arrays(M: Any, W: Any, warp: int, row: int, lane: int, address: int, nbytes: int,
              kind: int) -> int:  # fmt: skip
    """The host address of bytes of an array or variable; 0 after a fault.

    ``row``: number of the row. ``kind``: READ, or else something that changes them.
    """
    arrays = i64p(M.arrays)
    low, high = 0, M.narrays - 1
    k = M.array_hint
    if k >= M.narrays or not (
        arrays[4 * k] <= address and address + nbytes <= arrays[4 * k] + arrays[4 * k + 1]
    ):
        # The last array that begins at or below the address: they are sorted.
        while low < high:
            middle = (low + high + 1) >> 1
            if arrays[4 * middle] <= address:
                low = middle
            else:
                high = middle - 1
        k = low
    if M.narrays == 0 or address < arrays[4 * k]:
        fault(M, W, F_BOUNDS, warp, row, lane, address, nbytes)
        return 0
    if address + nbytes > arrays[4 * k] + arrays[4 * k + 1]:
        fault(M, W, F_BOUNDS, warp, row, lane, address, nbytes)
        return 0
    if kind != READ and arrays[4 * k + 3]:
        fault(M, W, F_READ_ONLY, warp, row, lane, address, nbytes)
        return 0
    M.array_hint = k
    return arrays[4 * k + 2] + address - arrays[4 * k]


@compiled(i64, i64, i64, i64, i64, i64)
def shared_place(M: Any, W: Any, warp: int, row: int, lane: int, address: int, nbytes: int) -> int:
    """Block << 32 | offset of bytes of shared memory, aligned to their number; -1 after a fault."""
    block, offset = block_at(M, W, warp, address), (address & OFFSET_MASK) - SHARED_BASE
    if block < 0 or offset < 0 or offset + nbytes > M.shared_size:
        fault(M, W, F_BOUNDS, warp, row, lane, address | SHARED_WINDOW, nbytes)
        return -1
    if address & (nbytes - 1) & 15:
        fault(M, W, F_ALIGN, warp, row, lane, address | SHARED_WINDOW, nbytes)
        return -1
    if i64p(M.ended_blocks)[block]:
        fault(M, W, F_EXITED, warp, row, lane, address | SHARED_WINDOW, block)
        return -1
    return block << 32 | offset


@compiled(i64, i64, i64, i64, i64, i64, i64, i64)
def locate(M: Any, W: Any, warp: int, row: int, lane: int, address: int, nbytes: int, space: int,
           kind: int) -> int:  # fmt: skip
    """The host address of an access of a thread; 0 after a fault.

    ``row``: number of the row. ``nbytes``: a power of two, to which the address is aligned.
    ``kind``: order.READ, WRITE or ATOMIC; accesses to shared memory are put on record.
    """
    if space == GENERIC:
        space = space_of(address)
        if space not in (GLOBAL, CONST):
            address &= WINDOW_MASK
    if space == SHARED:
        place = shared_place(M, W, warp, row, lane, address, nbytes)
        if place < 0:
            return 0
        block, offset = place >> 32, place & 0xFFFFFFFF
        if not generic_access(M, W, warp, block, offset, nbytes, kind, row):
            return 0
        return M.shared + block * M.shared_stride + offset
    window = 0  # of the address in messages
    if space == PARAM or space == LOCAL:
        window = PARAM_WINDOW if space == PARAM else LOCAL_WINDOW
    if address & (nbytes - 1):
        fault(M, W, F_ALIGN, warp, row, lane, address | window, nbytes)
        return 0
    if space in (GLOBAL, CONST):
        return in_arrays(M, W, warp, row, lane, address, nbytes, kind)
    size = M.nparams if space == PARAM else M.local_size
    if address < 0 or address + nbytes > size:
        fault(M, W, F_BOUNDS, warp, row, lane, address | window, nbytes)
        return 0
    if space == LOCAL:
        return M.local + (warp * 32 + lane) * M.local_size + address
    if kind != READ:
        fault(M, W, F_READ_ONLY, warp, row, lane, address | window, nbytes)
        return 0
    return M.params + address
