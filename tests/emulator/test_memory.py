"""Boxes of tensors, as TMA copies them, and arguments."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
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
from tiledsl.errors import InvalidValue, LaunchError, TypeMismatch
from tiledsl.runtime.emulator import emulate
from tiledsl.runtime.emulator.memory import load_box, store_box


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_boxes_against_one_element_at_a_time(rng: np.random.Generator, rank: int) -> None:
    for _ in range(60):
        extents = tuple(random.randint(0, 5) for _ in range(rank))
        base = rng.standard_normal(tuple(2 * e for e in extents))
        tensor = base[(slice(None, None, random.choice((1, 2, -1))),) * rank]
        shape = tuple(random.randint(1, 4) for _ in range(random.randint(1, rank)))
        coords = [random.randint(-5, 9) for _ in range(rank)]
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
        extents = tuple(random.randint(2, 20) for _ in range(rank))
        x = normal(rng, extents, dtype)
        y = np.zeros_like(x)
        c, d = ([random.randint(-3, e) for e in extents] for _ in range(2))
        result = emulate(kernel, [x, y, *c, *d], grid=(1, 1, 1), seed=one)
        between = np.empty(shape, x.dtype)
        load_box(x, c, between)
        expected = np.zeros_like(x)
        store_box(expected, d, between)
        assert y.tobytes() == expected.tobytes()
        assert result.tma_load_bytes == result.tma_store_bytes == between.nbytes


# --------------------------------------------------------------------------- arguments


def call(*args: Any) -> None:
    emulate(copy(), args, grid=(1, 1, 1))


X = np.zeros((8, 64), np.float32)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((X, X, 1), TypeMismatch, "kernel copy: expected 4 arguments, got 3"),
        (
            ([1.0], X, 1, 1),
            TypeMismatch,
            "argument x of kernel copy: expected a NumPy array, got list",
        ),
        (
            (X, X.astype(ml_dtypes.bfloat16), 1, 1),
            TypeMismatch,
            "argument y of kernel copy: expected a float32 array of rank 2, got bfloat16 of rank 2",
        ),
        (
            (X[0], X, 1, 1),
            TypeMismatch,
            "argument x of kernel copy: expected a float32 array of rank 2, got float32 of rank 1",
        ),
        (
            (X.astype(">f4"), X, 1, 1),
            TypeMismatch,
            "argument x of kernel copy: expected a float32 array of rank 2, got >f4 of rank 2",
        ),
        (
            (X, X, 2**31, 1),
            InvalidValue,
            "argument loads of kernel copy: 2147483648 does not fit int32: expected -2147483648 to"
            " 2147483647",
        ),
        (
            (X, X, 1, "one"),
            TypeMismatch,
            "argument stores of kernel copy: expected a int32 number, got str",
        ),
    ],
)
def test_arguments_that_do_not_fit(args: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(*args)
    assert caught.value.message == message  # type: ignore[attr-defined]


def test_an_output_must_be_writeable() -> None:
    y = X.copy()
    y.flags.writeable = False
    call(y, X.copy(), 1, 1)  # reading it is fine
    with pytest.raises(LaunchError) as caught:
        call(X, y, 1, 1)
    assert caught.value.message == (
        "argument y of kernel copy is written by the kernel: expected a writeable array"
    )


@pytest.mark.parametrize("grid", [(1, 1), (1, -1, 1)])
def test_a_grid_that_does_not_fit(grid: Any) -> None:
    with pytest.raises(LaunchError, match="expected a grid of three extents, got"):
        emulate(copy(), [X, X.copy(), 1, 1], grid=grid)


def test_numpy_scalars_are_numbers(rng: np.random.Generator) -> None:
    x = normal(rng, (8, 64), dtypes.float32)
    y = poisoned(x.shape, dtypes.float32)
    emulate(copy(), [x, y, np.int64(1), np.uint8(1)], grid=(1, 1, 1))
    assert (x == y).all()


def test_stores_land_at_the_end_of_a_block_at_the_latest(rng: np.random.Generator) -> None:
    """Nothing waits for the writes, only for the reads; they arrive all the same."""
    kernel = copy()
    assert all(wait.read for wait in ops_of(kernel, protocol.BulkWait))
    x = normal(rng, (16, 64), dtypes.float32)
    y = poisoned(x.shape, dtypes.float32)
    emulate(kernel, [x, y, 2, 2], grid=(1, 1, 1))
    assert (x == y).all()
