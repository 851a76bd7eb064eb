"""Stages and what they guard: loads that may be skipped, reads that nothing guards (golden)."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.errors.messages import message
from tests.errors.test_misuse import BF, consume, fill, stages_of
from tests.golden import Golden
from tiledsl.errors import NameNotFound, StageError


@td.kernel(grid=1)
def load_skipped_by_continue(a: td.Tensor, b: td.Tensor, c: td.Tensor, n: td.int32):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
            for i in range(2):
                if i > n:
                    continue
                td.tma_load(a, (0, 0), a_tile, stage.barrier())
            td.tma_load(b, (0, 0), b_tile, stage.barrier())
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def mma_of_any_slot(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)
    with td.role("mma", warps=4):
        acc = td.zeros((64, 64), td.float32)
        with pipeline.consumer().acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(0, 0)
            acc = td.mma(a_tile, b_tile.T, acc)
        td.tma_store(acc.to(c.dtype), c, (0, 0))


@td.kernel(grid=1)
def mma_of_the_next_slot(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)
    with td.role("mma", warps=4):
        acc = td.zeros((64, 64), td.float32)
        with pipeline.consumer().acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile((stage.stage() + 1) % 2, 0)
            acc = td.mma(a_tile, b_tile.T, acc)
        td.tma_store(acc.to(c.dtype), c, (0, 0))


@td.kernel(grid=1)
def mma_before_the_loads(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    acc = td.zeros((64, 64), td.float32)
    with pipeline.producer().acquire() as stage:
        fill(a, b, stage)
        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
        acc = td.mma(a_tile, b_tile.T, acc)
    with pipeline.consumer().acquire() as stage:
        pass
    td.tma_store(acc.to(c.dtype), c, (0, 0))


@td.kernel(grid=1)
def store_before_the_loads(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)
            td.tma_store(stage.payload().get_a_tile(stage.stage(), 0), c, (0, 0))
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def tile_of_the_other_ring(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    other = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)
        with other.producer().acquire() as stage:
            fill(a, b, stage)
    with td.role("mma", warps=4):
        acc = td.zeros((64, 64), td.float32)
        with other.consumer().acquire() as stage:
            with pipeline.consumer().acquire() as mine:
                a_tile, b_tile = stage.payload().get_tile(mine.stage(), 0)
            acc = td.mma(a_tile, b_tile.T, acc)
        td.tma_store(acc.to(c.dtype), c, (0, 0))


@td.kernel(grid=1)
def deeper_in_a_loop(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    """One stage is held around a loop that takes two at once."""
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        with producer.acquire() as outer:
            fill(a, b, outer)
            for _ in range(3):
                with producer.acquire() as stage:
                    fill(a, b, stage)
                    with producer.acquire() as inner:
                        fill(a, b, inner)
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def acquired_in_front_of_the_roles(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    stage = pipeline.producer().acquire()
    fill(a, b, stage)
    with td.role("load", warps=1):
        stage.release()
    with td.role("mma", warps=4):
        consume(pipeline, c)


CASES: dict[str, Callable[[], object]] = {
    "load_skipped_by_continue": lambda: load_skipped_by_continue.lower(BF, BF, BF, td.int32),
    "mma_of_any_slot": lambda: mma_of_any_slot.lower(BF, BF, BF),
    "mma_of_the_next_slot": lambda: mma_of_the_next_slot.lower(BF, BF, BF),
    "mma_before_the_loads": lambda: mma_before_the_loads.lower(BF, BF, BF),
    "tile_of_the_other_ring": lambda: tile_of_the_other_ring.lower(BF, BF, BF),
    "deeper_in_a_loop": lambda: deeper_in_a_loop.lower(BF, BF, BF),
    "acquired_in_front_of_the_roles": lambda: acquired_in_front_of_the_roles.lower(BF, BF, BF),
    "store_before_the_loads": lambda: store_before_the_loads.lower(BF, BF, BF),
}


@pytest.mark.parametrize("name", CASES)
def test_stage(name: str, golden: Golden) -> None:
    golden(message(CASES[name], StageError))


@td.kernel(grid=1)
def view_of_another_role(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        with producer.acquire() as stage:
            fill(a, b, stage)
    with td.role("mma", warps=4):
        with producer.acquire() as stage:
            fill(a, b, stage)
        consume(pipeline, c)


def test_a_view_of_another_role(golden: Golden) -> None:
    golden(message(lambda: view_of_another_role.lower(BF, BF, BF), NameNotFound))


@td.kernel(grid=1)
def slot_decides(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)
    with td.role("mma", warps=4):
        acc = td.zeros((64, 64), td.float32)
        with pipeline.consumer().acquire() as stage:
            slot = stage.stage()
            a_tile, b_tile = stage.payload().get_tile(slot, 0)
            if slot == 0:
                acc = td.mma(a_tile, b_tile.T, acc)
            else:
                acc = acc - 1.0
        td.tma_store(acc, c, (slot * 64, 0))


def test_what_depends_on_a_slot_number_may_outlive_the_stage() -> None:
    rng = np.random.default_rng()
    a, b = (rng.standard_normal((64, 64), np.float32).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.full((64, 64), np.nan, np.float32)
    slot_decides(a, b, c)
    assert np.allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, atol=1e-3)
