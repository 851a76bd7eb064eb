"""M015-M020 of docs/pipeline-family.md: fp8 tiles with blockwise scales. One test per ID."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import tiledsl as td
from tests.family.kernels import refused
from tests.filecheck import filecheck
from tests.kernels.family import payloads
from tests.kernels.family.registry import Run, problems

BM, BN, BK = 64, 64, 128


@td.kernel
def tiles_back(
    x: td.Tensor, scales: td.Tensor, y: td.Tensor, s: td.Tensor, n: td.int32, *,
    stages: td.Constant[int], side: td.Constant[str], k_group: td.Constant[int] = 1,
):  # fmt: skip
    """y and s are what one side's tiles and the scales of each stage hold, taken one by one."""
    payload = td.BlockwiseFP8TilePayload(
        x.dtype, x.dtype, (BM, BK), (BN, BK), (BM,), num_pipeline_stages=stages * k_group
    )
    pipeline = td.InputTilePipeline(payload, stages, k_group)
    with td.role("load", warps=1):
        for i in range(n):
            with pipeline.acquire_producer() as stage:
                for k in td.static_range(k_group):
                    at = i * k_group + k
                    held = stage.payload()
                    a_tile, b_tile, s_tile = held.get_tile(stage, k)
                    if side == "a":
                        td.tma_load(x, (at * BM, 0), held.get_a_tile(stage, k), stage.barrier())
                    elif side == "b":
                        td.tma_load(x, (at * BM, 0), held.get_b_tile(stage, k), stage.barrier())
                    elif side == "both":
                        td.tma_load(x, (at * BM, 0), a_tile, stage.barrier())
                        td.tma_load(x, (at * BM, 0), b_tile, stage.barrier())
                    td.tma_load(scales, (at, 0), held.get_a_scales_tile(stage, k), stage.barrier())
    with td.role("use", warps=4):
        for i in range(n):
            with pipeline.acquire_consumer() as stage:
                for k in td.static_range(k_group):
                    at = i * k_group + k
                    a_tile, b_tile, s_tile = stage.payload().get_tile(stage, k)
                    if side != "b":
                        td.store(a_tile.load().to(td.float32), y, (at * BM, 0))
                    if side == "b" or side == "both":
                        td.store(b_tile.load().to(td.float32), y, (at * BM, BK))
                    rows = a_tile.load().to(td.float32) * 0.0 + s_tile.load()[:, None]
                    td.store(rows, s, (at * BM, 0))


def _back(run: Run, side: str, k_group: int = 1) -> None:
    for stages in (1, 2):
        for n in run.trips(stages):
            count = max(n, 1) * k_group
            x = run.rng.standard_normal((count * BM, BK), np.float32)
            x = x.astype(ml_dtypes.float8_e4m3fn)
            scales = run.normal((count, BM), "float32")
            y, s = run.output((count * BM, 2 * BK)), run.output((count * BM, BK))
            arrays: list[Any] = [run.place.put(x), run.place.put(scales), y, s]
            tiles_back[1](*arrays, n, stages=stages, side=side, k_group=k_group)
            wanted, wanted_s = (np.full((count * BM, w * BK), np.nan, np.float32) for w in (2, 1))
            rows = n * k_group * BM
            if side != "b":
                wanted[:rows, :BK] = x[:rows]
            if side != "a":
                wanted[:rows, BK:] = x[:rows]
            if side != "b":
                wanted_s[:rows] = np.repeat(scales.reshape(-1, 1), BK, axis=1)[:rows]
                wrong = run.same(s, wanted_s, f"scales, {n} of {stages}")
                assert not wrong, wrong
            wrong = run.same(y, wanted, f"{side}, {n} of {stages}")
            assert not wrong, wrong


def test_M015_fp8_with_blockwise_scales(run: Run) -> None:
    """The whole product: scaled sums beside the tensor cores, both fp8 formats, K groups."""
    wrong = problems("payloads", "blockwise_scales", run)
    assert not wrong, "\n".join(wrong)
    filecheck(
        payloads.blockwise_fp8.variants[-1].ptx,
        "CHECK: wgmma.mma_async.sync.aligned.m64n128k32.f32.{{e[45]m[23].e[45]m[23]}}",
    )


@td.kernel
def made_of(x: td.Tensor, *, rows: td.Constant[int], stages: td.Constant[int]):
    td.BlockwiseFP8TilePayload(
        x.dtype, x.dtype, (BM, BK), (BN, BK), (rows,), num_pipeline_stages=stages
    )


def test_M016_arguments_of_the_fp8_payload() -> None:
    """Scales are float32 unless said otherwise, and lie there without a swizzle."""
    x, f = td.spec((64, 128), td.float8_e4m3fn), td.spec((1, 64), td.float32)
    y = td.spec((64, 256), td.float32)
    payloads.blockwise_fp8.compile(x, x, f, td.spec((1, 1), td.float32), y)
    filecheck(
        payloads.blockwise_fp8.variants[-1].protocol_ir,
        "CHECK: a_scales: shared<64xf32, swizzle=0>",
    )
    made_of.compile(x, rows=64, stages=2)
    refused(lambda: made_of.compile(x, rows=64, stages=0), "stages")
    refused(lambda: made_of.compile(x, rows=0, stages=1), "0")


def test_M017_get_tile_gives_three_tiles(run: Run) -> None:
    _back(run, "both")
    _back(run, "both", k_group=2)


def test_M018_get_a_tile(run: Run) -> None:
    _back(run, "a")


def test_M019_get_b_tile(run: Run) -> None:
    _back(run, "b")


def test_M020_get_a_scales_tile(run: Run) -> None:
    """One scale a row, by TMA on the same barrier as the tiles: its bytes are counted, too."""
    _back(run, "a", k_group=2)
    nbytes = 2 * (BM * BK + 4 * BM)
    filecheck(tiles_back.variants[-1].ptx, f"CHECK: mbarrier.arrive.expect_tx{{{{.*}}}}, {nbytes};")
