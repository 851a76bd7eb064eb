"""Printing from the device, through the driver's ``vprintf``."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import tile
from tiledsl.codegen.ir.types import Scalar
from tiledsl.codegen.nvptx.casts import convert
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I8, I32, POINTER
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.errors import InvalidValue

VPRINTF = "vprintf"
MAX_VALUES = 32  # that the driver's printf takes


@lower(tile.Print)
def _print(low: Lowering, op: tile.Print) -> None:
    if len(op.values) > MAX_VALUES:
        raise InvalidValue(
            f"print takes at most {MAX_VALUES} values: got {len(op.values)}",
            op.loc,
            hint="use several prints",
        )
    if low.runner.single:
        _call(low, op)
        return
    inside, behind = low.label("print"), low.label("endprint")
    low.builder.cbranch(low.runner.leads_role, inside, behind)
    low.builder.position_at_end(inside)
    _call(low, op)
    low.builder.branch(behind)
    low.builder.position_at_end(behind)


def _call(low: Lowering, op: tile.Print) -> None:
    arguments = []
    for value in op.values:
        assert isinstance(value.type, Scalar)
        arguments.append(_promoted(low, low.get(value), value.type.dtype))
    builder = low.builder
    packed: Any = POINTER(None)
    if arguments:
        struct = ir.LiteralStructType([argument.type for argument in arguments])
        variable = low.new_variable(struct, "print")
        for number, argument in enumerate(arguments):
            builder.store(argument, builder.gep(variable, [I32(0), I32(number)]))
        packed = builder.bitcast(variable, POINTER)
    builder.call(_vprintf(low), (_text(low, op.template), packed))


def _promoted(low: Lowering, value: Any, dtype: DType) -> Any:
    """As C passes it to a function with variable arguments: int, long long or double."""
    if dtype.is_float:
        return convert(low, value, dtype, dtypes.float64)
    if dtype.kind == "bool" or dtype.bits < 32:
        wide = dtypes.int32 if dtype.is_signed else dtypes.uint32
        return convert(low, value, dtype, wide)
    return value


def _vprintf(low: Lowering) -> Any:
    found = low.module.globals.get(VPRINTF)
    if found is None:
        kind = ir.FunctionType(I32, (POINTER, POINTER))
        found = ir.Function(low.module, kind, VPRINTF)
    return found


def _text(low: Lowering, template: str) -> Any:
    """A generic pointer to the text, which ends in a NUL."""
    data = bytearray(template.encode() + b"\0")
    kind = ir.ArrayType(I8, len(data))
    name = low.module.get_unique_name(f"print{len(low.module.globals)}")
    text = ir.GlobalVariable(low.module, kind, name, addrspace=1)
    text.linkage = "internal"
    text.global_constant = True
    text.initializer = kind(data)
    return low.builder.addrspacecast(text, POINTER)
