"""The tile IR of pipelines, payloads, barriers and roles: what is made, and where stages go."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import tiledsl as td
from tests.golden import Golden
from tests.language.traced import trace
from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.layouts import tile_swizzle
from tiledsl.codegen.ir.ops import control, memory, tile
from tiledsl.codegen.ir.types import SharedTile
from tiledsl.frontend.build import TensorSpec

BF16 = TensorSpec(td.bfloat16, 2)


def ops_of(kernel: Kernel, *kinds: type[Op]) -> list[Any]:
    return [op for op in kernel.body.walk() if isinstance(op, kinds)]


def origin(value: Value) -> Any:
    return value.owner


# -------------------------------------------------------------------------------- payloads


@td.payload
class KeysValues:
    k: td.TileArray
    v: td.TileArray
    scale: float = 0.5

    def pair(self, stage, j=0):
        return self.k[stage], self.v[stage, j]

    @property
    def columns(self):
        return self.k.shape[1]


def test_payload_of_the_users(golden: Golden) -> None:
    """Arrays of different shapes and stages; a method, a property and a constant of its class."""

    def kernel(k, v, out, n):
        payload = KeysValues(
            k=td.TileArray(k.dtype, (64, 128), stages=3),
            v=td.TileArray(v.dtype, (32, 128), stages=6),
        )
        kv = td.InputTilePipeline(payload, num_group_stages=3)
        with td.role("load", warps=1), kv.producer() as producer:
            for i in range(n):
                with producer.acquire() as stage:
                    k_tile, v_tile = stage.payload().pair(stage)
                    td.tma_load(k, (i * 64, 0), k_tile, stage.barrier())
                    td.tma_load(v, (i * 64, 0), v_tile, stage.barrier())
                    last = stage.payload().v[stage.stage(), 1]
                    td.tma_load(v, (i * 64 + 32, 0), last, stage.barrier())
        with td.role("use", warps=4), kv.consumer() as consumer:
            for i in range(n):
                with consumer.acquire() as stage:
                    held = stage.payload()
                    k_tile, v_tile = stage.tiles()
                    td.tma_store(k_tile, out, (i * 64, held.columns))
                    td.tma_store(held.pair(stage, i % 2)[1], out, (int(4 * held.scale), 0))

    golden(str(trace(kernel, k=BF16, v=BF16, out=BF16, n=td.int32)))


def test_arrays_and_their_attributes() -> None:
    stages, group = random.randint(1, 4), random.randint(1, 3)
    rows, columns = 8 * random.randint(1, 9), 16 * random.randint(1, 9)

    def kernel(x):
        array = td.TileArray(x.dtype, (rows, columns), stages * group)
        assert (array.dtype, array.shape, array.stages) == (
            x.dtype,
            (rows, columns),
            stages * group,
        )
        swizzle = array.swizzle
        pipeline = td.InputTilePipeline(array, stages)
        assert (pipeline.num_group_stages, pipeline.k_group_size) == (stages, group)
        with td.role("load", warps=1), pipeline.producer().acquire() as stage:
            held = stage.payload()
            assert (held.dtype, held.shape, held.stages) == (x.dtype, (rows, columns), array.stages)
            assert held.swizzle == swizzle
            for k in td.static_range(group):
                td.tma_load(x, (0, 0), held[stage, k], stage.barrier())
                td.tma_load(x, (0, 0), stage.tile(k), stage.barrier())

    made = trace(kernel, x=BF16)
    (create,) = ops_of(made, tile.PipelineCreate)
    (array,) = create.ring.arrays
    assert (create.ring.stages, create.ring.k_group, array.tiles) == (stages, group, group)
    assert array.swizzle == tile_swizzle((rows, columns), 2)
    loads = ops_of(made, tile.TmaLoad)
    assert len(loads) == 2 * group
    for one, other in zip(loads[::2], loads[1::2], strict=True):
        assert origin(one.tile).array == origin(other.tile).array == 0


@pytest.mark.parametrize("swizzle", [128, 64, 32, 0, None])
def test_swizzle_of_an_array(swizzle: int | None) -> None:
    def kernel(x):
        array = td.TileArray(x.dtype, (16, 64), 2, swizzle=swizzle)
        td.InputTilePipeline(array, 2)
        td.shared((16, 64), x.dtype, swizzle=swizzle)

    made = trace(kernel, x=BF16)
    (create,), (shared,) = ops_of(made, tile.PipelineCreate), ops_of(made, memory.SharedCreate)
    wanted = 128 if swizzle is None else swizzle
    assert (create.ring.arrays[0].swizzle, shared.array.swizzle) == (wanted, wanted)


def test_blockwise_payload() -> None:
    def kernel(a, b, scales):
        payload = td.BlockwiseFP8TilePayload(
            a.dtype, b.dtype, (128, 128), (64, 128), (128,), num_pipeline_stages=4
        )
        assert payload.num_pipeline_stages == 4
        pipeline = td.InputTilePipeline(payload, num_group_stages=2, k_group_size=2)
        with td.role("load", warps=1), pipeline.producer().acquire() as stage:
            held = stage.payload()
            for k in td.static_range(2):
                tiles = held.get_tile(stage.stage(), k)
                assert len(tiles) == 3
                td.tma_load(a, (0, 0), tiles[0], stage.barrier())
                td.tma_load(b, (0, 0), held.get_b_tile(stage, k), stage.barrier())
                td.tma_load(scales, (0, 0), held.get_a_scales_tile(stage, k), stage.barrier())

    f8 = TensorSpec(td.float8_e4m3fn, 2)
    made = trace(kernel, a=f8, b=f8, scales=TensorSpec(td.float32, 2))
    types = [load.tile.type for load in ops_of(made, tile.TmaLoad)]
    assert types[:3] == types[3:] == [
        SharedTile((128, 128), td.float8_e4m3fn, 128),
        SharedTile((64, 128), td.float8_e4m3fn, 128),
        SharedTile((128,), td.float32, 0),
    ]  # fmt: skip


def test_shared_memory_of_a_pipeline() -> None:
    """Barriers and tiles, as the ring's type counts them: each tile starts at 128 bytes."""

    def kernel(x):
        pipeline = td.InputTilePipeline(td.TileArray(x.dtype, (3, 8), 6), 3)
        assert pipeline.smem_bytes() == 3 * 16 + 6 * 128
        assert td.ProducerConsumerPipeline(5).smem_bytes() == 5 * 16

    trace(kernel, x=BF16)


# ----------------------------------------------------------------------------- both sides


def test_views_and_the_pipeline_itself(golden: Golden) -> None:
    """What may be asked of either side, through a view and without."""

    def kernel(x, out, n):
        ring = td.InputTilePipeline(td.TileArray(x.dtype, (64, 64), 4), 4)
        with td.role("load", warps=1), ring.producer() as producer:
            ready = producer.try_acquire()
            for i in range(n):
                stage = producer.acquire_if_needed(ready)
                td.tma_load(x, (i, 0), stage.tile(), stage.barrier())
                stage.release()
                ready = ring.try_acquire_producer()
            ring.wait_empty_if_needed(ready)
            with ring.acquire_producer() as stage:
                stage.expect_bytes(64 * 64 * 2)
                td.tma_load(x, (0, 0), stage.tile(), ring.producer_mbar(stage))
            ring.drain_producer()
        with td.role("use", warps=4), ring.consumer() as consumer:
            ready = False
            for i in range(n):
                stage = consumer.acquire_if_needed(ready)
                td.tma_store(stage.tile(), out, (i, 0))
                stage.arrive()
                stage.release_without_signal()
                ready = ring.try_acquire_consumer()
            ring.wait_full_if_needed(ready)
            stage = consumer.acquire_stage()
            ring.consumer_mbar(stage).arrive()
            ring.full_mbar(ring.consumer_stage()).wait(1)
            ring.empty_mbar(0).try_wait(n)
            stage.release_without_signal()

    golden(str(trace(kernel, x=BF16, out=BF16, n=td.int32)))


def test_bare_ring(golden: Golden) -> None:
    def kernel(x, n):
        ring = td.ProducerConsumerPipeline(3, producer_count=2)
        assert ring.num_stages == 3
        rows = td.shared((64, 64), x.dtype, number=3)
        with td.role("make", warps=1):
            for i in range(n):
                with ring.produce() as stage:
                    td.tma_load(x, (i, 0), rows[stage.index()], stage.mbar())
            ring.wait_empty()
            if ring.try_wait_empty():
                ring.producer_mbar(ring.producer_stage()).arrive()
            ring.producer_step()
            ring.producer_signal_and_step()
            with ring.producer() as producer, producer.acquire():
                pass
            ring.drain_producer()
        with td.role("use", warps=1):
            for i in range(n):
                with ring.consume():
                    if i == 5:
                        continue
                with ring.consume_explicit() as stage:
                    if i == 7:
                        break
                    stage.arrive()
            ring.wait_full_if_needed(ring.try_wait_full())
            ring.consumer_signal_and_step()
            ring.wait_full()
            ring.consumer_step()
            stage = ring.acquire_consumer()
            stage.release()

    golden(str(trace(kernel, x=BF16, n=td.int32)))


# ------------------------------------------------------------------- stages on their way


@dataclass
class Held:
    stage: object
    number: int

    def store(self, out):
        td.tma_store(self.stage.tile(), out, (self.number, 0))
        self.stage.release()


class Pair(NamedTuple):
    one: object
    other: object


@td.function
def taken(view):
    return view.acquire()


@td.function
def handed_on(stage, out):
    with stage as inside:
        td.tma_store(inside.tile(), out, (0, 0))


def test_stages_through_functions_and_containers() -> None:
    """Returned, passed, kept in a tuple, list, dict, dataclass and named tuple: one acquire each,
    and one release of that very stage."""

    def kernel(out):
        ring = td.InputTilePipeline(td.TileArray(out.dtype, (64, 64), 8), 8)
        with td.role("use", warps=1), ring.consumer() as consumer:
            handed_on(taken(consumer), out)
            pair = (taken(consumer), consumer.acquire())
            for stage in pair:
                handed_on(stage, out)
            listed = [consumer.acquire() for _ in range(2)]
            named = {"x": consumer.acquire()}
            Held(consumer.acquire(), 3).store(out)
            both = Pair(listed.pop(0), named["x"])
            for stage in (both.other, both.one, *listed):
                stage.release()

    made = trace(kernel, out=BF16)
    acquired = [op.result for op in ops_of(made, tile.AcquireConsumer)]
    released = [op.stage for op in ops_of(made, tile.Release)]
    assert len(acquired) == 7
    assert sorted(map(acquired.index, released)) == list(range(7))


def test_a_stage_carried_by_a_loop() -> None:
    """The stage of the iteration before is released in this one."""

    def kernel(x, n):
        ring = td.InputTilePipeline(td.TileArray(x.dtype, (64, 64), 4), 4)
        with td.role("use", warps=1), ring.consumer() as consumer:
            held = Held(consumer.acquire(), 0)
            for i in range(n):
                following = consumer.acquire()
                held.stage.release()
                held = Held(following, i)
            held.stage.release()

    made = trace(kernel, x=BF16, n=td.int32)
    (loop,) = ops_of(made, control.For)
    inside, behind = ops_of(made, tile.Release)
    assert inside.stage in loop.body.args and behind.stage in loop.results


def test_a_stage_chosen_by_a_branch() -> None:
    def kernel(x, n):
        ring = td.InputTilePipeline(td.TileArray(x.dtype, (64, 64), 4), 4)
        with td.role("use", warps=1), ring.consumer() as consumer:
            if n > 3:
                stage = consumer.acquire()
            else:
                stage = consumer.acquire_if_needed(consumer.try_acquire())
            tile_of = stage.payload()
            td.tma_store(tile_of[stage], x, (0, 0))
            stage.release()

    made = trace(kernel, x=BF16, n=td.int32)
    (release,) = ops_of(made, tile.Release)
    assert isinstance(origin(release.stage), control.If)
