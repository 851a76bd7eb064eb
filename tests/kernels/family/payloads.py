"""What a stage holds: payloads of the user's own, scaled fp8 operands, tiles in groups."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

import tiledsl as td
from tests.kernels import gemm
from tests.kernels.family.registry import Array, Run, case
from tests.kernels.oracle import accumulated, round_to

# ------------------------------------------------------------------ a payload of the user's own


@td.payload
class Scaled:
    """Two tiles of a and b each, and the scale of each row of a, behind one barrier."""

    a: td.TileArray
    b: td.TileArray
    scale: td.TileArray
    group: int

    def pair(self, stage, k):
        return self.a[stage, k], self.b[stage.stage(), k]

    @property
    def depth(self):
        return self.group * self.a.shape[1]


@td.kernel(grid=td.persistent)
def scaled_rows(
    a: td.Tensor,
    b: td.Tensor,
    scales: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 72,
    BK: td.Constant[int] = 32,
    stages: td.Constant[int] = 3,
):
    """c[m, n] = sum over steps s of scales[s, m] * (a[m, step s] @ b[n, step s].T)"""
    (M, K), N = a.shape, b.shape[0]
    payload = Scaled(
        a=td.TileArray(a.dtype, (BM, BK), 2 * stages),
        b=td.TileArray(b.dtype, (BN, BK), 2 * stages),
        scale=td.TileArray(td.float32, (BM,), stages),
        group=2,
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN))
    steps = td.cdiv(K, payload.depth)
    with td.role("load", warps=1), pipeline.producer() as producer:
        for m, n in tiles:
            for step in range(steps):
                with producer.acquire() as stage:
                    td.tma_load(
                        scales, (step, m * BM), stage.payload().scale[stage], stage.barrier()
                    )
                    for k in td.static_range(payload.group):
                        a_tile, b_tile = stage.payload().pair(stage, k)
                        at = step * payload.depth + k * BK
                        td.tma_load(a, (m * BM, at), a_tile, stage.barrier())
                        td.tma_load(b, (n * BN, at), b_tile, stage.barrier())
    with td.role("mma", warps=4), pipeline.consumer() as consumer:
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                with consumer.acquire() as stage:
                    part = td.zeros((BM, BN), td.float32)
                    for k in td.static_range(payload.group):
                        a_tile, b_tile = stage.payload().pair(stage, k)
                        part = td.mma(a_tile, b_tile.T, part)
                    scale = stage.payload().scale[stage].load()
                    acc = acc + part * scale[:, None]
            td.tma_store(acc, c, (m * BM, n * BN))


@case
def own_payload(run: Run) -> Iterator[str]:
    for stages in (1, 3):
        for m, n, k in run.shapes(stages, 64):
            a, b = run.normal((m, k)), run.normal((n, k))
            steps = -(-k // 64)
            scales = run.normal((steps, -(-m // 4) * 4), "float32")
            c = run.output((m, n))
            scaled_rows(*map(run.place.put, (a, b, scales)), c, stages=stages)
            scaled = a.astype(np.float64) * np.repeat(scales.T[:m], 64, axis=1)[:, :k]
            expected = round_to(*accumulated(scaled, b), "float32")
            yield run.check(c, expected, f"{m}x{n}x{k}, {stages} stages")


# --------------------------------------------------------------------------- blockwise scaled fp8


@td.kernel(grid=td.persistent)
def blockwise_fp8(
    a: td.Tensor,
    b: td.Tensor,
    a_scales: td.Tensor,
    b_scales: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 128,
    stages: td.Constant[int] = 3,
    k_group: td.Constant[int] = 1,
):
    """c[m, n] = sum over blocks of 128 along K of a_scales[block, m] * b_scales[n // BN, block]
    * (a[m, block] @ b[n, block].T): each product on the tensor cores, their sum beside them.
    """
    (M, K), N = a.shape, b.shape[0]
    payload = td.BlockwiseFP8TilePayload(
        a.dtype, b.dtype, (BM, 128), (BN, 128), (BM,), num_pipeline_stages=stages * k_group
    )
    pipeline = td.InputTilePipeline(payload, stages, k_group)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN))
    steps = td.cdiv(K, 128 * k_group)
    with td.role("load", warps=1), pipeline.producer() as producer:
        for m, n in tiles:
            for step in range(steps):
                with producer.acquire() as stage:
                    for k in td.static_range(k_group):
                        block = step * k_group + k
                        a_tile, b_tile, s_tile = stage.payload().get_tile(stage.stage(), k)
                        td.tma_load(a, (m * BM, block * 128), a_tile, stage.barrier())
                        td.tma_load(b, (n * BN, block * 128), b_tile, stage.barrier())
                        td.tma_load(a_scales, (block, m * BM), s_tile, stage.barrier())
    with td.role("mma", warps=4), pipeline.consumer() as consumer:
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for step in range(steps):
                with consumer.acquire() as stage:
                    for k in td.static_range(k_group):
                        block = step * k_group + k
                        a_tile, b_tile, s_tile = stage.payload().get_tile(stage.stage(), k)
                        part = td.mma(a_tile, b_tile.T, td.zeros((BM, BN), td.float32))
                        if block * 128 < K:  # of a last group that is not full, the rest is zero
                            scale = s_tile.load() * b_scales[n, block]
                            acc = acc + part * scale[:, None]
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


def _fp8(run: Run, shape: tuple[int, int], dtype: str) -> Array:
    return run.rng.standard_normal(shape, np.float32).astype(getattr(ml_dtypes, dtype))


@case
def blockwise_scales(run: Run) -> Iterator[str]:
    for dtype, stages, group in (("float8_e4m3fn", 3, 1), ("float8_e5m2", 2, 2)):
        for m, n, k in run.shapes(stages, 128 * group, 16):
            blocks = -(-k // 128)
            a, b = _fp8(run, (m, k), dtype), _fp8(run, (n, k), dtype)
            a_scales = 2 ** run.normal((blocks, -(-m // 4) * 4), "float32")
            b_scales = 2 ** run.normal((-(-n // 128), blocks), "float32")
            c = run.output((m, n), "bfloat16")
            arguments = map(run.place.put, (a, b, a_scales, b_scales))
            blockwise_fp8(*arguments, c, stages=stages, k_group=group)
            rows = np.repeat(a_scales.T[:m], 128, axis=1)[:, :k]
            columns = np.repeat(np.repeat(b_scales, 128, axis=0)[:n], 128, axis=1)[:, :k]
            exact, error = accumulated(a.astype(np.float64) * rows, b.astype(np.float64) * columns)
            # Tensor cores keep about 14 bits of a sum of fp8 products: hence the two levels.
            error = 2.0**-7 * error / max(k, 1) * 2.0**23
            expected = round_to(exact, error, "bfloat16")
            yield run.check(c, expected, f"{m}x{n}x{k} {dtype}, {stages} stages of {group}")


# ------------------------------------------------------------------------ tiles in groups (K)


@case
def k_group(run: Run) -> Iterator[str]:
    """The last group is ragged: whole tiles of it lie behind K, and read as zeros."""
    for stages, group in ((1, 2), (3, 2), (2, 3)):
        for shape in run.shapes(stages, 32 * group):
            yield run.product(
                gemm.gemm_k_group, shape, BM=64, BN=64, BK=32, stages=stages, k_group=group, warps=4
            )
