"""M109-M117 of docs/pipeline-family.md: stages of a bare ring. One test per ID."""

from __future__ import annotations

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


@td.kernel(grid=1)
def throttled(order: td.Tensor, n: td.int32, *, stages: td.Constant[int]):
    """Two roles in step: the second reads what the first wrote in front of its signal."""
    ring = td.ProducerConsumerPipeline(stages)
    with td.role("make", warps=1):
        for i in range(n):
            order[i, 0] = i
            ring.producer_signal_and_step()
    with td.role("use", warps=1):
        for i in range(n):
            ring.consumer_signal_and_step()
            order[i, 1] = order[i, 0]


def test_M109_signal_and_step(run: Run) -> None:
    """A wait, an arrival of the whole part, then a step."""
    for stages in (1, 3):
        for n in run.trips(stages):
            order = run.place.put(np.full((max(n, 1), 2), -1, np.int32))
            throttled(order, n, stages=stages)
            assert (run.place.get(order)[:n].T == np.arange(n)).all()
    for role, barriers in (("make", "empty full"), ("use", "full empty")):
        waits, arrives = barriers.split()
        filecheck(
            role_text(throttled.variants[-1], role),
            f"CHECK: mbarrier.wait %{waits}\nCHECK: mbarrier.arrive %{arrives}\nCHECK: local.set",
        )
    variant = check(run, make=make_waiting, use=use_waiting)
    for role, barrier in (("make", "full"), ("use", "empty")):
        text = role_text(variant, role)
        filecheck(text, f"CHECK: ring.{barrier}\nCHECK: mbarrier.arrive\nCHECK: local.set")
        assert text.count("mbarrier.arrive") == 1


def test_M110_produce_and_consume(run: Run) -> None:
    """Acquire, and at the end release: arrive and step."""
    check(run)
    check(run, stages=(2,), make=make_waiting)
    check(run, stages=(2,), use=use_waiting)


@td.function
def use_explicit(ring, rows, y, i):
    with ring.consume_explicit() as stage:
        value = rows[stage.index()].load()
        stage.arrive()
        td.store(value, y, (i * ROWS, 0))


@td.function
def use_explicit_forgotten(ring, rows, y, i):
    with ring.consume_explicit() as stage:
        td.store(rows[stage.index()].load(), y, (i * ROWS, 0))


def test_M111_consume_explicit(run: Run) -> None:
    """The user arrives, once, where he likes; the end only steps. No arrival is an error."""
    variant = check(run, use=use_explicit)
    assert role_text(variant, "use").count("mbarrier.arrive") == 1
    refused(lambda: compile_by(use=use_explicit_forgotten), "arriv")


@td.function
def make_flat(ring, rows, x, i):
    stage = ring.acquire_producer()
    put(x, i, rows[stage.index()])
    stage.release()


@td.function
def use_flat(ring, rows, y, i):
    stage = ring.acquire_consumer()
    td.store(rows[stage.index()].load(), y, (i * ROWS, 0))
    stage.release()


def test_M112_acquire_producer_and_consumer(run: Run) -> None:
    variant = check(run, make=make_flat, use=use_flat)
    plain = check(run, stages=(3,))
    for role in ("make", "use"):
        assert role_text(variant, role).count("\n") == role_text(plain, role).count("\n")


@td.function
def make_by_tma(ring, rows, x, i):
    stage = ring.acquire_producer()
    td.tma_load(x, (i * ROWS, 0), rows[stage.index()], stage.mbar())
    stage.release()


@td.function
def make_two_arrivals(ring, rows, x, i):
    stage = ring.acquire_producer()
    put(x, i, rows[stage.index()])
    stage.mbar().arrive()
    stage.release()


@td.function
def make_twice(ring, rows, x, i):
    stage = ring.acquire_producer()
    put(x, i, rows[stage.index()])
    stage.release()
    stage.release()


def test_M113_producer_stage(run: Run) -> None:
    """mbar is the full barrier: for a copy, or for arrivals by hand, whose number must be given."""
    variant = check(run, make=make_by_tma)
    filecheck(role_text(variant, "make"), f"CHECK: arrive_expect_tx %full, {ROWS * COLUMNS * 4}")
    two = check(run, make=make_two_arrivals, counts=(2, 1))
    assert role_text(two, "make").count("mbarrier.arrive %full") == 2
    refused(lambda: compile_by(make=make_two_arrivals), "by hand", "producer_count")
    refused(lambda: compile_by(make=make_twice), "release")


@td.function
def make_after(ring, rows, x, i):
    with ring.produce() as stage:
        put(x, i, rows[stage.index()])
    stage.arrive()


def test_M114_the_context_of_produce(run: Run) -> None:
    """Its end arrives behind the role's writes, which a fence makes visible to the async proxy
    where a TMA or a wgmma reads them."""
    variant = check(run)
    filecheck(
        role_text(variant, "make"), "CHECK: shared.store\nCHECK: mbarrier.arrive\nCHECK: continue"
    )
    refused(lambda: compile_by(make=make_after), "released")


@td.function
def use_early(ring, rows, y, i):
    stage = ring.acquire_consumer()
    value = rows[stage.index()].load()
    stage.arrive()
    td.store(value, y, (i * ROWS, 0))
    stage.release_without_signal()


@td.function
def use_mbar(ring, rows, y, i):
    stage = ring.acquire_consumer()
    value = rows[stage.index()].load()
    stage.mbar().arrive()
    td.store(value, y, (i * ROWS, 0))
    stage.release_without_signal()


@td.function
def use_silent(ring, rows, y, i):
    stage = ring.acquire_consumer()
    td.store(rows[stage.index()].load(), y, (i * ROWS, 0))
    stage.release_without_signal()


def test_M115_consumer_stage(run: Run) -> None:
    """arrive, then release_without_signal: one arrival. Without the arrival it is an error."""
    variant = check(run, use=use_early)
    assert role_text(variant, "use").count("mbarrier.arrive") == 1
    by_hand_too = check(run, use=use_mbar, counts=(1, 1))  # mbar is the empty barrier
    assert role_text(by_hand_too, "use").count("mbarrier.arrive %empty") == 1
    refused(lambda: compile_by(use=use_mbar), "consumer_count")
    refused(lambda: compile_by(use=use_silent), "arriv")


@td.function
def use_explicit_and_release(ring, rows, y, i):
    with ring.consume_explicit() as stage:
        td.store(rows[stage.index()].load(), y, (i * ROWS, 0))
        stage.release()


def test_M116_the_contexts_of_consume(run: Run) -> None:
    check(run)
    check(run, use=use_explicit)
    refused(lambda: compile_by(use=use_explicit_and_release), "release")


def test_M117_the_hardware_chooses_how_long_a_wait_sleeps(run: Run) -> None:
    """No ticks: try_wait in a loop, with no suspend-time operand."""
    variant = check(run)
    filecheck(
        variant.ptx,
        "CHECK: mbarrier.try_wait.parity.shared::cta.b64 done, [{{%r[0-9]+}}], {{%r[0-9]+}};",
    )
    refused(lambda: compile_by(use=use_ticks), "ticks")
    refused(lambda: compile_by(use=use_ticks_of_the_model), "hint: write nothing: the hardware")


@td.function
def use_ticks(ring, rows, y, i):
    ring.wait_full(ticks=100)
    use_waiting(ring, rows, y, i)


@td.function
def use_ticks_of_the_model(ring, rows, y, i):
    ring.wait_full(td.SM100_PIPELINE_WAIT_TICKS)
