"""The same matrix product as ``gemm.py`` in flat style: stages are released by hand.

``acquire()`` without ``with`` gives a stage that must be released exactly once on every path;
forgetting it is a compile error with the line that acquired it. The loads are in a helper of
their own, which is inlined. The machine code is the same as that of ``gemm.py``.

    python samples/gemm_flat.py                         # options as in gemm.py
"""

from __future__ import annotations

import sys

from common import run_gemm

import tiledsl as td


@td.function
def load_tiles(a, b, a_at, b_at, payload, slot, barrier):
    """Start to load one tile of ``a`` and one of ``b`` into a stage; ``barrier`` says when."""
    a_tile, b_tile = payload.get_tile(slot, 0)
    td.tma_load(a, a_at, a_tile, barrier)
    td.tma_load(b, b_at, b_tile, barrier)


@td.kernel(grid=td.persistent)
def gemm_flat(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 128,
    BN: td.Constant[int] = 256,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 4,
):
    """c[M, N] = a[M, K] @ b[N, K].T, accumulated in float32."""
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages, k_group_size=1)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8)

    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(td.cdiv(K, BK)):
                stage = producer.acquire()
                load_tiles(
                    a,
                    b,
                    (m * BM, k * BK),
                    (n * BN, k * BK),
                    stage.payload(),
                    stage.stage(),
                    stage.barrier(),
                )
                stage.release()

    with td.role("mma", warps=8):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(td.cdiv(K, BK)):
                stage = consumer.acquire()
                a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                acc = td.mma(a_tile, b_tile.T, acc)
                stage.release()
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


def main() -> int:
    return run_gemm(gemm_flat, "GEMM, flat style")


if __name__ == "__main__":
    sys.exit(main())
