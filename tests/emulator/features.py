"""Kernels as users write them, one for each thing that the emulator must know."""

from __future__ import annotations

import tiledsl as td


@td.kernel(cluster=(2, 2), grid=td.persistent)
def shared_loads(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    stages: td.Constant[int] = 3,
    partitioned: td.Constant[bool] = True,
):
    """c = a @ b.T: blocks of a cluster share a along axis 1 and b along axis 0."""
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (64, 64), (64, 64), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(c.shape[0], 64), td.cdiv(c.shape[1], 64))
    steps = td.cdiv(a.shape[1], 64)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(steps):
                with producer.acquire() as stage:
                    x, y = stage.payload().get_tile(stage.stage())
                    at = 64 * k
                    td.tma_load(
                        a, (64 * m, at), x, stage.barrier(), multicast=1, partitioned=partitioned
                    )
                    td.tma_load(
                        b, (64 * n, at), y, stage.barrier(), multicast=0, partitioned=partitioned
                    )
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((64, 64), td.float32)
            for _ in range(steps):
                with consumer.acquire() as stage:
                    x, y = stage.payload().get_tile(stage.stage())
                    acc = td.mma(x, y.T, acc)
            td.tma_store(acc.to(c.dtype), c, (64 * m, 64 * n))


@td.kernel(grid=td.persistent)
def in_turns(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    replicas: td.Constant[int] = 2,
    warps: td.Constant[int] = 4,
    stages: td.Constant[int] = 3,
):
    """c = a @ b.T, by replicas that take turns at multiplying and at storing."""
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (16 * warps, 64), (64, 64), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(c.shape[0], 16 * warps), td.cdiv(c.shape[1], 64))
    steps = td.cdiv(a.shape[1], 64)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(steps):
                with producer.acquire() as stage:
                    x, y = stage.payload().get_tile(stage.stage())
                    td.tma_load(a, (16 * warps * m, 64 * k), x, stage.barrier())
                    td.tma_load(b, (64 * n, 64 * k), y, stage.barrier())
    with td.role("mma", warps=warps, replicas=replicas) as me:
        consumer = pipeline.consumer()
        for m, n in tiles.deal(me):
            acc = td.zeros((16 * warps, 64), td.float32)
            with me.turn():
                for _ in range(steps):
                    with consumer.acquire() as stage:
                        x, y = stage.payload().get_tile(stage.stage())
                        acc = td.mma(x, y.T, acc)
            with me.turn("store"):
                td.tma_store(acc.to(c.dtype), c, (16 * warps * m, 64 * n))


@td.kernel(grid=td.persistent)
def by_threads(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, warps: td.Constant[int] = 4):
    """c = a @ b.T for tensors of any alignment: loaded by cp.async."""
    payload = td.StandardTilePayload(a.dtype, b.dtype, (64, 64), (64, 64), num_pipeline_stages=3)
    pipeline = td.InputTilePipeline(payload, num_group_stages=3)
    tiles = td.TileScheduler(td.cdiv(c.shape[0], 64), td.cdiv(c.shape[1], 64))
    steps = td.cdiv(a.shape[1], 64)
    with td.role("load", warps=warps):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(steps):
                with producer.acquire() as stage:
                    x, y = stage.payload().get_tile(stage.stage())
                    td.async_copy(a, (64 * m, 64 * k), x, stage.barrier())
                    td.async_copy(b, (64 * n, 64 * k), y, stage.barrier())
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((64, 64), td.float32)
            for _ in range(steps):
                with consumer.acquire() as stage:
                    x, y = stage.payload().get_tile(stage.stage())
                    acc = td.mma(x, y.T, acc)
            td.store(acc.to(c.dtype), c, (64 * m, 64 * n))


@td.kernel(grid=td.persistent)
def epilogue(a: td.Tensor, b: td.Tensor, bias: td.Tensor, scale: td.Tensor, c: td.Tensor):
    """c = sigmoid((a @ b.T) * scale[:, None] + bias[None, :]), asking before it waits."""
    payload = td.StandardTilePayload(a.dtype, b.dtype, (64, 64), (64, 64), num_pipeline_stages=2)
    pipeline = td.InputTilePipeline(payload, num_group_stages=2)
    tiles = td.TileScheduler(td.cdiv(c.shape[0], 64), td.cdiv(c.shape[1], 64))
    steps = td.cdiv(a.shape[1], 64)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(steps):
                ready = producer.try_acquire()
                stage = producer.acquire_if_needed(ready)
                x, y = stage.payload().get_tile(stage.stage())
                td.tma_load(a, (64 * m, 64 * k), x, stage.barrier())
                td.tma_load(b, (64 * n, 64 * k), y, stage.barrier())
                stage.release()
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((64, 64), td.float32)
            for _ in range(steps):
                ready = consumer.try_acquire()
                stage = consumer.acquire_if_needed(ready)
                x, y = stage.payload().get_tile(stage.stage())
                acc = td.mma(x, y.T, acc)
                stage.release()
            down = td.load(scale, (64 * m,), (64,))
            across = td.load(bias, (64 * n,), (64,))
            acc = td.sigmoid(acc * down[:, None] + across[None, :])
            td.tma_store(acc.to(c.dtype), c, (64 * m, 64 * n))


@td.kernel(grid=lambda args: args.splits)
def split_sum(a: td.Tensor, b: td.Tensor, c: td.Tensor, splits: td.int32):
    """c += a @ b.T: each block adds its share of the k steps."""
    payload = td.StandardTilePayload(a.dtype, b.dtype, (64, 64), (64, 64), num_pipeline_stages=2)
    pipeline = td.InputTilePipeline(payload, num_group_stages=2)
    first = td.block_id(0)
    steps = td.cdiv(a.shape[1], 64)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(first, steps, max(splits, 1)):
            with producer.acquire() as stage:
                x, y = stage.payload().get_tile(stage.stage())
                td.tma_load(a, (0, 64 * k), x, stage.barrier())
                td.tma_load(b, (0, 64 * k), y, stage.barrier())
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        acc = td.zeros((64, 64), td.float32)
        for _ in range(first, steps, max(splits, 1)):
            with consumer.acquire() as stage:
                x, y = stage.payload().get_tile(stage.stage())
                acc = td.mma(x, y.T, acc)
        td.tma_store(acc.to(c.dtype), c, (0, 0), reduce="add")


@td.kernel(grid=td.persistent)
def convolution(
    x: td.Tensor,
    w: td.Tensor,
    out: td.Tensor,
    *,
    stride: td.Constant[int] = 1,
    pad: td.Constant[int] = 1,
):
    """3x3 convolution of x (N, H, W, C) with w (K, 9 C); out is (N P Q, K)."""
    rows = (x.shape[1] + 2 * pad - 3) // stride + 1
    columns = (x.shape[2] + 2 * pad - 3) // stride + 1
    payload = td.StandardTilePayload(x.dtype, w.dtype, (64, 64), (64, 64), num_pipeline_stages=3)
    pipeline = td.InputTilePipeline(payload, num_group_stages=3)
    tiles = td.TileScheduler(td.cdiv(out.shape[0], 64), td.cdiv(out.shape[1], 64))
    chunks = td.cdiv(x.shape[3], 64)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            first = 64 * m
            q = first % columns
            p = first // columns % rows
            image = first // (columns * rows)
            for r in range(3):
                for s in range(3):
                    for c in range(chunks):
                        with producer.acquire() as stage:
                            pixels, filters = stage.payload().get_tile(stage.stage())
                            td.tma_load_im2col(
                                x,
                                (image, p * stride - pad, q * stride - pad, 64 * c),
                                (r, s),
                                pixels,
                                stage.barrier(),
                                lower=(-pad, -pad),
                                upper=(pad - 2, pad - 2),
                                strides=(stride, stride),
                            )
                            column = (3 * r + s) * x.shape[3] + 64 * c
                            td.tma_load(w, (64 * n, column), filters, stage.barrier())
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((64, 64), td.float32)
            for _ in range(9 * chunks):
                with consumer.acquire() as stage:
                    pixels, filters = stage.payload().get_tile(stage.stage())
                    acc = td.mma(pixels, filters.T, acc)
            td.tma_store(acc.to(out.dtype), out, (64 * m, 64 * n))


@td.kernel(grid=1)
def handed_over(x: td.Tensor, y: td.Tensor, rounds: td.int32):
    """y[i] = 2 * x[i] for tiles i: raw barriers, a shared tile and a named barrier."""
    tile = td.shared((64, 64), x.dtype)
    result = td.shared((64, 64), y.dtype)
    loaded = td.mbarrier(1)
    stored = td.named_barrier()
    with td.role("load", warps=1):
        for i in range(rounds):
            loaded.arrive_and_expect_bytes(64 * 64 * x.dtype.itemsize)
            td.tma_load(x, (64 * i, 0), tile, loaded)
            stored.sync()
    with td.role("double", warps=4):
        for i in range(rounds):
            loaded.wait(i % 2)
            value = tile.load()
            result.store((value + value).to(y.dtype))
            td.tma_store(result, y, (64 * i, 0))
            stored.sync()
