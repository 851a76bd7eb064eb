"""Launches in clusters on a GPU: what blocks see, and what the device runs at once."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest

from tests.gpu.launch_ptx import HEADER, framework
from tiledsl.codegen.assemble import assemble
from tiledsl.codegen.ir.plan import ParamSlot
from tiledsl.errors import LaunchError, PerformanceWarning
from tiledsl.runtime.device import device
from tiledsl.runtime.launch import Launcher, LoadedKernel

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns about other packages' versions

WORDS = 8
THREADS = 128
SHAPES = [(2, 1, 1), (1, 2, 1), (2, 2, 1), (1, 2, 3), (8, 1, 1), (2, 2, 2)]


@pytest.fixture
def torch() -> Any:
    return framework("torch")


def whereami(cluster: tuple[int, int, int] | None) -> str:
    """Each block writes its place: grid x, y, z, rank in the cluster, place in it x, y, z, size.

    The argument is (out), ``WORDS`` words a block. ``cluster``: also fixed in the code.
    """
    x, y, z = cluster or (0, 0, 0)
    fixed = f".explicitcluster .reqnctapercluster {x}, {y}, {z}" if cluster else ""
    names = (
        "ctaid.x", "ctaid.y", "ctaid.z", "cluster_ctarank", "cluster_ctaid.x", "cluster_ctaid.y",
        "cluster_ctaid.z", "cluster_nctarank",
    )  # fmt: skip
    writes = "\n".join(
        f"  mov.u32 %r8, %{name};\n  st.global.u32 [%rd1 + {4 * n}], %r8;"
        for n, name in enumerate(names)
    )
    return f"""{HEADER}
.visible .entry whereami(.param .u64 out) {fixed}
{{
  .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<2>;
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 ret;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ctaid.y;
  mov.u32 %r4, %ctaid.z;
  mov.u32 %r5, %nctaid.x;
  mov.u32 %r6, %nctaid.y;
  mad.lo.s32 %r7, %r4, %r6, %r3;
  mad.lo.s32 %r7, %r7, %r5, %r2;
  mul.wide.s32 %rd2, %r7, {4 * WORDS};
  add.s64 %rd1, %rd1, %rd2;
{writes}
  ret;
}}
"""


def launcher(
    cluster: tuple[int, int, int], *, fixed: bool = True, shared: int = 0, **more: Any
) -> Launcher:
    ptx = whereami(cluster if fixed else None)
    kernel = LoadedKernel(
        ptx.encode(), "whereami", threads=THREADS, shared_bytes=shared, target="sm_90a",
        cluster=cluster, **more,
    )  # fmt: skip
    return Launcher(kernel, [ParamSlot("pointer", 0)], ("out",))


@pytest.mark.parametrize("cluster", [None, *SHAPES])
def test_the_kernel_of_these_tests_assembles(cluster: tuple[int, int, int] | None) -> None:
    assert assemble(whereami(cluster), "sm_90a", "whereami").resources.warnings == ()


@pytest.mark.gpu
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "by launch"])
@pytest.mark.parametrize("cluster", SHAPES)
def test_where_blocks_are(torch: Any, cluster: tuple[int, int, int], fixed: bool) -> None:
    grid = tuple(size * count for size, count in zip(cluster, (3, 2, 2), strict=True))
    out = torch.full((grid[2], grid[1], grid[0], WORDS), -1, dtype=torch.int32, device="cuda")
    launcher(cluster, fixed=fixed)([out], grid)
    found = out.cpu().numpy()
    for z, y, x in itertools.product(*(range(extent) for extent in reversed(grid))):
        inside = (x % cluster[0], y % cluster[1], z % cluster[2])
        rank = inside[0] + cluster[0] * (inside[1] + cluster[1] * inside[2])
        size = cluster[0] * cluster[1] * cluster[2]
        assert list(found[z, y, x]) == [x, y, z, rank, *inside, size]


@pytest.mark.gpu
def test_ragged_grids_are_refused(torch: Any) -> None:
    out = torch.zeros((3, WORDS), dtype=torch.int32, device="cuda")
    with pytest.raises(LaunchError, match="expected a multiple of 2 blocks in dimension 0"):
        launcher((2, 1, 1))([out], 3)


@pytest.mark.gpu
@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_persistent_grid_of_clusters_runs_at_once(torch: Any, size: int) -> None:
    on = device(0)
    made = launcher((size, 1, 1), shared=200 * 1024, persistent=True)  # a block a multiprocessor
    out = torch.full((2 * on.multiprocessors, WORDS), -1, dtype=torch.int32, device="cuda")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made([out])
    blocks = int((out[:, 0] >= 0).sum())
    assert blocks % size == 0 and 0 < blocks <= on.multiprocessors
    assert blocks == made.kernel.fitting_blocks(on)
    ours = [each for each in caught if each.category is PerformanceWarning]
    assert bool(ours) == (blocks < on.multiprocessors)
    if on.name == "NVIDIA H200" and on.multiprocessors == 132 and size in (2, 4):
        assert blocks == {2: 132, 4: 120}[size]


@pytest.mark.gpu
def test_blocks_without_clusters_that_run_at_once(torch: Any) -> None:
    on = device(0)
    assert launcher((1, 1, 1), fixed=False, shared=200 * 1024).kernel.fitting_blocks(on) == (
        on.multiprocessors
    )
    assert launcher((1, 1, 1), fixed=False, shared=100 * 1024).kernel.fitting_blocks(on) == (
        2 * on.multiprocessors
    )


@pytest.mark.gpu
def test_graph_capture_of_a_persistent_cluster_kernel(torch: Any) -> None:
    """The first launch asks the driver for the grid, also while a graph is captured."""
    made = launcher((2, 1, 1), shared=200 * 1024, persistent=True)
    out = torch.full((device(0).multiprocessors, WORDS), -1, dtype=torch.int32, device="cuda")
    made.kernel.function(device(0))  # loading would end the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made([out])
    assert bool((out == -1).all())
    graph.replay()
    torch.cuda.synchronize()
    assert int((out[:, 7] == 2).sum()) == made.kernel.fitting_blocks(device(0))
