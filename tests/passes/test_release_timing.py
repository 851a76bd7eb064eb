"""Releases that are put off must never keep the producer from what the consumer waits for.

Each kernel here is right as it is written: with every release where the program has it, all roles
reach their end. The emulator decides whether that is still so behind ``schedule_async``.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tiledsl.runtime.emulator import emulate

SIZE = 64
STEPS = 8


@td.function
def ring(a, b, stages):
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (SIZE, SIZE), (SIZE, SIZE), num_pipeline_stages=stages
    )
    return td.InputTilePipeline(payload, num_group_stages=stages)


@td.function
def fill(a, b, stage, k):
    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
    td.tma_load(a, (0, k * SIZE), a_tile, stage.barrier())
    td.tma_load(b, (0, k * SIZE), b_tile, stage.barrier())


@td.function
def dot(stage, acc):
    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
    return td.mma(a_tile, b_tile.T, acc)


@td.function
def consume(pipeline, c):
    consumer = pipeline.consumer()
    acc = td.zeros((SIZE, SIZE), td.float32)
    for _ in range(STEPS):
        with consumer.acquire() as stage:
            acc = dot(stage, acc)
    td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def two_at_once(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int]):
    """The producer needs two empty stages before it fills one."""
    pipeline = ring(a, b, stages)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(0, STEPS, 2):
            one = producer.acquire()
            other = producer.acquire()
            fill(a, b, one, k)
            fill(a, b, other, k + 1)
            one.release()
            other.release()
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def two_held_by_with(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int]):
    """As above, and the second stage is taken on one path only."""
    pipeline = ring(a, b, stages)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(STEPS):
            if k % 2 == 0:
                with producer.acquire() as one:
                    if k < STEPS:
                        with producer.acquire() as other:
                            fill(a, b, other, k + 1)
                    fill(a, b, one, k)
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def drains_in_a_loop(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int]):
    pipeline = ring(a, b, stages)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for half in range(2):
            for k in range(STEPS // 2):
                with producer.acquire() as stage:
                    fill(a, b, stage, half * (STEPS // 2) + k)
            producer.drain()
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def drains_between(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int]):
    pipeline = ring(a, b, stages)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        with producer.acquire() as stage:
            fill(a, b, stage, 0)
        producer.drain()
        for k in range(1, STEPS):
            with producer.acquire() as stage:
                fill(a, b, stage, k)
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def one_value_under_two_names(
    a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int]
):
    """``last`` is the accumulator in flight, under a name that no mma continues."""
    pipeline = ring(a, b, stages)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(STEPS):
            with producer.acquire() as stage:
                fill(a, b, stage, k)
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        acc = last = td.zeros((SIZE, SIZE), td.float32)
        for _ in range(STEPS):
            with consumer.acquire() as stage:
                acc = dot(stage, acc)
            last = acc
        td.tma_store(last, c, (0, 0))


def run(kernel: td.Kernel, stages: int, seed: int | None) -> None:
    rng = np.random.default_rng()
    a, b = (rng.standard_normal((SIZE, STEPS * SIZE)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.full((SIZE, SIZE), np.nan, np.float32)
    lowered = kernel.lower(a, b, c, stages=stages)
    emulate(lowered.kernel, [a, b, c], grid=(1, 1, 1), seed=seed)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.abs(c - expected).max() < 1e-3


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize(
    "kernel",
    [two_at_once, drains_in_a_loop, drains_between, one_value_under_two_names],
    ids=lambda kernel: kernel.name,
)
def test_all_roles_end(kernel: Any, stages: int) -> None:
    for seed in (None, 1, 2, 3):
        run(kernel, stages, seed)


def test_the_producer_fills_the_second_stage_first() -> None:
    """The consumer gets stage 1 only behind stage 0, which is filled last."""
    for seed in (None, 1, 2, 3):
        run(two_held_by_with, 2, seed)


def lookahead(kernel: td.Kernel, stages: int) -> int:
    spec = td.spec((SIZE, SIZE), td.bfloat16)
    out = td.spec((SIZE, SIZE), td.float32)
    lowered = kernel.lower(spec, spec, out, stages=stages).kernel
    (create,) = (op for op in lowered.body.walk() if op.opcode == "pipeline.create")
    found = create.attributes["lookahead"]
    assert isinstance(found, int)
    return found


def test_lookahead() -> None:
    assert lookahead(one_value_under_two_names, 4) == 1
    assert lookahead(two_at_once, 4) == 2
    assert lookahead(two_held_by_with, 4) == 2
    assert lookahead(drains_in_a_loop, 4) == 4
    assert lookahead(drains_between, 3) == 3


def test_a_drain_at_the_end_costs_nothing() -> None:
    @td.kernel(grid=1)
    def drains_last(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int]):
        pipeline = ring(a, b, stages)
        with td.role("load", warps=1):
            producer = pipeline.producer()
            for k in range(STEPS):
                with producer.acquire() as stage:
                    fill(a, b, stage, k)
            producer.drain()
        with td.role("mma", warps=4):
            consume(pipeline, c)

    assert lookahead(drains_last, 4) == 1
    run(drains_last, 2, None)
