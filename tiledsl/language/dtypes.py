"""Element types: ``td.bfloat16``, ``td.int32``, ...

A dtype is an object with ``name``, ``bits``, ``itemsize`` (bytes) and ``kind``. Inside of a kernel
it can be called: ``td.float32(x)`` converts a scalar or a register tile, as ``x.to(td.float32)``.
As an annotation of a kernel's parameter it declares a scalar argument: ``eps: td.float32``.
"""

from __future__ import annotations

from tiledsl.codegen.ir.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

__all__ = [
    "DType",
    "as_dtype",
    "bfloat16",
    "bool_",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
