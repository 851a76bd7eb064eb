"""Arrivals that the user makes, and stages handed to helpers: refused, and correct twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tests.errors.checks import BF, F32, check, run
from tests.errors.messages import message
from tests.golden import Golden
from tiledsl.errors import StageError

# --------------------------------------------------------------------- helpers that release


@td.function
def finish(stage):
    stage.release()


@td.function
def take_tile(stage, acc):
    tile = stage.tile()
    acc = td.mma(tile, tile.T, acc)
    stage.release()
    return acc


@td.function
def next_tile(consumer, acc):
    """Acquires, uses and hands the stage out: the caller releases it."""
    stage = consumer.acquire()
    tile = stage.tile()
    return stage, td.mma(tile, tile.T, acc)


@td.function
def square(dtype, stages=2):
    return td.InputTilePipeline(td.TileArray(dtype, (64, 64), stages=stages), stages)


@td.function
def fill(pipeline, a):
    with pipeline.producer().acquire() as stage:
        td.tma_load(a, (0, 0), stage.tile(), stage.barrier())


@td.kernel(grid=1)
def helper_releases(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        stage = pipeline.consumer().acquire()
        acc = take_tile(stage, td.zeros((64, 64), td.float32))
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def caller_releases_too(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        with pipeline.consumer().acquire() as stage:
            acc = take_tile(stage, td.zeros((64, 64), td.float32))
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def caller_uses_on(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        stage = pipeline.consumer().acquire()
        acc = take_tile(stage, td.zeros((64, 64), td.float32))
        tile = stage.tile()
        acc = td.mma(tile, tile.T, acc)
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def helper_within_helper(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        stage, acc = next_tile(pipeline.consumer(), td.zeros((64, 64), td.float32))
        finish(stage)
        finish(stage)
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def helper_returns_a_stage(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        stage, acc = next_tile(pipeline.consumer(), td.zeros((64, 64), td.float32))
        finish(stage)
        td.tma_store(acc, c, (0, 0))


@td.function
def either(consumer, flag):
    if flag > 0:
        return consumer.acquire()
    td.print("late")
    return consumer.acquire()


@td.function
def the_same(consumer, flag):
    stage = consumer.acquire()
    if flag > 0:
        td.print("early")
        return stage
    return stage


@td.kernel(grid=1)
def returned_from_two_places(a: td.Tensor, c: td.Tensor, flag: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        stage = either(pipeline.consumer(), flag)
        tile = stage.tile()
        acc = td.mma(tile, tile.T, td.zeros((64, 64), td.float32))
        stage.release()
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def returned_the_same(a: td.Tensor, c: td.Tensor, flag: td.int32):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        stage = the_same(pipeline.consumer(), flag)
        tile = stage.tile()
        acc = td.mma(tile, tile.T, td.zeros((64, 64), td.float32))
        stage.release()
        td.tma_store(acc, c, (0, 0))


# -------------------------------------------------------------------------------- arrivals


@td.kernel(grid=1)
def arrives_early(c: td.Tensor):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("send", warps=1):
        for _ in range(3):
            stage = ring.acquire_producer()
            stage.arrive()
            stage.release_without_signal()
    with td.role("take", warps=1):
        for _ in range(3):
            with ring.consume_explicit() as stage:
                stage.arrive()


@td.kernel(grid=1)
def never_arrives(c: td.Tensor):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("send", warps=1):
        stage = ring.acquire_producer()
        stage.release_without_signal()
    with td.role("take", warps=1):
        with ring.consume():
            pass


@td.kernel(grid=1)
def arrives_by_hand(c: td.Tensor, *, count: td.Constant[int | None] = None):
    ring = td.ProducerConsumerPipeline(2, consumer_count=count)
    with td.role("send", warps=1):
        with ring.produce():
            pass
    with td.role("take", warps=1):
        with ring.consume_explicit() as stage:
            stage.mbar().arrive()


@td.kernel(grid=1)
def arrives_and_signals(c: td.Tensor):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("send", warps=1):
        with ring.produce() as stage:
            stage.arrive()
    with td.role("take", warps=1):
        with ring.consume():
            pass


@td.kernel(grid=1)
def arrives_twice(c: td.Tensor):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("send", warps=1):
        stage = ring.acquire_producer()
        stage.arrive()
        stage.arrive()
        stage.release_without_signal()
    with td.role("take", warps=1):
        with ring.consume():
            pass


@td.kernel(grid=1)
def arrives_twice_as_counted(c: td.Tensor):
    ring = td.ProducerConsumerPipeline(2, producer_count=2)
    with td.role("send", warps=1):
        stage = ring.acquire_producer()
        stage.arrive()
        stage.arrive()
        stage.release_without_signal()
    with td.role("take", warps=1):
        with ring.consume():
            pass


@td.kernel(grid=1)
def arrives_on_one_path(c: td.Tensor, flag: td.int32):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("send", warps=1):
        with ring.produce():
            pass
    with td.role("take", warps=1):
        with ring.consume_explicit() as stage:
            if flag > 0:
                stage.arrive()


@td.kernel(grid=1)
def arrives_on_both_paths(c: td.Tensor, flag: td.int32):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("send", warps=1):
        with ring.produce():
            pass
    with td.role("take", warps=1):
        with ring.consume_explicit() as stage:
            if flag > 0:
                stage.arrive()
            else:
                td.print("no")
                stage.arrive()


@td.kernel(grid=1)
def arrives_in_a_loop(c: td.Tensor, n: td.int32):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("send", warps=1):
        with ring.produce():
            pass
    with td.role("take", warps=1):
        with ring.consume_explicit() as stage:
            for _ in range(n):
                stage.arrive()


@td.kernel(grid=1)
def reads_behind_the_arrival(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        stage = pipeline.acquire_consumer()
        stage.arrive()
        acc = td.mma(stage.tile(), stage.tile().T, td.zeros((64, 64), td.float32))
        stage.release_without_signal()
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def reads_before_the_arrival(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        fill(pipeline, a)
    with td.role("mma", warps=4):
        stage = pipeline.acquire_consumer()
        acc = td.mma(stage.tile(), stage.tile().T, td.zeros((64, 64), td.float32))
        stage.arrive()
        td.tma_store(acc, c, (0, 0))
        stage.release_without_signal()


@td.kernel(grid=1)
def writes_behind_the_arrival(c: td.Tensor):
    pipeline = square(c.dtype)
    with td.role("make", warps=4):
        with pipeline.producer().acquire() as stage:
            stage.arrive()
            stage.tile().store(td.zeros((64, 64), c.dtype))
            stage.release_without_signal()
    with td.role("take", warps=4):
        with pipeline.consumer().acquire() as stage:
            td.store(stage.tile().load(), c, (0, 0))


@td.kernel(grid=1)
def arrives_beside_the_bytes(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        stage = pipeline.acquire_producer()
        td.tma_load(a, (0, 0), stage.tile(), stage.barrier())
        stage.arrive()
        stage.release_without_signal()
    with td.role("mma", warps=4):
        acc = take_tile(pipeline.consumer().acquire(), td.zeros((64, 64), td.float32))
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def bytes_need_no_signal(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        stage = pipeline.acquire_producer()
        td.tma_load(a, (0, 0), stage.tile(), stage.barrier())
        stage.release_without_signal()
    with td.role("mma", warps=4):
        acc = take_tile(pipeline.consumer().acquire(), td.zeros((64, 64), td.float32))
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def steps_past_a_held_stage(c: td.Tensor):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("send", warps=1):
        with ring.produce():
            pass
    with td.role("take", warps=1):
        stage = ring.acquire_consumer()
        stage.arrive()
        ring.consumer_step()
        stage.release_without_signal()


@td.kernel(grid=1)
def drains_a_held_stage(c: td.Tensor):
    ring = td.ProducerConsumerPipeline(2)
    with td.role("send", warps=1):
        with ring.produce():
            ring.drain_producer()
    with td.role("take", warps=1):
        with ring.consume():
            pass


@td.kernel(grid=1)
def drains_what_loads_complete(a: td.Tensor, c: td.Tensor):
    pipeline = square(a.dtype)
    with td.role("load", warps=1):
        with pipeline.producer().acquire() as stage:
            td.tma_load(a, (0, 0), stage.tile(), stage.barrier())
            pipeline.drain_producer()
        pipeline.drain_producer()
    with td.role("mma", warps=4):
        acc = take_tile(pipeline.consumer().acquire(), td.zeros((64, 64), td.float32))
        td.tma_store(acc, c, (0, 0))


@td.kernel(grid=1)
def both_styles(c: td.Tensor):
    """Handles and the raw style move through the same slots."""
    ring = td.ProducerConsumerPipeline(2)
    with td.role("send", warps=1):
        for _ in range(4):
            with ring.produce():
                pass
    with td.role("take", warps=1):
        stage = ring.acquire_consumer()
        ring.wait_full()
        ring.consumer_signal_and_step()
        stage.release()
        ring.consumer_signal_and_step()
        with ring.consume():
            pass


REFUSED: dict[str, tuple[td.Kernel, tuple[Any, ...]]] = {
    "caller_releases_too": (caller_releases_too, (BF, F32)),
    "caller_uses_on": (caller_uses_on, (BF, F32)),
    "helper_within_helper": (helper_within_helper, (BF, F32)),
    "returned_from_two_places": (returned_from_two_places, (BF, F32, td.int32)),
    "never_arrives": (never_arrives, (F32,)),
    "arrives_by_hand": (arrives_by_hand, (F32,)),
    "arrives_and_signals": (arrives_and_signals, (F32,)),
    "arrives_twice": (arrives_twice, (F32,)),
    "arrives_on_one_path": (arrives_on_one_path, (F32, td.int32)),
    "arrives_in_a_loop": (arrives_in_a_loop, (F32, td.int32)),
    "arrives_beside_the_bytes": (arrives_beside_the_bytes, (BF, F32)),
    "reads_behind_the_arrival": (reads_behind_the_arrival, (BF, F32)),
    "writes_behind_the_arrival": (writes_behind_the_arrival, (F32,)),
    "drains_a_held_stage": (drains_a_held_stage, (F32,)),
    "steps_past_a_held_stage": (steps_past_a_held_stage, (F32,)),
}

ACCEPTED: dict[str, tuple[td.Kernel, tuple[Any, ...]]] = {
    "helper_releases": (helper_releases, (BF, F32)),
    "helper_returns_a_stage": (helper_returns_a_stage, (BF, F32)),
    "returned_the_same": (returned_the_same, (BF, F32, 3)),
    "arrives_early": (arrives_early, (F32,)),
    "arrives_twice_as_counted": (arrives_twice_as_counted, (F32,)),
    "arrives_on_both_paths": (arrives_on_both_paths, (F32, 3)),
    "reads_before_the_arrival": (reads_before_the_arrival, (BF, F32)),
    "bytes_need_no_signal": (bytes_need_no_signal, (BF, F32)),
    "drains_what_loads_complete": (drains_what_loads_complete, (BF, F32)),
    "both_styles": (both_styles, (F32,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: Golden) -> None:
    kernel, args = REFUSED[name]
    golden(message(lambda: check(kernel, *args), StageError))


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    kernel, args = ACCEPTED[name]
    run(kernel, *args)


def test_arrivals_by_hand_are_counted_as_stated() -> None:
    arrives_by_hand.launch(np.zeros((8, 8), np.float32), count=1)
