"""``ready`` that is no answer of ``try_acquire`` about this slot: refused, and correct twins."""

from __future__ import annotations

from typing import Any

import pytest

import tiledsl as td
from tests.errors.checks import BF, check, run
from tests.errors.messages import message
from tests.errors.test_arrivals import square
from tests.golden import Golden
from tiledsl.errors import StageError


@td.function
def load_one(a, stage):
    td.tma_load(a, (0, 0), stage.tile(), stage.barrier())
    stage.release()


@td.function
def take_all(pipeline, n):
    consumer = pipeline.consumer()
    for _ in range(n):
        consumer.acquire().release()


@td.kernel(grid=1)
def peeked(a: td.Tensor, n: td.int32):
    """The idiom: ask for the next slot while this one is worked on."""
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for _ in range(n):
            load_one(a, producer.acquire())
    with td.role("take", warps=1):
        consumer = pipeline.consumer()
        ready = consumer.try_acquire()
        for i in range(n):
            with consumer.acquire_if_needed(ready):
                ready = False
                if i + 1 < n:
                    ready = consumer.try_acquire()


@td.kernel(grid=1)
def combined(a: td.Tensor, n: td.int32, flag: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for _ in range(n):
            ready = producer.try_acquire() and flag > 0
            load_one(a, producer.acquire_if_needed(ready))
    with td.role("take", warps=1):
        consumer = pipeline.consumer()
        for _ in range(n):
            ready = False
            while not ready:
                ready = consumer.try_acquire()
            consumer.acquire_if_needed(ready).release()


@td.kernel(grid=1)
def known_by_the_branch(a: td.Tensor, n: td.int32, flag: td.bool_):
    """Where the answer decided, anything may stand for it; behind a wait, too."""
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for _ in range(n):
            if producer.try_acquire():
                load_one(a, producer.acquire_if_needed(flag))
            else:
                pipeline.wait_empty_if_needed(False)
                load_one(a, producer.acquire_if_needed(flag))
    with td.role("take", warps=1):
        consumer = pipeline.consumer()
        for _ in range(n):
            while not consumer.try_acquire():
                pass
            consumer.acquire_if_needed(flag).release()


@td.kernel(grid=1)
def chosen(a: td.Tensor, n: td.int32, flag: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for _ in range(n):
            one = producer.try_acquire()
            two = producer.try_acquire()
            ready = one if flag > 0 else two
            load_one(a, producer.acquire_if_needed(ready or one))
    with td.role("take", warps=1):
        take_all(pipeline, n)


@td.kernel(grid=1)
def answer_about_the_slot_before(a: td.Tensor, n: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        producer = pipeline.producer()
        for _ in range(n):
            load_one(a, producer.acquire())
    with td.role("take", warps=1):
        consumer = pipeline.consumer()
        ready = consumer.try_acquire()
        for _ in range(n):
            consumer.acquire_if_needed(ready).release()


@td.kernel(grid=1)
def answer_of_the_other_side(a: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        ready = pipeline.try_acquire_consumer()
        load_one(a, pipeline.producer().acquire_if_needed(ready))
    with td.role("take", warps=1):
        take_all(pipeline, 1)


@td.kernel(grid=1)
def answer_of_the_other_ring(a: td.Tensor):
    first = square(a.dtype)
    second = square(a.dtype)
    with td.role("load", warps=1):
        ready = first.producer().try_acquire()
        load_one(a, second.producer().acquire_if_needed(ready))
        load_one(a, first.producer().acquire())
    with td.role("take", warps=1):
        take_all(first, 1)
        take_all(second, 1)


@td.kernel(grid=1)
def no_answer(a: td.Tensor, flag: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        load_one(a, pipeline.producer().acquire_if_needed(flag > 0))
    with td.role("take", warps=1):
        take_all(pipeline, 1)


@td.kernel(grid=1)
def answer_turned_round(a: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        ready = not pipeline.producer().try_acquire()
        load_one(a, pipeline.producer().acquire_if_needed(ready))
    with td.role("take", warps=1):
        take_all(pipeline, 1)


@td.kernel(grid=1)
def or_another_condition(a: td.Tensor, flag: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        ready = pipeline.producer().try_acquire() or flag > 0
        load_one(a, pipeline.producer().acquire_if_needed(ready))
    with td.role("take", warps=1):
        take_all(pipeline, 1)


@td.kernel(grid=1)
def stepped_between(n: td.int32):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("send", warps=1):
        for _ in range(n):
            with ring.produce():
                pass
    with td.role("take", warps=1):
        ready = ring.try_wait_full()
        ring.consumer_signal_and_step()
        ring.wait_full_if_needed(ready)
        ring.consumer_signal_and_step()


REFUSED: dict[str, tuple[td.Kernel, tuple[Any, ...]]] = {
    "answer_about_the_slot_before": (answer_about_the_slot_before, (BF, td.int32)),
    "answer_of_the_other_side": (answer_of_the_other_side, (BF,)),
    "answer_of_the_other_ring": (answer_of_the_other_ring, (BF,)),
    "no_answer": (no_answer, (BF, td.int32)),
    "answer_turned_round": (answer_turned_round, (BF,)),
    "or_another_condition": (or_another_condition, (BF, td.int32)),
    "stepped_between": (stepped_between, (td.int32,)),
}

ACCEPTED: dict[str, tuple[td.Kernel, tuple[Any, ...]]] = {
    "peeked": (peeked, (BF, 3)),
    "combined": (combined, (BF, 3, 3)),
    "known_by_the_branch": (known_by_the_branch, (BF, 3, True)),
    "chosen": (chosen, (BF, 3, 3)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: Golden) -> None:
    kernel, args = REFUSED[name]
    golden(message(lambda: check(kernel, *args), StageError))


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    kernel, args = ACCEPTED[name]
    run(kernel, *args)
