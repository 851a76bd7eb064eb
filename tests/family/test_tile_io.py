"""M150-M164 of docs/pipeline-family.md: tiles, their loads and stores. One test per ID."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tests.family.kernels import check_product, compiled, product_by, refused
from tests.filecheck import filecheck
from tests.kernels.family import copies, producers, stores
from tests.kernels.family.registry import Run, problems


def _case(run: Run, subject: str, *names: str) -> None:
    found = [problem for name in names for problem in problems(subject, name, run)]
    assert not found, "\n".join(found)


@td.kernel(grid=1)
def with_swizzle(
    x: td.Tensor, y: td.Tensor, *, swizzle: td.Constant[Any], columns: td.Constant[int]
):
    """y = x through a tile of 64 rows with a swizzle that is given, or derived."""
    tiles = td.TileArray(x.dtype, (64, columns), 1, swizzle=swizzle)
    pipeline = td.InputTilePipeline(tiles, num_group_stages=1)
    with td.role("load", warps=1):
        with pipeline.acquire_producer() as stage:
            td.tma_load(x, (0, 0), stage.tile(), stage.barrier())
    with td.role("use", warps=4):
        with pipeline.acquire_consumer() as stage:
            td.store(stage.tile().load(), y, (0, 0))


def test_M150_swizzles_are_derived_or_given(run: Run) -> None:
    """By the bytes of a row; a given one must span it."""
    for columns, derived in ((64, 128), (32, 64), (16, 32)):
        for swizzle in (None, derived, 0):
            x, y = run.normal((64, columns), "bfloat16"), run.output((64, columns), "bfloat16")
            with_swizzle(run.place.put(x), y, swizzle=swizzle, columns=columns)
            wrong = run.same(y, x, f"{columns} columns, swizzle {swizzle}")
            assert not wrong, wrong
            expected = derived if swizzle is None else swizzle
            filecheck(
                with_swizzle.variants[-1].protocol_ir,
                f"CHECK: load box=64x{columns} swizzle={expected}",
            )
    spec = td.spec((64, 64), td.bfloat16)
    refused(lambda: with_swizzle.compile(spec, spec, swizzle=48, columns=64), "48")


def test_M151_tiles_know_their_shape(run: Run) -> None:
    """Rows, columns, dtype, bytes: compile-time values; layouts are nobody's business."""
    _case(run, "copies", "swizzles", "swizzled_registers")

    @td.kernel
    def told(y: td.Tensor):
        tile = td.shared((16, 32), td.float16)
        with td.role("main", warps=1):
            y[0] = tile.shape[0]
            y[1] = tile.shape[1]
            y[2] = tile.nbytes

    y = run.place.put(np.zeros(3, np.int32))
    told[1](y)
    assert run.place.get(y).tolist() == [16, 32, 1024]


def test_M152_tensor_maps_of_rank_1_to_5(run: Run) -> None:
    _case(run, "copies", "ranks")
    ptx = "\n".join(variant.ptx for variant in copies.copy_boxes.variants)
    for rank in range(1, 6):
        filecheck(ptx, f"CHECK: cp.async.bulk.tensor.{rank}d.shared::cluster.global")


def test_M153_im2col_maps(run: Run) -> None:
    _case(run, "copies", "unfolded")
    _case(run, "convolutions", "convolutions")
    from tests.kernels.family import convolutions

    ptx = "".join(variant.ptx for variant in convolutions.conv.variants)
    for rank in (3, 4, 5):
        assert f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col" in ptx


def test_M154_maps_follow_from_the_loads(run: Run) -> None:
    """Box, swizzle and dtype come from the tile; one map for the same box of the same tensor."""
    check_product(run, stages=(2,))
    text = compiled(stages=2).protocol_ir
    filecheck(
        text,
        "CHECK: param 0: tensormap #0 load box=64x64 swizzle=128\n"
        "CHECK: param 1: tensormap #1 load box=64x64 swizzle=128\n"
        "CHECK: param 2: tensormap #2 store box=64x32 swizzle=128",
    )
    odd = td.spec((256, 255), td.bfloat16)
    even = td.spec((256, 256), td.bfloat16)
    # A pitch that is no multiple of 16 bytes: TMA cannot read it, which the launch says.
    product_by.compile(odd, even, even)
    a = run.normal((64, 255))
    c = run.output((64, 64), "bfloat16")
    refused(lambda: product_by(run.place.put(a), run.place.put(a), c), "16 bytes")


@td.kernel(grid=1)
def by_array(x: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int]):
    """Several tiles a stage, by number."""
    array = td.TileArray(x.dtype, (64, 32), 2 * stages)
    pipeline = td.InputTilePipeline(array, num_group_stages=stages)
    with td.role("load", warps=1):
        for i in range(n):
            with pipeline.acquire_producer() as stage:
                for k in td.static_range(2):
                    td.tma_load(x, (i * 64, 32 * k), stage.payload()[stage, k], stage.barrier())
    with td.role("use", warps=4):
        for i in range(n):
            with pipeline.acquire_consumer() as stage:
                td.store(stage.payload()[stage.stage(), 0].load(), y, (i * 64, 0))
                td.store(stage.tile(1).load(), y, (i * 64, 32))


def test_M155_arrays_of_tiles(run: Run) -> None:
    for stages in (1, 2):
        for n in run.trips(stages):
            x = run.normal((max(n, 1) * 64, 64), "float32")
            y = run.output(x.shape)
            by_array(run.place.put(x), y, n, stages=stages)
            expected = np.full_like(x, np.nan)
            expected[: n * 64] = x[: n * 64]
            wrong = run.same(y, expected, f"{n} of {stages}")
            assert not wrong, wrong
    filecheck(by_array.variants[-1].protocol_ir, "CHECK: 4 tiles 64x32xf32")


def test_M156_loads_may_go_to_several_blocks(run: Run) -> None:
    """multicast=: the blocks along an axis of the cluster take the same tile."""
    from tests.kernels.family import clusters

    kernel = clusters.clustered(clusters.multicast_gemm, (2, 1))
    for shape in run.shapes(3, 64):
        wrong = run.product(kernel, shape)
        assert not wrong, wrong
    filecheck(kernel.variants[-1].ptx, "CHECK: cp.async.bulk.tensor{{.*}}.multicast::cluster")


def test_M157_loads_of_one_block(run: Run) -> None:
    """Coordinates in elements, in the tensor's own order; outside of it reads as zero."""
    check_product(run, stages=(3,))
    assert "multicast" not in compiled().ptx


def test_M160_three_ways_to_load(run: Run) -> None:
    """TMA, bulk copies of lines, cp.async of any alignment: beside each other on one stage."""
    _case(run, "producers", "three_kinds", "async_copies", "bulk_copies")
    filecheck(producers.copied.variants[-1].ptx, "CHECK: cp.async.ca.shared")
    filecheck(producers.scaled_lines.variants[-1].ptx,
              "CHECK: cp.async.bulk.shared::cluster.global.mbarrier")  # fmt: skip


def test_M161_what_a_stage_needs_follows_from_its_loads(run: Run) -> None:
    """TMA: bytes are expected. cp.async: every thread arrives. Both: both."""
    _case(run, "producers", "three_kinds")
    filecheck(producers.copied.variants[-1].ptx, "CHECK: cp.async.mbarrier.arrive.noinc")
    assert "expect_tx" not in producers.copied.variants[-1].ptx
    mixed = producers.three_ways.variants[-1].ptx
    assert "expect_tx" in mixed and "cp.async.mbarrier.arrive.noinc" in mixed


def test_M163_two_ways_to_write(run: Run) -> None:
    """By TMA through staging buffers, or by the threads themselves to any memory."""
    _case(run, "stores", "by_threads", "shared_tiles")
    filecheck(compiled().ptx, "CHECK: cp.async.bulk.tensor.2d.global.shared::cta")
    filecheck(stores.direct.variants[-1].ptx, "CHECK: st.global")


def test_M164_the_whole_output_tile(run: Run) -> None:
    """Cast, staged, stored, what lies outside left out: one statement of the user."""
    a, b = run.normal((65, 72)), run.normal((80, 72))
    for dtype in ("float32", "bfloat16", "float16"):
        wrong = run.product(product_by, (65, 80, 72), dtypes=("bfloat16", dtype))
        assert not wrong, wrong
    x = td.spec((256, 256), td.bfloat16)
    filecheck(product_by.compile(x, x, x).ptx, "CHECK: stmatrix.sync.aligned")
    assert a.shape[0] != b.shape[0]


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_every_swizzle_is_one_of_the_hardware(swizzle: int) -> None:
    spec = td.spec((64, 16), td.bfloat16)
    if swizzle > 32:
        with_swizzle.compile(
            td.spec((64, 64), td.bfloat16), spec, swizzle=swizzle, columns=swizzle // 2
        )
    else:
        with_swizzle.compile(spec, spec, swizzle=swizzle, columns=16)
