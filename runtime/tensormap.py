"""Tensor maps: encoding by the driver. Their rules are in ``tensormap_rules.py``.

A tensor map describes a tensor to the tensor memory accelerator (TMA). Extents, strides and box
are innermost first there, and in the tensor's own order everywhere in tiledsl.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from tiledsl.codegen.ir.plan import TensorMapSpec
from tiledsl.runtime.arrays import ArrayArg
from tiledsl.runtime.device import check, device, driver
from tiledsl.runtime.tensormap_rules import ALIGNMENT, MAX_RANK, MAX_STRIDE, spanned

TENSOR_MAP_BYTES = 128

# By name. TMA moves bits, so that signed 8- and 16-bit integers, bool and fp8 go as unsigned.
_DATA_TYPES = {
    "bool_": "UINT8", "int8": "UINT8", "uint8": "UINT8",
    "float8_e4m3fn": "UINT8", "float8_e5m2": "UINT8",
    "int16": "UINT16", "uint16": "UINT16", "float16": "FLOAT16", "bfloat16": "BFLOAT16",
    "int32": "INT32", "uint32": "UINT32", "float32": "FLOAT32",
    "int64": "INT64", "uint64": "UINT64", "float64": "FLOAT64",
}  # fmt: skip
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}


def geometry(array: ArrayArg) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents, and strides in bytes of all dimensions but the innermost, both innermost first.

    The stride of a dimension with one element means nothing and may be anything in torch and
    NumPy; the driver still checks it, so that it is replaced by a legal one.
    """
    extents = array.shape[::-1]
    strides = []
    span = array.shape[-1] * array.dtype.itemsize  # bytes that the dimensions so far cover
    for extent, stride in zip(array.shape[-2::-1], array.strides[-2::-1], strict=True):
        nbytes = stride * array.dtype.itemsize
        if extent == 1:
            nbytes = min(-(-span // ALIGNMENT) * ALIGNMENT, MAX_STRIDE - ALIGNMENT)
        strides.append(nbytes)
        span = max(span, nbytes * extent)
    return extents, tuple(strides)


_MAX_CACHED = 4096
_cache: dict[tuple[Any, ...], bytes] = {}
_standins: dict[tuple[int, str], int] = {}
_lock = threading.Lock()


def encode(array: ArrayArg, spec: TensorMapSpec) -> bytes:
    """The 128 bytes of the tensor map, which ``check_tensormap`` must have passed.

    Cached by everything that goes into it. An array without elements gets a map of one zero:
    loads give zeros everywhere, stores go nowhere that anyone reads. The spec's box counts the
    elements that arrive, so that with element strides the driver gets a wider one.

    Raises:
        LaunchError: when the driver refuses, or without a driver.
    """
    key = (
        array.pointer, array.shape, array.strides, array.device, spec.dtype, spec.box,
        spec.swizzle, spec.use, spec.element_strides, spec.im2col,
    )  # fmt: skip
    found = _cache.get(key)
    if found is None:
        found = _encode(array, spec)
        if len(_cache) >= _MAX_CACHED:
            _cache.clear()  # a loop over fresh buffers: none of the old ones come back
        _cache[key] = found
    return found


def _encode(array: ArrayArg, spec: TensorMapSpec) -> bytes:
    drv = driver()
    pointer = array.pointer
    extents, strides = geometry(array)
    if array.is_empty:
        pointer = _standin(int(array.device), spec.use)
        extents = (1,) * array.rank
        strides = (ALIGNMENT,) * (array.rank - 1)
    steps = (spec.element_strides or (1,) * array.rank)[::-1]
    memory = ctypes.create_string_buffer(2 * TENSOR_MAP_BYTES)
    address = -(-ctypes.addressof(memory) // TENSOR_MAP_BYTES) * TENSOR_MAP_BYTES
    data_type = f"CU_TENSOR_MAP_DATA_TYPE_{_DATA_TYPES[spec.dtype.name]}"
    swizzle = f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[spec.swizzle]}"
    tensor = (
        address,
        int(getattr(drv.CUtensorMapDataType, data_type)),
        array.rank,
        pointer,
        _numbers(ctypes.c_uint64, extents),
        _numbers(ctypes.c_uint64, strides),
    )
    how = (
        _numbers(ctypes.c_uint32, steps),
        int(drv.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
        int(getattr(drv.CUtensorMapSwizzle, swizzle)),
        int(drv.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B),
        int(drv.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
    )
    if spec.im2col is None:
        box = tuple(map(spanned, spec.box[::-1], steps))
        status = _encoder(_EncodeTiled)(*tensor, _numbers(ctypes.c_uint32, box), *how)
        boxed = f"box {box}"
    else:
        # Where there are no elements, there are zeros at every corner.
        corners = (spec.im2col.lower, spec.im2col.upper) if not array.is_empty else ((), ())
        lower, upper = (tuple(bounds[::-1]) for bounds in corners)
        pixels, channels = spec.box
        status = _encoder(_EncodeIm2col)(
            *tensor,
            _numbers(ctypes.c_int, lower),
            _numbers(ctypes.c_int, upper),
            channels,
            pixels,
            *how,
        )
        boxed = f"corners {lower} to {upper}, {channels} channels, {pixels} pixels"
    stepped = f", element strides {steps}" if spec.element_strides else ""
    what = (
        f"encoding a tensor map ({spec.use}, extents {extents}, strides {strides} bytes, {boxed}"
        f"{stepped}, all innermost first, swizzle {spec.swizzle}, {spec.dtype})"
    )
    check((drv.CUresult(status),), what)
    return ctypes.string_at(address, TENSOR_MAP_BYTES)


def _numbers(kind: Any, values: Sequence[int]) -> Any:
    """An array of C numbers for the driver, which reads as many as it needs."""
    return (kind * MAX_RANK)(*values)


_TENSOR = (
    ctypes.c_void_p,  # tensorMap, which must be aligned to 64 bytes
    ctypes.c_int,  # tensorDataType
    ctypes.c_uint32,  # tensorRank
    ctypes.c_void_p,  # globalAddress
    ctypes.POINTER(ctypes.c_uint64),  # globalDim
    ctypes.POINTER(ctypes.c_uint64),  # globalStrides
)
_HOW = (
    ctypes.POINTER(ctypes.c_uint32),  # elementStrides
    ctypes.c_int,  # interleave
    ctypes.c_int,  # swizzle
    ctypes.c_int,  # l2Promotion
    ctypes.c_int,  # oobFill
)
_EncodeTiled = ctypes.CFUNCTYPE(
    ctypes.c_int,  # CUresult
    *_TENSOR,
    ctypes.POINTER(ctypes.c_uint32),  # boxDim
    *_HOW,
)
_EncodeIm2col = ctypes.CFUNCTYPE(
    ctypes.c_int,  # CUresult
    *_TENSOR,
    ctypes.POINTER(ctypes.c_int),  # pixelBoxLowerCorner
    ctypes.POINTER(ctypes.c_int),  # pixelBoxUpperCorner
    ctypes.c_uint32,  # channelsPerPixel
    ctypes.c_uint32,  # pixelsPerColumn
    *_HOW,
)
_ENTRY_POINTS = {
    _EncodeTiled: b"cuTensorMapEncodeTiled",
    _EncodeIm2col: b"cuTensorMapEncodeIm2col",
}
_encoders: dict[Any, Any] = {}


def _encoder(prototype: Any) -> Any:
    """The driver's function with this prototype, called through ctypes.

    Not through the bindings: their CUtensorMap lies in a Python object, which CPython aligns to
    16 bytes and not to the 64 that the driver asks for (NVIDIA/cuda-python pull request 1692).
    """
    found = _encoders.get(prototype)
    if found is None:
        name = _ENTRY_POINTS[prototype]
        address, _ = check(
            driver().cuGetProcAddress(name, 12000, 0), f"looking for {name.decode()}"
        )
        found = _encoders[prototype] = prototype(int(address))
    return found


def _standin(ordinal: int, use: str) -> int:
    """Address of the zeroed memory that an array without elements is mapped to.

    One for loads and one for stores, so that a store cannot make a load find anything but zero.
    """
    with _lock:
        found = _standins.get((ordinal, use))
        if found is None:
            found = _allocate_zeros(ordinal)
            _standins[ordinal, use] = found
        return found


def _allocate_zeros(ordinal: int) -> int:
    drv = driver()
    nbytes = 256
    with device(ordinal).current():
        pointer = int(check(drv.cuMemAlloc(nbytes), "allocating for arrays without elements"))
        check(drv.cuMemsetD8(pointer, 0, nbytes), "clearing memory for arrays without elements")
        check(drv.cuStreamSynchronize(0), "clearing memory for arrays without elements")
    return pointer
