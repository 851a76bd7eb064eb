"""Attributes of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import tile
from tiledsl.codegen.ir.types import TensorType
from tiledsl.frontend.registry import attribute, implements
from tiledsl.language import tensor as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


def _type(tensor: Value) -> TensorType:
    assert isinstance(tensor.type, TensorType)
    return tensor.type


@attribute(TensorType, "shape")
def shape(cx: Context, tensor: Value) -> tuple[Value, ...]:
    return tuple(cx.emit(tile.TensorDim(tensor, axis)) for axis in range(_type(tensor).rank))


@attribute(TensorType, "dtype")
def dtype(cx: Context, tensor: Value) -> DType:
    return _type(tensor).dtype


@attribute(TensorType, "rank")
@attribute(TensorType, "ndim")
def rank(cx: Context, tensor: Value) -> int:
    return _type(tensor).rank


@implements(language.Tensor)
def tensor(cx: Context) -> None:
    raise cx.type_error(
        "td.Tensor is an annotation and cannot be created",
        hint="tensors are the kernel's parameters; td.zeros(shape, dtype) makes a register tile",
    )
