"""Producers that fill stages by generic stores, cp.async, TMA, or several of them; who fences."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.filecheck import filecheck
from tiledsl.runtime.emulator import emulate

SIZE = 64
STAGES = 2
F32 = td.spec((SIZE, SIZE), td.float32)
BF16 = td.spec((SIZE, SIZE), td.bfloat16)
STEPS = (0, 1, STAGES - 1, STAGES, STAGES + 1, 2 * STAGES + 1)


def outcome(
    program: Any, tensors: list[Any], shape: tuple[int, ...], steps: int, seed: int | None
) -> Any:
    out = np.full(shape, np.nan, np.float32)
    emulate(program, [*tensors, out, steps], grid=(1, 1, 1), seed=seed)
    return out


def random(rows: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng().standard_normal((max(rows, 1), SIZE)).astype(dtype)


@td.kernel(grid=1)
def stores(x: td.Tensor, y: td.Tensor, n: td.int32, *, warps: td.Constant[int]):
    """A ring between two roles that compute. Its tile has a row block for each part."""
    ring = td.InputTilePipeline(
        td.TileArray(td.float32, (16 * warps, SIZE), stages=STAGES), num_group_stages=STAGES
    )
    with td.role("make", warps=warps):
        producer = ring.producer()
        for k in range(n):
            value = td.load(x, (k * 16 * warps, 0), (16 * warps, SIZE))
            with producer.acquire() as stage:
                stage.tile().store(value * 2.0)
    with td.role("use", warps=warps):
        consumer = ring.consumer()
        for k in range(n):
            with consumer.acquire() as stage:
                value = stage.tile().load()
            td.store(value + 1.0, y, (k * 16 * warps, 0))


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("steps", STEPS)
def test_a_ring_between_two_compute_roles(warps: int, steps: int) -> None:
    rows = 16 * warps * steps
    x = random(rows)
    compiled = stores.lower(F32, F32, td.int32, warps=warps)
    parts = warps // 4
    assert compiled.plan.counts == {("ring", "full"): parts, ("ring", "empty"): parts}
    for seed in (None, *range(5)):
        y = outcome(compiled.kernel, [x], (max(rows, 1), SIZE), steps, seed)
        assert (y[:rows] == x[:rows] * 2 + 1).all() and np.isnan(y[rows:]).all()


def test_each_part_fences_and_meets_before_it_arrives() -> None:
    filecheck(
        stores.lower(F32, F32, td.int32, warps=8).protocol_ir,
        """
        CHECK: role "make"
        CHECK: mbarrier.wait %empty, parity %parity{{$}}
        CHECK: shared.store
        CHECK: fence.proxy_async
        CHECK-NEXT: part.sync
        CHECK-NEXT: mbarrier.arrive %full{{.*}} {elect=part}
        CHECK: role "use"
        CHECK: mbarrier.wait
        CHECK-NOT: fence
        CHECK: shared.load
        CHECK: part.sync
        CHECK: mbarrier.arrive %empty{{.*}} {elect=part}
        """,
    )


@td.kernel(grid=1)
def copies(x: td.Tensor, b: td.Tensor, y: td.Tensor, n: td.int32, *, warps: td.Constant[int]):
    ring = td.InputTilePipeline(
        td.TileArray(td.bfloat16, (SIZE, SIZE), stages=STAGES), num_group_stages=STAGES
    )
    once = td.shared((SIZE, SIZE), td.bfloat16)
    filled = td.mbarrier()
    with td.role("copy", warps=warps):
        producer = ring.producer()
        for k in range(n):
            with producer.acquire() as stage:
                td.async_copy(x, (k * SIZE, 0), stage.tile(), stage.barrier())
    with td.role("once", warps=1):
        filled.arrive_and_expect_bytes(SIZE * SIZE * 2)
        td.tma_load(b, (0, 0), once, filled)
    with td.role("mma", warps=4):
        consumer = ring.consumer()
        filled.wait(0)
        for k in range(n):
            acc = td.zeros((SIZE, SIZE), td.float32)
            with consumer.acquire() as stage:
                acc = td.mma(stage.tile(), once, acc)
            td.tma_store(acc, y, (k * SIZE, 0))


@pytest.mark.parametrize("warps", [1, 3])
@pytest.mark.parametrize("steps", STEPS)
def test_cp_async_by_any_number_of_warps(warps: int, steps: int) -> None:
    compiled = copies.lower(BF16, BF16, F32, td.int32, warps=warps)
    assert compiled.plan.counts == {
        ("ring", "full"): 32 * warps,
        ("ring", "empty"): 1,
        ("filled", "raw"): 1,
    }
    assert [(role.mode, role.first_warp) for role in compiled.plan.roles] == [
        ("warps", 0),
        ("thread", warps),
        ("warpgroup", 4),
    ]
    rows = steps * SIZE
    x, b = random(rows, ml_dtypes.bfloat16), random(SIZE, ml_dtypes.bfloat16)
    expected = x.astype(np.float64) @ b.astype(np.float64)
    for seed in (None, *range(3)):
        y = outcome(compiled.kernel, [x, b], (max(rows, 1), SIZE), steps, seed)
        assert np.abs(y[:rows] - expected[:rows]).max(initial=0) < 1e-3


def test_who_reads_copies_by_wgmma_fences_behind_its_wait() -> None:
    filecheck(
        copies.lower(BF16, BF16, F32, td.int32, warps=1).protocol_ir,
        """
        CHECK: role "copy"
        CHECK: mbarrier.wait %empty, parity %parity{{$}}
        CHECK: async.copy
        CHECK: async.arrive %full
        CHECK: role "mma"
        CHECK: mbarrier.wait %full{{.*}}, parity
        CHECK-NEXT: fence.proxy_async
        CHECK: wgmma.mma
        """,
    )


@td.kernel(grid=1)
def by_turns(x: td.Tensor, z: td.Tensor, y: td.Tensor, n: td.int32, *, warps: td.Constant[int]):
    """Even stages are loaded by TMA, odd ones copied, every third stored, by one role."""
    ring = td.InputTilePipeline(
        td.TileArray(td.float32, (2 * SIZE, SIZE), stages=STAGES), num_group_stages=STAGES
    )
    with td.role("make", warps=warps):
        producer = ring.producer()
        for k in range(n):
            value = td.load(z, (k * 2 * SIZE, 0), (2 * SIZE, SIZE))
            with producer.acquire() as stage:
                if k % 3 == 2:
                    stage.tile().store(value)
                elif k % 2 == 0:
                    td.async_copy(x, (k * 2 * SIZE, 0), stage.tile(), stage.barrier())
                else:
                    td.async_copy(z, (k * 2 * SIZE, 0), stage.tile(), stage.barrier())
            with producer.acquire() as stage:
                td.tma_load(x, (k * 2 * SIZE, 0), stage.tile(), stage.barrier())
    with td.role("use", warps=8):
        consumer = ring.consumer()
        for k in range(n):
            with consumer.acquire() as stage:
                value = stage.tile().load()
            with consumer.acquire() as stage:
                value = value + stage.tile().load()
            td.store(value, y, (k * 2 * SIZE, 0))


@pytest.mark.parametrize("steps", STEPS)
def test_every_stage_sees_the_arrivals_of_all_kinds(steps: int) -> None:
    compiled = by_turns.lower(F32, F32, F32, td.int32, warps=8)
    # One announces bytes, 2 parts store, 256 threads copy.
    assert compiled.plan.counts == {("ring", "full"): 1 + 2 + 256, ("ring", "empty"): 2}
    rows = 2 * SIZE * steps
    x, z = random(rows), random(rows)
    expected = np.full(x.shape, np.nan, np.float32)
    for k in range(steps):
        at = slice(2 * SIZE * k, 2 * SIZE * (k + 1))
        first = x if k % 3 != 2 and k % 2 == 0 else z
        expected[at] = first[at] + x[at]
    for seed in (None, *range(4)):
        y = outcome(compiled.kernel, [x, z], x.shape, steps, seed)
        assert np.array_equal(y, expected, equal_nan=True)


@td.kernel(grid=1)
def two_producers(a: td.Tensor, b: td.Tensor, y: td.Tensor, n: td.int32):
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (SIZE, SIZE), (SIZE, SIZE), num_pipeline_stages=STAGES
    )
    ring = td.InputTilePipeline(payload, num_group_stages=STAGES)
    with td.role("load_a", warps=1):
        producer = ring.producer()
        for k in range(n):
            with producer.acquire() as stage:
                tile = stage.payload().get_a_tile(stage.stage())
                td.tma_load(a, (k * SIZE, 0), tile, stage.barrier())
    with td.role("copy_b", warps=2):
        producer = ring.producer()
        for k in range(n):
            with producer.acquire() as stage:
                tile = stage.payload().get_b_tile(stage.stage())
                td.async_copy(b, (k * SIZE, 0), tile, stage.barrier())
    with td.role("mma", warps=4):
        consumer = ring.consumer()
        acc = td.zeros((SIZE, SIZE), td.float32)
        for _ in range(n):
            with consumer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage())
                acc = td.mma(a_tile, b_tile, acc)
        td.tma_store(acc, y, (0, 0))


@pytest.mark.parametrize("steps", STEPS)
def test_two_producers_fill_each_stage_together(steps: int) -> None:
    compiled = two_producers.lower(BF16, BF16, F32, td.int32)
    assert compiled.plan.counts == {("ring", "full"): 1 + 64, ("ring", "empty"): 1}
    assert [(a.role, a.number) for a in compiled.plan.arrivals["ring", "full"]] == [
        ("load_a", 1),
        ("copy_b", 64),
    ]
    a, b = (random(steps * SIZE, ml_dtypes.bfloat16) for _ in "ab")
    expected = np.zeros((SIZE, SIZE))
    for k in range(steps):
        at = slice(k * SIZE, (k + 1) * SIZE)
        expected += a[at].astype(np.float64) @ b[at].astype(np.float64)
    for seed in (None, *range(3)):
        y = outcome(compiled.kernel, [a, b], (SIZE, SIZE), steps, seed)
        assert np.abs(y - expected).max() < 1e-3


@td.kernel(grid=1)
def bare(
    x: td.Tensor, y: td.Tensor, n: td.int32, *, warps: td.Constant[int], raw: td.Constant[bool]
):
    """A ring without tiles guards tiles of the kernel's own."""
    ring = td.ProducerConsumerPipeline(STAGES)
    rows = td.shared((16 * warps, SIZE), td.float32, number=STAGES)
    with td.role("make", warps=warps):
        for k in range(n):
            value = td.load(x, (k * 16 * warps, 0), (16 * warps, SIZE))
            if raw:
                ring.wait_empty()
                rows[ring.producer_stage()].store(value * 2.0)
                ring.producer_signal_and_step()
            else:
                with ring.produce() as stage:
                    rows[stage.index()].store(value * 2.0)
    with td.role("use", warps=warps):
        for k in range(n):
            if raw:
                ring.wait_full()
                value = rows[ring.consumer_stage()].load()
                ring.consumer_signal_and_step()
            else:
                with ring.consume() as stage:
                    value = rows[stage.index()].load()
            td.store(value + 1.0, y, (k * 16 * warps, 0))


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("warps", [4, 8])
def test_a_bare_ring_guards_own_tiles(warps: int, raw: bool) -> None:
    compiled = bare.lower(F32, F32, td.int32, warps=warps, raw=raw)
    parts = warps // 4
    assert compiled.plan.counts == {("ring", "full"): parts, ("ring", "empty"): parts}
    for steps in STEPS:
        rows = 16 * warps * steps
        x = random(rows)
        for seed in (None, *range(3)):
            y = outcome(compiled.kernel, [x], (max(rows, 1), SIZE), steps, seed)
            assert (y[:rows] == x[:rows] * 2 + 1).all()


@td.kernel(grid=1)
def signals_only(x: td.Tensor, n: td.int32, *, warps: td.Constant[int]):
    """A producer that fills nothing arrives at its release, when its threads have got there."""
    ring = td.ProducerConsumerPipeline(STAGES)
    with td.role("make", warps=warps):
        zero = td.zeros((16 * warps, SIZE), td.float32)
        for k in range(n):
            with ring.produce():
                td.store(zero + 1.0, x, (k * 16 * warps, 0))
    with td.role("use", warps=1):
        for _ in range(n):
            with ring.consume():
                pass


def test_a_producer_that_fills_nothing() -> None:
    compiled = signals_only.lower(F32, td.int32, warps=8)
    assert compiled.plan.counts == {("ring", "full"): 1, ("ring", "empty"): 1}
    filecheck(
        compiled.protocol_ir,
        """
        CHECK: mbarrier.wait %empty, parity %parity{{$}}
        CHECK: tile.store
        CHECK: role.sync
        CHECK-NEXT: mbarrier.arrive %full{{.*}} {elect=role}
        """,
    )
    for seed in (None, *range(10)):
        out = np.full((5 * 128, SIZE), np.nan, np.float32)
        emulate(compiled.kernel, [out, 5], grid=(1, 1, 1), seed=seed)
        assert (out == 1).all()


@td.kernel(grid=1)
def loads_every_other(x: td.Tensor, y: td.Tensor, n: td.int32, *, warps: td.Constant[int]):
    """Every other stage is handed on as it is: its loads are those of a lap before."""
    ring = td.InputTilePipeline(
        td.TileArray(td.float32, (SIZE, SIZE), stages=2), num_group_stages=2
    )
    with td.role("load", warps=warps):
        producer = ring.producer()
        if warps > 1:
            td.store(td.zeros((SIZE, SIZE), td.float32), y, (n * SIZE, 0))
        for k in range(n):
            with producer.acquire() as stage:
                td.tma_load(x, (k * SIZE, 0), stage.tile(), ring.full_mbar(stage.index()))
            with producer.acquire():
                pass
    with td.role("use", warps=4):
        consumer = ring.consumer()
        for k in range(n):
            with consumer.acquire() as stage:
                value = stage.tile().load()
            with consumer.acquire():
                pass
            td.store(value, y, (k * SIZE, 0))


@pytest.mark.parametrize("warps", [1, 4])
def test_a_stage_without_loads_beside_stages_with_loads(warps: int) -> None:
    compiled = loads_every_other.lower(F32, F32, td.int32, warps=warps)
    assert compiled.plan.counts == {("ring", "full"): 1, ("ring", "empty"): 1}
    for steps in STEPS:
        x = random(steps * SIZE)
        for seed in (None, *range(4)):
            y = outcome(compiled.kernel, [x], ((steps + 1) * SIZE, SIZE), steps, seed)
            assert (y[: steps * SIZE] == x[: steps * SIZE]).all()


def test_the_barrier_of_a_held_stage_by_its_slot_is_the_stages_own() -> None:
    """It is filled before the next one is taken, so that releases may be put off."""
    compiled = loads_every_other.lower(F32, F32, td.int32, warps=1)
    (create,) = (op for op in compiled.kernel.body.walk() if op.opcode == "pipeline.create")
    assert create.attributes["lookahead"] == 1


@td.kernel(grid=1, warps=8)
def one_role_does_both(x: td.Tensor, y: td.Tensor, n: td.int32):
    """Loads ahead of what it reads, in one role of two parts."""
    ring = td.InputTilePipeline(
        td.TileArray(td.float32, (2 * SIZE, SIZE), stages=STAGES), num_group_stages=STAGES
    )
    producer, consumer = ring.producer(), ring.consumer()
    if n > 0:
        with producer.acquire() as stage:
            td.tma_load(x, (0, 0), stage.tile(), stage.barrier())
    for k in range(n):
        if k + 1 < n:
            with producer.acquire() as stage:
                td.tma_load(x, ((k + 1) * 2 * SIZE, 0), stage.tile(), stage.barrier())
        with consumer.acquire() as stage:
            value = stage.tile().load()
        td.store(value, y, (k * 2 * SIZE, 0))


def test_a_kernel_without_roles() -> None:
    compiled = one_role_does_both.lower(F32, F32, td.int32)
    assert compiled.plan.counts == {("ring", "full"): 1, ("ring", "empty"): 2}
    for steps in STEPS:
        rows = steps * 2 * SIZE
        x = random(rows)
        for seed in (None, *range(6)):
            y = outcome(compiled.kernel, [x], (max(rows, 1), SIZE), steps, seed)
            assert (y[:rows] == x[:rows]).all()


@td.kernel(grid=1)
def copies_beside_large_accumulators(a: td.Tensor, b: td.Tensor, c: td.Tensor, n: td.int32):
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (128, SIZE), (256, SIZE), num_pipeline_stages=STAGES
    )
    ring = td.InputTilePipeline(payload, num_group_stages=STAGES)
    with td.role("copy", warps=2):
        producer = ring.producer()
        for k in range(n):
            with producer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage())
                td.async_copy(a, (0, k * SIZE), a_tile, stage.barrier())
                td.async_copy(b, (0, k * SIZE), b_tile, stage.barrier())
    with td.role("mma", warps=8):
        consumer = ring.consumer()
        acc = td.zeros((128, 256), td.float32)
        for _ in range(n):
            with consumer.acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage())
                acc = td.mma(a_tile, b_tile.T, acc)
        td.tma_store(acc, c, (0, 0))


def test_a_role_that_copies_keeps_the_registers_it_needs() -> None:
    compiled = copies_beside_large_accumulators.lower(BF16, BF16, F32, td.int32)
    copy, mma = compiled.plan.roles
    assert compiled.plan.entry_registers == 168 and copy.registers and mma.registers
    assert copy.registers + 2 * mma.registers <= 3 * 168
    assert compiled.resources.spill_store_bytes == 0 and not compiled.resources.warnings
