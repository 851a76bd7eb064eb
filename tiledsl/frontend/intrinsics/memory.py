"""Register tiles to and from global and shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import memory
from tiledsl.codegen.ir.types import SharedTile, TensorType, Tile
from tiledsl.frontend.intrinsics.arguments import coordinates, static_shape
from tiledsl.frontend.intrinsics.arguments import tensor as tensor_argument
from tiledsl.frontend.intrinsics.copy_checks import check_pair, check_rank
from tiledsl.frontend.intrinsics.expanded import expanded_hint
from tiledsl.frontend.registry import implements, method
from tiledsl.language import tile as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

MAX_RANK = 2  # of a register tile


def _check_register(cx: Context, what: str, shape: tuple[int, ...]) -> None:
    if len(shape) > MAX_RANK:
        raise cx.type_error(f"{what}: a register tile has rank 1 or 2, got shape {shape}")


@implements(language.load)
def load(cx: Context, tensor: object, coords: object, shape: object) -> Value:
    call = "td.load"
    if isinstance(tensor, Value) and isinstance(tensor.type, SharedTile):
        raise cx.type_error(
            f"{call}: tensor: expected a tensor, got {cx.describe(tensor)}",
            hint="a shared tile is read as a whole: tile.load()",
        )
    source = tensor_argument(cx, tensor, f"{call}: tensor")
    extents = static_shape(cx, shape, f"{call}: shape")
    _check_register(cx, f"{call}: shape", extents)
    check_rank(cx, call, source, extents)
    return cx.emit(memory.TileLoad(source, coordinates(cx, coords, source, call), extents))


@implements(language.store)
def store(cx: Context, value: object, tensor: object, coords: object) -> None:
    call = "td.store"
    tile = _register_tile(cx, value, f"{call}: value")
    target = tensor_argument(cx, tensor, f"{call}: tensor")
    assert isinstance(tile.type, Tile)
    check_pair(cx, call, target, tile.type.shape, tile.type.dtype, loads=False)
    cx.add(memory.TileStore(tile, target, coordinates(cx, coords, target, call)))


def _register_tile(cx: Context, value: object, what: str) -> Value:
    if isinstance(value, Value) and isinstance(value.type, Tile):
        return value
    hint = expanded_hint(value)
    if isinstance(value, Value) and isinstance(value.type, SharedTile):
        hint = "load it first: tile.load()"
    elif isinstance(value, Value) and isinstance(value.type, TensorType):
        hint = "the tile comes first: td.store(value, tensor, coords)"
    elif cx.is_number(value):
        hint = "make a tile of it: td.full(shape, value, dtype)"
    raise cx.type_error(f"{what}: expected a register tile, got {cx.describe(value)}", hint=hint)


@method(SharedTile, "load")
def shared_load(cx: Context, tile: Value) -> Value:
    assert isinstance(tile.type, SharedTile)
    _check_register(cx, ".load", tile.type.shape)
    return cx.emit(memory.SharedLoad(tile))


@method(SharedTile, "store")
def shared_store(cx: Context, tile: Value, value: object) -> None:
    kind = tile.type
    assert isinstance(kind, SharedTile)
    given = _register_tile(cx, value, ".store: value")
    assert isinstance(given.type, Tile)
    if given.type.shape != kind.shape:
        raise cx.type_error(
            f".store: value: expected a tile of the shared tile's shape {kind.shape}, got"
            f" {given.type.shape}"
        )
    if given.type.dtype != kind.dtype:
        raise cx.type_error(
            f".store: value: expected the shared tile's dtype {kind.dtype}, got {given.type.dtype}",
            hint="convert it first: value.to(tile.dtype)",
        )
    cx.add(memory.SharedStore(given, tile))
