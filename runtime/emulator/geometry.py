"""The shape of a cluster: coordinates of its blocks, and who shares an axis with whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of ``prod(extents)`` blocks; rank 0 ... size - 1 with the first axis fastest."""

    extents: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.extents)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        found = []
        for extent in self.extents:
            rank, coordinate = divmod(rank, extent)
            found.append(coordinate)
        return tuple(found)

    def _differ(self, one: int, other: int) -> set[int]:
        """The axes along which two blocks stand at different places."""
        pairs = zip(self.coordinates(one), self.coordinates(other), strict=True)
        return {axis for axis, (a, b) in enumerate(pairs) if a != b}

    def sharing(self, axes: Sequence[int]) -> list[list[int]]:
        """For each rank the blocks that differ from it in at most one axis, of ``axes``."""
        ranks = range(self.size)
        legal: list[set[int]] = [set(), *({axis} for axis in axes)]
        return [[other for other in ranks if self._differ(rank, other) in legal] for rank in ranks]

    def group(self, axes: Sequence[int]) -> list[list[int]]:
        """For each rank the blocks that differ from it along ``axes`` only, itself included."""
        ranks, free = range(self.size), set(axes)
        return [[other for other in ranks if self._differ(rank, other) <= free] for rank in ranks]
