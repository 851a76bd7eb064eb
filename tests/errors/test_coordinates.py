"""Coordinates of TMA copies that stop an H200 with an illegal instruction (seen there)."""

from __future__ import annotations

import numpy as np
import pytest

import tiledsl as td
from tests.errors.messages import message
from tests.golden import Golden
from tiledsl.errors import InvalidValue


@td.kernel(grid=1, warps=4)
def stores(y: td.Tensor, row: td.int32, column: td.int32):
    td.tma_store(td.full((64, 16), 1.0, td.float32), y, (row, column))


@td.kernel(grid=1)
def copies(x: td.Tensor, y: td.Tensor, row: td.int32, column: td.int32):
    payload = td.StandardTilePayload(x.dtype, x.dtype, (8, 32), (8, 32), num_pipeline_stages=1)
    pipeline = td.InputTilePipeline(payload, num_group_stages=1)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            tile = stage.payload().get_a_tile(stage.stage(), 0)
            td.tma_load(x, (row, column), tile, stage.barrier())
    with td.role("store", warps=1):
        with pipeline.consumer().acquire() as stage:
            td.tma_store(stage.payload().get_a_tile(stage.stage(), 0), y, (0, 0))


def filled() -> np.ndarray:
    return np.random.default_rng().standard_normal((80, 40)).astype(np.float32)


@pytest.mark.parametrize(("row", "column"), [(0, 2), (0, -4), (-1, 0)])
def test_a_store(row: int, column: int, golden: Golden) -> None:
    golden(message(lambda: stores(filled(), row, column), InvalidValue))


@pytest.mark.parametrize(("row", "column"), [(0, 4), (79, 36), (100, 400)])
def test_a_store_inside_or_behind(row: int, column: int) -> None:
    y = filled()
    expected = y.copy()
    expected[row : row + 64, column : column + 16] = 1.0
    stores(y, row, column)
    assert (y == expected).all()


def test_a_load_at_an_odd_column(golden: Golden) -> None:
    golden(message(lambda: copies(filled(), filled(), 0, 3), InvalidValue))


@pytest.mark.parametrize(("row", "column"), [(-3, -4), (76, 36), (-8, 0), (0, 4)])
def test_a_load_may_lie_outside(row: int, column: int) -> None:
    x, y = filled(), filled()
    expected = y.copy()
    expected[:8, :32] = np.pad(x, 100)[100 + row : 108 + row, 100 + column : 132 + column]
    copies(x, y, row, column)
    assert (y == expected).all()


@td.kernel(grid=1, warps=4)
def stores_at_an_odd_column(y: td.Tensor):
    td.tma_store(td.full((64, 16), 1.0, td.float32), y, (0, 3))


@td.kernel(grid=1, warps=4)
def stores_before_the_tensor(y: td.Tensor):
    td.tma_store(td.full((64, 16), 1.0, td.float32), y, (-64, 0))


@pytest.mark.parametrize("kernel", [stores_at_an_odd_column, stores_before_the_tensor])
def test_at_compile_time(kernel: td.Kernel, golden: Golden) -> None:
    golden(message(lambda: kernel.lower(td.spec((80, 40), td.float32)), InvalidValue))
