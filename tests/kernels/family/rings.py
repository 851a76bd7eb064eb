"""Several rings in a kernel: keys and values with release points of their own, and a relay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tiledsl as td
from tests.kernels.family.registry import Run, case
from tests.kernels.oracle import Reference, accumulated, numpy_dtype, reference, round_to

BM, BN = 64, 64


@td.kernel(grid=td.persistent)
def keys_and_values(
    q: td.Tensor,
    k: td.Tensor,
    v: td.Tensor,
    o: td.Tensor,
    *,
    D: td.Constant[int] = 64,
    k_stages: td.Constant[int] = 2,
    v_stages: td.Constant[int] = 3,
    warps: td.Constant[int] = 4,
):
    """o = round(q @ k.T) @ v: attention without its softmax.

    A key tile goes back before the product with the value tile begins; what lies between the two
    products goes through shared memory.
    """
    queries = td.InputTilePipeline(td.TileArray(q.dtype, (BM, D), 1), 1)
    keys = td.InputTilePipeline(td.TileArray(k.dtype, (BN, D), k_stages), k_stages)
    values = td.InputTilePipeline(td.TileArray(v.dtype, (BN, D), v_stages), v_stages)
    between = td.shared((BM, BN), q.dtype)
    tiles = td.TileScheduler(td.cdiv(q.shape[0], BM), 1)
    steps = td.cdiv(k.shape[0], BN)
    with td.role("load", warps=1):
        for m, _ in tiles:
            with queries.producer().acquire() as stage:
                td.tma_load(q, (m * BM, 0), stage.tile(), stage.barrier())
            for n in range(steps):
                with keys.producer().acquire() as stage:
                    td.tma_load(k, (n * BN, 0), stage.tile(), stage.barrier())
                with values.producer().acquire() as stage:
                    td.tma_load(v, (n * BN, 0), stage.tile(), stage.barrier())
    with td.role("mma", warps=warps):
        for m, _ in tiles:
            out = td.zeros((BM, D), td.float32)
            with queries.consumer().acquire() as query:
                for _ in range(steps):
                    with keys.consumer().acquire() as key:
                        score = td.mma(query.tile(), key.tile().T, td.zeros((BM, BN), td.float32))
                    between.store(score.to(q.dtype))
                    with values.consumer().acquire() as value:
                        out = td.mma(between, value.tile(), out)
            td.tma_store(out.to(o.dtype), o, (m * BM, 0))


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Reference:
    """The result, and what rounding the scores to another side of a middle may change."""
    scores, error = accumulated(q, k)
    low, middle, high = (_rounded(scores + e) for e in (-error, 0, error))
    result, summed = accumulated(middle, v.T)
    return round_to(result, summed + (high - low) @ abs(v.astype(np.float64)), "float32")


def _rounded(scores: np.ndarray) -> np.ndarray:
    return scores.astype(np.float32).astype(numpy_dtype("bfloat16")).astype(np.float64)


@case
def keys_values(run: Run) -> Iterator[str]:
    for stages in ((1, 1), (2, 3)):
        shapes = [(m, run.tiled(trips, BN)) for trips in run.trips(*stages)
                  for m in (run.extent(), run.tiled(1, BM))]  # fmt: skip
        laps = [(run.tiled(trips, BM), 72) for trips in run.trips(1)]  # of queries in one block
        for number, (m, n) in enumerate(shapes + laps):
            kernel = keys_and_values if number < len(shapes) else keys_and_values[1]
            depth = 8 * int(run.rng.integers(1, 9))
            q, k, v = (run.normal((rows, depth)) for rows in (m, n, n))
            o = run.output((m, depth))
            arguments = map(run.place.put, (q, k, v))
            kernel(*arguments, o, k_stages=stages[0], v_stages=stages[1])
            yield run.check(o, _attention(q, k, v), f"{m} x {n} x {depth}, stages {stages}")


@td.kernel(grid=td.persistent)
def relay(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 2,
    relayed: td.Constant[int] = 2,
    warps: td.Constant[int] = 4,
):
    """c = relu(a) @ b.T: a role takes tiles from one ring, and puts what it makes into another."""
    N = b.shape[0]
    raw = td.InputTilePipeline(td.TileArray(a.dtype, (BM, BK), stages), stages)
    made = td.InputTilePipeline(td.TileArray(b.dtype, (BM, BK), relayed), relayed)
    weights = td.InputTilePipeline(td.TileArray(b.dtype, (BN, BK), stages), stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(N, BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1):
        for m, n in tiles:
            for k in range(steps):
                with raw.producer().acquire() as stage:
                    td.tma_load(a, (m * BM, k * BK), stage.tile(), stage.barrier())
                with weights.producer().acquire() as stage:
                    td.tma_load(b, (n * BN, k * BK), stage.tile(), stage.barrier())
    with td.role("relu", warps=4):
        for _, _ in tiles:
            for _ in range(steps):
                with raw.consumer().acquire() as stage:
                    value = stage.tile().load()
                with made.producer().acquire() as stage:
                    stage.tile().store(td.maximum(value, 0.0).to(b.dtype))
    with td.role("mma", warps=warps):
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                with made.consumer().acquire() as left, weights.consumer().acquire() as right:
                    acc = td.mma(left.tile(), right.tile().T, acc)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@case
def relays(run: Run) -> Iterator[str]:
    """From float32 to bfloat16 on the way, and without a change of dtype."""
    for dtype, stages in (("float32", (2, 1)), ("bfloat16", (1, 3))):
        for m, n, k in run.shapes(stages, 64):
            a, b = run.normal((m, k), dtype), run.normal((n, k))
            c = run.output((m, n))
            relay(*map(run.place.put, (a, b)), c, stages=stages[0], relayed=stages[1])
            left = np.maximum(a, 0).astype(b.dtype)
            yield run.check(c, reference(left, b, "float32"), f"{m}x{n}x{k} {dtype} {stages}")
