"""Which output tiles a block computes, and in which order."""

from __future__ import annotations

from collections.abc import Iterator

from tiledsl.language.outside import outside_kernel
from tiledsl.language.role import Me


class TileScheduler:
    """Deals the tiles of an ``m_tiles`` x ``n_tiles`` grid to the blocks of the launch.

    ``for m, n in tiles:`` visits block ``i``'s tiles ``i``, ``i + blocks``, ``i + 2 * blocks``...
    in grouped order: ``group`` rows of tiles at a time, down each column of the group before the
    next column, so that blocks running at the same time share rows of A and columns of B in the
    L2 cache. The last group has the rows that are left. ``m`` and ``n`` are tile numbers (int32
    run-time values), to be multiplied by the tile's extents. Each loop over a scheduler starts
    anew: roles that loop over one scheduler see the same tiles in the same order.

    In a kernel with clusters of shape (cm, cn) the tiles are dealt to clusters: each takes a
    block of cm x cn neighbouring tiles, of which the block with the coordinates (i, j) in the
    cluster gets tile (i, j). All blocks of a cluster make the same number of steps; where cm or
    cn does not divide the grid, a block may get a tile outside of it: loads give zeros there, and
    stores write nothing. Blocks along a third axis of the cluster get the same tiles.

    In a grid of several axes the tiles are dealt along axis 0 and the axes along which clusters
    have more than one block; blocks that differ along other axes only get the same tiles.

    Args:
        m_tiles, n_tiles: numbers of tiles, known at compile time or at run time; fewer than one
            means no tile. Their product must fit int32.
        group: rows of a group, known at compile time, at least 1.
        lockstep: keep the blocks in step, known at compile time: a hint for speed, without which
            the results are the same. In a role that loads by TMA or bulk copies as one thread, a
            block begins a tile when all blocks of the launch have begun as many, so that they
            meet in the L2 cache. It gives up when that takes longer than some 70 microseconds,
            for instance because not all blocks run at once. It pays where blocks compute dozens
            of tiles each from matrices far larger than the cache, and costs up to 1 % elsewhere.
            Loops of other roles, outside of roles, and over ``deal`` are as without it.

    Raises:
        TypeMismatch: numbers that are no integers; a group, or lockstep, that is only known at
            run time.
        InvalidValue: a group smaller than 1.

    Example::

        tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8)
        for m, n in tiles:
            td.tma_store(result, c, (m * BM, n * BN))
    """

    def __init__(self, m_tiles: int, n_tiles: int, group: int = 8, lockstep: bool = False) -> None:
        raise outside_kernel("td.TileScheduler")

    def __iter__(self) -> Iterator[tuple[int, int]]:
        raise outside_kernel("TileScheduler")

    @property
    def num_tiles(self) -> int:
        """Tiles of the whole grid, over all blocks: ``m_tiles * n_tiles``."""
        raise outside_kernel("TileScheduler.num_tiles")

    def deal(self, role: Me) -> Iterator[tuple[int, int]]:
        """This block's tiles, dealt to the replicas of a role: every count-th one.

        Args:
            role: what ``with td.role(...) as role:`` gives. Without replicas it gets all tiles.

        Raises:
            TypeMismatch: not a role.

        Example::

            with td.role("mma", warps=4, replicas=2) as me:
                for m, n in tiles.deal(me):
                    ...
        """
        raise outside_kernel("TileScheduler.deal")
