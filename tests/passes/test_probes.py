"""``try_acquire``: one answer for all threads where a branch depends on it, else each its own."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.filecheck import filecheck
from tests.passes.test_replicas import BF16, F32, SIZE, STAGES, fill, ring
from tiledsl.runtime.emulator import emulate


@td.kernel(grid=1)
def probes(
    a: td.Tensor, b: td.Tensor, c: td.Tensor, n: td.int32, *,
    style: td.Constant[str], warps: td.Constant[int],
):  # fmt: skip
    """Both sides ask before they wait. The producer may have threads that do not load."""
    pipeline = ring(a, b)
    with td.role("load", warps=warps):
        producer = pipeline.producer()
        if warps == 8:
            td.store(td.full((2 * SIZE, SIZE), 2.0, td.float32), c, (SIZE, 0))
        ready = producer.try_acquire()
        for k in range(n):
            with producer.acquire_if_needed(ready) as stage:
                fill(a, b, stage, 0, k)
            ready = producer.try_acquire()
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        acc = td.zeros((SIZE, SIZE), td.float32)
        ready = False
        for k in range(n):
            if style == "branch":
                while not consumer.try_acquire():
                    pass
            with consumer.acquire_if_needed(ready) as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                acc = td.mma(a_tile, b_tile.T, acc)
            if style == "carried":
                ready = k + 1 < n and consumer.try_acquire()
        td.tma_store(acc, c, (0, 0))


def lowered(style: str, warps: int) -> Any:
    return probes.lower(BF16, BF16, F32, td.int32, style=style, warps=warps)


@pytest.mark.parametrize("style", ["carried", "branch"])
@pytest.mark.parametrize("warps", [1, 8])
def test_both_sides_ask_first(style: str, warps: int) -> None:
    program = lowered(style, warps).kernel
    rng = np.random.default_rng()
    for steps in (0, 1, STAGES, 2 * STAGES + 1):
        depth = max(steps, 1) * SIZE
        a, b = (rng.standard_normal((SIZE, depth)).astype(ml_dtypes.bfloat16) for _ in "ab")
        expected = (
            a.astype(np.float64) @ b.astype(np.float64).T if steps else np.zeros((SIZE, SIZE))
        )
        for seed in (None, *range(8)):
            c = np.full((3 * SIZE, SIZE), np.nan, np.float32)
            emulate(program, [a, b, c, steps], grid=(1, 1, 1), seed=seed)
            assert np.abs(c[:SIZE] - expected).max() < 1e-3
            assert warps == 1 or (c[SIZE:] == 2).all()


def test_an_answer_that_only_saves_a_wait_is_each_threads_own() -> None:
    filecheck(
        lowered("carried", 8).protocol_ir,
        """
        CHECK: role "load"
        CHECK: mbarrier.try_wait %empty{{.*}} {each thread}
        CHECK: mbarrier.wait %empty{{.*}} unless %ready{{[.0-9]*}} {elect=role}
        CHECK: role "mma"
        CHECK: mbarrier.wait %full{{.*}} unless %ready
        CHECK: mbarrier.try_wait %full{{.*}} {each thread}
        """,
    )


def test_an_answer_that_decides_a_branch_is_the_same_for_all() -> None:
    compiled = lowered("branch", 1)
    filecheck(
        compiled.protocol_ir,
        """
        CHECK: role "mma"
        CHECK: mbarrier.try_wait %full{{[.0-9]*}}, parity %parity{{[.0-9]*$}}
        """,
    )
    assert compiled.plan.role("mma").role_barrier > 0  # all threads meet for it


@td.kernel(grid=1)
def parts_ask_together(x: td.Tensor, y: td.Tensor, n: td.int32):
    pipeline = td.InputTilePipeline(
        td.TileArray(td.float32, (2 * SIZE, SIZE), stages=STAGES), num_group_stages=STAGES
    )
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(n):
            with producer.acquire() as stage:
                td.tma_load(x, (k * 2 * SIZE, 0), stage.tile(), stage.barrier())
    with td.role("use", warps=8):
        consumer = pipeline.consumer()
        for k in range(n):
            while not consumer.try_acquire():
                pass
            with consumer.acquire() as stage:
                value = stage.tile().load()
            td.store(value, y, (k * 2 * SIZE, 0))


def test_two_parts_take_the_same_branch() -> None:
    f32 = td.spec((SIZE, SIZE), td.float32)
    compiled = parts_ask_together.lower(f32, f32, td.int32)
    role = compiled.plan.role("use")
    assert role.role_barrier > 0 and role.role_barrier != role.part_barrier
    x = np.random.default_rng().standard_normal((5 * 2 * SIZE, SIZE)).astype(np.float32)
    for seed in (None, *range(5)):
        y = np.full(x.shape, np.nan, np.float32)
        emulate(compiled.kernel, [x, y, 5], grid=(1, 1, 1), seed=seed)
        assert (y == x).all()
