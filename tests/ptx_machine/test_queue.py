"""More asynchronous copies under way than the machine's queue has room for."""

from __future__ import annotations

import numpy as np
import pytest

import tiledsl as td
from tests.kernels.oracle import fresh_seed
from tiledsl.runtime.ptx_machine.isa.bulk_ops import BUFFERS, QUEUE

ROWS, COLUMNS = 64, 32  # 2048 copies of 4 bytes each, by one warp


@td.kernel(grid=1)
def copy_elements(x: td.Tensor, y: td.Tensor):
    pipeline = td.InputTilePipeline(td.TileArray(x.dtype, (ROWS, COLUMNS), stages=2), 2)
    steps = td.cdiv(x.shape[0], ROWS)
    with td.role("copy", warps=1):
        for i in range(steps):
            with pipeline.producer().acquire() as stage:
                td.async_copy(x, (i * ROWS, 0), stage.tile(), stage.barrier())
    with td.role("store", warps=4):
        for i in range(steps):
            with pipeline.consumer().acquire() as stage:
                td.store(stage.tile().load(), y, (i * ROWS, 0))


@pytest.mark.parametrize("policy", ["late", "random", "pct"])
def test_a_full_queue_completes_its_oldest_copy(policy: str) -> None:
    assert ROWS * COLUMNS > QUEUE
    rng = np.random.default_rng(fresh_seed())
    x = rng.standard_normal((3 * ROWS - 5, COLUMNS + 1), np.float32)[:, 1:]  # 4-byte alignment
    y = np.full(x.shape, np.nan, np.float32)
    copy_elements.run_ptx(x, y, options={"policy": policy, "seed": int(rng.integers(1 << 30))})
    assert (y == x).all()


@td.kernel(grid=1)
def copy_wide_tiles(x: td.Tensor, y: td.Tensor):
    """Two stores a tile, since a swizzled row has 128 bytes at most."""
    steps = td.cdiv(x.shape[0], 8)
    pipeline = td.InputTilePipeline(td.TileArray(x.dtype, (8, 64), stages=2, swizzle=128), 2)
    with td.role("load", warps=1):
        for i in range(steps):
            with pipeline.producer().acquire() as stage:
                td.tma_load(x, (i * 8, 0), stage.tile(), stage.barrier())
    with td.role("store", warps=1):
        for i in range(steps):
            with pipeline.consumer().acquire() as stage:
                td.tma_store(stage.tile(), y, (i * 8, 0))


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("policy", ["late", "random", "pct"])
def test_more_stores_than_buffers(policy: str, checks: bool) -> None:
    """A store that must read now makes another write: the next of its group reads all the same."""
    rng = np.random.default_rng(fresh_seed())
    x = rng.standard_normal((8 * BUFFERS + 3, 64), np.float32)
    y = np.full(x.shape, np.nan, np.float32)
    options = {"policy": policy, "seed": int(rng.integers(1 << 30)), "checks": checks}
    copy_wide_tiles.run_ptx(x, y, options=options)
    assert (y == x).all()
