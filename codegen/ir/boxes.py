"""Bulk tensor operations as the hardware does them: the tensor map, and the copies of one box.

The planning pass asks for the map of an operation, and the lowering for its copies: both read the
box here, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.layouts import tma_box
from tiledsl.codegen.ir.ops.copy import TmaLoadIm2col, TmaPrefetch
from tiledsl.codegen.ir.ops.protocol import TmaStoreBuffer, TmaStoreShared
from tiledsl.codegen.ir.ops.tile import TmaLoad
from tiledsl.codegen.ir.plan import Im2col, TensorMapSpec
from tiledsl.codegen.ir.types import BufferType, SharedTile, TensorType

TensorOp: TypeAlias = TmaLoad | TmaLoadIm2col | TmaPrefetch | TmaStoreShared | TmaStoreBuffer


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a box: ``offset`` bytes into the tile, and the first element of it there.

    ``start`` has one entry for each dimension of the stored tile, in elements of the tile.
    """

    offset: int
    start: tuple[int, ...]


def shares(op: TensorOp, cluster: tuple[int, ...]) -> int:
    """How many blocks load a share of the tile each; 1 where one block loads the whole."""
    if not isinstance(op, TmaLoad) or not op.partitioned:
        return 1
    return prod(cluster[axis] for axis in op.multicast)


def _loaded_shape(op: TensorOp, cluster: tuple[int, ...]) -> tuple[int, ...]:
    """The extents that one block copies, in the stored order."""
    if isinstance(op, TmaStoreBuffer):
        assert isinstance(op.buffer.type, BufferType)
        return op.buffer.type.shape
    if isinstance(op, TmaPrefetch):
        return op.shape
    assert isinstance(op.tile.type, SharedTile)
    first, *others = op.tile.type.stored_shape
    return (first // shares(op, cluster), *others)


def _swizzle(op: TensorOp) -> int:
    if isinstance(op, TmaPrefetch):
        return op.swizzle
    kind = op.buffer.type if isinstance(op, TmaStoreBuffer) else op.tile.type
    assert isinstance(kind, BufferType | SharedTile)
    return kind.swizzle


def box_of(op: TensorOp, cluster: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of one copy; (pixels, channels) of an im2col load."""
    assert isinstance(op.tensor.type, TensorType)
    shape, swizzle = _loaded_shape(op, cluster), _swizzle(op)
    itemsize = op.tensor.type.dtype.itemsize
    if isinstance(op, TmaLoadIm2col):  # its pixels are not cut: one copy walks through all of them
        return (shape[0], swizzle // itemsize if swizzle else shape[1])
    if isinstance(op, TmaStoreBuffer):
        return shape
    return tma_box(shape, itemsize, swizzle)


def tensormap_of(op: TensorOp, param: int, cluster: tuple[int, ...] = (1,)) -> TensorMapSpec:
    """The tensor map that an operation needs.

    Args:
        op: the operation.
        param: the number of the tensor's parameter.
        cluster: blocks of a cluster along each axis, which decide the box of a multicast load.
    """
    tensor = op.tensor.type
    assert isinstance(tensor, TensorType)
    box, swizzle = box_of(op, cluster), _swizzle(op)
    use = "store" if isinstance(op, TmaStoreShared | TmaStoreBuffer) else "load"
    if isinstance(op, TmaLoadIm2col):
        bounds = Im2col(op.lower, op.upper)
        strides = (1, *op.strides, 1)
        return TensorMapSpec(param, tensor.dtype, box, swizzle, use, strides, bounds)
    padded = (1,) * (tensor.rank - len(box)) + box
    strides = op.element_strides if isinstance(op, TmaLoad) else ()
    if all(step == 1 for step in strides):
        strides = ()
    # The hardware combines signed 64-bit numbers as unsigned ones, where the bits are the same.
    reduced = op.reduce if isinstance(op, TmaStoreShared | TmaStoreBuffer) else None
    unsigned = reduced in ("add", "and", "or", "xor") and tensor.dtype == dtypes.int64
    dtype = dtypes.uint64 if unsigned else tensor.dtype
    return TensorMapSpec(param, dtype, padded, swizzle, use, strides)


def copies_of(op: TensorOp, cluster: tuple[int, ...] = (1,)) -> Iterator[Copy]:
    """The copies that one block issues, for its first share.

    A tile is stored in panels as wide as the swizzle; a panel holds all rows, which are cut where
    they are more than one copy takes. The other shares follow at ``share_bytes`` each.
    """
    if isinstance(op, TmaStoreBuffer):
        yield Copy(0, (0, 0))
        return
    shape, box = _loaded_shape(op, cluster), box_of(op, cluster)
    if isinstance(op, TmaPrefetch):
        stored, itemsize = shape, _itemsize(op)
    else:
        assert isinstance(op.tile.type, SharedTile)
        stored, itemsize = op.tile.type.stored_shape, op.tile.type.dtype.itemsize
    row_bytes = box[-1] * itemsize  # of a panel
    panel_bytes = prod(stored[:-1]) * row_bytes
    if len(shape) == 1:
        for column in range(0, shape[0], box[0]):
            yield Copy(column * itemsize, (column,))
        return
    outer_bytes = prod(shape[1:-1]) * row_bytes  # from one outermost index to the next
    for panel, column in enumerate(range(0, shape[-1], box[-1])):
        for first in range(0, shape[0], box[0]):
            start = (first, *[0] * (len(shape) - 2), column)
            yield Copy(panel * panel_bytes + first * outer_bytes, start)


def _itemsize(op: TensorOp) -> int:
    assert isinstance(op.tensor.type, TensorType)
    return op.tensor.type.dtype.itemsize


def share_extent(op: TmaLoad, cluster: tuple[int, ...]) -> int:
    """Outermost elements from one share to the next."""
    return _loaded_shape(op, cluster)[0]


def share_bytes(op: TmaLoad, cluster: tuple[int, ...]) -> int:
    """Bytes from where one share starts in the tile to where the next one does."""
    shape, box = _loaded_shape(op, cluster), box_of(op, cluster)
    if len(shape) == 1:
        return shape[0] * _itemsize(op)
    return prod(shape[:-1]) * box[-1] * _itemsize(op)
