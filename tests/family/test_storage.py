"""M120-M135 of docs/pipeline-family.md: shared memory is planned. One test per ID."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np

import tiledsl as td
from tests.family.kernels import check_product, compiled, refused, role_text
from tests.filecheck import filecheck
from tests.kernels.family import barriers, epilogues
from tests.kernels.family.registry import Run, problems


def planned(text: str) -> dict[str, tuple[int, int]]:
    """Name -> (offset, bytes) of the shared memory that the plan in front of the IR lists."""
    lines = re.findall(r"// shared ([\w.]+): (\d+) bytes at (\d+)", text)
    return {name: (int(offset), int(nbytes)) for name, nbytes, offset in lines}


def disjoint(text: str) -> bool:
    """Do the buffers of a plan lie apart, within what the kernel asks for?"""
    spans = sorted((offset, offset + nbytes) for offset, nbytes in planned(text).values())
    total = int(re.findall(r"(\d+) bytes shared", text)[0])
    inside = all(end <= total for _, end in spans)
    return inside and all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def test_M120_tiles_of_a_and_b_are_placed(run: Run) -> None:
    """Each array of a payload: all its stages, apart, at 1024 bytes because of the swizzle."""
    check_product(run, stages=(3,))
    text = compiled(stages=3).protocol_ir
    plan = planned(text)
    assert plan["pipeline.a"][1] == plan["pipeline.b"][1] == 3 * 64 * 64 * 2
    assert plan["pipeline.a"][0] % 1024 == plan["pipeline.b"][0] % 1024 == 0
    assert disjoint(text)


@td.kernel(grid=1)
def doubled(x: td.Tensor, y: td.Tensor, *, warps: td.Constant[int]):
    with td.role("main", warps=warps):
        td.tma_store(td.load(x, (0, 0), (warps * 16, 64)) * 2, y, (0, 0))


def test_M123_tiles_of_the_output_are_placed(run: Run) -> None:
    """A register tile leaves through staging buffers, which nobody declares."""
    check_product(run, stages=(1,))
    text = compiled(stages=1).protocol_ir
    assert planned(text)["mma.staging"][1] == 2 * 64 * 32 * 4
    filecheck(text, "CHECK: staging.write\nCHECK: fence.proxy_async\nCHECK: tma.store_buffer")
    assert disjoint(text)
    sizes = []
    for warps in (4, 8):  # a warpgroup stores from a buffer of its own
        x, y = run.normal((70, 64), "float32"), run.output((70, 64))
        doubled(run.place.put(x), y, warps=warps)
        expected = np.full_like(x, np.nan)
        expected[: 16 * warps] = 2 * x[: 16 * warps]
        wrong = run.same(y, expected, f"{warps} warps")
        assert not wrong, wrong
        sizes.append(planned(doubled.variants[-1].protocol_ir)["main.staging"][1])
    assert sizes[1] == 2 * sizes[0]


def test_M124_tiles_of_a_source(run: Run) -> None:
    """What an epilogue adds comes through a ring, whose tiles are placed like any other."""
    found = problems("epilogues", "residuals", run)
    assert not found, "\n".join(found)
    for variant in epilogues.gemm_residual.variants:
        plan = planned(variant.protocol_ir)
        assert plan["residual.tile"][1] % (64 * 64) == 0 and disjoint(variant.protocol_ir)


def test_M125_pairs_of_barriers(run: Run) -> None:
    """Full and empty, one of each a stage, 8 bytes each, aligned to 8."""
    check_product(run, stages=(4,))
    for stages in (1, 4):
        plan = planned(compiled(stages=stages).protocol_ir)
        for name in ("pipeline.full", "pipeline.empty"):
            assert plan[name][1] == 8 * stages and plan[name][0] % 8 == 0


@td.kernel(grid=1)
def two_inputs(x: td.Tensor, z: td.Tensor, y: td.Tensor, n: td.int32):
    """y = x + z, each through a ring of its own, with other depths."""
    first = td.InputTilePipeline(td.TileArray(x.dtype, (64, 64), 3), num_group_stages=3)
    second = td.InputTilePipeline(td.TileArray(z.dtype, (64, 64), 2), num_group_stages=2)
    with td.role("load", warps=1):
        for i in range(n):
            with first.acquire_producer() as stage:
                td.tma_load(x, (i * 64, 0), stage.tile(), stage.barrier())
            with second.acquire_producer() as stage:
                td.tma_load(z, (i * 64, 0), stage.tile(), stage.barrier())
    with td.role("use", warps=4):
        for i in range(n):
            with first.acquire_consumer() as one:
                value = one.tile().load()
            with second.acquire_consumer() as other:
                td.store(value + other.tile().load(), y, (i * 64, 0))


def _two(run: Run) -> Any:
    for n in run.trips(3):
        x, z = (run.normal((max(n, 1) * 64, 64), "float32") for _ in range(2))
        y = run.output(x.shape)
        two_inputs(run.place.put(x), run.place.put(z), y, n)
        expected = np.full_like(x, np.nan)
        expected[: n * 64] = (x + z)[: n * 64]
        wrong = run.same(y, expected, f"{n} stages")
        assert not wrong, wrong
    return two_inputs.variants[-1]


def test_M126_storage_of_input_pipelines(run: Run) -> None:
    """Two rings in a kernel: each with barriers and a cursor of its own."""
    text = _two(run).protocol_ir
    plan = planned(text)
    assert [plan[f"{ring}.full"][1] for ring in ("first", "second")] == [24, 16]
    assert disjoint(text)
    filecheck(
        text, "CHECK: %first.producer.slot = local.new\nCHECK: %second.producer.slot = local.new"
    )


def test_M130_storage_of_a_second_pipeline(run: Run) -> None:
    """Its stages are released at points of their own."""
    text = role_text(_two(run), "use")
    first, second = (text.index(f"ring.empty %{ring}") for ring in ("first", "second"))
    assert first < second
    filecheck(text, "CHECK: ring.empty %first\nCHECK: mbarrier.arrive\nCHECK: ring.full %second")


@td.kernel(grid=1)
def in_order(x: td.Tensor, y: td.Tensor, order: td.Tensor, n: td.int32):
    """The second loader begins a tile only when the first one has loaded its own."""
    left = td.InputTilePipeline(td.TileArray(x.dtype, (64, 64), 2), num_group_stages=2)
    right = td.InputTilePipeline(td.TileArray(x.dtype, (64, 64), 2), num_group_stages=2)
    turn = td.ProducerConsumerPipeline(1)
    with td.role("first", warps=1):
        for i in range(n):
            with turn.produce():
                with left.acquire_producer() as stage:
                    td.tma_load(x, (i * 64, 0), stage.tile(), stage.barrier())
                order[i, 0] = i
    with td.role("second", warps=1):
        for i in range(n):
            with turn.consume():
                order[i, 1] = order[i, 0]
                with right.acquire_producer() as stage:
                    td.tma_load(x, (i * 64, 64), stage.tile(), stage.barrier())
    with td.role("use", warps=4):
        for i in range(n):
            with left.acquire_consumer() as one, right.acquire_consumer() as other:
                td.store(one.tile().load() + other.tile().load(), y, (i * 64, 0))


def test_M131_the_order_of_two_loaders(run: Run) -> None:
    """A bare ring of one stage between them: what the first wrote before, the second reads."""
    for n in run.trips(2):
        x = run.normal((max(n, 1) * 64, 128), "float32")
        y, order = run.output((max(n, 1) * 64, 64)), np.full((max(n, 1), 2), -1, np.int32)
        placed = run.place.put(order)
        in_order(run.place.put(x), y, placed, n)
        expected = np.full((max(n, 1) * 64, 64), np.nan, np.float32)
        expected[: n * 64] = (x[:, :64] + x[:, 64:])[: n * 64]
        wrong = run.same(y, expected, f"{n} tiles")
        assert not wrong, wrong
        assert (run.place.get(placed)[:n, 1] == np.arange(n)).all()
    refused(
        lambda: model_order.compile(td.spec((1,), td.int32)),
        "hint: write td.mbarrier(",
        "bare ring",
    )


@td.kernel(grid=1)
def model_order(y: td.Tensor):
    td.LoadOrderBarrierStorage()


def test_M132_raw_barriers(run: Run) -> None:
    """td.mbarrier: one or a row of them, with counts that are given or derived."""
    found = problems("barriers", "mbarriers_in_rows", run)
    assert not found, "\n".join(found)
    filecheck(barriers.by_numbers.variants[-1].protocol_ir, "CHECK: 3 mbarriers")
    assert disjoint(barriers.by_numbers.variants[-1].protocol_ir)


@td.kernel(grid=1)
def too_much(x: td.Tensor, *, stages: td.Constant[int]):
    pipeline = td.InputTilePipeline(
        td.TileArray(x.dtype, (128, 64), stages), num_group_stages=stages
    )
    with td.role("load", warps=1):
        with pipeline.acquire_producer() as stage:
            td.tma_load(x, (0, 0), stage.tile(), stage.barrier())
    with td.role("use", warps=1):
        with pipeline.acquire_consumer():
            pass


@td.kernel(grid=1)
def mixed(v: td.Tensor, x: td.Tensor, w: td.Tensor, y: td.Tensor):
    """A few numbers first, then tiles of each swizzle: v and x go through them."""
    few = td.shared((8,), v.dtype)
    tiles = (
        td.shared((64, 8), x.dtype, swizzle=32),
        td.shared((64, 16), x.dtype, swizzle=64),
        td.shared((64, 32), x.dtype, swizzle=128),
    )
    loaded = td.mbarrier(1)
    with td.role("load", warps=1):
        loaded.arrive_and_expect_bytes(few.nbytes + sum([tile.nbytes for tile in tiles]))
        td.tma_load(v, (0,), few, loaded)
        for tile in tiles:
            td.tma_load(x, (0, 0), tile, loaded)
    with td.role("use", warps=4):
        loaded.wait(0)
        td.store(few.load(), w, (0,))
        for number, tile in enumerate(tiles):
            td.store(tile.load(), y, (64 * number, 0))


def test_M135_the_layout_of_shared_memory(run: Run) -> None:
    """All of it is planned together; what does not fit a block is refused, with what takes it."""
    v, x = run.normal((8,), "float32"), run.normal((64, 32), "float32")
    w, y = run.output((8,)), run.output((192, 32))
    mixed(run.place.put(v), run.place.put(x), w, y)
    expected = np.full((192, 32), np.nan, np.float32)
    for number, columns in enumerate((8, 16, 32)):
        expected[64 * number : 64 * number + 64, :columns] = x[:, :columns]
    wrong = run.same(w, v, "few") or run.same(y, expected, "all swizzles")
    assert not wrong, wrong
    text = mixed.variants[-1].protocol_ir
    assert disjoint(text)
    # A swizzle repeats every eight of its rows; a bulk copy takes addresses of 128 bytes.
    aligned = {"few": 128, "tile": 8 * 32, "tile_2": 8 * 64, "tile_3": 8 * 128}
    assert all(planned(text)[name][0] % align == 0 for name, align in aligned.items())
    spec = td.spec((128, 64), td.float32)
    too_much.compile(spec, stages=7)
    refused(lambda: too_much.compile(spec, stages=8), "pipeline", "232448")
