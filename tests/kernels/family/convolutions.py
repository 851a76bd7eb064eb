"""Convolutions in one to three dimensions as matrix products, by im2col loads."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

import tiledsl as td
from tests.kernels.family.copies import corner
from tests.kernels.family.registry import Run, case
from tests.kernels.oracle import accumulated, round_to
from tests.kernels.unfold import Unfold


@td.kernel(grid=td.persistent)
def conv(
    x: td.Tensor,
    w: td.Tensor,
    y: td.Tensor,
    *,
    window: td.Constant[tuple],
    pad: td.Constant[int] = 1,
    stride: td.Constant[int] = 1,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 64,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 3,
):
    """y[pixel, k] = sum over taps and channels of x[image, corner + tap, c] * w[tap, k, c].

    x is (image, [depth, [height,]] width, channel); w is (taps, filters, channels).
    """
    axes = len(window)
    counts = [
        (extent + 2 * pad - taps) // stride + 1
        for extent, taps in zip(x.shape[1:-1], window, strict=True)
    ]
    taps, blocks = w.shape[0], td.cdiv(w.shape[2], BK)
    payload = td.StandardTilePayload(
        x.dtype, w.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(y.shape[0], BM), td.cdiv(y.shape[1], BN))
    ones = (1,) * axes
    with td.role("load", warps=1), pipeline.producer() as producer:
        for m, n in tiles:
            image = m * BM
            at = []
            for axis in td.static_range(axes - 1, -1, -1):
                at = [image % counts[axis] * stride - pad, *at]
                image = image // counts[axis]
            for tap in range(taps):
                for block in range(blocks):
                    with producer.acquire() as stage:
                        x_tile, w_tile = stage.payload().get_tile(stage)
                        td.tma_load_im2col(
                            x,
                            (image, *at, block * BK),
                            corner(tap, window, ones),
                            x_tile,
                            stage.barrier(),
                            lower=(-pad,) * axes,
                            upper=tuple([pad - (taps - 1) for taps in window]),
                            strides=(stride,) * axes,
                        )
                        td.tma_load(w, (tap, n * BN, block * BK), w_tile, stage.barrier())
    with td.role("mma", warps=4), pipeline.consumer() as consumer:
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(taps * blocks):
                with consumer.acquire() as stage:
                    x_tile, w_tile = stage.payload().get_tile(stage)
                    acc = td.mma(x_tile, w_tile.T, acc)
            td.tma_store(acc.to(y.dtype), y, (m * BM, n * BN))


# Spatial extents, window, padding, stride: taps times blocks of channels are the trips.
PROBLEMS = (
    ((50,), (3,), 1, 1), ((41,), (1,), 0, 1), ((33,), (2,), 2, 3), ((9,), (7,), 3, 1),
    ((9, 13), (3, 3), 1, 1), ((10, 7), (3, 3), 1, 2), ((6, 5), (1, 1), 0, 1),
    ((9, 4), (4, 2), 0, 2),
    ((4, 5, 6), (3, 3, 3), 1, 1), ((5, 6, 4), (1, 2, 3), 0, 2), ((3, 3, 3), (1, 1, 1), 0, 1),
)  # fmt: skip


def _convolved(run: Run, problem: Unfold, filters: int, stages: int) -> str:
    """What is wrong with one convolution."""
    window, pad, stride = problem.window, problem.before[0], problem.steps[0]
    channels = problem.shape[-1]
    x = run.normal(problem.shape)
    w = run.normal((prod(window), filters, channels))
    columns = np.moveaxis(problem.expected(x), 0, 1).reshape(
        problem.shape[0] * prod(problem.counts), prod(window) * channels
    )
    rows = np.moveaxis(w, 0, 1).reshape(filters, prod(window) * channels)
    y = run.output((len(columns), filters))
    conv(
        run.place.put(x), run.place.put(w), y, window=window, pad=pad, stride=stride, stages=stages
    )
    expected = round_to(*accumulated(columns, rows), "float32")
    what = f"{problem.shape} by {window}, padding {pad}, stride {stride}, {stages} stages"
    return run.check(y, expected, what)


def _problem(
    images: int, extents: tuple[int, ...], channels: int, window: tuple[int, ...], pad: int,
    stride: int,
) -> Unfold:  # fmt: skip
    axes = len(extents)
    return Unfold(
        (images, *extents, channels), window, (pad,) * axes, (pad,) * axes, (stride,) * axes,
        (1,) * axes,
    )  # fmt: skip


@case
def convolutions(run: Run) -> Iterator[str]:
    for extents, window, pad, stride in PROBLEMS:
        images = int(run.rng.integers(1, 9 if run.large else 4))
        channels = run.extent(8) // 2 // 8 * 8 + 8
        problem = _problem(images, extents, channels, window, pad, stride)
        yield _convolved(run, problem, 8 * int(run.rng.integers(1, 20)), 3)


@case
def taps(run: Run) -> Iterator[str]:
    """A trip for each tap: around the number of stages. A window has one, so 0 is no channels."""
    for stages in (1, 3):
        for trips in run.trips(stages):
            for images, filters in ((5, 136), (1, 40)):  # several tiles, and one
                channels = 40 if trips else 0
                problem = _problem(images, (trips + 20,), channels, (max(1, trips),), 1, 1)
                yield _convolved(run, problem, filters, stages)
