"""Random programs do in IR what they do in Python. A failure prints its seed and source."""

from __future__ import annotations

import secrets

import numpy as np
import pytest

from tests.frontend.evaluate import run
from tests.frontend.programs import OUTPUTS, Generator, define

ARGUMENTS = [(0, 0), (3, -4), (7, 5)]


@pytest.mark.parametrize("batch", range(10))
def test_random_programs(batch: int) -> None:
    for _ in range(3):
        _check(seed=secrets.randbelow(2**40))


def _check(seed: int) -> None:
    source = Generator(seed).program()
    kernel = define(source)
    for a, b in ARGUMENTS:
        expected = np.zeros(OUTPUTS, np.int32)
        kernel(expected, a, b)
        got = np.zeros(OUTPUTS, np.int32)
        try:
            run(kernel, out=got, a=a, b=b)
            np.testing.assert_array_equal(got, expected)
        except Exception as error:
            raise AssertionError(f"seed {seed}, a={a}, b={b}: {error}\n{source}") from error
