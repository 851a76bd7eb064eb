"""What a block or a cluster does not have: shared memory, registers, named barriers, blocks."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

import tiledsl as td
from tests.errors.checks import BF, F32
from tests.errors.messages import message
from tests.golden import Golden
from tiledsl.errors import InvalidValue, ResourceLimit, TileError


@td.kernel(grid=1)
def named_barriers(a: td.Tensor):
    one, two, three, four = (td.named_barrier() for _ in range(4))
    five, six, seven, eight = (td.named_barrier() for _ in range(4))
    nine, ten, eleven, twelve = (td.named_barrier() for _ in range(4))
    all_of_them = (one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve)
    with td.role("one", warps=1):
        for barrier in all_of_them:
            barrier.arrive()
    with td.role("two", warps=8, replicas=2):
        td.tma_store(td.zeros((128, 64), a.dtype), a, (0, 0))
        for barrier in all_of_them:
            barrier.sync()


@td.kernel(grid=1)
def shared_memory(a: td.Tensor, c: td.Tensor, *, stages: td.Constant[int] = 5):
    kept = td.shared((128, 128), td.float32, number=2)
    bar = td.mbarrier(number=2)
    pipeline = td.InputTilePipeline(td.TileArray(a.dtype, (128, 64), stages=stages), stages)
    with td.role("load", warps=1):
        for i in td.static_range(2):
            bar[i].arrive_and_expect_bytes(128 * 128 * 4)
            td.tma_load(c, (0, 128 * i), kept[i], bar[i])
        with pipeline.producer().acquire() as stage:
            td.tma_load(a, (0, 0), stage.tile(), stage.barrier())
    with td.role("mma", warps=8):
        for i in td.static_range(2):
            bar[i].wait(0)
        with pipeline.consumer().acquire() as stage:
            acc = td.mma(stage.tile(), stage.tile().T, kept[0].load())
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def registers_of_replicas(a: td.Tensor, c: td.Tensor):
    payload = td.StandardTilePayload(a.dtype, a.dtype, (128, 64), (256, 64), num_pipeline_stages=2)
    pipeline = td.InputTilePipeline(payload, 2)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            one, two = stage.payload().get_tile(stage)
            td.tma_load(a, (0, 0), one, stage.barrier())
            td.tma_load(a, (0, 0), two, stage.barrier())
    with td.role("mma", warps=4, replicas=3) as me:
        acc = td.zeros((128, 256), td.float32)
        for _ in range(2):
            with me.turn():
                with pipeline.consumer().acquire() as stage:
                    one, two = stage.payload().get_tile(stage)
                    acc = td.mma(one, two.T, acc)
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def wide_products(a: td.Tensor, c: td.Tensor, *, columns: td.Constant[int] = 256):
    """Three warpgroups and a loader: 512 threads, which have 128 registers each at entry."""
    payload = td.StandardTilePayload(
        a.dtype, a.dtype, (192, 64), (columns, 64), num_pipeline_stages=2
    )
    pipeline = td.InputTilePipeline(payload, 2)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            one, two = stage.payload().get_tile(stage)
            td.tma_load(a, (0, 0), one, stage.barrier())
            td.tma_load(a, (0, 0), two, stage.barrier())
    with td.role("mma", warps=12):
        with pipeline.consumer().acquire() as stage:
            one, two = stage.payload().get_tile(stage)
            acc = td.mma(one, two.T, td.zeros((192, columns), td.float32))
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def loop_in_a_loop(a: td.Tensor, c: td.Tensor, n: td.int32, *, keep: td.Constant[bool] = False):
    """An accumulator of 128 registers through both loops; ``keep``: read behind the inner one."""
    payload = td.StandardTilePayload(a.dtype, a.dtype, (64, 64), (256, 64), num_pipeline_stages=2)
    pipeline = td.InputTilePipeline(payload, 2)
    with td.role("load", warps=1):
        for _ in range(n):
            with pipeline.producer().acquire() as stage:
                one, two = stage.payload().get_tile(stage)
                td.tma_load(a, (0, 0), one, stage.barrier())
                td.tma_load(a, (0, 0), two, stage.barrier())
    with td.role("mma", warps=4):
        acc = td.zeros((64, 256), td.float32)
        for _ in range(n):
            with pipeline.consumer().acquire() as stage:
                one, two = stage.payload().get_tile(stage)
                before = acc
                for _ in range(n):
                    acc = td.mma(one, two.T, acc)
                if keep:
                    acc = acc + before
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def large_tile(c: td.Tensor, *, columns: td.Constant[int]):
    with td.role("fill", warps=4):
        td.store(td.zeros((64, columns), td.float32), c, (0, 0))


@td.kernel(grid=1)
def large_row(c: td.Tensor, *, columns: td.Constant[int]):
    with td.role("fill", warps=4):
        td.store(td.load(c, (0, 0), (columns,)), c, (1, 0))


CASES: dict[str, tuple[type[TileError], Callable[[], object]]] = {
    "named_barriers": (ResourceLimit, lambda: named_barriers.lower(BF)),
    "shared_memory": (ResourceLimit, lambda: shared_memory.lower(BF, F32, stages=6)),
    "registers_of_replicas": (ResourceLimit, lambda: registers_of_replicas.lower(BF, F32)),
    "wide_products": (ResourceLimit, lambda: wide_products.lower(BF, F32)),
    "large_tile": (ResourceLimit, lambda: large_tile.lower(F32, columns=1 << 30)),
    "large_row": (ResourceLimit, lambda: large_row.lower(F32, columns=1 << 30)),
    "loop_in_a_loop": (
        ResourceLimit,
        lambda: loop_in_a_loop.lower(BF, F32, td.int32, keep=True),
    ),
    "cluster": (InvalidValue, lambda: td.kernel(cluster=(4, 4))(named_barriers.function)),
    "cluster_axes": (InvalidValue, lambda: td.kernel(cluster=(1, 1, 2, 1))(shared_memory.function)),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, golden: Golden) -> None:
    kind, run = CASES[name]
    golden(message(run, kind))


def test_one_stage_fewer_fits() -> None:
    assert shared_memory.lower(BF, F32, stages=2).plan.shared_bytes <= 232448


def test_a_loop_goes_on_with_the_accumulator_of_the_outer_one() -> None:
    """It counts once, and is right: the assembler has registers for it."""
    assert loop_in_a_loop.compile(BF, F32, td.int32).resources.spill_store_bytes == 0


def test_columns_are_limited_where_ptxas_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The widest product that is accepted assembles; the next one does not, were it not refused."""
    wide_products.compile(BF, F32, columns=200)
    with pytest.raises(ResourceLimit, match="with 208 columns needs 130 registers"):
        wide_products.compile(BF, F32, columns=208)
    module = import_module("tiledsl.codegen.passes.plan_roles")
    monkeypatch.setattr(module, "_check_columns", lambda *_: None)
    with pytest.raises(ResourceLimit, match="C7602"):
        wide_products.compile(BF, F32, columns=208)
