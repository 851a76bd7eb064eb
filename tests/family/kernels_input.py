"""Kernels whose consumer asks the barriers of its stages which phases are over."""

from __future__ import annotations

import tiledsl as td


@td.function
def fill(pipeline, x, n):
    for _ in range(n):
        with pipeline.acquire_producer() as stage:
            td.tma_load(x, (0, 0), stage.tile(), stage.barrier())


@td.kernel(grid=1)
def phases(done: td.Tensor, x: td.Tensor, n: td.int32, *, stages: td.Constant[int]):
    """done[i]: is this lap's phase over, of the full and of the empty barrier of a held stage?"""
    pipeline = td.InputTilePipeline(td.TileArray(x.dtype, (8, 64), stages), stages)
    with td.role("load", warps=1):
        fill(pipeline, x, n)
    with td.role("use", warps=1):
        for i in range(n):
            at = pipeline.consumer_stage()
            lap = i // stages % 2
            with pipeline.acquire_consumer() as stage:
                done[i, 0] = 1 if pipeline.producer_mbar(at).try_wait(lap) else 0
                done[i, 1] = 1 if pipeline.full_mbar(stage).try_wait(lap) else 0
                done[i, 2] = 1 if pipeline.consumer_mbar(at).try_wait(lap) else 0
                done[i, 3] = 1 if pipeline.empty_mbar(stage).try_wait(lap) else 0


@td.kernel(grid=1)
def asks_around_its_arrival(
    done: td.Tensor, x: td.Tensor, n: td.int32, *, stages: td.Constant[int]
):
    """done[i]: is the phase of the stage's empty barrier over, before and behind arrive()?"""
    pipeline = td.InputTilePipeline(td.TileArray(x.dtype, (8, 64), stages), stages)
    with td.role("load", warps=1):
        fill(pipeline, x, n)
    with td.role("use", warps=1):
        for i in range(n):
            lap = i // stages % 2
            stage = pipeline.acquire_consumer()
            barrier = stage.mbar()
            done[i, 0] = 1 if barrier.try_wait(lap) else 0
            stage.arrive()
            done[i, 1] = 1 if barrier.try_wait(lap) else 0
            stage.release_without_signal()
