"""Tensor maps: the hardware's rules, checked on the host, and encoding by the driver.

A tensor map describes a tensor to the tensor memory accelerator (TMA). Extents, strides and box
are innermost first there, and in the tensor's own order everywhere in tiledsl.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, NoReturn

from tiledsl.codegen.ir.plan import TensorMapSpec
from tiledsl.errors import LaunchError
from tiledsl.runtime.arrays import ArrayArg
from tiledsl.runtime.device import check, device, driver

TENSOR_MAP_BYTES = 128
ALIGNMENT = 16  # bytes, of the address and of every stride but the innermost
MAX_BOX = 256
MAX_STRIDE = 1 << 40  # bytes, exclusive
MAX_EXTENT = 1 << 32
MAX_RANK = 5

# By name. TMA moves bits, so that signed 8- and 16-bit integers, bool and fp8 go as unsigned.
_DATA_TYPES = {
    "bool_": "UINT8", "int8": "UINT8", "uint8": "UINT8",
    "float8_e4m3fn": "UINT8", "float8_e5m2": "UINT8",
    "int16": "UINT16", "uint16": "UINT16", "float16": "FLOAT16", "bfloat16": "BFLOAT16",
    "int32": "INT32", "uint32": "UINT32", "float32": "FLOAT32",
    "int64": "INT64", "uint64": "UINT64", "float64": "FLOAT64",
}  # fmt: skip
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}


def check_tensormap(name: str, array: ArrayArg, spec: TensorMapSpec) -> None:
    """Check every rule of the hardware for a tensor map of ``array``. Needs no CUDA.

    Args:
        name: the argument, for messages.
        array: the argument.
        spec: the map that the kernel wants.

    Raises:
        LaunchError: naming the rule, the argument, what was expected and what came.
    """
    _check_kind(name, array, spec)
    _check_box(name, spec)
    if spec.use == "store" and array.readonly:
        raise LaunchError(
            f"argument {name}: expected a writable array, for the kernel stores to it, got a"
            f" read-only {type(array.owner).__name__}",
            hint=f"pass a writable copy of {name}",
        )
    if array.is_empty:
        return  # a stand-in is encoded, whatever the address and strides are
    if array.pointer % ALIGNMENT:
        raise LaunchError(
            f"argument {name}: expected an address that is a multiple of {ALIGNMENT} bytes (rule of"
            f" the tensor memory accelerator), got {array.pointer:#x}, which is"
            f" {array.pointer % ALIGNMENT} bytes past one",
            hint=f"a slice can start anywhere: pass a copy ({name}.clone() or {name}.copy())",
        )
    for axis, extent in enumerate(array.shape):
        if extent > MAX_EXTENT:
            raise LaunchError(
                f"argument {name}: expected extents up to {MAX_EXTENT} (rule of the tensor memory"
                f" accelerator), got {extent} in dimension {axis}"
            )
    _check_strides(name, array)


def _check_kind(name: str, array: ArrayArg, spec: TensorMapSpec) -> None:
    if array.dtype != spec.dtype:
        raise LaunchError(
            f"argument {name}: expected dtype {spec.dtype}, for which the kernel was compiled, got"
            f" {array.dtype}"
        )
    if not 1 <= array.rank <= MAX_RANK:
        raise LaunchError(
            f"argument {name}: expected rank 1 to {MAX_RANK} (rule of the tensor memory"
            f" accelerator), got rank {array.rank}"
        )
    if len(spec.box) != array.rank:
        raise LaunchError(
            f"argument {name}: expected rank {len(spec.box)}, for which the kernel was compiled,"
            f" got rank {array.rank}"
        )


def _check_box(name: str, spec: TensorMapSpec) -> None:
    box = "x".join(str(extent) for extent in spec.box)
    what = f"argument {name}: the {spec.use} of {box} {spec.dtype} elements"
    hint = "change the shape of the tile"
    for axis, extent in enumerate(spec.box):
        if not 1 <= extent <= MAX_BOX:
            raise LaunchError(
                f"{what}: expected box extents from 1 to {MAX_BOX} (rule of the tensor memory"
                f" accelerator), got {extent} in dimension {axis}",
                hint=hint,
            )
    if spec.swizzle not in _SWIZZLES:
        raise LaunchError(f"{what}: expected a swizzle of 0, 32, 64 or 128, got {spec.swizzle}")
    inner = spec.box[-1] * spec.dtype.itemsize
    if inner % ALIGNMENT:
        raise LaunchError(
            f"{what}: expected a box whose rows are a multiple of {ALIGNMENT} bytes (rule of the"
            f" tensor memory accelerator), got {inner} bytes",
            hint=hint,
        )
    if spec.swizzle and inner > spec.swizzle:
        raise LaunchError(
            f"{what}: expected box rows of at most the swizzle span, {spec.swizzle} bytes (rule of"
            f" the tensor memory accelerator), got {inner} bytes",
            hint=hint,
        )


def _check_strides(name: str, array: ArrayArg) -> None:
    """Strides of dimensions with more than one element; others are never stepped along."""
    stepped = [(axis, array.strides[axis]) for axis, extent in enumerate(array.shape) if extent > 1]
    for axis, stride in stepped:
        if stride <= 0:
            kind = "zero" if stride == 0 else "negative"
            raise LaunchError(
                f"argument {name}: expected positive strides (rule of the tensor memory"
                f" accelerator), got a {kind} stride ({stride} elements) in dimension {axis}",
                hint=f"a broadcast or flipped view must be copied: {name}.contiguous() or"
                f" {name}.copy()",
            )
    # The innermost first: of a transposed array all strides are wrong, but this says why.
    for axis, stride in reversed(stepped):
        if axis == array.rank - 1:
            if stride != 1:
                _refuse_inner(name, array, stride)
            continue
        nbytes = stride * array.dtype.itemsize
        if nbytes % ALIGNMENT:
            _refuse_pitch(name, array, axis, nbytes)
        if nbytes >= MAX_STRIDE:
            raise LaunchError(
                f"argument {name}: expected strides below 2**40 bytes (rule of the tensor memory"
                f" accelerator), got {nbytes} bytes in dimension {axis}"
            )


def _refuse_inner(name: str, array: ArrayArg, stride: int) -> NoReturn:
    transposed = next((axis for axis, step in enumerate(array.strides) if step == 1), None)
    hint = f"pass a contiguous copy of {name}"
    if transposed is not None:
        hint = (
            f"{name} looks transposed (dimension {transposed} is the contiguous one): pass it the"
            f" other way round and index it so in the kernel, or {hint}"
        )
    raise LaunchError(
        f"argument {name}: expected an innermost stride of 1 element (rule of the tensor memory"
        f" accelerator), got {stride}, strides {array.strides}",
        hint=hint,
    )


def _refuse_pitch(name: str, array: ArrayArg, axis: int, nbytes: int) -> NoReturn:
    step = ALIGNMENT // array.dtype.itemsize
    columns = array.shape[-1]
    padded = -(-columns // step) * step
    if padded == columns:  # a slice of something wider
        hint = f"pass a contiguous copy of {name}, whose rows are {columns} elements"
    else:
        hint = (
            f"pad the rows of {name}: allocate {padded} columns and slice [..., :{columns}], which"
            f" keeps the rows {padded * array.dtype.itemsize} bytes apart"
        )
    raise LaunchError(
        f"argument {name}: expected a stride that is a multiple of {ALIGNMENT} bytes in dimension"
        f" {axis} (rule of the tensor memory accelerator), got {nbytes} bytes"
        f" ({array.strides[axis]} {array.dtype} elements)",
        hint=hint,
    )


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
    loads give zeros everywhere, stores go nowhere that anyone reads.

    Raises:
        LaunchError: when the driver refuses, or without a driver.
    """
    key = (
        array.pointer, array.shape, array.strides, array.device, spec.dtype, spec.box,
        spec.swizzle, spec.use,
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
    box = spec.box[::-1]
    data_type = f"CU_TENSOR_MAP_DATA_TYPE_{_DATA_TYPES[spec.dtype.name]}"
    swizzle = f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[spec.swizzle]}"
    memory = ctypes.create_string_buffer(2 * TENSOR_MAP_BYTES)
    address = -(-ctypes.addressof(memory) // TENSOR_MAP_BYTES) * TENSOR_MAP_BYTES
    status = _encode_tiled()(
        address,
        int(getattr(drv.CUtensorMapDataType, data_type)),
        array.rank,
        pointer,
        (ctypes.c_uint64 * MAX_RANK)(*extents),
        (ctypes.c_uint64 * MAX_RANK)(*strides),
        (ctypes.c_uint32 * MAX_RANK)(*box),
        (ctypes.c_uint32 * MAX_RANK)(*(1,) * MAX_RANK),
        int(drv.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
        int(getattr(drv.CUtensorMapSwizzle, swizzle)),
        int(drv.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B),
        int(drv.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
    )
    what = (
        f"encoding a tensor map ({spec.use}, extents {extents}, strides {strides} bytes, box"
        f" {box}, all innermost first, swizzle {spec.swizzle}, {spec.dtype})"
    )
    check((drv.CUresult(status),), what)
    return ctypes.string_at(address, TENSOR_MAP_BYTES)


_EncodeTiled = ctypes.CFUNCTYPE(
    ctypes.c_int,  # CUresult
    ctypes.c_void_p,  # tensorMap, which must be aligned to 64 bytes
    ctypes.c_int,  # tensorDataType
    ctypes.c_uint32,  # tensorRank
    ctypes.c_void_p,  # globalAddress
    ctypes.POINTER(ctypes.c_uint64),  # globalDim
    ctypes.POINTER(ctypes.c_uint64),  # globalStrides
    ctypes.POINTER(ctypes.c_uint32),  # boxDim
    ctypes.POINTER(ctypes.c_uint32),  # elementStrides
    ctypes.c_int,  # interleave
    ctypes.c_int,  # swizzle
    ctypes.c_int,  # l2Promotion
    ctypes.c_int,  # oobFill
)
_encoder: Any = None


def _encode_tiled() -> Any:
    """The driver's ``cuTensorMapEncodeTiled``, called through ctypes.

    Not through the bindings: their CUtensorMap lies in a Python object, which CPython aligns to
    16 bytes and not to the 64 that the driver asks for (NVIDIA/cuda-python pull request 1692).
    """
    global _encoder
    if _encoder is None:
        found = driver().cuGetProcAddress(b"cuTensorMapEncodeTiled", 12000, 0)
        address, _ = check(found, "looking for cuTensorMapEncodeTiled")
        _encoder = _EncodeTiled(int(address))
    return _encoder


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
