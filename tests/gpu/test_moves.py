"""Every way of moving tiles, on the GPU, bit by bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch_ptx import framework
from tests.kernels import moves
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import Gpu

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def gpu() -> Gpu:
    return Gpu(framework("torch"))


def rng() -> np.random.Generator:
    return np.random.default_rng(fresh_seed())


@pytest.mark.parametrize("dtype", moves.DTYPES)
def test_shift(gpu: Gpu, dtype: Any) -> None:
    made = rng()
    for tile in ((128, 24), (256, 8), (128, 104)):
        for _ in range(20):
            moves.run_shift(gpu, made, dtype, tile)


@pytest.mark.parametrize("dtype", moves.DTYPES)
def test_shift_line(gpu: Gpu, dtype: Any) -> None:
    made = rng()
    for length in (64, 8, 40):
        for _ in range(20):
            moves.run_shift_line(gpu, made, dtype, length)


@pytest.mark.parametrize("way", ["tma", "async", "store"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_ring(gpu: Gpu, way: str, stages: int) -> None:
    made = rng()
    for dtype in moves.DTYPES:
        unit = 16 // np.dtype(dtype).itemsize if way == "tma" else 1
        for _ in range(3):
            shape = (random.randint(1, 3000), unit * random.randint(1, 1500 // unit))
            warps = random.choice([4, 8, 2]) if way == "async" else 4
            moves.run_ring(gpu, made, way, dtype, shape, stages=stages, warps=warps)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_lines(gpu: Gpu, dtype: Any, stages: int) -> None:
    for rows in (1, 2, 17, 3000):
        moves.run_lines(gpu, rng(), dtype, rows, stages, 64)


@pytest.mark.parametrize("case", moves.SPREADS, ids=str)
def test_spread(gpu: Gpu, case: moves.Spread) -> None:
    made = rng()
    for _ in range(5):
        moves.run_spread(gpu, made, case)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("kind", "dtype"), moves.REDUCED, ids=[f"{k}-{np.dtype(d)}" for k, d in moves.REDUCED]
)
def test_combine(gpu: Gpu, kind: str, dtype: Any, shared: bool) -> None:
    made = rng()
    for blocks in (1, 4, 200 if kind != "add" else 5):
        moves.run_combine(gpu, made, kind, dtype, shared=shared, blocks=blocks)
