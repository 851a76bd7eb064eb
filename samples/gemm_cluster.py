"""A matrix product in clusters: two blocks share each tile of b, and each loads half of it.

The two blocks of a cluster work on tiles of c above each other, which need the same tile of b.
``multicast=0`` says so: along axis 0 of the cluster all blocks take this tile. Each then loads its
share from memory and the hardware writes it to both, which saves a third of the traffic. Who waits
for whom, and that no block leaves while another still writes to it, is the compiler's business.

    python samples/gemm_cluster.py                      # options as in gemm.py
"""

from __future__ import annotations

import sys

from common import run_gemm

import tiledsl as td


@td.kernel(grid=td.persistent, cluster=(2, 1))
def gemm_cluster(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 128,
    BN: td.Constant[int] = 256,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 4,
    k_group: td.Constant[int] = 1,
    partitioned: td.Constant[bool] = True,
    lockstep: td.Constant[bool] = True,
):
    """c[M, N] = a[M, K] @ b[N, K].T, accumulated in float32.

    ``k_group`` tiles lie behind a barrier. ``partitioned``: each block loads its half of a tile of
    b; else the first block of a cluster loads it for both. ``lockstep``: clusters begin their tiles
    together, so that large matrices are read from memory fewer times.
    """
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(
        payload, num_group_stages=stages // k_group, k_group_size=k_group
    )
    # Neighbouring tiles go to the blocks of a cluster.
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8, lockstep=lockstep)
    steps = td.cdiv(K, BK * k_group)

    with td.role("load", warps=1):
        with pipeline.producer() as producer:
            for m, n in tiles:
                for step in range(steps):
                    with producer.acquire() as stage:
                        for k in td.static_range(k_group):
                            a_tile, b_tile = stage.payload().get_tile(stage.stage(), k)
                            at = (step * k_group + k) * BK
                            td.tma_load(a, (m * BM, at), a_tile, stage.barrier())
                            td.tma_load(
                                b, (n * BN, at), b_tile, stage.barrier(),
                                multicast=0, partitioned=partitioned,
                            )  # fmt: skip

    with td.role("mma", warps=8):
        with pipeline.consumer() as consumer:
            for m, n in tiles:
                acc = td.zeros((BM, BN), td.float32)
                for _ in range(steps):
                    with consumer.acquire() as stage:
                        for k in td.static_range(k_group):
                            a_tile, b_tile = stage.payload().get_tile(stage.stage(), k)
                            acc = td.mma(a_tile, b_tile.T, acc)
                td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


def main() -> int:
    return run_gemm(gemm_cluster, "GEMM in clusters of two blocks")


if __name__ == "__main__":
    sys.exit(main())
