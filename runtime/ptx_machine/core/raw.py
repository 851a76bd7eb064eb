"""Reinterpreted bits and raw memory for compiled functions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = [
    "f32_bits",
    "f32_of",
    "f32p",
    "f64_bits",
    "f64_of",
    "f64p",
    "fma32",
    "fma64",
    "i32p",
    "i64p",
    "u8p",
    "u16p",
    "u32p",
    "u64p",
]  # fmt: skip


def _bitcast(source: Any, target: Any, llvm: ir.Type) -> Any:
    def cast(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], llvm)

        return target(source), generate

    return intrinsic(cast)


f32_of = _bitcast(types.uint32, types.float32, ir.FloatType())
f32_bits = _bitcast(types.float32, types.uint32, ir.IntType(32))
f64_of = _bitcast(types.uint64, types.float64, ir.DoubleType())
f64_bits = _bitcast(types.float64, types.uint64, ir.IntType(64))


def _pointer(element: Any) -> Any:
    """A function that takes an address (int64) for a pointer: ``u64p(address)[index]``."""

    def cast(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(element)(types.int64), generate

    return intrinsic(cast)


u8p, u16p, u32p, u64p = map(_pointer, (types.uint8, types.uint16, types.uint32, types.uint64))
i32p, i64p, f32p, f64p = map(_pointer, (types.int32, types.int64, types.float32, types.float64))


def _fma(kind: Any) -> Any:
    """x * y + z, rounded once."""

    def multiply_add(typing: Any, x: Any, y: Any, z: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            return builder.fma(*args)

        return kind(kind, kind, kind), generate

    return intrinsic(multiply_add)


fma32, fma64 = _fma(types.float32), _fma(types.float64)
