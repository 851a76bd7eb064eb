"""Bulk copies to shared memory: of tensor boxes, im2col and 1-D.

A bulk copy writes its tile at some moment after its issue and then completes bytes on its barrier,
in each block that a multicast reaches at a moment of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.codegen.ir.ops import copy, tile
from tiledsl.codegen.ir.types import TensorType
from tiledsl.errors import InternalError, InvalidValue, Loc
from tiledsl.runtime.emulator.barriers import Mbarrier
from tiledsl.runtime.emulator.boxes import load_box, load_im2col, load_strided
from tiledsl.runtime.emulator.compile import Compiler, Signal, Step, step
from tiledsl.runtime.emulator.machine import BlockState, Part
from tiledsl.runtime.emulator.memory import SharedArray, Tensor
from tiledsl.runtime.emulator.values import Array

COPY_UNIT = 16  # bytes at whose multiples a copy starts in global memory
# Positions in the filter that an im2col copy can name, by the number of spatial dimensions.
_OFFSETS = {1: 1 << 16, 2: 1 << 8, 3: 1 << 5}

Coords = tuple[int, ...]
Fill = Callable[[Array, Coords, Array], None]  # tensor, coordinates, target


@dataclass(eq=False, slots=True)
class Load:
    """A bulk copy to shared memory: ``fill`` writes ``target``, all or a share of ``tile``."""

    tensor: Tensor
    coords: Coords
    tile: SharedArray
    target: Array
    barrier: Mbarrier
    block: BlockState
    fill: Fill
    done: bool = False
    forced: ClassVar[bool] = False

    def act(self) -> None:
        self.fill(self.tensor.array, self.coords, self.target)
        writes = self.tile.generic
        if writes.writers:
            self.block.memory.loaded(writes)
        self.done = True
        self.barrier.complete_bytes(self.target.nbytes)


def check_coordinates(tensor: Tensor, coords: Coords, stores: bool, loc: Loc) -> None:
    """Where the hardware stops with an illegal instruction, the emulator says why.

    Raises:
        InvalidValue: the innermost coordinate is not at a multiple of 16 bytes, or a store starts
            before the tensor (a load may: what lies outside reads as zero).
    """
    nbytes = coords[-1] * tensor.array.itemsize
    if nbytes % COPY_UNIT:
        raise InvalidValue(
            f"a TMA copy of tensor {tensor.name!r} starts at innermost coordinate {coords[-1]},"
            f" which is byte {nbytes} of a row: expected a multiple of {COPY_UNIT} bytes",
            loc,
            hint=f"use a multiple of {COPY_UNIT // tensor.array.itemsize} for the last coordinate",
        )
    if stores and min(coords) < 0:
        raise InvalidValue(
            f"a TMA store to tensor {tensor.name!r} starts at {coords}, before the tensor: expected"
            " coordinates of at least 0",
            loc,
            hint="only loads may start before a tensor",
        )


# ------------------------------------------------------------------------- tensor copies


@step(tile.TmaLoad)
def _load(cx: Compiler, op: tile.TmaLoad) -> Step:
    tensor, coords = cx.slot(op.tensor), cx.slots(op.coords)
    target, barrier = cx.slot(op.tile), cx.slot(op.barrier)
    loc = op.loc
    fill = (
        _strided(op.element_strides, loc) if any(s != 1 for s in op.element_strides) else load_box
    )
    if op.multicast:
        return _multicast(cx, op, fill)

    def run(part: Part) -> Signal:
        if part.elected("role"):
            registers, block = part.registers, part.block
            shared: SharedArray = registers[target]
            at = tuple([registers[coord] for coord in coords])
            check_coordinates(registers[tensor], at, False, loc)
            block.start(
                Load(registers[tensor], at, shared, shared.array, registers[barrier], block, fill)
            )
            block.result.tma_loads += 1
            block.result.tma_load_bytes += shared.array.nbytes
        return None

    return run


def _strided(strides: tuple[int, ...], loc: Loc) -> Fill:
    if strides[-1] != 1 or min(strides) < 1:
        raise InternalError(f"element strides {strides}: expected 1 in the last dimension", loc)
    return lambda tensor, coords, target: load_strided(tensor, coords, strides, target)


def _multicast(cx: Compiler, op: tile.TmaLoad | copy.TmaLoadIm2col, fill: Fill | None) -> Step:
    """The blocks of a group write a tile into all of them, each its share or the first the whole.

    ``fill`` None: an im2col load, which only the first can do as a whole.
    """
    tensor, coords = cx.slot(op.tensor), cx.slots(op.coords)
    target, barrier = cx.slot(op.tile), cx.slot(op.barrier)
    loc, groups = op.loc, cx.cluster.group(op.multicast)
    shares = isinstance(op, tile.TmaLoad) and op.partitioned
    make = _im2col_fill(cx, op) if isinstance(op, copy.TmaLoadIm2col) else None
    strides = op.element_strides if isinstance(op, tile.TmaLoad) else ()
    assert isinstance(op.tensor.type, TensorType)
    rank = op.tensor.type.rank

    def run(part: Part) -> Signal:
        registers, block = part.registers, part.block
        group = groups[block.rank]
        place = group.index(block.rank)
        if not part.elected("role") or (place and not shares):
            return None
        shared: SharedArray = registers[target]
        signals: Mbarrier = registers[barrier]
        at = [registers[coord] for coord in coords]
        check_coordinates(registers[tensor], tuple(at), False, loc)
        if isinstance(op, copy.TmaLoadIm2col):
            _check_corner(registers[tensor], tuple(at), op.lower, op.upper, loc)
        rows = slice(None)
        if shares:
            extent = shared.array.shape[0]
            if extent % len(group):
                raise InternalError(
                    f"{len(group)} blocks share a tile of {extent} rows: expected equal shares", loc
                )
            share = extent // len(group)
            rows = slice(place * share, (place + 1) * share)
            axis = rank - shared.array.ndim
            at[axis] += place * share * (strides[axis] if strides else 1)
        how = make(part, loc) if make is not None else fill
        assert how is not None
        for peer in group:
            other = block.cluster[peer]
            there = other.memory.tiles[shared.number]
            bar = other.memory.barriers[signals.number]
            block.start(
                Load(registers[tensor], tuple(at), there, there.array[rows], bar, other, how)
            )
        block.result.tma_loads += 1
        block.result.tma_load_bytes += shared.array[rows].nbytes
        return None

    return run


@step(copy.TmaPrefetch)
def _prefetch(cx: Compiler, op: copy.TmaPrefetch) -> Step:
    tensor, coords, loc = cx.slot(op.tensor), cx.slots(op.coords), op.loc

    def run(part: Part) -> Signal:
        if part.elected("role"):
            registers = part.registers
            at = tuple([registers[coord] for coord in coords])
            check_coordinates(registers[tensor], at, False, loc)
            part.block.result.prefetches += 1
        return None

    return run


# ------------------------------------------------------------------------------- im2col


def _im2col_fill(cx: Compiler, op: copy.TmaLoadIm2col) -> Callable[[Part, Loc], Fill]:
    """What makes the fill function from the registers at the time of issue."""
    slots = cx.slots(op.offsets)
    lower, upper, strides = op.lower, op.upper, op.strides
    limit = _OFFSETS[len(slots)]

    def make(part: Part, loc: Loc) -> Fill:
        offsets = tuple([part.registers[slot] for slot in slots])
        if min(offsets) < 0 or max(offsets) >= limit:
            raise InvalidValue(
                f"im2col offsets {offsets}: expected 0 to {limit - 1} with {len(slots)} spatial"
                " dimension(s)",
                loc,
            )
        return lambda tensor, coords, target: load_im2col(
            tensor, coords, offsets, lower, upper, strides, target
        )

    return make


def _check_corner(
    tensor: Tensor, at: Coords, lower: tuple[int, ...], upper: tuple[int, ...], loc: Loc
) -> None:
    """The first corner must lie in the box of corners, unless no image is left anyway."""
    if at[0] >= tensor.array.shape[0]:
        return
    for axis, (low, bound) in enumerate(zip(lower, upper, strict=True), 1):
        high = tensor.array.shape[axis] - 1 + bound
        if not low <= at[axis] <= high:
            raise InvalidValue(
                f"an im2col load of tensor {tensor.name!r} starts at {at[axis]} in dimension"
                f" {axis}: expected a window corner, {low} to {high}",
                loc,
                hint="coordinates are those of the window's corner, the offsets are added to them",
            )


@step(copy.TmaLoadIm2col)
def _load_im2col(cx: Compiler, op: copy.TmaLoadIm2col) -> Step:
    tensor, coords = cx.slot(op.tensor), cx.slots(op.coords)
    target, barrier = cx.slot(op.tile), cx.slot(op.barrier)
    loc, lower, upper = op.loc, op.lower, op.upper
    if op.multicast:
        return _multicast(cx, op, None)
    make = _im2col_fill(cx, op)

    def run(part: Part) -> Signal:
        if part.elected("role"):
            registers, block = part.registers, part.block
            shared: SharedArray = registers[target]
            at = tuple([registers[coord] for coord in coords])
            check_coordinates(registers[tensor], at, False, loc)
            _check_corner(registers[tensor], at, lower, upper, loc)
            fill = make(part, loc)
            block.start(
                Load(registers[tensor], at, shared, shared.array, registers[barrier], block, fill)
            )
            block.result.tma_loads += 1
            block.result.tma_load_bytes += shared.array.nbytes
        return None

    return run


# ----------------------------------------------------------------------------- 1-D bulk


@step(copy.BulkLoad)
def _bulk_load(cx: Compiler, op: copy.BulkLoad) -> Step:
    tensor, coords = cx.slot(op.tensor), cx.slots(op.coords)
    target, barrier = cx.slot(op.tile), cx.slot(op.barrier)
    loc = op.loc

    def run(part: Part) -> Signal:
        if part.elected("role"):
            registers, block = part.registers, part.block
            shared: SharedArray = registers[target]
            at = tuple([registers[coord] for coord in coords])
            _check_bulk(registers[tensor], at, loc)
            block.start(
                Load(
                    registers[tensor], at, shared, shared.array, registers[barrier], block, load_box
                )
            )
            block.result.tma_loads += 1
            block.result.tma_load_bytes += shared.array.nbytes
        return None

    return run


def _check_bulk(tensor: Tensor, at: Coords, loc: Loc) -> None:
    """A bulk copy starts at a multiple of 16 bytes and reads contiguous elements."""
    array = tensor.array
    if array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise InvalidValue(
            f"a bulk copy of tensor {tensor.name!r} reads contiguous elements: expected stride 1 in"
            f" the last dimension, got {array.strides[-1] // array.itemsize}",
            loc,
            hint="td.async_copy takes any strides",
        )
    if at[-1] < 0:
        raise InvalidValue(
            f"a bulk copy of tensor {tensor.name!r} starts at {at[-1]} in the last dimension:"
            " expected at least 0",
            loc,
        )
    inside = all(0 <= a < extent for a, extent in zip(at, array.shape, strict=True))
    nbytes = sum(a * stride for a, stride in zip(at, array.strides, strict=True))
    if inside and nbytes % COPY_UNIT:
        raise InvalidValue(
            f"a bulk copy of tensor {tensor.name!r} starts at {at}, byte {nbytes} of the tensor:"
            f" expected a multiple of {COPY_UNIT} bytes",
            loc,
            hint="td.async_copy takes any alignment",
        )
