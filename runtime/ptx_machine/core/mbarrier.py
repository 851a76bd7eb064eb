"""mbarriers: 64 bits of shared memory with phase, arrivals still to come, and tx-count.

The word: 2 bits that say "initialised", phase parity 1, arrivals to come 20, arrivals of a phase
20, tx-count 21 (two's complement). To a program it is opaque. Its state token is the word itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.core.address import shared_place
from tiledsl.runtime.ptx_machine.core.common import fault
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64, none, u64
from tiledsl.runtime.ptx_machine.core.order import (
    complete,
    object_mbarrier,
    release,
    release_agent,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.core.raw import i64p, u64p
from tiledsl.runtime.ptx_machine.opcodes import (
    F_MBARRIER,
    SHARED,
    SHARED_BASE,
    SHARED_WINDOW,
    WINDOW_MASK,
)  # fmt: skip

# What is wrong with an mbarrier: the second number of an F_MBARRIER fault.
NOT_INITIALISED, TOO_MANY_ARRIVALS, TX_OVERFLOW, BAD_COUNT, INITIALISED_TWICE = range(1, 6)
MOST = (1 << 20) - 1
_INITIALISED = 2


@compiled(u64, i64, i64, i64, i64, state=False)
def packed_word(phase: int, pending: int, expected: int, tx: int) -> int:
    """The word of an mbarrier."""
    return np.uint64(_INITIALISED << 62 | phase << 61 | pending << 41 | expected << 21) | np.uint64(
        tx & 0x1FFFFF
    )


@compiled(i64, u64, state=False)
def word_phase(word: int) -> int:
    """The parity of the phase under way."""
    return np.int64((word >> np.uint64(61)) & np.uint64(1))


@compiled(i64, u64, state=False)
def word_pending(word: int) -> int:
    """Arrivals that this phase still waits for."""
    return np.int64((word >> np.uint64(41)) & np.uint64(MOST))


@compiled(i64, u64, state=False)
def word_expected(word: int) -> int:
    """Arrivals of a whole phase."""
    return np.int64((word >> np.uint64(21)) & np.uint64(MOST))


@compiled(i64, u64, state=False)
def word_tx(word: int) -> int:
    """Bytes expected and not yet here; negative when they came first."""
    tx = np.int64(word & np.uint64(0x1FFFFF))
    return tx - 0x200000 if tx & 0x100000 else tx


@compiled(i64, i64, i64, i64, i64, i64)
def barrier_place(M: Any, W: Any, warp: int, row: int, lane: int, address: int, space: int) -> int:
    """Block << 32 | offset of the mbarrier at an address, -1 after a fault."""
    if space != SHARED:
        if address & ~WINDOW_MASK != SHARED_WINDOW:
            fault(M, W, F_MBARRIER, warp, row, lane, address, NOT_INITIALISED)
            return -1
        address &= WINDOW_MASK
    return shared_place(M, W, warp, row, lane, address, 8)


@compiled(i64, i64, i64)
def word_at(M: Any, W: Any, block: int, offset: int) -> int:
    """The host address of an mbarrier's word."""
    return M.shared + block * M.shared_stride + offset


@compiled(none, i64, i64, i64, i64)
def _note_phase(M: Any, W: Any, block: int, offset: int, warp: int, ended: int) -> None:
    """For reports: a warp has arrived, or (``ended``) a phase is complete."""
    noted = i64p(M.phases + 16 * (block * 2 * M.ngranules + (offset >> 3)))
    place = warp % (M.cluster_size * M.nwarps)
    if ended:
        noted[0] += 1
        noted[1] = 0
    elif place < 62:
        noted[1] |= 1 << place


@compiled(none, i64, i64)
def first_phase(M: Any, W: Any, block: int, offset: int) -> None:
    """An mbarrier is initialised: no phase has ended, nobody has arrived."""
    noted = i64p(M.phases + 16 * (block * 2 * M.ngranules + (offset >> 3)))
    noted[0] = 0
    noted[1] = 0


@compiled(u64, i64, i64, i64, i64, i64, i64, i64)
def update(
    M: Any, W: Any, block: int, offset: int, arrivals: int, tx: int, drop: int, warp: int, row: int
) -> int:
    """Arrivals and bytes for an mbarrier, together; the word as it was before."""
    place = u64p(word_at(M, W, block, offset))
    word = place[0]
    address = (block % M.cluster_size) << 24 | (offset + SHARED_BASE)
    if word >> np.uint64(62) != np.uint64(_INITIALISED):
        fault(M, W, F_MBARRIER, warp, row, -1, address, NOT_INITIALISED)
        return word
    phase, expected = word_phase(word), word_expected(word) - drop
    pending, count = word_pending(word) - arrivals, word_tx(word) + tx
    if pending < 0 or expected < 0:
        fault(M, W, F_MBARRIER, warp, row, -1, address, TOO_MANY_ARRIVALS)
        return word
    if count > MOST or count < -MOST:
        fault(M, W, F_MBARRIER, warp, row, -1, address, TX_OVERFLOW)
        return word
    if arrivals:
        _note_phase(M, W, block, offset, warp, 0)
    if pending == 0 and count == 0:
        _note_phase(M, W, block, offset, warp, 1)
        phase, pending = 1 - phase, expected
        if M.checks:
            complete(M, W, object_mbarrier(M, W, block, offset))
        M.epoch += 1
    place[0] = packed_word(phase, pending, expected, count)
    return word


@compiled(u64, i64, i64, i64, i64, i64, i64, i64)
def arrive(
    M: Any, W: Any, block: int, offset: int, arrivals: int, tx: int, drop: int, warp: int, row: int
) -> int:
    """Arrivals by a warp, with release semantics: what it did is seen by who waits."""
    if M.checks:
        release(M, W, warp, object_mbarrier(M, W, block, offset))
    return update(M, W, block, offset, arrivals, tx, drop, warp, row)


@compiled(none, i64, i64, i64, i64, i64, i64)
def complete_tx(
    M: Any, W: Any, block: int, offset: int, nbytes: int, warp: int, agent: int, row: int
) -> None:
    """An asynchronous copy of a warp's agent has brought so many bytes."""
    if M.checks:
        release_agent(M, W, warp, agent, object_mbarrier(M, W, block, offset))
    update(M, W, block, offset, 0, -nbytes, 0, warp, row)
