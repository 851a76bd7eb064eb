"""Is there a GPU that the tests can use? Asked of the driver itself, in a few lines.

Without ``cuda.core``, because a machine without a GPU is the normal case and the answer must not
depend on what the tests are about.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

# Compute capabilities that tiledsl makes code for; sm_90a code runs on 9.0 only.
SUPPORTED = {(9, 0)}

# From cuda.h, CUdevice_attribute.
_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """The first CUDA device: its name, or why there is none that the tests can use."""

    name: str | None
    reason: str = ""

    @property
    def usable(self) -> bool:
        return self.name is not None


@cache
def find_cuda_device() -> CudaDevice:
    """The first device of the driver, asked once per process."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return CudaDevice(None, "no CUDA driver")
    count, device = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return CudaDevice(None, "no CUDA device")
    name = ctypes.create_string_buffer(256)
    major, minor = ctypes.c_int(), ctypes.c_int()
    if (
        driver.cuDeviceGet(ctypes.byref(device), 0)
        or driver.cuDeviceGetName(name, len(name), device)
        or driver.cuDeviceGetAttribute(ctypes.byref(major), _COMPUTE_CAPABILITY_MAJOR, device)
        or driver.cuDeviceGetAttribute(ctypes.byref(minor), _COMPUTE_CAPABILITY_MINOR, device)
    ):
        return CudaDevice(None, "the CUDA driver does not answer")
    capability = (major.value, minor.value)
    if capability not in SUPPORTED:
        return CudaDevice(None, f"{name.value.decode()} has compute capability {capability}")
    return CudaDevice(name.value.decode())
