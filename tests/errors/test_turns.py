"""Turns of replicas: refused where they would wait for ever or read another's stage; twins."""

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
def fill_all(pipeline, a, n):
    producer = pipeline.producer()
    for _ in range(n):
        with producer.acquire() as stage:
            td.tma_load(a, (0, 0), stage.tile(), stage.barrier())


@td.kernel(grid=1)
def in_turns(a: td.Tensor, n: td.int32):
    """A turn in each iteration, and one ring beside that each replica reads in full."""
    pipeline = square(a.dtype)
    other = square(a.dtype)
    with td.role("load", warps=1):
        for _ in range(n):
            fill_all(pipeline, a, 2)
            fill_all(other, a, 1)
    with td.role("take", warps=1, replicas=2) as me:
        for _ in range(n):
            with me.turn():
                pipeline.consumer().acquire().release()
            with me.turn("second"):
                if me.index == 0:
                    td.print("first")
            other.consumer().acquire().release()


@td.kernel(grid=1)
def left_early(a: td.Tensor, n: td.int32):
    """Jumps out of a turn end it."""
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill_all(pipeline, a, 2 * n)
    with td.role("take", warps=1, replicas=2) as me:
        for i in range(100):
            with me.turn():
                if i == n:
                    break
                pipeline.consumer().acquire().release()


@td.kernel(grid=1)
def one_replica_reads_a_ring(a: td.Tensor, n: td.int32):
    """Outside of turns: what a replica does not read does not wait for it."""
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill_all(pipeline, a, n)
    with td.role("take", warps=1, replicas=2) as me:
        if me.index == 0:
            for _ in range(n):
                pipeline.consumer().acquire().release()


@td.kernel(grid=1)
def without_replicas(a: td.Tensor, n: td.int32):
    """A turn of a role without replicas does nothing: what it would forbid is allowed."""
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill_all(pipeline, a, 2 * n)
    with td.role("take", warps=1) as me:
        for _ in range(n):
            with me.turn():
                stage = pipeline.consumer().acquire()
            stage.release()
            pipeline.consumer().acquire().release()


@td.kernel(grid=1)
def held_beyond_the_turn(a: td.Tensor, n: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill_all(pipeline, a, 2 * n)
    with td.role("take", warps=1, replicas=2) as me:
        for _ in range(n):
            with me.turn():
                stage = pipeline.consumer().acquire()
            stage.release()


@td.kernel(grid=1)
def inside_and_outside(a: td.Tensor, n: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill_all(pipeline, a, 2 * n)
    with td.role("take", warps=1, replicas=2) as me:
        for _ in range(n):
            with me.turn():
                pipeline.consumer().acquire().release()
        pipeline.consumer().acquire().release()


@td.kernel(grid=1)
def in_two_turns(a: td.Tensor, n: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill_all(pipeline, a, 4 * n)
    with td.role("take", warps=1, replicas=2) as me:
        for _ in range(n):
            with me.turn("one"):
                pipeline.consumer().acquire().release()
            with me.turn("two"):
                pipeline.consumer().acquire().release()


@td.kernel(grid=1)
def taken_by_one(a: td.Tensor, n: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill_all(pipeline, a, n)
    with td.role("take", warps=1, replicas=2) as me:
        for _ in range(n):
            if me.index == 1:
                with me.turn():
                    pipeline.consumer().acquire().release()


@td.kernel(grid=1)
def answer_from_before_the_turn(a: td.Tensor, n: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill_all(pipeline, a, 2 * n)
    with td.role("take", warps=1, replicas=2) as me:
        consumer = pipeline.consumer()
        ready = False
        for _ in range(n):
            with me.turn():
                consumer.acquire_if_needed(ready).release()
                ready = consumer.try_acquire()


@td.kernel(grid=1)
def answer_within_the_turn(a: td.Tensor, n: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill_all(pipeline, a, 2 * n)
    with td.role("take", warps=1, replicas=2) as me:
        consumer = pipeline.consumer()
        for _ in range(n):
            with me.turn():
                ready = consumer.try_acquire()
                consumer.acquire_if_needed(ready).release()


REFUSED: dict[str, tuple[td.Kernel, tuple[Any, ...]]] = {
    "held_beyond_the_turn": (held_beyond_the_turn, (BF, td.int32)),
    "inside_and_outside": (inside_and_outside, (BF, td.int32)),
    "in_two_turns": (in_two_turns, (BF, td.int32)),
    "taken_by_one": (taken_by_one, (BF, td.int32)),
    "answer_from_before_the_turn": (answer_from_before_the_turn, (BF, td.int32)),
}

ACCEPTED: dict[str, tuple[td.Kernel, tuple[Any, ...]]] = {
    "in_turns": (in_turns, (BF, 3)),
    "left_early": (left_early, (BF, 3)),
    "one_replica_reads_a_ring": (one_replica_reads_a_ring, (BF, 3)),
    "without_replicas": (without_replicas, (BF, 3)),
    "answer_within_the_turn": (answer_within_the_turn, (BF, 3)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: Golden) -> None:
    kernel, args = REFUSED[name]
    golden(message(lambda: check(kernel, *args), StageError))


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    kernel, args = ACCEPTED[name]
    run(kernel, *args)
