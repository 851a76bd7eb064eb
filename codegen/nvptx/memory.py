"""The launch, tensors in global memory, variables of a role, and addresses in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import memory, protocol, tile
from tiledsl.codegen.ir.plan import ParamSlot
from tiledsl.codegen.ir.types import LocalType, RingType, SharedArrayType, TensorType
from tiledsl.codegen.nvptx.casts import as_bits, as_word, from_bits
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I8, I32, I64
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.codegen.nvptx.values import LLVM_TYPES
from tiledsl.errors import InternalError

MBARRIER_BYTES = 8


@lower(tile.BlockId)
def _block_id(low: Lowering, op: tile.BlockId) -> None:
    _special_register(low, op.result, "ctaid", op.axis)


@lower(tile.BlockCount)
def _block_count(low: Lowering, op: tile.BlockCount) -> None:
    _special_register(low, op.result, "nctaid", op.axis)


def _special_register(low: Lowering, result: Value, name: str, axis: int) -> None:
    low.define(result, low.intrinsic(f"llvm.nvvm.read.ptx.sreg.{name}.{'xyz'[axis]}", I32, ()))


# --------------------------------------------------------------------- global memory


def slot(low: Lowering, kind: str, tensor: Value, axis: int = 0) -> Any:
    """The machine parameter that says something of a tensor."""
    number = low.get(tensor)
    found = low.slots.get(ParamSlot(kind, number, axis))
    if found is None:
        raise InternalError(f"the plan has no {kind} of parameter #{number}", tensor.loc)
    return found


@lower(tile.TensorDim)
def _tensor_dim(low: Lowering, op: tile.TensorDim) -> None:
    low.define(op.result, slot(low, "dim", op.tensor, op.axis))


def _element_address(low: Lowering, tensor: Value, indices: Sequence[Value]) -> Any:
    """A pointer into global memory. Offsets have 64 bits: a tensor may exceed 2**31 elements."""
    assert isinstance(tensor.type, TensorType)
    builder = low.builder
    offset: Any = I64(0)
    for axis, index in enumerate(indices):
        stride = slot(low, "stride", tensor, axis)
        offset = builder.add(offset, builder.mul(builder.sext(low.get(index), I64), stride))
    pointer = slot(low, "pointer", tensor)
    storage = as_storage(tensor.type)
    return builder.gep(pointer, [offset], source_etype=storage)


def as_storage(tensor: TensorType) -> Any:
    """The LLVM type of an element in memory: bool_ takes a byte."""
    kind = LLVM_TYPES[tensor.dtype]
    return I8 if tensor.dtype.kind == "bool" else kind


@lower(tile.TensorLoad)
def _tensor_load(low: Lowering, op: tile.TensorLoad) -> None:
    assert isinstance(op.tensor.type, TensorType)
    address = _element_address(low, op.tensor, op.indices)
    dtype = op.tensor.type.dtype
    loaded = low.builder.load(address, typ=as_storage(op.tensor.type), align=dtype.itemsize)
    low.define(op.result, from_bits(low, loaded, dtype) if dtype.kind == "bool" else loaded)


@lower(tile.TensorStore)
def _tensor_store(low: Lowering, op: tile.TensorStore) -> None:
    assert isinstance(op.tensor.type, TensorType)
    address = _element_address(low, op.tensor, op.indices)
    dtype = op.tensor.type.dtype
    value = low.get(op.value)
    if low.runner.single:
        stored = as_bits(low, value, dtype) if dtype.kind == "bool" else value
        low.builder.store(stored, address, align=dtype.itemsize)
        return
    word = as_word(low, value, dtype)
    constraint = {16: "h", 32: "r", 64: "l"}[word.type.width]
    text = f"st.global.b{dtype.bits} [$0], $1;"
    low.elected(text, [("l", address), (constraint, word)], "role")


# ----------------------------------------------------------------- variables of a role


@lower(protocol.LocalNew)
def _local_new(low: Lowering, op: protocol.LocalNew) -> None:
    value = low.get(op.init)
    variable = low.new_variable(value.type, op.name)
    low.builder.store(value, variable)
    low.define(op.result, variable)


@lower(protocol.LocalGet)
def _local_get(low: Lowering, op: protocol.LocalGet) -> None:
    assert isinstance(op.local.type, LocalType)
    kind = LLVM_TYPES[op.local.type.dtype]
    low.define(op.result, low.builder.load(low.get(op.local), typ=kind))


@lower(protocol.LocalSet)
def _local_set(low: Lowering, op: protocol.LocalSet) -> None:
    low.builder.store(low.get(op.value), low.get(op.local))


@lower(protocol.PartIndex)
def _part_index(low: Lowering, op: protocol.PartIndex) -> None:
    low.define(op.result, low.runner.part)


# ---------------------------------------------------------------------- shared memory


@lower(tile.PipelineCreate)
def _pipeline_create(low: Lowering, op: tile.PipelineCreate) -> None:
    low.define(op.result, op.name)  # its barriers are initialised at the kernel's entry


@lower(tile.PayloadTile)
def _payload_tile(low: Lowering, op: tile.PayloadTile) -> None:
    assert isinstance(op.ring.type, RingType)
    array = op.ring.type.arrays[op.array]
    base = low.shared_at(f"{low.get(op.ring)}.{array.name}")
    offset = low.builder.mul(low.get(op.index), I32(array.pitch))
    low.define(op.result, low.builder.add(base, offset))


@lower(memory.SharedCreate)
def _shared_create(low: Lowering, op: memory.SharedCreate) -> None:
    low.define(op.result, low.shared_at(op.name))


@lower(memory.SharedAt)
def _shared_at(low: Lowering, op: memory.SharedAt) -> None:
    assert isinstance(op.array.type, SharedArrayType)
    offset = low.builder.mul(low.get(op.index), I32(op.array.type.array.pitch))
    low.define(op.result, low.builder.add(low.get(op.array), offset))


@lower(tile.SharedTranspose)
def _shared_transpose(low: Lowering, op: tile.SharedTranspose) -> None:
    low.define(op.result, low.get(op.tile))


@lower(protocol.RingBarrier)
def _ring_barrier(low: Lowering, op: protocol.RingBarrier) -> None:
    base = low.shared_at(f"{low.get(op.ring)}.{op.which}")
    offset = low.builder.mul(low.get(op.index), I32(MBARRIER_BYTES))
    low.define(op.result, low.builder.add(base, offset))


@lower(protocol.StagingBuffer)
def _staging_buffer(low: Lowering, op: protocol.StagingBuffer) -> None:
    offset = low.builder.mul(low.runner.part, I32(op.buffer.nbytes))
    low.define(op.result, low.builder.add(low.shared_at(op.name), offset))
