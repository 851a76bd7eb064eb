"""Kernels in clusters: grids in the emulator, and what a compiled kernel says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl as td


def places(out: td.Tensor):
    """Each block writes one more than its rank, and its coordinates, in its cluster."""
    block = td.block_id(0) + td.num_blocks(0) * td.block_id(1)
    out[block, 0] = td.cluster_rank() + 1
    out[block, 1] = td.cluster_id(0)
    out[block, 2] = td.cluster_id(1)
    out[block, 3] = td.num_blocks(0) * td.num_blocks(1)


def run(kernel: Any, grid: Any = None, rows: int = 64) -> np.ndarray[Any, Any]:
    """What the blocks wrote, one row each."""
    out = np.full((rows, 4), -1, np.int32)
    if grid is None:
        kernel(out)
    else:
        kernel[grid](out)
    return out[out[:, 0] > 0]


@pytest.mark.parametrize("shape", [(2,), (2, 1), (1, 2), (2, 2), (4, 2)])
def test_a_persistent_kernel_runs_in_two_clusters_at_least(shape: tuple[int, ...]) -> None:
    found = run(td.kernel(grid=td.persistent, cluster=shape)(places))
    size = int(np.prod(shape))
    assert len(found) == found[0, 3] == max(4, 2 * size)
    across = (*shape, 1)[:2]
    for block, (rank, i, j, _) in enumerate(found):
        assert rank - 1 == block % size == i + across[0] * j


def test_clusters_lie_along_the_axes_of_a_grid() -> None:
    found = run(td.kernel(cluster=(1, 2))(places), (3, 4))
    assert len(found) == 12
    for block, (rank, i, j, _) in enumerate(found):
        y = block // 3
        assert (rank - 1, i, j) == (y % 2, 0, y % 2)


@pytest.mark.parametrize(
    ("kind", "grid", "axis"),
    [
        ({"cluster": (2,)}, 3, 0),
        ({"cluster": (2, 1)}, (3, 2), 0),
        ({"cluster": (1, 2)}, (2, 3), 1),
        ({"cluster": (1, 2)}, 4, 1),  # its grid has one block along axis 1
        ({"cluster": (1, 2), "grid": td.persistent}, 3, 0),
    ],
)
def test_a_grid_of_broken_clusters_is_refused(kind: dict[str, Any], grid: Any, axis: int) -> None:
    with pytest.raises(td.LaunchError) as caught:
        run(td.kernel(**kind)(places), grid)
    message = str(caught.value)
    assert message.startswith("kernel places has clusters of ")
    assert f"expected a multiple of 2 blocks in dimension {axis} of the grid, got " in message
    assert "hint: launch " in message


@pytest.mark.parametrize("kind", [{"cluster": (1, 2), "grid": td.persistent}, {"cluster": (2, 1)}])
def test_a_grid_of_whole_clusters_is_taken(kind: dict[str, Any]) -> None:
    assert len(run(td.kernel(**kind)(places), 6)) == 6


def product(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    payload = td.StandardTilePayload(a.dtype, b.dtype, (64, 64), (64, 64), num_pipeline_stages=2)
    pipeline = td.InputTilePipeline(payload, num_group_stages=2)
    tiles = td.TileScheduler(td.cdiv(c.shape[0], 64), td.cdiv(c.shape[1], 64))
    with td.role("load", warps=1):
        with pipeline.producer() as producer:
            for m, n in tiles:
                for k in range(td.cdiv(a.shape[1], 64)):
                    with producer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        td.tma_load(a, (m * 64, k * 64), a_tile, stage.barrier())
                        td.tma_load(b, (n * 64, k * 64), b_tile, stage.barrier(), multicast=0)
    with td.role("mma", warps=4):
        with pipeline.consumer() as consumer:
            for m, n in tiles:
                acc = td.zeros((64, 64), td.float32)
                for _ in range(td.cdiv(a.shape[1], 64)):
                    with consumer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        acc = td.mma(a_tile, b_tile.T, acc)
                td.tma_store(acc.to(c.dtype), c, (m * 64, n * 64))


@pytest.mark.parametrize("shape", [(1,), (2, 1), (2, 2), (4, 1)])
def test_what_a_compiled_kernel_says(shape: tuple[int, ...]) -> None:
    kernel = td.kernel(grid=td.persistent, cluster=shape)(product)
    spec = td.spec((512, 512), td.bfloat16)
    compiled = kernel.compile(spec, spec, spec)
    size = int(np.prod(shape))
    assert compiled.cluster == shape
    assert compiled.resources.cluster == (size, 1, 1)
    assert compiled.resources.warnings == ()
    # Its own consumer frees a stage, and those of the blocks that its loads write to.
    assert compiled.counts == {("pipeline", "full"): 1, ("pipeline", "empty"): shape[0]}
    found = compiled.counts
    found.clear()
    assert compiled.counts  # what is given out is a copy
    assert (f".reqnctapercluster {size}" in compiled.ptx) == (size > 1)
