"""Clusters: which blocks form one, where each stands in it, and which of them share an axis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import sync
from tiledsl.errors import LaunchError
from tiledsl.runtime.emulator.compile import Compiler, Signal, Step, step
from tiledsl.runtime.emulator.machine import Part

BlockId = tuple[int, int, int]


def clusters_of(kernel: Kernel, grid: tuple[int, int, int]) -> list[list[BlockId]]:
    """The blocks of each cluster, by rank; clusters with x fastest.

    Raises:
        LaunchError: the grid cannot be cut into clusters.
    """
    extents = kernel.cluster_dims
    if any(blocks % extent for blocks, extent in zip(grid, extents, strict=True)):
        raise LaunchError(
            f"kernel {kernel.name}: a grid of {_text(grid)} blocks cannot be cut into clusters of"
            f" {_text(extents)}: expected multiples"
        )
    corners = _box([range(0, n, by) for n, by in zip(grid, extents, strict=True)])
    ranks = list(_box([range(extent) for extent in extents]))
    return [[(x + i, y + j, z + k) for i, j, k in ranks] for x, y, z in corners]


def _box(ranges: Sequence[range]) -> Iterator[BlockId]:
    """All points, x fastest."""
    for z, y, x in itertools.product(*reversed(ranges)):
        yield x, y, z


def _text(extents: Sequence[int]) -> str:
    return " x ".join(str(extent) for extent in extents)


@step(sync.ClusterRank)
def _rank(cx: Compiler, op: sync.ClusterRank) -> Step:
    out = cx.slot(op.result)

    def run(part: Part) -> Signal:
        part.registers[out] = part.block.rank
        return None

    return run
