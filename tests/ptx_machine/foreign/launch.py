"""Runs PTX of this folder on the machine: parameters by the layout that the entry declares."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.isa import bulk_ops as ops
from tiledsl.runtime.ptx_machine.machine import Launch, Result, run
from tiledsl.runtime.ptx_machine.memory import GlobalMemory
from tiledsl.runtime.ptx_machine.opcodes import BITS, TYPE_CODES
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import Program, decode

__all__ = ["HERE", "POLICIES", "TensorMap", "aligned", "close", "launch", "launch_numba", "program"]

Array = np.ndarray[Any, Any]
Extents = tuple[int, ...]
HERE = Path(__file__).parent
POLICIES = ("late", "pct")


@dataclass(frozen=True)
class TensorMap:
    """What ``cuTensorMapEncodeTiled`` would be given; extents innermost first, as there.

    Attributes:
        array: C-contiguous; the last axis is the innermost.
        box: elements along each axis, innermost first.
        dtype: the machine's name of the elements' type.
        swizzle: 0, 32, 64 or 128 bytes.
    """

    array: Array
    box: Extents
    dtype: str
    swizzle: int = 0


@cache
def program(path: str, entry: str | None = None) -> Program:
    """The rows of a file of this folder."""
    return decode(parse((HERE / path).read_text()), entry)


def aligned(shape: Any, dtype: Any, fill: Any = None) -> Array:
    """An array at a multiple of 256 bytes, as device memory is; ``fill``: its values."""
    count, dtype = int(np.prod(shape)), np.dtype(dtype)
    raw = np.empty(count * dtype.itemsize + 512, np.uint8)
    start = -raw.ctypes.data % 256
    made: Array = raw[start : start + count * dtype.itemsize].view(dtype).reshape(shape)
    if fill is None:
        made.view(np.uint8)[...] = 0xCB
    else:
        made[...] = fill
    return made


def launch(
    path: str,
    arguments: Sequence[Any],
    *,
    grid: Extents,
    block: Extents,
    cluster: Extents = (1,),
    entry: str | None = None,
    made: Program | None = None,
    **options: Any,
) -> Result:
    """Run an entry of a file, or the program ``made``.

    Arguments: arrays (their addresses), TensorMap, NumPy scalars.
    """
    made = program(path, entry) if made is None else made
    memory, maps = GlobalMemory(), []
    memory.add_spans(
        (f"argument {k}", array.ctypes.data, _reach(array), False, array)
        for k, argument in enumerate(arguments)
        if (array := _array(argument)) is not None and array.size
    )
    assert len(arguments) == len(made.parameters), [p.name for p in made.parameters]
    parameters = b""
    for argument, parameter in zip(arguments, made.parameters, strict=True):
        if isinstance(argument, TensorMap):
            maps.append(_map_row(argument, memory.address_of(argument.array.ctypes.data)))
            data = struct.pack("<Qq", ops.MAGIC, len(maps) - 1).ljust(128, b"\0")
        elif isinstance(argument, np.ndarray):
            place = memory.address_of(argument.ctypes.data) if argument.size else 0
            data = struct.pack("<Q", place)
        else:
            data = argument.tobytes()
        assert len(data) == parameter.size, f"{parameter}: {len(data)} bytes given"
        parameters = parameters.ljust(parameter.offset, b"\0") + data
    return run(
        made,
        Launch(
            grid=_three(grid),
            block=_three(block),
            cluster=_three(cluster),
            parameters=parameters,
            memory=memory,
            maps=np.stack(maps) if maps else None,
            **options,
        ),
    )


def launch_numba(name: str, arguments: Sequence[Any], **options: Any) -> Result:
    """Run a kernel of numba-cuda, which takes seven or more parameters for an array."""
    flat: list[Any] = []
    for argument in arguments:
        if not isinstance(argument, np.ndarray):
            flat.append(argument)
            continue
        flat += [np.int64(0), np.int64(0), np.int64(argument.size), np.int64(argument.itemsize)]
        flat.append(argument)
        flat += [np.int64(n) for n in (*argument.shape, *argument.strides)]
    return launch(f"numba_cuda/{name}.ptx", flat, **options)


def close(got: Array, wanted: Array, relative: float, absolute: Any = 0.0) -> None:
    """Everywhere within the error; the worst place if not."""
    wanted = np.asarray(wanted)
    got = got.astype(wanted.dtype)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - wanted) - (relative * np.abs(wanted) + absolute)
    bad = ~((error <= 0) | (np.isnan(got) & np.isnan(wanted)) | (got == wanted))
    at = np.argmax(np.where(bad, np.nan_to_num(error, nan=np.inf), -np.inf))
    assert not bad.any(), f"{bad.sum()} of {bad.size}; {got.flat[at]} for {wanted.flat[at]}"


def _array(argument: Any) -> Array | None:
    if isinstance(argument, TensorMap):
        return argument.array
    return argument if isinstance(argument, np.ndarray) else None


def _reach(array: Array) -> int:
    """Bytes from the first element to the end of the last one."""
    steps = ((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    return int(sum(steps)) + array.itemsize


def _three(extents: Extents) -> tuple[int, int, int]:
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def _map_row(given: TensorMap, address: int) -> Array:
    row = np.zeros(ops.MAP_COLUMNS, np.int64)
    rank, code = given.array.ndim, TYPE_CODES[given.dtype]
    row[ops.MAP_ADDRESS], row[ops.MAP_RANK] = address, rank
    row[ops.MAP_BYTES], row[ops.MAP_TYPE] = BITS[code] // 8, code
    row[ops.MAP_SWIZZLE] = given.swizzle
    for start, values in (
        (ops.MAP_EXTENT, given.array.shape[::-1]),
        (ops.MAP_STRIDE, given.array.strides[::-1]),
        (ops.MAP_BOX, given.box),
        (ops.MAP_STEP, (1,) * rank),
    ):
        row[start : start + rank] = values
    return row
