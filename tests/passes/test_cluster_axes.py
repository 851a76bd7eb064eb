"""Rings whose stages blocks of a cluster fill for each other: axes, counts and remote arrivals."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.filecheck import filecheck
from tiledsl.runtime.emulator import emulate

SIZE = 64
STAGES = 2


@cache
def gemm(cluster: tuple[int, ...]) -> Any:
    """``c = a @ b.T``; tiles of a shared along axis 1, tiles of b along axis 0."""

    @td.kernel(grid=td.persistent, cluster=cluster)
    def kernel(
        a: td.Tensor, b: td.Tensor, c: td.Tensor, *, share: td.Constant[bool],
        replicas: td.Constant[int] = 1,
    ):  # fmt: skip
        payload = td.StandardTilePayload(
            a.dtype, b.dtype, (SIZE, SIZE), (SIZE, SIZE), num_pipeline_stages=STAGES
        )
        ring = td.InputTilePipeline(payload, num_group_stages=STAGES)
        tiles = td.TileScheduler(td.cdiv(a.shape[0], SIZE), td.cdiv(b.shape[0], SIZE))
        steps = td.cdiv(a.shape[1], SIZE)
        with td.role("load", warps=1):
            producer = ring.producer()
            for m, n in tiles:
                for k in range(steps):
                    with producer.acquire() as stage:
                        at, bt = stage.payload().get_tile(stage.stage())
                        full = stage.barrier()
                        td.tma_load(
                            a, (m * SIZE, k * SIZE), at, full, multicast=1, partitioned=share
                        )
                        td.tma_load(
                            b, (n * SIZE, k * SIZE), bt, full, multicast=0, partitioned=share
                        )
        with td.role("mma", warps=4, replicas=replicas) as me:
            consumer = ring.consumer()
            for m, n in tiles.deal(me):
                acc = td.zeros((SIZE, SIZE), td.float32)
                with me.turn():
                    for _ in range(steps):
                        with consumer.acquire() as stage:
                            at, bt = stage.payload().get_tile(stage.stage())
                            acc = td.mma(at, bt.T, acc)
                td.tma_store(acc, c, (m * SIZE, n * SIZE))

    return kernel


def lowered(cluster: tuple[int, ...], **constants: Any) -> Any:
    bf16 = td.spec((SIZE, SIZE), td.bfloat16)
    return gemm(cluster).lower(bf16, bf16, td.spec((SIZE, SIZE), td.float32), **constants)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize(
    ("cluster", "axes", "blocks"),
    [((2, 1), (0,), 2), ((1, 2), (1,), 2), ((2, 2), (0, 1), 3), ((1, 1), (), 1)],
)
def test_blocks_that_share_a_slot_free_it_together(
    cluster: tuple[int, ...], axes: tuple[int, ...], blocks: int, share: bool
) -> None:
    compiled = lowered(cluster, share=share)
    if len(axes) == 2 and not share:
        blocks = 4  # see derive_axes
    assert compiled.plan.counts == {("ring", "full"): 1, ("ring", "empty"): blocks}
    if axes:
        text = f"axes={axes}" + (" together" if blocks == 4 else "")
        released = [line for line in compiled.protocol_ir.splitlines() if "arrive %empty" in line]
        assert released and all(text in line for line in released)
    else:
        assert "axes" not in compiled.protocol_ir and "multicast" not in compiled.protocol_ir


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("cluster", [(2, 1), (1, 2), (2, 2), (4, 2)])
def test_clusters_multiply(cluster: tuple[int, ...], share: bool, replicas: int) -> None:
    program = lowered(cluster, share=share, replicas=replicas).kernel
    rng = np.random.default_rng()
    rows, columns, depth = 5 * SIZE - 3, 3 * SIZE + 8, (2 * STAGES + 1) * SIZE
    a = rng.standard_normal((rows, depth)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((columns, depth)).astype(ml_dtypes.bfloat16)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    grid = (2 * cluster[0] * cluster[1], 1, 1)
    for seed in (None, 0):
        c = np.full((rows, columns), np.nan, np.float32)
        emulate(program, [a, b, c], grid=grid, seed=seed)
        assert np.abs(c - expected).max() < 1e-3


@td.kernel(grid=1, cluster=(2, 2))
def one_tile_for_all(x: td.Tensor, y: td.Tensor, n: td.int32, *, share: td.Constant[bool]):
    ring = td.InputTilePipeline(
        td.TileArray(td.float32, (SIZE, SIZE), stages=STAGES), num_group_stages=STAGES
    )
    with td.role("load", warps=1):
        producer = ring.producer()
        for k in range(n):
            with producer.acquire() as stage:
                td.tma_load(
                    x, (k * SIZE, 0), stage.tile(), stage.barrier(), multicast=(0, 1),
                    partitioned=share,
                )  # fmt: skip
    with td.role("sum", warps=4):
        consumer = ring.consumer()
        acc = td.zeros((SIZE, SIZE), td.float32)
        for _ in range(n):
            with consumer.acquire() as stage:
                acc = acc + stage.tile().load()
        td.store(acc, y, (td.cluster_rank() * SIZE, 0))


@pytest.mark.parametrize("share", [True, False])
def test_a_tile_along_both_axes_is_shared_by_all_blocks(share: bool) -> None:
    f32 = td.spec((SIZE, SIZE), td.float32)
    compiled = one_tile_for_all.lower(f32, f32, td.int32, share=share)
    assert compiled.plan.counts["ring", "empty"] == 4
    filecheck(compiled.protocol_ir, "CHECK: mbarrier.arrive %empty{{.*}}axes=(0, 1) together}")
    x = np.random.default_rng().integers(-9, 9, (5 * SIZE, SIZE)).astype(np.float32)
    for seed in (None, *range(4)):
        y = np.full((4 * SIZE, SIZE), np.nan, np.float32)
        emulate(compiled.kernel, [x, y, 5], grid=(2, 2, 1), seed=seed)
        assert (y.reshape(4, SIZE, SIZE) == x.reshape(5, SIZE, SIZE).sum(0)).all()
