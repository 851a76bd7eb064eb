"""The bulk family: what a thread issues goes into the queue of copies (core/queue.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine import opcodes
from tiledsl.runtime.ptx_machine.core.address import in_arrays, shared_place, space_of
from tiledsl.runtime.ptx_machine.core.bits import signed, width
from tiledsl.runtime.ptx_machine.core.boxes import map_row, row_bytes, row_pitch, rows_of
from tiledsl.runtime.ptx_machine.core.common import fault, lanes, row_of
from tiledsl.runtime.ptx_machine.core.inits import seen_by_copies
from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, i64
from tiledsl.runtime.ptx_machine.core.mbarrier import arrive
from tiledsl.runtime.ptx_machine.core.memory import write_bytes
from tiledsl.runtime.ptx_machine.core.order import BULK as AGENT
from tiledsl.runtime.ptx_machine.core.order import READ, WRITE, object_mbarrier, release_agent
from tiledsl.runtime.ptx_machine.core.queue import enqueue, new_entry, wait_group
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.core.tensormap import step_map
from tiledsl.runtime.ptx_machine.isa.bulk_ops import (
    BARRIER_ELSEWHERE,
    BEFORE,
    BULK_COMMIT,
    BULK_COPY,
    BULK_LOAD,
    BULK_REDUCE,
    BULK_STORE,
    BULK_WAIT,
    CP_ARRIVE,
    CP_ASYNC,
    CP_COMMIT,
    CP_WAIT,
    IGNORE,
    IM2COL,
    MAGIC,
    MAP_BYTES,
    MAP_COPY,
    MAP_IM2COL,
    MAP_RANK,
    MAP_REPLACE,
    MAP_TYPE,
    MULTICAST,
    NO_SUCH_BLOCK,
    NOINC,
    OFF_GRANULE,
    Q_BARRIER,
    Q_BARRIER_OFFSET,
    Q_BLOCK,
    Q_BYTES,
    Q_COORDS,
    Q_GROUP,
    Q_HOST,
    Q_HOW,
    Q_KIND,
    Q_LANE,
    Q_MAP,
    Q_MASK,
    Q_MODE,
    Q_OFFSET,
    Q_PLACED,
    Q_ROW,
    Q_SHIFT,
    Q_SOURCE,
    Q_SOURCE_BLOCK,
    Q_TYPE,
    Q_VALID,
    Q_WARP,
    REDUCES,
    SIZE_OFF_GRANULE,
    SOURCE_ELSEWHERE,
    ST_ASYNC,
    TMA_LOAD,
    TMA_PREFETCH,
    TMA_REDUCE,
    TMA_STORE,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.opcodes import (
    F_ALIGN,
    F_BOUNDS,
    F_TENSORMAP,
    FAULTED,
    GLOBAL,
    IMM,
    MODE,
    MODE2,
    NEXT,
    NVEC,
    NVEC2,
    OP,
    PARAM,
    RANK_SHIFT,
    SHARED,
    SHARED_WINDOW,
    TYPE,
    VEC,
    VEC2,
    WINDOW_MASK,
    X0,
    X1,
    X3,
    X4,
    A,
    B,
    C,
    D,
)  # fmt: skip


@compiled(i64, i64, i64, i64, i64)
def _tensor_map(M: Any, W: Any, warp: int, row: int, lane: int, address: int) -> int:
    """The number of the tensor map at an address, -1 after a fault; ``row``: the row's address."""
    columns, number = i64p(row), row_of(M, W, row)
    host = np.int64(0)
    if address & 63:
        fault(M, W, F_ALIGN, warp, number, lane, address, 64)
        return -1
    if space_of(address) == PARAM:
        inside = address & WINDOW_MASK
        if inside + 128 <= M.nparams:
            host = M.params + inside
    elif space_of(address) == GLOBAL:
        host = in_arrays(M, W, warp, number, lane, address, 128, READ)
        if host == 0:
            return -1
    if host == 0 or i64p(host)[0] != MAGIC or not 0 <= i64p(host)[1] < M.nmaps:
        fault(M, W, F_TENSORMAP, warp, number, lane, address, 0)
        return -1
    found = i64p(host)[1]
    tensor_map = i64p(map_row(M, W, found))
    if tensor_map[MAP_RANK] != columns[NVEC]:
        fault(M, W, F_TENSORMAP, warp, number, lane, tensor_map[MAP_RANK], columns[NVEC])
        return -1
    if columns[OP] in (TMA_LOAD, TMA_PREFETCH):
        wants = 1 if columns[MODE] & IM2COL else 0
        if tensor_map[MAP_IM2COL] != wants:
            fault(M, W, F_TENSORMAP, warp, number, lane, -1, wants)
            return -1
    return found


@compiled(i64, i64, i64, i64, i64, i64, i64)
def _shared_at(
    M: Any, W: Any, warp: int, row: int, lane: int, address: int, nbytes: int, align: int
) -> int:
    """Block << 32 | offset of so many bytes, also at a generic address; -1 after a fault."""
    if space_of(address) == SHARED:
        address &= WINDOW_MASK
    if address & (align - 1):
        fault(M, W, F_ALIGN, warp, row, lane, address | SHARED_WINDOW, align)
        return -1
    place = shared_place(M, W, warp, row, lane, address, 1)
    if place >= 0 and nbytes:
        last = shared_place(M, W, warp, row, lane, address + nbytes - 1, 1)
        if last < 0:
            return -1
    return place


@compiled(b1, i64, i64, i64, i64)
def _fill_tensor(M: Any, W: Any, entry: int, warp: int, row: int, lane: int) -> bool:
    """The tensor's side of a TMA copy: map, coordinates, offsets, bytes."""
    columns, q = i64p(row), i64p(entry)
    number = _tensor_map(M, W, warp, row, lane,
                         np.int64(lanes(M, W, warp, columns[A])[lane]) + columns[X3])  # fmt: skip
    if number < 0:
        return False
    tensor_map = map_row(M, W, number)
    q[Q_MAP] = number
    q[Q_TYPE] = i64p(tensor_map)[MAP_TYPE]
    rows = rows_of(tensor_map)
    q[Q_BYTES], q[Q_PLACED] = rows * row_bytes(tensor_map), rows * row_pitch(tensor_map)
    for k in range(columns[NVEC]):
        register = i64p(M.vectors)[columns[VEC] + k]
        q[Q_COORDS + k] = signed(lanes(M, W, warp, register)[lane], 32)
    # An illegal instruction on the H200: the innermost coordinate off a multiple of 16 bytes.
    start = q[Q_COORDS] * i64p(tensor_map)[MAP_BYTES]
    if start & 15:
        fault(M, W, F_TENSORMAP, warp, row_of(M, W, row), lane, start, OFF_GRANULE)
        return False
    if columns[OP] in (TMA_STORE, TMA_REDUCE):
        for k in range(columns[NVEC]):
            if q[Q_COORDS + k] < 0:  # an illegal instruction as well
                fault(M, W, F_TENSORMAP, warp, row_of(M, W, row), lane, q[Q_COORDS + k], BEFORE)
                return False
    for k in range(columns[NVEC2]):
        register = i64p(M.vectors)[columns[VEC2] + k]
        q[Q_SHIFT + k] = np.int64(lanes(M, W, warp, register)[lane]) & 0xFFFF
    return True


@compiled(b1, i64, i64, i64, i64)
def _fill_barrier(M: Any, W: Any, entry: int, warp: int, row: int, lane: int) -> bool:
    """The mbarrier that a copy signals, and the blocks that it goes to."""
    columns, q, number = i64p(row), i64p(entry), row_of(M, W, row)
    address = np.int64(lanes(M, W, warp, columns[C])[lane]) + columns[X4]
    place = _shared_at(M, W, warp, number, lane, address, 8, 8)
    if place < 0:
        return False
    q[Q_BARRIER], q[Q_BARRIER_OFFSET] = place >> 32, place & 0xFFFFFFFF
    q[Q_MASK] = 1 << (q[Q_BLOCK] % M.cluster_size)
    if columns[MODE] & MULTICAST:
        q[Q_MASK] = np.int64(lanes(M, W, warp, columns[D])[lane]) & 0xFFFF
        if q[Q_MASK] == 0 or q[Q_MASK] >> M.cluster_size:
            fault(M, W, F_BOUNDS, warp, number, lane, q[Q_MASK], NO_SUCH_BLOCK)
            return False
        for rank in range(M.cluster_size):  # no block that has ended may be a target
            if (q[Q_MASK] >> rank) & 1:
                there = address & ~(0xFF << RANK_SHIFT) | rank << RANK_SHIFT
                if _shared_at(M, W, warp, number, lane, there, 8, 8) < 0:
                    return False
    elif q[Q_BARRIER] != q[Q_BLOCK]:
        fault(M, W, F_BOUNDS, warp, number, lane, address | SHARED_WINDOW, BARRIER_ELSEWHERE)
        return False
    if M.checks:
        return seen_by_copies(M, W, warp, place >> 32, place & 0xFFFFFFFF, number)
    return True


@compiled(b1, i64, i64, i64, i64)
def _fill_global(M: Any, W: Any, entry: int, warp: int, row: int, lane: int) -> bool:
    """The global (or source) side of a bulk copy, and its size: multiples of 16."""
    columns, q, number = i64p(row), i64p(entry), row_of(M, W, row)
    nbytes = np.int64(lanes(M, W, warp, columns[X0])[lane]) & 0xFFFFFFFF
    address = np.int64(lanes(M, W, warp, columns[A])[lane]) + columns[X3]
    q[Q_BYTES] = nbytes
    if nbytes & 15:
        fault(M, W, F_ALIGN, warp, number, lane, nbytes, SIZE_OFF_GRANULE)
        return False
    if address & 15:
        window = SHARED_WINDOW if columns[OP] == BULK_COPY else 0
        fault(M, W, F_ALIGN, warp, number, lane, address | window, 16)
        return False
    if columns[OP] == BULK_COPY:
        place = _shared_at(M, W, warp, number, lane, address, nbytes, 16)
        if place < 0:
            return False
        q[Q_SOURCE_BLOCK], q[Q_SOURCE] = place >> 32, place & 0xFFFFFFFF
        return True
    if nbytes:
        kind = READ if columns[OP] == BULK_LOAD else WRITE
        q[Q_HOST] = in_arrays(M, W, warp, number, lane, address, nbytes, kind)
        return q[Q_HOST] != 0
    return True


@compiled(i64, i64, i64, i64)
def _step_copy(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """TMA_LOAD, TMA_STORE, TMA_REDUCE, BULK_LOAD, BULK_STORE, BULK_REDUCE, BULK_COPY."""
    columns, number = i64p(row), row_of(M, W, row)
    op = columns[OP]
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        entry = new_entry(M, W)
        if entry == 0:
            return FAULTED
        q = i64p(entry)
        q[Q_KIND], q[Q_WARP], q[Q_LANE], q[Q_ROW] = op, warp, lane, number
        q[Q_GROUP], q[Q_HOW], q[Q_MODE] = W[warp].bulk_groups[lane], columns[MODE2], columns[MODE]
        if op <= TMA_REDUCE:
            if not _fill_tensor(M, W, entry, warp, row, lane):
                return FAULTED
        else:
            if not _fill_global(M, W, entry, warp, row, lane):
                return FAULTED
            if op == BULK_REDUCE or columns[MODE] & REDUCES:
                q[Q_TYPE], q[Q_VALID] = columns[TYPE], width(columns[TYPE]) >> 3
        address = np.int64(lanes(M, W, warp, columns[B])[lane]) + columns[IMM]
        align = 128 if op <= TMA_REDUCE else 16
        nbytes = q[Q_PLACED] if op <= TMA_REDUCE else q[Q_BYTES]
        place = _shared_at(M, W, warp, number, lane, address, nbytes, align)
        if place < 0:
            return FAULTED
        q[Q_BLOCK], q[Q_OFFSET] = place >> 32, place & 0xFFFFFFFF
        if op in (TMA_LOAD, BULK_LOAD, BULK_COPY):
            if not _fill_barrier(M, W, entry, warp, row, lane):
                return FAULTED
        elif q[Q_BLOCK] != warp // M.nwarps:
            fault(M, W, F_BOUNDS, warp, number, lane, address | SHARED_WINDOW, SOURCE_ELSEWHERE)
            return FAULTED
        if not enqueue(M, W):
            return FAULTED
    return NEXT


@compiled(i64, i64, i64, i64)
def _step_cp_async(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """CP_ASYNC: 4, 8 or 16 bytes by each thread; C: how many of them are read."""
    columns, number = i64p(row), row_of(M, W, row)
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        entry = new_entry(M, W)
        if entry == 0:
            return FAULTED
        q = i64p(entry)
        nbytes = columns[X0]
        q[Q_KIND], q[Q_WARP], q[Q_LANE], q[Q_ROW] = CP_ASYNC, warp, lane, number
        q[Q_GROUP], q[Q_BYTES], q[Q_VALID] = W[warp].copy_groups[lane], nbytes, nbytes
        if columns[C] >= 0:
            valid = np.int64(lanes(M, W, warp, columns[C])[lane]) & 0xFFFFFFFF
            if columns[MODE] & IGNORE:
                valid = 0 if (valid & 1) ^ columns[X1] else nbytes
            q[Q_VALID] = nbytes if valid > nbytes else valid
        source = np.int64(lanes(M, W, warp, columns[A])[lane]) + columns[X3]
        # Where nothing is read, the H200 does not mind the address.
        if q[Q_VALID] and source & (nbytes - 1):
            fault(M, W, F_ALIGN, warp, number, lane, source, nbytes)
            return FAULTED
        if q[Q_VALID]:
            q[Q_HOST] = in_arrays(M, W, warp, number, lane, source, q[Q_VALID], READ)
            if q[Q_HOST] == 0:
                return FAULTED
        address = np.int64(lanes(M, W, warp, columns[B])[lane]) + columns[IMM]
        place = _shared_at(M, W, warp, number, lane, address, nbytes, nbytes)
        if place < 0:
            return FAULTED
        q[Q_BLOCK], q[Q_OFFSET] = place >> 32, place & 0xFFFFFFFF
        q[Q_MASK] = 1 << (q[Q_BLOCK] % M.cluster_size)
        if not enqueue(M, W):
            return FAULTED
    return NEXT


@compiled(i64, i64, i64, i64)
def _step_cp_arrive(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """CP_ARRIVE: an arrival when the thread's copies so far are complete.

    They complete here and now: later is what a wait for the barrier cannot tell from this.
    """
    columns, number = i64p(row), row_of(M, W, row)
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        address = np.int64(lanes(M, W, warp, columns[B])[lane]) + columns[IMM]
        place = _shared_at(M, W, warp, number, lane, address, 8, 8)
        if place < 0:
            return FAULTED
        block, offset = place >> 32, place & 0xFFFFFFFF
        wait_group(M, W, warp, lane, W[warp].copy_groups[lane] + 1, 0, 0)
        if M.checks:
            release_agent(M, W, warp, AGENT, object_mbarrier(M, W, block, offset))
        if columns[MODE] & NOINC == 0:
            # The pending count grows by one first: no change on the whole.
            continue
        arrive(M, W, block, offset, 1, 0, 0, warp, number)
        if M.error[0]:
            return FAULTED
    return NEXT


@compiled(i64, i64, i64, i64)
def _step_st_async(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """ST_ASYNC: values to shared memory of the cluster, and bytes for a barrier there."""
    columns, number = i64p(row), row_of(M, W, row)
    size = width(columns[TYPE]) >> 3
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        entry = new_entry(M, W)
        if entry == 0:
            return FAULTED
        q = i64p(entry)
        q[Q_KIND], q[Q_WARP], q[Q_LANE], q[Q_ROW] = ST_ASYNC, warp, lane, number
        q[Q_BYTES] = size * columns[NVEC]
        if columns[MODE] & REDUCES:
            q[Q_HOW], q[Q_TYPE], q[Q_VALID] = columns[MODE2], columns[TYPE], size
        for k in range(columns[NVEC]):
            value = lanes(M, W, warp, i64p(M.vectors)[columns[VEC] + k])[lane]
            write_bytes(entry + 8 * Q_COORDS + k * size, size, value)
        address = np.int64(lanes(M, W, warp, columns[B])[lane]) + columns[IMM]
        place = _shared_at(M, W, warp, number, lane, address, q[Q_BYTES], size)
        if place < 0:
            return FAULTED
        q[Q_BLOCK], q[Q_OFFSET] = place >> 32, place & 0xFFFFFFFF
        if not _fill_barrier(M, W, entry, warp, row, lane) or not enqueue(M, W):
            return FAULTED
    return NEXT


@compiled(i64, i64, i64, i64, link=opcodes.BULK)
def step_bulk(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Run a row of the bulk family."""
    columns = i64p(row)
    op = columns[OP]
    if op in (TMA_LOAD, TMA_STORE, TMA_REDUCE, BULK_LOAD, BULK_STORE, BULK_REDUCE, BULK_COPY):
        return _step_copy(M, W, warp, row, mask)
    if op == CP_ASYNC:
        return _step_cp_async(M, W, warp, row, mask)
    if op == CP_ARRIVE:
        return _step_cp_arrive(M, W, warp, row, mask)
    if op == ST_ASYNC:
        return _step_st_async(M, W, warp, row, mask)
    if op == MAP_REPLACE or op == MAP_COPY:
        return step_map(M, W, warp, row, mask)
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        if op == BULK_COMMIT:
            W[warp].bulk_groups[lane] += 1
        elif op == CP_COMMIT:
            W[warp].copy_groups[lane] += 1
        elif op == BULK_WAIT:
            limit = W[warp].bulk_groups[lane] - columns[X0]
            wait_group(M, W, warp, lane, limit, 1, columns[MODE])
        elif op == CP_WAIT:
            limit = W[warp].copy_groups[lane] - columns[X0]
            wait_group(M, W, warp, lane, limit, 0, 0)
    return FAULTED if M.error[0] else NEXT
