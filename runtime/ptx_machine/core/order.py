"""What is ordered before what in shared memory: races, accesses to memory in flight, proxy fences.

A component of a vector clock is an agent of a warp: its threads (GENERIC), its wgmma (TENSOR), its
copies (BULK). ``M.clocks[w]`` says up to which epoch of each component warp w has heard of it,
``M.proxies[w]`` the same for what the *async proxy* may rely on: generic accesses, and those of
``cp.async``, count there behind a ``fence.proxy.async`` only. Reads too: a load may still be in
flight when its thread has arrived somewhere, and a TMA copy that this sets off overtake it (seen on
an H200). Both clocks are joined into an object (an mbarrier, a named barrier, the barrier of the
cluster) when a warp arrives, and into those that wait, once its phase is complete.

For each 16 bytes of shared memory there are up to RECORDS records of accesses: component, epoch,
which bytes, read or write, and whether the access is still under way. Two that overlap, of which
one writes, must be ordered. A record that a later write covers is dropped, so that most lists are
short; where one is full all the same, its oldest read goes: the check misses rather than lies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.core.common import fault
from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, i64, none
from tiledsl.runtime.ptx_machine.core.raw import i32p, i64p, u64p
from tiledsl.runtime.ptx_machine.core.sizes import AGENTS, NAMED, RECORDS
from tiledsl.runtime.ptx_machine.isa.bulk_ops import CP_ASYNC
from tiledsl.runtime.ptx_machine.opcodes import BULK as FAMILY_BULK
from tiledsl.runtime.ptx_machine.opcodes import (
    F_IN_FLIGHT,
    F_OVERFLOW,
    F_PROXY,
    F_RACE,
    FAMILY,
    OP,
    RANK_SHIFT,
    SHARED_BASE,
)  # fmt: skip

GENERIC, TENSOR, BULK = range(3)
READ, WRITE, ATOMIC = range(3)

# A record: epoch << 31 | under way << 30 | kind << 28 | component << 16 | bytes.
# So up to 4096 components: 1365 warps in a cluster.
_BYTES, _COMPONENT, _KIND, _UNDER_WAY, _EPOCH = 0, 16, 28, 30, 31

# The clocks of an object.
_ARRIVING, _ARRIVING_PROXY, _DONE, _DONE_PROXY = range(4)


@compiled(none, i64, i64)
def _join(M: Any, W: Any, into: int, other: int) -> None:
    """into = max(into, other), component by component: addresses of two clocks."""
    mine, others = i64p(into), i64p(other)
    for k in range(M.ncomponents):
        if others[k] > mine[k]:
            mine[k] = others[k]


@compiled(i64, i64)
def _clock(M: Any, W: Any, warp: int) -> int:
    return M.clocks + 8 * warp * M.ncomponents


@compiled(i64, i64)
def _proxy(M: Any, W: Any, warp: int) -> int:
    return M.proxies + 8 * warp * M.ncomponents


@compiled(i64, i64, i64)
def _object_clock(M: Any, W: Any, number: int, which: int) -> int:
    return M.objects + 8 * (number * 4 + which) * M.ncomponents


@compiled(none)
def order_reset(M: Any, W: Any) -> None:
    """A new cluster of blocks: nothing has happened yet."""
    total = M.nblocks * M.nwarps
    for k in range(total * M.ncomponents):
        i64p(M.clocks)[k] = 0
        i64p(M.proxies)[k] = 0
        i64p(M.fences)[2 * k] = 0
        i64p(M.fences)[2 * k + 1] = 0
        i64p(M.heard)[2 * k] = 0
        i64p(M.heard)[2 * k + 1] = 0
    for k in range(M.ncomponents):
        i64p(M.agents)[k] = 1
    for warp in range(total):
        i64p(_clock(M, W, warp))[warp * AGENTS] = 1
    for k in range(M.nblocks * M.ngranules):
        i32p(M.record_counts)[k] = np.int32(0)
    for k in range(M.nblocks * (2 * M.ngranules + NAMED + 1)):
        i32p(M.object_table)[k] = np.int32(0)
    for k in range(M.nblocks * 2 * M.ngranules):
        i64p(M.inits)[4 * k] = 0
    M.nobjects = 0


# ------------------------------------------------------------------ objects to synchronise on


@compiled(i64, i64)
def _object(M: Any, W: Any, key: int) -> int:
    """The object of a place in the table, made where there is none yet."""
    table = i32p(M.object_table)
    found = i64(table[key])
    if found > 0:
        return found - 1
    number = M.nobjects
    if number >= M.objects_limit:
        fault(M, W, F_OVERFLOW, 0, 0, -1, number, 0)
        return 0
    M.nobjects = number + 1
    table[key] = np.int32(number + 1)
    clock = i64p(_object_clock(M, W, number, 0))
    for k in range(4 * M.ncomponents):
        clock[k] = 0
    return number


@compiled(i64, i64, i64)
def object_mbarrier(M: Any, W: Any, block: int, offset: int) -> int:
    """The object of the mbarrier at a byte of a block's shared memory."""
    return _object(M, W, block * (2 * M.ngranules + NAMED) + (offset >> 3))


@compiled(i64, i64, i64)
def object_named(M: Any, W: Any, block: int, number: int) -> int:
    """The object of a block's named barrier (``bar.sync number``)."""
    return _object(M, W, block * (2 * M.ngranules + NAMED) + 2 * M.ngranules + number)


@compiled(i64, i64)
def object_cluster(M: Any, W: Any, block: int) -> int:
    """The object of the barrier of a block's cluster."""
    return _object(M, W, M.nblocks * (2 * M.ngranules + NAMED) + block // M.cluster_size)


@compiled(none, i64, i64)
def release(M: Any, W: Any, warp: int, number: int) -> None:
    """A warp arrives at an object: what it did and knows goes along."""
    _join(M, W, _object_clock(M, W, number, _ARRIVING), _clock(M, W, warp))
    _join(M, W, _object_clock(M, W, number, _ARRIVING_PROXY), _proxy(M, W, warp))
    i64p(_clock(M, W, warp))[warp * AGENTS] += 1


@compiled(none, i64)
def fence(M: Any, W: Any, warp: int) -> None:
    """``fence.acq_rel``: relaxed operations of the warp behind it release what is before it."""
    size = M.ncomponents
    kept = i64p(M.fences + 8 * 2 * warp * size)
    clock, proxy = i64p(_clock(M, W, warp)), i64p(_proxy(M, W, warp))
    for k in range(size):
        kept[k] = clock[k]
        kept[size + k] = proxy[k]
    clock[warp * AGENTS] += 1


@compiled(none, i64, i64)
def release_fenced(M: Any, W: Any, warp: int, number: int) -> None:
    """A relaxed arrival at an object: only what lies before the warp's last fence goes along."""
    kept = M.fences + 8 * 2 * warp * M.ncomponents
    _join(M, W, _object_clock(M, W, number, _ARRIVING), kept)
    _join(M, W, _object_clock(M, W, number, _ARRIVING_PROXY), kept + 8 * M.ncomponents)


@compiled(none, i64, i64)
def hear(M: Any, W: Any, warp: int, number: int) -> None:
    """A relaxed wait for an object: what it tells counts behind the warp's next fence."""
    kept = M.heard + 8 * 2 * warp * M.ncomponents
    _join(M, W, kept, _object_clock(M, W, number, _DONE))
    _join(M, W, kept + 8 * M.ncomponents, _object_clock(M, W, number, _DONE_PROXY))


@compiled(none, i64)
def fence_acquire(M: Any, W: Any, warp: int) -> None:
    """``fence.acquire`` or ``fence.acq_rel``: what relaxed waits have found is known now."""
    kept = M.heard + 8 * 2 * warp * M.ncomponents
    _join(M, W, _clock(M, W, warp), kept)
    _join(M, W, _proxy(M, W, warp), kept + 8 * M.ncomponents)


@compiled(i64, i64, i64)
def _publish(M: Any, W: Any, warp: int, agent: int) -> int:
    """End an agent's epoch: whoever hears of it knows all that the agent has done so far."""
    epoch = i64p(M.agents)[warp * AGENTS + agent]
    i64p(M.agents)[warp * AGENTS + agent] = epoch + 1
    return epoch


@compiled(none, i64, i64, i64)
def release_agent(M: Any, W: Any, warp: int, agent: int, number: int) -> None:
    """An asynchronous operation of a warp is complete, and says so to an object."""
    epoch, component = _publish(M, W, warp, agent), warp * AGENTS + agent
    clock = i64p(_object_clock(M, W, number, _ARRIVING))
    if epoch > clock[component]:
        clock[component] = epoch


@compiled(none, i64)
def complete(M: Any, W: Any, number: int) -> None:
    """The phase of an object is complete: who waits for it may learn what the arrivals knew."""
    size = M.ncomponents
    arriving = i64p(_object_clock(M, W, number, _ARRIVING))
    for k in range(2 * size):
        arriving[2 * size + k] = arriving[k]


@compiled(none, i64, i64)
def acquire(M: Any, W: Any, warp: int, number: int) -> None:
    """A warp has waited for an object."""
    _join(M, W, _clock(M, W, warp), _object_clock(M, W, number, _DONE))
    _join(M, W, _proxy(M, W, warp), _object_clock(M, W, number, _DONE_PROXY))


@compiled(none, i64, i64, i64)
def observe(M: Any, W: Any, warp: int, agent: int, of_warp: int) -> None:
    """A warp has waited for asynchronous operations (``wait_group``) of a warp's agent."""
    epoch, component = _publish(M, W, of_warp, agent), of_warp * AGENTS + agent
    i64p(_clock(M, W, warp))[component] = epoch


@compiled(none, i64)
def proxy_fence(M: Any, W: Any, warp: int) -> None:
    """``fence.proxy.async``: the async proxy sees all generic writes that this warp knows of."""
    _join(M, W, _proxy(M, W, warp), _clock(M, W, warp))


# ------------------------------------------------------------------ accesses


@compiled(b1, i64)
def _by_threads(M: Any, W: Any, row: int) -> bool:
    """Is a row a ``cp.async``? These copies are made in the generic proxy."""
    columns = i64p(M.code + (row << 8))
    return columns[FAMILY] == FAMILY_BULK and columns[OP] == CP_ASYNC


@compiled(b1, i64, i64, i64, i64, i64, i64, i64)
def _check(
    M: Any, W: Any, warp: int, agent: int, block: int, granule: int, which: int, kind: int, row: int
) -> bool:
    """Is an access ordered behind all that are on record? Drops the records that it covers."""
    place = block * M.ngranules + granule
    count = i64(i32p(M.record_counts)[place])
    records = u64p(M.records + 8 * place * RECORDS)
    rows = i32p(M.record_rows + 4 * place * RECORDS)
    clock, proxy = i64p(_clock(M, W, warp)), i64p(_proxy(M, W, warp))
    kept = 0
    for k in range(count):
        record = i64(records[k])
        other, how = record & 0xFFFF, (record >> _KIND) & 3
        component, epoch = (record >> _COMPONENT) & 0xFFF, record >> _EPOCH
        under_way = (record >> _UNDER_WAY) & 1 == 1
        conflict = other & which != 0 and (kind != READ or how != READ)
        if conflict and not (kind == ATOMIC and how == ATOMIC):
            code = 0
            if under_way:
                code = F_IN_FLIGHT
            elif clock[component] < epoch:
                code = F_RACE
            elif agent != GENERIC and proxy[component] < epoch:
                generic = component % AGENTS == GENERIC or _by_threads(M, W, i64(rows[k]))
                code = F_PROXY if generic and not _by_threads(M, W, row) else 0
            if code != 0:
                address = (block % M.cluster_size << RANK_SHIFT) + SHARED_BASE + 16 * granule
                fault(M, W, code, warp, row, -1, address, i64(rows[k]) << 32 | component << 8 | how)
                return False
        covered = other & ~which == 0 and not under_way
        mine = component == warp * AGENTS + agent and how == kind
        if covered and (kind == WRITE or mine):
            continue
        if kept != k:
            records[kept] = records[k]
            rows[kept] = rows[k]
        kept += 1
    i32p(M.record_counts)[place] = np.int32(kept)
    return True


@compiled(none, i64, i64, i64, i64, i64, i64)
def _note(
    M: Any, W: Any, component: int, block: int, granule: int, which: int, kind: int, row: int
) -> None:
    """Put an access on record; ``kind`` with 4 added is one under way."""
    place = block * M.ngranules + granule
    count = i64(i32p(M.record_counts)[place])
    records = u64p(M.records + 8 * place * RECORDS)
    rows = i32p(M.record_rows + 4 * place * RECORDS)
    epoch = i64p(M.agents)[component]
    if component % AGENTS == GENERIC:
        epoch = i64p(_clock(M, W, component // AGENTS))[component]
    record = epoch << _EPOCH | kind << _KIND | component << _COMPONENT | which
    for k in range(count):
        if (i64(records[k]) ^ record) >> _COMPONENT == 0 and kind < 4:
            records[k] |= np.uint64(which)
            return
    if count == RECORDS:
        oldest = 0
        for k in range(RECORDS - 1, -1, -1):
            if (i64(records[k]) >> _KIND) & 7 == READ:
                oldest = k
        for k in range(oldest, RECORDS - 1):
            records[k] = records[k + 1]
            rows[k] = rows[k + 1]
        count -= 1
    records[count] = np.uint64(record)
    rows[count] = np.int32(row)
    i32p(M.record_counts)[place] = np.int32(count + 1)


@compiled(i64, i64, i64, i64)
def _bytes_of(M: Any, W: Any, granule: int, start: int, end: int) -> int:
    """Which of a granule's 16 bytes lie in start..end, as a mask."""
    low, high = start - 16 * granule, end - 16 * granule
    if low < 0:
        low = 0
    if high > 16:
        high = 16
    return ((1 << high) - 1) & ~((1 << low) - 1)


@compiled(b1, i64, i64, i64, i64, i64, i64)
def generic_access(
    M: Any, W: Any, warp: int, block: int, offset: int, nbytes: int, kind: int, row: int
) -> bool:
    """A thread of a warp reads, writes or atomically changes bytes of a block's shared memory.

    ``offset``: from the start of the block's shared memory. ``kind``: READ, WRITE or ATOMIC.
    False: they were written, read or are in flight without an order; the fault is noted.
    """
    if M.checks == 0:
        return True
    for granule in range(offset >> 4, (offset + nbytes + 15) >> 4):
        which = _bytes_of(M, W, granule, offset, offset + nbytes)
        if not _check(M, W, warp, GENERIC, block, granule, which, kind, row):
            return False
        _note(M, W, warp * AGENTS, block, granule, which, kind, row)
    return True


@compiled(b1, i64, i64, i64, i64, i64, i64, i64)
def async_begin(
    M: Any, W: Any, warp: int, agent: int, block: int, offset: int, nbytes: int, kind: int, row: int
) -> bool:
    """An operation that a warp issues will read or write bytes at any time from now on."""
    if M.checks == 0:
        return True
    for granule in range(offset >> 4, (offset + nbytes + 15) >> 4):
        which = _bytes_of(M, W, granule, offset, offset + nbytes)
        if not _check(M, W, warp, agent, block, granule, which, kind, row):
            return False
        _note(M, W, warp * AGENTS + agent, block, granule, which, kind + 4, row)
    return True


@compiled(none, i64, i64, i64, i64, i64, i64, i64)
def async_end(
    M: Any, W: Any, warp: int, agent: int, block: int, offset: int, nbytes: int, kind: int, row: int
) -> None:
    """The operation has done it: with the same arguments as its async_begin, or parts of them."""
    if M.checks == 0:
        return
    component = warp * AGENTS + agent
    for granule in range(offset >> 4, (offset + nbytes + 15) >> 4):
        which = _bytes_of(M, W, granule, offset, offset + nbytes)
        place = block * M.ngranules + granule
        records = u64p(M.records + 8 * place * RECORDS)
        rows = i32p(M.record_rows + 4 * place * RECORDS)
        count = i64(i32p(M.record_counts)[place])
        wanted = (kind + 4) << _KIND | component << _COMPONENT | which
        for k in range(count):
            if i64(records[k]) & 0x7FFFFFFF == wanted and i64(rows[k]) == row:
                for later in range(k, count - 1):
                    records[later] = records[later + 1]
                    rows[later] = rows[later + 1]
                i32p(M.record_counts)[place] = np.int32(count - 1)
                _note(M, W, component, block, granule, which, kind, row)
                break
