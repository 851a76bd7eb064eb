"""Bad input, each with its whole message: what, where, expected, got, hint (golden files).

What the launch refuses of GPU arrays (addresses, pitches, a torch tensor in host memory, arrays in
two places) is in ``tests/runtime/test_arguments.py`` and ``test_tensormap.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.errors.messages import message
from tests.golden import Golden
from tests.passes.lowered import BF16, gemm
from tiledsl import errors

BF = td.spec((512, 512), td.bfloat16)


@td.function
def stages_of(a, b):
    payload = td.StandardTilePayload(a.dtype, b.dtype, (64, 64), (64, 64), num_pipeline_stages=2)
    return td.InputTilePipeline(payload, num_group_stages=2, k_group_size=1)


@td.function
def fill(a, b, stage):
    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
    td.tma_load(a, (0, 0), a_tile, stage.barrier())
    td.tma_load(b, (0, 0), b_tile, stage.barrier())


@td.function
def consume(pipeline, c):
    consumer = pipeline.consumer()
    acc = td.zeros((64, 64), td.float32)
    with consumer.acquire() as stage:
        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
        acc = td.mma(a_tile, b_tile.T, acc)
    td.tma_store(acc.to(c.dtype), c, (0, 0))


# ------------------------------------------------------------------------- linear stages


@td.kernel(grid=1)
def never_released(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        stage = pipeline.producer().acquire()
        fill(a, b, stage)
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def released_twice(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)
            stage.release()
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def used_after_release(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        stage = pipeline.producer().acquire()
        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
        barrier = stage.barrier()
        td.tma_load(a, (0, 0), a_tile, barrier)
        stage.release()
        td.tma_load(b, (0, 0), b_tile, barrier)
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def released_on_one_path(a: td.Tensor, b: td.Tensor, c: td.Tensor, flag: td.int32):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        stage = pipeline.producer().acquire()
        fill(a, b, stage)
        if flag > 0:
            stage.release()
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def released_in_a_loop(a: td.Tensor, b: td.Tensor, c: td.Tensor, n: td.int32):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        stage = pipeline.producer().acquire()
        fill(a, b, stage)
        for _ in range(n):
            stage.release()
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def too_many_held(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        one = producer.acquire()
        two = producer.acquire()
        three = producer.acquire()
        fill(a, b, one)
        fill(a, b, two)
        fill(a, b, three)
        one.release()
        two.release()
        three.release()
    with td.role("mma", warps=4):
        consume(pipeline, c)


# --------------------------------------------------------------------------------- bytes


@td.kernel(grid=1)
def bytes_differ(a: td.Tensor, b: td.Tensor, c: td.Tensor, flag: td.int32):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
            td.tma_load(a, (0, 0), a_tile, stage.barrier())
            if flag > 0:
                td.tma_load(b, (0, 0), b_tile, stage.barrier())
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def bytes_disagree(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            stage.expect_bytes(4096)
            fill(a, b, stage)
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def no_consumer(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)


# ----------------------------------------------------------------------- shapes and dtypes


@td.kernel(grid=1)
def accumulator_does_not_match(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)
    with td.role("mma", warps=4):
        with pipeline.consumer().acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
            acc = td.mma(a_tile, b_tile.T, td.zeros((64, 128), td.float32))
        td.tma_store(acc.to(c.dtype), c, (0, 0))


@td.kernel(grid=1)
def dtypes_mixed(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def wrong_rank(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def stored_without_cast(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = stages_of(a, b)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)
    with td.role("mma", warps=4):
        with pipeline.consumer().acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
            acc = td.mma(a_tile, b_tile.T, td.zeros((64, 64), td.float32))
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def k_of_the_tiles(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    payload = td.StandardTilePayload(a.dtype, b.dtype, (64, 64), (64, 32), num_pipeline_stages=2)
    pipeline = td.InputTilePipeline(payload, num_group_stages=2, k_group_size=1)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            fill(a, b, stage)
    with td.role("mma", warps=4):
        consume(pipeline, c)


@td.kernel(grid=1)
def k_of_the_tensors(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    M, K = a.shape
    N, K_b = b.shape
    assert K == K_b, "a and b must have the same K"
    assert c.shape[0] == M and c.shape[1] == N
    if td.block_id(0) == 0:
        c[0, 0] = 1.0


# ------------------------------------------------------------------------------- language


@td.kernel(grid=1)
def unknown_name(c: td.Tensor):
    c[0] = pipelnie  # noqa: F821


@td.kernel(grid=1)
def unsupported_statement(c: td.Tensor):
    try:
        c[0] = 1
    except ValueError:
        pass


COMPILE_CASES: dict[str, tuple[type[errors.TileError], Callable[[], object]]] = {
    "never_released": (errors.StageError, lambda: never_released.lower(BF, BF, BF)),
    "released_twice": (errors.StageError, lambda: released_twice.lower(BF, BF, BF)),
    "used_after_release": (errors.StageError, lambda: used_after_release.lower(BF, BF, BF)),
    "released_on_one_path": (
        errors.StageError,
        lambda: released_on_one_path.lower(BF, BF, BF, td.int32),
    ),
    "released_in_a_loop": (
        errors.StageError,
        lambda: released_in_a_loop.lower(BF, BF, BF, td.int32),
    ),
    "too_many_held": (errors.StageError, lambda: too_many_held.lower(BF, BF, BF)),
    "bytes_differ": (errors.StageError, lambda: bytes_differ.lower(BF, BF, BF, td.int32)),
    "bytes_disagree": (errors.StageError, lambda: bytes_disagree.lower(BF, BF, BF)),
    "no_consumer": (errors.StageError, lambda: no_consumer.lower(BF, BF, BF)),
    "accumulator_does_not_match": (
        errors.TypeMismatch,
        lambda: accumulator_does_not_match.lower(BF, BF, BF),
    ),
    "k_of_the_tiles": (errors.TypeMismatch, lambda: k_of_the_tiles.lower(BF, BF, BF)),
    "dtypes_mixed": (
        errors.TypeMismatch,
        lambda: dtypes_mixed.lower(BF, td.spec((512, 512), td.float16), BF),
    ),
    "wrong_rank": (
        errors.TypeMismatch,
        lambda: wrong_rank.lower(td.spec((8, 512, 512), td.bfloat16), BF, BF),
    ),
    "stored_without_cast": (errors.TypeMismatch, lambda: stored_without_cast.lower(BF, BF, BF)),
    "unknown_name": (errors.NameNotFound, lambda: unknown_name.lower(td.spec((8,), td.int32))),
    "unsupported_statement": (
        errors.SyntaxNotSupported,
        lambda: unsupported_statement.lower(td.spec((8,), td.int32)),
    ),
    "shared_memory": (errors.ResourceLimit, lambda: gemm.lower(BF16, BF16, BF16, stages=5)),
    "registers": (errors.ResourceLimit, lambda: gemm.lower(BF16, BF16, BF16, BM=256, stages=2)),
    "wgmma_rows": (errors.InvalidValue, lambda: gemm.lower(BF16, BF16, BF16, BM=96)),
    "wgmma_columns": (errors.InvalidValue, lambda: gemm.lower(BF16, BF16, BF16, BN=100)),
    "wgmma_depth": (errors.InvalidValue, lambda: gemm.lower(BF16, BF16, BF16, BK=24)),
    "warps": (errors.ResourceLimit, lambda: gemm.lower(BF16, BF16, BF16, warps=6)),
    "target": (
        errors.TargetNotSupported,
        lambda: gemm.lower(BF16, BF16, BF16, target="sm_42"),
    ),
}


@pytest.mark.parametrize("name", COMPILE_CASES)
def test_compile(name: str, golden: Golden) -> None:
    kind, run = COMPILE_CASES[name]
    golden(message(run, kind))


# --------------------------------------------------------------------------------- launch


def bf16(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, ml_dtypes.bfloat16)


HOST_CASES: dict[str, tuple[type[errors.TileError], Callable[[], object]]] = {
    "k_of_the_tensors": (
        errors.LaunchError,
        lambda: k_of_the_tensors(bf16(8, 64), bf16(8, 32), bf16(8, 8)),
    ),
    "condition_without_a_value": (
        errors.LaunchError,
        lambda: in_whole_parts(np.zeros(8, np.int32), 0),
    ),
    "shape_of_the_result": (
        errors.LaunchError,
        lambda: k_of_the_tensors(bf16(8, 64), bf16(16, 64), bf16(8, 8)),
    ),
    "pitch": (errors.LaunchError, lambda: gemm(bf16(8, 9), bf16(8, 9), bf16(8, 8))),
    "inner_stride": (
        errors.LaunchError,
        lambda: gemm(bf16(8, 64)[:, ::2], bf16(8, 32), bf16(8, 8)),
    ),
    "constant_is_a_tensor": (
        errors.TypeMismatch,
        lambda: gemm(bf16(8, 64), bf16(8, 64), bf16(8, 8), BM=bf16(8, 8)),
    ),
    "number_for_a_tensor": (
        errors.TypeMismatch,
        lambda: gemm(bf16(8, 64), 3, bf16(8, 8)),
    ),
    "missing_argument": (errors.TypeMismatch, lambda: gemm(bf16(8, 64), bf16(8, 64))),
    "misspelt_constant": (
        errors.TypeMismatch,
        lambda: gemm(bf16(8, 64), bf16(8, 64), bf16(8, 8), stage=2),
    ),
    "grid_function": (errors.LaunchError, lambda: without_grid[lambda args: args.y](bf16(8))),
    "no_grid": (errors.LaunchError, lambda: without_grid(bf16(8))),
    "bad_grid": (errors.LaunchError, lambda: without_grid[1.5](bf16(8))),
}


@td.kernel(grid=1)
def in_whole_parts(x: td.Tensor, parts: td.int32):
    assert x.shape[0] % parts == 0
    x[0] = parts


@td.kernel
def without_grid(x: td.Tensor):
    x[0] = 1


@pytest.mark.parametrize("name", HOST_CASES)
def test_launch(name: str, golden: Golden) -> None:
    kind, run = HOST_CASES[name]
    golden(message(run, kind))


@pytest.mark.parametrize("name", ["grid", "stream", "target"])
def test_a_parameter_that_the_launch_takes(name: str) -> None:
    namespace: dict[str, Any] = {"td": td}
    exec(f"def kernel(x: td.Tensor, {name}: td.int32):\n    pass\n", namespace)
    with pytest.raises(errors.TypeMismatch, match=f"cannot be called '{name}'"):
        td.kernel(namespace["kernel"])
