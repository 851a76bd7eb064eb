"""Whatever styles roles use, tiles come through chains of rings as they went in.

Counts, cursors, turns, fences: what is missing shows in the emulator as a deadlock, a race or wrong
numbers.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import tiledsl as td
from tests.passes.random_rings import COLUMNS, ROWS, Chain
from tiledsl.runtime.emulator import emulate

CHAINS = 60


@pytest.mark.parametrize("part", range(6))
def test_random_chains(part: int) -> None:
    rng = np.random.default_rng()
    for _ in range(CHAINS // 6):
        seed = random.randrange(1 << 30)
        chain = Chain(seed)
        spec = td.spec((ROWS, COLUMNS), td.float32)
        note = f"Chain({seed})\n{chain.text}"
        try:
            program = chain.kernel().lower(spec, spec, td.int32).kernel
            for n in (0, 1, random.randint(2, 7)):
                x = rng.integers(-99, 99, (max(n, 1) * ROWS, COLUMNS)).astype(np.float32)
                y = np.full((2 * max(n, 1) * ROWS, COLUMNS), np.nan, np.float32)
                expected = y.copy()
                expected[: n * ROWS] = x[: n * ROWS] + chain.added
                if chain.tapped is not None:
                    expected[n * ROWS : 2 * n * ROWS] = x[: n * ROWS] + chain.tapped
                for order in (None, random.randrange(1 << 30)):
                    y[:] = np.nan
                    emulate(program, [x, y, n], grid=(1, 1, 1), seed=order)
                    assert np.array_equal(y, expected, equal_nan=True), f"order {order}, n {n}"
        except Exception as error:
            error.add_note(note)
            raise
