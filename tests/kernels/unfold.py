"""Loads that pick their elements: im2col of every rank, and element strides. Nothing is computed.

What a load brings is stored as it is, so that the result is compared exactly.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

import tiledsl as td
from tests.kernels.oracle import numpy_dtype

Ints = tuple[int, ...]


@td.kernel(grid=td.persistent)
def unfold(
    x: td.Tensor,
    y: td.Tensor,
    *,
    window: td.Constant[tuple],
    before: td.Constant[tuple],
    behind: td.Constant[tuple],
    steps: td.Constant[tuple],
    dilation: td.Constant[tuple],
    BM: td.Constant[int] = 64,
    BC: td.Constant[int] = 64,
):
    """y[tap, pixel, channel] = x at the tap of the window of each pixel, or 0 outside of x.

    x is (image, [depth, [height,]] width, channel); the constants have one number for each of its
    spatial dimensions: taps, padding on both sides, and the steps from window to window and from
    tap to tap.
    """
    axes = len(window)
    extents = x.shape[1:-1]
    reach = [step * (taps - 1) for step, taps in zip(dilation, window, strict=True)]
    counts = [
        (extent + low + high - far - 1) // step + 1
        for extent, low, high, far, step in zip(extents, before, behind, reach, steps, strict=True)
    ]
    _, pixels, C = y.shape
    pipeline = td.InputTilePipeline(td.TileArray(x.dtype, (BM, BC), stages=3), num_group_stages=3)
    tiles = td.TileScheduler(td.cdiv(pixels, BM), td.cdiv(C, BC))
    taps = 1
    for extent in window:
        taps *= extent

    with td.role("load", warps=1):
        for m, c in tiles:
            image = m * BM
            corner = []
            for axis in td.static_range(axes - 1, -1, -1):
                corner = [image % counts[axis] * steps[axis] - before[axis], *corner]
                image = image // counts[axis]
            for tap in range(taps):
                offsets = []
                left = tap
                for axis in td.static_range(axes - 1, -1, -1):
                    offsets = [left % window[axis] * dilation[axis], *offsets]
                    left = left // window[axis]
                with pipeline.producer().acquire() as stage:
                    td.tma_load_im2col(
                        x,
                        (image, *corner, c * BC),
                        tuple(offsets),
                        stage.tile(),
                        stage.barrier(),
                        lower=tuple([-low for low in before]),
                        upper=tuple([high - far for high, far in zip(behind, reach, strict=True)]),
                        strides=steps,
                    )

    with td.role("store", warps=1):
        for m, c in tiles:
            for tap in range(taps):
                with pipeline.consumer().acquire() as stage:
                    td.tma_store(stage.tile(), y, (tap, m * BM, c * BC))


@td.kernel(grid=td.persistent)
def skip_rows(
    x: td.Tensor,
    y: td.Tensor,
    *,
    step: td.Constant[int],
    BM: td.Constant[int] = 64,
    BC: td.Constant[int] = 64,
):
    """y[row, column] = x[row * step, column], the rows in between skipped by the load itself."""
    M, C = y.shape
    pipeline = td.InputTilePipeline(td.TileArray(x.dtype, (BM, BC), stages=3), num_group_stages=3)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(C, BC))
    with td.role("load", warps=1):
        for m, c in tiles:
            with pipeline.producer().acquire() as stage:
                td.tma_load(
                    x,
                    (m * BM * step, c * BC),
                    stage.tile(),
                    stage.barrier(),
                    element_strides=(step, 1),
                )
    with td.role("store", warps=1):
        for m, c in tiles:
            with pipeline.consumer().acquire() as stage:
                td.tma_store(stage.tile(), y, (m * BM, c * BC))


@dataclass(frozen=True, slots=True)
class Unfold:
    """A problem for ``unfold``: the tensor, the windows and the tiling."""

    shape: Ints
    window: Ints
    before: Ints
    behind: Ints
    steps: Ints
    dilation: Ints
    dtype: str = "bfloat16"
    BM: int = 64
    BC: int = 64

    @property
    def counts(self) -> Ints:
        """Windows along each spatial dimension."""
        fields = (self.shape[1:-1], self.window, self.before, self.behind, self.steps)
        return tuple(
            (extent + low + high - far * (taps - 1) - 1) // step + 1
            for extent, taps, low, high, step, far in zip(*fields, self.dilation, strict=True)
        )

    def expected(self, x: Any) -> Any:
        """The result by NumPy, of the bits of x."""
        pads = [(0, 0), *zip(self.before, self.behind, strict=True), (0, 0)]
        padded = np.pad(x, pads)
        images, *_, channels = self.shape
        result = []
        for tap in itertools.product(*map(range, self.window)):
            places = [slice(None)]
            places += [
                slice(at * far, at * far + (count - 1) * step + 1, step)
                for at, far, count, step in zip(
                    tap, self.dilation, self.counts, self.steps, strict=True
                )
            ]
            result.append(padded[tuple(places)].reshape(images * prod(self.counts), channels))
        return np.stack(result)

    def constants(self) -> dict[str, Any]:
        names = ("window", "before", "behind", "steps", "dilation", "BM", "BC")
        return {name: getattr(self, name) for name in names}


def _cube(rank: int, number: int) -> Ints:
    return (number,) * rank


UNFOLDS = [
    Unfold((3, 50, 72), (3,), (1,), (1,), (1,), (1,)),
    Unfold((3, 50, 64), (4,), (0,), (5,), (3,), (2,)),
    Unfold((2, 9, 13, 64), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    Unfold((3, 9, 14, 40), (3, 3), (1, 1), (1, 1), (2, 2), (1, 1)),
    Unfold((2, 11, 17, 24), (2, 4), (0, 3), (1, 2), (3, 2), (4, 1), "float16", 40, 32),
    Unfold((5, 4, 4, 16), (4, 4), (0, 0), (0, 0), (1, 1), (1, 1), "float32", 8, 16),
    Unfold((2, 5, 7, 72), (1, 1), (0, 0), (0, 0), (8, 8), (1, 1)),
    Unfold((1, 1, 1, 8), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    Unfold((2, 4, 6, 5, 64), *(_cube(3, n) for n in (3, 1, 1, 1, 1)), BM=128),
    Unfold((2, 5, 7, 9, 24), (2, 3, 4), (0, 1, 2), (1, 2, 0), (2, 1, 3), (1, 1, 2), BC=16),
    Unfold((0, 5, 7, 64), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
]


def random_unfold(rng: np.random.Generator) -> Unfold:
    """Any problem whose windows fit and whose numbers the hardware takes."""
    axes = int(rng.integers(1, 4))

    def some(low: int, high: int) -> Ints:
        return tuple(int(n) for n in rng.integers(low, high, axes))

    while True:
        extents = some(1, 12 if axes < 3 else 7)
        found = Unfold(
            (int(rng.integers(1, 4)), *extents, 8 * int(rng.integers(1, 12))),
            some(1, 5), some(0, 4), some(0, 4), some(1, 5), some(1, 4),
        )  # fmt: skip
        if min(found.counts) > 0:
            return replace(
                found, BM=8 * int(rng.integers(1, 20)), BC=int(rng.choice([16, 32, 64, 128]))
            )


def random_bits(rng: np.random.Generator, shape: Ints, dtype: str) -> Any:
    """Finite random numbers of a dtype."""
    return rng.standard_normal(shape).astype(numpy_dtype(dtype))
