"""Boxes of tensors in global memory, as bulk tensor copies see them. Outside reads as zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiledsl.runtime.emulator.values import Array


def _overlap(
    tensor: Array, coords: Sequence[int], shape: tuple[int, ...]
) -> tuple[tuple[slice | int, ...], tuple[slice, ...], bool] | None:
    """Where a box lies in a tensor, as indices of both; None when wholly outside.

    The box has extent 1 in the leading dimensions that it lacks. The flag says whether all of it
    lies inside.
    """
    lead = tensor.ndim - len(shape)
    outer: list[slice | int] = []
    for coord, extent in zip(coords[:lead], tensor.shape, strict=False):
        if not 0 <= coord < extent:
            return None
        outer.append(coord)
    inner: list[slice] = []
    whole = True
    for coord, size, extent in zip(coords[lead:], shape, tensor.shape[lead:], strict=True):
        low, high = max(coord, 0), min(coord + size, extent)
        if low >= high:
            return None
        whole = whole and high - low == size
        outer.append(slice(low, high))
        inner.append(slice(low - coord, high - coord))
    return tuple(outer), tuple(inner), whole


def load_box(tensor: Array, coords: Sequence[int], target: Array) -> None:
    """Fill ``target`` from the box of its shape at ``coords``; what lies outside reads as zero."""
    found = _overlap(tensor, coords, target.shape)
    if found is None:
        target[...] = 0
        return
    outer, inner, whole = found
    if whole:
        target[...] = tensor[outer]
        return
    target[...] = 0
    target[inner] = tensor[outer]


def load_strided(
    tensor: Array, coords: Sequence[int], strides: Sequence[int], target: Array
) -> None:
    """Fill ``target`` from every ``strides``-th element, one stride a dimension of the tensor.

    Element ``i`` of the box is at ``coords + i * strides``. The box has extent 1 in the leading
    dimensions that it lacks.
    """
    lead = tensor.ndim - target.ndim
    target[...] = 0
    outer: list[slice | int] = []
    inner: list[slice] = []
    for axis, (coord, stride, extent) in enumerate(zip(coords, strides, tensor.shape, strict=True)):
        if axis < lead:
            if not 0 <= coord < extent:
                return
            outer.append(coord)
            continue
        first = max(0, -(coord // stride))  # of the elements that lie inside
        end = min(target.shape[axis - lead], -((coord - extent) // stride))
        if first >= end:
            return
        inner.append(slice(first, end))
        outer.append(slice(coord + first * stride, coord + (end - 1) * stride + 1, stride))
    target[tuple(inner)] = tensor[tuple(outer)]


def box_of(tensor: Array, coords: Sequence[int], shape: tuple[int, ...]) -> Array | None:
    """The part of ``tensor`` that a copy of a box of ``shape`` at ``coords`` reaches, as a view."""
    found = _overlap(tensor, coords, shape)
    return None if found is None else tensor[found[0]]


def store_box(tensor: Array, coords: Sequence[int], source: Array) -> None:
    """Write ``source`` to the box of its shape at ``coords``; what lies outside is left out."""
    found = _overlap(tensor, coords, source.shape)
    if found is not None:
        outer, inner, _ = found
        tensor[outer] = source[inner]


def combine_box(
    tensor: Array,
    coords: Sequence[int],
    source: Array,
    combine: Callable[[Array, Array], Array],
) -> None:
    """As ``store_box``, of ``combine(what is there, source)``."""
    found = _overlap(tensor, coords, source.shape)
    if found is not None:
        outer, inner, _ = found
        tensor[outer] = combine(tensor[outer], source[inner])


def load_im2col(
    tensor: Array,
    coords: Sequence[int],
    offsets: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    strides: Sequence[int],
    target: Array,
) -> None:
    """Fill ``target`` (pixels, channels) from a channels-last tensor (N, [D, [H,]] W, C).

    Window corners walk through the box from ``lower`` to ``extent - 1 + upper``, both included, by
    ``strides``: the last spatial dimension first; at its end it starts at ``lower`` again and the
    one before it takes a step; behind the box comes the next image. A pixel is read at its corner
    plus ``offsets``.
    """
    spatial = tensor.shape[1:-1]
    image, *corner = coords[:-1]
    last = [extent - 1 + bound for extent, bound in zip(spatial, upper, strict=True)]
    channel = coords[-1]
    low, high = max(channel, 0), min(channel + target.shape[1], tensor.shape[-1])
    target[...] = 0
    for row in target:
        if image >= tensor.shape[0]:
            return  # no image is left: zeros
        at = [c + offset for c, offset in zip(corner, offsets, strict=True)]
        inside = all(0 <= a < extent for a, extent in zip(at, spatial, strict=True))
        if inside and image >= 0 and low < high:
            where: Any = (image, *at, slice(low, high))
            row[low - channel : high - channel] = tensor[where]
        for axis in reversed(range(len(corner))):
            corner[axis] += strides[axis]
            if corner[axis] <= last[axis]:
                break
            corner[axis] = lower[axis]
        else:
            image += 1
