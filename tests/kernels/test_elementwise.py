"""Elementwise kernels on the CPU. ``tests/gpu/test_elementwise.py`` has more of the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels import elementwise
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import Place


@pytest.mark.parametrize("functions", [False, True])
@pytest.mark.parametrize("shape", elementwise.SHAPES, ids=str)
def test_expressions(place: Place, shape: tuple[int, int], functions: bool) -> None:
    rng = np.random.default_rng(fresh_seed())
    for _ in range(5):
        elementwise.run_expression(place, rng, shape, functions)


@pytest.mark.parametrize("dtype", elementwise.FLOATS, ids=lambda dtype: str(np.dtype(dtype)))
@pytest.mark.parametrize("name", elementwise.FUNCTIONS)
def test_functions(place: Place, name: str, dtype: Any) -> None:
    elementwise.run_function(place, np.random.default_rng(fresh_seed()), name, dtype)
