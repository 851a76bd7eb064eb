"""Counts of asynchronous operations that have ended, for profiles."""

from __future__ import annotations

from typing import Any

from tiledsl.runtime.ptx_machine.core.common import count_lanes, counts_of
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64, none
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.core.sizes import (
    C_COPIES,
    C_FLIGHT,
    C_GLOBAL,
    C_LONGEST,
    C_SHARED,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.isa.bulk_ops import (
    BULK_LOAD,
    BULK_REDUCE,
    BULK_STORE,
    CP_ASYNC,
    Q_BYTES,
    Q_ISSUED,
    Q_KIND,
    Q_MASK,
    Q_ROW,
    Q_VALID,
    TMA_REDUCE,
    TMA_STORE,
)  # fmt: skip


@compiled(none, i64, i64)
def count_flight(M: Any, W: Any, row: int, issued: int) -> None:
    """Count an operation that a row issued at a step, and that ends now."""
    counts, steps = counts_of(M, W, row), M.instructions - issued
    counts[C_COPIES] += 1
    counts[C_FLIGHT] += steps
    if steps > counts[C_LONGEST]:
        counts[C_LONGEST] = steps


@compiled(none, i64)
def count_copy(M: Any, W: Any, entry: int) -> None:
    """Count an entry of the queue that ends now; rows of a tensor count their global bytes."""
    q = i64p(entry)
    counts, kind = counts_of(M, W, q[Q_ROW]), q[Q_KIND]
    count_flight(M, W, q[Q_ROW], q[Q_ISSUED])
    stores = kind in (TMA_STORE, TMA_REDUCE, BULK_STORE, BULK_REDUCE)
    counts[C_SHARED] += q[Q_BYTES] * (1 if stores else count_lanes(q[Q_MASK]))
    if kind in (BULK_LOAD, BULK_STORE, BULK_REDUCE):
        counts[C_GLOBAL] += q[Q_BYTES]
    elif kind == CP_ASYNC:
        counts[C_GLOBAL] += q[Q_VALID]
