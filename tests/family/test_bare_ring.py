"""M099-M108 of docs/pipeline-family.md: the ring of barriers without tiles. One test per ID."""

from __future__ import annotations

from typing import Any

import numpy as np

import tiledsl as td
from tests.family.kernels import refused, role_text
from tests.family.kernels_bare_ring import (
    COLUMNS,
    ROWS,
    check,
    compile_by,
    make_waiting,
    put,
    use_waiting,
)
from tests.filecheck import filecheck
from tests.kernels.family.registry import Run


def test_M099_a_ring_of_any_number_of_stages(run: Run) -> None:
    variant = check(run, stages=(1, 2, 5))
    filecheck(variant.protocol_ir, "CHECK: pipeline.create ring<5 stages")
    refused(lambda: compile_by(stages=0), "0")
    spec = td.spec((64,), td.int32)
    refused(lambda: in_brackets.compile(spec), "hint: write ProducerConsumerPipeline(...)")
    refused(lambda: with_a_pointer.compile(spec), "too many positional arguments", "num_stages")


@td.kernel(grid=1)
def in_brackets(y: td.Tensor):
    td.ProducerConsumerPipeline[2]()


@td.kernel(grid=1)
def with_a_pointer(y: td.Tensor):
    td.ProducerConsumerPipeline(2, y)


def test_M100_storage_is_the_rings_own(run: Run) -> None:
    """No pointer to barriers: two of them a stage, placed and initialised by the compiler."""
    variant = check(run)
    filecheck(
        variant.protocol_ir,
        "CHECK: shared ring.full: 24 bytes at {{.*}}, 3 mbarriers\n"
        "CHECK: shared ring.empty: 24 bytes at {{.*}}, 3 mbarriers",
    )
    assert variant.ptx.count("mbarrier.init") == 6


def test_M101_wait_full_and_wait_empty(run: Run) -> None:
    """Named by the barrier; they take nothing, so that a second wait goes on at once."""
    once, twice = (
        role_text(check(run, make=make_waiting, use=use), "use").count("mbarrier.wait %full")
        for use in (use_waiting, use_waiting_twice)
    )
    assert twice == once + 1
    refused(lambda: compile_by(use=use_waiting_model), "hint: write wait_full()")


@td.function
def use_waiting_twice(ring, rows, y, i):
    ring.wait_full()
    use_waiting(ring, rows, y, i)


@td.function
def use_waiting_model(ring, rows, y, i):
    ring.wait_producer()


@td.function
def make_polling(ring, rows, x, i):
    while not ring.try_wait_empty():
        pass
    make_waiting(ring, rows, x, i)


@td.function
def use_polling(ring, rows, y, i):
    while not ring.try_wait_full():
        pass
    use_waiting(ring, rows, y, i)


def test_M102_try_wait(run: Run) -> None:
    variant = check(run, make=make_polling, use=use_polling)
    for role in ("make", "use"):
        filecheck(role_text(variant, role), "CHECK: loop\nCHECK: mbarrier.try_wait")


@td.function
def make_if_needed(ring, rows, x, i):
    ring.wait_empty_if_needed(ring.try_wait_empty())
    put(x, i, rows[ring.producer_stage()])
    ring.producer_signal_and_step()


@td.function
def use_if_needed(ring, rows, y, i):
    ring.wait_full_if_needed(ring.try_wait_full())
    td.store(rows[ring.consumer_stage()].load(), y, (i * ROWS, 0))
    ring.consumer_signal_and_step()


def test_M103_wait_if_needed(run: Run) -> None:
    variant = check(run, make=make_if_needed, use=use_if_needed)
    for role in ("make", "use"):
        filecheck(role_text(variant, role), "CHECK: mbarrier.wait {{.*}} unless")


@td.kernel(grid=1)
def by_hand(x: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int]):
    """Arrivals on the barriers themselves; their counts are given, as nothing says them."""
    ring = td.ProducerConsumerPipeline(stages, producer_count=1, consumer_count=1)
    rows = td.shared((ROWS, COLUMNS), x.dtype, number=stages)
    with td.role("load", warps=1):
        for i in range(n):
            ring.wait_empty()
            at = ring.producer_stage()
            ring.producer_mbar(at).arrive_and_expect_bytes(rows[at].nbytes)
            td.tma_load(x, (i * ROWS, 0), rows[at], ring.full_mbar(at))
            ring.producer_step()
    with td.role("use", warps=4):
        for i in range(n):
            ring.wait_full()
            at = ring.consumer_stage()
            td.store(rows[at].load(), y, (i * ROWS, 0))
            ring.consumer_mbar(at).arrive()
            ring.consumer_step()


def _by_hand(run: Run) -> Any:
    for stages in (1, 2):
        for n in run.trips(stages):
            x = run.normal((max(n, 1) * ROWS, COLUMNS), "float32")
            y = run.output(x.shape)
            by_hand(run.place.put(x), y, n, stages=stages)
            expected = np.full_like(x, np.nan)
            expected[: n * ROWS] = x[: n * ROWS]
            wrong = run.same(y, expected, f"{n} of {stages}")
            assert not wrong, wrong
    return by_hand.variants[-1]


def test_M104_barriers_of_a_slot(run: Run) -> None:
    """producer_mbar is the full barrier, on which the producer arrives; consumer_mbar the empty."""
    variant = _by_hand(run)
    filecheck(role_text(variant, "load"), "CHECK: ring.full\nCHECK: mbarrier.arrive_expect_tx")
    filecheck(role_text(variant, "use"), "CHECK: ring.empty\nCHECK: mbarrier.arrive")


@td.kernel(grid=1)
def numbered(order: td.Tensor, n: td.int32, *, stages: td.Constant[int]):
    """The slots that both sides see, before and behind each step."""
    ring = td.ProducerConsumerPipeline(stages)
    with td.role("make", warps=1):
        for i in range(n):
            ring.wait_empty()
            order[i, 0] = ring.producer_stage()
            ring.producer_signal_and_step()
            order[i, 1] = ring.producer_stage()
    with td.role("use", warps=1):
        for i in range(n):
            ring.wait_full()
            order[i, 2] = ring.consumer_stage()
            ring.consumer_signal_and_step()
            order[i, 3] = ring.consumer_stage()


def _order(run: Run, columns: list[int]) -> None:
    for stages in (1, 3):
        for n in run.trips(stages):
            order = run.place.put(np.full((max(n, 1), 4), -1, np.int32))
            numbered(order, n, stages=stages)
            got = run.place.get(order)
            for column in columns:
                behind = column % 2
                assert (got[:n, column] == (np.arange(n) + behind) % stages).all()
                assert (got[n:, column] == -1).all()


def test_M105_slots_of_both_sides(run: Run) -> None:
    _order(run, [0, 2])


def test_M106_steps_of_both_sides(run: Run) -> None:
    """A step goes to the next slot, and flips the parity behind the last: no barrier is touched."""
    _order(run, [1, 3])
    text = role_text(_by_hand(run), "use")
    filecheck(text[text.index("mbarrier.arrive") :],
              "CHECK: add %[[SLOT:.*]], 1\nCHECK: xor %[[PARITY:.*]], 1\n"
              "CHECK: local.set %ring.consumer.slot\n"
              "CHECK: local.set %ring.consumer.parity")  # fmt: skip


@td.kernel(grid=1)
def sizes(y: td.Tensor, *, stages: td.Constant[int]):
    ring = td.ProducerConsumerPipeline(stages)
    y[0] = ring.smem_bytes()
    y[1] = ring.num_stages
    with td.role("make", warps=1), ring.produce():
        pass
    with td.role("use", warps=1), ring.consume():
        pass


def test_M107_smem_bytes(run: Run) -> None:
    """Two barriers of 8 bytes a stage: what the plan holds."""
    for stages in (1, 4):
        y = run.place.put(np.full(2, -1, np.int32))
        sizes(y, stages=stages)
        assert run.place.get(y).tolist() == [16 * stages, stages]
        text = sizes.variants[-1].protocol_ir
        filecheck(text, f"CHECK: shared ring.full: {8 * stages} bytes")


@td.kernel(grid=1)
def two_consumers(x: td.Tensor, y: td.Tensor, *, wide: td.Constant[int]):
    ring = td.ProducerConsumerPipeline(2)
    rows = td.shared((128, COLUMNS), x.dtype, number=2)
    with td.role("make", warps=8):
        with ring.produce() as stage:
            rows[stage.index()].store(td.load(x, (0, 0), (128, COLUMNS)))
    with td.role("one", warps=4):
        with ring.consume() as stage:
            td.store(rows[stage.index()].load(), y, (0, 0))
    if wide:
        with td.role("two", warps=8):
            with ring.consume() as stage:
                td.store(rows[stage.index()].load(), y, (0, COLUMNS))


def test_M108_counts_are_derived(run: Run) -> None:
    """A part of a role arrives once: 2 of the producer, 1 or 1 + 2 of the consumers."""
    for wide in (0, 1):
        x, y = run.normal((128, COLUMNS), "float32"), run.output((128, 2 * COLUMNS))
        two_consumers(run.place.put(x), y, wide=wide)
        expected = np.full((128, 2 * COLUMNS), np.nan, np.float32)
        expected[:, :COLUMNS] = x
        if wide:
            expected[:, COLUMNS:] = x
        wrong = run.same(y, expected, f"wide {wide}")
        assert not wrong, wrong
        filecheck(two_consumers.variants[-1].protocol_ir,
                  f"CHECK: barrier ring.empty: {1 + 2 * wide} arrival(s) a phase\n"
                  "CHECK: barrier ring.full: 2 arrival(s) a phase")  # fmt: skip
    refused(lambda: compile_by(counts=(2, 1)), "2", "1")
