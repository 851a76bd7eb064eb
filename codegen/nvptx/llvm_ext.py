"""What ``llvmlite.ir`` lacks: bfloat, string attributes, tensor-map parameters, loop metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from llvmlite.ir import types as ir_types
from llvmlite.ir import values as ir_values

I1 = ir.IntType(1)
I8 = ir.IntType(8)
I16 = ir.IntType(16)
I32 = ir.IntType(32)
I64 = ir.IntType(64)
F16 = ir.HalfType()
F32 = ir.FloatType()
F64 = ir.DoubleType()
VOID = ir.VoidType()
POINTER = ir.PointerType()
GLOBAL_POINTER = ir.PointerType(addrspace=1)
SHARED_POINTER = ir.PointerType(addrspace=3)


class BFloatType(ir_types._BaseFloatType):  # type: ignore[misc]
    """LLVM's ``bfloat``. Constants must be exactly representable (see ``constants``)."""

    null = "0.0"
    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"

    def format_constant(self, value: float) -> str:
        """The hexadecimal form of a double, from which LLVM converts without loss."""
        return str(ir_types._format_double(value))


BFloatType._create_instance()
BF16 = BFloatType()


class FunctionAttributes(ir_values.FunctionAttributes):  # type: ignore[misc]
    """Function attributes with string attributes such as ``"nvvm.maxntid"="384"``."""

    def __init__(self, names: tuple[str, ...], strings: Mapping[str, str]) -> None:
        super().__init__(names)
        self.strings = dict(strings)

    def _to_list(self, return_type: Any) -> list[str]:
        quoted = [f'"{key}"="{value}"' for key, value in self.strings.items()]
        return [*super()._to_list(return_type), *quoted]


class TensorMapAttributes(ir_values.ArgumentAttributes):  # type: ignore[misc]
    """A tensor map: 128 bytes by value that stay in the parameter space.

    Without ``grid_constant`` LLVM would copy them to local memory, which the tensor memory
    accelerator cannot read (hazard H10).
    """

    def _to_list(self, _type: Any) -> list[str]:
        return ["byval([128 x i8])", "align 64", '"nvvm.grid_constant"']


class LoopMetadata(ir_values.MDValue):  # type: ignore[misc]
    """``!n = distinct !{!n, !options...}``, one for each loop."""

    def __init__(self, module: Any, options: tuple[Any, ...]) -> None:
        super().__init__(module, options, name=str(len(module.metadata)))

    def descr(self, buf: list[str]) -> None:
        operands = ", ".join(op.get_reference() for op in (self, *self.operands))
        buf += (f"distinct !{{ {operands} }}", "\n")


def keep_loop(module: Any, branch: Any) -> None:
    """Mark the branch that closes a loop: LLVM must not unroll or peel it.

    Copies of a loop body would multiply the code around its barriers (hazard H7), and the user
    unrolls where it pays.
    """
    option = module.add_metadata(["llvm.loop.unroll.disable"])
    branch.set_metadata("llvm.loop", LoopMetadata(module, (option,)))


def llvm_name(text: str) -> str:
    """A name for a value or a label after what the user called something.

    LLVM refuses names that contain NUL or are longer than 1024 characters.
    """
    return re.sub(r"[^\w.]", "_", text, flags=re.ASCII)[:64]
