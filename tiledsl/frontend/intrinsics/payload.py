"""Payloads: the description of a ring's tiles, and the tiles of a ring that exists."""

from __future__ import annotations

from dataclasses import dataclass
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
from tiledsl.frontend.objects import TracedObject, traced
from tiledsl.frontend.registry import implements
from tiledsl.language import payload as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

CHUNK = 16  # bytes: the granularity of TMA and of the swizzles


@dataclass(frozen=True, eq=False)
class Payload(TracedObject):
    """What ``td.StandardTilePayload(...)`` gives: arrays without storage."""

    kind: ClassVar[str] = "tile payload"
    properties: ClassVar[tuple[str, ...]] = ("num_pipeline_stages",)

    arrays: tuple[TileArray, ...]
    num_pipeline_stages: int

    def attribute(self, cx: Context, name: str) -> Any:
        if name == "num_pipeline_stages":
            return self.num_pipeline_stages
        if name in ("get_tile", "get_a_tile", "get_b_tile"):
            raise cx.type_error(
                f"{name}: this payload has no storage: expected the payload of a stage",
                hint=f"write stage.payload().{name}(stage.stage(), k)",
            )
        return super().attribute(cx, name)


@dataclass(frozen=True, eq=False)
class StagePayload(TracedObject):
    """What ``stage.payload()`` gives: the tiles of a pipeline."""

    kind: ClassVar[str] = "tile payload"

    ring: Value

    @traced
    def get_tile(self, cx: Context, stage: object, k: object = 0) -> tuple[Value, ...]:
        index = self._index(cx, stage, k, "get_tile")
        return tuple(self._tile(cx, index, number) for number in range(len(self._type.arrays)))

    @traced
    def get_a_tile(self, cx: Context, stage: object, k: object = 0) -> Value:
        return self._tile(cx, self._index(cx, stage, k, "get_a_tile"), 0)

    @traced
    def get_b_tile(self, cx: Context, stage: object, k: object = 0) -> Value:
        return self._tile(cx, self._index(cx, stage, k, "get_b_tile"), 1)

    @property
    def _type(self) -> RingType:
        assert isinstance(self.ring.type, RingType)
        return self.ring.type

    def _tile(self, cx: Context, index: Value, number: int) -> Value:
        return cx.emit(tile.PayloadTile(self.ring, index, number))

    def _index(self, cx: Context, stage: object, k: object, what: str) -> Value:
        """``stage * k_group + k``; both are checked as far as they are known."""
        ring = self._type
        slot = integer(cx, stage, f"{what}: stage", hint="write stage.stage()")
        member = integer(cx, k, f"{what}: k")
        for name, value, count in (("stage", slot, ring.stages), ("k", member, ring.k_group)):
            if not isinstance(value, Value) and not 0 <= value < count:
                raise cx.value_error(
                    f"{what}: {name}: expected a number from 0 to {count - 1}, got {value}",
                    hint="k counts the tiles of a stage: the pipeline's k_group_size"
                    if name == "k"
                    else "write stage.stage()",
                )
        if ring.k_group == 1:
            return cx.int32(slot)
        return cx.int32(cx.binary("add", cx.binary("mul", slot, ring.k_group), member))


@implements(language.StandardTilePayload)
def standard_tile_payload(
    cx: Context,
    a_dtype: object,
    b_dtype: object,
    a_shape: object,
    b_shape: object,
    num_pipeline_stages: object,
) -> Payload:
    call = "td.StandardTilePayload"
    stages = static_int(cx, num_pipeline_stages, f"{call}: num_pipeline_stages", least=1)
    arrays = tuple(
        _array(
            cx,
            name,
            static_shape(cx, shape, f"{call}: {name}_shape"),
            static_dtype(cx, dtype, f"{call}: {name}_dtype"),
        )
        for name, shape, dtype in (("a", a_shape, a_dtype), ("b", b_shape, b_dtype))
    )
    return Payload(arrays, stages)


def _array(cx: Context, name: str, shape: tuple[int, ...], dtype: DType) -> TileArray:
    row = shape[-1] * dtype.itemsize
    if row % CHUNK:
        unit = CHUNK // dtype.itemsize
        raise cx.value_error(
            f"td.StandardTilePayload: {name}_shape: a row of {shape[-1]} {dtype} elements is {row}"
            f" bytes, expected a multiple of {CHUNK} bytes",
            hint=f"use a multiple of {unit} for the last extent of {shape}",
        )
    return TileArray(name, shape, dtype, tile_swizzle(shape, dtype.itemsize))
