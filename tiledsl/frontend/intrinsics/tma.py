"""``td.tma_load``, ``td.tma_store`` and ``td.tma_prefetch``, with what the hardware demands."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.layouts import pick_swizzle, tile_swizzle, tma_box
from tiledsl.codegen.ir.ops import copy
from tiledsl.codegen.ir.ops import tile as ops
from tiledsl.codegen.ir.ops.tile import CACHE_HINTS, REDUCTIONS
from tiledsl.codegen.ir.types import SharedTile, TensorType, Tile
from tiledsl.frontend.intrinsics import cluster
from tiledsl.frontend.intrinsics.arguments import (
    coordinates,
    static_bool,
    static_choice,
    static_int,
    static_ints,
    static_shape,
)
from tiledsl.frontend.intrinsics.arguments import tensor as tensor_argument
from tiledsl.frontend.intrinsics.copy_checks import (
    MAX_BOX,
    check_copyable,
    check_last_coordinate,
    check_not_before,
    check_pair,
    check_rank,
    destination,
)
from tiledsl.frontend.intrinsics.expanded import expanded_hint
from tiledsl.frontend.registry import implements
from tiledsl.language import tma as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

MAX_ELEMENT_STRIDE = 8
ATOM_ROWS = 8  # of a swizzle: a share that begins elsewhere would be written in another pattern
SHARED_ALIGN = 128  # bytes: where a bulk tensor copy may begin in shared memory


@implements(language.tma_load)
def tma_load(
    cx: Context,
    tensor: object,
    coords: object,
    tile: object,
    barrier: object,
    multicast: object = None,
    partitioned: object = True,
    cache: object = None,
    element_strides: object = None,
) -> None:
    call = "td.tma_load"
    source, to, on = destination(cx, call, tensor, tile, barrier)
    kind = to.type
    assert isinstance(kind, SharedTile)
    at = coordinates(cx, coords, source, call)
    check_last_coordinate(cx, call, source, at)
    check_copyable(cx, call, kind.shape, kind.dtype, kind.swizzle)
    shares = static_bool(cx, partitioned, f"{call}: partitioned")
    axes = _multicast_axes(cx, call, multicast)
    loaded = kind.shape
    if axes and shares:
        loaded = _share(cx, call, kind, axes)
    cx.add(
        ops.TmaLoad(
            source,
            at,
            to,
            on,
            axes,
            shares,
            static_choice(cx, cache, f"{call}: cache", CACHE_HINTS),
            _element_strides(cx, call, element_strides, source, kind, loaded),
        )
    )


def _multicast_axes(cx: Context, call: str, value: object) -> tuple[int, ...]:
    """The cluster axes along which a tile is shared; those of one block need no multicast."""
    if value is None:
        return ()
    what = f"{call}: multicast"
    given = value if isinstance(value, tuple | list) else (value,)
    axes = tuple(static_int(cx, axis, f"{what}: axis") for axis in given)
    if cx.cluster is None:
        raise cx.value_error(
            f"{what}: this kernel has no clusters",
            hint="declare them: @td.kernel(cluster=(2, 1), ...)",
        )
    for place, axis in enumerate(axes):
        if not 0 <= axis < len(cx.cluster):
            raise cx.value_error(
                f"{what}: expected an axis of the cluster {cx.cluster}, 0 to"
                f" {len(cx.cluster) - 1}, got {axis}"
            )
        if axis in axes[:place]:
            raise cx.value_error(f"{what}: expected each axis once, got {axis} twice")
    return tuple(sorted(axis for axis in axes if cluster.extent(cx, axis) > 1))


def _share(cx: Context, call: str, tile: SharedTile, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of each block's share of a tile, which must be one that copies can write."""
    blocks = prod(cluster.extent(cx, axis) for axis in axes)
    rows = tile.shape[0]
    whole = "write partitioned=False: one block loads the whole tile for all"
    what = f"{call}: multicast: a tile of shape {tile.shape}"
    if len(tile.shape) == 1:
        raise cx.value_error(f"{what} has no rows to share among {blocks} blocks", hint=whole)
    if rows % blocks:
        raise cx.value_error(
            f"{what} is shared by {blocks} blocks: expected a first extent that is a multiple of"
            f" {blocks}, got {rows}",
            hint=whole,
        )
    share = rows // blocks
    if tile.swizzle and prod(tile.shape[:-1]) // blocks % ATOM_ROWS:
        raise cx.value_error(
            f"{what} is shared by {blocks} blocks, {share} of its first extent each: expected a"
            f" multiple of {ATOM_ROWS} rows, of which its swizzle of {tile.swizzle} bytes is made",
            hint=f"use a multiple of {blocks * ATOM_ROWS} rows, or {whole}",
        )
    nbytes = tile.nbytes // blocks
    if not tile.swizzle and nbytes % SHARED_ALIGN:
        raise cx.value_error(
            f"{what} is shared by {blocks} blocks, {nbytes} bytes each: expected a multiple of"
            f" {SHARED_ALIGN} bytes",
            hint=whole,
        )
    return share, *tile.shape[1:]


def _element_strides(
    cx: Context,
    call: str,
    value: object,
    tensor: Value,
    tile: SharedTile,
    loaded: tuple[int, ...],
) -> tuple[int, ...]:
    """Steps between the elements that are taken; none where all are 1.

    ``loaded`` are the extents that one block loads.
    """
    if value is None:
        return ()
    what = f"{call}: element_strides"
    assert isinstance(tensor.type, TensorType)
    rank = tensor.type.rank
    strides = static_ints(
        cx, value, what, rank, "dimension of the tensor", least=1, most=MAX_ELEMENT_STRIDE
    )
    if strides[-1] != 1:
        raise cx.value_error(
            f"{what}: expected 1 for the last dimension, whose elements are copied without gaps,"
            f" got {strides[-1]}"
        )
    box = tma_box(loaded, tile.dtype.itemsize, tile.swizzle)
    for axis, (extent, stride) in enumerate(zip(box, strides[rank - len(box) :], strict=True)):
        spanned = (extent - 1) * stride + 1
        if spanned > MAX_BOX:
            raise cx.value_error(
                f"{what}: {extent} elements along extent {axis} of a tile of shape {tile.shape}, in"
                f" steps of {stride}, span {spanned}: expected at most {MAX_BOX}",
                hint="load a smaller tile",
            )
    return strides if any(stride != 1 for stride in strides) else ()


# -------------------------------------------------------------------------------------- stores

_WIDE = ("int32", "uint32", "int64", "uint64")
_REDUCIBLE = {
    "add": (*_WIDE, "float32", "float16", "bfloat16"),
    "min": (*_WIDE, "float16", "bfloat16"),
    "max": (*_WIDE, "float16", "bfloat16"),
    "and": _WIDE,
    "or": _WIDE,
    "xor": _WIDE,
}


@implements(language.tma_store)
def tma_store(
    cx: Context,
    tile: object,
    tensor: object,
    coords: object,
    reduce: object = None,
    cache: object = None,
) -> None:
    call = "td.tma_store"
    if not isinstance(tile, Value) or not isinstance(tile.type, Tile | SharedTile):
        raise cx.type_error(
            f"{call}: tile: expected a register tile or a tile in shared memory, got"
            f" {cx.describe(tile)}",
            hint="the tile comes first: td.tma_store(tile, tensor, coords)"
            if isinstance(tile, Value) and isinstance(tile.type, TensorType)
            else expanded_hint(tile),
        )
    target = tensor_argument(cx, tensor, f"{call}: tensor")
    kind = tile.type
    if isinstance(kind, SharedTile) and kind.transposed:
        raise cx.type_error(
            f"{call}: tile: expected a tile as it is stored, got a transposed one",
            hint="a copy cannot transpose: store the tile itself",
        )
    if isinstance(kind, Tile) and len(kind.shape) != 2:
        raise cx.type_error(
            f"{call}: tile: expected a register tile of rank 2, got {cx.describe(tile)}",
            hint="td.store writes tiles of rank 1" if len(kind.shape) == 1 else None,
        )
    check_pair(cx, call, target, kind.shape, kind.dtype, loads=False)
    at = coordinates(cx, coords, target, call)
    check_last_coordinate(cx, call, target, at)
    check_not_before(cx, call, at, "a store")
    # A register tile is staged in shared memory with the widest swizzle that fits.
    swizzle = (
        kind.swizzle
        if isinstance(kind, SharedTile)
        else pick_swizzle(kind.shape[-1] * kind.dtype.itemsize)
    )
    check_copyable(cx, call, kind.shape, kind.dtype, swizzle)
    reduction = static_choice(cx, reduce, f"{call}: reduce", REDUCTIONS)
    if reduction is not None:
        _check_reduction(cx, call, reduction, kind.dtype)
    policy = static_choice(cx, cache, f"{call}: cache", CACHE_HINTS)
    cx.add(ops.TmaStore(tile, target, at, reduction, policy))


def _check_reduction(cx: Context, call: str, reduction: str, dtype: DType) -> None:
    legal = _REDUCIBLE[reduction]
    if dtype.name not in legal:
        others = [kind for kind, names in _REDUCIBLE.items() if dtype.name in names]
        raise cx.value_error(
            f"{call}: reduce: {reduction!r} does not exist for {dtype}: expected one of"
            f" {', '.join(legal)}",
            hint=f"{dtype} has {', '.join(map(repr, others))}" if others else None,
        )


# ----------------------------------------------------------------------------------- prefetches


@implements(language.tma_prefetch)
def tma_prefetch(
    cx: Context, tensor: object, coords: object, shape: object, cache: object = None
) -> None:
    call = "td.tma_prefetch"
    source = tensor_argument(cx, tensor, f"{call}: tensor")
    assert isinstance(source.type, TensorType)
    dtype = source.type.dtype
    extents = static_shape(cx, shape, f"{call}: shape")
    check_rank(cx, call, source, extents)
    at = coordinates(cx, coords, source, call)
    check_last_coordinate(cx, call, source, at)
    # As a tile of a payload would be swizzled, so that the load and the prefetch share their map.
    swizzle = tile_swizzle(extents, dtype.itemsize)
    check_copyable(cx, call, extents, dtype, swizzle)
    policy = static_choice(cx, cache, f"{call}: cache", CACHE_HINTS)
    cx.add(copy.TmaPrefetch(source, at, extents, swizzle, policy))
