"""Bulk tensor copies between global memory and tiles, by the tensor memory accelerator."""

from __future__ import annotations

from tiledsl.language.barrier import Barrier
from tiledsl.language.outside import outside_kernel
from tiledsl.language.tensor import Tensor
from tiledsl.language.tile import SharedTile, Tile


def tma_load(
    tensor: Tensor,
    coords: tuple[int, ...],
    tile: SharedTile,
    barrier: Barrier,
    *,
    multicast: int | tuple[int, ...] | None = None,
    partitioned: bool = True,
    cache: str | None = None,
    element_strides: tuple[int, ...] | None = None,
) -> None:
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
        barrier: ``stage.barrier()`` of the same stage, or a raw mbarrier.
        multicast: cluster axis, or tuple of axes, along which all blocks load this same tile:
            ``coords`` must agree among them. Each byte is then read once for all of them.
        partitioned: whether each of those blocks loads an equal share of the tile's first extent
            and sends it to all; else the block that comes first along the axes loads the whole.
        cache: how the L2 cache treats the data: ``"evict_first"``, ``"evict_normal"`` or
            ``"evict_last"``; None for its default.
        element_strides: for each dimension of the tensor, the step between elements that are
            taken, 1 to 8, known at compile time; that of the last dimension is 1.

    Raises:
        TypeMismatch: wrong kinds of arguments, dtypes that differ, a tile of higher rank than
            the tensor, coordinates that do not match the rank.
        InvalidValue: a tile that the hardware cannot copy: an inner row that is not a multiple
            of 16 bytes, or a middle dimension of more than 256; multicast in a kernel without
            clusters, or shares that do not come out even; unknown options.

    Example::

        td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
        td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier(), multicast=0)
    """
    raise outside_kernel("td.tma_load")


def tma_load_im2col(
    tensor: Tensor,
    coords: tuple[int, ...],
    offsets: tuple[int, ...],
    tile: SharedTile,
    barrier: Barrier,
    *,
    lower: tuple[int, ...],
    upper: tuple[int, ...],
    strides: tuple[int, ...] | None = None,
    cache: str | None = None,
) -> None:
    """Start an im2col copy: the rows of a tile are pixels of a convolution, in walking order.

    The tensor is channels-last: (image, [depth, [height,]] width, channel). Row ``r`` of the tile
    has the channels of the pixel at ``corner + offsets``, where the corner (of the filter's
    window) walks from ``coords`` through the box of corners: along the width first, then the
    other spatial dimensions, then the images. In a spatial dimension of extent ``E`` the corners
    go from ``lower`` to ``E - 1 + upper`` in steps of ``strides``. What lies outside of the
    tensor reads as zero: that is the padding.

    For a filter of ``R`` taps with padding ``P`` on both sides the box is ``lower = -P``,
    ``upper = P - (R - 1)``; tap ``r`` is at offset ``r``.

    Args:
        tensor: the source, rank 3, 4 or 5; its dtype must be the tile's.
        coords: image, the first corner's position (one for each spatial dimension), and the first
            channel, which must be at a multiple of 16 bytes.
        offsets: position in the filter, one for each spatial dimension; at least 0, and below
            65536, 256, 32 for 1, 2, 3 spatial dimensions.
        tile: the destination, (pixels, channels): at most 1024 pixels.
        barrier: ``stage.barrier()`` of the same stage, or a raw mbarrier.
        lower, upper: bounds of the corners, one for each spatial dimension, known at compile
            time: -32768 ... 32767, -128 ... 127, -16 ... 15 for 1, 2, 3 spatial dimensions.
        strides: steps of the corners, 1 to 8, one for each spatial dimension, known at compile
            time; None for all 1.
        cache: as for ``tma_load``.

    Raises:
        TypeMismatch: wrong kinds of arguments, dtypes that differ, a tensor or tile of another
            rank, tuples of the wrong length.
        InvalidValue: bounds, offsets or strides out of their ranges, a tile that the hardware
            cannot copy.

    Example::

        # 3 x 3 filter, padding 1: tap (r, s) of the window at output pixel (p, q) of image n
        td.tma_load_im2col(
            x, (n, p - 1, q - 1, c * BK), (r, s), tile, stage.barrier(),
            lower=(-1, -1), upper=(-1, -1),
        )
    """
    raise outside_kernel("td.tma_load_im2col")


def tma_prefetch(
    tensor: Tensor, coords: tuple[int, ...], shape: tuple[int, ...], *, cache: str | None = None
) -> None:
    """Start to bring a tile of a tensor into the L2 cache; nothing waits for it.

    Args:
        tensor: the source.
        coords: the first element, as for ``tma_load``.
        shape: extents of the tile, known at compile time.
        cache: as for ``tma_load``.

    Raises:
        TypeMismatch, InvalidValue: as for ``tma_load`` of a tile of this shape.

    Example::

        td.tma_prefetch(a, (m * BM, (k + 8) * BK), (BM, BK))
    """
    raise outside_kernel("td.tma_prefetch")


def tma_store(
    tile: Tile | SharedTile,
    tensor: Tensor,
    coords: tuple[int, ...],
    *,
    reduce: str | None = None,
    cache: str | None = None,
) -> None:
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
        reduce: combine each element with what is in the tensor instead of replacing it, in one
            atomic step: ``"add"``, ``"min"``, ``"max"``, ``"and"``, ``"or"`` or ``"xor"``. Such
            stores may overlap. Adding exists for 32- and 64-bit integers, float32, float16 and
            bfloat16; min and max for all of these but float32; the others for the integers.
        cache: as for ``tma_load``.

    Raises:
        TypeMismatch: wrong kinds of arguments, dtypes that differ (convert with
            ``tile.to(tensor.dtype)``), a tile of higher rank than the tensor, coordinates that
            do not match the rank.
        InvalidValue: a tile that the hardware cannot copy, see ``tma_load``; a reduction that
            does not exist for the dtype; unknown options.

    Example::

        td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))
        td.tma_store(partial, c, (m * BM, n * BN), reduce="add")
    """
    raise outside_kernel("td.tma_store")
