"""im2col loads and element strides on the GPU, exactly; and the convolution made of them."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch_ptx import framework
from tests.kernels.oracle import fresh_seed, numpy_dtype
from tests.kernels.unfold import UNFOLDS, Unfold, random_bits, random_unfold, skip_rows, unfold

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


@pytest.fixture
def torch() -> Any:
    return framework("torch")


def to_gpu(torch: Any, x: Any) -> Any:
    return torch.from_numpy(x.astype(np.float32)).cuda().to(getattr(torch, str(x.dtype)))


def run(torch: Any, problem: Unfold, rng: np.random.Generator) -> None:
    x = random_bits(rng, problem.shape, problem.dtype)
    expected = problem.expected(x)
    y = to_gpu(torch, np.full(expected.shape, np.nan, numpy_dtype(problem.dtype)))
    unfold(to_gpu(torch, x), y, **problem.constants())
    found = y.float().cpu().numpy()
    np.testing.assert_array_equal(found, expected.astype(np.float32), str(problem))


@pytest.mark.parametrize("problem", UNFOLDS, ids=str)
def test_every_rank(torch: Any, problem: Unfold) -> None:
    run(torch, problem, np.random.default_rng(fresh_seed()))


def test_random_windows(torch: Any) -> None:
    rng = np.random.default_rng(fresh_seed())
    for _ in range(25):
        run(torch, random_unfold(rng), rng)


@pytest.mark.parametrize("step", [1, 2, 3, 8])
@pytest.mark.parametrize("shape", [(3000, 200), (7, 64), (1, 8)])
def test_skipping_rows(torch: Any, step: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(fresh_seed())
    x = random_bits(rng, shape, "bfloat16")
    y = to_gpu(torch, np.full(x[::step].shape, np.nan, x.dtype))
    skip_rows(to_gpu(torch, x), y, step=step, BM=24)
    np.testing.assert_array_equal(y.float().cpu().numpy(), x[::step].astype(np.float32))


CONVOLUTIONS = [
    # images, height, width, channels, filters, filter size, stride, padding
    (2, 14, 14, 64, 128, 3, 1, 1),
    (3, 15, 14, 64, 128, 3, 2, 1),
    (3, 9, 13, 72, 40, 3, 2, 0),
    (2, 5, 7, 8, 8, 1, 1, 0),
    (2, 16, 9, 24, 136, 5, 3, 2),
    (1, 3, 3, 64, 64, 3, 1, 0),
    (7, 33, 31, 136, 264, 3, 1, 1),
    (16, 28, 28, 128, 256, 3, 2, 1),
    (0, 14, 14, 64, 64, 3, 1, 1),
]


@pytest.mark.parametrize("BN", [64, 128, 256])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(
    torch: Any, case: tuple[int, ...], BN: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(SAMPLES), *sys.path])
    sample = import_module("conv_im2col")
    images, height, width, channels, filters, size, stride, padding = case
    rng = np.random.default_rng(fresh_seed())
    x = random_bits(rng, (images, height, width, channels), "bfloat16")
    w = random_bits(rng, (filters, size, size, channels), "bfloat16")
    p, q = (sample.extent(n, size, stride, padding) for n in (height, width))
    y = to_gpu(torch, np.full((images, p, q, filters), np.nan, x.dtype))
    sample.convolve(to_gpu(torch, x), to_gpu(torch, w), y, stride=stride, padding=padding, BN=BN)
    found = y.float().cpu().numpy().astype(x.dtype)
    error, ratio = sample.check(found, x, w, stride, padding)
    assert ratio <= 1, (error, ratio)
