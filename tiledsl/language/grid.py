"""The launch grid, seen from a block; and loops that are unrolled."""

from __future__ import annotations

from tiledsl.language.outside import outside_kernel


class Persistent:
    """The type of ``td.persistent``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "td.persistent"


# For `@td.kernel(grid=td.persistent)`: one block on each multiprocessor, which walks several tiles;
# in clusters as many of them as the device runs at once.
persistent = Persistent()


def block_id(axis: int = 0) -> int:
    """This block's number in the grid along ``axis``: an int32 run-time value.

    Args:
        axis: 0, 1 or 2, known at compile time.

    Raises:
        InvalidValue: another axis.
    """
    raise outside_kernel("td.block_id")


def num_blocks(axis: int = 0) -> int:
    """The number of blocks in the grid along ``axis``: an int32 run-time value.

    Args:
        axis: 0, 1 or 2, known at compile time.

    Raises:
        InvalidValue: another axis.
    """
    raise outside_kernel("td.num_blocks")


def static_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """``range`` whose loop is unrolled: the counter is known at compile time in each copy.

    Outside of kernels this is ``range``.

    Args:
        start, stop, step: as for ``range``, known at compile time.

    Raises:
        TypeMismatch: a bound that is only known at run time.
        InvalidValue: a step of zero.

    Example::

        for k in td.static_range(k_group_size):
            a_tile, b_tile = stage.payload().get_tile(stage.stage(), k)
    """
    return range(start) if stop is None else range(start, stop, step)
