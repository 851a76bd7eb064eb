"""Elementwise kernels on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gpu.launch_ptx import framework
from tests.kernels import elementwise
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import Gpu

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def gpu() -> Gpu:
    return Gpu(framework("torch"))


@pytest.mark.parametrize("shape", elementwise.SHAPES, ids=str)
def test_expressions(gpu: Gpu, shape: tuple[int, int]) -> None:
    """Arithmetic, choices and comparisons: the very bits that NumPy computes."""
    rng = np.random.default_rng(fresh_seed())
    for _ in range(15):
        elementwise.run_expression(gpu, rng, shape, functions=False)


@pytest.mark.parametrize("dtype", elementwise.FLOATS, ids=lambda dtype: str(np.dtype(dtype)))
@pytest.mark.parametrize("name", elementwise.FUNCTIONS)
def test_functions(gpu: Gpu, name: str, dtype: Any) -> None:
    rng = np.random.default_rng(fresh_seed())
    for _ in range(5):
        elementwise.run_function(gpu, rng, name, dtype)
