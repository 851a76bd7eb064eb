"""Bytes that the loads of a stage bring on every path: counted, refused, and correct twins."""

from __future__ import annotations

from typing import Any

import pytest

import tiledsl as td
from tests.errors.checks import BF, F32, check, run
from tests.errors.messages import message
from tests.errors.test_arrivals import square
from tests.errors.test_guards import multiply
from tests.golden import Golden
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import tile
from tiledsl.errors import StageError

TILE = 64 * 64 * 2  # bytes of one tile of these kernels


@td.function
def quads(dtype):
    """A ring whose stages have four tiles."""
    return td.InputTilePipeline(td.TileArray(dtype, (64, 64), stages=8), 2)


@td.function
def put(a, stage, k):
    td.tma_load(a, (0, 64 * k), stage.tile(k), stage.barrier())


# ------------------------------------------------------------------------------ of stages


@td.kernel(grid=1)
def one_by_one(a: td.Tensor, c: td.Tensor):
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            for k in range(4):
                put(a, stage, k)
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.function
def multiply_first(pipeline, c):
    with pipeline.consumer().acquire() as stage:
        acc = td.mma(stage.tile(0), stage.tile(1).T, td.zeros((64, 64), td.float32))
    td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def every_other(a: td.Tensor, c: td.Tensor):
    """Conditions on a counter that is known decide which loads run."""
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            for k in range(4):
                if k % 2 == 0:
                    put(a, stage, k)
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.kernel(grid=1)
def until_a_break(a: td.Tensor, c: td.Tensor):
    """A break that is always taken skips the loads behind it."""
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            for k in range(4):
                if k == 3:
                    break
                put(a, stage, k)
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.kernel(grid=1)
def first_iteration_only(a: td.Tensor, c: td.Tensor):
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            for k in range(4):
                put(a, stage, k)
                break
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.kernel(grid=1)
def break_before_the_load(a: td.Tensor, c: td.Tensor, n: td.int32):
    """The load in the loop never runs; the one behind it always does."""
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            for k in range(n):
                if k >= 0:
                    break
                put(a, stage, k)
            put(a, stage, 0)
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.kernel(grid=1)
def while_loop(a: td.Tensor, c: td.Tensor):
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            k = 0
            while True:
                if k == 2:
                    break
                put(a, stage, k)
                k += 1
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.kernel(grid=1)
def searched(a: td.Tensor, c: td.Tensor, n: td.int32):
    """Endless, and each way out has loaded one tile."""
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            k = n
            while True:
                if k > 10:
                    put(a, stage, 0)
                    break
                if k < -10:
                    put(a, stage, 1)
                    break
                k += k
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.kernel(grid=1)
def nested(a: td.Tensor, c: td.Tensor):
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            for i in range(2):
                for j in range(i + 1):
                    put(a, stage, i + j)
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.kernel(grid=1)
def stated(a: td.Tensor, c: td.Tensor):
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            stage.expect_bytes(2 * 64 * 64 * 2)
            put(a, stage, 0)
            put(a, stage, 1)
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.kernel(grid=1)
def over_and_over(a: td.Tensor, c: td.Tensor):
    """More iterations than are followed one by one; 64 times as much would be too much."""
    pipeline = td.InputTilePipeline(td.TileArray(a.dtype, (8, 16), stages=2), 2)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            for _ in range(64 * 16):
                td.tma_load(a, (0, 0), stage.tile(), stage.barrier())
    with td.role("take", warps=1):
        pipeline.consumer().acquire().release()


@td.kernel(grid=1)
def too_many_bytes(a: td.Tensor, c: td.Tensor):
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            for k in range(128):
                put(a, stage, k % 4)
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


COUNTED: dict[str, tuple[td.Kernel, tuple[Any, ...], int]] = {
    "one_by_one": (one_by_one, (), 4),
    "every_other": (every_other, (), 2),
    "until_a_break": (until_a_break, (), 3),
    "first_iteration_only": (first_iteration_only, (), 1),
    "break_before_the_load": (break_before_the_load, (td.int32,), 1),
    "over_and_over": (over_and_over, (), 32),
    "while_loop": (while_loop, (), 2),
    "searched": (searched, (td.int32,), 1),
    "nested": (nested, (), 3),
    "stated": (stated, (), 2),
}


def bytes_of(kernel: Kernel) -> list[int | None]:
    return [op.nbytes for op in kernel.body.walk() if isinstance(op, tile.AcquireProducer)]


@pytest.mark.parametrize("name", COUNTED)
def test_counted(name: str) -> None:
    kernel, args, tiles = COUNTED[name]
    assert bytes_of(check(kernel, BF, F32, *args)) == [tiles * TILE]
    run(kernel, BF, F32, *(3 for _ in args))  # more or fewer bytes than announced: it would hang


@td.kernel(grid=1)
def every_kind(
    a: td.Tensor, x: td.Tensor, image: td.Tensor, c: td.Tensor, *, axis: td.Constant[Any] = None
):
    whole = td.InputTilePipeline(td.TileArray(a.dtype, (64, 64), stages=2), 2)
    line = td.InputTilePipeline(td.TileArray(td.float32, (96,), stages=2, swizzle=0), 2)
    corners = td.InputTilePipeline(td.TileArray(image.dtype, (32, 16), stages=2), 2)
    copied = td.InputTilePipeline(td.TileArray(td.float32, (64, 64), stages=2), 2)
    with td.role("load", warps=4):
        with whole.producer().acquire() as s:
            td.tma_load(a, (0, 0), s.tile(), s.barrier(), multicast=axis)
        with line.producer().acquire() as s:
            td.bulk_load(x, (0,), s.tile(), s.barrier())
        with corners.producer().acquire() as s:
            td.tma_load_im2col(
                image, (0, -1, -1, 0), (0, 0), s.tile(), s.barrier(), lower=(-1, -1), upper=(-1, -1)
            )
        with copied.producer().acquire() as s:
            td.async_copy(c, (0, 0), s.tile(), s.barrier())
    with td.role("take", warps=1):
        whole.consumer().acquire().release()
        line.consumer().acquire().release()
        corners.consumer().acquire().release()
        copied.consumer().acquire().release()


def test_every_kind_of_load() -> None:
    image = td.spec((2, 8, 8, 32), td.float16)
    line = td.spec((512,), td.float32)
    expected = [TILE, 96 * 4, 32 * 16 * 2, 0]
    assert bytes_of(check(every_kind, BF, line, image, F32)) == expected
    in_cluster = td.kernel(grid=2, cluster=(2,))(every_kind.function)
    assert bytes_of(check(in_cluster, BF, line, image, F32, axis=0)) == expected


# -------------------------------------------------------------------------------- refused


@td.kernel(grid=1)
def as_often_as_asked(a: td.Tensor, c: td.Tensor, n: td.int32):
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            for k in range(n):
                put(a, stage, k)
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.kernel(grid=1)
def break_that_may_be_taken(a: td.Tensor, c: td.Tensor, n: td.int32):
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            for k in range(4):
                if k == n:
                    break
                put(a, stage, k)
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.kernel(grid=1)
def stated_wrong(a: td.Tensor, c: td.Tensor):
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            stage.expect_bytes(8192)
            put(a, stage, 0)
            for k in range(1, 4):
                put(a, stage, k)
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


@td.kernel(grid=1)
def endless_loads(a: td.Tensor, c: td.Tensor, n: td.int32):
    pipeline = quads(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            k = n
            while k > 0:
                put(a, stage, 0)
                k = k // 2
    with td.role("mma", warps=4):
        multiply_first(pipeline, c)


REFUSED: dict[str, tuple[td.Kernel, tuple[Any, ...]]] = {
    "as_often_as_asked": (as_often_as_asked, (td.int32,)),
    "break_that_may_be_taken": (break_that_may_be_taken, (td.int32,)),
    "stated_wrong": (stated_wrong, ()),
    "endless_loads": (endless_loads, (td.int32,)),
    "too_many_bytes": (too_many_bytes, ()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: Golden) -> None:
    kernel, args = REFUSED[name]
    golden(message(lambda: check(kernel, BF, F32, *args), StageError))


@td.kernel(grid=1)
def same_ring_twice(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        for k in range(2):
            with pipeline.producer().acquire() as stage:
                td.tma_load(a, (0, 64 * k), stage.tile(), stage.barrier())
    with td.role("mma", warps=4):
        multiply(pipeline, c)
        multiply(pipeline, c)


def test_a_stage_in_a_loop_is_counted_once() -> None:
    assert bytes_of(check(same_ring_twice, BF, F32)) == [TILE]
