"""M035-M050 of docs/pipeline-family.md: stages and their tiles, on both sides. One test per ID."""

from __future__ import annotations

import numpy as np
import pytest

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
from tests.family.kernels_input import asks_around_its_arrival
from tests.filecheck import filecheck
from tests.kernels.family.registry import Run

# ------------------------------------------------------------------ the producer's stage


@td.function
def fill_flat(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    for k in range(steps):
        stage = producer.acquire_stage()
        load(a, b, m, n, k, stage)
        stage.release()


@td.function
def fill_forgotten(pipeline, a, b, m, n, steps):
    producer = pipeline.producer()
    for k in range(steps):
        stage = producer.acquire_stage()
        load(a, b, m, n, k, stage)


def test_M035_producer_stage_is_linear(run: Run) -> None:
    """A handle that is acquired by hand is released by hand, once on every path."""
    check_product(run, fill=fill_flat)
    refused(lambda: compiled(fill=fill_forgotten), "release")


@td.function
def fill_payload(pipeline, a, b, m, n, steps):
    for k in range(steps):
        with pipeline.acquire_producer() as stage:
            tiles = stage.payload()
            td.tma_load(a, (m * BM, k * BK), tiles.get_a_tile(stage), stage.barrier())
            td.tma_load(b, (n * BN, k * BK), tiles.get_b_tile(stage), stage.barrier())


def test_M036_payload_of_the_producer_stage(run: Run) -> None:
    """It is of the class that the pipeline was made of, with its methods."""
    check_product(run, fill=fill_payload)
    filecheck(role_text(compiled(fill=fill_payload), "load"),
              "CHECK: payload.tile %pipeline.a\nCHECK: payload.tile %pipeline.b")  # fmt: skip


@td.function
def fill_by_number(pipeline, a, b, m, n, steps):
    for k in range(steps):
        with pipeline.acquire_producer() as stage:
            at = stage.stage()
            a_tile, b_tile = stage.payload().get_tile(at)
            td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
            td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())


def test_M037_number_of_the_producer_stage(run: Run) -> None:
    check_product(run, fill=fill_by_number)
    filecheck(role_text(compiled(fill=fill_by_number), "load"),
              "CHECK: [[SLOT:%[a-z_0-9.]+]] = local.get %pipeline.producer.slot\n"
              "CHECK: payload.tile %pipeline.a[[[SLOT]]]")  # fmt: skip


@td.function
def fill_expecting(pipeline, a, b, m, n, steps):
    for k in range(steps):
        with pipeline.acquire_producer() as stage:
            stage.expect_bytes(2 * BM * BK * 2)
            load(a, b, m, n, k, stage)


@td.function
def fill_expecting_half(pipeline, a, b, m, n, steps):
    for k in range(steps):
        with pipeline.acquire_producer() as stage:
            stage.expect_bytes(BM * BK * 2)
            load(a, b, m, n, k, stage)


def test_M038_expect_bytes_is_derived(run: Run) -> None:
    """The bytes of all loads of a stage; a number that is given must be the same."""
    check_product(run, fill=fill_expecting)
    filecheck(compiled(stages=2).ptx, "CHECK: mbarrier.arrive.expect_tx{{.*}}, 16384;")
    refused(lambda: compiled(fill=fill_expecting_half), "8192", "16384")


@td.function
def fill_elsewhere(pipeline, a, b, m, n, steps):
    first = pipeline.producer()
    for k in range(steps):
        with first.acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage())
            td.tma_load(a, (m * BM, k * BK), a_tile, pipeline.empty_mbar(stage))
            td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())


def test_M039_barrier_of_the_producer_stage(run: Run) -> None:
    """barrier() is the full barrier: what loads signal. Another barrier is refused."""
    check_product(run, stages=(2,))
    filecheck(role_text(compiled(), "load"),
              "CHECK: ring.full %pipeline\nCHECK: tma.load\nCHECK: ring.full %pipeline\n"
              "CHECK: tma.load")  # fmt: skip
    refused(lambda: compiled(fill=fill_elsewhere), "barrier")


@td.function
def fill_twice(pipeline, a, b, m, n, steps):
    for k in range(steps):
        stage = pipeline.acquire_producer()
        load(a, b, m, n, k, stage)
        stage.release()
        if k > 2:
            stage.release()


def test_M040_release_of_the_producer_stage(run: Run) -> None:
    """It steps on: the loads themselves complete the full barrier, so that nobody arrives."""
    check_product(run, stages=(1, 2), fill=fill_flat)
    text = role_text(compiled(fill=fill_flat), "load")
    assert text.count("mbarrier.arrive_expect_tx") == 1 and "mbarrier.arrive " not in text
    refused(lambda: compiled(fill=fill_twice), "release")


@td.function
def fill_scoped(pipeline, a, b, m, n, steps):
    for k in range(steps):
        with pipeline.producer().acquire() as tiles:
            load(a, b, m, n, k, tiles)


def test_M041_producer_tiles_are_the_same_handle(run: Run) -> None:
    """What `with` gives and what acquire_stage gives can both go into a helper."""
    check_product(run, fill=fill_scoped)
    scoped, flat = compiled(fill=fill_scoped), compiled(fill=fill_flat)
    assert role_text(scoped, "load").count("\n") == role_text(flat, "load").count("\n")


@td.function
def fill_all_methods(pipeline, a, b, m, n, steps):
    for k in range(steps):
        with pipeline.producer().acquire() as tiles:
            a_tile, b_tile = tiles.payload().get_tile(tiles.stage())
            tiles.expect_bytes(a_tile.nbytes + b_tile.nbytes)
            td.tma_load(a, (m * BM, k * BK), a_tile, tiles.barrier())
            td.tma_load(b, (n * BN, k * BK), b_tile, tiles.mbar())


def test_M042_methods_of_producer_tiles(run: Run) -> None:
    check_product(run, fill=fill_all_methods)


@td.function
def fill_after_the_end(pipeline, a, b, m, n, steps):
    for k in range(steps):
        with pipeline.producer().acquire() as tiles:
            load(a, b, m, n, k, tiles)
        td.tma_load(a, (m * BM, k * BK), tiles.payload().get_a_tile(0), tiles.barrier())


def test_M043_the_end_of_with_releases(run: Run) -> None:
    """Behind it the stage is gone; releasing it inside, too, is refused."""
    check_product(run, fill=fill_scoped)
    refused(lambda: compiled(fill=fill_after_the_end), "released")


# ------------------------------------------------------------------ the consumer's stage


@td.function
def use_flat(pipeline, acc, steps):
    consumer = pipeline.consumer()
    for _ in range(steps):
        stage = consumer.acquire_stage()
        acc = multiply(stage, acc)
        stage.release()
    return acc


@td.function
def use_after_release(pipeline, acc, steps):
    for _ in range(steps):
        stage = pipeline.acquire_consumer()
        stage.release()
        acc = multiply(stage, acc)
    return acc


def test_M044_consumer_stage_is_linear(run: Run) -> None:
    check_product(run, use=use_flat)
    refused(lambda: compiled(use=use_after_release), "released")


@td.function
def use_payload(pipeline, acc, steps):
    for _ in range(steps):
        with pipeline.acquire_consumer() as stage:
            tiles, at = stage.payload(), stage.stage()
            acc = td.mma(tiles.get_a_tile(at), tiles.get_b_tile(at).T, acc)
    return acc


def test_M045_payload_and_number_of_the_consumer_stage(run: Run) -> None:
    check_product(run, use=use_payload)
    filecheck(role_text(compiled(use=use_payload), "mma"),
              "CHECK: [[SLOT:%[a-z_0-9.]+]] = local.get %pipeline.consumer.slot\n"
              "CHECK: payload.tile %pipeline.a[[[SLOT]]]\n"
              "CHECK: payload.tile %pipeline.b[[[SLOT]]]")  # fmt: skip


@td.kernel(grid=1)
def arrives_itself(x: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int]):
    """The consumer arrives itself, before it stores what it has in registers."""
    tiles = td.TileArray(x.dtype, (64, 64), stages=stages)
    pipeline = td.InputTilePipeline(tiles, num_group_stages=stages)
    with td.role("load", warps=1):
        for i in range(n):
            with pipeline.acquire_producer() as stage:
                td.tma_load(x, (i * 64, 0), stage.tile(), stage.barrier())
    with td.role("use", warps=4):
        for i in range(n):
            stage = pipeline.acquire_consumer()
            value = stage.tile().load()
            stage.arrive()
            td.store(value, y, (i * 64, 0))
            stage.release_without_signal()


def _copies(run: Run, kernel: td.Kernel, stages: int) -> None:
    for n in run.trips(stages):
        x = run.normal((max(n, 1) * 64, 64), "float32")
        y = run.output((max(n, 1) * 64, 64))
        kernel(run.place.put(x), y, n, stages=stages)
        expected = np.full_like(x, np.nan)
        expected[: n * 64] = x[: n * 64]
        wrong = run.same(y, expected, f"{n} of {stages}")
        assert not wrong, wrong


def test_M046_mbar_of_the_consumer_stage(run: Run) -> None:
    """The empty barrier. The stage arrives on it, once, by arrive(): it counts what is known."""
    x = run.place.put(run.normal((8, 64), "float32"))
    for stages in (1, 3):
        _copies(run, arrives_itself, stages)
        for n in run.trips(stages):
            done = run.place.put(np.full((max(n, 1), 2), -1, np.int32))
            asks_around_its_arrival(done, x, n, stages=stages)
            expected = np.full((max(n, 1), 2), -1, np.int32)
            expected[:n] = (0, 1)
            wrong = run.same(done, expected, f"{n} of {stages}")
            assert not wrong, wrong
    text = role_text(arrives_itself.variants[-1], "use")
    filecheck(text, "CHECK: ring.empty\nCHECK: mbarrier.arrive\nCHECK: continue")
    assert text.count("mbarrier.arrive") == 1
    refused(lambda: compiled(use=use_arriving_by_hand), "arrives by hand", "let release() arrive")


@td.function
def use_arriving_by_hand(pipeline, acc, steps):
    for _ in range(steps):
        with pipeline.acquire_consumer() as stage:
            acc = multiply(stage, acc)
            stage.mbar().arrive()
    return acc


def test_M047_release_arrives(run: Run) -> None:
    """Behind the last wgmma that reads the stage: put off by one step, flushed at the end."""
    check_product(run, use=use_flat)
    filecheck(
        role_text(compiled(use=use_flat), "mma"),
        """
        CHECK: wgmma.mma
        CHECK: wgmma.wait 1
        CHECK: mbarrier.arrive {{.*}} if %pending
        CHECK: continue
        CHECK: wgmma.wait 0
        CHECK: mbarrier.arrive {{.*}} if %pending
        """,
    )
    filecheck(compiled(use=use_flat).ptx, "CHECK: mbarrier.arrive.{{.*}}b64 _,")


@td.function
def use_in_helper(stage, acc):
    """Takes the stage over."""
    acc = multiply(stage, acc)
    stage.release()
    return acc


@td.function
def use_moved(pipeline, acc, steps):
    for _ in range(steps):
        acc = use_in_helper(pipeline.consumer().acquire(), acc)
    return acc


@td.function
def use_moved_twice(pipeline, acc, steps):
    for _ in range(steps):
        stage = pipeline.consumer().acquire()
        acc = use_in_helper(stage, acc)
        acc = use_in_helper(stage, acc)
    return acc


def test_M048_consumer_tiles_are_the_same_handle(run: Run) -> None:
    """A handle may be moved into a helper, once."""
    check_product(run, use=use_moved)
    refused(lambda: compiled(use=use_moved_twice), "released")


@td.kernel(grid=1)
def reads(x: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int]):
    """y = x; all methods of the handle that `with` gives."""
    tiles = td.TileArray(x.dtype, (64, 64), stages=stages)
    pipeline = td.InputTilePipeline(tiles, num_group_stages=stages)
    with td.role("load", warps=1):
        for i in range(n):
            with pipeline.acquire_producer() as stage:
                td.tma_load(x, (i * 64, 0), stage.tile(), stage.barrier())
    with td.role("use", warps=4):
        for i in range(n):
            with pipeline.consumer().acquire() as tiles:
                td.store(tiles.payload()[tiles.stage()].load(), y, (i * 64, 0))
                tiles.mbar().try_wait(0)


def test_M049_methods_of_consumer_tiles(run: Run) -> None:
    for stages in (1, 2):
        _copies(run, reads, stages)
    filecheck(
        role_text(reads.variants[-1], "use"),
        """
        CHECK: mbarrier.wait %full
        CHECK: ring.empty
        CHECK: mbarrier.try_wait
        CHECK: mbarrier.arrive
        """,
    )


@td.function
def use_scoped(pipeline, acc, steps):
    for _ in range(steps):
        with pipeline.consumer().acquire() as tiles:
            acc = multiply(tiles, acc)
    return acc


@td.function
def use_released_inside(pipeline, acc, steps):
    for _ in range(steps):
        with pipeline.consumer().acquire() as tiles:
            acc = multiply(tiles, acc)
            tiles.release()
    return acc


def test_M050_the_end_of_with_arrives(run: Run) -> None:
    """The same arrivals as with release by hand, and not twice."""
    check_product(run, use=use_scoped)
    scoped, flat = (role_text(compiled(use=use), "mma") for use in (use_scoped, use_flat))
    assert scoped.count("mbarrier.arrive") == flat.count("mbarrier.arrive") > 0
    refused(lambda: compiled(use=use_released_inside), "release")


@pytest.mark.parametrize("use", [use_flat, use_scoped, use_moved])
def test_no_way_to_release_costs_more(use: object) -> None:
    assert compiled(use=use).resources.spill_store_bytes == 0
