"""M021-M034 of docs/pipeline-family.md: the input pipeline itself. One test per ID."""

from __future__ import annotations

import numpy as np

import tiledsl as td
from tests.family.kernels import (
    BK,
    BM,
    BN,
    check_product,
    compiled,
    load,
    multiply,
    product_by,
    refused,
    role_text,
    use_plain,
)  # fmt: skip
from tests.family.kernels_input import phases
from tests.filecheck import filecheck
from tests.kernels.family.registry import Run


def test_M021_stages_and_groups_are_parameters(run: Run) -> None:
    """Any number of stages from one on; tiles a stage in tests/family/test_tile_payloads.py."""
    check_product(run, stages=(1, 2, 5))
    filecheck(compiled(stages=5).protocol_ir, "CHECK: pipeline.create ring<5 stages x 1,")


@td.kernel(grid=1)
def counted(x: td.Tensor, y: td.Tensor, n: td.int32, *, consumers: td.Constant[int]):
    """y[i] = x summed over the roles that read every stage: ``consumers`` of 4 or 8 warps."""
    tiles = td.TileArray(x.dtype, (128, 64), stages=2)
    pipeline = td.InputTilePipeline(tiles, num_group_stages=2)
    with td.role("load", warps=1):
        for i in range(n):
            with pipeline.acquire_producer() as stage:
                td.tma_load(x, (i * 128, 0), stage.tile(), stage.barrier())
    with td.role("first", warps=8):
        for i in range(n):
            with pipeline.acquire_consumer() as stage:
                td.store(stage.tile().load(), y, (i * 128, 0))
    if consumers > 1:
        with td.role("second", warps=4):
            for i in range(n):
                with pipeline.acquire_consumer() as stage:
                    td.store(stage.tile().load(), y, (i * 128, 64))


def test_M022_barriers_are_made_and_counted(run: Run) -> None:
    """Every part of every consumer arrives; the producer once, with the bytes."""
    for consumers, arrivals in ((1, 2), (2, 3)):
        for n in run.trips(2):
            x = run.normal((max(n, 1) * 128, 64), "float32")
            y = run.output((max(n, 1) * 128, 128))
            counted(run.place.put(x), y, n, consumers=consumers)
            expected = np.full((max(n, 1) * 128, 128), np.nan, np.float32)
            for k in range(consumers):
                expected[: n * 128, 64 * k : 64 * k + 64] = x[: n * 128]
            wrong = run.same(y, expected, f"{n} stages, {consumers} consumers")
            assert not wrong, wrong
        variant = counted.variants[-1]
        filecheck(
            variant.protocol_ir,
            f"""
            CHECK: barrier tiles.empty: {arrivals} arrival(s) a phase
            CHECK: barrier tiles.full: 1 arrival(s) a phase
            """.replace("tiles.", "pipeline."),
        )
        filecheck(variant.ptx, f"CHECK: mbarrier.init.shared::cta.b64 [{{{{.*}}}}], {arrivals};")
    spec = td.spec((8, 64), td.float32)
    refused(lambda: initialises_barriers.compile(spec), "init_barriers", "write nothing")
    refused(lambda: counts_arrivals.compile(spec), "consumer_count")


@td.kernel
def initialises_barriers(x: td.Tensor):
    td.InputTilePipeline(td.TileArray(x.dtype, (8, 64), 2), 2).init_barriers(1, 1)


@td.kernel
def counts_arrivals(x: td.Tensor):
    td.InputTilePipeline(td.TileArray(x.dtype, (8, 64), 2), 2, consumer_count=1)


@td.kernel(grid=1)
def from_parts(x: td.Tensor, y: td.Tensor, *, stages: td.Constant[int], held: td.Constant[int]):
    """The payload is made first; the pipeline takes it. ``held`` stages of the payload."""
    payload = td.StandardTilePayload(x.dtype, x.dtype, (BM, BK), (BN, BK), num_pipeline_stages=held)
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    with td.role("load", warps=1), pipeline.producer() as producer:
        with producer.acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage())
            td.tma_load(x, (0, 0), a_tile, stage.barrier())
            td.tma_load(x, (0, 0), b_tile, stage.barrier())
    with td.role("use", warps=4), pipeline.consumer() as consumer:
        with consumer.acquire() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage())
            td.store(a_tile.load() + b_tile.load(), y, (0, 0))


def test_M023_made_of_a_payload(run: Run) -> None:
    """Barriers come with the pipeline; the payload's stages must be the pipeline's."""
    x, y = run.normal((BM, BK), "float32"), run.output((BM, BK))
    from_parts(run.place.put(x), y, stages=2, held=2)
    wrong = run.same(y, x + x, "the sum of both tiles")
    assert not wrong, wrong
    x_spec = td.spec((BM, BK), td.float32)
    refused(lambda: from_parts.compile(x_spec, x_spec, stages=2, held=3), "3", "2")


POLLS = """
    CHECK: loop
    CHECK: [[BARRIER:%full[.0-9]*]] = ring.full %pipeline
    CHECK: mbarrier.try_wait [[BARRIER]], parity %
    CHECK: mbarrier.wait %full
"""


@td.function
def fill_probed(pipeline, a, b, m, n, steps):
    for k in range(steps):
        while not pipeline.try_acquire_producer():
            pass
        with pipeline.acquire_producer() as stage:
            load(a, b, m, n, k, stage)


def test_M026_try_acquire_producer(run: Run) -> None:
    """Polls the empty barrier; takes nothing, so that the acquire that follows does not hang."""
    check_product(run, fill=fill_probed)
    text = role_text(compiled(fill=fill_probed), "load")
    filecheck(text, POLLS.replace("full", "empty"))


@td.function
def use_probed(pipeline, acc, steps):
    for _ in range(steps):
        while not pipeline.try_acquire_consumer():
            pass
        with pipeline.acquire_consumer() as stage:
            acc = multiply(stage, acc)
    return acc


def test_M027_try_acquire_consumer(run: Run) -> None:
    """Polls the full barrier; the acquire that follows takes the slot that was asked about."""
    check_product(run, use=use_probed)
    filecheck(role_text(compiled(use=use_probed), "mma"), POLLS)


@td.function
def use_if_needed(pipeline, acc, steps):
    for _ in range(steps):
        pipeline.wait_full_if_needed(pipeline.try_acquire_consumer())
        with pipeline.acquire_consumer() as stage:
            acc = multiply(stage, acc)
    return acc


@td.function
def use_producer_name(pipeline, acc, steps):
    for _ in range(steps):
        pipeline.wait_producer_if_needed(False)
        with pipeline.acquire_consumer() as stage:
            acc = multiply(stage, acc)
    return acc


def test_M028_wait_full_if_needed(run: Run) -> None:
    """The model's wait_producer_if_needed: named by the barrier; its own name gets a hint."""
    check_product(run, use=use_if_needed)
    filecheck(role_text(compiled(use=use_if_needed), "mma"), "CHECK: mbarrier.wait {{.*}} unless")
    refused(lambda: compiled(use=use_producer_name), "write wait_full_if_needed(ready)")


@td.function
def fill_consumer_name(pipeline, a, b, m, n, steps):
    for k in range(steps):
        pipeline.wait_consumer_if_needed(False)
        with pipeline.acquire_producer() as stage:
            load(a, b, m, n, k, stage)


@td.function
def fill_if_needed(pipeline, a, b, m, n, steps):
    for k in range(steps):
        pipeline.wait_empty_if_needed(pipeline.try_acquire_producer())
        with pipeline.acquire_producer() as stage:
            load(a, b, m, n, k, stage)


def test_M029_wait_empty_if_needed(run: Run) -> None:
    """The model's wait_consumer_if_needed, which is the producer's: its own name gets a hint."""
    check_product(run, fill=fill_if_needed)
    refused(lambda: compiled(fill=fill_consumer_name), "write wait_empty_if_needed(ready)")
    filecheck(
        role_text(compiled(fill=fill_if_needed), "load"), "CHECK: mbarrier.wait {{.*}} unless"
    )


@td.kernel(grid=1)
def slots(order: td.Tensor, x: td.Tensor, n: td.int32, *, stages: td.Constant[int]):
    """order[i] = (slot before, slot of the stage) on both sides, for each of n stages."""
    tiles = td.TileArray(x.dtype, (8, 64), stages=stages)
    pipeline = td.InputTilePipeline(tiles, num_group_stages=stages)
    with td.role("load", warps=1):
        for i in range(n):
            order[i, 0] = pipeline.producer_stage()
            with pipeline.acquire_producer() as stage:
                td.tma_load(x, (0, 0), stage.tile(), stage.barrier())
                order[i, 1] = stage.stage()
    with td.role("use", warps=1):
        for i in range(n):
            order[i, 2] = pipeline.consumer_stage()
            with pipeline.acquire_consumer() as stage:
                order[i, 3] = stage.stage()


def test_M030_the_slot_that_comes_next(run: Run) -> None:
    """Slots go round: i % stages, asked before the acquire or of the stage."""
    x = run.place.put(run.normal((8, 64), "float32"))
    for stages in (1, 3):
        for n in run.trips(stages):
            order = run.place.put(np.full((max(n, 1), 4), -1, np.int32))
            slots(order, x, n, stages=stages)
            expected = np.full((max(n, 1), 4), -1, np.int32)
            expected[:n] = (np.arange(n, dtype=np.int32) % stages)[:, None]
            wrong = run.same(order, expected, f"{n} of {stages}")
            assert not wrong, wrong


@td.function
def fill_on_mbar(pipeline, a, b, m, n, steps):
    for k in range(steps):
        with pipeline.acquire_producer() as stage:
            a_tile, b_tile = stage.payload().get_tile(stage.stage())
            td.tma_load(a, (m * BM, k * BK), a_tile, pipeline.producer_mbar(stage))
            td.tma_load(b, (n * BN, k * BK), b_tile, pipeline.full_mbar(stage))


def test_M031_barriers_of_a_slot(run: Run) -> None:
    """producer_mbar is the full barrier and consumer_mbar the empty one, by slot or by stage."""
    check_product(run, fill=fill_on_mbar)
    text = role_text(compiled(fill=fill_on_mbar), "load")
    filecheck(text, "CHECK: ring.full %pipeline[{{.*}}]\nCHECK: tma.load")
    x = run.place.put(run.normal((8, 64), "float32"))
    for stages in (1, 3):
        for n in run.trips(stages):
            done = run.place.put(np.full((max(n, 1), 4), -1, np.int32))
            phases(done, x, n, stages=stages)
            expected = np.full((max(n, 1), 4), -1, np.int32)
            expected[:n] = (1, 1, 0, 0)
            wrong = run.same(done, expected, f"{n} of {stages}")
            assert not wrong, wrong


@td.function
def fill_view(pipeline, a, b, m, n, steps):
    with pipeline.producer() as producer:
        for k in range(steps):
            with producer.acquire() as stage:
                load(a, b, m, n, k, stage)


def test_M032_producer_and_consumer_views(run: Run) -> None:
    """A role's view of the ring; nobody fills a consumer's stage or reads a producer's."""
    check_product(run, fill=fill_view, use=use_plain)
    filecheck(role_text(compiled(fill=fill_view), "load"), "CHECK-NOT: consumer.slot")
    refused(lambda: compiled(fill=fill_as_consumer), "consumer stage", "producer()")
    refused(lambda: compiled(use=use_as_producer), "producer stage", "consumer()")


@td.function
def fill_as_consumer(pipeline, a, b, m, n, steps):
    for k in range(steps):
        with pipeline.consumer().acquire() as stage:
            load(a, b, m, n, k, stage)


@td.function
def use_as_producer(pipeline, acc, steps):
    for _ in range(steps):
        with pipeline.producer().acquire() as stage:
            acc = multiply(stage, acc)
    return acc


@td.function
def fill_direct(pipeline, a, b, m, n, steps):
    for k in range(steps):
        stage = pipeline.acquire_producer()
        load(a, b, m, n, k, stage)
        stage.release()


@td.function
def use_direct(pipeline, acc, steps):
    for _ in range(steps):
        stage = pipeline.acquire_consumer()
        acc = multiply(stage, acc)
        stage.release()
    return acc


def test_M033_acquire_without_a_view(run: Run) -> None:
    """The same program as with the views: the text is the same, but for names and lines."""
    check_product(run, fill=fill_direct, use=use_direct)
    with_views, without = compiled(), compiled(fill=fill_direct, use=use_direct)
    for role in ("load", "mma"):
        ops = [
            [line.split("=")[-1].split()[0] for line in role_text(v, role).splitlines()]
            for v in (with_views, without)
        ]
        assert ops[0] == ops[1]


@td.function
def fill_drained(pipeline, a, b, m, n, steps):
    for k in range(steps):
        with pipeline.acquire_producer() as stage:
            load(a, b, m, n, k, stage)
    pipeline.drain_producer()


def test_M034_drain_producer(run: Run) -> None:
    """Waits for every slot to be empty: after it, the ring goes on as if nothing had been."""
    check_product(run, fill=fill_drained)
    text = role_text(compiled(fill=fill_drained, stages=4), "load")
    after = text[text.rindex("tma.load") :]
    assert after.count("mbarrier.wait %empty") == 4


def test_the_kernel_of_these_tests_assembles_without_spills() -> None:
    variant = compiled()
    assert variant.resources.spill_store_bytes == 0
    assert product_by.variants
