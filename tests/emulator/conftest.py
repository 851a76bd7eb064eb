"""Fresh random numbers for each test; a failing test shows the seed it ran with."""

from __future__ import annotations

import secrets

import numpy as np
import pytest


@pytest.fixture
def seed() -> int:
    drawn = secrets.randbits(32)
    print("seed:", drawn)  # pytest shows it when the test fails
    return drawn


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)
