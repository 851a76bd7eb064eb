"""The tile scheduler: a persistent loop over output tiles in grouped order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops.lockstep import GridPace
from tiledsl.frontend.intrinsics import cluster
from tiledsl.frontend.intrinsics.arguments import integer, static_bool, static_int
from tiledsl.frontend.intrinsics.role import Me
from tiledsl.frontend.intrinsics.scalars import convert
from tiledsl.frontend.objects import Iteration, TracedObject, traced
from tiledsl.frontend.registry import implements
from tiledsl.language import scheduler as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

Number = Value | int


@implements(language.TileScheduler)
def tile_scheduler(
    cx: Context,
    m_tiles: object,
    n_tiles: object,
    group: object = 8,
    lockstep: object = False,
) -> TileScheduler:
    """In a cluster kernel the scheduler counts blocks of tiles, one block a cluster."""
    tiles = [_count(cx, m_tiles, "m_tiles"), _count(cx, n_tiles, "n_tiles")]
    deepest = static_int(cx, group, "td.TileScheduler: group", least=1)
    in_step = static_bool(cx, lockstep, "td.TileScheduler: lockstep")
    num_tiles = _named(cx.binary("mul", *tiles), "num_tiles")
    rows, columns = (_rounded_up(cx, n, cluster.extent(cx, axis)) for axis, n in enumerate(tiles))
    # Never more rows than there are, so that no product below exceeds the number of tiles.
    depth = cx.binary("min", rows, deepest)
    steps = num_tiles
    if rows is not tiles[0] or columns is not tiles[1]:
        steps = _named(cx.binary("mul", rows, columns), "cluster_tiles")
    return TileScheduler(
        num_tiles=num_tiles,
        total=steps,
        m_tiles=_unsigned(cx, rows),
        depth=_named(_unsigned(cx, depth), "group_rows"),
        group_tiles=_named(_unsigned(cx, cx.binary("mul", depth, columns)), "group_tiles"),
        lockstep=in_step,
    )


def _rounded_up(cx: Context, tiles: Number, along: int) -> Number:
    """Blocks of ``along`` tiles that cover all of them. Fewer than one tile are none."""
    if along == 1:
        return tiles
    covering = cx.binary("add", cx.binary("max", tiles, 0), along - 1)
    found: Number = cx.binary("floordiv", covering, along)
    return found


def _count(cx: Context, value: object, name: str) -> Number:
    number = integer(cx, value, f"td.TileScheduler: {name}")
    if not isinstance(number, Value) and number < 0:
        raise cx.value_error(f"td.TileScheduler: {name}: expected at least 0, got {number}")
    return _named(number, name)


def _unsigned(cx: Context, value: Number) -> Number:
    return convert(cx, value, dtypes.uint32) if isinstance(value, Value) else value


def _named(value: Number, name: str) -> Number:
    """The same number, with a name for the printer unless the user gave it one."""
    if isinstance(value, Value) and not value.name:
        value.name = name
    return value


@dataclass(frozen=True, eq=False)
class TileScheduler(TracedObject):
    """What ``td.TileScheduler(...)`` gives: numbers that the loops in all roles share.

    They are ints, or uint32 values in which no division has to round towards minus infinity;
    ``num_tiles`` and ``total`` are ints or int32 values.
    """

    kind: ClassVar[str] = "tile scheduler"
    properties: ClassVar[tuple[str, ...]] = ("num_tiles",)

    num_tiles: Number  # tiles of the grid
    # From here on a cluster's block of tiles counts as one.
    total: Number
    m_tiles: Number
    depth: Number  # rows of tiles in a group
    group_tiles: Number  # tiles of a full group
    lockstep: bool  # whether loaders begin their tiles together

    def attribute(self, cx: Context, name: str) -> Any:
        if name == "num_tiles":
            return self.num_tiles
        return super().attribute(cx, name)

    def iterate(self, cx: Context) -> Iteration:
        found = self.dealt(cx, 0, 1)
        if not self.lockstep:
            return found

        def paced(cx: Context, number: Value) -> tuple[Value, Value]:
            cx.add(GridPace(number, found.step, found.stop))
            return self.coordinates(cx, number)

        return replace(found, target=paced)

    @traced
    def deal(self, cx: Context, role: object) -> Dealt:
        if isinstance(role, Me):
            return Dealt(self, role.index(cx), role.count)
        raise cx.type_error(
            f"deal: role: expected what `with td.role(...) as me:` gives, got {cx.describe(role)}",
            hint="write `with td.role(name, warps=4, replicas=2) as me:` and tiles.deal(me)",
        )

    def dealt(self, cx: Context, index: Number, count: int) -> Iteration:
        """The tiles of this block from number ``index`` on, every ``count``-th one."""
        first, step = cluster.number_of_cluster(cx)
        if count > 1:
            first = cx.binary("add", first, cx.binary("mul", index, step))
            step = cx.binary("mul", step, count)
        return Iteration(first, cx.int32(self.total), step, self.coordinates)

    def coordinates(self, cx: Context, number: Value) -> tuple[Value, Value]:
        """(m, n) of this block's tile in step ``number``."""
        found = self._in_group(cx, number)
        row, column = (
            cx.binary(
                "add",
                cx.binary("mul", x, cluster.extent(cx, axis)),
                cluster.coordinate(cx, axis),
            )
            for axis, x in enumerate(found)
        )
        return row, column

    def _in_group(self, cx: Context, number: Value) -> tuple[Value, Value]:
        """(m, n) of tile ``number``.

        Example: 5 x 3 tiles in groups of 2 rows: (0,0) (1,0) (0,1) (1,1) (0,2) (1,2) (2,0) (3,0)
        ... (3,2), and the last group has one row: (4,0) (4,1) (4,2).
        """
        _named(number, "tile")
        position = _unsigned(cx, number)
        # A grid that is known to have no tile still has a loop, whose body never runs.
        known_empty = isinstance(self.group_tiles, int) and self.group_tiles < 1
        group_tiles = 1 if known_empty else self.group_tiles
        group = _named(cx.binary("floordiv", position, group_tiles), "group")
        within = cx.binary("sub", position, cx.binary("mul", group, self.group_tiles))
        top = cx.binary("mul", group, self.depth)
        left = cx.binary("sub", self.m_tiles, top)
        rows = _named(cx.binary("min", left, self.depth), "rows")
        if isinstance(rows, int):
            rows = max(rows, 1)
        column = cx.binary("floordiv", within, rows)
        row = cx.binary("add", top, cx.binary("sub", within, cx.binary("mul", column, rows)))
        return convert(cx, row, dtypes.int32), convert(cx, column, dtypes.int32)

    def flatten(self) -> tuple[list[Value], Any]:
        known = tuple(None if isinstance(x, Value) else x for x in self._numbers)
        key = (type(self), known, self.lockstep)
        return [x for x in self._numbers if isinstance(x, Value)], key

    def unflatten(self, values: list[Value]) -> TracedObject:
        rest = iter(values)
        numbers = (next(rest) if isinstance(x, Value) else x for x in self._numbers)
        num_tiles, total, m_tiles, depth, group_tiles = numbers
        return TileScheduler(num_tiles, total, m_tiles, depth, group_tiles, self.lockstep)

    @property
    def _numbers(self) -> tuple[Number, ...]:
        return self.num_tiles, self.total, self.m_tiles, self.depth, self.group_tiles


@dataclass(frozen=True, eq=False)
class Dealt(TracedObject):
    """What ``tiles.deal(me)`` gives: a replica's tiles."""

    kind: ClassVar[str] = "share of a tile scheduler"

    tiles: TileScheduler
    index: Number
    count: int

    def iterate(self, cx: Context) -> Iteration:
        return self.tiles.dealt(cx, self.index, self.count)

    def flatten(self) -> tuple[list[Value], Any]:
        values, key = self.tiles.flatten()
        if isinstance(self.index, Value):
            return [*values, self.index], (key, self.count, None)
        return values, (key, self.count, self.index)

    def unflatten(self, values: list[Value]) -> TracedObject:
        index = self.index
        if isinstance(index, Value):
            *values, index = values
        tiles = self.tiles.unflatten(values)
        assert isinstance(tiles, TileScheduler)
        return Dealt(tiles, index, self.count)
