"""Barriers in roles that whole warpgroups run: a thread that comes late must not miss a phase.

A phase and the one after the next look alike. Of a producer one thread loads, and it alone waits,
since no consumer waits for the others; of a consumer one thread of each part arrives, when all of
them have seen the stage.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.filecheck import filecheck
from tests.passes.test_release_timing import SIZE, STEPS, consume, fill, ring
from tiledsl.runtime.emulator import emulate


@td.kernel(grid=1)
def loads_beside_a_tile(
    a: td.Tensor, b: td.Tensor, c: td.Tensor, *, drain: td.Constant[bool] = False
):
    pipeline = ring(a, b, 1)
    with td.role("load", warps=8):
        producer = pipeline.producer()
        ones = td.full((2 * SIZE, SIZE), 1.0, td.float32)
        for k in range(STEPS):
            with producer.acquire() as stage:
                fill(a, b, stage, k)
            if drain:
                producer.drain()
        td.tma_store(ones, c, (SIZE, 0))
    with td.role("mma", warps=4):
        consume(pipeline, c)


BF16 = td.spec((SIZE, STEPS * SIZE), td.bfloat16)
F32 = td.spec((3 * SIZE, SIZE), td.float32)


@pytest.mark.parametrize("drain", [False, True])
def test_late_parts_do_not_hang(drain: bool) -> None:
    kernel = loads_beside_a_tile.lower(BF16, BF16, F32, drain=drain).kernel
    rng = np.random.default_rng()
    a, b = (rng.standard_normal((SIZE, STEPS * SIZE)).astype(ml_dtypes.bfloat16) for _ in "ab")
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    for seed in (None, *range(60)):
        c = np.full((3 * SIZE, SIZE), np.nan, np.float32)
        emulate(kernel, [a, b, c], grid=(1, 1, 1), seed=seed)
        assert np.abs(c[:SIZE] - expected).max() < 1e-3 and (c[SIZE:] == 1).all()


def test_one_thread_waits() -> None:
    compiled = loads_beside_a_tile.lower(BF16, BF16, F32)
    filecheck(
        compiled.protocol_ir,
        """
        CHECK: role "load"
        CHECK: mbarrier.wait %empty, parity %parity {elect=role}
        CHECK: role "mma"
        CHECK: mbarrier.wait %full{{[.0-9]*}}, parity %parity{{[.0-9]*$}}
        """,
    )
    # The thread's warp meets behind the wait: what follows may be for whole warps.
    assert "bra DONE0; WAIT0: mbarrier.try_wait" in compiled.ptx
    assert "DONE0: bar.warp.sync 0xffffffff; }" in compiled.ptx


def test_all_threads_meet_behind_a_drain() -> None:
    compiled = loads_beside_a_tile.lower(BF16, BF16, F32, drain=True)
    filecheck(
        compiled.protocol_ir,
        """
        CHECK: tma.load
        CHECK: tma.load
        CHECK: mbarrier.wait {{.*}} {elect=role}
        CHECK-NEXT: role.sync
        """,
    )


@td.kernel(grid=1)
def sometimes_multiplies(a: td.Tensor, b: td.Tensor, c: td.Tensor, n: td.int32):
    pipeline = ring(a, b, 2)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(STEPS):
            with producer.acquire() as stage:
                fill(a, b, stage, k)
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        acc = td.zeros((SIZE, SIZE), td.float32)
        for k in range(STEPS):
            with consumer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage())
                if k < n:
                    acc = td.mma(a_tile, b_tile.T, acc)
        td.tma_store(acc, c, (0, 0))


def test_a_part_meets_before_it_frees_a_stage_that_no_wgmma_read() -> None:
    """wgmma needs all warps of the part, so that none of them can still wait for the stage."""
    text = sometimes_multiplies.lower(BF16, BF16, F32, td.int32).protocol_ir
    filecheck(
        text,
        """
        CHECK: role "mma"
        CHECK: mbarrier.wait
        CHECK: wgmma.mma
        CHECK: part.sync
        CHECK: mbarrier.arrive %empty
        """,
    )
    always = loads_beside_a_tile.lower(BF16, BF16, F32).protocol_ir
    body = always[always.index('role "mma"') :]
    assert "part.sync" not in body[: body.index("wgmma.wait 0")]
