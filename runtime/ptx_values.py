"""Arguments of any PTX entry as the bytes of its parameters: only the PTX says what they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.plan import Im2col, TensorMapSpec
from tiledsl.errors import InvalidValue, TypeMismatch
from tiledsl.runtime.arguments import read_array
from tiledsl.runtime.ptx_machine.opcodes import BITS, TYPE_CODES
from tiledsl.runtime.ptx_machine.syntax import Parameter
from tiledsl.runtime.ptx_maps import Maps
from tiledsl.runtime.scalars import pack_scalar
from tiledsl.runtime.tensormap import TENSOR_MAP_BYTES
from tiledsl.runtime.tensormap_rules import check_tensormap

__all__ = ["Struct", "TensorMap", "pack", "struct"]

Array = np.ndarray[Any, Any]
MAP_ALIGNMENT = 64  # bytes


@dataclass(frozen=True, slots=True, eq=False)
class TensorMap:
    """A tensor map (``CUtensorMap``) of an array. All tuples are in the array's own order.

    Attributes:
        array: a NumPy array of rank 1 to 5.
        box: extents of the box, one a dimension (the driver's ``boxDim``, reversed); with element
            strides ``ceil(box / stride)`` elements arrive. im2col: (pixels, channels).
        swizzle: 0, 32, 64 or 128 bytes.
        element_strides: one a dimension; None: all 1. The innermost must be 1.
        interleave: "none": the machine has no other.
        oob_fill: "zeros": the machine has no other.
        im2col: None, or lower and upper corners of the windows, one number a spatial dimension:
            ``((-1, -1), (1, 1))``.
    """

    array: Array
    box: tuple[int, ...]
    swizzle: int = 0
    element_strides: tuple[int, ...] | None = None
    interleave: str = "none"
    oob_fill: str = "zeros"
    im2col: tuple[tuple[int, ...], tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """Fields of a struct that is passed by value; made by ``struct``."""

    fields: tuple[Any, ...]


def struct(*fields: Any) -> Struct:
    """A struct as C lays it out: each field at a multiple of its own size, the end rounded up.

    Args:
        fields: NumPy arrays (pointers), None (a null pointer), NumPy scalars, TensorMaps (at
            multiples of 64 bytes), other structs, or bytes, which go as they are.
    """
    return Struct(fields)


def pack(parameters: Sequence[Parameter], args: Sequence[Any], maps: Maps) -> bytes:
    """The bytes of an entry's parameters; arrays are mapped into the machine's memory.

    Raises:
        TypeMismatch, InvalidValue, LaunchError: naming the parameter.
    """
    if len(args) != len(parameters):
        listed = "".join(f"\n    {described(parameter)}" for parameter in parameters)
        raise InvalidValue(
            f"expected {len(parameters)} arguments, one for each parameter, got {len(args)}"
            f"; the parameters are:{listed or ' none'}"
        )
    pairs = list(zip(parameters, args, strict=True))
    maps.memory.add_spans(
        _span(parameter.name, array) for parameter, arg in pairs for array in _arrays(arg)
    )
    data = bytearray(max((p.offset + p.size for p in parameters), default=0))
    for parameter, arg in pairs:
        content = _packed(parameter, arg, maps)
        data[parameter.offset : parameter.offset + len(content)] = content
    return bytes(data)


def described(parameter: Parameter) -> str:
    """A parameter as PTX declares it."""
    if is_scalar(parameter):
        return f".{parameter.type} {parameter.name}"
    count = parameter.size * 8 // BITS[TYPE_CODES[parameter.type]]
    return f".align {parameter.align} .{parameter.type} {parameter.name}[{count}]"


def is_scalar(parameter: Parameter) -> bool:
    """Whether it is one element of its type, and no array of bytes."""
    return parameter.size * 8 == BITS[TYPE_CODES[parameter.type]]


# ------------------------------------------------------------------ arrays


def _arrays(arg: Any) -> Iterator[Array]:
    """All arrays in an argument."""
    if isinstance(arg, TensorMap):
        arg = arg.array
    if isinstance(arg, np.ndarray):
        yield arg
    elif isinstance(arg, Struct):
        for field in arg.fields:
            yield from _arrays(field)


def _span(name: str, array: Array) -> tuple[str, int, int, bool, Any]:
    """Name, first byte, bytes, whether it is read-only, and owner of an array."""
    if not array.dtype.isnative or array.dtype.hasobject:
        raise TypeMismatch(
            f"parameter {name}: expected an array of numbers in native byte order, got"
            f" {array.dtype}"
        )
    low, high = array.ctypes.data, array.ctypes.data
    if array.size:
        low, high = np.lib.array_utils.byte_bounds(array)
    return name, low, high - low, not array.flags.writeable, array


def _pointer(array: Array, maps: Maps) -> bytes:
    return maps.memory.address_of(array.ctypes.data).to_bytes(8, "little")


def _tensor_map(name: str, given: TensorMap, maps: Maps) -> bytes:
    """The bytes of a tensor map, after the hardware's rules were checked."""
    if not isinstance(given.array, np.ndarray):
        raise TypeMismatch(
            f"parameter {name}: expected a tensor map of a NumPy array, got one of"
            f" {_kind(given.array)}"
        )
    if given.interleave != "none":
        raise InvalidValue(
            f"parameter {name}: interleave: expected 'none', the only one that the machine has, got"
            f" {given.interleave!r}"
        )
    if given.oob_fill != "zeros":
        raise InvalidValue(
            f"parameter {name}: oob_fill: expected 'zeros', the only one that the machine has, got"
            f" {given.oob_fill!r}"
        )
    array = read_array(name, given.array)
    box = _integers(name, "box", given.box)
    steps = _integers(name, "element_strides", given.element_strides or ())
    corners = None
    if given.im2col is not None:
        if len(given.im2col) != 2:
            raise InvalidValue(
                f"parameter {name}: im2col: expected lower and upper corners, got {given.im2col!r}"
            )
        lower, upper = (_integers(name, "im2col", bounds) for bounds in given.im2col)
        corners = Im2col(lower, upper)
    elif len(box) != array.rank:
        raise InvalidValue(
            f"parameter {name}: box: expected {array.rank} extents, one a dimension of the array,"
            f" got {box}"
        )
    elif len(steps) == len(box):
        # The driver's box spans elements; tiledsl counts those that arrive.
        for axis, (extent, step) in enumerate(zip(box, steps, strict=True)):
            if extent > 256 or extent < 1:
                raise InvalidValue(
                    f"parameter {name}: box: expected extents from 1 to 256, got {extent} in"
                    f" dimension {axis}"
                )
            if step < 1:
                raise InvalidValue(
                    f"parameter {name}: element_strides: expected 1 to 8, got {step} in dimension"
                    f" {axis}"
                )
        box = tuple(-(-extent // step) for extent, step in zip(box, steps, strict=True))
    spec = TensorMapSpec(0, array.dtype, box, given.swizzle, "load", steps, corners)
    placed = maps.place(array)
    check_tensormap(name, placed, spec)
    return maps.encode(placed, spec)


def _integers(name: str, what: str, values: Any) -> tuple[int, ...]:
    try:
        found = tuple(values)
    except TypeError:
        found = (values,)
    if not all(isinstance(value, int | np.integer) for value in found):
        raise TypeMismatch(f"parameter {name}: {what}: expected integers, got {values!r}")
    return tuple(int(value) for value in found)


# ------------------------------------------------------------------ one parameter


def _packed(parameter: Parameter, arg: Any, maps: Maps) -> bytes:
    name, size = parameter.name, parameter.size
    if isinstance(arg, bytes | bytearray):
        if len(arg) != size:
            raise InvalidValue(
                f"parameter {described(parameter)}: expected {size} bytes, got {len(arg)}"
            )
        return bytes(arg)
    if isinstance(arg, Struct):
        content = _struct_bytes(name, arg, maps)[0]
        if len(content) != size:
            raise InvalidValue(
                f"parameter {described(parameter)}: expected a struct of {size} bytes, got one of"
                f" {len(content)}"
            )
        return content
    if isinstance(arg, TensorMap):
        return _map_argument(parameter, arg, maps)
    if isinstance(arg, np.ndarray) or arg is None:
        if size != 8 or not is_scalar(parameter) or parameter.type == "f64":
            raise TypeMismatch(
                f"parameter {described(parameter)}: expected {_wanted(parameter)}, got"
                f" {_kind(arg)}, which is passed as a pointer (.u64)"
            )
        return bytes(8) if arg is None else _pointer(arg, maps)
    if isinstance(arg, np.generic):
        if arg.nbytes != size:
            raise TypeMismatch(
                f"parameter {described(parameter)}: expected {_wanted(parameter)}, got one"
                f" of {arg.nbytes} ({arg.dtype})"
            )
        return arg.tobytes()
    if isinstance(arg, int | float) and is_scalar(parameter):
        return _number(parameter, arg)
    hint = None
    if hasattr(arg, "__array__") and not isinstance(arg, list | tuple):
        hint = f"np.asarray({name}) where it lies in host memory"
    raise TypeMismatch(
        f"parameter {described(parameter)}: expected {_wanted(parameter)}, got {_kind(arg)}",
        hint=hint,
    )


def _map_argument(parameter: Parameter, arg: TensorMap, maps: Maps) -> bytes:
    """A tensor map by value, or the address of one in global memory."""
    content = _tensor_map(parameter.name, arg, maps)
    if parameter.size == TENSOR_MAP_BYTES:
        return content
    if parameter.size != 8 or not is_scalar(parameter):
        raise TypeMismatch(
            f"parameter {described(parameter)}: expected {_wanted(parameter)}, got a tensor map,"
            f" which has {TENSOR_MAP_BYTES} bytes (or, in global memory, an address of 8)"
        )
    memory = np.zeros(2 * TENSOR_MAP_BYTES, np.uint8)
    start = -memory.ctypes.data % TENSOR_MAP_BYTES
    memory[start : start + TENSOR_MAP_BYTES] = np.frombuffer(content, np.uint8)
    address = maps.memory.add(
        parameter.name,
        memory.ctypes.data + start,
        TENSOR_MAP_BYTES,
        readonly=True,
        owner=memory,
    )
    return address.to_bytes(8, "little")


_BY_TYPE = {
    "u8": dtypes.uint8, "u16": dtypes.uint16, "u32": dtypes.uint32, "u64": dtypes.uint64,
    "s8": dtypes.int8, "s16": dtypes.int16, "s32": dtypes.int32, "s64": dtypes.int64,
    "f16": dtypes.float16, "bf16": dtypes.bfloat16, "f32": dtypes.float32, "f64": dtypes.float64,
}  # fmt: skip
_FLOATS = {"b32": dtypes.float32, "b64": dtypes.float64}


def _number(parameter: Parameter, value: int | float) -> bytes:
    """A Python number in the type of the parameter; untyped ones take what it is."""
    kind, size = parameter.type, parameter.size
    dtype = _BY_TYPE.get(kind)
    if dtype is None and isinstance(value, float):
        dtype = _FLOATS.get(kind)
        if dtype is None:
            raise TypeMismatch(
                f"parameter {described(parameter)}: expected a NumPy scalar, got {value!r}: the"
                " type does not say which float it is",
                hint="np.float16(...) or ml_dtypes.bfloat16(...)" if size == 2 else None,
            )
    if dtype is None:
        low, high = -(1 << (8 * size - 1)), (1 << (8 * size)) - 1
        if not low <= value <= high:
            raise InvalidValue(
                f"parameter {described(parameter)}: expected {low} to {high}, got {value}"
            )
        return (int(value) & high).to_bytes(size, "little")
    if dtype.is_integer and isinstance(value, bool):
        value = int(value)
    return pack_scalar(parameter.name, value, dtype)


def _struct_bytes(name: str, given: Struct, maps: Maps) -> tuple[bytes, int]:
    """The bytes of a struct, and its alignment."""
    data, most = bytearray(), 1
    for field in given.fields:
        content, align = _field(name, field, maps)
        most = max(most, align)
        data += bytes(-len(data) % align) + content
    return bytes(data + bytes(-len(data) % most)), most


def _field(name: str, field: Any, maps: Maps) -> tuple[bytes, int]:
    if isinstance(field, Struct):
        return _struct_bytes(name, field, maps)
    if isinstance(field, TensorMap):
        return _tensor_map(name, field, maps), MAP_ALIGNMENT
    if isinstance(field, bytes | bytearray):
        return bytes(field), 1
    if field is None:
        return bytes(8), 8
    if isinstance(field, np.ndarray):
        return _pointer(field, maps), 8
    if isinstance(field, np.generic) and field.nbytes in (1, 2, 4, 8):
        return field.tobytes(), field.nbytes
    raise TypeMismatch(
        f"parameter {name}: expected fields that are NumPy arrays or scalars, None, TensorMaps,"
        f" structs or bytes, got {_kind(field)}",
        hint=f"np.int32({field})" if isinstance(field, int) else None,
    )


def _wanted(parameter: Parameter) -> str:
    """What fits a parameter, for messages."""
    size = parameter.size
    if is_scalar(parameter):
        if size == 8 and parameter.type != "f64":
            return "a NumPy array, None, a number or a TensorMap in global memory"
        return f"a number of {size} bytes"
    if size == TENSOR_MAP_BYTES:
        return "a TensorMap, a struct or 128 bytes"
    return f"a struct or {size} bytes"


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}, {value.dtype}"
    if isinstance(value, int | float) and (not isinstance(value, float) or math.isfinite(value)):
        return repr(value)
    return f"a value of type {type(value).__qualname__}"
