"""``td.tma_load_im2col``: ranges of the hardware's fields, by the number of spatial dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import copy
from tiledsl.codegen.ir.ops.tile import CACHE_HINTS
from tiledsl.codegen.ir.types import SharedTile, TensorType
from tiledsl.frontend.intrinsics.arguments import (
    coordinates,
    integer,
    static_choice,
    static_ints,
)
from tiledsl.frontend.intrinsics.copy_checks import (
    MAX_BOX,
    check_last_coordinate,
    check_row,
    destination,
    known,
)
from tiledsl.frontend.registry import implements
from tiledsl.language import tma as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

MAX_PIXELS = 1024  # of one copy
MAX_STRIDE = 8
BOUND_BITS = {1: 16, 2: 8, 3: 5}  # signed, by the number of spatial dimensions
OFFSET_BITS = {1: 16, 2: 8, 3: 5}  # unsigned


@implements(language.tma_load_im2col)
def tma_load_im2col(
    cx: Context,
    tensor: object,
    coords: object,
    offsets: object,
    tile: object,
    barrier: object,
    lower: object,
    upper: object,
    strides: object = None,
    cache: object = None,
) -> None:
    call = "td.tma_load_im2col"
    source, to, on = destination(cx, call, tensor, tile, barrier)
    kind = to.type
    assert isinstance(source.type, TensorType) and isinstance(kind, SharedTile)
    spatial = source.type.rank - 2
    if spatial not in BOUND_BITS:
        raise cx.type_error(
            f"{call}: tensor: expected a channels-last tensor of rank 3 to 5: (image, [depth,"
            f" [height,]] width, channel), got {cx.describe(source)}"
        )
    _check_tile(cx, call, kind)
    at = coordinates(cx, coords, source, call)
    check_last_coordinate(cx, call, source, at)
    each = "spatial dimension"
    half = 1 << (BOUND_BITS[spatial] - 1)
    low = static_ints(cx, lower, f"{call}: lower", spatial, each, least=-half, most=half - 1)
    high = static_ints(cx, upper, f"{call}: upper", spatial, each, least=-half, most=half - 1)
    steps = (1,) * spatial
    if strides is not None:
        steps = static_ints(
            cx, strides, f"{call}: strides", spatial, each, least=1, most=MAX_STRIDE
        )
    policy = static_choice(cx, cache, f"{call}: cache", CACHE_HINTS)
    taps = _offsets(cx, call, offsets, spatial)
    cx.add(copy.TmaLoadIm2col(source, at, taps, to, on, low, high, steps, policy))


def _check_tile(cx: Context, call: str, tile: SharedTile) -> None:
    if len(tile.shape) != 2:
        raise cx.type_error(
            f"{call}: tile: expected one of rank 2, (pixels, channels), got shape {tile.shape}"
        )
    pixels, channels = tile.shape
    if pixels > MAX_PIXELS:
        raise cx.value_error(
            f"{call}: tile: expected at most {MAX_PIXELS} pixels, got {pixels}",
            hint="load several tiles",
        )
    check_row(cx, call, tile.shape, tile.dtype)
    panel = tile.swizzle // tile.dtype.itemsize if tile.swizzle else channels
    if panel > MAX_BOX:
        raise cx.value_error(
            f"{call}: tile: expected at most {MAX_BOX} channels, as no swizzle divides its rows,"
            f" got {channels}",
            hint=f"use a multiple of {32 // tile.dtype.itemsize} channels, which is copied in"
            " pieces",
        )


def _offsets(cx: Context, call: str, value: object, spatial: int) -> tuple[Value, ...]:
    """The position in the filter; what is known of it must fit the instruction's field."""
    what = f"{call}: offsets"
    if not isinstance(value, tuple | list) or len(value) != spatial:
        got = f"{len(value)} of them" if isinstance(value, tuple | list) else cx.describe(value)
        raise cx.type_error(
            f"{what}: expected a tuple of {spatial} integer{'s' if spatial > 1 else ''}, one for"
            f" each spatial dimension, got {got}",
            hint="write (x,) for one" if spatial == 1 else None,
        )
    most = (1 << OFFSET_BITS[spatial]) - 1
    found: list[Value] = []
    for place, given in enumerate(value):
        number = integer(cx, given, f"{what}: number {place}")
        offset = cx.int32(number)
        exact = known(offset)
        if exact is not None and not 0 <= exact <= most:
            raise cx.value_error(f"{what}: number {place}: expected 0 to {most}, got {exact}")
        found.append(offset)
    return tuple(found)
