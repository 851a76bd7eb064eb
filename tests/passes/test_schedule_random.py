"""Whatever a consumer does with its stages, waits and put-off releases keep its meaning.

The emulator runs asynchronous groups as late as is legal, or at random moments: a wait that is
missing, a stage that is freed too early or a release that makes a role wait for itself shows as an
error, a deadlock or wrong numbers.
"""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.passes.random_programs import COLUMNS, DEPTH, ROWS, kernel_of, reference_of, skeleton
from tiledsl.errors import StageError
from tiledsl.runtime.emulator import emulate

MOST_STEPS = 60  # tiles of a and b; longer programs are left out
PROGRAMS = 60


def data(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.standard_normal((rows, MOST_STEPS * DEPTH)).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("chunk", range(6))
def test_random_consumers(chunk: int) -> None:
    rng = np.random.default_rng()
    a, b = data(rng, ROWS), data(rng, COLUMNS)
    done = 0
    for number in range(PROGRAMS // 6):
        seed = random.randrange(1 << 30)
        lines = skeleton(seed)
        n = random.randrange(5)
        expected, steps = reference_of(lines, a, b, n)
        if steps > MOST_STEPS:
            continue
        stages = number % 4 + 1
        try:
            kernel = kernel_of(lines).lower(a_spec(a), a_spec(b), C_SPEC, td.int32, stages=stages)
        except StageError:  # the skeleton never steps: the pipeline has no producer
            assert not any("STEP" in line for line in lines)
            continue
        for schedule in (None, 1, 2, 3):
            c = np.full((2 * ROWS, COLUMNS), np.nan, np.float32)
            emulate(kernel.kernel, [a, b, c, n], grid=(1, 1, 1), seed=schedule)
            error = np.abs(c - expected).max() / max(1.0, np.abs(expected).max())
            assert error < 1e-4, f"seed {seed}, n {n}, stages {stages}, schedule {schedule}"
        done += 1
    assert done > 2


C_SPEC = td.spec((2 * ROWS, COLUMNS), td.float32)


def a_spec(array: np.ndarray) -> object:
    return td.spec(array.shape, td.bfloat16)
