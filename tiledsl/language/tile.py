"""Tiles: in the registers of a role, and in shared memory."""

from __future__ import annotations

from typing import Any

from tiledsl.codegen.ir.dtypes import DType, float32, int32
from tiledsl.language.outside import outside_kernel
from tiledsl.language.tensor import Tensor


class Tile:
    """A tile in the registers of a role, spread over all of its threads.

    Shape and dtype are known at compile time. Arithmetic and comparison work element by element,
    between tiles of one shape and dtype, and between a tile and a number, which adapts to the
    tile's dtype. Nothing is converted on the way: tiles of two dtypes are an error until one is
    converted with ``.to``. A tile belongs to the role that made it.

    A tile of rank 2 has a multiple of 64 rows for each warpgroup of the role, and a multiple of 8
    columns: the accumulator layout of wgmma. A tile of rank 1 belongs to the rows or the columns
    of a tile of rank 2: ``x[None, :]`` repeats it in every row, ``x[:, None]`` in every column. One
    tile cannot be both: load or compute it twice.

    Example::

        acc = td.zeros((128, 256), td.float32)
        acc = td.mma(a_tile, b_tile.T, acc)
        bias = td.load(bias_tensor, (n * 256,), (256,))
        out = (acc * alpha + bias[None, :]).to(td.bfloat16)
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

    def __getitem__(self, index: tuple[None, slice] | tuple[slice, None]) -> Tile:
        """``x[None, :]`` or ``x[:, None]``: a tile of rank 1 with a new axis.

        It is repeated along that axis to the extent of what it meets in an operator, in
        ``td.where`` or in a function of two tiles.
        """
        raise outside_kernel("Tile[...]")


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

    def load(self) -> Tile:
        """The tile in registers, read by all threads of the role.

        Raises:
            TypeMismatch: a tile of rank 3 or more.

        Example::

            with residual.consumer().acquire() as stage:
                acc = acc + stage.tile().load().to(td.float32)
        """
        raise outside_kernel("SharedTile.load")

    def store(self, value: Tile) -> None:
        """Write a register tile of the same shape and dtype, by all threads of the role.

        In a producer's stage: the consumers see it when the stage is released.

        Raises:
            TypeMismatch: not a register tile, or another shape or dtype.

        Example::

            with hidden.producer().acquire() as stage:
                stage.tile().store(td.maximum(acc, 0.0).to(td.bfloat16))
        """
        raise outside_kernel("SharedTile.store")


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


def iota(shape: tuple[int, ...], axis: int = 0, dtype: DType = int32) -> Tile:
    """A register tile of each element's index along ``axis``.

    Args:
        shape: extents in elements, known at compile time.
        axis: known at compile time.
        dtype: element type: an integer, or a float of at least 16 bits.

    Raises:
        TypeMismatch: the shape is not a tuple of compile-time integers; another dtype.
        InvalidValue: an extent is not positive; no such axis.

    Example::

        column = n * 256 + td.iota((128, 256), 1)
        acc = td.where(column < length, acc, -math.inf)
    """
    raise outside_kernel("td.iota")


def where(condition: Tile | bool, a: Any, b: Any) -> Any:
    """``a`` where the condition holds, else ``b``, element by element. Both are computed.

    Args:
        condition: a register tile of bool_, or one bool_.
        a, b: register tiles or numbers, in any mix. Two tiles must have one dtype; a number takes
            the tile's. Of three numbers the result is a number.

    Raises:
        TypeMismatch: a condition that is no bool_, other arguments that are neither tiles nor
            numbers, tiles of different shapes or dtypes.

    Example::

        acc = td.where(row >= column, acc, -math.inf)
    """
    raise outside_kernel("td.where")


def load(tensor: Tensor, coords: tuple[int, ...], shape: tuple[int, ...]) -> Tile:
    """Read a register tile from a tensor, by all threads of the role.

    Any alignment and any strides. What lies outside of the tensor reads as zero.

    Args:
        tensor: the source.
        coords: the first element, one integer for each dimension of the tensor, in elements.
        shape: one or two extents in elements, known at compile time; not more than the tensor has
            dimensions. It takes extent 1 in the leading dimensions.

    Raises:
        TypeMismatch: wrong kinds of arguments, a shape of three extents or more or of more than
            the tensor's rank, coordinates that do not match the rank.
        InvalidValue: an extent is not positive.

    Example::

        bias = td.load(bias_tensor, (n * BN,), (BN,))
    """
    raise outside_kernel("td.load")


def store(value: Tile, tensor: Tensor, coords: tuple[int, ...]) -> None:
    """Write a register tile to a tensor, by all threads of the role.

    Any alignment and any strides. Elements that lie outside of the tensor are not written.

    Args:
        value: a register tile.
        tensor: the destination; its dtype must be the tile's.
        coords: the first element, one integer for each dimension of the tensor, in elements. A
            tile of lower rank takes extent 1 in the leading dimensions.

    Raises:
        TypeMismatch: wrong kinds of arguments, dtypes that differ (convert with
            ``value.to(tensor.dtype)``), a tile of higher rank than the tensor, coordinates that
            do not match the rank.

    Example::

        td.store(row_sums, sums, (m * BM,))
    """
    raise outside_kernel("td.store")
