"""Stand-ins for torch and for DLPack producers, as far as the runtime looks at them."""

from __future__ import annotations

import ctypes
import types
from typing import Any

from tiledsl.runtime import dlpack
from tiledsl.runtime.arrays import contiguous_strides


class _TorchDtype:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"


def make_torch() -> Any:
    """A module with ``Tensor``, dtypes, ``strided`` and the raw-stream call."""
    torch: Any = types.ModuleType("torch")
    torch.strided = "torch.strided"
    for name in ("bfloat16", "float16", "float32", "int32", "complex64", "float8_e4m3fn"):
        setattr(torch, name, _TorchDtype(name))
    torch.streams = {}  # by device, what current_stream would be
    torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda i: torch.streams.get(i, 0))

    class Tensor:
        def __init__(
            self, pointer: int, shape: tuple[int, ...], dtype: Any, *, device: int = 0,
            strides: tuple[int, ...] | None = None, negated: bool = False, layout: str = "",
        ) -> None:  # fmt: skip
            self._pointer, self.shape, self.dtype = pointer, shape, dtype
            self._strides = contiguous_strides(shape) if strides is None else strides
            self._device, self._negated = device, negated
            self.layout = layout or torch.strided
            self.is_cuda = device >= 0
            self.device = f"cuda:{device}" if device >= 0 else "cpu"

        def data_ptr(self) -> int:
            return self._pointer

        def stride(self) -> tuple[int, ...]:
            return self._strides

        def dim(self) -> int:
            return len(self.shape)

        def get_device(self) -> int:
            return self._device

        def is_neg(self) -> bool:
            return self._negated

    Tensor.__module__ = "torch"
    torch.Tensor = Tensor
    return torch


class Producer:
    """An array with ``__dlpack__`` only. The capsule is the real thing, made by hand."""

    def __init__(
        self, pointer: int, shape: tuple[int, ...], code: int, bits: int, *,
        strides: tuple[int, ...] | None = None, device_type: int = dlpack.CUDA, device: int = 0,
        byte_offset: int = 0, lanes: int = 1, versioned: bool = True, readonly: bool = False,
    ) -> None:  # fmt: skip
        self.asked: list[int] = []  # streams that __dlpack__ was called with
        self.versioned = versioned
        self.device = (device_type, device)
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * len(shape))(*strides)
        tensor = dlpack._Tensor(
            pointer, device_type, device, len(shape), code, bits, lanes, self._shape,
            self._strides, byte_offset,
        )  # fmt: skip
        flags = dlpack._READ_ONLY if readonly else 0
        self._managed: Any = tensor
        self._name = b"dltensor"
        if versioned:
            self._managed = dlpack._Versioned(1, 1, None, None, flags, tensor)
            self._name = b"dltensor_versioned"

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: int, **more: Any) -> Any:
        if more and not self.versioned:
            raise TypeError(f"unexpected keywords {list(more)}")
        self.asked.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        new.restype = ctypes.py_object
        return new(ctypes.addressof(self._managed), self._name, None)
