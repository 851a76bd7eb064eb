"""Which loops over tiles are kept in step, and that each is left on every path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.filecheck import filecheck
from tests.kernels.oracle import fresh_seed
from tests.passes.lowered import BF16, protocol

ROWS = 64


@td.function
def ring(x):
    payload = td.StandardTilePayload(x.dtype, x.dtype, (ROWS, 64), (8, 64), num_pipeline_stages=2)
    return td.InputTilePipeline(payload, num_group_stages=2)


@td.function
def load(x, producer, m, n):
    with producer.acquire() as stage:
        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
        td.tma_load(x, (m * ROWS, n * 64), a_tile, stage.barrier())
        td.tma_load(x, (m * ROWS, n * 64), b_tile, stage.barrier())


@td.function
def take(y, consumer, m, n):
    with consumer.acquire() as stage:
        a_tile, _ = stage.payload().get_tile(stage.stage(), 0)
        td.tma_store(a_tile.load(), y, (m * ROWS, n * 64))


@td.function
def tiles_of(x, lockstep):
    m_tiles, n_tiles = td.cdiv(x.shape[0], ROWS), td.cdiv(x.shape[1], 64)
    return td.TileScheduler(m_tiles, n_tiles, group=2, lockstep=lockstep)


@td.kernel(grid=td.persistent)
def copy(x: td.Tensor, y: td.Tensor, *, lockstep: td.Constant[bool] = True):
    pipeline = ring(x)
    tiles = tiles_of(x, lockstep)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            load(x, producer, m, n)
    with td.role("store", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            take(y, consumer, m, n)


def lowered(kernel: td.Kernel, **constants: Any) -> str:
    return protocol(kernel, BF16, BF16, **constants).protocol_ir


def test_the_mark_of_a_loop() -> None:
    made = protocol(copy, BF16, BF16)
    filecheck(
        made.ir,
        """
        CHECK: role "load"
        CHECK: for %[[TILE:.*]] = %block{{.*}} to %num_tiles step %[[STEP:.*]] {
        CHECK-NEXT: grid.pace %[[TILE]] of %num_tiles step %[[STEP]]
        CHECK: role "store"
        CHECK: grid.pace
        """,
    )
    assert "grid." not in protocol(copy, BF16, BF16, lockstep=False).ir


def test_only_the_loader_is_kept_in_step() -> None:
    text = lowered(copy)
    filecheck(
        text,
        """
        CHECK: role "load"
        CHECK: grid.enter "load"
        CHECK-NEXT: for %[[TILE:.*]] = %block{{.*}} to %num_tiles step %[[STEP:.*]] {
        CHECK-NEXT: grid.pace "load" %[[TILE]] of %num_tiles step %[[STEP]]
        CHECK: continue
        CHECK-NEXT: }
        CHECK-NEXT: grid.leave "load"
        CHECK-NOT: grid.
        """,
    )
    rest = [line for line in text.splitlines() if "grid." not in line]
    without = lowered(copy, lockstep=False).splitlines()
    assert rest == without


@td.kernel(grid=td.persistent)
def no_roles(x: td.Tensor, y: td.Tensor):
    for m, n in tiles_of(x, True):
        y[m, n] = x[m, n]


@td.kernel(grid=td.persistent)
def outside(x: td.Tensor, y: td.Tensor):
    last = 0
    for m, n in tiles_of(x, True):
        last = m + n
    with td.role("write", warps=1):
        y[0, 0] = x[last, last]


@td.kernel(grid=td.persistent)
def prefetches(x: td.Tensor, y: td.Tensor):
    with td.role("touch", warps=1):
        for m, n in tiles_of(x, True):
            td.tma_prefetch(x, (m * ROWS, n * 64), (ROWS, 64))
    with td.role("write", warps=1):
        y[0, 0] = 1.0


@td.kernel(grid=td.persistent)
def copies_with_many(x: td.Tensor, y: td.Tensor):
    pipeline = ring(x)
    tiles = tiles_of(x, True)
    with td.role("load", warps=4):
        producer = pipeline.producer()
        for m, n in tiles:
            with producer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                td.async_copy(x, (m * ROWS, n * 64), a_tile, stage.barrier())
                td.async_copy(x, (m * ROWS, n * 64), b_tile, stage.barrier())
    with td.role("store", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            take(y, consumer, m, n)


@td.kernel(grid=td.persistent)
def dealt(x: td.Tensor, y: td.Tensor):
    pipeline = ring(x)
    tiles = tiles_of(x, True)
    with td.role("load", warps=1) as me:
        producer = pipeline.producer()
        for m, n in tiles.deal(me):
            load(x, producer, m, n)
    with td.role("store", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            take(y, consumer, m, n)


@pytest.mark.parametrize(
    "kernel",
    [no_roles, outside, prefetches, copies_with_many, dealt],
    ids=lambda kernel: kernel.__name__,
)
def test_loops_that_are_not_kept_in_step(kernel: td.Kernel) -> None:
    assert "grid." not in lowered(kernel)


# ------------------------------------------------------------------------ several loops


@td.kernel(grid=td.persistent)
def many_loops(x: td.Tensor, y: td.Tensor):
    first, second = ring(x), ring(x)
    tiles = tiles_of(x, True)
    with td.role("load", warps=1):
        producer = first.producer()
        for m, n in tiles:
            load(x, producer, m, n)
        for m, n in tiles:
            load(x, producer, m, n)
    with td.role("more", warps=1):
        producer = second.producer()
        for m, n in tiles:
            load(x, producer, m, n)
    with td.role("store", warps=4):
        one, other = first.consumer(), second.consumer()
        for m, n in tiles:
            take(y, one, m, n)
        for m, n in tiles:
            take(y, one, m, n)
        for m, n in tiles:
            take(y, other, m, n)


def test_each_loop_has_a_counter_of_its_own() -> None:
    made = protocol(many_loops, BF16, BF16)
    for op in ("enter", "pace", "leave"):
        lines = [line for line in made.protocol_ir.splitlines() if f"grid.{op}" in line]
        assert [line.split('"')[1] for line in lines] == ["load", "load.1", "more"]
    words = [line for line in made.ptx.splitlines() if line.startswith(".global")]
    assert len(words) == 3


# ------------------------------------------------------------------------ every way out


@td.kernel(grid=td.persistent)
def breaks(x: td.Tensor, y: td.Tensor):
    pipeline = ring(x)
    tiles = tiles_of(x, True)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            if m == 2:
                break
            load(x, producer, m, n)
    with td.role("store", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            if m == 2:
                break
            take(y, consumer, m, n)


@td.kernel(grid=td.persistent)
def returns(x: td.Tensor, y: td.Tensor):
    pipeline = ring(x)
    tiles = tiles_of(x, True)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            if m == 2:
                return
            load(x, producer, m, n)
    with td.role("store", warps=4):
        consumer = pipeline.consumer()
        for m, n in tiles:
            if m == 2:
                return
            take(y, consumer, m, n)


@td.function
def last_even(m):
    """A scope inside of the loop: its end is no end of the loop."""
    for k in range(m):
        if k % 2 == 1:
            return k
    return m


@td.function
def load_all(x, producer, tiles):
    for m, n in tiles:
        if last_even(m) == 2:
            return m
        load(x, producer, m, n)
    return -1


@td.function
def take_all(y, consumer, tiles):
    for m, n in tiles:
        if last_even(m) == 2:
            return m
        take(y, consumer, m, n)
    return -1


@td.kernel(grid=td.persistent)
def returns_from_a_function(x: td.Tensor, y: td.Tensor):
    pipeline = ring(x)
    tiles = tiles_of(x, True)
    with td.role("load", warps=1):
        load_all(x, pipeline.producer(), tiles)
    with td.role("store", warps=4):
        take_all(y, pipeline.consumer(), tiles)


def test_a_break_arrives_behind_the_loop() -> None:
    assert lowered(breaks).count("grid.leave") == 1


@pytest.mark.parametrize("kernel", [returns, returns_from_a_function])
def test_a_return_leaves_the_loop_first(kernel: td.Kernel) -> None:
    text = lowered(kernel)
    ends = "return" if kernel is returns else "leave"
    lines = [line.split() for line in text[text.index("grid.enter") :].splitlines()]
    behind = [lines[n + 1][0] for n, line in enumerate(lines) if line[0] == "grid.leave"]
    assert len(behind) == 2 and ends in behind
    assert text.count("grid.enter") == 1


# ------------------------------------------------------------------------ the results


@pytest.mark.parametrize(
    "kernel", [copy, breaks, returns, copies_with_many, dealt], ids=lambda kernel: kernel.__name__
)
@pytest.mark.parametrize("blocks", [1, 3, 50])
def test_the_emulator_takes_no_notice(kernel: td.Kernel, blocks: int) -> None:
    rng = np.random.default_rng(fresh_seed())
    rows, columns = (int(n) for n in rng.integers(1, 400, 2))
    columns = -(-columns // 8) * 8
    x = rng.standard_normal((rows, columns)).astype(ml_dtypes.bfloat16)
    y = np.full_like(x, np.nan)
    kernel[blocks](x, y)
    if kernel in (breaks, returns):  # they leave out what a block meets from row 2 of tiles on
        done = ~np.isnan(y.astype(np.float32))
        assert (y[done] == x[done]).all()
        assert done[: 2 * ROWS].all() or columns > 64
    else:
        assert (y == x).all()


@pytest.mark.parametrize("name", ["gemm", "gemm_cluster"])
def test_a_product_is_the_same_bits(sample: Callable[[str], Any], name: str) -> None:
    kernel = getattr(sample(name), name)
    shape = (int(np.random.default_rng(fresh_seed()).integers(1, 500)), 264, 200)
    problem = sample("common").make_problem(shape, "bfloat16", "float32", fresh_seed(), None)
    found = []
    for lockstep in (True, False):
        problem.poison()
        kernel(problem.a, problem.b, problem.c, BN=64, BK=32, lockstep=lockstep)
        error, ratio = problem.check()
        assert ratio <= 1, (shape, error, ratio)
        found.append(problem.c.copy())
    assert (found[0] == found[1]).all()


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A module of samples/ by name."""
    import sys
    from importlib import import_module
    from pathlib import Path

    samples = Path(__file__).resolve().parents[2] / "samples"
    monkeypatch.setattr(sys, "path", [str(samples), *sys.path])
    return import_module
