"""Kernels as users write them, with more rings and roles than a plain GEMM."""

from __future__ import annotations

import tiledsl as td


@td.kernel(grid=1)
def long_consumer(a: td.Tensor, b: td.Tensor, c: td.Tensor, extra: td.int32):
    payload = td.StandardTilePayload(a.dtype, b.dtype, (64, 64), (64, 64), num_pipeline_stages=2)
    pipeline = td.InputTilePipeline(payload, num_group_stages=2)
    steps = td.cdiv(a.shape[1], 64)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(steps):
            with producer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage())
                td.tma_load(a, (0, 64 * k), a_tile, stage.barrier())
                td.tma_load(b, (0, 64 * k), b_tile, stage.barrier())
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        acc = td.zeros((64, 64), td.float32)
        for _ in range(steps + extra):
            with consumer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage())
                acc = td.mma(a_tile, b_tile.T, acc)
        td.tma_store(acc.to(c.dtype), c, (0, 0))


@td.kernel(grid=td.persistent)
def two_consumers(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    d: td.Tensor,
    *,
    stages: td.Constant[int] = 3,
    group: td.Constant[int] = 1,
):
    """c = a @ b.T and d = 2 (a @ b.T), by two roles that read the same stages."""
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (64, 64), (64, 64), num_pipeline_stages=stages * group
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages, k_group_size=group)
    tiles = td.TileScheduler(td.cdiv(c.shape[0], 64), td.cdiv(c.shape[1], 64))
    steps = td.cdiv(a.shape[1], 64 * group)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(steps):
                with producer.acquire() as stage:
                    for j in td.static_range(group):
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), j)
                        td.tma_load(a, (64 * m, 64 * (group * k + j)), a_tile, stage.barrier())
                        td.tma_load(b, (64 * n, 64 * (group * k + j)), b_tile, stage.barrier())
        producer.drain()
    with td.role("once", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((64, 64), td.float32)
            for _ in range(steps):
                with consumer.acquire() as stage:
                    for j in td.static_range(group):
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), j)
                        acc = td.mma(a_tile, b_tile.T, acc)
            td.tma_store(acc.to(c.dtype), c, (64 * m, 64 * n))
    with td.role("twice", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((64, 64), td.float32)
            for _ in range(steps):
                stage = consumer.acquire()
                for j in td.static_range(group):
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), j)
                    acc = td.mma(a_tile, b_tile.T, acc)
                stage.release()
            td.tma_store((acc * 2.0).to(d.dtype), d, (64 * m, 64 * n))


@td.kernel(grid=td.persistent)
def two_rings(a: td.Tensor, b: td.Tensor, c: td.Tensor, d: td.Tensor, out: td.Tensor):
    """out = a @ b.T + c @ d.T, the second product through a ring and a loader of its own."""
    first = td.StandardTilePayload(a.dtype, b.dtype, (64, 64), (64, 64), num_pipeline_stages=2)
    second = td.StandardTilePayload(c.dtype, d.dtype, (64, 32), (64, 32), num_pipeline_stages=3)
    ring_ab = td.InputTilePipeline(first, num_group_stages=2)
    ring_cd = td.InputTilePipeline(second, num_group_stages=3)
    tiles = td.TileScheduler(td.cdiv(out.shape[0], 64), td.cdiv(out.shape[1], 64))
    with td.role("load_ab", warps=1):
        producer = ring_ab.producer()
        for m, n in tiles:
            for k in range(td.cdiv(a.shape[1], 64)):
                with producer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage())
                    td.tma_load(a, (64 * m, 64 * k), a_tile, stage.barrier())
                    td.tma_load(b, (64 * n, 64 * k), b_tile, stage.barrier())
    with td.role("load_cd", warps=1):
        producer = ring_cd.producer()
        for m, n in tiles:
            for k in range(td.cdiv(c.shape[1], 32)):
                with producer.acquire() as stage:
                    c_tile, d_tile = stage.payload().get_tile(stage.stage())
                    td.tma_load(c, (64 * m, 32 * k), c_tile, stage.barrier())
                    td.tma_load(d, (64 * n, 32 * k), d_tile, stage.barrier())
    with td.role("mma", warps=4):
        consumer_ab = ring_ab.consumer()
        consumer_cd = ring_cd.consumer()
        for m, n in tiles:
            acc = td.zeros((64, 64), td.float32)
            for _ in range(td.cdiv(a.shape[1], 64)):
                with consumer_ab.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage())
                    acc = td.mma(a_tile, b_tile.T, acc)
            for _ in range(td.cdiv(c.shape[1], 32)):
                with consumer_cd.acquire() as stage:
                    c_tile, d_tile = stage.payload().get_tile(stage.stage())
                    acc = td.mma(c_tile, d_tile.T, acc)
            td.tma_store(acc.to(out.dtype), out, (64 * m, 64 * n))
