"""Payloads: what a pipeline's stages hold, and how ``stage.payload()`` shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType, float32
from tiledsl.codegen.ir.layouts import tile_swizzle
from tiledsl.frontend.aggregates import contains_value, fields_of
from tiledsl.frontend.intrinsics.arguments import static_dtype, static_int, static_shape
from tiledsl.frontend.intrinsics.arrays import ArraySpec, RingArray, ring_tile, ring_type
from tiledsl.frontend.objects import TracedObject, traced
from tiledsl.frontend.registry import implements
from tiledsl.language import payload as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

CHUNK = 16  # bytes: the granularity of TMA and of the swizzles


@dataclass(frozen=True)
class Contents:
    """What a pipeline has to know of a payload.

    Attributes:
        arrays: the arrays, by name.
        bind: makes what ``stage.payload()`` gives, from the ring that holds the arrays.
        uniform: the tiles of every array, where all have as many by the payload's own rule.
    """

    arrays: Mapping[str, ArraySpec]
    bind: Callable[[Context, Value], Any]
    uniform: int | None = None


def contents_of(cx: Context, payload: Any, call: str) -> Contents:
    """What a payload holds: of the language, of the user's, or a single array."""
    if isinstance(payload, Payload):
        return Contents(payload.arrays, payload.bind, payload.num_pipeline_stages)
    if isinstance(payload, ArraySpec):
        return Contents({"tile": payload}, lambda cx, ring: RingArray(ring, 0))
    if hasattr(type(payload), language.MARK):
        return _users(cx, payload, call)
    hint = "make one with td.StandardTilePayload(...), or td.TileArray(...)"
    if isinstance(payload, StagePayload | RingArray):
        hint = "a pipeline is made of a payload of its own: td.StandardTilePayload(...)"
    elif isinstance(payload, type) and hasattr(payload, language.MARK):
        hint = f"make one: {payload.__name__}(...)"
    elif contains_array(payload):
        hint = f"decorate the class {type(payload).__name__} with @td.payload"
        if isinstance(payload, tuple | list | dict):
            hint = "give the arrays names: the fields of a class decorated with @td.payload"
    raise cx.type_error(
        f"{call}: payload: expected a tile payload, got {cx.describe(payload)}", hint=hint
    )


def contains_array(x: Any) -> bool:
    """Whether a container or instance holds tile arrays."""
    if isinstance(x, tuple | list):
        return any(isinstance(item, ArraySpec) for item in x)
    if isinstance(x, dict):
        return any(isinstance(item, ArraySpec) for item in x.values())
    return any(isinstance(item, ArraySpec) for item in fields_of(x).values())


# --------------------------------------------------------------------- payloads of the language


@dataclass(frozen=True)
class Payload(TracedObject):
    """What ``td.StandardTilePayload(...)`` and its kin give: arrays without storage."""

    kind: ClassVar[str] = "tile payload"
    properties: ClassVar[tuple[str, ...]] = ("num_pipeline_stages",)

    arrays: Mapping[str, ArraySpec]
    num_pipeline_stages: int
    bind: Callable[[Context, Value], Any]

    def attribute(self, cx: Context, name: str) -> Any:
        if name == "num_pipeline_stages":
            return self.num_pipeline_stages
        getters = [f"get_{array}_tile" for array in self.arrays]
        if name in ("get_tile", *getters):
            raise cx.type_error(
                f"{name}: this payload has no storage: expected the payload of a stage",
                hint=f"write stage.payload().{name}(stage.stage(), k)",
            )
        return super().attribute(cx, name)


@dataclass(frozen=True)
class StagePayload(TracedObject):
    """What ``stage.payload()`` gives: the tiles of a pipeline."""

    kind: ClassVar[str] = "tile payload"

    ring: Value

    @traced
    def get_tile(self, cx: Context, stage: object, k: object = 0) -> tuple[Value, ...]:
        numbers = range(len(ring_type(self.ring).arrays))
        return tuple(ring_tile(cx, self.ring, n, stage, k, "get_tile") for n in numbers)

    @traced
    def get_a_tile(self, cx: Context, stage: object, k: object = 0) -> Value:
        return ring_tile(cx, self.ring, 0, stage, k, "get_a_tile")

    @traced
    def get_b_tile(self, cx: Context, stage: object, k: object = 0) -> Value:
        return ring_tile(cx, self.ring, 1, stage, k, "get_b_tile")


class ScaledStagePayload(StagePayload):
    """The same with a third array, of scales."""

    @traced
    def get_a_scales_tile(self, cx: Context, stage: object, k: object = 0) -> Value:
        return ring_tile(cx, self.ring, 2, stage, k, "get_a_scales_tile")


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
    arrays = {
        "a": _operand(cx, call, "a", a_shape, a_dtype, stages),
        "b": _operand(cx, call, "b", b_shape, b_dtype, stages),
    }
    return Payload(arrays, stages, lambda cx, ring: StagePayload(ring))


@implements(language.BlockwiseFP8TilePayload)
def blockwise_fp8_tile_payload(
    cx: Context,
    a_dtype: object,
    b_dtype: object,
    a_shape: object,
    b_shape: object,
    a_scales_shape: object,
    num_pipeline_stages: object,
    a_scales_dtype: object = float32,
) -> Payload:
    call = "td.BlockwiseFP8TilePayload"
    stages = static_int(cx, num_pipeline_stages, f"{call}: num_pipeline_stages", least=1)
    scales = static_shape(cx, a_scales_shape, f"{call}: a_scales_shape")
    scales_dtype = static_dtype(cx, a_scales_dtype, f"{call}: a_scales_dtype")
    arrays = {
        "a": _operand(cx, call, "a", a_shape, a_dtype, stages),
        "b": _operand(cx, call, "b", b_shape, b_dtype, stages),
        # Read element by element, not by the tensor core: there is nothing to gain by a swizzle.
        "a_scales": ArraySpec(scales_dtype, scales, stages, swizzle=0),
    }
    return Payload(arrays, stages, lambda cx, ring: ScaledStagePayload(ring))


def _operand(
    cx: Context, call: str, name: str, shape: object, dtype: object, stages: int
) -> ArraySpec:
    """An operand of a matrix product: rows of whole chunks, swizzled."""
    extents = static_shape(cx, shape, f"{call}: {name}_shape")
    element: DType = static_dtype(cx, dtype, f"{call}: {name}_dtype")
    row = extents[-1] * element.itemsize
    if row % CHUNK:
        unit = CHUNK // element.itemsize
        raise cx.value_error(
            f"{call}: {name}_shape: a row of {extents[-1]} {element} elements is {row}"
            f" bytes, expected a multiple of {CHUNK} bytes",
            hint=f"use a multiple of {unit} for the last extent of {extents}",
        )
    return ArraySpec(element, extents, stages, tile_swizzle(extents, element.itemsize))


# ------------------------------------------------------------------------ the user's payloads


@implements(language.payload)
def payload_decorator(cx: Context, cls: object) -> None:
    raise cx.syntax_error(
        "td.payload decorates a class: expected it outside of the kernel",
        hint="write @td.payload in front of the class, and make an instance of it here",
    )


def _users(cx: Context, payload: Any, call: str) -> Contents:
    """An instance of a class decorated with ``@td.payload``."""
    cls = type(payload)
    fields = fields_of(payload)
    annotated = {field.name: field.type for field in dataclasses.fields(cls)}
    for name, value in fields.items():
        what = f"{call}: payload: field {name!r} of {cls.__name__}"
        if isinstance(value, ArraySpec):
            continue
        if annotated.get(name) in (language.TileArray, "td.TileArray", "TileArray"):
            raise cx.type_error(
                f"{what}: expected a tile array, got {cx.describe(value)}",
                hint="write td.TileArray(dtype, shape, stages=...)",
            )
        if isinstance(value, tuple | list | dict) and contains_array(value):
            raise cx.type_error(
                f"{what}: tile arrays inside of {cx.describe(value)}",
                hint="give each array a field of its own",
            )
        if contains_value(value):
            raise cx.type_error(
                f"{what}: expected a value known at compile time, got {cx.describe(value)}",
                hint="a payload describes storage: hand run-time values to its methods instead",
            )
    arrays = {name: value for name, value in fields.items() if isinstance(value, ArraySpec)}
    if not arrays:
        raise cx.type_error(
            f"{call}: payload: {cls.__name__} has no tile array",
            hint="annotate a field as td.TileArray, and make it with td.TileArray(...)",
        )

    def bind(cx: Context, ring: Value) -> Any:
        made = cx.made(object.__new__(cls))
        numbers = {name: number for number, name in enumerate(arrays)}
        for name, value in fields.items():
            bound = RingArray(ring, numbers[name]) if name in numbers else value
            object.__setattr__(made, name, bound)
        return made

    return Contents(arrays, bind)
