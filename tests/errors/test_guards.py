"""Who may write and read a tile, and on which barrier a load completes: refused, and twins."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.errors.checks import BF, F32, check, run
from tests.errors.messages import message
from tests.errors.test_arrivals import fill, square, take_tile
from tests.golden import Golden
from tiledsl.errors import InvalidValue, StageError


@td.function
def multiply(pipeline, c):
    acc = take_tile(pipeline.consumer().acquire(), td.zeros((64, 64), td.float32))
    td.tma_store(acc.to(c.dtype), c, (0, 0))


@td.kernel(grid=1)
def through_shared_memory(a: td.Tensor, c: td.Tensor):
    """A ring between two computing roles: one writes tiles, the other reads them."""
    pipeline = square(a.dtype)
    handed = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("scale", warps=4):
        with pipeline.consumer().acquire() as stage:
            with handed.producer().acquire() as other:
                other.tile().store(stage.tile().load())
    with td.role("mma", warps=4):
        multiply(handed, c)


@td.kernel(grid=1)
def stores_to_a_consumer_stage(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        with pipeline.consumer().acquire() as stage:
            stage.tile().store(stage.tile().load())


@td.kernel(grid=1)
def loads_to_a_consumer_stage(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        with pipeline.consumer().acquire() as stage:
            td.tma_load(a, (0, 0), stage.tile(), stage.barrier())


@td.kernel(grid=1)
def reads_a_producer_stage(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=4):
        with pipeline.producer().acquire() as stage:
            td.tma_load(a, (0, 0), stage.tile(), stage.barrier())
            td.store(stage.tile().load(), c, (0, 0))
    with td.role("mma", warps=4):
        multiply(pipeline, c)


@td.kernel(grid=1)
def stores_a_consumer_tile(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("copy", warps=1):
        with pipeline.consumer().acquire() as stage:
            td.tma_store(stage.tile(), c, (0, 0))


@td.kernel(grid=1)
def own_tile(a: td.Tensor, c: td.Tensor):
    """A shared tile and an mbarrier of the kernel's own, beside a ring."""
    q = td.shared((64, 64), td.bfloat16)
    bar = td.mbarrier()
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        bar.arrive_and_expect_bytes(64 * 64 * 2)
        td.tma_load(a, (0, 0), q, bar)
        fill(pipeline, a)
    with td.role("mma", warps=4):
        bar.wait(0)
        with pipeline.consumer().acquire() as stage:
            acc = td.mma(q, stage.tile().T, td.zeros((64, 64), td.float32))
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def own_tiles_behind_a_bare_ring(a: td.Tensor, c: td.Tensor):
    """A ring without tiles guards what the kernel says."""
    q = td.shared((64, 64), td.bfloat16, number=2)
    ring = td.ProducerConsumerPipeline(2)
    with td.role("load", warps=1):
        with ring.produce() as stage:
            td.tma_load(a, (0, 0), q[stage.stage()], stage.barrier())
    with td.role("mma", warps=4):
        with ring.consume() as stage:
            tile = q[stage.stage()]
            acc = td.mma(tile, tile.T, td.zeros((64, 64), td.float32))
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def ring_tile_on_own_barrier(a: td.Tensor, c: td.Tensor):
    bar = td.mbarrier()
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            bar.arrive_and_expect_bytes(64 * 64 * 2)
            td.tma_load(a, (0, 0), stage.tile(), bar)
    with td.role("mma", warps=4):
        multiply(pipeline, c)


@td.kernel(grid=1)
def own_tile_on_ring_barrier(a: td.Tensor, c: td.Tensor):
    q = td.shared((64, 64), td.bfloat16)
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            td.tma_load(a, (0, 0), stage.tile(), stage.barrier())
            td.tma_load(a, (64, 0), q, stage.barrier())
    with td.role("mma", warps=4):
        multiply(pipeline, c)


@td.kernel(grid=1)
def barrier_of_another_stage(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        one = pipeline.acquire_producer()
        two = pipeline.acquire_producer()
        td.tma_load(a, (0, 0), one.tile(), two.barrier())
        td.tma_load(a, (0, 0), two.tile(), one.barrier())
        one.release()
        two.release()
    with td.role("mma", warps=4):
        multiply(pipeline, c)


@td.kernel(grid=1)
def by_slot_number(a: td.Tensor, c: td.Tensor):
    """A slot's barrier by its number is the stage's barrier."""
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            td.tma_load(a, (0, 0), stage.tile(), pipeline.full_mbar(stage.stage()))
    with td.role("mma", warps=4):
        slot = pipeline.consumer_stage()
        with pipeline.consumer().acquire() as stage:
            tile = stage.payload()[slot]
            acc = td.mma(tile, tile.T, td.zeros((64, 64), td.float32))
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def slot_behind(a: td.Tensor, c: td.Tensor):
    pipeline = td.InputTilePipeline(td.TileArray(a.dtype, (64, 64), stages=4), 2)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            for k in td.static_range(2):
                td.tma_load(a, (0, 64 * k), stage.tile(k), stage.barrier())
    with td.role("mma", warps=4):
        with pipeline.consumer().acquire() as stage:
            tile = stage.payload()[1 - stage.stage(), 1]
            acc = td.mma(tile, tile.T, td.zeros((64, 64), td.float32))
        td.tma_store(acc, c, (0, 0))


REFUSED: dict[str, td.Kernel] = {
    "stores_to_a_consumer_stage": stores_to_a_consumer_stage,
    "loads_to_a_consumer_stage": loads_to_a_consumer_stage,
    "reads_a_producer_stage": reads_a_producer_stage,
    "ring_tile_on_own_barrier": ring_tile_on_own_barrier,
    "own_tile_on_ring_barrier": own_tile_on_ring_barrier,
    "barrier_of_another_stage": barrier_of_another_stage,
    "slot_behind": slot_behind,
}

ACCEPTED: dict[str, tuple[td.Kernel, Any]] = {
    "through_shared_memory": (through_shared_memory, F32),
    "stores_a_consumer_tile": (stores_a_consumer_tile, BF),
    "own_tile": (own_tile, F32),
    "own_tiles_behind_a_bare_ring": (own_tiles_behind_a_bare_ring, F32),
    "by_slot_number": (by_slot_number, F32),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: Golden) -> None:
    c = BF if name == "reads_a_producer_stage" else F32
    golden(message(lambda: check(REFUSED[name], BF, c), StageError))


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    kernel, c = ACCEPTED[name]
    run(kernel, BF, c)


# ------------------------------------------------------------ tensors reached in two ways


@td.kernel(grid=1)
def reads_back(a: td.Tensor, c: td.Tensor, n: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        acc = take_tile(pipeline.consumer().acquire(), td.zeros((64, 64), td.float32))
        td.tma_store(acc, c, (64 * n, 0))
        td.store(td.load(c, (64 * n, 0), (64, 64)) + 1.0, c, (0, 64))


@td.kernel(grid=1)
def copies_back(c: td.Tensor, n: td.int32):
    tile = td.shared((64, 64), td.float32)
    here = td.mbarrier()
    with td.role("both", warps=4):
        td.store(td.full((64, 64), 1.0, td.float32), c, (64 * n, 0))
        here.arrive_and_expect_bytes(tile.nbytes)
        td.tma_load(c, (64 * n, 0), tile, here)
        here.wait(0)
        td.store(tile.load(), c, (0, 64))


@td.kernel(grid=1)
def in_place(a: td.Tensor, c: td.Tensor, n: td.int32):
    """c = a @ a.T + c, tile by tile; unrolled, so that reads stand behind earlier writes."""
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        for _ in td.static_range(2):
            fill(pipeline, a)
    with td.role("mma", warps=4):
        for i in td.static_range(2):
            acc = take_tile(pipeline.consumer().acquire(), td.zeros((64, 64), td.float32))
            acc = acc + td.load(c, (64 * n, 64 * i), (64, 64))
            td.tma_store(acc, c, (64 * n, 64 * i))


def test_a_tile_read_back(golden: Golden) -> None:
    golden(message(lambda: check(copies_back, F32, td.int32), InvalidValue))


def test_what_tma_stored_is_waited_for() -> None:
    a = np.random.default_rng().standard_normal((64, 64)).astype(ml_dtypes.bfloat16)
    c = np.full((64, 128), np.nan, np.float32)
    reads_back(a, c, 0)
    product = a.astype(np.float64) @ a.astype(np.float64).T
    np.testing.assert_allclose(c, np.hstack([product, product + 1]), atol=1e-3)


def test_a_tile_read_before_it_is_written() -> None:
    run(in_place, BF, F32, 3)
