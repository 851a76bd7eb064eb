"""Matrix products on the tensor cores."""

from __future__ import annotations

from tiledsl.language.outside import outside_kernel
from tiledsl.language.tile import SharedTile, Tile


def mma(a: SharedTile, b: SharedTile, acc: Tile) -> Tile:
    """``acc + a @ b``, on the tensor cores, by all warps of the role together.

    The result is a value: ``acc`` itself does not change. The hardware works asynchronously, which
    the compiler hides: it waits where the result is first used, and keeps a stage until nothing
    reads it any more.

    Args:
        a: (M, K), in shared memory. M is a multiple of 64 for each warpgroup of the role.
        b: (K, N), in shared memory; N is a multiple of 8, at most 256. A tile that was loaded as
            (N, K) is given as ``b_tile.T``.
        acc: (M, N), float32, in registers.

    ``a`` and ``b`` have one dtype: bfloat16 or float16, stored with either dimension contiguous;
    or float8_e4m3fn or float8_e5m2 (both alike), stored with K contiguous: ``a`` as loaded from
    (M, K), ``b`` as ``tile.T`` of (N, K). A tile has K in multiples of 32 bytes (16 elements of 16
    bits, 32 of fp8) and needs a row of at least 32 bytes.

    Returns:
        A float32 register tile of shape (M, N).

    Raises:
        TypeMismatch: wrong kinds of arguments, shapes that do not fit together, dtypes that the
            tensor cores do not multiply.
        InvalidValue: a tile shape that wgmma does not have.

    Example::

        acc = td.mma(a_tile, b_tile.T, acc)
    """
    raise outside_kernel("td.mma")
