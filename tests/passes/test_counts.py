"""Arrival counts that are derived, checked or asked for; ids and threads of named barriers."""

from __future__ import annotations

import numpy as np
import pytest

import tiledsl as td
from tests.filecheck import filecheck
from tiledsl.errors import ResourceLimit, StageError
from tiledsl.runtime.emulator import emulate

SIZE = 64
F32 = td.spec((SIZE, SIZE), td.float32)


@td.kernel(grid=1)
def counted(
    x: td.Tensor, n: td.int32, *, full: td.Constant[int], empty: td.Constant[int],
    warps: td.Constant[int],
):  # fmt: skip
    ring = td.ProducerConsumerPipeline(2, producer_count=full, consumer_count=empty)
    with td.role("make", warps=1):
        for _ in range(n):
            with ring.produce():
                pass
    with td.role("use", warps=warps):
        zero = td.zeros((16 * warps, SIZE), td.float32)
        for _ in range(n):
            with ring.consume():
                pass
        td.store(zero, x, (0, 0))


@pytest.mark.parametrize(("warps", "empty"), [(4, 1), (8, 2)])
def test_a_stated_count_that_is_right(warps: int, empty: int) -> None:
    compiled = counted.lower(F32, td.int32, full=1, empty=empty, warps=warps)
    assert compiled.plan.counts == {("ring", "full"): 1, ("ring", "empty"): empty}


def test_a_stated_count_that_is_wrong_names_both_numbers_and_the_roles() -> None:
    with pytest.raises(StageError) as caught:
        counted.lower(F32, td.int32, full=1, empty=8, warps=8)
    text = str(caught.value)
    assert "consumer_count=8 disagrees" in text and "bring 2 arrivals" in text
    assert "role 'use' brings 2: one of each part" in text
    with pytest.raises(StageError, match="producer_count=2 disagrees"):
        counted.lower(F32, td.int32, full=2, empty=2, warps=8)


@td.kernel(grid=1)
def by_hand(x: td.Tensor, y: td.Tensor, n: td.int32, *, count: td.Constant[int]):
    """The consumer's arrival is the user's own, behind all that its threads have read."""
    ring = td.ProducerConsumerPipeline(2, consumer_count=count)
    rows = td.shared((2 * SIZE, SIZE), td.float32, number=2)
    with td.role("load", warps=1):
        for k in range(n):
            with ring.produce() as stage:
                td.tma_load(x, (2 * k * SIZE, 0), rows[stage.index()], stage.barrier())
    with td.role("use", warps=8):
        for k in range(n):
            with ring.consume_explicit() as stage:
                value = rows[stage.index()].load()
                stage.mbar().arrive()
            td.store(value, y, (2 * k * SIZE, 0))


def test_arrivals_by_hand_need_a_count_and_are_of_the_whole_role() -> None:
    compiled = by_hand.lower(F32, F32, td.int32, count=1)
    assert compiled.plan.counts["ring", "empty"] == 1
    filecheck(
        compiled.protocol_ir,
        """
        CHECK: shared.load
        CHECK: role.sync
        CHECK-NEXT: mbarrier.arrive %empty{{.*}} {elect=role}
        """,
    )
    x = np.random.default_rng().standard_normal((5 * 2 * SIZE, SIZE)).astype(np.float32)
    for seed in (None, *range(10)):
        y = np.full(x.shape, np.nan, np.float32)
        emulate(compiled.kernel, [x, y, 5], grid=(1, 1, 1), seed=seed)
        assert (y == x).all()


@td.kernel(grid=1)
def early(x: td.Tensor, n: td.int32):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("make", warps=1):
        for _ in range(n):
            with ring.produce():
                pass
    with td.role("use", warps=8):
        zero = td.zeros((2 * SIZE, SIZE), td.float32)
        for _ in range(n):
            with ring.consume_explicit() as stage:
                stage.arrive()
        td.store(zero, x, (0, 0))


def test_an_early_arrival_takes_the_place_of_the_release() -> None:
    compiled = early.lower(F32, td.int32)
    assert compiled.plan.counts == {("ring", "full"): 1, ("ring", "empty"): 2}
    use = compiled.protocol_ir[compiled.protocol_ir.index('role "use"') :]
    assert use.count("mbarrier.arrive") == 1


@td.kernel(grid=1)
def no_consumer(n: td.int32):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("make", warps=1):
        for _ in range(n):
            with ring.produce():
                pass


def test_a_side_that_is_missing() -> None:
    with pytest.raises(StageError, match="has a producer but no consumer"):
        no_consumer.lower(td.int32)


@td.kernel(grid=1)
def steps_without_arrival(n: td.int32, *, count: td.Constant[int]):
    ring = td.ProducerConsumerPipeline(2, producer_count=count)
    with td.role("make", warps=1):
        for _ in range(n):
            ring.wait_empty()
            ring.full_mbar(ring.producer_stage()).arrive()
            ring.producer_step()
    with td.role("use", warps=1):
        for _ in range(n):
            with ring.consume():
                pass


def test_raw_style_with_arrivals_on_the_barrier() -> None:
    compiled = steps_without_arrival.lower(td.int32, count=1)
    assert compiled.plan.counts == {("ring", "full"): 1, ("ring", "empty"): 1}
    emulate(compiled.kernel, [7], grid=(1, 1, 1))


# ----------------------------------------------------------------- mbarriers of the user's own


@td.kernel(grid=1)
def row(x: td.Tensor, *, case: td.Constant[str]):
    bars = td.mbarrier(number=2)
    with td.role("a", warps=1):
        if case != "nobody":
            bars[0].arrive()
        if case == "each":
            bars[1].arrive()
    with td.role("b", warps=4, replicas=2) as me:
        value = td.zeros((SIZE, SIZE), td.float32)
        if case in ("uneven", "each"):
            bars[me.index].arrive()
        td.store(value, x, (0, 0))
    with td.role("c", warps=1):
        bars[0].wait(0)
        if case == "each":
            bars[1].wait(0)


def test_a_raw_barrier_counts_the_roles_that_arrive() -> None:
    plan = row.lower(F32, case="each").plan
    assert plan.counts["bars", "raw"] == 2  # role a, and the replica of that number
    assert {arrival.role for arrival in plan.arrivals["bars", "raw"]} == {"a", "b.0", "b.1"}
    with pytest.raises(StageError, match="no role arrives on mbarrier 'bars'"):
        row.lower(F32, case="nobody")
    with pytest.raises(StageError, match="get 1 and 2 arrivals") as caught:
        row.lower(F32, case="uneven")
    assert "mbarrier 0: a, b.0" in str(caught.value)


@td.kernel(grid=1, cluster=(2,))
def remote(x: td.Tensor, *, stated: td.Constant[bool]):
    bar = td.mbarrier(2) if stated else td.mbarrier()
    with td.role("a", warps=1):
        bar.arrive(rank=0)
        if td.cluster_rank() == 0:
            bar.wait(0)
            x[0, 0] = 1.0


def test_arrivals_of_other_blocks_need_a_count() -> None:
    assert remote.lower(F32, stated=True).plan.counts == {("bar", "raw"): 2}
    with pytest.raises(StageError, match="arrivals of other blocks"):
        remote.lower(F32, stated=False)


# ----------------------------------------------------------------------------- named barriers


@td.kernel(grid=1)
def named(x: td.Tensor):
    first = td.named_barrier()
    second = td.named_barrier()
    with td.role("one", warps=1):
        x[0, 0] = 3.0
        first.arrive()
    with td.role("many", warps=8):
        value = td.zeros((2 * SIZE, SIZE), td.float32)
        first.sync()
        second.sync()
        td.store(value + x[0, 0], x, (SIZE, 0))
    with td.role("twice", warps=4, replicas=2):
        value = td.zeros((SIZE, SIZE), td.float32)
        second.arrive()
        td.store(value, x, (3 * SIZE, 0))


def test_named_barriers_count_the_threads_of_their_roles() -> None:
    compiled = named.lower(F32)
    plan = compiled.plan
    assert plan.named["first"].threads == 32 + 256
    assert plan.named["second"].threads == 256 + 2 * 128
    ids = [barrier.id for barrier in plan.named.values()]
    for role in plan.roles:
        ids += [role.part_barrier + part for part in range(role.parts) if role.part_barrier]
        ids += [role.role_barrier] if role.role_barrier > role.part_barrier else []
    assert len(set(ids)) == len(ids) and all(0 < number < 16 for number in ids)
    for seed in (None, *range(5)):
        x = np.zeros((4 * SIZE, SIZE), np.float32)
        emulate(compiled.kernel, [x], grid=(1, 1, 1), seed=seed)
        assert (x[SIZE : 3 * SIZE] == 3).all()


@td.kernel(grid=1)
def too_many(x: td.Tensor, y: td.Tensor):
    a, b, c = td.named_barrier(), td.named_barrier(), td.named_barrier()
    d, e, f = td.named_barrier(), td.named_barrier(), td.named_barrier()
    g, h, i = td.named_barrier(), td.named_barrier(), td.named_barrier()
    j, k = td.named_barrier(), td.named_barrier()
    barriers = (a, b, c, d, e, f, g, h, i, j, k)
    with td.role("arrives", warps=1):
        for barrier in barriers:
            barrier.arrive()
    with td.role("stores", warps=8):
        value = td.load(x, (0, 0), (2 * SIZE, SIZE))
        td.store(value, x, (0, 0))
        for barrier in barriers:
            barrier.sync()
        td.tma_store(value, y, (0, 0))
    with td.role("last", warps=4, replicas=2):
        td.tma_store(td.zeros((SIZE, SIZE), td.float32), y, (0, 0))


def test_more_named_barriers_than_there_are() -> None:
    with pytest.raises(ResourceLimit) as caught:
        too_many.lower(F32, F32)
    text = str(caught.value)
    assert "needs 16 named barriers: a block has 15" in text
    takers = (
        "role 'stores': 2, for 2 parts",
        "role 'stores': 1, for all of its threads",
        "role 'last.1': 1, for all of its threads",
        "td.named_barrier 'k': 1",
    )
    assert all(taker in text for taker in takers)
