"""Two stores of one role to the same elements: nothing orders them, so the emulator says so."""

from __future__ import annotations

import numpy as np

import tiledsl as td
from tests.errors.messages import message
from tests.golden import Golden
from tiledsl.errors import InvalidValue


@td.kernel(grid=1, warps=4)
def twice(y: td.Tensor, row: td.int32):
    td.tma_store(td.full((64, 32), 1.0, td.float32), y, (0, 0))
    td.tma_store(td.full((64, 32), 2.0, td.float32), y, (row, 0))


def test_overlapping_stores(golden: Golden) -> None:
    golden(message(lambda: twice(np.zeros((128, 32), np.float32), 63), InvalidValue))


def test_stores_beside_each_other() -> None:
    y = np.full((130, 32), np.nan, np.float32)
    twice(y, 64)
    assert (y[:64] == 1).all() and (y[64:128] == 2).all() and np.isnan(y[128:]).all()


def test_overlap_outside_of_the_tensor_does_not_count() -> None:
    y = np.full((64, 32), np.nan, np.float32)
    twice(y, 64)
    assert (y == 1).all()
