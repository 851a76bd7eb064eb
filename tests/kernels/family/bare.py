"""Rings without tiles: what a stage guards is the user's own, and so are arrivals if he likes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tiledsl as td
from tests.kernels.family.registry import Run, case

ROWS, COLUMNS = 64, 64


@td.kernel(grid=1)
def produced(x: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int] = 2):
    """y = 2 x: a role writes tiles of its own, another reads them; counts are derived."""
    ring = td.ProducerConsumerPipeline(stages)
    rows = td.shared((ROWS, COLUMNS), x.dtype, number=stages)
    with td.role("make", warps=4):
        for i in range(n):
            with ring.produce() as stage:
                rows[stage.index()].store(td.load(x, (i * ROWS, 0), (ROWS, COLUMNS)) * 2.0)
    with td.role("use", warps=4):
        for i in range(n):
            with ring.consume() as stage:
                td.store(rows[stage.index()].load(), y, (i * ROWS, 0))


@td.kernel(grid=1)
def explicit(x: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int] = 2):
    """y = 2 x: the consumer gives a slot back as soon as its tile is in registers."""
    ring = td.ProducerConsumerPipeline(stages, producer_count=1, consumer_count=1)
    rows = td.shared((ROWS, COLUMNS), x.dtype, number=stages)
    with td.role("load", warps=1):
        producer = ring.producer()
        for i in range(n):
            with producer.acquire() as stage:
                td.tma_load(x, (i * ROWS, 0), rows[stage.index()], stage.barrier())
        producer.drain()
    with td.role("use", warps=4):
        for i in range(n):
            with ring.consume_explicit() as stage:
                value = rows[stage.index()].load()
                stage.arrive()
                td.store(value * 2.0, y, (i * ROWS, 0))


@td.kernel(grid=1)
def raw(x: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int] = 2):
    """y = 2 x: wait, arrive on the barriers and step, all by hand."""
    ring = td.ProducerConsumerPipeline(stages, producer_count=1, consumer_count=1)
    rows = td.shared((ROWS, COLUMNS), x.dtype, number=stages)
    with td.role("load", warps=1):
        for i in range(n):
            ring.wait_empty_if_needed(ring.try_wait_empty())
            at = ring.producer_stage()
            ring.full_mbar(at).arrive_and_expect_bytes(rows[at].nbytes)
            td.tma_load(x, (i * ROWS, 0), rows[at], ring.producer_mbar(at))
            ring.producer_step()
        ring.drain_producer()
    with td.role("use", warps=4):
        for i in range(n):
            ring.wait_full()
            at = ring.consumer_stage()
            td.store(rows[at].load() * 2.0, y, (i * ROWS, 0))
            ring.empty_mbar(at).arrive()
            ring.consumer_step()


@td.kernel(grid=1)
def early(x: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int] = 2):
    """y = 2 x: the arrival comes before the end of the stage, which then tells nobody."""
    ring = td.ProducerConsumerPipeline(stages)
    rows = td.shared((ROWS, COLUMNS), x.dtype, number=stages)
    with td.role("make", warps=4):
        for i in range(n):
            stage = ring.acquire_producer()
            rows[stage.index()].store(td.load(x, (i * ROWS, 0), (ROWS, COLUMNS)))
            stage.arrive()
            stage.release_without_signal()
    with td.role("use", warps=4):
        consumer = ring.consumer()
        for i in range(n):
            stage = consumer.acquire_if_needed(consumer.try_acquire())
            value = rows[stage.index()].load()
            stage.arrive()
            td.store(value * 2.0, y, (i * ROWS, 0))
            stage.release_without_signal()


@td.kernel(grid=1)
def tokens(x: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int] = 2):
    """y = 2 x: a ring that only counts; the slot is the user's number of the round."""
    ring = td.ProducerConsumerPipeline(stages)
    rows = td.shared((ROWS, COLUMNS), x.dtype, number=stages)
    with td.role("make", warps=4):
        for i in range(n):
            ring.wait_empty()
            rows[i % stages].store(td.load(x, (i * ROWS, 0), (ROWS, COLUMNS)) * 2.0)
            ring.producer_signal_and_step()
    with td.role("use", warps=4):
        for i in range(n):
            ring.wait_full()
            value = rows[i % stages].load()
            ring.consumer_signal_and_step()
            td.store(value, y, (i * ROWS, 0))


def _doubled(run: Run, kernel: td.Kernel) -> Iterator[str]:
    for stages in (1, 2, 3):
        for n in run.trips(stages):
            shape = max(1, run.tiled(n, ROWS)), run.tiled(1, COLUMNS, 8)
            x = run.rng.integers(-50, 50, shape).astype(np.float16)
            y = run.output(shape, "float16")
            kernel(run.place.put(x), y, n, stages=stages)
            expected = 2 * x
            expected[n * ROWS :] = np.nan
            yield run.same(y, expected, f"{n} tiles of {shape}, {stages} stages")


@case
def produce_and_consume(run: Run) -> Iterator[str]:
    yield from _doubled(run, produced)


@case
def consume_explicit(run: Run) -> Iterator[str]:
    yield from _doubled(run, explicit)


@case
def wait_arrive_and_step(run: Run) -> Iterator[str]:
    yield from _doubled(run, raw)


@case
def release_without_signal(run: Run) -> Iterator[str]:
    yield from _doubled(run, early)


@case
def signal_and_step(run: Run) -> Iterator[str]:
    yield from _doubled(run, tokens)
