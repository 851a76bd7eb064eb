"""Copies that are not plain TMA tiles, against one element at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.emulator.protocol import Machine
from tests.emulator.samples import Array, normal, numpy_of, poisoned
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import copy, memory, protocol, tile
from tiledsl.codegen.ir.types import TileArray
from tiledsl.errors import InvalidValue
from tiledsl.runtime.emulator import EmulationResult, emulate
from tiledsl.runtime.emulator.boxes import load_im2col, load_strided

F32, I32 = dtypes.float32, dtypes.int32
Start = Callable[[Machine, Value, tuple[Value, ...], Value, Value], None]


def moved(
    start: Start,
    shape: tuple[int, ...],
    dtype: DType,
    rank: int,
    *,
    warps: int = 1,
    mode: str = "thread",
    offsets: int = 0,
) -> Kernel:
    """y = the tile that ``start`` brings from x at run-time coordinates, by TMA."""
    s = Machine("moved")
    x, y = s.tensor("x", dtype, rank), s.tensor("y", dtype, len(shape))
    at = tuple(s.scalar(f"c{axis}", I32) for axis in range(rank + offsets))
    array = TileArray("tile", shape, dtype, 0)
    own, bars = s.shared(array), s.bars(1, 32 * warps if mode != "thread" else 1)
    zero = s.const(0)
    with s.role("load", warps, mode):
        if mode == "thread":
            s.expect(s.bar(bars), array.tile_bytes)
        start(s, x, at, s.own(own), s.bar(bars))
    with s.role("store"):
        s.wait(s.bar(bars), 0)
        if mode != "thread":
            s.add(protocol.FenceProxyAsync())
        s.store(s.own(own), y, (zero,) * len(shape))
    return s.done()


def run(
    kernel: Kernel, x: Array, coords: Sequence[int], shape: tuple[int, ...], seed: int | None
) -> tuple[Array, EmulationResult]:
    y = np.full(shape, 77, x.dtype)
    return y, emulate(kernel, [x, y, *coords], grid=(1,), seed=seed)


def box(x: Array, coords: Sequence[int], shape: tuple[int, ...], strides: Sequence[int]) -> Array:
    """What a copy brings, one element at a time."""
    found = np.zeros(shape, x.dtype)
    for index in np.ndindex(*shape):
        offset = (0,) * (x.ndim - len(shape)) + index
        at = tuple(c + o * s for c, o, s in zip(coords, offset, strides, strict=True))
        if all(0 <= a < extent for a, extent in zip(at, x.shape, strict=True)):
            found[index] = x[at]
    return found


# ------------------------------------------------------------------------ element strides


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_strided_boxes(rng: np.random.Generator, rank: int) -> None:
    for _ in range(100):
        x = rng.standard_normal(tuple(int(e) for e in rng.integers(0, 9, rank)))
        shape = tuple(int(e) for e in rng.integers(1, 5, int(rng.integers(1, rank + 1))))
        coords = [int(c) for c in rng.integers(-9, 12, rank)]
        strides = [int(n) for n in rng.integers(1, 9, rank)]
        target = np.full(shape, np.nan)
        load_strided(x, coords, strides, target)
        np.testing.assert_array_equal(target, box(x, coords, shape, strides))


def test_a_load_with_element_strides(rng: np.random.Generator, seed: int) -> None:
    def start(s: Machine, x: Value, at: Any, into: Value, bar: Value) -> None:
        s.add(tile.TmaLoad(x, at, into, bar, element_strides=(1, 3, 1)))

    kernel = moved(start, (2, 8, 16), F32, 3)
    for coords in [(0, 0, 0), (1, 5, 4), (-1, -2, 16), (2, 20, 28)]:
        x = normal(rng, (3, 25, 32), F32)
        y, _ = run(kernel, x, coords, (2, 8, 16), seed)
        assert (y == box(x, coords, (2, 8, 16), (1, 3, 1))).all()


# -------------------------------------------------------------------------------- im2col


def corners(
    extents: Sequence[int], lower: Sequence[int], upper: Sequence[int], strides: Sequence[int]
) -> list[list[int]]:
    return [
        list(range(low, extent + up, by))
        for extent, low, up, by in zip(extents, lower, upper, strides, strict=True)
    ]


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_im2col_is_a_convolution_in_order(rng: np.random.Generator, spatial: int) -> None:
    """Row m is window m of the images in order, at one position of the filter."""
    for _ in range(60):
        extents = [int(e) for e in rng.integers(3, 7, spatial)]
        taps = [int(r) for r in rng.integers(1, 4, spatial)]
        pads = [int(p) for p in rng.integers(0, 3, spatial)]
        dilations = [int(d) for d in rng.integers(1, 3, spatial)]
        strides = [int(n) for n in rng.integers(1, 4, spatial)]
        lower = [-p for p in pads]
        upper = [p - d * (r - 1) for p, d, r in zip(pads, dilations, taps, strict=True)]
        places = corners(extents, lower, upper, strides)
        if not all(places):
            continue  # the filter is larger than the padded image
        images, channels = int(rng.integers(1, 4)), int(rng.integers(1, 9))
        x = rng.standard_normal((images, *extents, channels))
        order = [
            (image, *(places[axis][i] for axis, i in enumerate(index)))
            for image in range(images)
            for index in np.ndindex(*(len(p) for p in places))
        ]
        first = int(rng.integers(0, len(order)))
        shape = int(rng.integers(1, 2 * len(order) + 2)), int(rng.integers(1, 9))
        channel = int(rng.integers(-3, channels + 2))
        offsets = [d * int(rng.integers(0, r)) for d, r in zip(dilations, taps, strict=True)]
        target = np.full(shape, np.nan)
        load_im2col(x, (*order[first], channel), offsets, lower, upper, strides, target)
        expected = np.zeros(shape)
        for row, (image, *corner) in enumerate(order[first : first + shape[0]]):
            at = [c + o for c, o in zip(corner, offsets, strict=True)]
            if all(0 <= a < extent for a, extent in zip(at, extents, strict=True)):
                for column in range(shape[1]):
                    if 0 <= channel + column < channels:
                        expected[row, column] = x[(image, *at, channel + column)]
        np.testing.assert_array_equal(target, expected)


def im2col(s: Machine, x: Value, at: Any, into: Value, bar: Value) -> None:
    s.add(
        copy.TmaLoadIm2col(
            x, at[:4], at[4:], into, bar, lower=(-1, -1), upper=(-1, -1), strides=(1, 2)
        )
    )


def test_an_im2col_load(rng: np.random.Generator, seed: int) -> None:
    kernel = moved(im2col, (24, 16), F32, 4, offsets=2)
    x = normal(rng, (2, 6, 7, 32), F32)
    expected = np.empty((24, 16), np.float32)
    load_im2col(x, (0, 3, 3, 16), (2, 1), (-1, -1), (-1, -1), (1, 2), expected)
    y, result = run(kernel, x, (0, 3, 3, 16, 2, 1), (24, 16), seed)
    assert (y == expected).all()
    assert result.tma_load_bytes == 24 * 16 * 4
    # Behind the last image there are zeros, wherever the corner is.
    assert not run(kernel, x, (2, 99, 99, 0, 0, 0), (24, 16), seed)[0].any()


@pytest.mark.parametrize(
    ("coords", "message"),
    [
        ((0, 0, 6, 0, 0, 0), "starts at 6 in dimension 2: expected a window corner, -1 to 5"),
        ((0, -2, 0, 0, 0, 0), "starts at -2 in dimension 1: expected a window corner, -1 to 4"),
        ((0, 0, 0, 0, 0, 256), "im2col offsets (0, 256): expected 0 to 255 with 2 spatial"),
        ((0, 0, 0, 0, -1, 0), "im2col offsets (-1, 0): expected 0 to 255 with 2 spatial"),
        ((0, 0, 0, 2, 0, 0), "starts at innermost coordinate 2, which is byte 8 of a row"),
    ],
)
def test_im2col_coordinates(coords: tuple[int, ...], message: str) -> None:
    kernel = moved(im2col, (24, 16), F32, 4, offsets=2)
    with pytest.raises(InvalidValue) as caught:
        run(kernel, np.zeros((2, 6, 7, 32), np.float32), coords, (24, 16), None)
    assert message in str(caught.value)


# ------------------------------------------------------------------------------ 1-D bulk


def bulk(s: Machine, x: Value, at: Any, into: Value, bar: Value) -> None:
    s.add(copy.BulkLoad(x, at, into, bar))


@pytest.mark.parametrize("coords", [(0, 0), (2, 8), (1, 60), (2, 64), (2, 100), (-1, 0), (3, 0)])
def test_a_bulk_load(rng: np.random.Generator, seed: int, coords: tuple[int, int]) -> None:
    x = normal(rng, (3, 68), F32)
    y, result = run(moved(bulk, (32,), F32, 2), x, coords, (32,), seed)
    assert (y == box(x, coords, (32,), (1, 1))).all()
    assert result.tma_load_bytes == 128


def test_what_a_bulk_load_cannot_reach(rng: np.random.Generator) -> None:
    kernel = moved(bulk, (32,), F32, 2)
    with pytest.raises(InvalidValue, match=r"starts at \(0, 2\), byte 8 of the tensor: expected a"):
        run(kernel, normal(rng, (3, 68), F32), (0, 2), (32,), None)
    with pytest.raises(InvalidValue, match=r"starts at \(1, 0\), byte 268 of the tensor"):
        run(kernel, normal(rng, (3, 67), F32), (1, 0), (32,), None)
    with pytest.raises(InvalidValue, match="expected stride 1 in the last dimension, got 2"):
        run(kernel, normal(rng, (3, 68), F32)[:, ::2], (0, 0), (32,), None)
    with pytest.raises(InvalidValue, match="starts at -4 in the last dimension: expected at least"):
        run(kernel, normal(rng, (3, 68), F32), (0, -4), (32,), None)


# ------------------------------------------------------------------------------ cp.async


def by_threads(s: Machine, x: Value, at: Any, into: Value, bar: Value) -> None:
    s.add(copy.AsyncCopy(x, at, into, bar))
    s.add(copy.AsyncArrive(bar))


@pytest.mark.parametrize(("warps", "mode"), [(1, "warps"), (3, "warps"), (8, "warpgroup")])
@pytest.mark.parametrize("shape", [(7, 9), (1, 5), (33,), (2, 3, 4)])
def test_cp_async(
    rng: np.random.Generator, seed: int, warps: int, mode: str, shape: tuple[int, ...]
) -> None:
    kernel = moved(by_threads, shape, F32, 3, warps=warps, mode=mode)
    for one in (None, *range(seed, seed + 5)):
        x = normal(rng, (5, 9, 24), F32)[:, :, ::-3]  # any strides
        coords = [int(c) for c in rng.integers(-4, 8, 3)]
        y, result = run(kernel, x, coords, shape, one)
        assert (y == box(x, coords, shape, (1, 1, 1))).all()
        assert result.copies == 1


def test_cp_async_lands_at_any_time(rng: np.random.Generator, seed: int) -> None:
    """What is read without a wait is sometimes there and sometimes not."""
    s = Machine("early")
    x, y = s.tensor("x", F32, 1), s.tensor("y", F32, 1)
    own, bars, zero = s.shared(TileArray("tile", (32,), F32, 0)), s.bars(1, 32), s.const(0)
    with s.role("load", 1, "warps"):
        s.add(copy.AsyncCopy(x, (zero,), s.own(own), s.bar(bars)))
        s.add(copy.AsyncArrive(s.bar(bars)))
    with s.role("read"):
        s.add(memory.TileStore(s.value(memory.SharedLoad(s.own(own))), y, (zero,)))
    kernel, seen = s.done(), set()
    for one in range(seed, seed + 60):
        x_, y_ = normal(rng, (32,), F32), poisoned((32,), F32)
        emulate(kernel, [x_, y_], grid=(1,), seed=one)
        seen.add(bool((x_ == y_).all()))
    assert seen == {False, True}


# ------------------------------------------------------------------- prefetches, reductions


def test_a_prefetch_moves_nothing(seed: int) -> None:
    s = Machine("prefetch")
    x, c = s.tensor("x", F32, 2), s.scalar("c", I32)
    with s.role("r"):
        s.add(copy.TmaPrefetch(x, (s.const(-8), c), (8, 64), cache="evict_last"))
    kernel = s.done()
    assert (
        emulate(kernel, [np.zeros((3, 4), np.float32), 400], grid=(3,), seed=seed).prefetches == 3
    )
    with pytest.raises(InvalidValue, match="innermost coordinate 3, which is byte 12"):
        emulate(kernel, [np.zeros((3, 4), np.float32), 3], grid=(1,))


REDUCED = [
    *[(kind, d) for kind in ("add", "min", "max") for d in (I32, dtypes.uint64, F32)],
    *[(kind, d) for kind in ("add", "min", "max") for d in (dtypes.float16, dtypes.bfloat16)],
    *[(kind, d) for kind in ("and", "or", "xor") for d in (dtypes.uint32, dtypes.int64)],
]
PYTHON: dict[str, Callable[..., Any]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def reducing(kind: str | None, second: str | None, dtype: DType) -> Kernel:
    """Combine two overlapping tiles of x with y, one behind the other without a wait."""
    s = Machine("reduce")
    x, y = s.tensor("x", dtype, 2), s.tensor("y", dtype, 2)
    array = TileArray("tile", (8, 16), dtype, 0, 2)
    own, bars, zero = s.shared(array), s.bars(1, 1), s.const(0)
    with s.role("r"):
        s.expect(s.bar(bars), 2 * array.tile_bytes)
        for n in range(2):
            s.add(tile.TmaLoad(x, (s.const(8 * n), zero), s.own(own, n), s.bar(bars)))
        s.wait(s.bar(bars), 0)
        for n, reduce in enumerate((kind, second)):
            into = (s.const(4 * n), zero)
            s.add(protocol.TmaStoreShared(s.own(own, n), y, into, reduce=reduce))
        s.add(protocol.BulkCommit("role"))
        s.add(protocol.BulkWait(0, False, "role"))
    return s.done()


@pytest.mark.parametrize(("kind", "dtype"), REDUCED)
def test_reducing_stores(rng: np.random.Generator, seed: int, kind: str, dtype: DType) -> None:
    def numbers(rows: int) -> Array:
        if dtype.is_integer:
            return rng.integers(0, 1 << 31, (rows, 16)).astype(numpy_of(dtype))
        return rng.integers(-50, 50, (rows, 16)).astype(numpy_of(dtype))

    kernel = reducing(kind, kind, dtype)
    for one in (None, *range(seed, seed + 5)):
        x, y = numbers(16), numbers(10)  # the last two rows lie outside
        expected = y.copy()
        with np.errstate(all="ignore"):
            expected[:8] = PYTHON[kind](expected[:8], x[:8])
            expected[4:] = PYTHON[kind](expected[4:], x[8:14])
        emulate(kernel, [x, y], grid=(1,), seed=one)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("kinds", [("add", "max"), ("add", None), (None, "add")])
def test_only_equal_reductions_commute(kinds: tuple[str | None, str | None]) -> None:
    x, y = np.zeros((16, 16), np.float32), np.zeros((12, 16), np.float32)
    with pytest.raises(InvalidValue, match="another store of this role is still on its way to"):
        emulate(reducing(*kinds, F32), [x, y], grid=(1,))


def test_blocks_add_up(rng: np.random.Generator, seed: int) -> None:
    """Every block adds to the same tile: no update may be lost."""
    x, y = np.ones((16, 16), np.float32), np.zeros((12, 16), np.float32)
    emulate(reducing("add", "add", F32), [x, y], grid=(25,), seed=seed)
    assert (y[:4] == 25).all() and (y[4:8] == 50).all() and (y[8:] == 25).all()
