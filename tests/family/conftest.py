"""Every test of the family that takes ``run`` goes through the emulator, and through a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import tiledsl as td
from tests.gpu.launch_ptx import framework
from tests.kernels.family.registry import Run
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import Emulator, Gpu


@pytest.fixture(params=["emulator", pytest.param("gpu", marks=pytest.mark.gpu)])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Where a test's kernels run, with fresh random numbers."""
    place = Gpu(framework("torch")) if request.param == "gpu" else Emulator()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", td.PerformanceWarning)
        yield Run(place, np.random.default_rng(fresh_seed()))
