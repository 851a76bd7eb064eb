"""Boxes of tensors, as TMA copies them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.ir_samples import Sketch, lowered
from tests.emulator.samples import copy, normal, ops_of, poisoned
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import protocol, tile
from tiledsl.codegen.ir.types import RingType, TileArray
from tiledsl.runtime.emulator import emulate
from tiledsl.runtime.emulator.boxes import load_box, store_box
from tiledsl.runtime.emulator.copies import COPY_UNIT


def integers(rng: np.random.Generator, low: int, high: int, count: int) -> tuple[int, ...]:
    """``count`` integers from ``low`` to ``high``, both included."""
    return tuple(int(x) for x in rng.integers(low, high + 1, count))


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_boxes_against_one_element_at_a_time(rng: np.random.Generator, rank: int) -> None:
    for _ in range(60):
        extents = integers(rng, 0, 5, rank)
        base = rng.standard_normal(tuple(2 * e for e in extents))
        tensor = base[(slice(None, None, int(rng.choice((1, 2, -1)))),) * rank]
        shape = integers(rng, 1, 4, int(rng.integers(1, rank + 1)))
        coords = integers(rng, -5, 9, rank)
        target = np.full(shape, np.nan)
        load_box(tensor, coords, target)
        stored = tensor.copy()
        source = rng.standard_normal(shape)
        store_box(stored, coords, source)
        expected = tensor.copy()
        for index in np.ndindex(*shape):
            offset = (0,) * (rank - len(shape)) + index
            at = tuple(c + o for c, o in zip(coords, offset, strict=True))
            inside = all(0 <= a < e for a, e in zip(at, tensor.shape, strict=True))
            assert target[index] == (tensor[at] if inside else 0.0)
            if inside:
                expected[at] = source[index]
        np.testing.assert_array_equal(stored, expected)


def _move(rank: int, shape: tuple[int, ...], dtype: DType) -> Kernel:
    """One tile from x at (c...) to y at (d...)."""
    s = Sketch("move")
    x, y = s.tensor("x", dtype, rank), s.tensor("y", dtype, rank)
    at = {n: [s.scalar(f"{n}{axis}", dtypes.int32) for axis in range(rank)] for n in "cd"}
    array = TileArray("tile", shape, dtype, 0)
    ring = s.value(tile.PipelineCreate("ring", RingType(1, 1, (array,))), "ring")
    with s.role("load", 1):
        stage = s.value(tile.AcquireProducer(ring))
        into = s.value(tile.PayloadTile(ring, s.value(tile.StageIndex(stage)), 0))
        s.add(tile.TmaLoad(x, tuple(at["c"]), into, s.value(tile.StageBarrier(stage))))
        s.add(tile.Release(stage))
    with s.role("store", 1):
        stage = s.value(tile.AcquireConsumer(ring))
        source: Value = s.value(tile.PayloadTile(ring, s.value(tile.StageIndex(stage)), 0))
        s.add(tile.TmaStore(source, y, tuple(at["d"])))
        s.add(tile.Release(stage))
    return lowered(s.kernel())


@pytest.mark.parametrize(
    ("rank", "shape"), [(1, (32,)), (2, (4, 16)), (3, (3, 2, 16)), (3, (16,)), (5, (2, 16))]
)
@pytest.mark.parametrize("dtype", [dtypes.float8_e4m3fn, dtypes.bfloat16, dtypes.int32])
def test_tiles_of_any_rank(
    rng: np.random.Generator, seed: int, rank: int, shape: tuple[int, ...], dtype: DType
) -> None:
    kernel = _move(rank, shape, dtype)
    for one in (None, seed):
        extents = (*integers(rng, 2, 12, rank - 1), *integers(rng, 2, 40, 1))
        x = normal(rng, extents, dtype)
        y = np.zeros_like(x)
        c, d = (_coordinates(rng, extents, dtype, least) for least in (-3, 0))
        result = emulate(kernel, [x, y, *c, *d], grid=(1, 1, 1), seed=one)
        between = np.empty(shape, x.dtype)
        load_box(x, c, between)
        expected = np.zeros_like(x)
        store_box(expected, d, between)
        assert y.tobytes() == expected.tobytes()
        assert result.tma_load_bytes == result.tma_store_bytes == between.nbytes


def _coordinates(
    rng: np.random.Generator, extents: tuple[int, ...], dtype: DType, least: int
) -> list[int]:
    """Where a copy may start: the innermost at a multiple of 16 bytes; stores inside, at >= 0."""
    unit = COPY_UNIT // dtype.itemsize
    *outer, innermost = (integers(rng, least, extent, 1)[0] for extent in extents)
    return [*outer, innermost // unit * unit]


def test_stores_land_at_the_end_of_a_block_at_the_latest(rng: np.random.Generator) -> None:
    """Nothing waits for the writes, only for the reads; they arrive all the same."""
    kernel = copy()
    assert all(wait.read for wait in ops_of(kernel, protocol.BulkWait))
    x = normal(rng, (16, 64), dtypes.float32)
    y = poisoned(x.shape, dtypes.float32)
    emulate(kernel, [x, y, 2, 2], grid=(1, 1, 1))
    assert (x == y).all()
