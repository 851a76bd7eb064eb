"""``x[None, :]`` and ``x[:, None]``: a tile of rank 1 that waits for its other extent.

The extent comes from what it meets: a tile of rank 2, or a tile expanded along the other axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.types import Tile
from tiledsl.frontend.intrinsics.arguments import static_dtype
from tiledsl.frontend.intrinsics.scalars import convert
from tiledsl.frontend.objects import TracedObject, traced
from tiledsl.frontend.registry import method

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


@dataclass(frozen=True, eq=False)
class ExpandedTile(TracedObject):
    """A register tile of rank 1, to be repeated along ``axis`` of a tile of rank 2."""

    kind: ClassVar[str] = "tile of rank 1 with a new axis"
    properties: ClassVar[tuple[str, ...]] = ("dtype", "shape")

    value: Value
    axis: int

    @property
    def tile(self) -> Tile:
        assert isinstance(self.value.type, Tile)
        return self.value.type

    @property
    def dtype(self) -> DType:
        return self.tile.dtype

    @property
    def length(self) -> int:
        return self.tile.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """With extent 1 where it will be repeated."""
        return (1, self.length) if self.axis == 0 else (self.length, 1)

    @traced
    def to(self, cx: Context, dtype: object) -> ExpandedTile:
        return ExpandedTile(convert(cx, self.value, static_dtype(cx, dtype, ".to")), self.axis)

    def attribute(self, cx: Context, name: str) -> Any:
        if name == "shape":
            return self.shape
        if name == "dtype":
            return self.dtype
        return super().attribute(cx, name)

    def flatten(self) -> tuple[list[Value], Any]:
        return [self.value], (type(self), self.axis)

    def unflatten(self, values: list[Value]) -> TracedObject:
        (value,) = values
        return ExpandedTile(value, self.axis)


def expanded_hint(x: object) -> str | None:
    """How to give an expanded tile its other extent, where a whole tile is needed."""
    if not isinstance(x, ExpandedTile):
        return None
    rows, columns = ("rows", x.length) if x.axis == 0 else (x.length, "columns")
    return f"give it its other extent: td.zeros(({rows}, {columns}), td.{x.dtype}) + x"


_EVERYTHING = slice(None, None, None)


@method(Tile, "__getitem__")
def expand(cx: Context, tile: Value, index: object) -> ExpandedTile:
    assert isinstance(tile.type, Tile)
    if isinstance(index, tuple) and len(index) == 2:
        new = [place for place, part in enumerate(index) if part is None]
        rest = [part for part in index if part is not None]
        if len(new) == 1 and isinstance(rest[0], slice) and rest[0] == _EVERYTHING:
            if len(tile.type.shape) != 1:
                raise cx.type_error(
                    f"a new axis of {cx.describe(tile)}: expected a tile of rank 1",
                    hint="a tile of rank 2 meets others of its shape as it is",
                )
            return ExpandedTile(tile, new[0])
    raise cx.type_error(
        f"{cx.describe(tile)} cannot be indexed: its elements are spread over the role's threads",
        hint="x[None, :] and x[:, None] give a tile of rank 1 a new axis",
    )
