"""The ways to acquire and release: in ``with`` and flat, asked first, by helpers, without views."""

from __future__ import annotations

from collections.abc import Iterator

import tiledsl as td
from tests.kernels.family.registry import Run, case

BM, BN, BK = 64, 64, 64


@td.function
def operands(a, b, stages):
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    return td.InputTilePipeline(payload, num_group_stages=stages)


@td.function
def load(a, b, m, n, k, stage):
    """Fill a stage that the caller holds."""
    a_tile, b_tile = stage.payload().get_tile(stage)
    td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
    td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())


@td.function
def multiply(stage, acc):
    a_tile, b_tile = stage.payload().get_tile(stage)
    return td.mma(a_tile, b_tile.T, acc)


@td.kernel(grid=td.persistent)
def flat(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int] = 3):
    """Stages acquired and released by hand, asked for ahead of time; drained at the end."""
    pipeline = operands(a, b, stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        ready = producer.try_acquire()
        for m, n in tiles:
            for k in range(steps):
                stage = producer.acquire_if_needed(ready)
                load(a, b, m, n, k, stage)
                stage.release()
                ready = producer.try_acquire()
        producer.drain()
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                stage = consumer.acquire_stage()
                acc = multiply(stage, acc)
                stage.release()
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=td.persistent)
def scoped(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int] = 3):
    """The same in ``with`` statements; the consumer asks ahead, too."""
    pipeline = operands(a, b, stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1), pipeline.producer() as producer:
        for m, n in tiles:
            for k in range(steps):
                with producer.acquire_if_needed(producer.try_acquire()) as stage:
                    load(a, b, m, n, k, stage)
            producer.drain()
    with td.role("mma", warps=4), pipeline.consumer() as consumer:
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            ready = consumer.try_acquire()
            for _ in range(steps):
                with consumer.acquire_if_needed(ready) as stage:
                    acc = multiply(stage, acc)
                ready = consumer.try_acquire()
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.function
def next_filled(a, b, m, n, k, producer):
    """A stage with its loads on their way, for the caller to hand on."""
    stage = producer.acquire()
    load(a, b, m, n, k, stage)
    return stage


@td.function
def hand_on(stages):
    """Takes the stages over."""
    for stage in stages:
        stage.release()


@td.function
def taken(consumer, acc):
    """Acquires; the caller releases what it gets."""
    stage = consumer.acquire()
    return stage, multiply(stage, acc)


@td.kernel(grid=td.persistent)
def helped(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int] = 3):
    """Stages come from helpers and go into helpers; one is held while the next is acquired."""
    pipeline = operands(a, b, stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(steps // 2):
                first = next_filled(a, b, m, n, 2 * k, producer)
                second = next_filled(a, b, m, n, 2 * k + 1, producer)
                hand_on((first, second))
            if steps % 2 == 1:
                next_filled(a, b, m, n, steps - 1, producer).release()
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                stage, acc = taken(consumer, acc)
                hand_on((stage,))
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=td.persistent)
def direct(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int] = 3):
    """No views: what they do, called on the pipeline itself, with the barriers by name."""
    pipeline = operands(a, b, stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1):
        for m, n in tiles:
            for k in range(steps):
                pipeline.wait_empty_if_needed(pipeline.try_acquire_producer())
                with pipeline.acquire_producer() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage)
                    td.tma_load(a, (m * BM, k * BK), a_tile, pipeline.full_mbar(stage))
                    td.tma_load(b, (n * BN, k * BK), b_tile, stage.mbar())
                    stage.expect_bytes(a_tile.nbytes + b_tile.nbytes)
        pipeline.drain_producer()
    with td.role("mma", warps=4):
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                pipeline.wait_full_if_needed(pipeline.try_acquire_consumer())
                at = pipeline.consumer_stage()
                with pipeline.acquire_consumer() as stage:
                    a_tile, b_tile = stage.payload().get_tile(at)
                    acc = td.mma(a_tile, b_tile.T, acc)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


def _products(run: Run, kernel: td.Kernel, depths: tuple[int, ...]) -> Iterator[str]:
    for stages in depths:
        for shape in run.shapes(stages, BK):
            yield run.product(kernel, shape, stages=stages)


@case
def by_hand(run: Run) -> Iterator[str]:
    yield from _products(run, flat, (1, 3))


@case
def in_with(run: Run) -> Iterator[str]:
    yield from _products(run, scoped, (1, 3))


@case
def through_helpers(run: Run) -> Iterator[str]:
    yield from _products(run, helped, (2, 3))


@case
def without_views(run: Run) -> Iterator[str]:
    yield from _products(run, direct, (1, 3))
