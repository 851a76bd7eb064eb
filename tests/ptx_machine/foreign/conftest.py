"""Each test runs under the two policies that find most, with numbers that no run had before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.oracle import fresh_seed
from tests.ptx_machine.foreign.launch import POLICIES


@pytest.fixture(params=POLICIES)
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Of a launch: policy and seed."""
    return {"policy": request.param, "seed": fresh_seed() & 0xFFFFFF}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(fresh_seed())
