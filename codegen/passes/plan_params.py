"""The machine parameters: only what the kernel uses of its arguments, in a fixed order.

Tensor maps come first (they need 64-byte alignment), then pointers, extents, strides, scalars.
"""

from __future__ import annotations

from tiledsl.codegen.ir.core import Value, users
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.layouts import tma_box
from tiledsl.codegen.ir.ops import protocol, tile
from tiledsl.codegen.ir.plan import ParamSlot, TensorMapSpec
from tiledsl.codegen.ir.types import BufferType, Scalar, SharedTile, TensorType

_ORDER = ("tensormap", "pointer", "dim", "stride", "scalar")


def plan_params(kernel: Kernel) -> None:
    """Fill ``plan.params``."""
    assert kernel.plan is not None
    index = {param.value: number for number, param in enumerate(kernel.params)}
    found: dict[ParamSlot, None] = {}
    for op in kernel.body.walk():
        match op:
            case tile.TmaLoad() | protocol.TmaStoreShared() | protocol.TmaStoreBuffer():
                spec = tensormap_of(op, index)
                found[ParamSlot("tensormap", spec.param, dtype=spec.dtype, spec=spec)] = None
            case tile.TensorDim():
                found[ParamSlot("dim", index[op.tensor], op.axis)] = None
            case tile.TensorLoad() | tile.TensorStore():
                assert isinstance(op.tensor.type, TensorType)
                found[ParamSlot("pointer", index[op.tensor])] = None
                for axis in range(op.tensor.type.rank):
                    found[ParamSlot("stride", index[op.tensor], axis)] = None
    used = users(kernel.body)
    for number, param in enumerate(kernel.params):
        if isinstance(param.type, Scalar) and param.value in used:
            found[ParamSlot("scalar", number, dtype=param.type.dtype)] = None
    kernel.plan.params = sorted(found, key=lambda slot: _ORDER.index(slot.kind))


def tensormap_of(
    op: tile.TmaLoad | protocol.TmaStoreShared | protocol.TmaStoreBuffer, index: dict[Value, int]
) -> TensorMapSpec:
    """The tensor map that a copy needs; ``index`` numbers the tensor parameters."""
    tensor = op.tensor.type
    assert isinstance(tensor, TensorType)
    if isinstance(op, protocol.TmaStoreBuffer):
        buffer = op.buffer.type
        assert isinstance(buffer, BufferType)
        box: tuple[int, ...] = buffer.shape
        swizzle = buffer.swizzle
    else:
        shared = op.tile.type
        assert isinstance(shared, SharedTile)
        box = tma_box(shared.stored_shape, shared.dtype.itemsize, shared.swizzle)
        swizzle = shared.swizzle
    padded = (1,) * (tensor.rank - len(box)) + tuple(box)
    use = "load" if isinstance(op, tile.TmaLoad) else "store"
    return TensorMapSpec(index[op.tensor], tensor.dtype, padded, swizzle, use)
