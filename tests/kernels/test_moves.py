"""Every way of moving tiles, on the CPU. ``tests/gpu/test_moves.py`` has more of the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.kernels import moves
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import Place


def rng() -> np.random.Generator:
    return np.random.default_rng(fresh_seed())


@pytest.mark.parametrize("dtype", moves.DTYPES)
def test_shift(place: Place, dtype: Any) -> None:
    made = rng()
    for tile in ((128, 24), (256, 8), (128, 104)):
        moves.run_shift(place, made, dtype, tile)


@pytest.mark.parametrize("dtype", moves.DTYPES)
def test_shift_line(place: Place, dtype: Any) -> None:
    made = rng()
    for length in (64, 8, 40):
        moves.run_shift_line(place, made, dtype, length)


@pytest.mark.parametrize("way", ["tma", "async", "store"])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_ring(place: Place, way: str, stages: int) -> None:
    made = rng()
    for dtype in random.sample(moves.DTYPES, 4):
        unit = 16 // np.dtype(dtype).itemsize if way == "tma" else 1
        shape = (random.randint(1, 300), unit * random.randint(1, 150 // unit))
        warps = random.choice([4, 8, 2]) if way == "async" else 4
        moves.run_ring(place, made, way, dtype, shape, stages=stages, warps=warps)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_lines(place: Place, dtype: Any, stages: int) -> None:
    for rows in (1, 2, 17):
        moves.run_lines(place, rng(), dtype, rows, stages, 64)


@pytest.mark.parametrize("case", moves.SPREADS, ids=str)
def test_spread(place: Place, case: moves.Spread) -> None:
    moves.run_spread(place, rng(), case)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("kind", "dtype"), moves.REDUCED, ids=[f"{k}-{np.dtype(d)}" for k, d in moves.REDUCED]
)
def test_combine(place: Place, kind: str, dtype: Any, shared: bool) -> None:
    moves.run_combine(place, rng(), kind, dtype, shared=shared, blocks=random.randint(1, 4))
