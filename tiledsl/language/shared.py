"""Shared tiles of the kernel's own, outside of any pipeline."""

from __future__ import annotations

from typing import overload

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.language.outside import outside_kernel
from tiledsl.language.tile import SharedTile


class SharedTiles:
    """A row of shared tiles: ``td.shared(..., number=...)``."""

    def __getitem__(self, index: int) -> SharedTile:
        """Tile ``index``, from 0 on; known at compile time or at run time."""
        raise outside_kernel("SharedTiles[...]")

    @property
    def number(self) -> int:
        """How many there are."""
        raise outside_kernel("SharedTiles.number")

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of one tile in elements."""
        raise outside_kernel("SharedTiles.shape")

    @property
    def dtype(self) -> DType:
        """Element type."""
        raise outside_kernel("SharedTiles.dtype")

    @property
    def swizzle(self) -> int:
        """The swizzle of the tiles in bytes: 128, 64, 32, or 0 for none."""
        raise outside_kernel("SharedTiles.swizzle")


@overload
def shared(
    shape: tuple[int, ...], dtype: DType, *, number: None = None, swizzle: int | None = None
) -> SharedTile: ...


@overload
def shared(
    shape: tuple[int, ...], dtype: DType, *, number: int, swizzle: int | None = None
) -> SharedTiles: ...


def shared(
    shape: tuple[int, ...],
    dtype: DType,
    *,
    number: int | None = None,
    swizzle: int | None = None,
) -> SharedTile | SharedTiles:
    """A tile in shared memory that belongs to no pipeline, or a row of them.

    Made at the top of the kernel. Nothing guards it: the order of what is written and read is the
    user's, by ``td.mbarrier`` or ``td.named_barrier``. Its contents are undefined at first.

    Args:
        shape: extents of one tile in elements, known at compile time; one to five of them.
        dtype: element type.
        number: how many tiles; None for a single one.
        swizzle: 128, 64, 32 or 0 bytes; None for the widest that fits (see ``td.TileArray``).

    Raises:
        TypeMismatch: a shape or number that is only known at run time; a value that is no dtype.
        InvalidValue: extents that are not positive; a swizzle that does not fit.
        SyntaxNotSupported: inside of a role, loop or branch.

    Example::

        q_tile = td.shared((BM, D), td.bfloat16)
        scales = td.shared((BM,), td.float32, number=2)
    """
    raise outside_kernel("td.shared")
