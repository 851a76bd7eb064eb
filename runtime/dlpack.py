"""Reading a DLPack capsule: pointer, shape, strides and dtype, and nothing is taken over.

The capsule is only looked at. Its own destructor gives the tensor back, so that nothing can
leak here; the caller's array keeps the memory alive.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.errors import TypeMismatch
from tiledsl.runtime.arrays import ArrayArg, contiguous_strides

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType

_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY

# DLDataTypeCode and bits.
_DTYPES: dict[tuple[int, int], DType] = {
    (2, 16): dtypes.float16,
    (2, 32): dtypes.float32,
    (2, 64): dtypes.float64,
    (4, 16): dtypes.bfloat16,
    (6, 8): dtypes.bool_,
    (10, 8): dtypes.float8_e4m3fn,
    (12, 8): dtypes.float8_e5m2,
} | {
    (code, dtype.bits): dtype
    for code, kind in ((0, "int"), (1, "uint"))
    for dtype in dtypes.ALL_DTYPES
    if dtype.kind == kind
}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned; the older DLManagedTensor starts with the tensor itself."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_is_valid.restype = ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer.restype = ctypes.c_void_p


def export(value: Any, stream: int) -> Any:
    """A capsule of a CUDA array, ordered before later work on ``stream`` (0: the default one)."""
    # The protocol writes the legacy default stream as 1, since 0 would be ambiguous.
    handle = stream or 1
    try:
        return value.__dlpack__(stream=handle, max_version=(1, 0))
    except TypeError:  # a producer from before DLPack 1.0 does not know max_version
        return value.__dlpack__(stream=handle)


def read(name: str, value: Any, capsule: Any) -> ArrayArg:
    """The array that ``capsule``, made by ``value.__dlpack__``, describes.

    Raises:
        TypeMismatch: for an unknown capsule, a dtype that tiledsl lacks, or host memory.
    """
    readonly = False
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise TypeMismatch(
                f"argument {name}: expected DLPack 0.x or 1.x, got {managed.major}.{managed.minor}"
            )
        readonly = bool(managed.flags & _READ_ONLY)
        tensor = managed.tensor
    elif _is_valid(capsule, b"dltensor"):
        tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    else:
        raise TypeMismatch(
            f"argument {name}: {type(value).__name__}.__dlpack__() gave no DLPack capsule,"
            f" got {capsule!r}"
        )
    dtype = _DTYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise TypeMismatch(
            f"argument {name}: no tiledsl dtype for DLPack type code {tensor.code},"
            f" {tensor.bits} bits, {tensor.lanes} lane(s): expected one of"
            f" {', '.join(known.name for known in dtypes.ALL_DTYPES)}"
        )
    if tensor.device_type not in (CUDA, CUDA_MANAGED):
        raise TypeMismatch(
            f"argument {name}: expected memory of a CUDA device, got DLPack device type"
            f" {tensor.device_type}"
        )
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else contiguous_strides(shape)
    pointer = (tensor.data or 0) + tensor.byte_offset
    return ArrayArg(pointer, shape, strides, dtype, tensor.device_id, readonly, value)
