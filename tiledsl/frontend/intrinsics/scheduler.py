"""The tile scheduler: a persistent loop over output tiles in grouped order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import tile
from tiledsl.frontend.intrinsics.arguments import integer, static_int
from tiledsl.frontend.intrinsics.scalars import convert
from tiledsl.frontend.objects import Iteration, TracedObject
from tiledsl.frontend.registry import implements
from tiledsl.language import scheduler as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

Number = Value | int


@implements(language.TileScheduler)
def tile_scheduler(
    cx: Context, m_tiles: object, n_tiles: object, group: object = 8
) -> TileScheduler:
    call = "td.TileScheduler"
    rows = _count(cx, m_tiles, f"{call}: m_tiles")
    columns = _count(cx, n_tiles, f"{call}: n_tiles")
    # Never more rows than there are, so that no product below exceeds the number of tiles.
    depth = cx.binary("min", static_int(cx, group, f"{call}: group", least=1), rows)
    return TileScheduler(
        rows, columns, depth, cx.binary("mul", rows, columns), cx.binary("mul", depth, columns)
    )


def _count(cx: Context, value: object, what: str) -> Number:
    number = integer(cx, value, what)
    if not isinstance(number, Value) and number < 0:
        raise cx.value_error(f"{what}: expected at least 0, got {number}")
    return number


@dataclass(frozen=True, eq=False)
class TileScheduler(TracedObject):
    """What ``td.TileScheduler(...)`` gives. All numbers are ints or int32 values."""

    kind: ClassVar[str] = "tile scheduler"

    m_tiles: Number
    n_tiles: Number
    depth: Number  # rows of tiles in a group
    total: Number  # tiles of the grid
    group_tiles: Number  # tiles of a full group

    def attribute(self, cx: Context, name: str) -> Any:
        if name == "num_tiles":
            return self.total
        return super().attribute(cx, name)

    def iterate(self, cx: Context) -> Iteration:
        first = cx.emit(tile.BlockId(0), "block")
        blocks = cx.emit(tile.BlockCount(0), "blocks")
        return Iteration(first, cx.int32(self.total), blocks, self.coordinates)

    def coordinates(self, cx: Context, number: Value) -> tuple[Value, Value]:
        """(m, n) of tile ``number``, in unsigned arithmetic: no division has to round down.

        Example: 5 x 3 tiles in groups of 2 rows: (0,0) (1,0) (0,1) (1,1) (0,2) (1,2) (2,0) (3,0)
        ... (3,2), and the last group has one row: (4,0) (4,1) (4,2).
        """
        unsigned = convert(cx, number, dtypes.uint32)
        depth, group_tiles = self._unsigned(cx, self.depth), self._unsigned(cx, self.group_tiles)
        group = cx.binary("floordiv", unsigned, group_tiles)
        within = cx.binary("sub", unsigned, cx.binary("mul", group, group_tiles))
        top = cx.binary("mul", group, depth)
        left = cx.binary("sub", self._unsigned(cx, self.m_tiles), top)
        rows = cx.binary("min", left, depth)
        column = cx.binary("floordiv", within, rows)
        row = cx.binary("add", top, cx.binary("sub", within, cx.binary("mul", column, rows)))
        return convert(cx, row, dtypes.int32), convert(cx, column, dtypes.int32)

    @staticmethod
    def _unsigned(cx: Context, value: Number) -> Number:
        return convert(cx, value, dtypes.uint32) if isinstance(value, Value) else value

    def flatten(self) -> tuple[list[Value], Any]:
        numbers = (self.m_tiles, self.n_tiles, self.depth, self.total, self.group_tiles)
        known = tuple(None if isinstance(x, Value) else x for x in numbers)
        return [x for x in numbers if isinstance(x, Value)], (type(self), known)

    def unflatten(self, values: list[Value]) -> TracedObject:
        rest = iter(values)
        numbers = (self.m_tiles, self.n_tiles, self.depth, self.total, self.group_tiles)
        return TileScheduler(*(next(rest) if isinstance(x, Value) else x for x in numbers))
