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
# W[warp].wait_kind: what a warp waits for.
(
    WAIT_NONE, WAIT_MBARRIER, WAIT_NAMED, WAIT_CLUSTER, WAIT_REGISTERS, WAIT_LANES, WAIT_WARPGROUP,
) = range(7)  # fmt: skip
