"""Arithmetic of register tiles: random expressions mean in a kernel what they mean to NumPy."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.frontend.programs import define
from tests.kernels.expressions import Generator, NumPy, kernel_source, plain_source
from tests.kernels.oracle import fresh_seed
from tests.language.evaluated import TileEvaluator
from tests.language.traced import trace
from tiledsl.codegen.ir.types import Tile
from tiledsl.frontend.build import TensorSpec

ROWS, COLUMNS = 6, 10
F32 = TensorSpec(td.float32, 2)
LINE = TensorSpec(td.float32, 1)


def random_tile(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng().standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("seed", range(60))
def test_random_expressions(seed: int) -> None:
    text = Generator(fresh_seed() + seed, ROWS, COLUMNS).whole(4)
    kernel = define(kernel_source(text, ROWS, COLUMNS), td=td)
    plain = define(plain_source(text), td=NumPy)
    out = np.full((ROWS, COLUMNS), np.nan, np.float32)
    x, y, u, v = (random_tile(*shape) for shape in [(ROWS, COLUMNS)] * 2 + [(ROWS,), (COLUMNS,)])
    s, t = np.float32(random.uniform(-2, 2)), np.float32(random.uniform(0.5, 2))
    made = trace(kernel, x=F32, y=F32, rows=LINE, columns=LINE, out=F32, s=td.float32, t=td.float32)
    TileEvaluator(made, (x, y, u, v, out, s, t))
    with np.errstate(all="ignore"):
        expected = plain(x, y, u, v, s, t)
    np.testing.assert_array_equal(out, np.broadcast_to(expected, out.shape), err_msg=text)


# ------------------------------------------------------------------------------ particular cases


def evaluate(kernel: Callable[..., Any], *arrays: Any) -> None:
    """Run a kernel on arrays, its parameters in this order."""
    names = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
    specs = {
        name: TensorSpec(td.spec(x.shape, x.dtype).dtype, x.ndim)
        for name, x in zip(names, arrays, strict=True)
    }
    TileEvaluator(trace(kernel, **specs), arrays)


def test_loads_read_zero_outside_and_stores_write_nothing_there() -> None:
    def kernel(x, y):
        td.store(td.load(x, (1, -2, 3), (4, 5)), y, (-1, 6))

    x = np.random.default_rng().standard_normal((2, 2, 6)).astype(np.float32)
    y = random_tile(4, 8)
    expected = y.copy()
    expected[:3, 6:] = 0
    expected[1:3, 6:] = 0
    expected[1, 6:] = x[1, 0, 3:5]
    expected[2, 6:] = x[1, 1, 3:5]
    expected[0, 6:] = 0  # row -1 of x
    evaluate(kernel, x, y)
    # Row r of the tile is x[1, r - 2, 3:8]; it goes to row r - 1 of y, columns 6 to 10.
    np.testing.assert_array_equal(y, expected)


def test_a_tile_of_rank_1_along_the_last_dimension() -> None:
    def kernel(x, y):
        td.store(td.load(x, (1, 2), (4,)), y, (3, 0))

    x, y = random_tile(3, 8), random_tile(4, 6)
    expected = y.copy()
    expected[3, :4] = x[1, 2:6]
    evaluate(kernel, x, y)
    np.testing.assert_array_equal(y, expected)


def test_an_expanded_tile_is_carried_by_loops_and_branches() -> None:
    def kernel(x, y, n):
        bias = td.load(x, (0,), (10,))[None, :]
        for i in range(n[0]):
            if i % 2 == 0:
                bias = bias * 2.0
            else:
                bias = bias + 1
        td.store(td.zeros((6, 10)) + bias, y, (0, 0))

    x, y = random_tile(10), random_tile(6, 10)
    steps = random.randint(0, 5)
    expected = x.copy()
    for i in range(steps):
        expected = expected * np.float32(2) if i % 2 == 0 else expected + np.float32(1)
    evaluate(kernel, x, y, np.array([steps], np.int32))
    np.testing.assert_array_equal(y, np.broadcast_to(expected, (6, 10)))


def test_attributes_of_an_expanded_tile() -> None:
    def kernel(x):
        line = td.load(x, (0,), (8,))
        assert line[None, :].shape == (1, 8) and line[:, None].shape == (8, 1)
        assert line[None, :].dtype == td.float32
        assert line[None, :].to(td.float16).dtype == td.float16

    trace(kernel, x=LINE)


def test_masks() -> None:
    def kernel(x, y):
        tile = td.load(x, (0, 0), (8, 8))
        row, column = td.iota((8,))[:, None], td.iota((8,))[None, :]
        keep = ((row >= column) & ~(tile > 0.5)) | (row == 7)
        td.store(td.where(keep, tile, -math.inf), y, (0, 0))

    x, y = random_tile(8, 8), random_tile(8, 8)
    evaluate(kernel, x, y)
    row, column = np.indices((8, 8))
    keep = ((row >= column) & ~(x > 0.5)) | (row == 7)
    np.testing.assert_array_equal(y, np.where(keep, x, -np.inf))


def test_where_of_numbers() -> None:
    def kernel(n, y):
        y[0] = td.where(n[0] > 3, 1, 2.5)
        y[1] = td.where(True, n[0], 2.5)
        y[2] = td.where(n[0] == 0, n[0] + 1, -1)
        td.store(td.where(td.iota((4,), 0, td.float32) < n[0], 1.0, 0.5), y, (3,))

    for n in (0, 2, 5):
        y = random_tile(7)
        evaluate(kernel, np.array([n], np.float32), y)
        lines = [1.0 if i < n else 0.5 for i in range(4)]
        assert y.tolist() == [1 if n > 3 else 2.5, n, 1 if n == 0 else -1, *lines]


def test_integers() -> None:
    def kernel(x, y):
        tile = td.load(x, (0, 0), (4, 6))
        td.store(abs(tile) // 3 + (tile << 2) % 5 + td.abs(-tile), y, (0, 0))

    x = np.random.default_rng().integers(-100, 100, (4, 6), dtype=np.int32)
    y = np.zeros_like(x)
    evaluate(kernel, x, y)
    np.testing.assert_array_equal(y, np.abs(x) // 3 + (x << 2) % 5 + np.abs(x))


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_floats_are_computed_in_float32(name: str, dtype: Any) -> None:
    function = getattr(td, name)

    def kernel(x, y, one):
        td.store(function(td.load(x, (0,), (32,))), y, (0,))
        one[0] = function(x[0])

    x = np.random.default_rng().uniform(0.1, 4, 32).astype(dtype)
    y, one = np.zeros_like(x), np.zeros_like(x[:1])
    evaluate(kernel, x, y, one)
    wide = x.astype(np.float32)
    plain = {
        "rsqrt": lambda v: 1 / np.sqrt(v), "sigmoid": lambda v: 1 / (1 + np.exp(-v))
    }.get(name) or getattr(np, name)  # fmt: skip
    np.testing.assert_array_equal(y, plain(wide).astype(dtype))
    assert one[0] == y[0]


def test_functions_of_compile_time_numbers() -> None:
    def kernel(y):
        y[0] = td.exp(1.0)
        y[1] = td.log2(8)
        assert td.sqrt(9) == 3.0 and td.abs(-2) == 2

    y = random_tile(2)
    evaluate(kernel, y)
    np.testing.assert_allclose(y, [math.e, 3.0], rtol=1e-6)


def test_a_tile_keeps_its_type() -> None:
    def kernel(x, y):
        for name in (td.sqrt, td.abs, td.rsqrt):
            assert name(td.load(x, (0, 0), (4, 8))).dtype == td.float64

    found = trace(kernel, x=TensorSpec(td.float64, 2), y=F32)
    tiles = [r.type for op in found.body.walk() for r in op.results if isinstance(r.type, Tile)]
    assert tiles and all(tile.shape == (4, 8) for tile in tiles)


# --------------------------------------------------------------------------- outside of kernels


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sqrt", "tanh", "erf"])
def test_functions_of_plain_numbers(name: str) -> None:
    x = random.uniform(0.1, 3)
    assert getattr(td, name)(x) == getattr(math, name)(x)


def test_edges_of_functions_of_plain_numbers() -> None:
    assert td.exp(1e5) == td.exp2(10**5) == td.rsqrt(0.0) == math.inf
    assert td.log(0.0) == td.log2(0) == -math.inf
    for found in (td.log(-1.0), td.log2(-1), td.sqrt(-1.0), td.rsqrt(-2.0)):
        assert math.isnan(found)
    assert td.sigmoid(-1e4) == 0.0 and td.sigmoid(0.0) == 0.5 and td.sigmoid(1e4) == 1.0
    assert td.rsqrt(4.0) == 0.5 and td.abs(-3) == 3
    assert math.isnan(td.exp(math.nan)) and td.sqrt(math.inf) == math.inf
