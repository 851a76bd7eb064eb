"""Operations of the barrier family."""

from __future__ import annotations

(
    MB_INIT, MB_INVAL, MB_ARRIVE, MB_EXPECT, MB_COMPLETE, MB_TEST, MB_TRY, MB_PENDING,
    BAR_SYNC, BAR_ARRIVE, BAR_RED, CLUSTER_ARRIVE, CLUSTER_WAIT, FENCE, PROXY_FENCE, SETMAXNREG,
    NANOSLEEP, GRID_DEPENDENCY,
) = range(18)  # fmt: skip

# MODE of MB_ARRIVE, MB_TEST and MB_TRY.
RELAXED, DROP, EXPECTS, NO_COMPLETE, PARITY = 1, 2, 4, 8, 16
# MODE of BAR_RED.
POPC, AND, OR = range(3)
# MODE of bar: all lanes of the warp must be there (.aligned).
ALIGNED = 8
# MODE of FENCE: relaxed operations behind it release what is in front of it; what relaxed waits in
# front of it have found is acquired; it makes mbarriers known to copies.
RELEASES, ACQUIRES, INITS = 1, 2, 4
# MODE of SETMAXNREG.
DECREASE, INCREASE = range(2)
