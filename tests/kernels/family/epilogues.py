"""What is done with a finished tile: functions of the user's, given as constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import erf, sqrt
from typing import Any

import numpy as np

import tiledsl as td
from tests.kernels.family.registry import Array, Run, case
from tests.kernels.oracle import Reference, accumulated, round_to


@td.function
def relu(x):
    return td.maximum(x, 0.0)


@td.function
def gelu(x):
    """With the error function, as PyTorch's default."""
    return 0.5 * x * (1.0 + td.erf(x * 0.7071067811865476))


@td.function
def silu(x):
    return x * td.sigmoid(x)


@td.function
def identity(x):
    return x


# Each on numbers of the host, and a bound of its derivative.
ACTIVATIONS: dict[Any, tuple[Callable[[Array], Array], float]] = {
    identity: (lambda x: x, 1.0),
    relu: (lambda x: np.maximum(x, 0), 1.0),
    gelu: (lambda x: x / 2 * (1 + np.vectorize(erf, otypes=[float])(x / sqrt(2))), 1.13),
    silu: (lambda x: x / (1 + np.exp(-x)), 1.1),
}


@td.kernel(grid=td.persistent)
def gemm_bias(
    a: td.Tensor,
    b: td.Tensor,
    rows: td.Tensor,
    columns: td.Tensor,
    c: td.Tensor,
    *,
    activation: td.Constant,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 72,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 2,
):
    """c[m, n] = activation((a @ b.T)[m, n] * rows[m] + columns[n])"""
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1), pipeline.producer() as producer:
        for m, n in tiles:
            for k in range(steps):
                with producer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage)
                    td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                    td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())
    with td.role("mma", warps=4), pipeline.consumer() as consumer:
        for m, n in tiles:
            scale = td.load(rows, (m * BM,), (BM,))
            bias = td.load(columns, (n * BN,), (BN,))
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                with consumer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage)
                    acc = td.mma(a_tile, b_tile.T, acc)
            acc = activation(acc * scale[:, None] + bias[None, :].to(td.float32))
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.function
def add_residual(acc, at, residual):
    """An epilogue that reads a ring of its own."""
    with residual.consumer().acquire() as stage:
        return acc + stage.tile().load().to(td.float32)


@td.function
def below_diagonal(acc, at, residual):
    """An epilogue of the coordinates: the residual only where row >= column."""
    row, column = td.iota(acc.shape, 0) + at[0], td.iota(acc.shape, 1) + at[1]
    return td.where(row >= column, add_residual(acc, at, residual), acc)


@td.kernel(grid=td.persistent)
def gemm_residual(
    a: td.Tensor,
    b: td.Tensor,
    r: td.Tensor,
    c: td.Tensor,
    *,
    epilogue: td.Constant,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 64,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 3,
    residuals: td.Constant[int] = 1,
):
    """c = epilogue(a @ b.T, coordinates, tiles of r), its tiles loaded while it multiplies."""
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    residual = td.InputTilePipeline(td.TileArray(r.dtype, (BM, BN), residuals), residuals)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1), pipeline.producer() as producer:
        for m, n in tiles:
            with residual.producer().acquire() as stage:
                td.tma_load(r, (m * BM, n * BN), stage.tile(), stage.barrier())
            for k in range(steps):
                with producer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage)
                    td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                    td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())
    with td.role("mma", warps=4), pipeline.consumer() as consumer:
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                with consumer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage)
                    acc = td.mma(a_tile, b_tile.T, acc)
            acc = epilogue(acc, (m * BM, n * BN), residual)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


def _moved(exact: Array, error: Array, slope: float, dtype: str) -> Reference:
    """With what the float32 steps of an epilogue may add: a few units in the last place."""
    return round_to(exact, slope * error + 2.0**-20 * (np.abs(exact) + 1), dtype)


@case
def activations(run: Run) -> Iterator[str]:
    for activation, (function, slope) in ACTIVATIONS.items():
        dtype = ("bfloat16", "float32")[slope == 1.0]
        for m, n, k in run.shapes(2, 64):
            a, b = run.normal((m, k)), run.normal((n, k))
            rows, columns = run.normal((m,), "float32"), run.normal((n,))
            c = run.output((m, n), dtype)
            arguments = map(run.place.put, (a, b, rows, columns))
            gemm_bias(*arguments, c, activation=activation)
            exact, error = accumulated(a, b)
            exact = exact * rows[:, None] + columns.astype(np.float64)
            error = error * abs(rows[:, None]) + 2.0**-22 * abs(exact)
            with np.errstate(over="ignore"):
                expected = _moved(function(exact), error, slope, dtype)
            yield run.check(c, expected, f"{activation.__name__} {m}x{n}x{k}")


@case
def residuals(run: Run) -> Iterator[str]:
    for epilogue, stages, dtype in (
        (add_residual, 1, "bfloat16"),
        (below_diagonal, 2, "float32"),
    ):
        # Last, tiles of one block: trips of the residual's ring.
        tiles = [(1, run.tiled(trips, 64), 40, 72) for trips in run.trips(stages)]
        for grid, m, n, k in (*((None, *shape) for shape in run.shapes(3, 64)), *tiles):
            kernel = gemm_residual[grid] if grid else gemm_residual
            a, b, r = run.normal((m, k)), run.normal((n, k)), run.normal((m, n), dtype)
            c = run.output((m, n), "bfloat16")
            kernel(*map(run.place.put, (a, b, r)), c, epilogue=epilogue, residuals=stages)
            exact, error = accumulated(a, b)
            added = r.astype(np.float64)
            exact = exact + (np.tril(added) if epilogue is below_diagonal else added)
            yield run.check(c, _moved(exact, error, 1, "bfloat16"), f"{dtype} {m}x{n}x{k}")
