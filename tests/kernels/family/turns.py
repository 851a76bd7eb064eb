"""Replicas of a role: in turns through one ring, or each with every stage."""

from __future__ import annotations

from collections.abc import Iterator

import tiledsl as td
from tests.kernels.family.registry import Run, case


@td.kernel(grid=td.persistent)
def ping_pong(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 64,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 3,
    warps: td.Constant[int] = 4,
    replicas: td.Constant[int] = 2,
):
    """c = a @ b.T: while one replica multiplies, the others write their tiles."""
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
                    td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                    td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())
    with td.role("mma", warps=warps, replicas=replicas) as me, pipeline.consumer() as consumer:
        for m, n in tiles.deal(me):
            acc = td.zeros((BM, BN), td.float32)
            with me.turn():
                for _ in range(steps):
                    with consumer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage)
                        acc = td.mma(a_tile, b_tile.T, acc)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=td.persistent)
def together(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BN: td.Constant[int] = 64,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 2,
    replicas: td.Constant[int] = 2,
):
    """c = a @ b.T: every replica reads every stage, and makes 64 rows of the block's tile."""
    BM = 64 * replicas
    payload = Rows(
        td.TileArray(a.dtype, (64, BK), stages * replicas),
        td.TileArray(b.dtype, (BN, BK), stages),
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1), pipeline.producer() as producer:
        for m, n in tiles:
            for k in range(steps):
                with producer.acquire() as stage:
                    for i in td.static_range(replicas):
                        a_tile = stage.payload().a[stage, i]
                        td.tma_load(a, (m * BM + 64 * i, k * BK), a_tile, stage.barrier())
                    td.tma_load(b, (n * BN, k * BK), stage.payload().b[stage], stage.barrier())
    with td.role("mma", warps=4, replicas=replicas) as me, pipeline.consumer() as consumer:
        for m, n in tiles:
            acc = td.zeros((64, BN), td.float32)
            for _ in range(steps):
                with consumer.acquire() as stage:
                    a_tile, b_tile = stage.payload().a[stage, me.index], stage.payload().b[stage]
                    acc = td.mma(a_tile, b_tile.T, acc)
            td.tma_store(acc.to(c.dtype), c, (m * BM + 64 * me.index, n * BN))


@td.payload
class Rows:
    """A tile of a for each replica, and one of b for all."""

    a: td.TileArray
    b: td.TileArray


@td.kernel(grid=td.persistent)
def shared_weights(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    D: td.Constant[int] = 64,
    stages: td.Constant[int] = 2,
    replicas: td.Constant[int] = 2,
):
    """c = a @ b.T for K <= D, with two rings: tiles of a in turns, and b read in full by each."""
    BM, BN = 64, 64
    left = td.InputTilePipeline(td.TileArray(a.dtype, (BM, D), stages), stages)
    right = td.InputTilePipeline(td.TileArray(b.dtype, (BN, D), stages), stages)
    rows, columns = td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN)
    first, step = td.block_id(), td.num_blocks()
    with td.role("load", warps=1):
        for n in range(first, columns, step):
            with right.producer().acquire() as stage:
                td.tma_load(b, (n * BN, 0), stage.tile(), stage.barrier())
            for m in range(rows):
                with left.producer().acquire() as stage:
                    td.tma_load(a, (m * BM, 0), stage.tile(), stage.barrier())
    with td.role("mma", warps=4, replicas=replicas) as me:
        for n in range(first, columns, step):
            with right.consumer().acquire() as weights:
                for m in range(me.index, td.cdiv(rows, me.count) * me.count, me.count):
                    acc = td.zeros((BM, BN), td.float32)
                    with me.turn():
                        if m < rows:
                            with left.consumer().acquire() as stage:
                                acc = td.mma(stage.tile(), weights.tile().T, acc)
                    if m < rows:
                        td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@case
def in_turns(run: Run) -> Iterator[str]:
    for replicas, warps, stages in ((2, 4, 3), (3, 4, 2), (2, 4, 1)):
        for shape in run.shapes(stages, 64):
            yield run.product(
                ping_pong, shape, stages=stages, replicas=replicas, warps=warps, BM=16 * warps
            )
    for replicas in (2, 3):
        for tiles in (*run.trips(replicas), 9):  # of one block: fewer than turns, and laps
            shape = run.tiled(tiles, 64), 8, 200
            yield run.product(ping_pong[1], shape, stages=2, replicas=replicas)


@case
def of_two_warpgroups(run: Run) -> Iterator[str]:
    for shape in run.shapes(2, 64):
        yield run.product(ping_pong, shape, stages=2, warps=8, BM=128)


@case
def all_of_it(run: Run) -> Iterator[str]:
    for replicas, stages in ((2, 2), (3, 1)):
        for shape in run.shapes(stages, 64):
            yield run.product(together, shape, stages=stages, replicas=replicas)


@case
def both_ways(run: Run) -> Iterator[str]:
    for replicas, stages in ((2, 1), (3, 2)):
        for trips in run.trips(stages):  # of the ring in turns, then of the one read by all
            for n in (run.extent(8), run.tiled(1, 64, 8)):
                shape = run.tiled(trips, 64), n, 8 * int(run.rng.integers(1, 9))
                yield run.product(shared_weights, shape, stages=stages, replicas=replicas)
            shape = run.extent(), run.tiled(trips, 64, 8), 8 * int(run.rng.integers(1, 9))
            yield run.product(shared_weights[1], shape, stages=stages, replicas=replicas)
