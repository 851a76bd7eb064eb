"""``td.mma`` of random legal tiles: every way to store the operands, every k-group, every dtype."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td

# Products of these have few enough digits that sums of them are exact in float32.
ARRAYS: dict[str, Any] = {
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


@td.kernel(grid=td.persistent)
def product(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int],
    BN: td.Constant[int],
    BK: td.Constant[int],
    stages: td.Constant[int],
    k_group: td.Constant[int],
    a_turned: td.Constant[bool],
    b_turned: td.Constant[bool],
    warps: td.Constant[int],
):
    """c = A @ B; a is A or its transpose, b is B or its transpose."""
    M, N = c.shape
    K = a.shape[0] if a_turned else a.shape[1]
    payload = td.StandardTilePayload(
        a.dtype,
        b.dtype,
        (BK, BM) if a_turned else (BM, BK),
        (BN, BK) if b_turned else (BK, BN),
        num_pipeline_stages=stages * k_group,
    )
    pipeline = td.InputTilePipeline(payload, stages, k_group)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=2)
    steps = td.cdiv(K, BK * k_group)

    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for step in range(steps):
                with producer.acquire() as stage:
                    for i in td.static_range(k_group):
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), i)
                        k = (step * k_group + i) * BK
                        a_at = (k, m * BM) if a_turned else (m * BM, k)
                        b_at = (n * BN, k) if b_turned else (k, n * BN)
                        td.tma_load(a, a_at, a_tile, stage.barrier())
                        td.tma_load(b, b_at, b_tile, stage.barrier())

    with td.role("mma", warps=warps):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((BM, BN))
            for _ in range(steps):
                with consumer.acquire() as stage:
                    for i in td.static_range(k_group):
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), i)
                        acc = td.mma(
                            a_tile.T if a_turned else a_tile, b_tile.T if b_turned else b_tile, acc
                        )
            td.tma_store(acc, c, (m * BM, n * BN))


def configuration(dtype: str) -> dict[str, Any]:
    """Random constants within what td.mma documents, small enough for registers and memory."""
    wide = np.dtype(ARRAYS[dtype]).itemsize == 2
    parts = random.choice([1, 2])
    b_turned = not wide or random.random() < 0.5
    chosen = {
        "BM": 64 * parts * random.choice([1, 2]),
        "BN": random.randint(1, 16) * 8 if b_turned else random.randint(1, 8) * 16,
        "BK": random.randint(1, 4) * (16 if wide else 32),
        "stages": random.randint(1, 3),
        "k_group": random.choice([1, 2, 3]),
        "a_turned": wide and random.random() < 0.5,
        "b_turned": b_turned,
        "warps": 4 * parts,
    }
    tile_bytes = (chosen["BM"] + chosen["BN"]) * chosen["BK"] * (2 if wide else 1)
    if tile_bytes * chosen["stages"] * chosen["k_group"] > 128 * 1024:
        chosen["stages"] = 1
        chosen["k_group"] = min(chosen["k_group"], 2)
    return chosen


@pytest.mark.parametrize("dtype", [*ARRAYS] * 3)
def test_products(dtype: str) -> None:
    chosen = configuration(dtype)
    M, N, K = (16 * random.randint(1, 12) for _ in range(3))
    print(f"{dtype} {M} x {N} x {K}", chosen)
    A, B = (np.random.randint(-2, 3, shape).astype(np.float32) for shape in ((M, K), (K, N)))
    a = np.ascontiguousarray(A.T if chosen["a_turned"] else A).astype(ARRAYS[dtype])
    b = np.ascontiguousarray(B.T if chosen["b_turned"] else B).astype(ARRAYS[dtype])
    c = np.full((M, N), np.nan, np.float32)
    product(a, b, c, **chosen)
    np.testing.assert_array_equal(c, A @ B)
