"""Where waits and put-off releases go, in shapes that a GEMM's inner loop does not have."""

from __future__ import annotations

import tiledsl as td
from tests.filecheck import filecheck
from tests.passes.lowered import consumer_body

BM, BN, BK = 128, 64, 64


@td.function
def load(a, b, producer, m, n, k):
    with producer.acquire() as stage:
        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
        td.tma_load(a, (m, k), a_tile, stage.barrier())
        td.tma_load(b, (n, k), b_tile, stage.barrier())


@td.function
def ring(a, b, stages):
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    return td.InputTilePipeline(payload, num_group_stages=stages, k_group_size=1)


@td.kernel(grid=td.persistent)
def reads_in_the_loop(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = ring(a, b, 4)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(td.cdiv(a.shape[1], BK)):
            load(a, b, producer, 0, 0, k * BK)
    with td.role("mma", warps=8):
        consumer = pipeline.consumer()
        acc = td.zeros((BM, BN), td.float32)
        for k in range(td.cdiv(a.shape[1], BK)):
            with consumer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                acc = td.mma(a_tile, b_tile.T, acc) * 0.5
        td.tma_store(acc.to(c.dtype), c, (0, 0))


def test_a_read_in_the_loop_waits_there() -> None:
    text = consumer_body(reads_in_the_loop)
    filecheck(
        text,
        """
        CHECK: wgmma.mma
        CHECK: wgmma.wait 0
        CHECK-NEXT: mul
        CHECK: mbarrier.arrive
        CHECK: continue
        """,
    )
    assert "if %pending" not in text


@td.kernel(grid=td.persistent)
def two_accumulators(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = ring(a, b, 4)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(td.cdiv(a.shape[1], BK)):
            load(a, b, producer, 0, 0, k * BK)
    with td.role("mma", warps=8):
        consumer = pipeline.consumer()
        one = td.zeros((BM, BN), td.float32)
        two = td.zeros((BM, BN), td.float32)
        for k in range(td.cdiv(a.shape[1], BK)):
            with consumer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                one = td.mma(a_tile, b_tile.T, one)
                two = td.mma(a_tile, b_tile.T, two)
        td.tma_store((one + two).to(c.dtype), c, (0, 0))


def test_the_other_accumulator_is_ready_behind_the_wait() -> None:
    filecheck(
        consumer_body(two_accumulators),
        """
        CHECK: carry(
        CHECK: wgmma.mma
        CHECK: wgmma.wait 1, %two
        CHECK: mbarrier.arrive {{.*}} if %pending
        CHECK: wgmma.mma
        CHECK: wgmma.wait 1, %one
        CHECK: continue
        CHECK: wgmma.wait 0, %two
        """,
    )


@td.kernel(grid=td.persistent)
def one_value_twice(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = ring(a, b, 4)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        load(a, b, producer, 0, 0, 0)
        load(a, b, producer, 0, 0, BK)
    with td.role("mma", warps=8):
        consumer = pipeline.consumer()
        acc = td.zeros((BM, BN), td.float32)
        with consumer.acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
            acc = td.mma(a_tile, b_tile.T, acc)
        with consumer.acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
            other = td.mma(a_tile, b_tile.T, acc)
        td.tma_store((acc + other).to(c.dtype), c, (0, 0))


def test_an_accumulator_that_is_read_again_is_retired_first() -> None:
    """Its registers are copied for the second mma: that must not happen while it is in flight."""
    filecheck(
        consumer_body(one_value_twice),
        """
        CHECK: %acc{{.*}} = wgmma.mma
        CHECK: mbarrier.wait
        CHECK: wgmma.wait 0
        CHECK: wgmma.mma
        CHECK: wgmma.wait 0
        CHECK: add
        """,
    )


@td.kernel(grid=td.persistent)
def leaves_early(a: td.Tensor, b: td.Tensor, c: td.Tensor, limit: td.int32):
    pipeline = ring(a, b, 4)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(td.cdiv(a.shape[1], BK)):
            if k == limit:
                break
            load(a, b, producer, 0, 0, k * BK)
    with td.role("mma", warps=8):
        consumer = pipeline.consumer()
        acc = td.zeros((BM, BN), td.float32)
        for k in range(td.cdiv(a.shape[1], BK)):
            if k == limit:
                break
            with consumer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                acc = td.mma(a_tile, b_tile.T, acc)
        td.tma_store(acc.to(c.dtype), c, (0, 0))


def test_nothing_is_in_flight_on_an_early_exit() -> None:
    from tests.passes.lowered import BF16

    text = leaves_early.lower(BF16, BF16, BF16, td.int32).protocol_ir
    filecheck(
        text[text.index('role "mma"') :],
        """
        CHECK: eq %k
        CHECK: wgmma.wait 0
        CHECK: mbarrier.arrive {{.*}} if %pending
        CHECK: if %
        CHECK-NEXT: break
        """,
    )


@td.kernel(grid=1)
def changes_places(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    pipeline = ring(a, b, 4)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(8):
            load(a, b, producer, 0, 0, k * BK)
    with td.role("mma", warps=8):
        consumer = pipeline.consumer()
        one = td.zeros((BM, BN), td.float32)
        other = td.zeros((BM, BN), td.float32)
        for _ in range(8):
            with consumer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                one = td.mma(a_tile, b_tile.T, one)
            one, other = other, one
        td.tma_store(one + other, c, (0, 0))


def test_accumulators_that_change_places_are_retired_first() -> None:
    """Their registers are copied at the end of an iteration: not while they are in flight."""
    from tests.passes.lowered import BF16

    text = changes_places.lower(BF16, BF16, td.spec((128, 64), td.float32)).protocol_ir
    filecheck(
        text[text.index('role "mma"') :],
        """
        CHECK: wgmma.mma
        CHECK: wgmma.wait 0
        CHECK: mbarrier.arrive
        CHECK: continue
        """,
    )
    assert "if %pending" not in text


@td.kernel(grid=1)
def one_of_two_tiles(a: td.Tensor, c: td.Tensor, which: td.int32):
    tiles = td.TileArray(a.dtype, (BK, BK), stages=4)
    pipeline = td.InputTilePipeline(tiles, num_group_stages=2, k_group_size=2)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(td.cdiv(a.shape[1], BK)):
            with producer.acquire() as stage:
                td.tma_load(a, (0, k * BK), stage.tile(0), stage.barrier())
                td.tma_load(a, (BK, k * BK), stage.tile(1), stage.barrier())
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        acc = td.zeros((BK, BK), td.float32)
        for _ in range(td.cdiv(a.shape[1], BK)):
            with consumer.acquire() as stage:
                tile = stage.tile(0) if which > 0 else stage.tile(1)
                acc = td.mma(tile, tile.T, acc)
        td.tma_store(acc, c, (0, 0))


def test_a_tile_that_comes_through_a_branch_holds_its_stage() -> None:
    """The product reads the stage, whichever tile it takes: the release must be put off."""
    specs = (td.spec((2 * BK, 512), td.bfloat16), td.spec((BK, BK), td.float32), td.int32)
    text = one_of_two_tiles.compile(*specs).protocol_ir
    filecheck(
        text[text.index('role "mma"') :],
        """
        CHECK: wgmma.mma
        CHECK-NOT: wgmma.wait 0
        CHECK: mbarrier.arrive {{.*}} if %pending
        CHECK: continue
        """,
    )
