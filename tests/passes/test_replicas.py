"""Replicas of a role and the turns that they take: cursors handed on, barriers, counts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.filecheck import filecheck
from tiledsl.runtime.emulator import emulate

SIZE = 64
STAGES = 3
BF16 = td.spec((SIZE, SIZE), td.bfloat16)
F32 = td.spec((SIZE, SIZE), td.float32)


@td.function
def ring(a, b):
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (SIZE, SIZE), (SIZE, SIZE), num_pipeline_stages=STAGES
    )
    return td.InputTilePipeline(payload, num_group_stages=STAGES)


@td.function
def fill(a, b, stage, t, k):
    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
    td.tma_load(a, (t * SIZE, k * SIZE), a_tile, stage.barrier())
    td.tma_load(b, (0, k * SIZE), b_tile, stage.barrier())


@td.function
def products(consumer, steps, rows: td.Constant[int] = SIZE):
    acc = td.zeros((rows, SIZE), td.float32)
    for _ in range(steps):
        with consumer.acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
            acc = td.mma(a_tile, b_tile.T, acc)
    return acc


@td.kernel(grid=1)
def ping_pong(
    a: td.Tensor, b: td.Tensor, c: td.Tensor, tiles: td.int32, steps: td.int32, *,
    replicas: td.Constant[int] = 2,
):  # fmt: skip
    pipeline = ring(a, b)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for t in range(tiles):
            for k in range(steps):
                with producer.acquire() as stage:
                    fill(a, b, stage, t, k)
    with td.role("mma", warps=4, replicas=replicas) as me:
        consumer = pipeline.consumer()
        for t in range(me.index, tiles, me.count):
            with me.turn():
                acc = products(consumer, steps)
            with me.turn("store"):
                td.tma_store(acc, c, (t * SIZE, 0))


def run(kernel: td.Kernel, tiles: int, steps: int, seeds: int = 3, **constants: Any) -> None:
    rng = np.random.default_rng()
    a = rng.standard_normal((max(tiles, 1) * SIZE, max(steps, 1) * SIZE)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((SIZE, max(steps, 1) * SIZE)).astype(ml_dtypes.bfloat16)
    depth = steps * SIZE
    expected = a[:, :depth].astype(np.float64) @ b[:, :depth].astype(np.float64).T
    program = kernel.lower(BF16, BF16, F32, td.int32, td.int32, **constants).kernel
    for seed in (None, *range(seeds)):
        c = np.full((max(tiles, 1) * SIZE, SIZE), np.nan, np.float32)
        emulate(program, [a, b, c, tiles, steps], grid=(1, 1, 1), seed=seed)
        written = tiles * SIZE
        assert np.abs(c[:written] - expected[:written]).max(initial=0) < 1e-3
        assert np.isnan(c[written:]).all()


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("tiles", [0, 1, 2, 5])
def test_replicas_share_one_ring(replicas: int, tiles: int) -> None:
    for steps in (0, 1, STAGES - 1, STAGES, STAGES + 1, 2 * STAGES + 1):
        run(ping_pong, tiles, steps, replicas=replicas)


def test_a_ring_in_turns_has_one_consumer() -> None:
    plan = ping_pong.lower(BF16, BF16, F32, td.int32, td.int32, replicas=3).plan
    assert plan.counts["pipeline", "empty"] == 1
    assert plan.counts["mma.turn", "raw"] == plan.counts["mma.store", "raw"] == 1
    (arrival,) = plan.arrivals["pipeline", "empty"]
    assert (arrival.role, arrival.number) == ("mma", 1)
    assert [role.name for role in plan.roles] == ["load", "mma.0", "mma.1", "mma.2"]


def test_registers_of_three_warpgroups() -> None:
    plan = ping_pong.lower(BF16, BF16, F32, td.int32, td.int32, replicas=2).plan
    assert plan.threads == 384 and plan.entry_registers == 168
    assert [role.registers for role in plan.roles] == [40, 232, 232]


def test_the_turn_is_handed_on_before_the_products_are_done() -> None:
    """The next replica begins while the groups of this one are still computed."""
    text = ping_pong.lower(BF16, BF16, F32, td.int32, td.int32).protocol_ir
    filecheck(
        text,
        """
        CHECK: [[WORD:%mma.turn.pipeline.consumer]] = word.create 0
        CHECK: role "mma.0"
        CHECK: local.new 1
        CHECK: for %{{.*}} = 0 to %tiles step 2
        CHECK: [[MINE:%turn.*]] = mbarrier.at %mma.turn[0]
        CHECK-NEXT: mbarrier.wait [[MINE]], parity %turn_parity
        CHECK: word.get [[WORD]]
        CHECK: wgmma.mma
        CHECK: role.sync
        CHECK-NOT: wgmma.wait
        CHECK: word.set [[WORD]]
        CHECK-NEXT: [[NEXT:%turn.*]] = mbarrier.at %mma.turn[1]
        CHECK-NEXT: mbarrier.arrive [[NEXT]] {elect=role}
        CHECK: wgmma.wait 0
        CHECK: role "mma.1"
        CHECK: for %{{.*}} = 1 to %tiles step 2
        CHECK: word.set [[WORD]]
        CHECK-NEXT: [[FIRST:%turn.*]] = mbarrier.at %mma.turn[0]
        CHECK-NEXT: mbarrier.arrive [[FIRST]] {elect=role}
        """,
    )
    # A turn without rings hands no cursor on.
    assert "mma.store.pipeline" not in text


def test_a_role_without_replicas_takes_no_turns() -> None:
    text = ping_pong.lower(BF16, BF16, F32, td.int32, td.int32, replicas=1).protocol_ir
    assert "word." not in text and "mma.turn" not in text and 'role "mma"' in text


@td.kernel(grid=1)
def each_reads_all(a: td.Tensor, b: td.Tensor, c: td.Tensor, tiles: td.int32, steps: td.int32):
    pipeline = ring(a, b)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(steps):
            with producer.acquire() as stage:
                fill(a, b, stage, 0, k)
    with td.role("mma", warps=4, replicas=2) as me:
        acc = products(pipeline.consumer(), steps)
        td.tma_store(acc, c, (me.index * SIZE, 0))


def test_outside_of_turns_each_replica_reads_every_stage() -> None:
    compiled = each_reads_all.lower(BF16, BF16, F32, td.int32, td.int32)
    assert compiled.plan.counts["pipeline", "empty"] == 2
    rng = np.random.default_rng()
    a, b = (rng.standard_normal((SIZE, 5 * SIZE)).astype(ml_dtypes.bfloat16) for _ in "ab")
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    c = np.full((2 * SIZE, SIZE), np.nan, np.float32)
    emulate(compiled.kernel, [a, b, c, 0, 5], grid=(1, 1, 1), seed=0)
    assert np.abs(c - np.concatenate([expected, expected])).max() < 1e-3


@td.kernel(grid=1)
def loaders_in_turns(
    a: td.Tensor, b: td.Tensor, c: td.Tensor, tiles: td.int32, steps: td.int32, *,
    warps: td.Constant[int] = 8,
):  # fmt: skip
    """Two loading roles fill one ring, tile by tile."""
    pipeline = ring(a, b)
    with td.role("load", warps=1, replicas=2) as me:
        producer = pipeline.producer()
        for t in range(me.index, tiles, me.count):
            with me.turn():
                for k in range(steps):
                    with producer.acquire() as stage:
                        fill(a, b, stage, t, k)
    with td.role("mma", warps=4):
        consumer = pipeline.consumer()
        for t in range(tiles):
            td.tma_store(products(consumer, steps), c, (t * SIZE, 0))


@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_producers_take_turns(tiles: int) -> None:
    for steps in (1, STAGES, 2 * STAGES + 1):
        run(loaders_in_turns, tiles, steps)
    compiled = loaders_in_turns.lower(BF16, BF16, F32, td.int32, td.int32)
    assert compiled.plan.counts["pipeline", "full"] == 1
    # A producer's cursor starts with parity 1.
    assert "load.turn.pipeline.producer = word.create 65536" in compiled.protocol_ir


@td.kernel(grid=1)
def one_of_them_reads(a: td.Tensor, b: td.Tensor, c: td.Tensor, tiles: td.int32, steps: td.int32):
    pipeline = ring(a, b)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for k in range(steps):
            with producer.acquire() as stage:
                fill(a, b, stage, 0, k)
    with td.role("mma", warps=4, replicas=2) as me:
        if me.index == 0:
            td.tma_store(products(pipeline.consumer(), steps), c, (0, 0))
        else:
            td.tma_store(td.full((SIZE, SIZE), 2.0, td.float32), c, (SIZE, 0))


def test_what_a_replica_does_not_do_does_not_count() -> None:
    compiled = one_of_them_reads.lower(BF16, BF16, F32, td.int32, td.int32)
    assert compiled.plan.counts["pipeline", "empty"] == 1
    (arrival,) = compiled.plan.arrivals["pipeline", "empty"]
    assert arrival.role == "mma.0"
    second = compiled.protocol_ir[compiled.protocol_ir.index('role "mma.1"') :]
    assert "mbarrier.wait" not in second and "if " not in second


@td.kernel(grid=1)
def two_parts_each(a: td.Tensor, b: td.Tensor, c: td.Tensor, tiles: td.int32, steps: td.int32):
    """Replicas of two warpgroups: the first may be far ahead of the second."""
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (2 * SIZE, SIZE), (SIZE, SIZE), num_pipeline_stages=STAGES
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=STAGES)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for t in range(tiles):
            for k in range(steps):
                with producer.acquire() as stage:
                    fill(a, b, stage, 2 * t, k)
    with td.role("mma", warps=8, replicas=2) as me:
        consumer = pipeline.consumer()
        for t in range(me.index, tiles, me.count):
            with me.turn():
                acc = products(consumer, steps, 2 * SIZE)
            td.tma_store(acc, c, (2 * t * SIZE, 0))


def test_replicas_of_several_parts() -> None:
    compiled = two_parts_each.lower(BF16, BF16, F32, td.int32, td.int32)
    assert compiled.plan.counts["pipeline", "empty"] == 2
    rng = np.random.default_rng()
    for tiles, steps in ((1, 1), (3, 2), (5, 4)):
        a = rng.standard_normal((2 * tiles * SIZE, steps * SIZE)).astype(ml_dtypes.bfloat16)
        b = rng.standard_normal((SIZE, steps * SIZE)).astype(ml_dtypes.bfloat16)
        expected = a.astype(np.float64) @ b.astype(np.float64).T
        for seed in (None, *range(20)):
            c = np.full(expected.shape, np.nan, np.float32)
            emulate(compiled.kernel, [a, b, c, tiles, steps], grid=(1, 1, 1), seed=seed)
            assert np.abs(c - expected).max() < 1e-3


def test_the_name_of_a_replica_is_taken() -> None:
    @td.kernel(grid=1)
    def twice(c: td.Tensor):
        with td.role("a", warps=1, replicas=2):
            c[0] = 1.0
        with td.role("a.1", warps=1):
            c[1] = 1.0

    with pytest.raises(td.TileError, match=r"a\.1"):
        twice.lower(td.spec((4,), td.float32))
