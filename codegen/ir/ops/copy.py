"""Copies to shared memory that are not plain TMA tiles: im2col, 1-D bulk, cp.async, prefetch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tiledsl.codegen.ir.core import (
    PROTOCOL,
    Effect,
    Op,
    Value,
    attribute,
    define,
    operand,
    operands,
)
from tiledsl.codegen.ir.ops.tile import I32, at_coords, check_coords
from tiledsl.codegen.ir.types import BarrierType, SharedTile, TensorType, Type

Namer = Callable[[Value], str]


class _ToShared(Op):
    """From a tensor to a shared tile as stored; completes on a barrier."""

    tensor: Value
    coords: tuple[Value, ...]
    tile: Value
    barrier: Value

    def print_head(self, name: Namer) -> str:
        source = at_coords(name, self.tensor, self.coords)
        return f"{self.opcode} {source} -> {name(self.tile)}, {name(self.barrier)}"

    def verify(self) -> None:
        check_coords(self.tensor, self.coords)
        tile, tensor = self.tile.type, self.tensor.type
        assert isinstance(tensor, TensorType)
        if not isinstance(tile, SharedTile) or tile.transposed:
            raise ValueError(f"the destination must be a shared tile as stored, got {tile}")
        if tile.dtype != tensor.dtype:
            raise ValueError(f"cannot load {tensor} into {tile}")
        if not isinstance(self.barrier.type, BarrierType):
            raise ValueError(f"expected an mbarrier, got {self.barrier.type}")


@define("tma.load_im2col", effect=Effect.WRITE, needs="tma")
class TmaLoadIm2col(_ToShared):
    """Start an im2col copy of a channels-last tensor (N, [D, [H,]] W, C); rank 3 to 5.

    Reads ``pixels`` = tile rows x ``channels`` = tile columns. ``coords`` has one coordinate a
    dimension: image, the first pixel's position per spatial dimension (the corner of its filter
    window: before ``offsets`` are added), first channel. ``offsets`` is the position in the
    filter, one for each spatial dimension, in the tensor's order (outermost first).
    ``lower`` and ``upper`` bound the box of window corners, per spatial dimension in the tensor's
    order: corners go from ``lower`` to ``extent - 1 + upper``. ``strides`` is the step from one
    corner to the next per spatial dimension. What lies outside of the tensor reads as zero.
    """

    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()
    offsets: tuple[Value, ...] = operands()
    tile: Value = operand()
    barrier: Value = operand()
    lower: tuple[int, ...] = attribute()
    upper: tuple[int, ...] = attribute()
    strides: tuple[int, ...] = attribute()
    cache: str | None = attribute(default=None)
    multicast: tuple[int, ...] = attribute(default=())

    def print_head(self, name: Namer) -> str:
        window = ", ".join(name(offset) for offset in self.offsets)
        shared = f", multicast {self.multicast}" if self.multicast else ""
        cache = f", {self.cache}" if self.cache else ""
        return (
            f"{super().print_head(name)}, offsets ({window}), corners"
            f" {self.lower} to {self.upper} by {self.strides}{shared}{cache}"
        )

    def verify(self) -> None:
        super().verify()
        assert isinstance(self.tensor.type, TensorType) and isinstance(self.tile.type, SharedTile)
        spatial = self.tensor.type.rank - 2
        if not 1 <= spatial <= 3 or len(self.tile.type.shape) != 2:
            raise ValueError(f"no im2col load of {self.tensor.type} into {self.tile.type}")
        if any(
            len(field) != spatial for field in (self.offsets, self.lower, self.upper, self.strides)
        ):
            raise ValueError(f"expected {spatial} offsets, bounds and strides")
        if any(offset.type != I32 for offset in self.offsets):
            raise ValueError("offsets must be int32 scalars")


@define("bulk.load", effect=Effect.WRITE, needs="tma")
class BulkLoad(_ToShared):
    """Start a 1-D bulk copy of ``tile.nbytes`` contiguous bytes (no tensor map, no swizzle).

    The elements from ``coords`` on in the order of the tensor's last dimension, which must be
    contiguous; the tile has rank 1. What lies behind the end of that dimension reads as zero and
    counts as bytes. Issued by one elected thread of the role.
    """

    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()
    tile: Value = operand()
    barrier: Value = operand()
    cache: str | None = attribute(default=None)

    def verify(self) -> None:
        super().verify()
        assert isinstance(self.tile.type, SharedTile)
        if len(self.tile.type.shape) != 1 or self.tile.type.swizzle:
            raise ValueError(f"expected an unswizzled tile of rank 1, got {self.tile.type}")
        if self.tile.type.nbytes % 16:
            raise ValueError(f"expected a multiple of 16 bytes, got {self.tile.type.nbytes}")


@define("async.copy", effect=Effect.WRITE)
class AsyncCopy(_ToShared):
    """Start ``cp.async`` copies of a tile by all threads of the role; any alignment and strides.

    What lies outside of the tensor reads as zero. Each thread's copies arrive on ``barrier`` by
    the ``async.arrive`` that follows them. The widest copy (16, 8 or 4 bytes, else plain loads
    and stores) is chosen from what is known of strides and coordinates, or at run time.
    """

    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()
    tile: Value = operand()
    barrier: Value = operand()

    def verify(self) -> None:
        super().verify()
        assert isinstance(self.tensor.type, TensorType) and isinstance(self.tile.type, SharedTile)
        if len(self.tile.type.shape) > self.tensor.type.rank:
            raise ValueError(f"cannot load {self.tensor.type} into {self.tile.type}")


@define("async.arrive", levels=PROTOCOL, effect=Effect.SYNC)
class AsyncArrive(Op):
    """Every thread of the part arrives once, when the copies that it has started have landed.

    ``cp.async.mbarrier.arrive.noinc``: the barrier counts ``part_threads`` arrivals a part.
    """

    barrier: Value = operand()


@define("tma.prefetch", effect=Effect.WRITE, needs="tma")
class TmaPrefetch(Op):
    """Start to bring a box of a tensor into the L2 cache; ``shape`` as of a ``tma.load``'s tile."""

    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()
    shape: tuple[int, ...] = attribute()
    swizzle: int = attribute(default=0)
    cache: str | None = attribute(default=None)

    def print_head(self, name: Namer) -> str:
        shape = "x".join(str(extent) for extent in self.shape)
        cache = f", {self.cache}" if self.cache else ""
        return f"tma.prefetch {at_coords(name, self.tensor, self.coords)}, {shape}{cache}"

    def verify(self) -> None:
        check_coords(self.tensor, self.coords)
        if len(self.shape) > len(self.coords) or prod(self.shape) < 1:
            raise ValueError(f"cannot prefetch shape {self.shape} of {self.tensor.type}")

    def result_types(self) -> Sequence[Type]:
        return ()
