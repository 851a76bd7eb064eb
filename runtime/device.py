"""The CUDA driver and its devices: one probe, and facts that are read once.

Importing this module does not import CUDA. The first call that needs the driver probes it; a
failure is remembered, since a second try after a failed load has been seen to hang.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tiledsl.errors import LaunchError

_lock = threading.RLock()
_driver: Any = None
_failure: str | None = None
_devices: dict[int, Device] = {}

# What must be true of a device for code of some target; the letter says how far code moves:
# "a" to that very capability, "f" within its family, none to any later one.
_TARGET = re.compile(r"sm_(\d+)(\d)([af]?)$")


def _load_driver() -> Any:
    """Import the bindings and initialise the driver (apart, so that tests can replace it)."""
    from cuda.bindings import driver

    (result,) = driver.cuInit(0)
    if result != driver.CUresult.CUDA_SUCCESS:
        # Not cuGetErrorName: with a stub library it may fail as well.
        raise RuntimeError(f"cuInit answered {result!r}")
    return driver


def driver() -> Any:
    """The module ``cuda.bindings.driver``, after ``cuInit``.

    Raises:
        LaunchError: without bindings, driver or GPU; always the same one in a process.
    """
    global _driver, _failure
    if _driver is not None:
        return _driver
    with _lock:
        if _driver is None and _failure is None:
            try:
                _driver = _load_driver()
            except Exception as error:  # the bindings raise several unrelated classes here
                _failure = f"{type(error).__name__}: {error}"
        if _driver is not None:
            return _driver
    raise LaunchError(
        f"no usable NVIDIA GPU: expected a CUDA driver and a device, got {_failure}",
        hint="call the kernel with NumPy arrays to run it on the emulator, or use"
        " kernel.compile(...), which needs no GPU",
    )


def is_available() -> bool:
    """Whether this process can launch on a GPU. Never raises; probes once."""
    try:
        return device_count() > 0
    except LaunchError:
        return False


def describe_error(result: Any) -> str:
    """``CUDA_ERROR_INVALID_VALUE (invalid argument)`` for a ``CUresult``."""
    drv = driver()
    name_status, name = drv.cuGetErrorName(result)
    text_status, text = drv.cuGetErrorString(result)
    success = drv.CUresult.CUDA_SUCCESS
    if name_status != success or text_status != success:
        return str(result)
    return f"{_text(name)} ({_text(text)})"


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def check(answer: tuple[Any, ...], doing: str) -> Any:
    """The results of a driver call without its status.

    Args:
        answer: what the binding returned: the status, then results.
        doing: what the call was for, such as ``"loading the cubin of gemm"``.

    Returns:
        None, the one result, or a tuple of results.

    Raises:
        LaunchError: when the status is not success.
    """
    status, *results = answer
    if status != driver().CUresult.CUDA_SUCCESS:
        raise LaunchError(f"{doing} failed: {describe_error(status)}", hint=error_hint(status))
    if not results:
        return None
    return results[0] if len(results) == 1 else tuple(results)


_STICKY = (
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
)
_HINTS = {
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "compile for the target of this device",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the driver is older than the assembler: update it",
    "CUDA_ERROR_OUT_OF_MEMORY": "free device memory; other processes may hold it",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "the block needs more registers or threads than a"
    " multiprocessor has: use fewer warps or smaller tiles",
    "CUDA_ERROR_INVALID_CONTEXT": "the stream belongs to another device or was destroyed",
    "CUDA_ERROR_INVALID_HANDLE": "the stream belongs to another device or was destroyed",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": "launch the kernel once before the capture",
}


def error_hint(status: Any) -> str | None:
    """What to do about a ``CUresult``, when there is something general to say."""
    name = getattr(status, "name", str(status))
    if name in _STICKY:
        return (
            "this or an earlier kernel of the process faulted on the GPU; the process must be"
            " restarted (CUDA_LAUNCH_BLOCKING=1 finds out which one it was)"
        )
    return _HINTS.get(name)


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU.

    Attributes:
        ordinal: CUDA's number of the device.
        name: such as ``"NVIDIA H200"``.
        capability: compute capability, such as ``(9, 0)``.
        multiprocessors: number of multiprocessors (SMs).
        shared_bytes: shared memory that one block can have after opting in.
        context: handle of the primary context, as the frameworks use it.
        handle: the driver's ``CUdevice``.
    """

    ordinal: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    shared_bytes: int
    context: int
    handle: Any

    @property
    def target(self) -> str:
        """The target to compile for, such as ``"sm_90a"``."""
        major, minor = self.capability
        return f"sm_{major}{minor}" + ("a" if major >= 9 else "")

    def runs(self, target: str) -> bool:
        """Whether code compiled for ``target`` runs on this device."""
        match = _TARGET.match(target)
        if match is None:
            return False
        wanted = (int(match[1]), int(match[2]))
        if match[3] == "a":
            return self.capability == wanted
        return self.capability[0] == wanted[0] and self.capability[1] >= wanted[1]

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the primary context current inside the ``with`` block; restores the former."""
        if current_context() == self.context:
            yield
            return
        drv = driver()
        check(drv.cuCtxPushCurrent(drv.CUcontext(self.context)), f"switching to {self.name}")
        try:
            yield
        finally:
            check(drv.cuCtxPopCurrent(), f"leaving {self.name}")


def current_context() -> int:
    """Handle of the thread's current context; 0 when it has none."""
    return int(check(driver().cuCtxGetCurrent(), "asking for the current context"))


def device_count() -> int:
    """Number of GPUs that the process can use."""
    return int(check(driver().cuDeviceGetCount(), "counting the devices"))


def device(ordinal: int) -> Device:
    """The device with CUDA's number ``ordinal``; its facts are read once.

    Raises:
        LaunchError: without a GPU, or when there is no such device.
    """
    found = _devices.get(ordinal)
    if found is None:
        with _lock:
            found = _devices.get(ordinal) or _query(ordinal)
            _devices[ordinal] = found
    return found


def _query(ordinal: int) -> Device:
    drv = driver()
    count = device_count()
    if not 0 <= ordinal < count:
        raise LaunchError(
            f"no CUDA device {ordinal}: expected 0 <= device < {count}, got {ordinal}",
            hint="look at CUDA_VISIBLE_DEVICES: it renumbers and hides devices",
        )
    what = f"asking device {ordinal}"
    handle = check(drv.cuDeviceGet(ordinal), what)

    def attribute(name: str) -> int:
        which = getattr(drv.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(check(drv.cuDeviceGetAttribute(which, handle), what))

    name = check(drv.cuDeviceGetName(256, handle), what)
    # Retained for the life of the process, as every framework does: the primary context is
    # shared with them, and releasing our reference last would destroy their memory.
    context = check(drv.cuDevicePrimaryCtxRetain(handle), f"opening device {ordinal}")
    return Device(
        ordinal=ordinal,
        name=_text(name).split("\0", 1)[0],
        capability=(attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")),
        multiprocessors=attribute("MULTIPROCESSOR_COUNT"),
        shared_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        context=int(context),
        handle=handle,
    )


def current_device() -> Device:
    """The device of the thread's current context; device 0 when the thread has none."""
    if not current_context():
        return device(0)
    return device(int(check(driver().cuCtxGetDevice(), "asking for the current device")))


def device_of_pointer(pointer: int) -> int | None:
    """Ordinal of the device that owns a device pointer; None when the driver knows of none."""
    drv = driver()
    which = drv.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status, ordinal = drv.cuPointerGetAttribute(which, pointer)
    return int(ordinal) if status == drv.CUresult.CUDA_SUCCESS else None
