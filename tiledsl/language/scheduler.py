"""Which output tiles a block computes, and in which order."""

from __future__ import annotations

from collections.abc import Iterator

from tiledsl.language.outside import outside_kernel


class TileScheduler:
    """Deals the tiles of an ``m_tiles`` x ``n_tiles`` grid to the blocks of the launch.

    ``for m, n in tiles:`` visits block ``i``'s tiles ``i``, ``i + blocks``, ``i + 2 * blocks``...
    in grouped order: ``group`` rows of tiles at a time, down each column of the group before the
    next column, so that blocks running at the same time share rows of A and columns of B in the
    L2 cache. The last group has the rows that are left. ``m`` and ``n`` are tile numbers (int32
    run-time values), to be multiplied by the tile's extents. Each loop over a scheduler starts
    anew: roles that loop over one scheduler see the same tiles in the same order.

    Args:
        m_tiles, n_tiles: numbers of tiles, known at compile time or at run time; fewer than one
            means no tile. Their product must fit int32.
        group: rows of a group, known at compile time, at least 1.

    Raises:
        TypeMismatch: numbers that are no integers; a group that is only known at run time.
        InvalidValue: a group smaller than 1.

    Example::

        tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8)
        for m, n in tiles:
            td.tma_store(result, c, (m * BM, n * BN))
    """

    def __init__(self, m_tiles: int, n_tiles: int, group: int = 8) -> None:
        raise outside_kernel("td.TileScheduler")

    def __iter__(self) -> Iterator[tuple[int, int]]:
        raise outside_kernel("TileScheduler")

    @property
    def num_tiles(self) -> int:
        """Tiles of the whole grid, over all blocks: ``m_tiles * n_tiles``."""
        raise outside_kernel("TileScheduler.num_tiles")
