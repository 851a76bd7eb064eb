"""Several producers of one ring: two that fill the same tile are refused, and twins that do not."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.errors.checks import BF, check
from tests.errors.messages import message
from tests.golden import Golden
from tiledsl.errors import StageError

N = 64


@td.function
def load(stage, a, i, k):
    """Tile k of a stage from block (i, k) of ``a``."""
    td.tma_load(a, (i * N, k * N), stage.payload().get_a_tile(stage, k), stage.barrier())


@td.function
def ring_of(dtype, tiles):
    payload = td.StandardTilePayload(dtype, dtype, (N, N), (N, N), num_pipeline_stages=2 * tiles)
    return td.InputTilePipeline(payload, 2, k_group_size=tiles)


@td.function
def use(pipeline, c, n, tiles):
    """c = the tiles that came in the first array."""
    for i in range(n):
        with pipeline.consumer().acquire() as stage:
            for k in td.static_range(tiles):
                tile = stage.payload().get_a_tile(stage, k)
                td.store(tile.load(), c, (i * N, k * N))


@td.kernel(grid=1)
def wrong_side(a: td.Tensor, c: td.Tensor, n: td.int32):
    """The second role was meant to be a consumer."""
    pipeline = ring_of(a.dtype, 1)
    producer = pipeline.producer()
    with td.role("load", warps=1):
        for i in range(n):
            with producer.acquire() as stage:
                load(stage, a, i, 0)
    with td.role("other", warps=1):
        for i in range(n):
            with producer.acquire() as stage:
                load(stage, a, i, 0)
    with td.role("use", warps=4):
        use(pipeline, c, n, 1)


@td.kernel(grid=1)
def one_of_two_tiles(a: td.Tensor, c: td.Tensor, n: td.int32, *, own: td.Constant[bool] = False):
    """Two loaders with two tiles in a stage, of which the first is filled by both, unless own."""
    pipeline = ring_of(a.dtype, 2)
    with td.role("first", warps=1):
        for i in range(n):
            with pipeline.producer().acquire() as stage:
                load(stage, a, i, 0)
    with td.role("second", warps=1):
        for i in range(n):
            with pipeline.producer().acquire() as stage:
                load(stage, a, i, 1)
                if not own:
                    load(stage, a, i, 0)
    with td.role("use", warps=4):
        use(pipeline, c, n, 2)


@td.kernel(grid=1)
def replicas(a: td.Tensor, c: td.Tensor, n: td.int32, *, how: td.Constant[str] = "all"):
    """Two loaders of one text: each stage by both, by turns, by one of them, or a tile each."""
    pipeline = ring_of(a.dtype, 2)
    with td.role("load", warps=1, replicas=2) as me:
        if how == "all":
            for i in range(n):
                with pipeline.producer().acquire() as stage:
                    load(stage, a, i, 0)
                    load(stage, a, i, 1)
        elif how == "turns":
            for i in range(me.index, n, 2):
                with me.turn():
                    with pipeline.producer().acquire() as stage:
                        load(stage, a, i, 0)
                        load(stage, a, i, 1)
        elif how == "one":
            if me.index == 1:
                for i in range(n):
                    with pipeline.producer().acquire() as stage:
                        load(stage, a, i, 0)
                        load(stage, a, i, 1)
        elif how == "left":
            if me.index == 1:
                return
            for i in range(n):
                with pipeline.producer().acquire() as stage:
                    load(stage, a, i, 0)
                    load(stage, a, i, 1)
        else:
            for i in range(n):
                with pipeline.producer().acquire() as stage:
                    load(stage, a, i, me.index)
    with td.role("use", warps=4):
        use(pipeline, c, n, 2)


REFUSED: dict[str, td.Kernel] = {
    "wrong_side": wrong_side,
    "one_of_two_tiles": one_of_two_tiles,
    "replicas": replicas,
}

ACCEPTED: dict[str, tuple[td.Kernel, dict[str, Any]]] = {
    "one_of_two_tiles": (one_of_two_tiles, {"own": True}),
    **{f"replicas_{how}": (replicas, {"how": how}) for how in ("turns", "one", "left", "index")},
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: Golden) -> None:
    golden(message(lambda: check(REFUSED[name], BF, BF, td.int32), StageError))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str, n: int) -> None:
    kernel, constants = ACCEPTED[name]
    if name == "replicas_turns":
        n += n % 2  # every replica takes every turn
    shape = (max(n, 1) * N, 2 * N)
    a = np.random.default_rng().standard_normal(shape).astype(ml_dtypes.bfloat16)
    c = np.full(shape, np.nan, ml_dtypes.bfloat16)
    kernel.launch(a, c, n, **constants)
    assert np.isnan(c).all() if n == 0 else np.array_equal(c, a)
