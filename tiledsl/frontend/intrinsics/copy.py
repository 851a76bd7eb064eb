"""Copies to shared memory that are no TMA tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.codegen.ir.ops import copy
from tiledsl.codegen.ir.ops.tile import CACHE_HINTS
from tiledsl.codegen.ir.types import SharedTile
from tiledsl.frontend.intrinsics.arguments import coordinates, static_choice
from tiledsl.frontend.intrinsics.copy_checks import (
    CHUNK,
    check_last_coordinate,
    check_not_before,
    destination,
)
from tiledsl.frontend.registry import implements
from tiledsl.language import copy as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


@implements(language.async_copy)
def async_copy(cx: Context, tensor: object, coords: object, tile: object, barrier: object) -> None:
    call = "td.async_copy"
    source, to, on = destination(cx, call, tensor, tile, barrier)
    at = coordinates(cx, coords, source, call)
    cx.add(copy.AsyncCopy(source, at, to, on))


@implements(language.bulk_load)
def bulk_load(
    cx: Context,
    tensor: object,
    coords: object,
    tile: object,
    barrier: object,
    cache: object = None,
) -> None:
    call = "td.bulk_load"
    source, to, on = destination(cx, call, tensor, tile, barrier)
    kind = to.type
    assert isinstance(kind, SharedTile)
    if len(kind.shape) != 1:
        raise cx.type_error(
            f"{call}: tile: expected a tile of rank 1, got {cx.describe(to)}",
            hint="td.tma_load copies tiles of more dimensions",
        )
    if kind.swizzle:
        raise cx.value_error(
            f"{call}: tile: expected one without swizzle, got swizzle {kind.swizzle}: a bulk copy"
            " keeps the order of the bytes",
            hint="write swizzle=0 for its td.TileArray",
        )
    if kind.nbytes % CHUNK:
        raise cx.value_error(
            f"{call}: tile: {kind.shape[0]} {kind.dtype} elements are {kind.nbytes} bytes:"
            f" expected a multiple of {CHUNK} bytes",
            hint=f"use a multiple of {CHUNK // kind.dtype.itemsize} elements",
        )
    at = coordinates(cx, coords, source, call)
    check_last_coordinate(cx, call, source, at)
    check_not_before(cx, call, at, "a bulk copy")
    policy = static_choice(cx, cache, f"{call}: cache", CACHE_HINTS)
    cx.add(copy.BulkLoad(source, at, to, on, policy))
