"""Bulk tensor copies between global memory and tiles, by the tensor memory accelerator."""

from __future__ import annotations

from tiledsl.language.outside import outside_kernel
from tiledsl.language.pipeline import Barrier
from tiledsl.language.tensor import Tensor
from tiledsl.language.tile import SharedTile, Tile


def tma_load(tensor: Tensor, coords: tuple[int, ...], tile: SharedTile, barrier: Barrier) -> None:
    """Start a copy from a tensor to a shared tile; it completes on ``barrier``.

    What lies outside of the tensor reads as zero. The stage's byte count is derived from the
    loads on its barrier. One thread of the role issues the copy.

    Args:
        tensor: the source; its dtype must be the tile's.
        coords: the first element, one integer for each dimension of the tensor, in elements. A
            tile of lower rank takes extent 1 in the leading dimensions. They may lie outside of
            the tensor, also before it; the last one must be at a multiple of 16 bytes: else the
            GPU stops with an illegal instruction, and the emulator with an error.
        tile: the destination: a tile of the stage that is held, not transposed.
        barrier: ``stage.barrier()`` of the same stage.

    Raises:
        TypeMismatch: wrong kinds of arguments, dtypes that differ, a tile of higher rank than
            the tensor, coordinates that do not match the rank.
        InvalidValue: a tile that the hardware cannot copy: an inner row that is not a multiple
            of 16 bytes, or a middle dimension of more than 256.

    Example::

        td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
    """
    raise outside_kernel("td.tma_load")


def tma_store(tile: Tile | SharedTile, tensor: Tensor, coords: tuple[int, ...]) -> None:
    """Write a tile to a tensor.

    Elements that lie outside of the tensor are not written. Stores of a role are on their way at
    the same time: store each element once in a kernel, for nothing orders two stores to it (the
    emulator reports them). A register tile goes through a
    staging buffer in shared memory, which the compiler plans; the write overlaps with what
    follows. A load by the same role sees what it has stored before. Two stores to the same
    elements may arrive in either order, and elements of the tensor (``tensor[i, j]``) cannot be
    read or written in the same kernel.

    Args:
        tile: in registers, or in shared memory as it was loaded (not transposed).
        tensor: the destination; its dtype must be the tile's.
        coords: the first element, one integer for each dimension of the tensor, in elements. A
            tile of lower rank takes extent 1 in the leading dimensions. None may be negative,
            and the last one must be at a multiple of 16 bytes: else the GPU stops with an
            illegal instruction, and the emulator with an error.

    Raises:
        TypeMismatch: wrong kinds of arguments, dtypes that differ (convert with
            ``tile.to(tensor.dtype)``), a tile of higher rank than the tensor, coordinates that
            do not match the rank.
        InvalidValue: a tile that the hardware cannot copy; see ``tma_load``.

    Example::

        td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))
    """
    raise outside_kernel("td.tma_store")
