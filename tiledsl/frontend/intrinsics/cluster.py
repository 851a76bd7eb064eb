"""Where a block stands in its cluster."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import sync, tile
from tiledsl.frontend.intrinsics.arguments import static_int
from tiledsl.frontend.intrinsics.scalars import convert
from tiledsl.frontend.registry import implements
from tiledsl.language import cluster as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


def extent(cx: Context, axis: int) -> int:
    """Blocks of a cluster along an axis; 1 along one that the shape does not name."""
    shape = cx.cluster or ()
    return shape[axis] if axis < len(shape) else 1


def size(cx: Context) -> int:
    """Blocks of a cluster."""
    return prod(cx.cluster or ())


def coordinate(cx: Context, axis: int) -> Value | int:
    """This block's coordinate in its cluster: ``rank // prod(shape[:axis]) % shape[axis]``."""
    along = extent(cx, axis)
    if along == 1:
        return 0
    before = prod(extent(cx, other) for other in range(axis))
    rank = cx.emit(sync.ClusterRank(), "rank")
    if before == 1 and along == size(cx):
        return rank
    # Unsigned: no division has to round towards minus infinity.
    found = cx.binary("floordiv", convert(cx, rank, dtypes.uint32), before)
    if before * along < size(cx):
        found = cx.binary("mod", found, along)
    return convert(cx, found, dtypes.int32)


def number_of_cluster(cx: Context) -> tuple[Value, Value]:
    """The number of this block's cluster in the grid, the first axis fastest, and of clusters.

    The clusters of a persistent grid lie along its only axis; others along the grid's axes.
    """
    number: Value | int = 0
    count: Value | int = 1
    for axis in range(1 if cx.persistent else max(1, len(cx.cluster or ()))):
        along = size(cx) if cx.persistent else extent(cx, axis)
        if axis > 0 and along == 1:
            continue
        block = cx.emit(tile.BlockId(axis), "block")
        blocks = cx.emit(tile.BlockCount(axis), "blocks")
        here = cx.binary("floordiv", block, along)
        number = here if axis == 0 else cx.binary("add", number, cx.binary("mul", here, count))
        there = cx.binary("floordiv", blocks, along)
        count = there if axis == 0 else cx.binary("mul", count, there)
    assert isinstance(number, Value) and isinstance(count, Value)
    return number, count


@implements(language.cluster_rank)
def cluster_rank(cx: Context) -> Value | int:
    return 0 if size(cx) == 1 else cx.emit(sync.ClusterRank(), "rank")


@implements(language.cluster_size)
def cluster_size(cx: Context) -> int:
    return size(cx)


@implements(language.cluster_shape)
def cluster_shape(cx: Context, axis: object) -> int:
    return extent(cx, static_int(cx, axis, "td.cluster_shape: axis", least=0, most=2))


@implements(language.cluster_id)
def cluster_id(cx: Context, axis: object) -> Value | int:
    return coordinate(cx, static_int(cx, axis, "td.cluster_id: axis", least=0, most=2))


@implements(language.cluster_sync)
def cluster_sync(cx: Context) -> None:
    if cx.role is not None:
        raise cx.syntax_error(
            f"td.cluster_sync inside of role {cx.role.name!r}: expected it outside of roles, for"
            " all threads of the cluster must come",
            hint="let roles wait for each other through pipelines or mbarriers",
        )
    cx.add(sync.ClusterSync())
