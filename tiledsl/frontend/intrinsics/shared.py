"""Shared tiles of the kernel's own, outside of any pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops.memory import SharedAt, SharedCreate
from tiledsl.codegen.ir.types import SharedArrayType, TileArray
from tiledsl.frontend.intrinsics.arguments import static_dtype, static_int, static_shape
from tiledsl.frontend.intrinsics.arrays import swizzle_of
from tiledsl.frontend.intrinsics.barrier import row_index
from tiledsl.frontend.intrinsics.naming import ObjectName, expect_at_top
from tiledsl.frontend.objects import TracedObject
from tiledsl.frontend.registry import implements
from tiledsl.language import shared as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


@implements(language.shared)
def shared(
    cx: Context, shape: object, dtype: object, number: object = None, swizzle: object = None
) -> Any:
    call = "td.shared"
    extents = static_shape(cx, shape, f"{call}: shape")
    element = static_dtype(cx, dtype, f"{call}: dtype")
    tiles = 1 if number is None else static_int(cx, number, f"{call}: number", least=1)
    span = swizzle_of(cx, call, extents, element, swizzle)
    expect_at_top(cx, call, "shared tile")
    create = SharedCreate("shared", TileArray("tile", extents, element, span, tiles))
    name = ObjectName(cx, create)
    if number is not None:
        return SharedTiles(name)
    single = cx.emit(SharedAt(name.value, cx.int32(0)))
    cx.on_assignment[single] = name.assigned
    return single


@dataclass(frozen=True, eq=False)
class SharedTiles(TracedObject):
    """A row of shared tiles: ``q[i]``."""

    kind: ClassVar[str] = "row of shared tiles"
    properties: ClassVar[tuple[str, ...]] = ("dtype", "number", "shape", "swizzle")

    name: ObjectName

    def assigned(self, name: str) -> None:
        self.name.assigned(name)

    @property
    def _array(self) -> TileArray:
        kind = self.name.value.type
        assert isinstance(kind, SharedArrayType)
        return kind.array

    def attribute(self, cx: Context, name: str) -> Any:
        if name == "number":
            return self._array.tiles
        if name in self.properties:
            return getattr(self._array, name)
        return super().attribute(cx, name)

    def item(self, cx: Context, index: Any) -> Value:
        at = row_index(cx, index, self._array.tiles, "a row of shared tiles")
        return cx.emit(SharedAt(self.name.value, at), "tile")
