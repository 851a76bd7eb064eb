"""M051-M063 of docs/pipeline-family.md: the views of producer and consumer. One test per ID."""

from __future__ import annotations

import tiledsl as td
from tests.family.kernels import (
    BK,
    BM,
    BN,
    check_product,
    compiled,
    load,
    multiply,
    refused,
    role_text,
)  # fmt: skip
from tests.filecheck import filecheck
from tests.kernels.family.registry import Run


@td.function
def fill_held(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    for k in range(steps):
        with producer.acquire() as stage:
            load(a, b, m, n, k, stage)


def test_M051_producer_view(run: Run) -> None:
    """Made where it is used, kept in a variable; two views of a ring share its place."""

    check_product(run, fill=fill_held)
    check_product(run, fill=fill_by_two_views)
    assert role_text(compiled(fill=fill_by_two_views), "load").count("producer.slot = ") == 1


@td.function
def fill_by_two_views(pipeline, a, b, m, n, steps):
    first, second = pipeline.producer(), pipeline.producer()
    for k in range(steps):
        with (first if k % 2 == 0 else second).acquire() as stage:
            load(a, b, m, n, k, stage)


@td.function
def fill_in_with(pipeline, a, b, m, n, steps):
    with pipeline.producer() as producer:
        for k in range(steps):
            with producer.acquire() as stage:
                load(a, b, m, n, k, stage)


def test_M052_producer_view_in_with(run: Run) -> None:
    """The end of `with` releases nothing and waits for nothing: the text is the same."""
    check_product(run, fill=fill_in_with)
    lines = [
        role_text(compiled(fill=fill), "load").count("\n") for fill in (fill_in_with, fill_held)
    ]
    assert lines[0] == lines[1]


@td.function
def fill_drained(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    for k in range(steps):
        with producer.acquire() as stage:
            load(a, b, m, n, k, stage)
    producer.drain()


@td.function
def fill_drained_inside(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    for k in range(steps):
        with producer.acquire() as stage:
            load(a, b, m, n, k, stage)
            producer.drain()


def test_M053_drain(run: Run) -> None:
    """Waits once for each slot, whatever the trip count was.

    A stage that is held counts: all its loads come before, as its consumers wait for them.
    """
    check_product(run, stages=(1, 2, 4), fill=fill_drained)
    text = role_text(compiled(fill=fill_drained, stages=4), "load")
    assert text[text.rindex("tma.load") :].count("mbarrier.wait %empty") == 4
    check_product(run, stages=(2,), fill=fill_drained_inside)
    refused(lambda: compiled(fill=fill_drained_before), "drain() while a stage is held")
    refused(lambda: compiled(fill=fill_drained_between), "drain() while", "comes after the drain")
    refused(lambda: compiled(fill=fill_drained_in_loop), "drain() while", "comes after the drain")


@td.function
def fill_drained_before(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    for k in range(steps):
        with producer.acquire() as stage:
            producer.drain()
            load(a, b, m, n, k, stage)


@td.function
def fill_drained_between(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    for k in range(steps):
        with producer.acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage())
            td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
            producer.drain()
            td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())


@td.function
def fill_drained_in_loop(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    for k in range(steps):
        with producer.acquire() as stage:
            for _ in range(2):
                load(a, b, m, n, k, stage)
                producer.drain()


@td.function
def fill_two_deep(pipeline, a, b, m, n, steps):
    """Holds one stage while it takes the next."""
    producer = pipeline.producer()
    for k in range(steps // 2):
        with producer.acquire() as first:
            with producer.acquire() as second:
                load(a, b, m, n, 2 * k + 1, second)
            load(a, b, m, n, 2 * k, first)
    if steps % 2 == 1:
        with producer.acquire() as stage:
            load(a, b, m, n, steps - 1, stage)


def test_M054_acquire_of_the_producer(run: Run) -> None:
    """Waits for the next slot to be empty; the first lap waits for nothing. Too many: refused."""
    check_product(run, fill=fill_held)
    filecheck(role_text(compiled(fill=fill_held), "load"),
              "CHECK: producer.parity = local.new 1\nCHECK: mbarrier.wait\n"
              "CHECK: mbarrier.arrive_expect_tx")  # fmt: skip
    check_product(run, stages=(2, 3), fill=fill_two_deep)
    refused(lambda: compiled(fill=fill_two_deep, stages=1), "stage")


@td.function
def fill_by_hand(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    for k in range(steps):
        stage = producer.acquire_stage()
        load(a, b, m, n, k, stage)
        stage.release()


def test_M055_acquire_stage_of_the_producer(run: Run) -> None:
    """The flat style: the same program."""
    check_product(run, fill=fill_by_hand)
    lines = [
        role_text(compiled(fill=fill), "load").count("\n") for fill in (fill_by_hand, fill_held)
    ]
    assert lines[0] == lines[1]


@td.function
def fill_polling(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    for k in range(steps):
        while not producer.try_acquire():
            pass
        with producer.acquire() as stage:
            load(a, b, m, n, k, stage)


def test_M056_try_acquire_of_the_producer(run: Run) -> None:
    check_product(run, fill=fill_polling)
    filecheck(
        role_text(compiled(fill=fill_polling), "load"), "CHECK: loop\nCHECK: mbarrier.try_wait"
    )


@td.function
def fill_asked_ahead(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    ready = producer.try_acquire()
    for k in range(steps):
        with producer.acquire_if_needed(ready) as stage:
            load(a, b, m, n, k, stage)
        ready = producer.try_acquire()


@td.function
def fill_asked_too_early(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    ready = producer.try_acquire()
    for k in range(steps):
        with producer.acquire_if_needed(ready) as stage:
            load(a, b, m, n, k, stage)


def test_M057_acquire_if_needed_of_the_producer(run: Run) -> None:
    """No wait where the answer was yes; an answer about another slot is refused."""
    check_product(run, fill=fill_asked_ahead)
    filecheck(
        role_text(compiled(fill=fill_asked_ahead), "load"), "CHECK: mbarrier.wait {{.*}} unless"
    )
    refused(lambda: compiled(fill=fill_asked_too_early), "try_acquire")


@td.function
def use_held(pipeline, acc, steps):
    consumer = pipeline.consumer()
    for _ in range(steps):
        with consumer.acquire() as stage:
            acc = multiply(stage, acc)
    return acc


def test_M058_consumer_view(run: Run) -> None:
    """It has no drain: its last release ends its part."""
    check_product(run, use=use_held)
    refused(lambda: compiled(use=use_drained), "drain")


@td.function
def use_drained(pipeline, acc, steps):
    pipeline.consumer().drain()
    return acc


@td.function
def use_in_with(pipeline, acc, steps):
    with pipeline.consumer() as consumer:
        for _ in range(steps):
            with consumer.acquire() as stage:
                acc = multiply(stage, acc)
    return acc


def test_M059_consumer_view_in_with(run: Run) -> None:
    check_product(run, use=use_in_with)
    lines = [role_text(compiled(use=use), "mma").count("\n") for use in (use_in_with, use_held)]
    assert lines[0] == lines[1]


@td.function
def use_two_deep(pipeline, acc, steps):
    consumer = pipeline.consumer()
    for _ in range(steps // 2):
        with consumer.acquire() as first, consumer.acquire() as second:
            acc = multiply(second, acc)
            acc = multiply(first, acc)
    if steps % 2 == 1:
        with consumer.acquire() as stage:
            acc = multiply(stage, acc)
    return acc


def test_M060_acquire_of_the_consumer(run: Run) -> None:
    """Waits for the next slot to be full; several may be held, up to the ring's depth."""
    check_product(run, stages=(2, 3), use=use_two_deep)
    filecheck(
        role_text(compiled(use=use_held), "mma"),
        "CHECK: consumer.parity = local.new 0\nCHECK: mbarrier.wait\nCHECK: wgmma.mma",
    )
    refused(lambda: compiled(use=use_two_deep, stages=1), "stage")


@td.function
def use_by_hand(pipeline, acc, steps):
    consumer = pipeline.consumer()
    for _ in range(steps):
        stage = consumer.acquire_stage()
        acc = multiply(stage, acc)
        stage.release()
    return acc


def test_M061_acquire_stage_of_the_consumer(run: Run) -> None:
    check_product(run, use=use_by_hand)
    lines = [role_text(compiled(use=use), "mma").count("\n") for use in (use_by_hand, use_held)]
    assert lines[0] == lines[1]


@td.function
def use_polling(pipeline, acc, steps):
    consumer = pipeline.consumer()
    for _ in range(steps):
        while not consumer.try_acquire():
            pass
        with consumer.acquire() as stage:
            acc = multiply(stage, acc)
    return acc


def test_M062_try_acquire_of_the_consumer(run: Run) -> None:
    check_product(run, use=use_polling)
    filecheck(role_text(compiled(use=use_polling), "mma"), "CHECK: loop\nCHECK: mbarrier.try_wait")


@td.function
def use_asked_ahead(pipeline, acc, steps):
    consumer = pipeline.consumer()
    ready = consumer.try_acquire()
    for _ in range(steps):
        with consumer.acquire_if_needed(ready) as stage:
            acc = multiply(stage, acc)
        ready = consumer.try_acquire()
    return acc


def test_M063_acquire_if_needed_of_the_consumer(run: Run) -> None:
    """The same on the consumer's side."""
    check_product(run, use=use_asked_ahead)
    filecheck(role_text(compiled(use=use_asked_ahead), "mma"), "CHECK: mbarrier.wait {{.*}} unless")
    refused(lambda: compiled(use=use_asked_too_early), "try_acquire", "earlier slot")


@td.function
def use_asked_too_early(pipeline, acc, steps):
    consumer = pipeline.consumer()
    ready = consumer.try_acquire()
    for _ in range(steps):
        with consumer.acquire_if_needed(ready) as stage:
            acc = multiply(stage, acc)
    return acc
