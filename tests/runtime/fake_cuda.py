"""A CUDA driver made of Python, for tests of the host side on machines without a GPU.

Enumerations and structures are the real ones of ``cuda.bindings``, which need no driver; the
functions are replaced. A launch reads its parameters from memory through the pointers, as the
driver does, so that what the tests see is what a GPU would have got.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from dataclasses import dataclass, field
from typing import Any

from cuda.bindings import driver as real

from tiledsl.runtime import tensormap

SUCCESS = real.CUresult.CUDA_SUCCESS
INVALID = real.CUresult.CUDA_ERROR_INVALID_VALUE
SPAN = 1 << 40  # device n owns the addresses from (n + 1) * SPAN on


@dataclass
class Launched:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int
    context: int
    params: list[bytes]
    cluster: tuple[int, int, int] | None = None  # of the launch attribute


@dataclass
class FakeDriver:
    """The driver of a machine with ``devices`` GPUs."""

    devices: int = 1
    capability: tuple[int, int] = (9, 0)
    capabilities: dict[int, tuple[int, int]] = field(default_factory=dict)  # of single devices
    parameter_sizes: list[int] = field(default_factory=list)
    context: int = 0  # handle of the current one; device n's primary context is 100 + n
    log: list[tuple[Any, ...]] = field(default_factory=list)  # every call that changes something
    launches: list[Launched] = field(default_factory=list)
    maps: list[dict[str, Any]] = field(default_factory=list)  # arguments of each encoding
    fail: dict[str, Any] = field(default_factory=dict)  # function name -> status to answer
    stream_devices: dict[int, int] = field(default_factory=dict)
    capturing: set[int] = field(default_factory=set)  # streams under graph capture
    # Clusters that run at once, by their size: an H200's, with one block a multiprocessor.
    active_clusters: dict[int, int] = field(
        default_factory=lambda: {2: 66, 3: 42, 4: 30, 6: 18, 8: 14}
    )
    active_blocks: int = 1  # of a multiprocessor

    def __post_init__(self) -> None:
        self._stack: list[int] = []
        self._events = itertools.count(1)
        self._memory = itertools.count(self.address(0) + (1 << 30), 4096)
        self._encoders = {  # keeps the callbacks alive
            b"cuTensorMapEncodeTiled": tensormap._EncodeTiled(self._encode_tiled),
            b"cuTensorMapEncodeIm2col": tensormap._EncodeIm2col(self._encode_im2col),
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(real, name)

    @staticmethod
    def address(device: int, offset: int = 0) -> int:
        return (device + 1) * SPAN + offset

    def _answer(self, name: str, *results: Any) -> tuple[Any, ...]:
        status = self.fail.get(name, SUCCESS)
        return (status, *results) if status == SUCCESS else (status, *(None for _ in results))

    # --- errors, devices, contexts

    def cuGetErrorName(self, status: Any) -> tuple[Any, bytes]:
        return SUCCESS, status.name.encode()

    def cuGetErrorString(self, status: Any) -> tuple[Any, bytes]:
        return SUCCESS, f"text of {int(status)}".encode()

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return self._answer("cuDeviceGetCount", self.devices)

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        return self._answer("cuDeviceGet", real.CUdevice(ordinal))

    def cuDeviceGetName(self, size: int, handle: Any) -> tuple[Any, ...]:
        return SUCCESS, f"Fake GPU {int(handle)}".encode().ljust(size, b"\0")

    def cuDeviceGetAttribute(self, which: Any, handle: Any) -> tuple[Any, ...]:
        major, minor = self.capabilities.get(int(handle), self.capability)
        values = {
            "COMPUTE_CAPABILITY_MAJOR": major,
            "COMPUTE_CAPABILITY_MINOR": minor,
            "MULTIPROCESSOR_COUNT": 132,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
        }
        return SUCCESS, values[which.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def cuDevicePrimaryCtxRetain(self, handle: Any) -> tuple[Any, ...]:
        self.log.append(("retain", int(handle)))
        return self._answer("cuDevicePrimaryCtxRetain", real.CUcontext(100 + int(handle)))

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        return SUCCESS, real.CUcontext(self.context)

    def cuCtxGetDevice(self) -> tuple[Any, ...]:
        return SUCCESS, real.CUdevice(self.context - 100)

    def cuCtxPushCurrent(self, context: Any) -> tuple[Any, ...]:
        self._stack.append(self.context)
        self.context = int(context)
        return (SUCCESS,)

    def cuCtxPopCurrent(self) -> tuple[Any, ...]:
        popped, self.context = self.context, self._stack.pop()
        return SUCCESS, real.CUcontext(popped)

    def cuPointerGetAttribute(self, which: Any, pointer: int) -> tuple[Any, ...]:
        device = pointer // SPAN - 1
        return (SUCCESS, device) if 0 <= device < self.devices else (INVALID, None)

    # --- memory

    def cuMemAlloc(self, nbytes: int) -> tuple[Any, ...]:
        pointer = next(self._memory)
        self.log.append(("alloc", pointer, nbytes, self.context))
        return SUCCESS, real.CUdeviceptr(pointer)

    def cuMemsetD8(self, pointer: int, value: int, nbytes: int) -> tuple[Any, ...]:
        self.log.append(("memset", int(pointer), value, nbytes))
        return (SUCCESS,)

    # --- streams and events

    def cuStreamIsCapturing(self, stream: Any) -> tuple[Any, ...]:
        status = real.CUstreamCaptureStatus
        active = int(stream) in self.capturing
        return SUCCESS, (
            status.CU_STREAM_CAPTURE_STATUS_ACTIVE
            if active
            else status.CU_STREAM_CAPTURE_STATUS_NONE
        )

    def cuStreamGetDevice(self, stream: Any) -> tuple[Any, ...]:
        assert int(stream) not in self.capturing, "this ends the capture"
        device = self.stream_devices.get(int(stream), 0)
        return self._answer("cuStreamGetDevice", real.CUdevice(device))

    def cuStreamSynchronize(self, stream: Any) -> tuple[Any, ...]:
        self.log.append(("synchronize", int(stream)))
        return self._answer("cuStreamSynchronize")

    def cuEventCreate(self, flags: int) -> tuple[Any, ...]:
        return SUCCESS, next(self._events)

    def cuEventRecord(self, event: int, stream: int) -> tuple[Any, ...]:
        self.log.append(("record", event, stream))
        return self._answer("cuEventRecord")

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple[Any, ...]:
        self.log.append(("wait", stream, event))
        return (SUCCESS,)

    def cuEventDestroy(self, event: int) -> tuple[Any, ...]:
        return (SUCCESS,)

    # --- code

    def cuLibraryLoadData(self, code: bytes, *options: Any) -> tuple[Any, ...]:
        self.log.append(("load", code))
        return self._answer("cuLibraryLoadData", 1)

    def cuLibraryGetKernel(self, library: int, name: bytes) -> tuple[Any, ...]:
        return self._answer("cuLibraryGetKernel", 2)

    def cuKernelSetAttribute(self, which: Any, value: int, kernel: int, on: Any) -> tuple[Any, ...]:
        self.log.append(("attribute", which.name, value, int(on)))
        return self._answer("cuKernelSetAttribute")

    def cuKernelGetFunction(self, kernel: int) -> tuple[Any, ...]:
        return self._answer("cuKernelGetFunction", 1000 + self.context)

    def cuKernelGetParamInfo(self, kernel: int, number: int) -> tuple[Any, ...]:
        if number >= len(self.parameter_sizes):
            return INVALID, None, None
        return SUCCESS, 0, self.parameter_sizes[number]

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, function: int, threads: int, shared: int
    ) -> tuple[Any, ...]:
        assert function == 1000 + self.context
        self.log.append(("occupancy", threads, shared))
        return self._answer("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.active_blocks)

    def cuOccupancyMaxActiveClusters(self, function: int, config: Any) -> tuple[Any, ...]:
        assert function == 1000 + self.context
        cluster = _cluster(config)
        assert cluster is not None and _divides(cluster, config)
        self.log.append(("occupancy", config.blockDimX, config.sharedMemBytes, cluster))
        x, y, z = cluster
        count = self.active_clusters.get(x * y * z, 0)
        return self._answer("cuOccupancyMaxActiveClusters", count)

    def cuLaunchKernelEx(self, config: Any, function: int, params: int, extra: int) -> Any:
        assert function == 1000 + self.context, "launched in another context than loaded"
        pointers = (ctypes.c_void_p * len(self.parameter_sizes)).from_address(params)
        launched = Launched(
            (config.gridDimX, config.gridDimY, config.gridDimZ),
            (config.blockDimX, config.blockDimY, config.blockDimZ),
            config.sharedMemBytes,
            int(config.hStream),
            self.context,
            [
                ctypes.string_at(pointer, size)
                for pointer, size in zip(pointers, self.parameter_sizes, strict=True)
            ],
            _cluster(config),
        )
        answer = self._answer("cuLaunchKernelEx")
        if launched.cluster is not None and not _divides(launched.cluster, config):
            answer = (INVALID,)
        if answer[0] == SUCCESS:
            self.launches.append(launched)
            self.log.append(("launch", launched.stream))
        return answer

    # --- tensor maps

    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> tuple[Any, ...]:
        return SUCCESS, ctypes.cast(self._encoders[name], ctypes.c_void_p).value, None

    def _encode_tiled(
        self, out: int, dtype: int, rank: int, pointer: int, dims: Any, strides: Any, box: Any,
        steps: Any, interleave: int, swizzle: int, promotion: int, fill: int,
    ) -> int:  # fmt: skip
        arguments = self._tensor(dtype, rank, pointer, dims, strides, steps, swizzle)
        arguments["box"] = box[:rank]
        legal = (
            1 <= rank <= 5
            and all(1 <= extent <= 256 for extent in arguments["box"])
            and interleave == fill == 0
        )
        return self._map("cuTensorMapEncodeTiled", out, arguments, legal)

    def _encode_im2col(
        self, out: int, dtype: int, rank: int, pointer: int, dims: Any, strides: Any, lower: Any,
        upper: Any, channels: int, pixels: int, steps: Any, interleave: int, swizzle: int,
        promotion: int, fill: int,
    ) -> int:  # fmt: skip
        arguments = self._tensor(dtype, rank, pointer, dims, strides, steps, swizzle)
        arguments |= {
            "lower": lower[: rank - 2],
            "upper": upper[: rank - 2],
            "channels": channels,
            "pixels": pixels,
        }
        limit = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}.get(rank, 0)
        corners = zip(arguments["lower"], arguments["upper"], dims[1:4], strict=False)
        legal = (
            3 <= rank <= 5
            and all(-limit <= c < limit for c in (*arguments["lower"], *arguments["upper"]))
            and all(low <= extent - 1 + up for low, up, extent in corners)
            and 1 <= channels <= 256
            and 1 <= pixels <= 1024
            and interleave == fill == 0
        )
        return self._map("cuTensorMapEncodeIm2col", out, arguments, legal)

    @staticmethod
    def _tensor(
        dtype: int, rank: int, pointer: int, dims: Any, strides: Any, steps: Any, swizzle: int
    ) -> dict[str, Any]:
        return {
            "dtype": real.CUtensorMapDataType(dtype).name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_"),
            "pointer": pointer,
            "dims": dims[:rank],
            "strides": strides[: rank - 1],
            "steps": steps[:rank],
            "swizzle": real.CUtensorMapSwizzle(swizzle).name.removeprefix("CU_TENSOR_MAP_SWIZZLE_"),
        }

    def _map(self, name: str, out: int, arguments: dict[str, Any], legal: bool) -> int:
        """What both encoders have in common: the rules of the tensor, and the answer."""
        legal = bool(
            legal
            and out % 64 == 0
            and arguments["pointer"]
            and arguments["pointer"] % 16 == 0
            and all(1 <= extent <= 1 << 32 for extent in arguments["dims"])
            and all(s % 16 == 0 and s < 1 << 40 for s in arguments["strides"])
            and all(1 <= step <= 8 for step in arguments["steps"])
        )
        if not legal:
            return int(INVALID)
        self.maps.append(arguments)
        ctypes.memmove(out, self.map_bytes(len(self.maps) - 1), 128)
        return int(self.fail.get(name, SUCCESS))

    @staticmethod
    def map_bytes(number: int) -> bytes:
        """What the encoding with this number made."""
        return struct.pack("<16Q", *(number * 100 + word for word in range(16)))


def _cluster(config: Any) -> tuple[int, int, int] | None:
    """The cluster that a launch configuration asks for."""
    wanted = real.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    for attribute in config.attrs[: config.numAttrs]:
        assert attribute.id == wanted
        dims = attribute.value.clusterDim
        return dims.x, dims.y, dims.z
    return None


def _divides(cluster: tuple[int, int, int], config: Any) -> bool:
    grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
    return all(extent % size == 0 for extent, size in zip(grid, cluster, strict=True))


class FakeArray:
    """An array with ``__cuda_array_interface__`` at an address that nobody reads."""

    def __init__(
        self, pointer: int, shape: tuple[int, ...], typestr: str, *,
        strides: tuple[int, ...] | None = None, readonly: bool = False, **more: Any,
    ) -> None:  # fmt: skip
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (pointer, readonly),
            "strides": strides,
            "version": 3,
            **more,
        }
