"""Fresh random numbers for each test; a failing test shows the seed it ran with."""

from __future__ import annotations

import secrets

import numpy as np
import pytest


@pytest.fixture
def seed() -> int:
    return secrets.randbits(32)


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)
