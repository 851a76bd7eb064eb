"""Bank conflicts: how many wavefronts an access to shared memory takes beyond the first."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.core.address import space_of
from tiledsl.runtime.ptx_machine.core.common import counts_of, lanes, row_of
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64, none
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.core.sizes import C_CONFLICTS, C_WAVEFRONTS, C_WORST
from tiledsl.runtime.ptx_machine.opcodes import GENERIC, IMM, OFFSET_MASK, SHARED, SPACE, A


@compiled(i64, i64, i64, i64)
def wavefronts(M: Any, W: Any, addresses: int, count: int, nbytes: int) -> int:
    """The most different words that any of the 32 banks must give: i64 addresses of some lanes."""
    where = i64p(addresses)
    words = nbytes >> 2 if nbytes > 4 else 1
    worst = 1
    for bank in range(32):
        found = 0
        for k in range(count):
            for w in range(words):
                word = (where[k] >> 2) + w
                if word & 31 != bank:
                    continue
                known = False
                for other in range(k):
                    first = where[other] >> 2
                    if first <= word < first + words:
                        known = True
                if not known:
                    found += 1
        if found > worst:
            worst = found
    return worst


@compiled(none, i64, i64, i64)
def note_access(M: Any, W: Any, row: int, count: int, nbytes: int) -> None:
    """Count the wavefronts of ``count`` addresses in M.scratch that go together."""
    counts, needed = counts_of(M, W, row_of(M, W, row)), wavefronts(M, W, M.scratch, count, nbytes)
    counts[C_WAVEFRONTS] += 1
    counts[C_CONFLICTS] += needed - 1
    if needed > counts[C_WORST]:
        counts[C_WORST] = needed


@compiled(none, i64, i64, i64, i64)
def count_conflicts(M: Any, W: Any, warp: int, row: int, mask: int, nbytes: int) -> None:
    """Count the conflicts of a load or store of ``nbytes`` by each lane of a mask."""
    columns = i64p(row)
    base, scratch = lanes(M, W, warp, columns[A]), i64p(M.scratch)
    # 8 bytes a lane go in two halves of a warp, 16 in four quarters.
    together = 32 if nbytes <= 4 else 16 if nbytes == 8 else 8
    for start in range(0, 32, together):
        count = 0
        for lane in range(start, start + together):
            if (mask >> lane) & 1:
                address = np.int64(base[lane]) + columns[IMM]
                space = columns[SPACE]
                if space == GENERIC:
                    space = space_of(address)
                if space == SHARED:
                    scratch[count] = address & OFFSET_MASK
                    count += 1
        if count:
            note_access(M, W, row, count, nbytes)
