"""GEMM kernels in the forms that the language offers, each with the same meaning.

All take their tile sizes, stages and warps as constants, so that tests can walk over them.
``samples/gemm.py`` is the plain one.
"""

from __future__ import annotations

import tiledsl as td


@td.kernel(grid=td.persistent)
def gemm(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 128,
    BN: td.Constant[int] = 256,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 4,
    warps: td.Constant[int] = 8,
    group: td.Constant[int] = 8,
):
    """c[M, N] = a[M, K] @ b[N, K].T"""
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages, k_group_size=1)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=group)

    with td.role("load", warps=1):
        with pipeline.producer() as producer:
            for m, n in tiles:
                for k in range(td.cdiv(K, BK)):
                    with producer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                        td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())

    with td.role("mma", warps=warps):
        with pipeline.consumer() as consumer:
            for m, n in tiles:
                acc = td.zeros((BM, BN), td.float32)
                for _ in range(td.cdiv(K, BK)):
                    with consumer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        acc = td.mma(a_tile, b_tile.T, acc)
                td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=td.persistent)
def gemm_nn(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 128,
    BN: td.Constant[int] = 256,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 4,
    warps: td.Constant[int] = 8,
):
    """c[M, N] = a[M, K] @ b[K, N]: b is read along N (MN-major)."""
    M, K = a.shape
    _, N = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BK, BN), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=4)

    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(td.cdiv(K, BK)):
                with producer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                    td.tma_load(b, (k * BK, n * BN), b_tile, stage.barrier())

    with td.role("mma", warps=warps):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(td.cdiv(K, BK)):
                with consumer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    acc = td.mma(a_tile, b_tile, acc)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=td.persistent)
def gemm_tn(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 128,
    BN: td.Constant[int] = 128,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 4,
    warps: td.Constant[int] = 8,
):
    """c[M, N] = a[K, M].T @ b[K, N]: both are read along their outer dimension (MN-major)."""
    K, M = a.shape
    _, N = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BK, BM), (BK, BN), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=4)

    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(td.cdiv(K, BK)):
                with producer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    td.tma_load(a, (k * BK, m * BM), a_tile, stage.barrier())
                    td.tma_load(b, (k * BK, n * BN), b_tile, stage.barrier())

    with td.role("mma", warps=warps):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(td.cdiv(K, BK)):
                with consumer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    acc = td.mma(a_tile.T, b_tile, acc)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=td.persistent)
def gemm_k_group(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 128,
    BN: td.Constant[int] = 128,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 3,
    k_group: td.Constant[int] = 2,
    warps: td.Constant[int] = 8,
):
    """c[M, N] = a[M, K] @ b[N, K].T with ``k_group`` tiles of each operand in a stage."""
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages * k_group
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages, k_group_size=k_group)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8)

    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(td.cdiv(K, BK * k_group)):
                with producer.acquire() as stage:
                    for i in td.static_range(k_group):
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), i)
                        at = (k * k_group + i) * BK
                        td.tma_load(a, (m * BM, at), a_tile, stage.barrier())
                        td.tma_load(b, (n * BN, at), b_tile, stage.barrier())

    with td.role("mma", warps=warps):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(td.cdiv(K, BK * k_group)):
                with consumer.acquire() as stage:
                    for i in td.static_range(k_group):
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), i)
                        acc = td.mma(a_tile, b_tile.T, acc)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=td.persistent)
def gemm_batched(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 128,
    BN: td.Constant[int] = 128,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 3,
    warps: td.Constant[int] = 8,
):
    """c[i, M, N] = a[i, M, K] @ b[i, N, K].T for each i"""
    batches, M, K = a.shape
    _, N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8)

    with td.role("load", warps=1):
        producer = pipeline.producer()
        for i in range(batches):
            for m, n in tiles:
                for k in range(td.cdiv(K, BK)):
                    with producer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        td.tma_load(a, (i, m * BM, k * BK), a_tile, stage.barrier())
                        td.tma_load(b, (i, n * BN, k * BK), b_tile, stage.barrier())

    with td.role("mma", warps=warps):
        consumer = pipeline.consumer()
        for i in range(batches):
            for m, n in tiles:
                acc = td.zeros((BM, BN), td.float32)
                for _ in range(td.cdiv(K, BK)):
                    with consumer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        acc = td.mma(a_tile, b_tile.T, acc)
                td.tma_store(acc.to(c.dtype), c, (i, m * BM, n * BN))
