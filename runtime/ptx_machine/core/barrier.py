"""The barrier family: mbarriers, named and cluster barriers, fences, setmaxnreg."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine import opcodes
from tiledsl.runtime.ptx_machine.core.common import count_lanes, fault, lanes, random, row_of
from tiledsl.runtime.ptx_machine.core.inits import forget_init, note_init
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64, none
from tiledsl.runtime.ptx_machine.core.mbarrier import (
    BAD_COUNT,
    MOST,
    NOT_INITIALISED,
    arrive,
    barrier_place,
    first_phase,
    packed_word,
    update,
    word_at,
    word_pending,
    word_phase,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.core.order import (
    acquire,
    complete,
    fence,
    fence_acquire,
    hear,
    object_cluster,
    object_mbarrier,
    object_named,
    proxy_fence,
    release,
    release_fenced,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.core.raw import i64p, u64p
from tiledsl.runtime.ptx_machine.core.sizes import (
    CLUSTER_WORDS,
    NAMED_WORDS,
    WAIT_CLUSTER,
    WAIT_LANES,
    WAIT_MBARRIER,
    WAIT_NAMED,
    WAIT_REGISTERS,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.isa.barrier_ops import (
    ACQUIRES,
    ALIGNED,
    AND,
    BAR_ARRIVE,
    BAR_RED,
    BAR_SYNC,
    CLUSTER_ARRIVE,
    CLUSTER_WAIT,
    DROP,
    EXPECTS,
    FENCE,
    INCREASE,
    INITS,
    MB_COMPLETE,
    MB_EXPECT,
    MB_INIT,
    MB_INVAL,
    MB_PENDING,
    MB_TEST,
    MB_TRY,
    NO_COMPLETE,
    OR,
    PARITY,
    PROXY_FENCE,
    RELAXED,
    RELEASES,
    SETMAXNREG,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.opcodes import (
    D0,
    F_BARRIER,
    F_DIVERGED,
    F_MBARRIER,
    F_REGISTERS,
    FAULTED,
    IMM,
    MODE,
    NEXT,
    OP,
    PARK,
    RANDOM,
    SPACE,
    X0,
    X1,
    A,
    B,
    C,
)  # fmt: skip

# A named barrier: threads that have come, phase number, threads of a phase, what bar.red adds up.
_COME, _PHASE, _THREADS, _VALUE, _RESULT = range(5)
# The barrier of a cluster: warps that have come, phase number.


@compiled(i64, i64, i64, i64)
def _step_arrive(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """MB_INIT, MB_INVAL, MB_ARRIVE, MB_EXPECT, MB_COMPLETE."""
    columns = i64p(row)
    number, op, mode = row_of(M, W, row), columns[OP], columns[MODE]
    base = lanes(M, W, warp, columns[A])
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        address = np.int64(base[lane]) + columns[IMM]
        place = barrier_place(M, W, warp, number, lane, address, columns[SPACE])
        if place < 0:
            return FAULTED
        block, offset = place >> 32, place & 0xFFFFFFFF
        given = np.int64(1)
        if columns[B] >= 0:
            given = np.int64(lanes(M, W, warp, columns[B])[lane]) & 0xFFFFFFFF
        if op == MB_INIT:
            if given < 1 or given > MOST:
                fault(M, W, F_MBARRIER, warp, number, lane, address, BAD_COUNT)
                return FAULTED
            if M.checks and not note_init(M, W, warp, block, offset, number):
                return FAULTED
            u64p(word_at(M, W, block, offset))[0] = packed_word(0, given, given, 0)
            first_phase(M, W, block, offset)
            continue
        if op == MB_INVAL:
            u64p(word_at(M, W, block, offset))[0] = np.uint64(0)
            forget_init(M, W, block, offset)
            continue
        relaxed = op in (MB_EXPECT, MB_COMPLETE) or mode & RELAXED
        if M.checks and relaxed:
            release_fenced(M, W, warp, object_mbarrier(M, W, block, offset))
        if op == MB_EXPECT:
            update(M, W, block, offset, 0, given, 0, warp, number)
        elif op == MB_COMPLETE:
            update(M, W, block, offset, 0, -given, 0, warp, number)
        else:
            arrivals, tx = given, np.int64(0)
            if mode & EXPECTS:
                arrivals, tx = np.int64(1), given
            drop = arrivals if mode & DROP else np.int64(0)
            before = u64p(word_at(M, W, block, offset))[0]
            if mode & NO_COMPLETE and word_pending(before) <= arrivals:
                fault(M, W, F_MBARRIER, warp, number, lane, address, BAD_COUNT)
                return FAULTED
            if mode & RELAXED:
                word = update(M, W, block, offset, arrivals, tx, drop, warp, number)
            else:
                word = arrive(M, W, block, offset, arrivals, tx, drop, warp, number)
            if columns[D0] >= 0:
                lanes(M, W, warp, columns[D0])[lane] = word
        if M.error[0]:
            return FAULTED
    return NEXT


@compiled(i64, i64, i64, i64)
def _step_wait(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """MB_TEST and MB_TRY: has the phase with this parity, or of this state, ended?

    try_wait may block: its lanes park until something happens. Where nothing does in the whole
    machine, each says no once (M.impatient counts such rounds), as it may on a GPU.
    """
    columns = i64p(row)
    number, mode = row_of(M, W, row), columns[MODE]
    base, b = lanes(M, W, warp, columns[A]), lanes(M, W, warp, columns[B])
    scratch, done = i64p(M.scratch), 0
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        address = np.int64(base[lane]) + columns[IMM]
        place = barrier_place(M, W, warp, number, lane, address, columns[SPACE])
        if place < 0:
            return FAULTED
        word = u64p(word_at(M, W, place >> 32, place & 0xFFFFFFFF))[0]
        if word >> np.uint64(62) != np.uint64(2):
            fault(M, W, F_MBARRIER, warp, number, lane, address, NOT_INITIALISED)
            return FAULTED
        waited = np.int64(b[lane]) & 1 if mode & PARITY else word_phase(b[lane])
        scratch[lane] = 1 if word_phase(word) != waited else 0
        scratch[32 + lane] = place
        done += scratch[lane]
        if scratch[lane] == 0:
            W[warp].wait_kind = WAIT_MBARRIER
            W[warp].wait_what = place
            W[warp].wait_value = waited
    if done == 0 and columns[OP] == MB_TRY:
        # Its time limit may be over at any moment: sometimes it says no although others could run.
        hurried = M.policy >= RANDOM and random(M, W, 8) == 0
        if W[warp].gave_up == M.impatient and not hurried:
            return PARK
        W[warp].gave_up = M.impatient
    last = np.int64(-1)
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        if scratch[lane] and scratch[32 + lane] != last and M.checks:
            last = scratch[32 + lane]
            found = object_mbarrier(M, W, last >> 32, last & 0xFFFFFFFF)
            if mode & RELAXED:
                hear(M, W, warp, found)
            else:
                acquire(M, W, warp, found)
        if columns[D0] >= 0:
            lanes(M, W, warp, columns[D0])[lane] = np.uint64(scratch[lane])
    return NEXT


@compiled(i64, i64)
def _threads_left(M: Any, W: Any, block: int) -> int:
    """Threads of the block's warps that have not ended, as whole warps."""
    left = 0
    for warp in range(block * M.nwarps, (block + 1) * M.nwarps):
        if W[warp].ended != 0xFFFFFFFF:
            left += 32
    return left


@compiled(none, i64, i64)
def _named_complete(M: Any, W: Any, block: int, number: int) -> None:
    named = i64p(M.named + 8 * NAMED_WORDS * (block * 16 + number))
    named[_COME] = 0
    named[_PHASE] += 1
    named[_RESULT] = named[_VALUE]
    M.epoch += 1
    if M.checks:
        complete(M, W, object_named(M, W, block, number))


@compiled(i64, i64, i64, i64)
def _step_named(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """BAR_SYNC, BAR_ARRIVE, BAR_RED: a whole warp comes at once."""
    columns = i64p(row)
    at, op, mode, block = row_of(M, W, row), columns[OP], columns[MODE], warp // M.nwarps
    here = 0xFFFFFFFF & ~W[warp].ended
    if mask != here:
        if mode & ALIGNED:
            fault(M, W, F_DIVERGED, warp, at, -1, mask, here)
            return FAULTED
        W[warp].wait_kind = WAIT_LANES
        return PARK
    lane = 0
    while (mask >> lane) & 1 == 0:
        lane += 1
    number = np.int64(lanes(M, W, warp, columns[A])[lane])
    if number < 0 or number > 15:
        fault(M, W, F_BARRIER, warp, at, lane, number, 0)
        return FAULTED
    named = i64p(M.named + 8 * NAMED_WORDS * (block * 16 + number))
    if W[warp].bar_phase == 0:
        threads = np.int64(0)
        if columns[B] >= 0:
            threads = np.int64(lanes(M, W, warp, columns[B])[lane])
            if threads <= 0 or threads & 31 or threads > (M.nthreads + 31) & ~31:
                fault(M, W, F_BARRIER, warp, at, lane, number, threads)
                return FAULTED
        if named[_COME] == 0:
            named[_THREADS] = threads
            named[_VALUE] = 1 if op == BAR_RED and mode & 7 == AND else 0
        elif named[_THREADS] != threads:
            fault(M, W, F_BARRIER, warp, at, lane, number | threads << 8, named[_THREADS])
            return FAULTED
        if op == BAR_RED:
            values, true = lanes(M, W, warp, columns[C]), 0
            for k in range(32):
                if (mask >> k) & 1 and (np.int64(values[k]) & 1) ^ columns[X1]:
                    true |= 1 << k
            if mode & 7 == AND:
                named[_VALUE] &= 1 if true == mask else 0
            elif mode & 7 == OR:
                named[_VALUE] |= 1 if true else 0
            else:
                named[_VALUE] += count_lanes(true)
        named[_COME] += 32
        if M.checks:
            release(M, W, warp, object_named(M, W, block, number))
        W[warp].bar_phase = named[_PHASE] + 1
        if named[_COME] >= (threads if threads else _threads_left(M, W, block)):
            _named_complete(M, W, block, number)
    if op == BAR_ARRIVE:
        W[warp].bar_phase = 0
        return NEXT
    if named[_PHASE] + 1 == W[warp].bar_phase:
        W[warp].wait_kind = WAIT_NAMED
        W[warp].wait_what = number
        W[warp].wait_value = named[_THREADS]
        return PARK
    W[warp].bar_phase = 0
    if M.checks:
        acquire(M, W, warp, object_named(M, W, block, number))
    if op == BAR_RED and columns[D0] >= 0:
        for k in range(32):
            if (mask >> k) & 1:
                lanes(M, W, warp, columns[D0])[k] = np.uint64(named[_RESULT])
    return NEXT


@compiled(none, i64)
def _check_cluster(M: Any, W: Any, cluster: int) -> None:
    """Complete the barrier of a cluster if all warps that have not ended have come."""
    words = i64p(M.cluster + 8 * CLUSTER_WORDS * cluster)
    first = cluster * M.cluster_size * M.nwarps
    come, left = 0, 0
    for warp in range(first, first + M.cluster_size * M.nwarps):
        if W[warp].ended != 0xFFFFFFFF:
            left += 1
            come += 1 if W[warp].cluster_phase == words[1] + 1 else 0
    if left and come == left:
        words[1] += 1
        M.epoch += 1
        if M.checks:
            complete(M, W, object_cluster(M, W, cluster * M.cluster_size))


@compiled(i64, i64, i64, i64)
def _step_cluster(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """CLUSTER_ARRIVE and CLUSTER_WAIT: W[warp].cluster_phase is the phase that it came to, + 1."""
    columns = i64p(row)
    block = warp // M.nwarps
    cluster = block // M.cluster_size
    words = i64p(M.cluster + 8 * CLUSTER_WORDS * cluster)
    if mask != 0xFFFFFFFF & ~W[warp].ended:
        W[warp].wait_kind = WAIT_LANES
        return PARK
    if columns[OP] == CLUSTER_ARRIVE:
        if W[warp].cluster_phase == words[1] + 1:
            fault(M, W, F_BARRIER, warp, row_of(M, W, row), -1, 16, 0)
            return FAULTED
        if M.checks and columns[MODE] & RELAXED:
            release_fenced(M, W, warp, object_cluster(M, W, block))
        elif M.checks:
            release(M, W, warp, object_cluster(M, W, block))
        W[warp].cluster_phase = words[1] + 1
        _check_cluster(M, W, cluster)
        return NEXT
    if W[warp].cluster_phase == 0:
        fault(M, W, F_BARRIER, warp, row_of(M, W, row), -1, 17, 0)
        return FAULTED
    if words[1] < W[warp].cluster_phase:
        W[warp].wait_kind = WAIT_CLUSTER
        return PARK
    if M.checks:
        acquire(M, W, warp, object_cluster(M, W, block))
    return NEXT


@compiled(i64, i64, i64, i64)
def _step_registers(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """SETMAXNREG: to and from the block's pool; nothing where nobody knows what it started with."""
    columns = i64p(row)
    if mask != 0xFFFFFFFF & ~W[warp].ended:
        fault(M, W, F_DIVERGED, warp, row_of(M, W, row), -1, mask, 0)
        return FAULTED
    wanted, has = columns[X0], W[warp].registers
    if M.launch_registers == 0 or has == 0:
        return NEXT
    pool = i64p(M.register_pools + 8 * (warp // M.nwarps))
    if columns[MODE] == INCREASE:
        if wanted < has:
            fault(M, W, F_REGISTERS, warp, row_of(M, W, row), -1, has, wanted)
            return FAULTED
        if pool[0] < 32 * (wanted - has):
            W[warp].wait_kind = WAIT_REGISTERS
            W[warp].wait_what = wanted
            W[warp].wait_value = pool[0]
            return PARK
    elif wanted > has:
        fault(M, W, F_REGISTERS, warp, row_of(M, W, row), -1, has, wanted)
        return FAULTED
    pool[0] -= 32 * (wanted - has)
    W[warp].registers = wanted
    M.epoch += 1
    return NEXT


@compiled(none, i64)
def warp_ended(M: Any, W: Any, warp: int) -> None:
    """All lanes of a warp have ended: barriers that take all warps do not wait for it."""
    block = warp // M.nwarps
    for number in range(16):
        named = i64p(M.named + 8 * NAMED_WORDS * (block * 16 + number))
        if named[_COME] and named[_THREADS] == 0 and named[_COME] >= _threads_left(M, W, block):
            _named_complete(M, W, block, number)
    _check_cluster(M, W, block // M.cluster_size)
    M.epoch += 1


@compiled(none, i64)
def block_ended(M: Any, W: Any, block: int) -> None:
    """All warps of a block have ended: its shared memory is gone."""
    i64p(M.ended_blocks)[block] = 1


@compiled(i64, i64, i64, i64, link=opcodes.BARRIER)
def step_barrier(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Run a row of the barrier family."""
    columns = i64p(row)
    op = columns[OP]
    if op in (MB_TRY, MB_TEST):
        return _step_wait(M, W, warp, row, mask)
    if op <= MB_COMPLETE:
        return _step_arrive(M, W, warp, row, mask)
    if op in (BAR_SYNC, BAR_ARRIVE, BAR_RED):
        return _step_named(M, W, warp, row, mask)
    if op in (CLUSTER_ARRIVE, CLUSTER_WAIT):
        return _step_cluster(M, W, warp, row, mask)
    if op == PROXY_FENCE:
        W[warp].init_fences += 1
        if M.checks:
            proxy_fence(M, W, warp)
    elif op == FENCE:
        if columns[MODE] & INITS:
            W[warp].init_fences += 1
        if M.checks and columns[MODE] & ACQUIRES:
            fence_acquire(M, W, warp)
        if M.checks and columns[MODE] & RELEASES:
            fence(M, W, warp)
    elif op == SETMAXNREG:
        return _step_registers(M, W, warp, row, mask)
    elif op == MB_PENDING:
        a, result = lanes(M, W, warp, columns[A]), lanes(M, W, warp, columns[D0])
        for lane in range(32):
            if (mask >> lane) & 1:
                result[lane] = np.uint64(word_pending(a[lane]))
    return NEXT  # fences order what is in order here; sleep and grid dependencies need no time
