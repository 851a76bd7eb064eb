"""What payloads, rings, raw barriers, replicas and turns do: run on the emulator, and compiled.

Every kernel moves tiles of fresh numbers; results are poisoned first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td

T = 64  # rows and columns of a tile
TRIPS = [0, 1, 2, 3, 4, 7]


def tiles(count: int, dtype: Any = np.float32) -> Any:
    """Tiles above each other, at least one: small integers, exact in every dtype."""
    return np.random.default_rng().integers(-9, 10, (max(count, 1) * T, T)).astype(dtype)


def poisoned(like: Any) -> Any:
    return np.full_like(like, 99)


@td.payload
class KeysValues:
    k: td.TileArray
    v: td.TileArray

    def value(self, stage, j):
        return self.v[stage, j]


@td.kernel(grid=1)
def payload(k: td.Tensor, v: td.Tensor, k_out: td.Tensor, v_out: td.Tensor, n: td.int32):
    """Two tiles of v behind one of k; a probe carried by the loop; k of the tile at run time."""
    arrays = KeysValues(
        k=td.TileArray(k.dtype, (T, T), stages=3), v=td.TileArray(v.dtype, (T // 2, T), stages=6)
    )
    ring = td.InputTilePipeline(arrays, num_group_stages=3)
    with td.role("load", warps=1), ring.producer() as producer:
        ready = False
        for i in range(n):
            stage = producer.acquire_if_needed(ready)
            td.tma_load(k, (i * T, 0), stage.payload().k[stage], stage.barrier())
            for j in td.static_range(2):
                v_tile = stage.payload().value(stage, j)
                td.tma_load(v, (i * T + T // 2 * j, 0), v_tile, stage.barrier())
            stage.release()
            ready = producer.try_acquire()
    with td.role("use", warps=4), ring.consumer() as consumer:
        for i in range(n):
            with consumer.acquire() as stage:
                held = stage.payload()
                td.store(held.k[stage].load(), k_out, (i * T, 0))
                for j in range(2):
                    td.tma_store(held.value(stage, j), v_out, (i * T + j * (T // 2), 0))


@pytest.mark.parametrize("n", TRIPS)
def test_payload_of_the_users(n: int) -> None:
    k, v = tiles(n, ml_dtypes.bfloat16), tiles(n)
    k_out, v_out = poisoned(k), poisoned(v)
    payload(k, v, k_out, v_out, n)
    rows = n * T
    np.testing.assert_array_equal(k_out[:rows], k[:rows])
    np.testing.assert_array_equal(v_out[:rows], v[:rows])


@td.kernel(grid=1)
def between_roles(x: td.Tensor, y: td.Tensor, n: td.int32):
    """A bare ring around shared tiles: one compute role writes, another reads."""
    ring = td.ProducerConsumerPipeline(2)
    rows = td.shared((T, T), td.float32, number=2)
    with td.role("make", warps=4):
        for i in range(n):
            tile = td.load(x, (i * T, 0), (T, T))
            with ring.produce() as stage:
                rows[stage.index()].store(tile)
    with td.role("use", warps=4):
        for i in range(n):
            with ring.consume() as stage:
                td.store(rows[stage.index()].load(), y, (i * T, 0))


@td.kernel(grid=1)
def explicit(x: td.Tensor, y: td.Tensor, n: td.int32):
    """The consumer arrives by hand, by either of two ways."""
    ring = td.ProducerConsumerPipeline(2, consumer_count=1)
    rows = td.shared((T, T), td.float32, number=2)
    with td.role("load", warps=1):
        for i in range(n):
            with ring.produce() as stage:
                td.tma_load(x, (i * T, 0), rows[stage.index()], stage.barrier())
    with td.role("use", warps=4):
        for i in range(n):
            with ring.consume_explicit() as stage:
                tile = rows[stage.index()].load()
                if i % 2:
                    stage.mbar().arrive()
                else:
                    ring.empty_mbar(stage).arrive()
            td.store(tile, y, (i * T, 0))


@td.kernel(grid=1)
def raw_style(x: td.Tensor, y: td.Tensor, n: td.int32):
    """Probe, wait, arrive and step by hand."""
    ring = td.ProducerConsumerPipeline(2, producer_count=1, consumer_count=1)
    rows = td.shared((T, T), td.float32, number=2)
    with td.role("make", warps=4):
        for i in range(n):
            tile = td.load(x, (i * T, 0), (T, T))
            ring.wait_empty_if_needed(ring.try_wait_empty())
            rows[ring.producer_stage()].store(tile)
            ring.producer_signal_and_step()
    with td.role("use", warps=4):
        for i in range(n):
            ring.wait_full()
            slot = ring.consumer_stage()
            td.store(rows[slot].load(), y, (i * T, 0))
            ring.consumer_mbar(slot).arrive()
            ring.consumer_step()


@td.kernel(grid=1)
def raw_barriers(x: td.Tensor, y: td.Tensor, n: td.int32):
    """One shared tile, filled and emptied in turn; the parity is a lap counter."""
    full = td.mbarrier()
    empty = td.mbarrier(number=2)
    tile = td.shared((T, T), td.float32)
    with td.role("load", warps=1):
        for i in range(n):
            empty[1].wait(i + 1)
            full.arrive_and_expect_bytes(T * T * 4)
            td.tma_load(x, (i * T, 0), tile, full)
    with td.role("use", warps=4):
        for i in range(n):
            full.wait(i)
            td.store(tile.load(), y, (i * T, 0))
            empty[1].arrive()


@td.kernel(grid=1)
def both_styles(x: td.Tensor, y: td.Tensor, n: td.int32):
    """A single array; the pipeline asked directly; early arrivals."""
    ring = td.InputTilePipeline(td.TileArray(x.dtype, (T, T), 2), 2)
    with td.role("load", warps=1):
        for i in range(n):
            ring.wait_empty_if_needed(ring.try_acquire_producer())
            stage = ring.acquire_producer()
            stage.expect_bytes(T * T * 4)
            td.tma_load(x, (i * T, 0), stage.tile(), stage.barrier())
            stage.release()
        ring.drain_producer()
    with td.role("use", warps=4):
        for i in range(n):
            with ring.acquire_consumer() as stage:
                (tile,) = stage.tiles()
                td.store(tile.load(), y, (i * T, 0))


COPIES = [between_roles, explicit, raw_style, raw_barriers, both_styles]


@pytest.mark.parametrize("n", TRIPS)
@pytest.mark.parametrize("kernel", COPIES, ids=lambda kernel: kernel.name)
def test_copies(kernel: Callable[..., None], n: int) -> None:
    x = tiles(n)
    y = poisoned(x)
    kernel(x, y, n)
    np.testing.assert_array_equal(y[: n * T], x[: n * T])
    assert n or (y == 99).all()


@td.kernel(grid=1)
def turns(x: td.Tensor, y: td.Tensor, n: td.int32, k: td.int32, *, R: td.Constant[int]):
    """Sums of k tiles each, by R replicas that take the ring in turns."""
    ring = td.InputTilePipeline(td.TileArray(x.dtype, (T, T), 3), 3)
    with td.role("load", warps=1):
        for i in range(n * k):
            with ring.producer().acquire() as stage:
                td.tma_load(x, (i * T, 0), stage.tile(), stage.barrier())
    with td.role("add", warps=4, replicas=R) as me:
        for i in range(me.index, n, me.count):
            acc = td.zeros((T, T), td.float32)
            with me.turn():
                for _ in range(k):
                    with ring.consumer().acquire() as stage:
                        acc = acc + stage.tile().load()
            td.store(acc, y, (i * T, 0))


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 3, 4])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_turns(n: int, k: int, replicas: int) -> None:
    x = tiles(n * k)
    y = poisoned(tiles(n))
    turns(x, y, n, k, R=replicas)
    if n:
        wanted = x[: n * k * T].reshape(n, k, T, T).sum(axis=1).reshape(n * T, T)
        np.testing.assert_array_equal(y, wanted)


F32 = td.spec((4 * T, T), td.float32)
BF16 = td.spec((4 * T, T), td.bfloat16)


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        (payload, (BF16, F32, BF16, F32, td.int32)),
        *((kernel, (F32, F32, td.int32)) for kernel in COPIES),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_compiled(kernel: Any, args: tuple[Any, ...]) -> None:
    """Down to PTX, with every barrier that was made."""
    text = kernel.lower(*args).ptx
    assert text.count("mbarrier.init") >= 2
