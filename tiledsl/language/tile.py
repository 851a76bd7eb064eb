"""Tiles: in the registers of a role, and in shared memory."""

from __future__ import annotations

from typing import Any

from tiledsl.codegen.ir.dtypes import DType, float32
from tiledsl.language.outside import outside_kernel


class Tile:
    """A tile in the registers of a role, spread over all of its threads.

    Shape and dtype are known at compile time. Arithmetic and comparison work element by element,
    between tiles of one shape and dtype, and between a tile and a number, which adapts to the
    tile's dtype. Nothing is converted on the way: tiles of two dtypes are an error until one is
    converted with ``.to``. A tile belongs to the role that made it.

    For now a register tile has rank 2, a multiple of 64 rows for each warpgroup of the role, and a
    multiple of 8 columns: the accumulator layout of wgmma.

    Example::

        acc = td.zeros((128, 256), td.float32)
        acc = td.mma(a_tile, b_tile.T, acc)
        out = (acc * alpha).to(td.bfloat16)
    """

    def __init__(self) -> None:
        raise outside_kernel("td.Tile")

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents in elements, known at compile time."""
        raise outside_kernel("Tile.shape")

    @property
    def dtype(self) -> DType:
        """Element type, known at compile time."""
        raise outside_kernel("Tile.dtype")

    def to(self, dtype: DType) -> Tile:
        """The same tile in another dtype.

        Floats round to nearest even (fp8 saturates); float to integer truncates towards zero and
        saturates; a narrower integer wraps.
        """
        raise outside_kernel("Tile.to")

    def __add__(self, other: Tile | float) -> Tile:
        raise outside_kernel("Tile + ...")

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__

    def __neg__(self) -> Tile:
        raise outside_kernel("-Tile")


class SharedTile:
    """A tile in shared memory: a slot of a pipeline's payload. Loads write it, mma reads it.

    Shape, dtype and swizzle are known at compile time. It may be used only while the stage that
    it belongs to is held.
    """

    def __init__(self) -> None:
        raise outside_kernel("td.SharedTile")

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents in elements, known at compile time."""
        raise outside_kernel("SharedTile.shape")

    @property
    def dtype(self) -> DType:
        """Element type, known at compile time."""
        raise outside_kernel("SharedTile.dtype")

    @property
    def nbytes(self) -> int:
        """Size in bytes: what one load of the whole tile brings."""
        raise outside_kernel("SharedTile.nbytes")

    @property
    def T(self) -> SharedTile:
        """The tile of rank 2 with its dimensions exchanged. A view: moves nothing."""
        raise outside_kernel("SharedTile.T")


def zeros(shape: tuple[int, ...], dtype: DType = float32) -> Tile:
    """A register tile of zeros.

    Args:
        shape: extents in elements, known at compile time.
        dtype: element type.

    Raises:
        TypeMismatch: the shape is not a tuple of compile-time integers.
        InvalidValue: an extent is not positive.

    Example::

        acc = td.zeros((128, 256), td.float32)
    """
    raise outside_kernel("td.zeros")


def full(shape: tuple[int, ...], value: Any, dtype: DType | None = None) -> Tile:
    """A register tile with every element equal to ``value``.

    Args:
        shape: extents in elements, known at compile time.
        value: a number, known at compile time or at run time.
        dtype: element type; by default that of ``value`` (float32 for a float literal, int32 for
            an int literal).

    Raises:
        TypeMismatch: the shape is not a tuple of compile-time integers, or ``value`` no number.
        InvalidValue: an extent is not positive.

    Example::

        lowest = td.full((64, 128), -math.inf, td.float32)
    """
    raise outside_kernel("td.full")
