"""Copies to shared memory that are no TMA tiles: ``cp.async``, and plain bulk copies."""

from __future__ import annotations

from tiledsl.language.barrier import Barrier
from tiledsl.language.outside import outside_kernel
from tiledsl.language.tensor import Tensor
from tiledsl.language.tile import SharedTile


def async_copy(tensor: Tensor, coords: tuple[int, ...], tile: SharedTile, barrier: Barrier) -> None:
    """Start a copy of a tile by all threads of the role; it completes on ``barrier``.

    For what the tensor memory accelerator refuses: rows that do not begin at a multiple of 16
    bytes, any strides, any extents. What lies outside of the tensor reads as zero. The threads
    copy 16, 8 or 4 bytes at a time (``cp.async``), as alignment permits.

    Args:
        tensor: the source; its dtype must be the tile's.
        coords: the first element, one integer for each dimension of the tensor, in elements. A
            tile of lower rank takes extent 1 in the leading dimensions.
        tile: the destination, not transposed.
        barrier: ``stage.barrier()`` of the stage that the tile belongs to.

    Raises:
        TypeMismatch: wrong kinds of arguments, dtypes that differ, a tile of higher rank than
            the tensor, coordinates that do not match the rank.

    Example::

        with td.role("load", warps=4):
            with producer.acquire() as stage:
                td.async_copy(x, (m * BM, k * BK), stage.tile(), stage.barrier())
    """
    raise outside_kernel("td.async_copy")


def bulk_load(
    tensor: Tensor,
    coords: tuple[int, ...],
    tile: SharedTile,
    barrier: Barrier,
    *,
    cache: str | None = None,
) -> None:
    """Start a copy of contiguous elements (``cp.async.bulk``); it completes on ``barrier``.

    One thread of the role issues it, as for ``td.tma_load``, but it needs no tensor map. The
    elements lie along the tensor's last dimension, which must be contiguous. What lies behind its
    end reads as zero.

    Args:
        tensor: the source; its dtype must be the tile's.
        coords: the first element, one integer for each dimension of the tensor, in elements. The
            address must be a multiple of 16 bytes, and none may be negative.
        tile: the destination: a tile of rank 1, without swizzle, a multiple of 16 bytes.
        barrier: ``stage.barrier()`` of the stage that the tile belongs to, or a raw mbarrier.
        cache: how the L2 cache treats the data: ``"evict_first"``, ``"evict_normal"`` or
            ``"evict_last"``; None for its default.

    Raises:
        TypeMismatch: wrong kinds of arguments, dtypes that differ, a tile that has not rank 1,
            coordinates that do not match the rank.
        InvalidValue: a tile that the hardware cannot copy, an unknown ``cache``.

    Example::

        td.bulk_load(scales, (k, m * BM), stage.tile(), stage.barrier())
    """
    raise outside_kernel("td.bulk_load")
