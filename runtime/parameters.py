"""Arguments as bytes of the machine's parameters (``Plan.params`` is the ABI)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiledsl.codegen.ir.plan import ParamSlot, TensorMapSpec
from tiledsl.errors import InternalError, TypeMismatch
from tiledsl.runtime import tensormap
from tiledsl.runtime.arrays import ArrayArg
from tiledsl.runtime.scalars import pack_scalar
from tiledsl.runtime.tensormap_rules import check_tensormap

PARAMETER_ALIGNMENT = 64  # bytes; a tensor map's


def pack_parameters(
    slots: Sequence[ParamSlot],
    names: Sequence[str],
    arrays: Mapping[int, ArrayArg],
    args: Sequence[Any],
    encode: Callable[[ArrayArg, TensorMapSpec], bytes] = tensormap.encode,
) -> list[bytes]:
    """The bytes of each machine parameter, little-endian, in the order of ``slots``.

    Args:
        slots: the machine parameters (``Plan.params``).
        names: names of the kernel's parameters, for messages.
        arrays: the array arguments by parameter index.
        args: all arguments; only scalars are read from here.
        encode: makes the 128 bytes of a tensor map, after the rules were checked.

    Raises:
        LaunchError, TypeMismatch, InvalidValue: naming the argument.
    """
    packed = []
    for slot in slots:
        if slot.kind == "scalar":
            assert slot.dtype is not None
            packed.append(pack_scalar(names[slot.param], args[slot.param], slot.dtype))
            continue
        array = arrays.get(slot.param)
        if array is None:
            raise TypeMismatch(
                f"argument {names[slot.param]}: expected an array, got {args[slot.param]!r}"
            )
        if slot.kind == "tensormap":
            assert slot.spec is not None
            check_tensormap(names[slot.param], array, slot.spec)
            packed.append(encode(array, slot.spec))
        elif slot.kind == "pointer":
            packed.append(array.pointer.to_bytes(8, "little"))
        elif slot.kind == "dim":
            packed.append(array.shape[slot.axis].to_bytes(4, "little"))
        elif slot.kind == "stride":
            packed.append(array.strides[slot.axis].to_bytes(8, "little", signed=True))
        else:
            raise InternalError(f"unknown kind of machine parameter: {slot.kind!r}")
    return packed


class ParameterBlock:
    """The parameters of a launch in memory, and the array of pointers that the driver wants."""

    __slots__ = ("_memory", "_pointers", "address")

    def __init__(self, packed: Sequence[bytes]) -> None:
        offsets, size = [], 0
        for data in packed:
            offsets.append(size)
            size += _round_up(len(data))
        self._memory = ctypes.create_string_buffer(size + PARAMETER_ALIGNMENT)
        start = _round_up(ctypes.addressof(self._memory))
        for offset, data in zip(offsets, packed, strict=True):
            ctypes.memmove(start + offset, data, len(data))
        self._pointers = (ctypes.c_void_p * len(packed))(*(start + offset for offset in offsets))
        self.address = ctypes.addressof(self._pointers)


def _round_up(nbytes: int) -> int:
    return -(-nbytes // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT
