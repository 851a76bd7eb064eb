"""The little of the CUDA driver that recording needs, by ctypes: no packages."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np

from tests.ptx_machine.conformance.probe import Map, Probe

_MAX_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_LOG_BUFFER, _LOG_SIZE = 5, 6  # CU_JIT_ERROR_LOG_BUFFER and its size


class DriverError(Exception):
    """What the driver refused."""


class Gpu:
    """Device 0 and its primary context."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", c_uint(0))
        device, context = c_int(), c_void_p()
        self.call("cuDeviceGet", byref(device), c_int(0))
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, c_int(100), device)
        self.name = name.value.decode()
        version = c_int()
        self.call("cuDriverGetVersion", byref(version))
        self.version = version.value
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.cuda, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(c_int(status), byref(text))
            raise DriverError(f"{name}: {(text.value or b'').decode()} ({status})")

    def load(self, ptx: str) -> c_void_p:
        """A module of PTX text, compiled by the driver."""
        module = c_void_p()
        log = ctypes.create_string_buffer(8192)
        options = (c_int * 2)(_LOG_BUFFER, _LOG_SIZE)
        values = (c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            self.call("cuModuleLoadDataEx", byref(module), ptx.encode(), c_uint(2), options, values)
        except DriverError as problem:
            raise DriverError(f"{problem}: {log.value.decode(errors='replace')[:300]}") from None
        return module

    def memory(self, data: np.ndarray[Any, Any]) -> c_uint64:
        """Device memory with a copy of host data."""
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), c_size_t(max(data.nbytes, 256)))
        if data.nbytes:
            host = np.ascontiguousarray(data)
            self.call("cuMemcpyHtoD_v2", pointer, c_void_p(host.ctypes.data), c_size_t(host.nbytes))
        return pointer

    def read(self, pointer: c_uint64, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        host = np.empty_like(like)
        if host.nbytes:
            self.call("cuMemcpyDtoH_v2", c_void_p(host.ctypes.data), pointer, c_size_t(host.nbytes))
        return host

    def tensor_map(self, tensor: Map | None, image: int) -> bytes:
        """The 128 bytes of a tensor map of the image."""
        if tensor is None:
            return bytes(128)
        raw = ctypes.create_string_buffer(256)
        address = -(-ctypes.addressof(raw) // 128) * 128
        rank = len(tensor.extents)
        steps = tensor.steps or (1,) * rank
        head = (
            c_void_p(address), c_int(_NUMBERS[tensor.dtype]), c_uint32(rank),
            c_void_p(image + tensor.start), (c_uint64 * 5)(*tensor.extents),
            (c_uint64 * 5)(*tensor.strides),
        )  # fmt: skip
        swizzle = {0: 0, 32: 1, 64: 2, 128: 3}[tensor.swizzle]
        tail = ((c_uint32 * 5)(*steps), c_int(0), c_int(swizzle), c_int(0), c_int(0))
        if tensor.im2col:
            channels, pixels = tensor.box
            self.call(
                "cuTensorMapEncodeIm2col",
                *head,
                (c_int * 5)(*tensor.lower),
                (c_int * 5)(*tensor.upper),
                c_uint32(channels),
                c_uint32(pixels),
                *tail,
            )
        else:
            self.call("cuTensorMapEncodeTiled", *head, (c_uint32 * 5)(*tensor.box), *tail)
        return ctypes.string_at(address, 128)

    def run(self, module: c_void_p, kernel: str, probe: Probe) -> np.ndarray[Any, Any]:
        """The recorded bytes of a probe. Results are poisoned first."""
        columns = probe.columns()
        inputs = np.stack(columns) if columns else np.zeros((0, probe.count), np.uint64)
        poison = np.full((len(probe.results), probe.count), 0xA5A5A5A5A5A5A5A5, np.uint64)
        image = probe.image_data()
        pointers = [self.memory(data) for data in (inputs, poison, image)]
        try:
            function = c_void_p()
            self.call("cuModuleGetFunction", byref(function), module, kernel.encode())
            if probe.shared:
                self.call("cuFuncSetAttribute", function, c_int(_MAX_SHARED), c_int(probe.shared))
            raw = ctypes.create_string_buffer(256)
            at = -(-ctypes.addressof(raw) // 64) * 64
            ctypes.memmove(at, self.tensor_map(probe.tensor, int(pointers[2].value)), 128)
            places: Sequence[int] = [*(ctypes.addressof(p) for p in pointers), at]
            parameters = (c_void_p * 4)(*places)
            one = c_uint(1)
            self.call(
                "cuLaunchKernel",
                function,
                c_uint(probe.blocks),
                one,
                one,
                c_uint(probe.threads),
                one,
                one,
                c_uint(probe.shared),
                c_void_p(0),
                parameters,
                c_void_p(0),
            )
            self.call("cuCtxSynchronize")
            return probe.packed(self.read(pointers[1], poison), self.read(pointers[2], image))
        finally:
            for pointer in pointers:
                self.cuda.cuMemFree_v2(pointer)


# CUtensorMapDataType: unsigned 8, 16, 32, signed 32, unsigned 64, signed 64, floats, bf16.
_NUMBERS = {"u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 8,
            "bf16": 9}  # fmt: skip
