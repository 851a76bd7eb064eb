"""Clusters: loads for several blocks at once, and arrivals on the barriers of other blocks."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

import tiledsl as td
from tests.kernels.family.registry import Run, case

MADE: dict[Any, td.Kernel] = {}


def multicast_gemm(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 64,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 3,
    partitioned: td.Constant[bool] = True,
):
    """c = a @ b.T: blocks side by side share tiles of a, blocks above each other tiles of b."""
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1), pipeline.producer() as producer:
        for m, n in tiles:
            for k in range(steps):
                with producer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage)
                    td.tma_load(
                        a, (m * BM, k * BK), a_tile, stage.barrier(),
                        multicast=1, partitioned=partitioned,
                    )  # fmt: skip
                    td.tma_load(
                        b, (n * BN, k * BK), b_tile, stage.barrier(),
                        multicast=0, partitioned=partitioned,
                    )  # fmt: skip
    with td.role("mma", warps=4), pipeline.consumer() as consumer:
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                with consumer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage)
                    acc = td.mma(a_tile, b_tile.T, acc)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


def hand_made(x: td.Tensor, y: td.Tensor, n: td.int32, *, slots: td.Constant[int] = 2):
    """y[block] = x + rank: the first block of a cluster loads for all, by barriers of the user's.

    Every block announces the bytes on a barrier of its own. That it has read a slot it tells its
    own loader and the first block's, which waits for all of them.
    """
    tiles = td.shared((64, 32), x.dtype, number=slots)
    full = td.mbarrier(1, number=slots)
    empty = td.mbarrier(1, number=slots)
    everywhere = td.mbarrier(td.cluster_size(), number=slots)
    with td.role("load", warps=1):
        for i in range(n):
            at, lap = i % slots, i // slots
            empty[at].wait(lap + 1)
            if td.cluster_rank() == 0:
                everywhere[at].wait(lap + 1)
            full[at].arrive_and_expect_bytes(tiles[at].nbytes)
            td.tma_load(x, (i * 64, 0), tiles[at], full[at], multicast=0, partitioned=False)
    with td.role("add", warps=4):
        for i in range(n):
            at = i % slots
            full[at].wait(i // slots)
            value = tiles[at].load()
            empty[at].arrive()
            everywhere[at].arrive(rank=0)
            value = value + td.float32(td.cluster_rank())
            td.tma_store(value, y, (td.block_id(), i * 64, 0))


def around(y: td.Tensor, n: td.int32):
    """y[block, i] = a round number: a baton goes from block to block through their barriers."""
    turn = td.mbarrier(1)
    rank, size = td.cluster_rank(), td.cluster_size()
    with td.role("run", warps=4):
        for i in range(n):
            if rank > 0 or i > 0:
                turn.wait(i if rank > 0 else i - 1)
            td.store(td.full((64, 8), i * size + rank, td.int32), y, (td.block_id(), i * 64, 0))
            turn.arrive(rank=(rank + 1) % size)


def clustered(function: Any, cluster: tuple[int, ...]) -> td.Kernel:
    """A kernel in clusters of this shape."""
    key = function.__name__, cluster
    if key not in MADE:
        MADE[key] = td.kernel(grid=td.persistent, cluster=cluster)(function)
    return MADE[key]


@case
def shared_tiles(run: Run) -> Iterator[str]:
    shapes = ((2, 1), True, 3), ((1, 2), False, 1), ((2, 2), True, 2), ((4, 1), False, 2)
    for cluster, partitioned, stages in shapes:
        kernel = clustered(multicast_gemm, cluster)
        for shape in run.shapes(stages, 64):
            wrong = run.product(kernel, shape, stages=stages, partitioned=partitioned)
            yield wrong and f"cluster {cluster}: {wrong}"


@case
def parts_of_tiles(run: Run) -> Iterator[str]:
    """The other way for the same shapes of clusters."""
    for cluster, partitioned in (((2, 1), False), ((1, 2), True), ((2, 2), False), ((4, 1), True)):
        for shape in (*run.shapes(3, 64), (300, 264, 328)):
            kernel = clustered(multicast_gemm, cluster)
            wrong = run.product(kernel, shape, stages=3, partitioned=partitioned)
            yield wrong and f"cluster {cluster}: {wrong}"


@case
def remote_arrivals(run: Run) -> Iterator[str]:
    for cluster in ((2,), (4,)):
        size = prod(cluster)
        for n in run.trips(2):
            shape = max(1, run.tiled(n, 64)), run.tiled(1, 32, 4)
            x = run.rng.integers(-50, 50, shape).astype(np.float32)
            y = run.output((2 * size, *x.shape))
            clustered(hand_made, cluster)[2 * size](run.place.put(x), y, n)
            expected = x + (np.arange(2 * size) % size).astype(np.float32)[:, None, None]
            expected[:, n * 64 :] = np.nan
            yield run.same(y, expected, f"{n} tiles, cluster {cluster}")


@case
def batons(run: Run) -> Iterator[str]:
    for cluster in ((2, 1), (2, 2)):
        size = prod(cluster)
        for n in run.trips(1, 2):
            rows, columns = max(1, run.tiled(n, 64)), run.tiled(1, 8)
            y = run.output((2 * size, rows, columns), "int32")
            clustered(around, cluster)[2 * size](y, n)
            rounds, ranks = np.arange(rows) // 64, np.arange(2 * size) % size
            expected = np.where(
                rounds < n, rounds * size + ranks[:, None], -1
            )[..., None].repeat(columns, 2).astype(np.int32)  # fmt: skip
            yield run.same(y, expected, f"{n} rounds, cluster {cluster}")
