"""Arrays of tiles: as ``td.TileArray`` describes them, and as a pipeline's memory holds them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.layouts import tile_swizzle
from tiledsl.codegen.ir.ops import tile
from tiledsl.codegen.ir.types import RingType, TileArray
from tiledsl.frontend.intrinsics.arguments import (
    integer,
    static_dtype,
    static_int,
    static_shape,
)
from tiledsl.frontend.objects import TracedObject
from tiledsl.frontend.registry import implements
from tiledsl.language import payload as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

SWIZZLES = (128, 64, 32, 0)
ATOM_ROWS = 8  # rows over which a swizzle repeats


@dataclass(frozen=True)
class ArraySpec(TracedObject):
    """What ``td.TileArray(...)`` gives: ``stages`` tiles, without storage."""

    kind: ClassVar[str] = "tile array"
    properties: ClassVar[tuple[str, ...]] = ("dtype", "shape", "stages", "swizzle")

    dtype: DType
    shape: tuple[int, ...]
    stages: int
    swizzle: int

    def attribute(self, cx: Context, name: str) -> Any:
        return getattr(self, name) if name in self.properties else super().attribute(cx, name)

    def item(self, cx: Context, index: Any) -> Value:
        raise cx.type_error(
            "this tile array has no storage: expected an array of the payload of a stage",
            hint="make a pipeline of the payload, and take the tiles from stage.payload()",
        )

    def in_ring(self, name: str, stages: int) -> TileArray:
        """The array as a part of a ring of so many stages, which divide its own."""
        return TileArray(name, self.shape, self.dtype, self.swizzle, self.stages // stages)


@implements(language.TileArray)
def tile_array(
    cx: Context, dtype: object, shape: object, stages: object, swizzle: object = None
) -> ArraySpec:
    call = "td.TileArray"
    element = static_dtype(cx, dtype, f"{call}: dtype")
    extents = static_shape(cx, shape, f"{call}: shape")
    count = static_int(cx, stages, f"{call}: stages", least=1)
    return ArraySpec(element, extents, count, swizzle_of(cx, call, extents, element, swizzle))


def swizzle_of(
    cx: Context, call: str, shape: tuple[int, ...], dtype: DType, swizzle: object
) -> int:
    """The swizzle of a tile: the widest that fits, or the one asked for where that is possible."""
    widest = tile_swizzle(shape, dtype.itemsize)
    if swizzle is None:
        return widest
    span = static_int(cx, swizzle, f"{call}: swizzle")
    if span not in SWIZZLES:
        raise cx.value_error(
            f"{call}: swizzle: expected 128, 64, 32 or 0 bytes, got {span}",
            hint="leave it out: the widest that fits is taken",
        )
    row = shape[-1] * dtype.itemsize
    if span and row % span:
        raise cx.value_error(
            f"{call}: swizzle: a row of {shape[-1]} {dtype} elements is {row} bytes, which a"
            f" swizzle of {span} bytes does not divide",
            hint=f"use a multiple of {span // dtype.itemsize} for the last extent of {shape}, or"
            f" swizzle={widest}",
        )
    rows = prod(shape[:-1])
    if span and rows % ATOM_ROWS:
        raise cx.value_error(
            f"{call}: swizzle: a tile of shape {shape} has {rows} row{'s'[: rows != 1]}, but a"
            f" swizzle repeats every {ATOM_ROWS} rows",
            hint=f"use a multiple of {ATOM_ROWS} rows, or swizzle=0",
        )
    return span


@dataclass(frozen=True, eq=False)
class HeldStage(TracedObject):
    """A stage that is held: it also says which slot of its ring to take."""

    ring: Value
    handle: Value

    def slot(self, cx: Context) -> Value:
        return cx.emit(tile.StageIndex(self.handle), "slot")


def ring_type(ring: Value) -> RingType:
    assert isinstance(ring.type, RingType)
    return ring.type


def slot_number(cx: Context, ring: Value, stage: object, what: str) -> Value | int:
    """The slot that ``stage`` means: a number, or a stage of this ring."""
    if isinstance(stage, HeldStage):
        if stage.ring is not ring:
            raise cx.value_error(
                f"{what}: stage: expected a stage of pipeline {ring.name!r}, got one of"
                f" {stage.ring.name!r}",
                hint="each pipeline has slots of its own: use the payload of that stage",
            )
        return stage.slot(cx)
    number = integer(cx, stage, f"{what}: stage", hint="write stage.stage()")
    _check_number(cx, number, ring_type(ring).stages, f"{what}: stage", "write stage.stage()")
    return number


def _check_number(cx: Context, number: Value | int, count: int, what: str, hint: str) -> None:
    if not isinstance(number, Value) and not 0 <= number < count:
        raise cx.value_error(
            f"{what}: expected a number from 0 to {count - 1}, got {number}", hint=hint
        )


def ring_tile(cx: Context, ring: Value, array: int, stage: object, k: object, what: str) -> Value:
    """Tile ``k`` of a stage in array number ``array`` of a ring.

    Both are checked as far as they are known at compile time.
    """
    kind = ring_type(ring)
    tiles = kind.arrays[array].tiles
    slot = slot_number(cx, ring, stage, what)
    member = integer(cx, k, f"{what}: k")
    hint = f"k counts the tiles of a stage: {_tiles_text(kind, array)}"
    _check_number(cx, member, tiles, f"{what}: k", hint)
    if tiles > 1:
        slot = cx.binary("add", cx.binary("mul", slot, tiles), member)
    return cx.emit(tile.PayloadTile(ring, cx.int32(slot), array))


def _tiles_text(kind: RingType, array: int) -> str:
    if kind.arrays[array].tiles == kind.k_group:
        return "the pipeline's k_group_size"
    return f"array {kind.arrays[array].name!r} has {kind.arrays[array].tiles}"


@dataclass(frozen=True)
class RingArray(TracedObject):
    """An array of the payload that ``stage.payload()`` gives: ``array[stage]``, ``[stage, k]``."""

    kind: ClassVar[str] = "tile array"
    properties: ClassVar[tuple[str, ...]] = ("dtype", "shape", "stages", "swizzle")

    ring: Value
    number: int

    def attribute(self, cx: Context, name: str) -> Any:
        kind = ring_type(self.ring)
        array = kind.arrays[self.number]
        if name == "stages":
            return kind.stages * array.tiles
        return getattr(array, name) if name in self.properties else super().attribute(cx, name)

    def item(self, cx: Context, index: Any) -> Value:
        name = ring_type(self.ring).arrays[self.number].name
        pair = index if isinstance(index, tuple) else (index, 0)
        if len(pair) != 2 or any(isinstance(x, slice) or x is None or x is ... for x in pair):
            raise cx.type_error(
                f"tile array {name!r}: expected one tile, by its stage and its number k in there",
                hint="write array[stage, k], or array[stage] for the first tile",
            )
        return ring_tile(cx, self.ring, self.number, *pair, f"tile array {name!r}")
