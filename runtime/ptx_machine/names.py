"""What the parts of a program are called: plain data from whoever compiled it, for messages.

The machine works without any of it; it then gives addresses, and symbols with offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiledsl.errors import Loc

__all__ = ["ArrayName", "BarrierName", "NamedName", "Names", "RoleName", "SharedName"]


@dataclass(frozen=True, slots=True)
class SharedName:
    """An object in dynamic shared memory.

    Attributes:
        offset, nbytes: from the start of dynamic shared memory.
        name: such as ``tile 'x' of pipeline 'pipeline'``.
        pitch: bytes from one of its parts to the next; 0 where it has none.
        part: what a part is called: ``tile``, ``mbarrier``, ``box``...
        per_stage: parts of a stage of a ring; 0 where it belongs to no ring.
        row_bytes, item_bytes, swizzle: of a part of rows, in bytes; ``row_bytes`` 0: not in rows.
    """

    offset: int
    nbytes: int
    name: str
    pitch: int = 0
    part: str = ""
    per_stage: int = 0
    row_bytes: int = 0
    item_bytes: int = 1
    swizzle: int = 0

    def describe(self, at: int) -> str:
        """Byte ``at`` of the object: which stage, part, row and column."""
        text = self.name
        if self.pitch:
            part, at = divmod(at, self.pitch)
            if self.per_stage:
                stage, part = divmod(part, self.per_stage)
                text += f", stage {stage}"
            if self.nbytes > self.pitch and self.per_stage != 1:
                text += f", {self.part} {part}"
        text += f", byte {at}"
        if self.row_bytes:
            # A swizzle exchanges the 16-byte chunks of a row by bits of the row's number.
            chunks = max(self.swizzle // 16, 1) - 1
            plain = at ^ ((at >> 7 & chunks) << 4)
            row, inside = divmod(plain, self.row_bytes)
            text += f" (row {row}, column {inside // self.item_bytes})"
        return text


@dataclass(frozen=True, slots=True)
class ArrayName:
    """An array in global memory: where its first element lies, and strides in bytes."""

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def index(self, address: int) -> str:
        """``x[3, 5]``; of an address before or behind, the index that would lie there."""
        left, found = address - self.address, [0] * len(self.shape)
        order = sorted(range(len(self.shape)), key=lambda axis: -abs(self.strides[axis]))
        for axis in order:
            if self.strides[axis]:
                found[axis], left = divmod(left, self.strides[axis])
        return f"{self.name}[{', '.join(map(str, found))}]"


@dataclass(frozen=True, slots=True)
class RoleName:
    """A role: its warps in a block, and the parts that they are dealt to."""

    first_warp: int
    warps: int
    name: str
    parts: int = 1


@dataclass(frozen=True, slots=True)
class BarrierName:
    """An mbarrier.

    Attributes:
        ring: name of its pipeline; of a raw one, its own.
        which: ``full``, ``empty`` or ``raw``.
        stage: its slot in the pipeline; of a raw one, its number in its row.
        arrivals: who arrives on it, and where.
        loads: where the copies are issued that bring its bytes.
    """

    ring: str
    which: str
    stage: int
    arrivals: tuple[tuple[str, Loc], ...] = ()
    loads: tuple[Loc, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedName:
    """A named barrier: its name, and who comes to it, where."""

    name: str
    arrivals: tuple[tuple[str, Loc], ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """All of them. ``barriers`` by their offset in dynamic shared memory, ``named`` by number."""

    shared: tuple[SharedName, ...] = ()
    arrays: tuple[ArrayName, ...] = ()
    roles: tuple[RoleName, ...] = ()
    barriers: Mapping[int, BarrierName] = field(default_factory=dict)
    named: Mapping[int, NamedName] = field(default_factory=dict)
