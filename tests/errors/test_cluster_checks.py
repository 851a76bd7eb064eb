"""Blocks of a cluster that wait for one which does not take part: refused, and correct twins."""

from __future__ import annotations

from typing import Any

import pytest

import tiledsl as td
from tests.errors.checks import BF, check, run
from tests.errors.messages import message
from tests.errors.test_arrivals import square
from tests.golden import Golden
from tiledsl.errors import StageError, SyntaxNotSupported


@td.function
def fill_all(pipeline, a, n, axis=0):
    producer = pipeline.producer()
    for k in range(n):
        with producer.acquire() as stage:
            td.tma_load(a, (0, 64 * k), stage.tile(), stage.barrier(), multicast=axis)


@td.function
def take_all(pipeline, n):
    consumer = pipeline.consumer()
    for _ in range(n):
        consumer.acquire().release()


@td.kernel(grid=2, cluster=(2,))
def every_block(a: td.Tensor, n: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill_all(pipeline, a, n)
    with td.role("take", warps=1):
        if td.cluster_rank() == 0:
            td.print("first")
            take_all(pipeline, n)
        else:
            take_all(pipeline, n)


@td.kernel(grid=(2, 2), cluster=(2, 2))
def one_row_of_blocks(a: td.Tensor, n: td.int32):
    """The blocks along the other axis have nothing to do with it."""
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        if td.cluster_id(1) == 1:
            fill_all(pipeline, a, n)
    with td.role("take", warps=1):
        if td.cluster_id(1) == 1:
            take_all(pipeline, n)


@td.kernel(grid=2, cluster=(2,))
def own_ring_of_one_block(a: td.Tensor, n: td.int32):
    """Without multicast each block is alone."""
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        if td.cluster_rank() == 1:
            fill_all(pipeline, a, n, None)
    with td.role("take", warps=1):
        if td.cluster_rank() == 1:
            take_all(pipeline, n)


@td.kernel(grid=2, cluster=(2,))
def one_block_takes(a: td.Tensor, n: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill_all(pipeline, a, n)
    with td.role("take", warps=1):
        if td.cluster_rank() == 0:
            take_all(pipeline, n)


@td.kernel(grid=4, cluster=(4,))
def three_blocks_load(a: td.Tensor, n: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        if td.cluster_rank() != 2:
            fill_all(pipeline, a, n)
    with td.role("take", warps=1):
        take_all(pipeline, n)


@td.kernel(grid=2, cluster=(2,))
def first_block_loads(a: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            if td.cluster_rank() == 0:
                td.tma_load(a, (0, 0), stage.tile(), stage.barrier(), multicast=0)
    with td.role("take", warps=1):
        take_all(pipeline, 1)


@td.kernel(grid=2, cluster=(2,))
def one_block_syncs(a: td.Tensor):
    if td.cluster_rank() == 0:
        td.cluster_sync()
    a[0, 0] = td.bfloat16(1.0)


@td.kernel(grid=2, cluster=(2,))
def all_blocks_sync(a: td.Tensor):
    if td.cluster_rank() == 0:
        a[0, 0] = td.bfloat16(1.0)
        td.cluster_sync()
    else:
        td.cluster_sync()


REFUSED: dict[str, tuple[td.Kernel, tuple[Any, ...], type[Any]]] = {
    "one_block_takes": (one_block_takes, (BF, td.int32), StageError),
    "three_blocks_load": (three_blocks_load, (BF, td.int32), StageError),
    "first_block_loads": (first_block_loads, (BF,), StageError),
    "one_block_syncs": (one_block_syncs, (BF,), SyntaxNotSupported),
}

ACCEPTED: dict[str, tuple[td.Kernel, tuple[Any, ...]]] = {
    "every_block": (every_block, (BF, 3)),
    "one_row_of_blocks": (one_row_of_blocks, (BF, 3)),
    "own_ring_of_one_block": (own_ring_of_one_block, (BF, 3)),
    "all_blocks_sync": (all_blocks_sync, (BF,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: Golden) -> None:
    kernel, args, kind = REFUSED[name]
    golden(message(lambda: check(kernel, *args), kind))


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    kernel, args = ACCEPTED[name]
    run(kernel, *args)
