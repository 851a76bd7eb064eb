"""A matrix product whose two sides are functions of the test: how stages are filled and used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiledsl as td
from tests.kernels.family.registry import Run

BM, BN, BK = 64, 64, 64


@td.function
def load(a, b, m, n, k, stage):
    """Both tiles of a stage that the caller holds."""
    a_tile, b_tile = stage.payload().get_tile(stage.stage())
    td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
    td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())


@td.function
def multiply(stage, acc):
    a_tile, b_tile = stage.payload().get_tile(stage.stage())
    return td.mma(a_tile, b_tile.T, acc)


@td.function
def fill_plain(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    for k in range(steps):
        with producer.acquire() as stage:
            load(a, b, m, n, k, stage)


@td.function
def use_plain(pipeline, acc, steps):
    consumer = pipeline.consumer()
    for _ in range(steps):
        with consumer.acquire() as stage:
            acc = multiply(stage, acc)
    return acc


@td.kernel(grid=td.persistent)
def product_by(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    stages: td.Constant[int] = 3,
    fill: td.Constant[Any] = fill_plain,
    use: td.Constant[Any] = use_plain,
):
    """c[M, N] = a[M, K] @ b[N, K].T: ``fill`` and ``use`` are the loops over K of the two roles."""
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK)
    with td.role("load", warps=1):
        for m, n in tiles:
            fill(pipeline, a, b, m, n, steps)
    with td.role("mma", warps=4):
        for m, n in tiles:
            acc = use(pipeline, td.zeros((BM, BN), td.float32), steps)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


def check_product(run: Run, stages: tuple[int, ...] = (1, 3), **sides: Any) -> None:
    """All trip counts around the number of stages, ragged in each extent."""
    for depth in stages:
        for shape in run.shapes(depth, BK):
            wrong = run.product(product_by, shape, stages=depth, **sides)
            assert not wrong, wrong


def compiled(**constants: Any) -> Any:
    """The variant of product_by for bfloat16 operands, compiled without a GPU."""
    x = td.spec((256, 256), td.bfloat16)
    return product_by.compile(x, x, td.spec((256, 256), td.float32), **constants)


def role_text(variant: Any, name: str) -> str:
    """The protocol-level IR of one role."""
    text = variant.protocol_ir
    start = text.index(f'role "{name}"')
    end = text.find('\n  role "', start)
    return str(text[start : end if end > 0 else len(text)])


def refused(call: Callable[[], object], *words: str) -> None:
    """The call is an error of tiledsl that says these words."""
    with pytest.raises(td.TileError) as caught:
        call()
    for word in words:
        assert word in str(caught.value), str(caught.value)
