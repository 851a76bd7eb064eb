"""Launches in clusters: the grid, the attribute, and what the device runs at once."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest

from tests.runtime.fake_cuda import FakeDriver
from tests.runtime.launching import NAMES, SIZES, SLOTS, make_args, make_kernel
from tiledsl.codegen.ir.core import Block
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.errors import LaunchError, Loc, PerformanceWarning
from tiledsl.runtime.grid import check_clusters
from tiledsl.runtime.launch import Launcher

HERE = Loc(__file__, 7)


@pytest.fixture
def make(cuda: FakeDriver) -> Any:
    cuda.parameter_sizes = SIZES

    def made(cluster: tuple[int, int, int], **more: Any) -> Launcher:
        return Launcher(make_kernel(cluster=cluster, **{"loc": HERE} | more), SLOTS, NAMES)

    return made


def occupancy_queries(cuda: FakeDriver) -> list[Any]:
    return [entry for entry in cuda.log if entry[0] == "occupancy"]


# --- the shape of a cluster


@pytest.mark.parametrize(
    ("shape", "persistent", "dims"),
    [
        ((1,), False, (1, 1, 1)),
        ((2,), False, (2, 1, 1)),
        ((2,), True, (2, 1, 1)),
        ((2, 1), False, (2, 1, 1)),
        ((1, 2), False, (1, 2, 1)),
        ((1, 2), True, (2, 1, 1)),
        ((2, 2, 2), False, (2, 2, 2)),
        ((2, 2, 2), True, (8, 1, 1)),
    ],
)
def test_clusters_of_a_persistent_grid_lie_along_x(
    shape: tuple[int, ...], persistent: bool, dims: tuple[int, int, int]
) -> None:
    kernel = Kernel("k", [], Block(), persistent=persistent, cluster=shape)
    assert kernel.cluster_dims == dims
    assert kernel.cluster_size == dims[0] * dims[1] * dims[2]


# --- the launch


def test_the_attribute_and_the_grid(cuda: FakeDriver, torch: Any, make: Any) -> None:
    make((2, 3, 1))(make_args(torch), (4, 9, 2))
    (launched,) = cuda.launches
    assert (launched.grid, launched.cluster) == ((4, 9, 2), (2, 3, 1))
    assert (launched.block, launched.shared) == ((384, 1, 1), 200000)
    assert occupancy_queries(cuda) == []  # nothing depends on it


def test_without_clusters_there_is_no_attribute(cuda: FakeDriver, torch: Any, make: Any) -> None:
    make((1, 1, 1))(make_args(torch), (3, 2))
    assert cuda.launches[0].cluster is None
    make((1, 1, 1), persistent=True)(make_args(torch))
    assert (cuda.launches[1].grid, cuda.launches[1].cluster) == ((132, 1, 1), None)
    assert occupancy_queries(cuda) == []


def test_launching_again_asks_nothing(cuda: FakeDriver, torch: Any, make: Any) -> None:
    launcher = make((2, 1, 1), persistent=True)
    launcher(make_args(torch))
    before = len(cuda.log)
    for _ in range(3):
        launcher(make_args(torch))
    assert cuda.log[before:] == [("launch", 0)] * 3
    launcher([*make_args(torch)[:2], 3.5])  # other arguments, the same grid
    assert len(occupancy_queries(cuda)) == 1
    assert {launched.cluster for launched in cuda.launches} == {(2, 1, 1)}


def test_each_device_is_asked(cuda: FakeDriver, torch: Any, make: Any) -> None:
    launcher = make((2, 1, 1), persistent=True)
    for number in (0, 1, 0, 1):
        launcher(make_args(torch, device=number))
    assert len(occupancy_queries(cuda)) == 2
    assert [launched.context for launched in cuda.launches] == [100, 101, 100, 101]


def test_a_persistent_grid_fills_the_device(cuda: FakeDriver, torch: Any, make: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make((2, 1, 1), persistent=True)(make_args(torch))
    assert cuda.launches[0].grid == (132, 1, 1)
    assert occupancy_queries(cuda) == [("occupancy", 384, 200000, (2, 1, 1))]


def test_small_blocks_get_a_multiprocessor_each(cuda: FakeDriver, torch: Any, make: Any) -> None:
    """Two blocks of a multiprocessor would fit: a persistent grid has one, as without clusters."""
    cuda.active_clusters = {4: 62}
    make((4, 1, 1), persistent=True, shared_bytes=9000)(make_args(torch))
    assert cuda.launches[0].grid == (132, 1, 1)


def test_idle_multiprocessors_are_warned_of_once(cuda: FakeDriver, torch: Any, make: Any) -> None:
    launcher = make((4, 1, 1), persistent=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for number in range(3):
            launcher([*make_args(torch)[:2], float(number)])
    assert [launched.grid for launched in cuda.launches] == [(120, 1, 1)] * 3
    (warning,) = caught
    assert warning.category is PerformanceWarning
    assert (warning.filename, warning.lineno) == (HERE.file, HERE.line)
    assert str(warning.message) == (
        "kernel gemm leaves 12 of 132 multiprocessors of Fake GPU 0 idle: 30 clusters of 4 blocks"
        " fit at once, which are 120 blocks; hint: use a smaller cluster"
    )


def test_a_cluster_without_room(cuda: FakeDriver, torch: Any, make: Any) -> None:
    cuda.active_clusters = {8: 0}
    with pytest.raises(LaunchError) as caught:
        make((8, 1, 1), persistent=True)(make_args(torch))
    assert str(caught.value) == (
        "kernel gemm cannot run on Fake GPU 0: expected room for a cluster of 8 blocks of 384"
        " threads and 200000 bytes of shared memory, got room for none\n"
        "hint: use a smaller cluster, fewer stages or smaller tiles"
    )
    assert cuda.launches == []


def test_a_refused_query_says_what_it_was(cuda: FakeDriver, torch: Any, make: Any) -> None:
    cuda.fail["cuOccupancyMaxActiveClusters"] = cuda.CUresult.CUDA_ERROR_INVALID_CLUSTER_SIZE
    with pytest.raises(LaunchError, match="asking how many blocks of gemm Fake GPU 0 runs at once"):
        make((2, 1, 1), persistent=True)(make_args(torch))


@pytest.mark.parametrize(
    ("cluster", "fits", "grid", "text"),
    [
        (
            (2, 1, 1),
            132,
            (264,),
            "runs 132 of its blocks at once, 66 clusters: a grid of 264 blocks needs 2 waves",
        ),
        (
            (1, 1, 1),
            264,
            (200, 2),
            "runs 264 of its blocks at once: a grid of 400 blocks needs 2 waves",
        ),
    ],
)
def test_an_explicit_grid_of_several_waves_is_warned_of(
    cuda: FakeDriver, torch: Any, make: Any, cluster: Any, fits: int, grid: Any, text: str
) -> None:
    cuda.active_blocks = fits // 132
    launcher = make(cluster, persistent=True)
    with pytest.warns(PerformanceWarning) as caught:
        launcher(make_args(torch), grid)
    assert str(caught[0].message) == (
        f"kernel gemm is persistent, and Fake GPU 0 {text}; hint: leave the grid out: gemm(...)"
    )
    assert len(cuda.launches) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launcher(make_args(torch), fits)  # all at once
        make(cluster)(make_args(torch), grid)  # not persistent: waves are what it is made for


def test_a_failed_launch_names_the_cluster(cuda: FakeDriver, torch: Any, make: Any) -> None:
    cuda.fail["cuLaunchKernelEx"] = cuda.CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    with pytest.raises(LaunchError, match=r"grid \(4, 1, 1\), cluster \(2, 1, 1\), block \(384,"):
        make((2, 1, 1))(make_args(torch), 4)


# --- grids of whole clusters


@pytest.mark.parametrize(
    ("cluster", "grid", "message"),
    [
        (
            (2, 1, 1),
            (3, 1, 1),
            "kernel k has clusters of 2 blocks: expected a multiple of 2 blocks in dimension 0 of"
            " the grid, got 3 (grid (3, 1, 1))\n"
            "hint: launch 4 blocks there (td.cdiv(n, 2) * 2), and let those that have nothing to"
            " do skip their work",
        ),
        (
            (1, 3, 2),
            (5, 6, 7),
            "kernel k has clusters of 1 x 3 x 2 blocks: expected a multiple of 2 blocks in"
            " dimension 2 of the grid, got 7 (grid (5, 6, 7))\n"
            "hint: launch 8 blocks there (td.cdiv(n, 2) * 2), and let those that have nothing to"
            " do skip their work",
        ),
    ],
)
def test_a_grid_must_have_whole_clusters(cluster: Any, grid: Any, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        check_clusters("k", grid, cluster)
    assert str(caught.value) == message


def test_any_grid_of_whole_clusters_is_launched(cuda: FakeDriver, torch: Any, make: Any) -> None:
    for _ in range(20):
        cluster = tuple(random.choice([1, 2]) for _ in range(3))
        grid = tuple(size * random.randrange(4) for size in cluster)
        before = len(cuda.launches)
        make(cluster)(make_args(torch), grid)
        assert len(cuda.launches) == before + (0 not in grid)
        for axis, size in enumerate(cluster):
            if size > 1:
                ragged = [*grid]
                ragged[axis] += 1
                with pytest.raises(LaunchError, match=f"in dimension {axis} of the grid"):
                    make(cluster)(make_args(torch), ragged)
