"""Producers that are not a single role with TMA tiles: several, cp.async, bulk copies, stores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tiledsl as td
from tests.kernels.family.registry import Run, case
from tests.kernels.oracle import numpy_dtype, reference

BM, BN, BK = 64, 64, 64


@td.function
def operands(a, b, stages):
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    return td.InputTilePipeline(payload, num_group_stages=stages)


@td.function
def multiply(pipeline, tiles, steps, c):
    """The consumer of all kernels here."""
    for m, n in tiles:
        acc = td.zeros((BM, BN), td.float32)
        for _ in range(steps):
            with pipeline.consumer().acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage)
                acc = td.mma(a_tile, b_tile.T, acc)
        td.store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=td.persistent)
def two_loaders(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int] = 3):
    """Two roles fill each stage together."""
    pipeline = operands(a, b, stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load a", warps=1), pipeline.producer() as producer:
        for m, _ in tiles:
            for k in range(steps):
                with producer.acquire() as stage:
                    a_tile = stage.payload().get_a_tile(stage)
                    td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
    with td.role("load b", warps=1), pipeline.producer() as producer:
        for _, n in tiles:
            for k in range(steps):
                with producer.acquire() as stage:
                    b_tile = stage.payload().get_b_tile(stage)
                    td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())
    with td.role("mma", warps=4):
        multiply(pipeline, tiles, steps, c)


@td.kernel(grid=td.persistent)
def three_ways(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int] = 3,
               warps: td.Constant[int] = 2):  # fmt: skip
    """One role brings a by TMA, one the upper half of b by cp.async, one the lower by stores."""
    pipeline = td.InputTilePipeline(
        Halves(
            td.TileArray(a.dtype, (BM, BK), stages), td.TileArray(b.dtype, (BN, BK), 2 * stages)
        ),
        stages,
    )
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], 2 * BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("bulk", warps=1):
        for m, _ in tiles:
            for k in range(steps):
                with pipeline.producer().acquire() as stage:
                    a_tile = stage.payload().a[stage]
                    td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
    with td.role("copy", warps=warps):
        for _, n in tiles:
            for k in range(steps):
                with pipeline.producer().acquire() as stage:
                    b_tile = stage.payload().b[stage, 0]
                    td.async_copy(b, (n * 2 * BN, k * BK), b_tile, stage.barrier())
    with td.role("write", warps=4):
        for _, n in tiles:
            for k in range(steps):
                with pipeline.producer().acquire() as stage:
                    value = td.load(b, (n * 2 * BN + BN, k * BK), (BN, BK))
                    stage.payload().b[stage, 1].store(value)
    with td.role("mma", warps=4):
        for m, n in tiles:
            upper, lower = td.zeros((BM, BN), td.float32), td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                with pipeline.consumer().acquire() as stage:
                    held = stage.payload()
                    upper = td.mma(held.a[stage], held.b[stage, 0].T, upper)
                    lower = td.mma(held.a[stage], held.b[stage, 1].T, lower)
            td.store(upper.to(c.dtype), c, (m * BM, n * 2 * BN))
            td.store(lower.to(c.dtype), c, (m * BM, n * 2 * BN + BN))


@td.payload
class Halves:
    """A tile of a and two of b in a stage."""

    a: td.TileArray
    b: td.TileArray


@td.kernel(grid=td.persistent)
def copied(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int] = 3,
           warps: td.Constant[int] = 4):  # fmt: skip
    """Any strides and any alignment: cp.async by all threads of the loader."""
    pipeline = operands(a, b, stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=warps), pipeline.producer() as producer:
        for m, n in tiles:
            for k in range(steps):
                with producer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage)
                    td.async_copy(a, (m * BM, k * BK), a_tile, stage.barrier())
                    td.async_copy(b, (n * BN, k * BK), b_tile, stage.barrier())
    with td.role("mma", warps=4):
        multiply(pipeline, tiles, steps, c)


@td.kernel(grid=td.persistent)
def scaled_lines(x: td.Tensor, factors: td.Tensor, y: td.Tensor, *, BC: td.Constant[int] = 64,
                 stages: td.Constant[int] = 3):  # fmt: skip
    """y[i, j] = x[i, j] * factors[0, j]: lines of factors by bulk copies, tiles of x by TMA."""
    M, N = x.shape
    tile = td.InputTilePipeline(td.TileArray(x.dtype, (64, BC), stages), stages)
    line = td.InputTilePipeline(td.TileArray(factors.dtype, (BC,), stages), stages)
    tiles = td.TileScheduler(td.cdiv(M, 64), td.cdiv(N, BC))
    with td.role("load", warps=1):
        for m, n in tiles:
            with tile.producer().acquire() as stage:
                td.tma_load(x, (m * 64, n * BC), stage.tile(), stage.barrier())
            with line.producer().acquire() as stage:
                td.bulk_load(factors, (0, n * BC), stage.tile(), stage.barrier())
    with td.role("scale", warps=4):
        for m, n in tiles:
            with tile.consumer().acquire() as stage, line.consumer().acquire() as other:
                value = stage.tile().load() * other.tile().load()[None, :]
            td.tma_store(value, y, (m * 64, n * BC))


@case
def several_producers(run: Run) -> Iterator[str]:
    for stages in (1, 3):
        for shape in run.shapes(stages, BK):
            yield run.product(two_loaders, shape, stages=stages)


@case
def three_kinds(run: Run) -> Iterator[str]:
    for stages, warps in ((1, 4), (2, 2)):
        for shape in run.shapes(stages, BK):
            yield run.product(three_ways, shape, stages=stages, warps=warps)


@case
def async_copies(run: Run) -> Iterator[str]:
    """Rows of odd pitch, odd first elements, odd extents, transposed views."""
    for stages, warps in ((3, 4), (1, 1), (2, 3)):
        for m, n, k in run.shapes(stages, BK, 1):
            a, b = run.normal((m, k)), run.normal((n, k), "bfloat16")
            c = run.padded(np.full((m, n), np.nan, np.float32), n + 1 - n % 2)
            left = run.padded(a, k + 3 - k % 2)
            right = run.place.put(np.pad(b.T, ((1, 0), (1, 0))).copy())[1:, 1:].T
            copied(left, right, c, stages=stages, warps=warps)
            yield run.check(c, reference(a, b, "float32"), f"{m}x{n}x{k} {stages} stages {warps}")


@case
def bulk_copies(run: Run) -> Iterator[str]:
    for dtype, stages in (("float32", 2), ("float16", 3)):
        unit = 16 // np.dtype(dtype).itemsize
        for trips in run.trips(stages):
            columns = run.tiled(trips, 64, unit)
            rows = int(run.rng.integers(1, 64))
            x = run.rng.integers(-20, 21, (rows, columns)).astype(numpy_dtype(dtype))
            factors = run.rng.integers(-20, 21, (2, columns)).astype(numpy_dtype(dtype))
            y = run.output((rows, columns), dtype)
            scaled_lines[1](run.place.put(x), run.place.put(factors), y, stages=stages)
            yield run.same(y, x * factors[:1], f"{rows} x {columns} {dtype}, {stages} stages")
