"""A ring of barriers that guards shared tiles; its two sides are functions of the test."""

from __future__ import annotations

from typing import Any

import numpy as np

import tiledsl as td
from tests.kernels.family.registry import Run

ROWS, COLUMNS = 64, 64


@td.kernel(grid=1)
def passed_on(
    x: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int],
    make: td.Constant[Any], use: td.Constant[Any], counts: td.Constant[Any] = None,
):  # fmt: skip
    """y = x through ``stages`` shared tiles that a bare ring guards; its sides are functions."""
    if counts is None:
        ring = td.ProducerConsumerPipeline(stages)
    else:
        ring = td.ProducerConsumerPipeline(
            stages, producer_count=counts[0], consumer_count=counts[1]
        )
    rows = td.shared((ROWS, COLUMNS), x.dtype, number=stages)
    with td.role("make", warps=4):
        for i in range(n):
            make(ring, rows, x, i)
    with td.role("use", warps=4):
        for i in range(n):
            use(ring, rows, y, i)


@td.function
def put(x, i, tile):
    tile.store(td.load(x, (i * ROWS, 0), (ROWS, COLUMNS)))


@td.function
def make_plain(ring, rows, x, i):
    with ring.produce() as stage:
        put(x, i, rows[stage.index()])


@td.function
def use_plain(ring, rows, y, i):
    with ring.consume() as stage:
        td.store(rows[stage.index()].load(), y, (i * ROWS, 0))


def check(run: Run, stages: tuple[int, ...] = (1, 3), **sides: Any) -> Any:
    """y = x for all trip counts; the last variant."""
    sides = {"make": make_plain, "use": use_plain, **sides}
    for depth in stages:
        for n in run.trips(depth):
            x = run.normal((max(n, 1) * ROWS, COLUMNS), "float32")
            y = run.output(x.shape)
            passed_on(run.place.put(x), y, n, stages=depth, **sides)
            expected = np.full_like(x, np.nan)
            expected[: n * ROWS] = x[: n * ROWS]
            wrong = run.same(y, expected, f"{n} of {depth}")
            assert not wrong, wrong
    return passed_on.variants[-1]


def compile_by(**sides: Any) -> Any:
    """A variant, compiled without a GPU."""
    spec = td.spec((256, COLUMNS), td.float32)
    sides = {"make": make_plain, "use": use_plain, "stages": 2, **sides}
    return passed_on.compile(spec, spec, td.int32, **sides)


@td.function
def make_waiting(ring, rows, x, i):
    ring.wait_empty()
    put(x, i, rows[ring.producer_stage()])
    ring.producer_signal_and_step()


@td.function
def use_waiting(ring, rows, y, i):
    ring.wait_full()
    td.store(rows[ring.consumer_stage()].load(), y, (i * ROWS, 0))
    ring.consumer_signal_and_step()
