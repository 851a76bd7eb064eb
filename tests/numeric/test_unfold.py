"""im2col loads and element strides on the CPU, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.oracle import fresh_seed, numpy_dtype
from tests.kernels.places import Place
from tests.kernels.unfold import UNFOLDS, Unfold, random_bits, random_unfold, skip_rows, unfold


def run(problem: Unfold, rng: np.random.Generator) -> None:
    x = random_bits(rng, problem.shape, problem.dtype)
    expected = problem.expected(x)
    y = np.full(expected.shape, np.nan, numpy_dtype(problem.dtype))
    unfold(x, y, **problem.constants())
    np.testing.assert_array_equal(y.astype(np.float32), expected.astype(np.float32), str(problem))


@pytest.mark.parametrize("problem", UNFOLDS, ids=str)
def test_every_rank(place: Place, problem: Unfold) -> None:
    run(problem, np.random.default_rng(fresh_seed()))


def test_random_windows(place: Place) -> None:
    rng = np.random.default_rng(fresh_seed())
    for _ in range(10):
        run(random_unfold(rng), rng)


@pytest.mark.parametrize("step", [1, 2, 3, 8])
@pytest.mark.parametrize("shape", [(300, 72), (7, 64), (1, 8)])
def test_skipping_rows(place: Place, step: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(fresh_seed())
    x = random_bits(rng, shape, "bfloat16")
    expected = x[::step]
    y = np.full(expected.shape, np.nan, x.dtype)
    skip_rows(x, y, step=step, BM=24)
    np.testing.assert_array_equal(y.astype(np.float32), expected.astype(np.float32))
