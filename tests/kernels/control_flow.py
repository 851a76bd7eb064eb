"""GEMMs whose roles branch, leave early or are one program, and a copy through shared memory."""

from __future__ import annotations

import tiledsl as td


@td.kernel(grid=td.persistent)
def gemm_some_blocks(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    first: td.int32,
    skip: td.int32,
    limit: td.int32,
    *,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 64,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 3,
):
    """c = a @ b.T over some of the K blocks: from ``first``, not ``skip``, none from ``limit`` on.

    The loader leaves its loop with ``break`` and ``continue``, the other role counts the blocks.
    """
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=2)
    steps = td.cdiv(K, BK)

    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(steps):
                if k < first or k == skip:
                    continue
                if k >= limit:
                    break
                with producer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                    td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())

    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        end = min(steps, limit)
        count = max(end - first, 0)
        if first <= skip < end:
            count -= 1
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            done = 0
            while done < count:
                with consumer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    acc = td.mma(a_tile, b_tile.T, acc)
                done += 1
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=td.persistent)
def gemm_early_return(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    last_row: td.int32,
    *,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 64,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 2,
):
    """c = a @ b.T, but nothing where a tile begins behind ``last_row``.

    Row tiles are walked outermost, so each role returns at the first tile that is too far.
    """
    M, K = a.shape
    N, _ = b.shape
    if K == 0:
        return
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=1)

    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            if m * BM > last_row:
                return
            for k in range(td.cdiv(K, BK)):
                with producer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                    td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())

    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            if m * BM > last_row:
                return
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(td.cdiv(K, BK)):
                with consumer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    acc = td.mma(a_tile, b_tile.T, acc)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=td.persistent, warps=8)
def gemm_one_program(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 128,
    BN: td.Constant[int] = 128,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 4,
    ahead: td.Constant[int] = 2,
):
    """c = a @ b.T without roles: one program loads ``ahead`` blocks before it computes."""
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    producer, consumer = pipeline.producer(), pipeline.consumer()
    steps = td.cdiv(K, BK)

    for m, n in td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8):
        acc = td.zeros((BM, BN), td.float32)
        for k in range(steps + ahead):
            if k < steps:
                with producer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                    td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())
            if k >= ahead:
                with consumer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    acc = td.mma(a_tile, b_tile.T, acc)
        td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=td.persistent)
def copy_pair(
    x: td.Tensor,
    y: td.Tensor,
    x_copy: td.Tensor,
    y_copy: td.Tensor,
    *,
    rows: td.Constant[int] = 64,
    columns: td.Constant[int] = 128,
    stages: td.Constant[int] = 3,
):
    """Copy two tensors of one shape through shared memory, with TMA both ways."""
    M, N = x.shape
    payload = td.StandardTilePayload(
        x.dtype, y.dtype, (rows, columns), (rows, columns), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(M, rows), td.cdiv(N, columns), group=4)

    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            with producer.acquire() as stage:
                x_tile, y_tile = stage.payload().get_tile(stage.stage(), 0)
                td.tma_load(x, (m * rows, n * columns), x_tile, stage.barrier())
                td.tma_load(y, (m * rows, n * columns), y_tile, stage.barrier())

    with td.role("store", warps=1):
        consumer = pipeline.consumer()
        for m, n in tiles:
            with consumer.acquire() as stage:
                x_tile, y_tile = stage.payload().get_tile(stage.stage(), 0)
                td.tma_store(x_tile, x_copy, (m * rows, n * columns))
                td.tma_store(y_tile, y_copy, (m * rows, n * columns))
