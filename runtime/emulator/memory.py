"""Shared memory of a block: tiles, barriers and buffers, and who wrote what through which proxy.

Shared memory is one array of bytes at the planned offsets, so that objects which overlap in the
plan overlap here. Tiles lie unswizzled in it: a swizzle permutes the bytes of a tile, and the
permutation follows from the tile's type, which everybody who touches it shares.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.plan import Plan, SharedItem
from tiledsl.codegen.ir.types import BufferType, RingType, TileArray
from tiledsl.errors import InternalError, Loc
from tiledsl.runtime.emulator.barriers import Mbarrier
from tiledsl.runtime.emulator.machine import Part
from tiledsl.runtime.emulator.values import Array, numpy_dtype

POISON = 0xFF  # a NaN in every float dtype, -1 in signed integers


@dataclass(eq=False, slots=True)
class Tensor:
    """A tensor argument: its array (any strides) and the parameter's name."""

    name: str
    array: Array


@dataclass(eq=False, slots=True)
class GenericWrites:
    """What TMA and wgmma may not see of a tile yet: plain writes that nobody has fenced.

    Attributes:
        writers: the parts whose threads have written since the last fence of their own, and where.
        readers: the parts that have fenced since the last write. A fence makes all writes that
            its thread knows of visible to what this thread starts behind it.
    """

    writers: dict[Part, Loc] = field(default_factory=dict)
    readers: set[Part] = field(default_factory=set)

    def check(self, part: Part, name: str, act: str, loc: Loc) -> None:
        """Raise ``InternalError`` unless what ``part`` starts sees every write."""
        if part in self.readers:
            return
        for writer, where in self.writers.items():
            raise InternalError(
                f"{part.label} {act} {name}, which {writer.label} has written by plain stores or"
                " cp.async: expected a fence.proxy_async behind them, or here before",
                loc,
                notes=(("written here", where),),
            )


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A tile in shared memory as an operation sees it.

    Attributes:
        array: a view of the block's memory in the shape the user sees.
        name: such as ``pipeline.a[3]``.
        number: which of the block's tiles it is: the same in every block of a cluster.
        generic: the plain writes to it.
    """

    array: Array
    name: str
    number: int
    generic: GenericWrites

    def transposed(self) -> SharedArray:
        return SharedArray(self.array.T, self.name, self.number, self.generic)


@dataclass(eq=False, slots=True)
class Ring:
    """A pipeline in a block: barriers by stage, and of each array the tiles of all stages."""

    name: str
    barriers: dict[str, list[Mbarrier]]
    tiles: list[list[SharedArray]]


@dataclass(eq=False, slots=True)
class Word:
    """One int32 in shared memory."""

    name: str
    value: int


@dataclass(eq=False, slots=True)
class Buffer:
    """A part's staging buffer: its boxes, and how far each box has come.

    ``contents`` of a box are ``"poison"``, ``"written"`` by this part's threads, ``"fenced"``
    (each thread has made its writes visible to TMA), then ``"visible"`` (all threads have done
    so). ``readers`` counts the stores that may still read a box, as far as all threads know.
    """

    name: str
    boxes: list[Array]
    contents: list[str] = field(default_factory=list)
    readers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.contents = ["poison"] * len(self.boxes)
        self.readers = [0] * len(self.boxes)

    def advance(self, before: str, after: str) -> None:
        self.contents = [after if c == before else c for c in self.contents]


class SharedMemory:
    """The dynamic shared memory of one block, poisoned.

    Attributes:
        tiles, barriers: all of them, in the order in which they were made: the same in every block
            of a cluster.
        unfenced: tiles with plain writes that TMA and wgmma may not see yet.
    """

    def __init__(self, plan: Plan, rank: int = 0) -> None:
        self.tiles: list[SharedArray] = []
        self.barriers: list[Mbarrier] = []
        self.unfenced: dict[GenericWrites, None] = {}
        self._rank = rank
        self._counts = plan.counts
        self.bytes = np.full(plan.shared_bytes, POISON, np.uint8)
        self._items = {item.name: item for item in plan.shared}

    def array(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType,
        index: int,
        loc: Loc,
        pitch: int | None = None,
    ) -> Array:
        """Element ``index`` of the run of equal arrays that the plan calls ``name``.

        ``pitch`` are the bytes from one to the next, where they do not touch.
        """
        item = self._items.get(name)
        if item is None:
            raise InternalError(f"the plan has no shared memory for {name}", loc)
        kind = numpy_dtype(dtype)
        nbytes = int(np.prod(shape)) * kind.itemsize
        start = index * (nbytes if pitch is None else pitch)
        if start + nbytes > item.nbytes:
            raise InternalError(
                f"{name}: element {index} of {nbytes} bytes exceeds the {item.nbytes} bytes"
                " planned for it",
                loc,
            )
        first = item.offset + start
        return self.bytes[first : first + nbytes].view(kind).reshape(shape)

    def row(self, label: str, array: TileArray, number: int, loc: Loc) -> list[SharedArray]:
        """``number`` tiles of an array that the plan calls ``label``."""
        row = []
        for i in range(number):
            view = self.array(label, array.shape, array.dtype, i, loc, array.pitch)
            row.append(SharedArray(view, f"{label}[{i}]", len(self.tiles), GenericWrites()))
            self.tiles.append(row[-1])
        return row

    def mbarriers(self, name: str, which: str, number: int, count: int) -> list[Mbarrier]:
        """``number`` initialised mbarriers."""
        row = []
        for i in range(number):
            row.append(Mbarrier(name, which, i, count, len(self.barriers), self._rank))
            self.barriers.append(row[-1])
        return row

    def ring(self, name: str, kind: RingType, loc: Loc) -> Ring:
        """A ring's tiles and initialised barriers."""
        tiles = [
            self.row(f"{name}.{one.name}", one, kind.stages * one.tiles, loc) for one in kind.arrays
        ]
        barriers = {
            which: self.mbarriers(name, which, kind.stages, self._counts.get((name, which), 0))
            for which in ("full", "empty")
        }
        return Ring(name, barriers, tiles)

    def written(self, tile: SharedArray, part: Part, loc: Loc) -> None:
        """The threads of ``part`` have written to a tile, through the generic proxy."""
        tile.generic.writers[part] = loc
        tile.generic.readers.clear()
        self.unfenced[tile.generic] = None

    def fence(self, part: Part) -> None:
        """``fence.proxy.async`` by the threads of ``part``."""
        for writes in list(self.unfenced):
            writes.readers.add(part)
            writes.writers.pop(part, None)
            if not writes.writers:
                self.loaded(writes)

    def loaded(self, writes: GenericWrites) -> None:
        """A tile has no plain writes left that need a fence, such as behind a bulk copy to it."""
        writes.writers.clear()
        writes.readers.clear()
        self.unfenced.pop(writes, None)

    def buffer(self, name: str, kind: BufferType, part: int, loc: Loc) -> Buffer:
        """The staging buffer of one part."""
        first = part * kind.count
        boxes = [
            self.array(name, kind.shape, kind.dtype, first + i, loc) for i in range(kind.count)
        ]
        return Buffer(name, boxes)


def check_plan(plan: Plan, loc: Loc) -> None:
    """Raise ``InternalError`` when objects overlap, are misaligned or exceed the block's memory."""
    end, before = 0, "the start"
    for item in sorted(plan.shared, key=lambda item: item.offset):
        if item.offset < end:
            raise InternalError(f"shared memory of {item.name} overlaps that of {before}", loc)
        if item.offset % item.align:
            raise InternalError(
                f"shared memory of {item.name} at {item.offset} is not aligned to {item.align}", loc
            )
        end, before = _end(item), item.name
    if end > plan.shared_bytes:
        raise InternalError(f"{before} ends at {end} of {plan.shared_bytes} bytes", loc)


def _end(item: SharedItem) -> int:
    return item.offset + item.nbytes
