"""A matrix product with a loader warp and two tensor-core warpgroups, context-manager style.

python samples/gemm.py                              # on the GPU, else in the emulator
python samples/gemm.py --m 1000 --k 72 --dtype float16
python samples/gemm.py --dump ptx                   # or ir, protocol, llvm, sass
"""

from __future__ import annotations

import sys

from common import run_gemm

import tiledsl as td


@td.kernel(grid=td.persistent)  # one block per SM, each walking over its share of the tiles
def gemm(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 128,
    BN: td.Constant[int] = 256,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 4,
    lockstep: td.Constant[bool] = False,
):
    """c[M, N] = a[M, K] @ b[N, K].T, accumulated in float32."""
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages, k_group_size=1)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8, lockstep=lockstep)

    # The loader: waits for a free stage, and lets the copy engine fill it.
    with td.role("load", warps=1):
        with pipeline.producer() as producer:
            for m, n in tiles:
                for k in range(td.cdiv(K, BK)):
                    with producer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                        td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())

    # The tensor cores: wait for a full stage, multiply, give the stage back.
    with td.role("mma", warps=8):
        with pipeline.consumer() as consumer:
            for m, n in tiles:
                acc = td.zeros((BM, BN), td.float32)
                for _ in range(td.cdiv(K, BK)):
                    with consumer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        acc = td.mma(a_tile, b_tile.T, acc)
                td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


def main() -> int:
    return run_gemm(gemm, "GEMM, context-manager style")


if __name__ == "__main__":
    sys.exit(main())
