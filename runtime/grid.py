"""Grids: how many blocks a launch has, in whole clusters, and what the device runs at once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from operator import index

from tiledsl.errors import UNKNOWN_LOC, InvalidValue, LaunchError, PerformanceWarning
from tiledsl.runtime.device import Device
from tiledsl.runtime.library import LoadedKernel

Grid = int | Sequence[int] | None
Dims = tuple[int, int, int]

MAX_GRID = ((1 << 31) - 1, 65535, 65535)


def launch_grid(kernel: LoadedKernel, grid: Grid, on: Device) -> Dims:
    """The grid of a launch of ``kernel`` on the device ``on``.

    Args:
        grid: blocks, as a number or one to three; None for a persistent grid: one block a
            multiprocessor, or the clusters that fit the device at once.

    Raises:
        InvalidValue: for a grid that CUDA does not know.
        LaunchError: for one that does not consist of whole clusters, or a cluster that the
            device has no room for.
    """
    if grid is None:
        return _persistent_blocks(kernel, on), 1, 1
    found = blocks(grid)
    check_clusters(kernel.name, found, kernel.cluster)
    if kernel.persistent:
        _warn_of_waves(kernel, found, on)
    return found


def blocks(grid: int | Sequence[int]) -> Dims:
    """A grid as three numbers.

    Raises:
        InvalidValue: for more than three extents, one that is no integer, or out of range.
    """
    extents = tuple(grid) if isinstance(grid, Sequence) else (grid,)
    if not 1 <= len(extents) <= 3:
        raise InvalidValue(f"grid {grid}: expected one to three extents, got {len(extents)}")
    full = []
    for axis, limit in enumerate(MAX_GRID):
        extent = extents[axis] if axis < len(extents) else 1
        try:
            number = index(extent)
        except TypeError:
            raise InvalidValue(
                f"grid {grid}: expected integers, got {extent!r} in dimension {axis}",
                hint="td.cdiv(a, b) divides integers and rounds up",
            ) from None
        if not 0 <= number <= limit:
            raise InvalidValue(
                f"grid {grid}: expected 0 to {limit} blocks in dimension {axis}, got {number}"
            )
        full.append(number)
    return full[0], full[1], full[2]


def check_clusters(name: str, grid: Dims, cluster: Dims) -> None:
    """Check that a grid consists of whole clusters. Needs no CUDA.

    Args:
        name: of the kernel, for messages.
        grid: blocks along x, y and z.
        cluster: blocks of a cluster along them (``Kernel.cluster_dims``).

    Raises:
        LaunchError: naming the first dimension that the cluster does not divide.
    """
    for axis, (extent, size) in enumerate(zip(grid, cluster, strict=True)):
        if extent % size:
            rounded = -(-extent // size) * size
            raise LaunchError(
                f"kernel {name} has clusters of {_text(cluster)} blocks: expected a multiple of"
                f" {size} blocks in dimension {axis} of the grid, got {extent} (grid {grid})",
                hint=f"launch {rounded} blocks there (td.cdiv(n, {size}) * {size}), and let those"
                " that have nothing to do skip their work",
            )


def persistent_clusters(multiprocessors: int, size: int, fitting: int) -> int:
    """Clusters of a persistent grid: no more than fit at once, nor than fill the device.

    Args:
        multiprocessors: of the device.
        size: blocks of a cluster.
        fitting: clusters that the device runs at once.
    """
    return min(max(1, multiprocessors // size), fitting)


def _text(cluster: Dims) -> str:
    return " x ".join(str(extent) for extent in cluster).removesuffix(" x 1").removesuffix(" x 1")


def _persistent_blocks(kernel: LoadedKernel, on: Device) -> int:
    size = kernel.cluster_size
    if size == 1:
        return on.multiprocessors
    fitting = kernel.fitting_blocks(on) // size
    if not fitting:
        raise LaunchError(
            f"kernel {kernel.name} cannot run on {on.name}: expected room for a cluster of {size}"
            f" blocks of {kernel.threads} threads and {kernel.shared_bytes} bytes of shared memory,"
            " got room for none",
            hint="use a smaller cluster, fewer stages or smaller tiles",
        )
    count = size * persistent_clusters(on.multiprocessors, size, fitting)
    idle = on.multiprocessors - count
    if idle > 0:
        _warn(
            kernel,
            f"kernel {kernel.name} leaves {idle} of {on.multiprocessors} multiprocessors of"
            f" {on.name} idle: {count // size} clusters of {size} blocks fit at once, which are"
            f" {count} blocks; hint: use a smaller cluster",
        )
    return count


def _warn_of_waves(kernel: LoadedKernel, grid: Dims, on: Device) -> None:
    """Blocks of a persistent kernel that do not fit at once wait until others are done."""
    count = grid[0] * grid[1] * grid[2]
    if count <= (on.multiprocessors if kernel.cluster_size == 1 else kernel.cluster_size):
        return  # these fit, whatever else does
    fitting = kernel.fitting_blocks(on)
    if count > fitting:
        of = f", {fitting // kernel.cluster_size} clusters" if kernel.cluster_size > 1 else ""
        _warn(
            kernel,
            f"kernel {kernel.name} is persistent, and {on.name} runs {fitting} of its blocks at"
            f" once{of}: a grid of {count} blocks needs {-(-count // max(fitting, 1))} waves;"
            f" hint: leave the grid out: {kernel.name}(...)",
        )


def _warn(kernel: LoadedKernel, text: str) -> None:
    """Warn at the kernel's line; the same text once a kernel, unless the filters say otherwise."""
    if kernel.loc == UNKNOWN_LOC:
        warnings.warn(text, PerformanceWarning, stacklevel=2)
        return
    warnings.warn_explicit(
        text, PerformanceWarning, kernel.loc.file, kernel.loc.line, registry=kernel.warned
    )
