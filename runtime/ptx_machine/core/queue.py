"""Copies under way: from issue to completion they may happen at any time.

An entry of the queue is a row of integers (isa/bulk_ops.py). A load happens at once, and signals
its mbarrier. A store happens in two steps: it reads its source, which is what ``wait_group.read``
waits for, and then writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.core.address import in_arrays
from tiledsl.runtime.ptx_machine.core.boxes import (
    map_row,
    row_bytes,
    row_of_box,
    row_pitch,
    rows_of,
    swizzled,
)
from tiledsl.runtime.ptx_machine.core.common import counts_of, fault, random
from tiledsl.runtime.ptx_machine.core.counting import count_copy
from tiledsl.runtime.ptx_machine.core.floats import add_in_global
from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, i64, none
from tiledsl.runtime.ptx_machine.core.links import PERFORM, call_link
from tiledsl.runtime.ptx_machine.core.mbarrier import complete_tx
from tiledsl.runtime.ptx_machine.core.memory import modify, read_bytes, write_bytes
from tiledsl.runtime.ptx_machine.core.order import (
    ATOMIC,
    BULK,
    READ,
    WRITE,
    async_begin,
    async_end,
    observe,
)
from tiledsl.runtime.ptx_machine.core.raw import i64p, u8p, u64p
from tiledsl.runtime.ptx_machine.core.sizes import C_GLOBAL
from tiledsl.runtime.ptx_machine.isa.bulk_ops import (
    BUFFER_BYTES,
    BUFFERS,
    BULK_COPY,
    BULK_LOAD,
    BULK_REDUCE,
    BULK_STORE,
    CP_ASYNC,
    MAP_BYTES,
    MAP_EXTENT,
    MAP_STEP,
    MAP_SWIZZLE,
    Q_BARRIER,
    Q_BARRIER_OFFSET,
    Q_BLOCK,
    Q_BUFFER,
    Q_BYTES,
    Q_COLUMNS,
    Q_COORDS,
    Q_GROUP,
    Q_HOST,
    Q_HOW,
    Q_ISSUED,
    Q_KIND,
    Q_LANE,
    Q_MAP,
    Q_MASK,
    Q_OFFSET,
    Q_PLACED,
    Q_ROW,
    Q_SOURCE,
    Q_SOURCE_BLOCK,
    Q_TYPE,
    Q_VALID,
    Q_WARP,
    QUEUE,
    ST_ASYNC,
    TMA_LOAD,
    TMA_REDUCE,
    TMA_STORE,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.isa.memory_ops import A_ADD
from tiledsl.runtime.ptx_machine.opcodes import EAGER, F64, F_PENDING


@compiled(i64, i64)
def entry_at(M: Any, W: Any, index: int) -> int:
    """The address of an entry."""
    return M.queue + 8 * Q_COLUMNS * index


@compiled(i64, i64, i64)
def host_of(M: Any, W: Any, block: int, offset: int) -> int:
    """The host address of a byte of a block's shared memory."""
    return M.shared + block * M.shared_stride + offset


@compiled(none, i64, i64, i64, state=False)
def copy_bytes(target: int, source: int, nbytes: int) -> None:
    """Copy host memory."""
    words = nbytes >> 3
    if (target | source) & 7 == 0:
        for k in range(words):
            u64p(target)[k] = u64p(source)[k]
    else:
        words = 0
    for k in range(words << 3, nbytes):
        u8p(target)[k] = u8p(source)[k]


@compiled(none, i64, i64, i64, i64, i64, i64, state=False)
def reduce_bytes(target: int, source: int, nbytes: int, size: int, kind: int, how: int) -> None:
    """Combine elements of global memory with those of a source."""
    for k in range(0, nbytes, size):
        old, new = read_bytes(target + k, size), read_bytes(source + k, size)
        if kind == F64 and how == A_ADD:
            write_bytes(target + k, size, add_in_global(kind, old, new))
        else:
            write_bytes(target + k, size, modify(how, kind, old, new, new))


@compiled(b1, i64, i64, i64)
def _tensor_row(M: Any, W: Any, entry: int, row: int, place: int) -> bool:
    """Move one row of a box between the tensor and its bytes at ``place`` (not swizzled)."""
    q = i64p(entry)
    tensor_map = map_row(M, W, q[Q_MAP])
    columns = i64p(tensor_map)
    nbytes, size, step = row_bytes(tensor_map), columns[MAP_BYTES], columns[MAP_STEP]
    loads = q[Q_KIND] == TMA_LOAD
    line = row_of_box(tensor_map, entry, row)
    first = q[Q_COORDS]
    if line >= 0 and step == 1:
        # The part that lies inside; the rest of a load is zero.
        low = -first if first < 0 else 0
        high = columns[MAP_EXTENT] - first
        if not loads:
            # The H200 also changes what lies behind a row, up to a multiple of 16 bytes.
            high = ((columns[MAP_EXTENT] * size + 15) & ~15) // size - first
        high = nbytes // size if high > nbytes // size else high
        if low < high:
            counts_of(M, W, q[Q_ROW])[C_GLOBAL] += (high - low) * size
            address = line + (first + low) * size
            kind = READ if loads else WRITE
            host = in_arrays(
                M, W, q[Q_WARP], q[Q_ROW], q[Q_LANE], address, (high - low) * size, kind
            )
            if host == 0:
                return False
            if loads:
                for k in range(low * size):
                    u8p(place)[k] = np.uint8(0)
                copy_bytes(place + low * size, host, (high - low) * size)
                for k in range(high * size, nbytes):
                    u8p(place)[k] = np.uint8(0)
            elif q[Q_KIND] == TMA_STORE:
                copy_bytes(host, place + low * size, (high - low) * size)
            else:
                inside = (high - low) * size
                reduce_bytes(host, place + low * size, inside, size, q[Q_TYPE], q[Q_HOW])
            return True
    for k in range(nbytes // size):
        at = first + k * step
        inside = line >= 0 and 0 <= at < columns[MAP_EXTENT]
        if not inside:
            if loads:
                for j in range(size):
                    u8p(place)[k * size + j] = np.uint8(0)
            continue
        counts_of(M, W, q[Q_ROW])[C_GLOBAL] += size
        kind = READ if loads else WRITE
        host = in_arrays(M, W, q[Q_WARP], q[Q_ROW], q[Q_LANE], line + at * size, size, kind)
        if host == 0:
            return False
        if loads:
            copy_bytes(place + k * size, host, size)
        elif q[Q_KIND] == TMA_STORE:
            copy_bytes(host, place + k * size, size)
        else:
            reduce_bytes(host, place + k * size, size, size, q[Q_TYPE], q[Q_HOW])
    return True


@compiled(b1, i64)
def _tma_load(M: Any, W: Any, entry: int) -> bool:
    """All rows of a box into each block that the mask names."""
    q = i64p(entry)
    tensor_map = map_row(M, W, q[Q_MAP])
    nbytes, span = row_bytes(tensor_map), i64p(tensor_map)[MAP_SWIZZLE]
    total, pitch = rows_of(tensor_map), row_pitch(tensor_map)
    row_buffer = M.row_buffer
    first = q[Q_BLOCK] - q[Q_BLOCK] % M.cluster_size
    for row in range(total):
        if not _tensor_row(M, W, entry, row, row_buffer):
            return False
        for rank in range(M.cluster_size):
            if (q[Q_MASK] >> rank) & 1:
                start = q[Q_OFFSET] + row * pitch
                if span == 0:
                    copy_bytes(host_of(M, W, first + rank, start), row_buffer, nbytes)
                else:
                    for chunk in range(0, nbytes, 16):
                        copy_bytes(
                            host_of(M, W, first + rank, swizzled(start + chunk, span)),
                            row_buffer + chunk,
                            16,
                        )
    for rank in range(M.cluster_size):
        if (q[Q_MASK] >> rank) & 1:
            async_end(
                M, W, q[Q_WARP], BULK, first + rank, q[Q_OFFSET], q[Q_PLACED], WRITE, q[Q_ROW]
            )
            # The barrier at the same place of the block that the data goes to.
            complete_tx(
                M, W, first + rank, q[Q_BARRIER_OFFSET], q[Q_BYTES], q[Q_WARP], BULK, q[Q_ROW]
            )
    return M.error[0] == 0


@compiled(b1, i64, i64)
def _read_source(M: Any, W: Any, entry: int, slot: int) -> bool:
    """First step of a store: its source into a buffer, rows in order."""
    q = i64p(entry)
    buffer = M.buffers + slot * BUFFER_BYTES
    if q[Q_KIND] in (TMA_STORE, TMA_REDUCE):
        tensor_map = map_row(M, W, q[Q_MAP])
        nbytes, span = row_bytes(tensor_map), i64p(tensor_map)[MAP_SWIZZLE]
        for row in range(rows_of(tensor_map)):
            start = q[Q_OFFSET] + row * row_pitch(tensor_map)
            if span == 0:
                copy_bytes(buffer + row * nbytes, host_of(M, W, q[Q_BLOCK], start), nbytes)
            else:
                for chunk in range(0, nbytes, 16):
                    source = host_of(M, W, q[Q_BLOCK], swizzled(start + chunk, span))
                    copy_bytes(buffer + row * nbytes + chunk, source, 16)
    else:
        copy_bytes(buffer, host_of(M, W, q[Q_BLOCK], q[Q_OFFSET]), q[Q_BYTES])
    q[Q_BUFFER] = slot + 1
    async_end(M, W, q[Q_WARP], BULK, q[Q_BLOCK], q[Q_OFFSET], q[Q_PLACED], READ, q[Q_ROW])
    return True


@compiled(b1, i64, i64)
def _write_target(M: Any, W: Any, entry: int, slot: int) -> bool:
    """Second step of a store."""
    q = i64p(entry)
    buffer = M.buffers + slot * BUFFER_BYTES
    if q[Q_KIND] in (TMA_STORE, TMA_REDUCE):
        tensor_map = map_row(M, W, q[Q_MAP])
        nbytes = row_bytes(tensor_map)
        for row in range(rows_of(tensor_map)):
            if not _tensor_row(M, W, entry, row, buffer + row * nbytes):
                return False
    elif q[Q_KIND] == BULK_STORE:
        copy_bytes(q[Q_HOST], buffer, q[Q_BYTES])
    else:
        size = q[Q_VALID]
        reduce_bytes(q[Q_HOST], buffer, q[Q_BYTES], size, q[Q_TYPE], q[Q_HOW])
    return True


@compiled(none, i64)
def _remove(M: Any, W: Any, index: int) -> None:
    """Take an entry out, keeping the order of the others."""
    entry = i64p(entry_at(M, W, index))
    if entry[Q_BUFFER]:
        M.buffers_used &= ~(1 << (entry[Q_BUFFER] - 1))
    for k in range(index, M.queued - 1):
        here, there = i64p(entry_at(M, W, k)), i64p(entry_at(M, W, k + 1))
        for column in range(Q_COLUMNS):
            here[column] = there[column]
    M.queued -= 1


@compiled(b1, i64)
def is_store(M: Any, W: Any, kind: int) -> bool:
    """Does an operation read shared memory and write global memory?"""
    return kind in (TMA_STORE, TMA_REDUCE, BULK_STORE, BULK_REDUCE)


@compiled(i64, i64)
def _kind_of_write(M: Any, W: Any, entry: int) -> int:
    """What an operation does to shared memory, for the checks of order."""
    q = i64p(entry)
    return ATOMIC if q[Q_KIND] in (BULK_COPY, ST_ASYNC) and q[Q_VALID] else WRITE


@compiled(i64, i64, i64, i64, link=PERFORM)
def _perform(M: Any, W: Any, index: int, read_only: int, unused: int) -> int:
    """``perform``: 1 or 0."""
    entry = entry_at(M, W, index)
    q = i64p(entry)
    kind = q[Q_KIND]
    if is_store(M, W, kind):
        if q[Q_BUFFER] == 0:
            slot = 0
            while slot < BUFFERS and (M.buffers_used >> slot) & 1:
                slot += 1
            if slot == BUFFERS:
                # All are in use: one of the others writes first, which is legal at any time.
                for k in range(M.queued):
                    if i64p(entry_at(M, W, k))[Q_BUFFER]:
                        slot = i64p(entry_at(M, W, k))[Q_BUFFER] - 1
                        _write_target(M, W, entry_at(M, W, k), slot)
                        count_copy(M, W, entry_at(M, W, k))
                        _remove(M, W, k)
                        index -= 1 if k < index else 0
                        break
                entry = entry_at(M, W, index)
                q = i64p(entry)
            M.buffers_used |= 1 << slot
            _read_source(M, W, entry, slot)
        if read_only:
            return 0
        _write_target(M, W, entry, q[Q_BUFFER] - 1)
    elif kind == TMA_LOAD:
        _tma_load(M, W, entry)
    elif kind == CP_ASYNC:
        target = host_of(M, W, q[Q_BLOCK], q[Q_OFFSET])
        copy_bytes(target, q[Q_HOST], q[Q_VALID])
        for k in range(q[Q_VALID], q[Q_BYTES]):
            u8p(target)[k] = np.uint8(0)
        async_end(M, W, q[Q_WARP], BULK, q[Q_BLOCK], q[Q_OFFSET], q[Q_BYTES], WRITE, q[Q_ROW])
    else:  # BULK_LOAD, BULK_COPY, ST_ASYNC: bytes into shared memory, and a barrier
        first = q[Q_BLOCK] - q[Q_BLOCK] % M.cluster_size
        for rank in range(M.cluster_size):
            if (q[Q_MASK] >> rank) & 1 == 0:
                continue
            target = host_of(M, W, first + rank, q[Q_OFFSET])
            source = q[Q_HOST]
            if kind == BULK_COPY:
                source = host_of(M, W, q[Q_SOURCE_BLOCK], q[Q_SOURCE])
            elif kind == ST_ASYNC:
                source = entry + 8 * Q_COORDS  # the value stands in the entry
            how = _kind_of_write(M, W, entry)
            if how == ATOMIC:
                reduce_bytes(target, source, q[Q_BYTES], q[Q_VALID], q[Q_TYPE], q[Q_HOW])
            else:
                copy_bytes(target, source, q[Q_BYTES])
            async_end(M, W, q[Q_WARP], BULK, first + rank, q[Q_OFFSET], q[Q_BYTES], how, q[Q_ROW])
            complete_tx(
                M, W, first + rank, q[Q_BARRIER_OFFSET], q[Q_BYTES], q[Q_WARP], BULK, q[Q_ROW]
            )
        if kind == BULK_COPY:
            async_end(
                M, W, q[Q_WARP], BULK, q[Q_SOURCE_BLOCK], q[Q_SOURCE], q[Q_BYTES], READ, q[Q_ROW]
            )
    count_copy(M, W, entry)
    _remove(M, W, index)
    M.epoch += 1
    return 1


@compiled(b1, i64, i64)
def perform(M: Any, W: Any, index: int, read_only: int) -> bool:
    """Do an operation, or with ``read_only`` the first step of a store.

    True: the entry is gone from the queue.
    """
    return call_link(M, W, PERFORM, index, read_only, 0) != 0


@compiled(b1, i64)
def begin(M: Any, W: Any, entry: int) -> bool:
    """Open the windows of a new operation: what it reads or writes is in flight from now on."""
    q = i64p(entry)
    warp, row, nbytes = q[Q_WARP], q[Q_ROW], q[Q_PLACED]
    if nbytes == 0:
        nbytes = q[Q_BYTES]
        q[Q_PLACED] = nbytes
    if is_store(M, W, q[Q_KIND]):
        return async_begin(M, W, warp, BULK, q[Q_BLOCK], q[Q_OFFSET], nbytes, READ, row)
    first = q[Q_BLOCK] - q[Q_BLOCK] % M.cluster_size
    for rank in range(M.cluster_size):
        if (q[Q_MASK] >> rank) & 1 and not async_begin(
            M, W, warp, BULK, first + rank, q[Q_OFFSET], nbytes, _kind_of_write(M, W, entry), row
        ):
            return False
    if q[Q_KIND] == BULK_COPY:
        return async_begin(M, W, warp, BULK, q[Q_SOURCE_BLOCK], q[Q_SOURCE], nbytes, READ, row)
    return True


@compiled(i64)
def new_entry(M: Any, W: Any) -> int:
    """The address of a fresh entry behind the others, for ``enqueue``; 0 after a fault."""
    if M.queued >= QUEUE:
        # The oldest completes, which is legal at any time: a warp has 32 cp.async an instruction.
        perform(M, W, 0, 0)
        if M.error[0]:
            return 0
    entry = entry_at(M, W, M.queued)
    for column in range(Q_COLUMNS):
        i64p(entry)[column] = 0
    i64p(entry)[Q_BARRIER] = -1
    return entry


@compiled(b1)
def enqueue(M: Any, W: Any) -> bool:
    """Issue the operation in the entry that new_entry gave."""
    if not begin(M, W, entry_at(M, W, M.queued)):
        return False
    i64p(entry_at(M, W, M.queued))[Q_ISSUED] = M.instructions
    M.queued += 1
    if M.policy == EAGER:
        perform(M, W, M.queued - 1, 0)
    return M.error[0] == 0


@compiled(b1, i64)
def completes_alone(M: Any, W: Any, index: int) -> bool:
    """Does anybody wait for the operation by other means than a group of its thread?"""
    kind = i64p(entry_at(M, W, index))[Q_KIND]
    return kind in (TMA_LOAD, BULK_LOAD, BULK_COPY, ST_ASYNC)


@compiled(b1)
def perform_late(M: Any, W: Any) -> bool:
    """Do one of the operations that complete by themselves, any of them; False: there is none."""
    count = 0
    for k in range(M.queued):
        count += 1 if completes_alone(M, W, k) else 0
    if count == 0:
        return False
    chosen = random(M, W, count)
    for k in range(M.queued):
        if completes_alone(M, W, k):
            if chosen == 0:
                perform(M, W, k, 0)
                return True
            chosen -= 1
    return True


@compiled(none)
def perform_random(M: Any, W: Any) -> None:
    """Do any operation, or the first step of a store."""
    if M.queued:
        perform(M, W, random(M, W, M.queued), random(M, W, 2))


@compiled(none, i64, i64, i64, i64, i64)
def wait_group(M: Any, W: Any, warp: int, lane: int, limit: int, bulk: int, read_only: int) -> None:
    """Complete a thread's groups up to number ``limit`` (not itself)."""
    k = 0
    while k < M.queued:
        q = i64p(entry_at(M, W, k))
        mine = q[Q_WARP] == warp and q[Q_LANE] == lane and q[Q_GROUP] < limit
        kind_fits = is_store(M, W, q[Q_KIND]) if bulk else q[Q_KIND] == CP_ASYNC
        if mine and kind_fits and not (read_only and q[Q_BUFFER]):
            before = M.queued
            gone = perform(M, W, k, read_only)
            if M.queued < before - gone:
                k = 0  # another one has written, so as to make room: the numbers have changed
                continue
            if gone:
                continue
        if M.error[0]:
            return
        k += 1
    if M.checks:
        observe(M, W, warp, BULK, warp)


@compiled(none, i64)
def drain(M: Any, W: Any, block: int) -> None:
    """A block has ended: what still reads or writes its shared memory comes too late."""
    k = 0
    while k < M.queued:
        q = i64p(entry_at(M, W, k))
        stores = is_store(M, W, q[Q_KIND])
        touches = q[Q_BLOCK] == block and not (stores and q[Q_BUFFER])
        touches = touches or (q[Q_KIND] == BULK_COPY and q[Q_SOURCE_BLOCK] == block)
        if touches and M.checks:
            fault(M, W, F_PENDING, q[Q_WARP], q[Q_ROW], q[Q_LANE], q[Q_KIND], q[Q_OFFSET])
            return
        if q[Q_BLOCK] == block:
            perform(M, W, k, 0)
            k = 0  # it may have taken out another one, too
        else:
            k += 1
