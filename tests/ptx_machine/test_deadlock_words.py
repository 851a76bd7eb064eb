"""The emulator and the PTX machine tell of a deadlock in the same words."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tiledsl as td
from tiledsl.errors import Deadlock


@td.kernel(grid=1)
def move(
    x: td.Tensor,
    y: td.Tensor,
    loads: td.int32,
    stores: td.int32,
    *,
    stages: td.Constant[int] = 2,
    warps: td.Constant[int] = 4,
):
    ring = td.InputTilePipeline(td.TileArray(x.dtype, (64, 32), stages), stages)
    with td.role("fill", warps=1):
        for i in range(loads):
            with ring.producer().acquire() as stage:
                td.tma_load(x, (64 * i, 0), stage.tile(), stage.barrier())
    with td.role("use", warps=warps):
        for i in range(stores):
            with ring.consumer().acquire() as stage:
                td.store(stage.tile().load(), y, (64 * i, 0))


def _words(error: Deadlock) -> list[str]:
    """What is said, without what only one of the two knows: warps, PTX lines, ends of columns."""
    lines = [re.sub(r" \(warps? [\d-]+\)", "", line) for line in str(error).splitlines()]
    kept = [line for line in lines if not line.startswith("    PTX line") and "^" not in line]
    return [re.sub(r", in move$", "", line) for line in kept]


@pytest.mark.filterwarnings("ignore::tiledsl.PerformanceWarning")
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize(("loads", "stores"), [(7, 2), (2, 7), (0, 1), (4, 0)])
def test_same_words(loads: int, stores: int, stages: int) -> None:
    x, y = np.ones((512, 32), np.float32), np.zeros((512, 32), np.float32)
    with pytest.raises(Deadlock) as emulated:
        move(x, y, loads, stores, stages=stages)
    with pytest.raises(Deadlock) as machine:
        move.run_ptx(x, y, loads, stores, stages=stages)
    assert _words(machine.value) == _words(emulated.value)
    assert "PTX line" in str(machine.value)


@pytest.mark.filterwarnings("ignore::tiledsl.PerformanceWarning")
def test_no_words() -> None:
    x, y = np.random.default_rng().random((512, 32), np.float32), np.zeros((512, 32), np.float32)
    move.run_ptx(x, y, 5, 5)
    assert (y[:320] == x[:320]).all()
    assert not y[320:].any()
