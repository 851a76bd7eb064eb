"""A launch's arguments: what they are, and whether they go together. Imports no CUDA."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tiledsl.errors import LaunchError, TypeMismatch
from tiledsl.runtime.arrays import ArrayArg, ArraySpec, Place, ScalarSpec, contiguous_strides
from tiledsl.runtime.frameworks import LEGACY_STREAM, framework_of
from tiledsl.runtime.scalars import pack_scalar, scalar_spec

__all__ = [
    "ArrayArg",
    "ArraySpec",
    "ScalarSpec",
    "classify",
    "contiguous_strides",
    "is_array",
    "launch_place",
    "pack_scalar",
    "read_array",
]

MAX_RANK = 5
MAX_EXTENT = (1 << 31) - 1


def classify(name: str, value: Any) -> ArraySpec | ScalarSpec:
    """What ``value``, given for the parameter ``name``, is. Needs no CUDA for NumPy, torch, CuPy.

    Returns:
        ``ArraySpec`` with place ``"host"`` for a NumPy array and ``"device"`` for an array in
        GPU memory (torch, CuPy, numba, jax, anything with ``__cuda_array_interface__`` or
        ``__dlpack__``); ``ScalarSpec`` for a Python or NumPy number.

    Raises:
        TypeMismatch: for anything else, a dtype that tiledsl lacks, or a rank outside 1 ... 5.
        LaunchError: for an array of another framework that lies in host memory.
    """
    framework = framework_of(value)
    if framework is not None:
        spec = framework.spec(name, value)
        if not 1 <= spec.rank <= MAX_RANK:
            _refuse_rank(name, spec.rank)
        return spec
    scalar = scalar_spec(name, value)
    if scalar is not None:
        return scalar
    raise TypeMismatch(
        f"argument {name}: expected an array or a number, got {_kind(value)}",
        hint="arrays may come from NumPy, torch, CuPy, numba, jax, or anything with"
        " __cuda_array_interface__ or __dlpack__"
        + (f"; np.asarray({name}) makes one" if isinstance(value, list | tuple) else ""),
    )


def is_array(value: Any) -> bool:
    """Whether an argument that ``classify`` accepts is an array."""
    return framework_of(value) is not None


def _kind(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__qualname__}"


def _refuse_rank(name: str, rank: int) -> None:
    if rank == 0:
        raise TypeMismatch(
            f"argument {name}: expected an array of rank 1 to {MAX_RANK}, got rank 0",
            hint=f"pass {name}.item() as a number, or {name}.reshape(1) as an array",
        )
    raise TypeMismatch(
        f"argument {name}: expected an array of rank 1 to {MAX_RANK}, got rank {rank}",
        hint=f"merge dimensions of {name} with reshape",
    )


def read_array(name: str, value: Any, stream: int = LEGACY_STREAM) -> ArrayArg:
    """Pointer, shape, strides, dtype and device of an array argument.

    Args:
        name: the parameter, for messages.
        value: an array that ``classify`` accepts.
        stream: handle of the stream of the launch; a DLPack producer orders its work before it.

    Raises:
        TypeMismatch: when it is no array, or of a dtype or rank that tiledsl lacks.
        LaunchError: when it lies in host memory of another framework than NumPy, or has an
            extent above 2**31 - 1.
    """
    framework = framework_of(value)
    if framework is None:
        raise TypeMismatch(f"argument {name}: expected an array, got {_kind(value)}")
    array = framework.array(name, value, stream)
    if not 1 <= array.rank <= MAX_RANK:
        _refuse_rank(name, array.rank)
    for axis, extent in enumerate(array.shape):
        if extent > MAX_EXTENT:
            raise LaunchError(
                f"argument {name}: extent {extent} of dimension {axis} is too large: expected at"
                f" most {MAX_EXTENT} (2**31 - 1), for a kernel's indices are 32-bit",
                hint=f"split {name} and launch once for each part",
            )
    return array


def launch_place(named: Iterable[tuple[str, ArraySpec | ScalarSpec]]) -> Place | None:
    """Where a launch with these arguments runs: ``"host"``, ``"device"``, or None without arrays.

    Raises:
        LaunchError: when NumPy arrays and GPU arrays are mixed; it names one of each.
    """
    first: dict[Place, tuple[str, ArraySpec]] = {}
    for name, spec in named:
        if isinstance(spec, ArraySpec):
            first.setdefault(spec.place, (name, spec))
    if len(first) == 2:
        host, device = first["host"][0], first["device"][0]
        raise LaunchError(
            f"arguments {host} and {device} cannot be mixed: expected all arrays in one place,"
            f" got {host} as a NumPy array (host memory) and {device} in GPU memory",
            hint=f"move {host} to the GPU to launch there, or {device} to NumPy to run on the"
            " emulator",
        )
    return next(iter(first), None)


def check_same_device(named: Iterable[tuple[str, ArrayArg]]) -> int | None:
    """The CUDA ordinal that all arrays are on; None without arrays.

    Raises:
        LaunchError: when one is in host memory, or two are on different devices.
    """
    first: tuple[str, ArrayArg] | None = None
    for name, array in named:
        if array.device == "cpu":
            raise LaunchError(f"argument {name}: expected an array in GPU memory, got host memory")
        first = first or (name, array)
        if array.device != first[1].device:
            raise LaunchError(
                f"arguments {first[0]} and {name} are on different devices: expected all on one,"
                f" got cuda:{first[1].device} and cuda:{array.device}",
                hint=f"copy {name} to cuda:{first[1].device}",
            )
    return None if first is None else int(first[1].device)
