"""The samples in clusters and in turns, on the CPU, on ragged and short shapes."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import tiledsl as td
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import Emulator, Machine

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
# Trip counts 0, 1, one less and one more than the stages, and twice that; one tile, and many for
# each block.
SHAPES = [
    (64, 64, 0), (64, 64, 64), (72, 136, 200), (200, 8, 136), (8, 200, 328), (330, 264, 72),
    (520, 136, 520),
]  # fmt: skip


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of samples/ by name."""
    monkeypatch.setattr(sys, "path", [str(SAMPLES), *sys.path])
    return import_module


@pytest.mark.parametrize("k_group", [1, 2])
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)])
@pytest.mark.parametrize("name", ["gemm_cluster", "gemm_pingpong"])
def test_every_shape(
    place: Emulator, sample: Any, name: str, cluster: tuple[int, int], k_group: int
) -> None:
    kernel = td.kernel(grid=td.persistent, cluster=cluster)(getattr(sample(name), name).function)
    seed = fresh_seed()
    # The fewest rows that make whole warpgroups, whose shares are whole swizzle atoms.
    rows = 128 if name == "gemm_cluster" else 64
    for number, shape in enumerate(SHAPES[:: 2 if isinstance(place, Machine) else 1]):
        problem = sample("common").make_problem(shape, "bfloat16", "float32", seed + number, None)
        kernel(problem.a, problem.b, problem.c, BM=rows, BN=64, BK=32, stages=4, k_group=k_group)
        error, ratio = problem.check()
        assert ratio <= 1, (shape, error, ratio)
