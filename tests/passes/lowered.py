"""Kernels for the tests of the passes, and how far to bring them down."""

from __future__ import annotations

from typing import Any

import tiledsl as td
from tiledsl.compiled import CompiledKernel

BF16 = td.spec((512, 512), td.bfloat16)


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
):
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages, k_group_size=1)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8)

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
                for k in range(td.cdiv(K, BK)):
                    with consumer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        acc = td.mma(a_tile, b_tile.T, acc)
                td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


def protocol(kernel: td.Kernel, *args: Any, **constants: Any) -> CompiledKernel:
    """A variant at protocol level; nothing below is made unless asked for."""
    return kernel.lower(*(args or (BF16, BF16, BF16)), **constants)


def consumer_body(kernel: td.Kernel, **constants: Any) -> str:
    """The protocol-level text of the role ``mma``."""
    text = protocol(kernel, **constants).protocol_ir
    return text[text.index('role "mma"') :]
