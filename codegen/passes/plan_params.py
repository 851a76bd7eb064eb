"""The machine parameters: only what the kernel uses of its arguments, in a fixed order.

Tensor maps come first (they need 64-byte alignment), then pointers, extents, strides, scalars.
"""

from __future__ import annotations

from tiledsl.codegen.ir.boxes import tensormap_of
from tiledsl.codegen.ir.core import Value, users
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import copy, memory, protocol, tile
from tiledsl.codegen.ir.plan import ParamSlot
from tiledsl.codegen.ir.types import Scalar, TensorType

_ORDER = ("tensormap", "pointer", "dim", "stride", "scalar")

_BY_TENSOR_MAP = (
    tile.TmaLoad, copy.TmaLoadIm2col, copy.TmaPrefetch,
    protocol.TmaStoreShared, protocol.TmaStoreBuffer,
)  # fmt: skip
# Those that stop at the tensor's ends themselves.
_BOUNDED = (copy.BulkLoad, copy.AsyncCopy, memory.TileLoad, memory.TileStore)


def plan_params(kernel: Kernel) -> None:
    """Fill ``plan.params``."""
    assert kernel.plan is not None
    index = {param.value: number for number, param in enumerate(kernel.params)}
    found: dict[ParamSlot, None] = {}
    for op in kernel.body.walk():
        if isinstance(op, _BY_TENSOR_MAP):
            spec = tensormap_of(op, index[op.tensor], kernel.cluster)
            found[ParamSlot("tensormap", spec.param, dtype=spec.dtype, spec=spec)] = None
        elif isinstance(op, tile.TensorDim):
            found[ParamSlot("dim", index[op.tensor], op.axis)] = None
        elif isinstance(op, tile.TensorLoad | tile.TensorStore):
            found.update(_memory(op.tensor, index, bounded=False))
        elif isinstance(op, _BOUNDED):
            found.update(_memory(op.tensor, index, bounded=True))
    used = users(kernel.body)
    for number, param in enumerate(kernel.params):
        if isinstance(param.type, Scalar) and param.value in used:
            found[ParamSlot("scalar", number, dtype=param.type.dtype)] = None
    kernel.plan.params = sorted(found, key=lambda slot: _ORDER.index(slot.kind))


def _memory(tensor: Value, index: dict[Value, int], *, bounded: bool) -> dict[ParamSlot, None]:
    """Address and strides of a tensor, and with ``bounded`` its extents."""
    assert isinstance(tensor.type, TensorType)
    number = index[tensor]
    found = [ParamSlot("pointer", number)]
    for axis in range(tensor.type.rank):
        found.append(ParamSlot("stride", number, axis))
        if bounded:
            found.append(ParamSlot("dim", number, axis))
    return dict.fromkeys(found)
