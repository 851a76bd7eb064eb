"""How to read the arrays of each framework: NumPy, torch, CuPy, jax, and the two protocols.

A framework is met through its array's type, never imported here. Each answers four questions:
what selects a variant (``spec``), what a launch reads (``array``), a cheap hashable stand-in
for that (``keyer``), and on which stream the framework is working now (``stream``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

from tiledsl.codegen.ir.dtypes import DType, as_dtype
from tiledsl.errors import LaunchError, TypeMismatch
from tiledsl.runtime import dlpack
from tiledsl.runtime.arrays import ArrayArg, ArraySpec, contiguous_strides
from tiledsl.runtime.device import current_device, device_of_pointer

LEGACY_STREAM = 0  # the null stream; the array protocols write it as 1


class Framework:
    """Base: an array type that is read through the protocols on each call.

    Attributes:
        one_stream: whether all arrays of a thread work on one stream a device, and that is known.
        waits: whether the framework's stream is unknown, so that a launch has to wait for the
            kernel before it hands the arrays back.
    """

    one_stream = False
    waits = False

    def spec(self, name: str, value: Any) -> ArraySpec:
        """What selects the variant."""
        return self.array(name, value, LEGACY_STREAM).spec

    def keyer(self, name: str) -> Callable[[Any, int], Hashable]:
        """Reads the stand-in of an array for a launch on a stream; called on every launch.

        Equal stand-ins mean that equal parameters are passed to the kernel.
        """

        def key(value: Any, stream: int) -> Hashable:
            array = self.array(name, value, stream)
            # Not the array itself: stand-ins are kept, and its owner would be kept alive with it.
            return (
                array.pointer, array.shape, array.strides, array.dtype, array.device, array.readonly
            )  # fmt: skip

        return key

    def array(self, name: str, value: Any, stream: int) -> ArrayArg:
        """All that a launch on ``stream`` needs. Raises TypeMismatch or LaunchError."""
        raise NotImplementedError

    def stream(self, value: Any) -> int | None:
        """The framework's current stream for the array; None when it cannot be known."""
        raise NotImplementedError


def dtype_of(name: str, dtype: Any) -> DType:
    """tiledsl's dtype for a framework's, or a TypeMismatch that names the argument."""
    if not getattr(dtype, "isnative", True):
        raise TypeMismatch(
            f"argument {name}: expected native byte order, got {dtype}",
            hint=f"{name}.astype({name}.dtype.newbyteorder('='))",
        )
    try:
        return as_dtype(dtype)
    except TypeError as error:
        raise TypeMismatch(f"argument {name}: {error}") from None


def element_strides(name: str, strides: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    """Strides in elements from strides in bytes."""
    if any(stride % dtype.itemsize for stride in strides):
        raise LaunchError(
            f"argument {name}: expected strides that are whole elements of {dtype.itemsize}"
            f" bytes, got {strides} bytes",
            hint=f"pass a contiguous copy of {name}",
        )
    return tuple(stride // dtype.itemsize for stride in strides)


class NumPy(Framework):
    """Host arrays, which run on the emulator."""

    def __init__(self) -> None:
        self._specs: dict[tuple[Any, int], ArraySpec] = {}

    def spec(self, name: str, value: Any) -> ArraySpec:
        found = self._specs.get((value.dtype, value.ndim))
        if found is None:
            found = ArraySpec(dtype_of(name, value.dtype), value.ndim, "host")
            self._specs[value.dtype, value.ndim] = found
        return found

    def array(self, name: str, value: Any, stream: int) -> ArrayArg:
        dtype = dtype_of(name, value.dtype)
        strides = element_strides(name, value.strides, dtype)
        readonly = not value.flags.writeable
        return ArrayArg(value.ctypes.data, value.shape, strides, dtype, "cpu", readonly, value)

    def stream(self, value: Any) -> int | None:
        return None


class Torch(Framework):
    """torch.Tensor and its subclasses, read without DLPack: a few attributes a launch."""

    one_stream = True

    def __init__(self, torch: Any) -> None:
        self._specs: dict[tuple[Any, int], ArraySpec] = {}
        self._strided = torch.strided
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        # The raw call makes no Stream object. It is private, though stable since torch 1.x.
        self._current = raw or (lambda index: torch.cuda.current_stream(index).cuda_stream)

    def spec(self, name: str, value: Any) -> ArraySpec:
        found = self._specs.get((value.dtype, value.dim()))
        if found is None:
            found = ArraySpec(dtype_of(name, value.dtype), value.dim())
            self._specs[value.dtype, value.dim()] = found
        self._check(name, value)
        return found

    def keyer(self, name: str) -> Callable[[Any, int], Hashable]:
        return _torch_key

    def array(self, name: str, value: Any, stream: int) -> ArrayArg:
        self._check(name, value)
        if value.is_neg():  # memory holds the negated values; only torch's own kernels know
            raise LaunchError(
                f"argument {name}: expected a plain tensor, got a lazily negated view",
                hint=f"{name}.resolve_neg()",
            )
        dtype = dtype_of(name, value.dtype)
        shape, strides = tuple(value.shape), tuple(value.stride())
        return ArrayArg(value.data_ptr(), shape, strides, dtype, value.get_device(), False, value)

    def _check(self, name: str, value: Any) -> None:
        if value.layout is not self._strided:
            raise TypeMismatch(
                f"argument {name}: expected a dense (strided) tensor, got {value.layout}",
                hint=f"{name}.to_dense()",
            )
        if not value.is_cuda:
            _refuse_host(name, f"torch tensor on {value.device}", ".cuda()", ".numpy()")

    def stream(self, value: Any) -> int | None:
        # A host tensor is refused later; the raw call would crash on its device -1.
        return int(self._current(value.get_device())) if value.is_cuda else None


class CuPy(Framework):
    """cupy.ndarray."""

    one_stream = True

    def __init__(self, cupy: Any) -> None:
        self._specs: dict[tuple[Any, int], ArraySpec] = {}
        self._cuda = cupy.cuda

    def spec(self, name: str, value: Any) -> ArraySpec:
        found = self._specs.get((value.dtype, value.ndim))
        if found is None:
            found = ArraySpec(dtype_of(name, value.dtype), value.ndim)
            self._specs[value.dtype, value.ndim] = found
        return found

    def keyer(self, name: str) -> Callable[[Any, int], Hashable]:
        return _cupy_key

    def array(self, name: str, value: Any, stream: int) -> ArrayArg:
        dtype = dtype_of(name, value.dtype)
        strides = element_strides(name, value.strides, dtype)
        data = value.data
        return ArrayArg(data.ptr, value.shape, strides, dtype, data.device_id, False, value)

    def stream(self, value: Any) -> int | None:
        return _plain(self._cuda.get_current_stream(value.data.device_id).ptr)


def _torch_key(value: Any, stream: int) -> Hashable:
    return (
        value.data_ptr(),
        value.shape,
        value.stride(),
        value.dtype,
        value.get_device(),
        value.is_neg(),
    )


def _cupy_key(value: Any, stream: int) -> Hashable:
    data = value.data
    return data.ptr, value.shape, value.strides, value.dtype, data.device_id


class CudaArray(Framework):
    """Anything with ``__cuda_array_interface__``, such as a numba device array."""

    def array(self, name: str, value: Any, stream: int) -> ArrayArg:
        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is None:
            _refuse_host(name, f"{type(value).__name__} without __cuda_array_interface__", "", "")
        return _read_interface(name, value, interface)

    def stream(self, value: Any) -> int | None:
        interface = getattr(value, "__cuda_array_interface__", None) or {}
        # None means by version 3: no ordering needed, that is, all work was on the null stream.
        return _plain(interface.get("stream") or LEGACY_STREAM)


class DLPack(Framework):
    """Arrays read through ``__dlpack__``, whose producer does not tell its stream."""

    waits = True
    readonly = False

    def array(self, name: str, value: Any, stream: int) -> ArrayArg:
        device_type, _ = value.__dlpack_device__()
        if int(device_type) not in (dlpack.CUDA, dlpack.CUDA_MANAGED):
            what = f"{type(value).__name__} in host memory (DLPack device type {device_type})"
            _refuse_host(name, what, "", "")
        array = dlpack.read(name, value, dlpack.export(value, stream))
        if self.readonly and not array.readonly:
            where = (array.shape, array.strides, array.dtype, array.device)
            array = ArrayArg(array.pointer, *where, readonly=True, owner=value)
        return array

    def stream(self, value: Any) -> int | None:
        return None


class Jax(DLPack):
    """jax.Array: immutable, so that a kernel may read but not write it.

    Not by ``__cuda_array_interface__``, which has no bfloat16.
    """

    readonly = True

    def spec(self, name: str, value: Any) -> ArraySpec:
        if not hasattr(value, "__dlpack_device__"):
            raise TypeMismatch(
                f"argument {name}: expected a jax.Array, got {type(value).__name__}",
                hint="a kernel cannot be traced: call it outside of jax.jit",
            )
        return super().spec(name, value)


def _refuse_host(name: str, what: str, to_device: str, to_host: str) -> NoReturn:
    where = f"{name}{to_device}" if to_device else "an array in GPU memory"
    host = f"{name}{to_host}" if to_host else f"np.asarray({name})"
    raise LaunchError(
        f"argument {name}: expected an array in GPU memory or a NumPy array, got a {what}",
        hint=f"pass {where} to launch on the GPU, or {host} to run on the emulator",
    )


def _plain(stream: Any) -> int:
    """A stream handle in which the null stream is 0 (the array interface writes 1)."""
    handle = int(stream)
    return LEGACY_STREAM if handle == 1 else handle


def _read_interface(name: str, value: Any, interface: dict[str, Any]) -> ArrayArg:
    """An array from its ``__cuda_array_interface__`` (versions 0 to 3)."""
    if interface.get("mask") is not None:
        raise TypeMismatch(f"argument {name}: a masked array cannot be passed to a kernel")
    dtype = _interface_dtype(name, value, interface["typestr"])
    shape = tuple(int(extent) for extent in interface["shape"])
    given = interface.get("strides")
    strides = (
        contiguous_strides(shape)
        if given is None
        else element_strides(name, tuple(int(stride) for stride in given), dtype)
    )
    data = interface["data"]
    pointer, readonly = (0, False) if data is None else (int(data[0] or 0), bool(data[1]))
    device = device_of_pointer(pointer) if pointer else None
    if device is None:
        if pointer and 0 not in shape:
            raise LaunchError(
                f"argument {name}: {type(value).__name__} gives a pointer ({pointer:#x}) that the"
                " CUDA driver does not know",
                hint="the array may have been freed, or belong to another process",
            )
        device = current_device().ordinal  # no elements: any device will do
    return ArrayArg(pointer, shape, strides, dtype, device, readonly, value)


def _interface_dtype(name: str, value: Any, typestr: str) -> DType:
    # The array's own dtype first: typestr writes bfloat16 and fp8 as void ("<V2", "|V1").
    own = getattr(value, "dtype", None)
    if own is not None:
        try:
            return as_dtype(own)
        except TypeError:
            pass
    import numpy as np

    return dtype_of(name, np.dtype(typestr))


NUMPY = NumPy()
CUDA_ARRAY = CudaArray()
DLPACK = DLPack()
JAX = Jax()

_by_type: dict[type, Framework | None] = {}


def framework_of(value: Any) -> Framework | None:
    """Who can read ``value``; None when it is no array."""
    kind = type(value)
    try:
        return _by_type[kind]
    except KeyError:
        pass
    found = _find(kind, value)
    # What is no array by its type may become one by an attribute of a later instance.
    if found is not None:
        _by_type[kind] = found
    return found


def _find(kind: type, value: Any) -> Framework | None:
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        what = (root, base.__name__)
        if what == ("numpy", "ndarray"):
            return NUMPY
        if what == ("torch", "Tensor"):
            return _one(Torch, sys.modules["torch"])
        if what == ("cupy", "ndarray"):
            return _one(CuPy, sys.modules["cupy"])
        if root in ("jax", "jaxlib"):
            return JAX
    if hasattr(value, "__cuda_array_interface__"):
        return CUDA_ARRAY
    return DLPACK if hasattr(value, "__dlpack__") else None


_instances: dict[type[Framework], Framework] = {}


def _one(cls: Any, module: Any) -> Framework:
    """The single reader of a framework, so that ``is`` tells frameworks apart."""
    return _instances.setdefault(cls, cls(module))
