"""What issue 3 brought, from the decorator on, under many schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tests.emulator import features
from tests.emulator.samples import Array, normal, poisoned
from tiledsl.codegen.ir import dtypes
from tiledsl.runtime.emulator import EmulationResult, emulate

F32 = dtypes.float32
SHAPES = [(64, 64, 64), (130, 72, 200), (200, 264, 328), (64, 64, 0)]


def schedules(
    kernel: td.Kernel, seed: int, args: list[Any], blocks: int, **constants: Any
) -> list[tuple[list[Array], EmulationResult]]:
    """Run with copies of ``args`` under the fixed schedule and some random ones."""
    compiled = kernel.lower(*args, **constants)
    found = []
    for one in (None, *range(seed, seed + 8)):
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        found.append((copies, emulate(compiled.kernel, copies, grid=(blocks,), seed=one)))
    return found


def product(a: Array, b: Array) -> Array:
    return a.astype(np.float32) @ b.astype(np.float32).T


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize("stages", [1, 3])
def test_shared_loads(
    rng: np.random.Generator, seed: int, shape: tuple[int, int, int], partitioned: bool, stages: int
) -> None:
    m, n, k = shape
    a, b, c = normal(rng, (m, k)), normal(rng, (n, k)), poisoned((m, n), F32)
    args = [a, b, c]
    results = schedules(
        features.shared_loads, seed, args, 8, partitioned=partitioned, stages=stages
    )
    for (*_, found), result in results:
        close(found, product(a, b))
        # A cluster takes 2 x 2 tiles at a time and loads 2 tiles of each operand a step.
        steps = -(-m // 128) * -(-n // 128) * -(-k // 64)
        assert result.tma_load_bytes == steps * 4 * 64 * 64 * 2
        assert result.tma_loads == steps * (8 if partitioned else 4)


@pytest.mark.parametrize(
    ("replicas", "warps", "stages"), [(2, 4, 1), (2, 4, 3), (3, 4, 2), (2, 8, 2)]
)
def test_in_turns(
    rng: np.random.Generator, seed: int, replicas: int, warps: int, stages: int
) -> None:
    a, b, c = normal(rng, (330, 200)), normal(rng, (264, 200)), poisoned((330, 264), F32)
    for (*_, found), _result in schedules(
        features.in_turns, seed, [a, b, c], 3, replicas=replicas, warps=warps, stages=stages
    ):
        close(found, product(a, b))


@pytest.mark.parametrize("warps", [1, 3, 4])
def test_by_threads(rng: np.random.Generator, seed: int, warps: int) -> None:
    a, b, c = normal(rng, (77, 131)), normal(rng, (69, 131)), poisoned((77, 69), F32)
    for (*_, found), result in schedules(features.by_threads, seed, [a, b, c], 2, warps=warps):
        close(found, product(a, b))
        assert result.copies == 2 * 2 * 2 * 3


def test_an_epilogue(rng: np.random.Generator, seed: int) -> None:
    a, b, c = normal(rng, (100, 200)), normal(rng, (136, 200)), poisoned((100, 136), F32)
    bias, scale = normal(rng, (136,), F32), normal(rng, (100,), F32)
    with np.errstate(over="ignore"):
        expected = 1 / (1 + np.exp(-(product(a, b) * scale[:, None] + bias)))
    polls = set()
    for (*_, found), result in schedules(features.epilogue, seed, [a, b, bias, scale, c], 3):
        close(found, expected)
        polls.add((result.polls, result.waits))
    assert len(polls) > 1, "the schedules hardly differ"


def test_a_split_sum(rng: np.random.Generator, seed: int) -> None:
    a, b, c = normal(rng, (64, 600)), normal(rng, (64, 600)), normal(rng, (64, 64), F32)
    for (_, _, found, _), _result in schedules(features.split_sum, seed, [a, b, c, 4], 4):
        close(found, product(a, b) + c)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pad", [0, 1])
def test_a_convolution(rng: np.random.Generator, seed: int, stride: int, pad: int) -> None:
    images, height, width, channels, filters = 2, 9, 11, 64, 40
    x = normal(rng, (images, height, width, channels))
    w = normal(rng, (filters, 9 * channels))
    padded = np.pad(x.astype(np.float32), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    p, q = ((n + 2 * pad - 3) // stride + 1 for n in (height, width))
    windows = np.stack(
        [
            padded[:, r : r + stride * p : stride, s : s + stride * q : stride][:, :p, :q]
            for r in range(3)
            for s in range(3)
        ],
        axis=3,
    ).reshape(images * p * q, 9 * channels)
    expected = windows @ w.astype(np.float32).T
    out = poisoned((images * p * q, filters), F32)
    for (*_, found), _result in schedules(
        features.convolution, seed, [x, w, out], 2, stride=stride, pad=pad
    ):
        close(found, expected)


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_handed_over(rng: np.random.Generator, seed: int, rounds: int) -> None:
    x, y = normal(rng, (320, 64)), poisoned((320, 64))
    for (_, found, _), _result in schedules(features.handed_over, seed, [x, y, rounds], 1):
        assert (found[: 64 * rounds] == x[: 64 * rounds] * 2).all()
        assert np.isnan(found[64 * rounds :].astype(np.float32)).all()
