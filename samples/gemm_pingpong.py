"""A matrix product in which two warpgroups take turns: one multiplies, the other writes its tile.

``replicas=2`` makes two copies of the role, each with a whole tile of c of its own. Both read the
same pipeline; ``me.turn()`` hands its stages to the one whose turn it is. While the tensor cores
work for one replica, the other converts and stores the tile that it has finished, so that they
never wait for an epilogue. That pays where K is short.

    python samples/gemm_pingpong.py                     # options as in gemm.py
"""

from __future__ import annotations

import sys

from common import run_gemm

import tiledsl as td


@td.kernel(grid=td.persistent, cluster=(1, 1))  # (2, 1): pairs of blocks share the tiles of b
def gemm_pingpong(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 128,
    BN: td.Constant[int] = 128,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 6,
    k_group: td.Constant[int] = 1,
):
    """c[M, N] = a[M, K] @ b[N, K].T, accumulated in float32; ``k_group`` tiles behind a barrier."""
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(
        payload, num_group_stages=stages // k_group, k_group_size=k_group
    )
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8)
    steps = td.cdiv(K, BK * k_group)

    # The loader sees all tiles of the block, in the order of the turns.
    with td.role("load", warps=1):
        with pipeline.producer() as producer:
            for m, n in tiles:
                for step in range(steps):
                    with producer.acquire() as stage:
                        for k in td.static_range(k_group):
                            a_tile, b_tile = stage.payload().get_tile(stage.stage(), k)
                            at = (step * k_group + k) * BK
                            td.tma_load(a, (m * BM, at), a_tile, stage.barrier())
                            td.tma_load(b, (n * BN, at), b_tile, stage.barrier(), multicast=0)

    # Each replica sees every second one.
    with td.role("mma", warps=4, replicas=2) as me:
        with pipeline.consumer() as consumer:
            for m, n in tiles.deal(me):
                acc = td.zeros((BM, BN), td.float32)
                with me.turn():
                    for _ in range(steps):
                        with consumer.acquire() as stage:
                            for k in td.static_range(k_group):
                                a_tile, b_tile = stage.payload().get_tile(stage.stage(), k)
                                acc = td.mma(a_tile, b_tile.T, acc)
                td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


def main() -> int:
    return run_gemm(gemm_pingpong, "GEMM in which two warpgroups take turns")


if __name__ == "__main__":
    sys.exit(main())
