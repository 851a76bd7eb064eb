"""Which mbarriers the async proxy may not see yet: initialised, and no fence behind it.

``mbarrier.init`` is a write in the generic proxy. A copy that signals the mbarrier does so in the
async proxy, so that the thread that initialised it must run ``fence.mbarrier_init`` or
``fence.proxy.async`` behind, or the one that issues the copy a proxy fence once it knows of it.
Ordered it must be as well; that is seen elsewhere, by the word that is not an mbarrier yet.

M.inits: four numbers for each 8 bytes of shared memory: warp + 1 that initialised it, how many
such fences it had run, its epoch, the row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.core.common import fault
from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, i64, none
from tiledsl.runtime.ptx_machine.core.mbarrier import INITIALISED_TWICE
from tiledsl.runtime.ptx_machine.core.order import WRITE
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.core.sizes import AGENTS
from tiledsl.runtime.ptx_machine.opcodes import F_MBARRIER, F_PROXY, RANK_SHIFT, SHARED_BASE


@compiled(i64, i64, i64)
def _place(M: Any, W: Any, block: int, offset: int) -> int:
    return M.inits + 32 * (block * 2 * M.ngranules + (offset >> 3))


@compiled(b1, i64, i64, i64, i64)
def note_init(M: Any, W: Any, warp: int, block: int, offset: int, row: int) -> bool:
    """A warp has initialised the mbarrier at a byte of a block's shared memory.

    False after a fault: it is one already.
    """
    note = i64p(_place(M, W, block, offset))
    if note[0]:
        address = (block % M.cluster_size << RANK_SHIFT) + SHARED_BASE + offset
        fault(M, W, F_MBARRIER, warp, row, -1, address, INITIALISED_TWICE)
        return False
    note[0] = warp + 1
    note[1] = W[warp].init_fences
    note[2] = i64p(M.clocks + 8 * warp * M.ncomponents)[warp * AGENTS]
    note[3] = row
    return True


@compiled(none, i64, i64)
def forget_init(M: Any, W: Any, block: int, offset: int) -> None:
    """``mbarrier.inval``: the word is no mbarrier any more."""
    i64p(_place(M, W, block, offset))[0] = 0


@compiled(b1, i64, i64, i64, i64)
def seen_by_copies(M: Any, W: Any, warp: int, block: int, offset: int, row: int) -> bool:
    """May a copy that this warp issues signal the mbarrier? False after a fault."""
    note = i64p(_place(M, W, block, offset))
    if note[0] == 0:
        return True
    writer = note[0] - 1
    known = i64p(M.proxies + 8 * warp * M.ncomponents)[writer * AGENTS]
    if W[writer].init_fences > note[1] or known >= note[2]:
        return True
    address = (block % M.cluster_size << RANK_SHIFT) + SHARED_BASE + offset
    component = writer * np.int64(AGENTS)
    fault(M, W, F_PROXY, warp, row, -1, address, note[3] << 32 | component << 8 | WRITE)
    return False
