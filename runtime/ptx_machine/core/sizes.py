"""Sizes of the machine's tables, and codes that reports read: no compiled code."""

from __future__ import annotations

# core/order.py: agents of a warp, records of each 16 bytes, named barriers of a block.
AGENTS = 3
RECORDS = 16
NAMED = 16

# core/divergence.py: open meetings of a warp.
MEETINGS = 96

# core/barrier.py: words of a named barrier's state, and of a cluster's.
NAMED_WORDS = 8
CLUSTER_WORDS = 2
# Columns of M.row_counts: bytes by state space (opcodes.SPACES) come first.
(
    C_GENERIC, C_PARAM, C_SHARED, C_LOCAL, C_GLOBAL, C_CONST,
    C_WAVEFRONTS,  # of shared accesses: those that any access of this width takes
    C_CONFLICTS,  # wavefronts beyond these
    C_WORST,  # wavefronts of the worst access
    C_COPIES,  # asynchronous operations that have ended
    C_FLIGHT,  # steps (warp instructions of all warps) from their issue to their end
    C_LONGEST,
    C_WAITS,  # how often a warp had to wait here
    C_WAITED,  # steps that it waited
) = range(14)  # fmt: skip
COUNTS = 16

# W[warp].wait_kind: what a warp waits for.
(
    WAIT_NONE, WAIT_MBARRIER, WAIT_NAMED, WAIT_CLUSTER, WAIT_REGISTERS, WAIT_LANES, WAIT_WARPGROUP,
) = range(7)  # fmt: skip
