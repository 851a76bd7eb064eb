"""Every shape of TMA: ranks 1 to 5, im2col, swizzles, strides of elements, hints, prefetches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

import tiledsl as td
from tests.kernels import unfold
from tests.kernels.family.registry import Run, case

# ------------------------------------------------------------------------------- ranks 1 to 5


@td.kernel(grid=td.persistent)
def copy_boxes(x: td.Tensor, y: td.Tensor, *, box: td.Constant[tuple],
               stages: td.Constant[int] = 2, cache: td.Constant = None):  # fmt: skip
    """y = x of any rank, box by box."""
    ring = td.InputTilePipeline(td.TileArray(x.dtype, box, stages), stages)
    counts = [td.cdiv(extent, size) for extent, size in zip(x.shape, box, strict=True)]
    boxes = 1
    for count in counts:
        boxes = boxes * count
    with td.role("load", warps=1), ring.producer() as producer:
        for i in range(td.block_id(), boxes, td.num_blocks()):
            with producer.acquire() as stage:
                at = corner(i, counts, box)
                td.tma_load(x, at, stage.tile(), stage.barrier(), cache=cache)
                td.tma_prefetch(x, corner(i + td.num_blocks(), counts, box), box, cache=cache)
    with td.role("store", warps=1), ring.consumer() as consumer:
        for i in range(td.block_id(), boxes, td.num_blocks()):
            with consumer.acquire() as stage:
                td.tma_store(stage.tile(), y, corner(i, counts, box), cache=cache)


@td.function
def corner(i, counts, box):
    """The first element of box i, the last dimension fastest."""
    at = []
    for axis in td.static_range(len(box) - 1, -1, -1):
        at = [i % counts[axis] * box[axis], *at]
        i = i // counts[axis]
    return tuple(at)


BOXES = ((64,), (16, 64), (3, 8, 32), (2, 3, 4, 16), (2, 1, 2, 4, 32))


@case
def ranks(run: Run) -> Iterator[str]:
    hints = itertools.cycle((None, "evict_first", "evict_normal", "evict_last"))
    for box, stages in itertools.product(BOXES, (1, 3)):
        shape = [
            int(n) for n in run.rng.integers(1, 4 * np.array(box) if run.large else 9, len(box))
        ]
        shape[-1] = 8 * int(run.rng.integers(1, 20))
        x, y = run.normal(tuple(shape)), run.output(tuple(shape), "bfloat16")
        copy_boxes(run.place.put(x), y, box=box, stages=stages, cache=next(hints))
        yield run.same(y, x, f"{shape} by {box}")


@case
def trips(run: Run) -> Iterator[str]:
    """One block, so that its trips are the boxes."""
    for stages in (1, 2, 3):
        for boxes in run.trips(stages):
            size = run.tiled(boxes, 64, 8)
            x, y = run.normal((size,)), run.output((size,), "bfloat16")
            copy_boxes[1](run.place.put(x), y, box=(64,), stages=stages)
            yield run.same(y, x, f"{size} elements")


# ------------------------------------------------------------------------------------ swizzles


@td.kernel(grid=td.persistent)
def swizzled(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, swizzle: td.Constant,
             BK: td.Constant[int] = 64, stages: td.Constant[int] = 2):  # fmt: skip
    """c = a @ b.T with tiles that lie in shared memory as the user says."""
    BM, BN = 64, 64
    left = td.InputTilePipeline(
        td.TileArray(a.dtype, (BM, BK), stages, swizzle=swizzle), num_group_stages=stages
    )
    right = td.InputTilePipeline(
        td.TileArray(b.dtype, (BN, BK), stages, swizzle=swizzle), num_group_stages=stages
    )
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1):
        for m, n in tiles:
            for k in range(steps):
                with left.producer().acquire() as stage:
                    td.tma_load(a, (m * BM, k * BK), stage.tile(), stage.barrier())
                with right.producer().acquire() as stage:
                    td.tma_load(b, (n * BN, k * BK), stage.tile(), stage.barrier())
    with td.role("mma", warps=4):
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                with left.consumer().acquire() as one, right.consumer().acquire() as other:
                    acc = td.mma(one.tile(), other.tile().T, acc)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.kernel(grid=1)
def unswizzled(x: td.Tensor, y: td.Tensor, n: td.int32, *, swizzle: td.Constant,
               stages: td.Constant[int] = 2):  # fmt: skip
    """y = x + 1 through registers and a staging tile of the same swizzle."""
    ring = td.InputTilePipeline(td.TileArray(x.dtype, (64, 64), stages, swizzle=swizzle), stages)
    out = td.shared((64, 64), y.dtype, swizzle=swizzle)
    with td.role("load", warps=1), ring.producer() as producer:
        for i in range(n):
            with producer.acquire() as stage:
                td.tma_load(x, (i * 64, 0), stage.tile(), stage.barrier())
    with td.role("add", warps=4), ring.consumer() as consumer:
        for i in range(n):
            with consumer.acquire() as stage:
                out.store(stage.tile().load() + 1.0)
                td.tma_store(out, y, (i * 64, 0))


@case
def swizzles(run: Run) -> Iterator[str]:
    for swizzle, depth, stages in (
        (128, 64, 2),
        (64, 64, 1),
        (32, 64, 2),
        (64, 32, 3),
        (32, 16, 2),
    ):
        for shape in run.shapes(stages, depth):
            yield run.product(swizzled, shape, swizzle=swizzle, BK=depth, stages=stages)


@case
def swizzled_registers(run: Run) -> Iterator[str]:
    for swizzle in (128, 64, 32, 0, None):
        for n in run.trips(2):
            shape = max(1, run.tiled(n, 64)), run.tiled(1, 64, 8)
            x = run.rng.integers(-50, 50, shape).astype(np.float16)
            y = run.output(x.shape, "float16")
            unswizzled(run.place.put(x), y, n, swizzle=swizzle)
            expected = x + np.float16(1)
            expected[n * 64 :] = np.nan
            yield run.same(y, expected, f"{n} tiles, swizzle {swizzle}")


# ------------------------------------------------------------------------------ picked elements


@case
def strided(run: Run) -> Iterator[str]:
    for step in (1, 2, 5, 8):
        for rows in (0, 1, 24, 25, run.extent()):
            x = run.normal((rows * step, run.extent(8)))
            y = run.output((rows, x.shape[1]), "bfloat16")
            unfold.skip_rows(run.place.put(x), y, step=step, BM=24)
            yield run.same(y, x[::step], f"{rows} rows, step {step}")
    for trips in run.trips(3):  # tiles of one block
        x = run.normal((2 * run.tiled(trips, 24), 40))
        y = run.output((len(x) // 2, 40), "bfloat16")
        unfold.skip_rows[1](run.place.put(x), y, step=2, BM=24)
        yield run.same(y, x[::2], f"{trips} tiles")


@case
def unfolded(run: Run) -> Iterator[str]:
    """im2col loads of one to three spatial dimensions, exactly."""
    # A trip of the loop for each tap of the first of these; none without images.
    by_taps = [
        unfold.Unfold((2 if n else 0, n + 9, 40), (max(1, n),), *[(k,) for k in (1, 1, 1, 1)])
        for n in run.trips(3)
    ]
    some = (unfold.random_unfold(run.rng) for _ in range(2))
    for problem in (*by_taps, *unfold.UNFOLDS, *some):
        x = unfold.random_bits(run.rng, problem.shape, problem.dtype)
        expected = problem.expected(x)
        y = run.output(expected.shape, problem.dtype)
        unfold.unfold(run.place.put(x), y, **problem.constants())
        yield run.same(y, expected, str(problem))
