"""Clusters: blocks that run at the same time on one part of the GPU, and reach each other.

A kernel is launched in clusters with ``@td.kernel(cluster=(2, 1))``. The blocks of a cluster have
ranks 0 ... size - 1, the first axis fastest: in a cluster of shape (2, 2) the block of rank 3 is
at (1, 1). In a ``td.persistent`` kernel ``size`` consecutive blocks are a cluster, whatever its
shape; in other kernels the axes of the cluster are those of the grid.
"""

from __future__ import annotations

from tiledsl.language.outside import outside_kernel


def cluster_rank() -> int:
    """This block's rank in its cluster, 0 ... ``td.cluster_size()`` - 1: an int32 run-time value.

    In a kernel without clusters it is 0, known at compile time.

    Example::

        if td.cluster_rank() == 0:
            ...
    """
    raise outside_kernel("td.cluster_rank")


def cluster_size() -> int:
    """The number of blocks in a cluster, known at compile time; 1 without clusters."""
    raise outside_kernel("td.cluster_size")


def cluster_shape(axis: int) -> int:
    """The number of blocks in a cluster along ``axis``, known at compile time.

    Args:
        axis: 0, 1 or 2, known at compile time; 1 block along an axis that the shape does not name.

    Raises:
        InvalidValue: another axis.
    """
    raise outside_kernel("td.cluster_shape")


def cluster_id(axis: int) -> int:
    """This block's coordinate in its cluster along ``axis``.

    An int32 run-time value, 0 ... ``td.cluster_shape(axis)`` - 1; where the extent is 1, the
    number 0, known at compile time.

    Args:
        axis: 0, 1 or 2, known at compile time.

    Raises:
        InvalidValue: another axis.
    """
    raise outside_kernel("td.cluster_id")


def cluster_sync() -> None:
    """Wait until all threads of all blocks of the cluster are here. Outside of roles only.

    Barriers and pipelines need none: the cluster meets by itself after their set-up and before
    its blocks end.

    Raises:
        SyntaxNotSupported: inside a role, whose threads are not all of the block's.
    """
    raise outside_kernel("td.cluster_sync")
