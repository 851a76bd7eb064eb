"""How results get out: stores that combine, stores by threads to any memory, shared tiles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tiledsl as td
from tests.kernels import moves
from tests.kernels.family.registry import Run, case
from tests.kernels.oracle import accumulated, numpy_dtype, reference, round_to


@td.kernel
def split_sum(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 64,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 3,
):
    """c += a @ b.T: block (m, n, i) of the grid adds every step i of K to its tile."""
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    m, n = td.block_id(0), td.block_id(1)
    first, step, last = td.block_id(2), td.num_blocks(2), td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1), pipeline.producer() as producer:
        for k in range(first, last, step):
            with producer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage)
                td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())
    with td.role("mma", warps=4), pipeline.consumer() as consumer:
        acc = td.zeros((BM, BN), td.float32)
        for _ in range(first, last, step):
            with consumer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage)
                acc = td.mma(a_tile, b_tile.T, acc)
        td.tma_store(acc, c, (m * BM, n * BN), reduce="add")


@case
def sums(run: Run) -> Iterator[str]:
    for splits in (1, 3):
        for m, n, k in run.shapes(3, 64 * splits):
            a, b, start = run.normal((m, k)), run.normal((n, k)), run.normal((m, n), "float32")
            c = run.place.put(start.copy())
            grid = (-(-m // 64), -(-n // 64), splits)
            split_sum[grid](run.place.put(a), run.place.put(b), c)
            exact, error = accumulated(a, b)
            error = error + splits * 2.0**-22 * (abs(exact) + abs(start) + 1)
            expected = round_to(exact + start, error, "float32")
            yield run.check(c, expected, f"{m}x{n}x{k} in {splits}")


@case
def combined(run: Run) -> Iterator[str]:
    """Every combination that the hardware has, exactly."""
    for number, (kind, dtype) in enumerate(moves.REDUCED):
        try:
            moves.run_combine(run.place, run.rng, kind, dtype, shared=bool(number % 2), blocks=3)
        except AssertionError as error:
            yield str(error)
    for tiles in run.trips(2):  # of a block, in rows of ragged tiles
        x = run.rng.integers(0, 99, (3, run.tiled(tiles, 64), 28)).astype(np.int32)
        start = run.rng.integers(0, 99, x.shape[1:]).astype(np.int32)
        y = run.place.put(start.copy())
        moves.combine[3](run.place.put(x), y, kind="add", shared=True)
        yield run.same(y, start + x.sum(0, np.int32), f"{tiles} tiles")


@td.kernel(grid=td.persistent)
def direct(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    sums: td.Tensor,
    *,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 40,
    BK: td.Constant[int] = 32,
    stages: td.Constant[int] = 2,
):
    """c = a @ b.T by stores of threads; and sums[n] = n twice, by a tile of rank 1."""
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
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                with consumer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage)
                    acc = td.mma(a_tile, b_tile.T, acc)
            td.store(acc.to(c.dtype), c, (m * BM, n * BN))
            if m == 0:
                td.store((td.iota((BN,)) + n * BN) * 2, sums, (n * BN,))


@case
def by_threads(run: Run) -> Iterator[str]:
    """Rows of odd pitch, and a transposed result."""
    for dtype in ("float32", "bfloat16"):
        for number, (m, n, k) in enumerate(run.shapes(2, 32)):
            n = n - 1 + n % 2 if number % 3 else n  # b has n rows, so any n will do
            a, b = run.normal((m, k)), run.normal((n, k))
            if number // 2 % 2:  # two shapes for each trip count
                c = run.padded(np.full((m, n), np.nan, numpy_dtype(dtype)), n + 3 - n % 2)
            else:
                c = run.output((n, m), dtype).T
            sums = run.output((n,), "int32")
            direct(run.place.put(a), run.place.put(b), c, sums)
            what = f"{m}x{n}x{k} {dtype}"
            yield run.check(c, reference(a, b, dtype), what)
            yield run.same(sums, 2 * np.arange(n, dtype=np.int32), what)


@td.kernel(grid=1)
def through_shared(x: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int] = 2):
    """y = -x: one role writes tiles into a ring, another stores them from there by TMA."""
    ring = td.InputTilePipeline(td.TileArray(x.dtype, (64, 32), stages), stages)
    with td.role("negate", warps=4), ring.producer() as producer:
        for i in range(n):
            with producer.acquire() as stage:
                stage.tile().store(-td.load(x, (i * 64, 0), (64, 32)))
    with td.role("store", warps=1), ring.consumer() as consumer:
        for i in range(n):
            with consumer.acquire() as stage:
                td.tma_store(stage.tile(), y, (i * 64, 0))


@case
def shared_tiles(run: Run) -> Iterator[str]:
    for stages in (1, 3):
        for n in run.trips(stages):
            shape = max(1, run.tiled(n, 64)), run.tiled(1, 32, 4)
            x = run.rng.integers(1, 50, shape).astype(np.float32)
            y = run.output(x.shape)
            through_shared(run.place.put(x), y, n, stages=stages)
            expected = -x
            expected[n * 64 :] = np.nan
            yield run.same(y, expected, f"{n} tiles, {stages} stages")
