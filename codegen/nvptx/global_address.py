"""Addresses in global memory: elements of a box of a tensor, and whether they are inside of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.types import TensorType
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I1, I32, I64
from tiledsl.codegen.nvptx.memory import slot


class Source:
    """A box of a tensor that begins at some coordinates; it may reach out of the tensor.

    A box of lower rank than the tensor has extent 1 in the leading dimensions. Coordinates and
    indices are added in 64 bits, so that none of them can wrap around and seem to be inside.
    """

    def __init__(self, low: Lowering, tensor: Value, coords: Sequence[Value]) -> None:
        assert isinstance(tensor.type, TensorType)
        self.low = low
        self.itemsize = tensor.type.dtype.itemsize
        self.rank = tensor.type.rank
        builder = low.builder
        self.pointer = builder.ptrtoint(slot(low, "pointer", tensor), I64)
        self.strides = [slot(low, "stride", tensor, axis) for axis in range(self.rank)]
        self.extents = [
            builder.sext(slot(low, "dim", tensor, axis), I64) for axis in range(self.rank)
        ]
        self.coords = [builder.sext(low.get(coord), I64) for coord in coords]

    def at(self, axis: int, index: Any) -> tuple[Any, Any]:
        """Bytes from the tensor's start along ``axis`` to an index of the box, and whether inside.

        Args:
            axis: of the tensor.
            index: in the box (i32), or None for 0.
        """
        builder = self.low.builder
        place = self.coords[axis]
        if index is not None:
            place = builder.add(place, builder.sext(index, I64))
        offset = builder.mul(place, builder.mul(self.strides[axis], I64(self.itemsize)))
        return offset, builder.icmp_unsigned("<", place, self.extents[axis])

    def element(self, indices: Sequence[Any]) -> tuple[Any, Any]:
        """The address (i64) of an element of the box, and whether it is inside of the tensor (i1).

        ``indices`` (i32) has one entry for each dimension of the box.
        """
        builder = self.low.builder
        missing = self.rank - len(indices)
        address, inside = self.pointer, None
        for axis in range(self.rank):
            index = indices[axis - missing] if axis >= missing else None
            offset, here = self.at(axis, index)
            address = builder.add(address, offset)
            inside = here if inside is None else builder.and_(inside, here)
        return address, I1(1) if inside is None else inside

    def left(self, indices: Sequence[Any]) -> Any:
        """Elements (i64) from an element to the end of the last dimension."""
        builder = self.low.builder
        place = builder.add(self.coords[-1], builder.sext(indices[-1], I64))
        return builder.sub(self.extents[-1], place)

    def alignment(self) -> Any:
        """A number (i32) whose lowest bits are 0 where the address of each row is so aligned.

        For copies of neighbours along the last dimension: where that is not contiguous, the lowest
        bit is set. The column itself must be aligned too, so that no copy begins before the tensor
        and ends inside of it. Dimensions of one element are not stepped along.
        """
        builder = self.low.builder

        def bytes_of(elements: Any) -> Any:
            return builder.mul(builder.trunc(elements, I32), I32(self.itemsize))

        found = builder.or_(builder.trunc(self.pointer, I32), bytes_of(self.coords[-1]))
        for axis, stride in enumerate(self.strides[:-1]):
            stepped = builder.icmp_signed(">", self.extents[axis], I64(1))
            found = builder.or_(found, builder.select(stepped, bytes_of(stride), I32(0)))
        contiguous = builder.icmp_signed("==", self.strides[-1], I64(1))
        return builder.or_(found, builder.select(contiguous, I32(0), I32(1)))
