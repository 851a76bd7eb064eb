"""Program order of what a role stores by TMA and loads again, and of elements beside tiles."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.errors.messages import message
from tests.golden import Golden
from tiledsl.errors import InvalidValue
from tiledsl.runtime.emulator import emulate

STEPS = 4


@td.kernel(grid=1)
def chain(x: td.Tensor):
    """Each tile becomes a copy of the one before it, in one thread."""
    payload = td.StandardTilePayload(x.dtype, x.dtype, (64, 64), (64, 64), num_pipeline_stages=3)
    pipeline = td.InputTilePipeline(payload, num_group_stages=3)
    with td.role("copy", warps=1):
        for i in range(STEPS):
            with pipeline.producer().acquire() as stage:
                tile = stage.payload().get_a_tile(stage.stage())
                td.tma_load(x, (0, 64 * i), tile, stage.barrier())
            with pipeline.consumer().acquire() as stage:
                td.tma_store(stage.payload().get_a_tile(stage.stage()), x, (0, 64 * i + 64))


@td.kernel(grid=1, warps=8)
def product_chain(x: td.Tensor, unit: td.Tensor):
    """The same with products, by two warpgroups: one thread loads what both have stored."""
    payload = td.StandardTilePayload(x.dtype, x.dtype, (64, 64), (128, 64), num_pipeline_stages=2)
    pipeline = td.InputTilePipeline(payload, num_group_stages=2)
    for i in range(STEPS):
        with pipeline.producer().acquire() as stage:
            unit_tile, tile = stage.payload().get_tile(stage.stage())
            td.tma_load(unit, (0, 0), unit_tile, stage.barrier())
            td.tma_load(x, (0, 64 * i), tile, stage.barrier())
        acc = td.zeros((128, 64), td.float32)
        with pipeline.consumer().acquire() as stage:
            unit_tile, tile = stage.payload().get_tile(stage.stage())
            acc = td.mma(tile, unit_tile.T, acc)
        td.tma_store(acc.to(x.dtype), x, (0, 64 * i + 64))


@pytest.mark.parametrize("seed", [None, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("kernel", "rows", "more"),
    [(chain, 64, ()), (product_chain, 128, (np.eye(64, dtype=ml_dtypes.bfloat16),))],
    ids=["shared", "registers"],
)
def test_a_load_sees_what_the_role_stored(
    kernel: td.Kernel, rows: int, more: Any, seed: int | None
) -> None:
    x = np.random.default_rng().standard_normal((rows, 64 * (STEPS + 1)), np.float32)
    x = x.astype(ml_dtypes.bfloat16)
    first = x[:, :64].copy()
    emulate(kernel.lower(x, *more).kernel, [x, *more], grid=(1, 1, 1), seed=seed)
    for i in range(STEPS + 1):
        assert (x[:, 64 * i : 64 * i + 64] == first).all()


def test_a_load_of_another_tensor_does_not_wait() -> None:
    x = td.spec((128, 64 * (STEPS + 1)), td.bfloat16)
    text = product_chain.lower(x, td.spec((64, 64), td.bfloat16)).protocol_ir
    # `unit` is loaded without a wait, `x` behind one.
    assert text.count('bulk.wait {pending=0, elect="part"}\n') == 1


@td.kernel(grid=1)
def read_behind_a_store(c: td.Tensor):
    td.tma_store(td.full((64, 64), 1.0, td.float32), c, (0, 0))
    c[0, 0] = c[3, 5] * 2.0


@td.kernel(grid=1)
def written_beside_a_load(x: td.Tensor, y: td.Tensor):
    payload = td.StandardTilePayload(x.dtype, x.dtype, (64, 64), (64, 64), num_pipeline_stages=1)
    pipeline = td.InputTilePipeline(payload, num_group_stages=1)
    with td.role("load", warps=1):
        x[0, 0] = 1.0
        with pipeline.producer().acquire() as stage:
            tile = stage.payload().get_a_tile(stage.stage())
            td.tma_load(x, (0, 0), tile, stage.barrier())
    with td.role("store", warps=1):
        with pipeline.consumer().acquire() as stage:
            td.tma_store(stage.payload().get_a_tile(stage.stage()), y, (0, 0))


F32 = td.spec((64, 64), td.float32)


def test_an_element_read_behind_a_tile_store(golden: Golden) -> None:
    golden(message(lambda: read_behind_a_store.lower(F32), InvalidValue))


def test_an_element_written_before_a_tile_load(golden: Golden) -> None:
    golden(message(lambda: written_beside_a_load.lower(F32, F32), InvalidValue))
