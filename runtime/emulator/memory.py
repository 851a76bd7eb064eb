"""Shared memory of a block, and boxes of tensors in global memory.

Shared memory is one array of bytes at the planned offsets, so that objects which overlap in the
plan overlap here. Tiles lie unswizzled in it: a swizzle permutes the bytes of a tile, and the
permutation follows from the tile's type, which everybody who touches it shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.plan import Plan, SharedItem
from tiledsl.codegen.ir.types import BufferType, RingType
from tiledsl.errors import InternalError, Loc
from tiledsl.runtime.emulator.barriers import Mbarrier
from tiledsl.runtime.emulator.values import Array, numpy_dtype

POISON = 0xFF  # a NaN in every float dtype, -1 in signed integers


@dataclass(eq=False, slots=True)
class Tensor:
    """A tensor argument: its array (any strides) and the parameter's name."""

    name: str
    array: Array


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A tile in shared memory as an operation sees it.

    Attributes:
        array: a view of the block's memory in the shape the user sees.
        name: such as ``pipeline.a[3]``.
    """

    array: Array
    name: str

    def transposed(self) -> SharedArray:
        return SharedArray(self.array.T, self.name)


@dataclass(eq=False, slots=True)
class Ring:
    """A pipeline in a block: barriers by stage, and of each array the tiles of all stages."""

    name: str
    barriers: dict[str, list[Mbarrier]]
    tiles: list[list[SharedArray]]


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
    """The dynamic shared memory of one block, poisoned."""

    def __init__(self, plan: Plan) -> None:
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

    def ring(self, name: str, kind: RingType, counts: dict[tuple[str, str], int], loc: Loc) -> Ring:
        """A ring's tiles and initialised barriers."""
        number = kind.stages * kind.k_group
        tiles = []
        for one in kind.arrays:
            label = f"{name}.{one.name}"
            views = [
                self.array(label, one.shape, one.dtype, i, loc, one.pitch) for i in range(number)
            ]
            tiles.append([SharedArray(view, f"{label}[{i}]") for i, view in enumerate(views)])
        barriers = {
            which: [
                Mbarrier(name, which, stage, counts.get((name, which), 0))
                for stage in range(kind.stages)
            ]
            for which in ("full", "empty")
        }
        return Ring(name, barriers, tiles)

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


def _overlap(
    tensor: Array, coords: Sequence[int], shape: tuple[int, ...]
) -> tuple[tuple[slice | int, ...], tuple[slice, ...], bool] | None:
    """Where a box lies in a tensor, as indices of both; None when wholly outside.

    The box has extent 1 in the leading dimensions that it lacks. The flag says whether all of it
    lies inside.
    """
    lead = tensor.ndim - len(shape)
    outer: list[slice | int] = []
    for coord, extent in zip(coords[:lead], tensor.shape, strict=False):
        if not 0 <= coord < extent:
            return None
        outer.append(coord)
    inner: list[slice] = []
    whole = True
    for coord, size, extent in zip(coords[lead:], shape, tensor.shape[lead:], strict=True):
        low, high = max(coord, 0), min(coord + size, extent)
        if low >= high:
            return None
        whole = whole and high - low == size
        outer.append(slice(low, high))
        inner.append(slice(low - coord, high - coord))
    return tuple(outer), tuple(inner), whole


def load_box(tensor: Array, coords: Sequence[int], target: Array) -> None:
    """Fill ``target`` from the box of its shape at ``coords``; what lies outside reads as zero."""
    found = _overlap(tensor, coords, target.shape)
    if found is None:
        target[...] = 0
        return
    outer, inner, whole = found
    if whole:
        target[...] = tensor[outer]
        return
    target[...] = 0
    target[inner] = tensor[outer]


def box_of(tensor: Array, coords: Sequence[int], shape: tuple[int, ...]) -> Array | None:
    """The part of ``tensor`` that a copy of a box of ``shape`` at ``coords`` reaches, as a view."""
    found = _overlap(tensor, coords, shape)
    return None if found is None else tensor[found[0]]


def store_box(tensor: Array, coords: Sequence[int], source: Array) -> None:
    """Write ``source`` to the box of its shape at ``coords``; what lies outside is left out."""
    found = _overlap(tensor, coords, source.shape)
    if found is not None:
        outer, inner, _ = found
        tensor[outer] = source[inner]
