"""Runs a compiled kernel's PTX on the PTX machine: the same parameters as a launch on a GPU."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.plan import TensorMapSpec
from tiledsl.runtime.arguments import is_array, read_array
from tiledsl.runtime.arrays import ArrayArg
from tiledsl.runtime.parameters import pack_parameters
from tiledsl.runtime.ptx_machine.isa.bulk_ops import (
    MAGIC,
    MAP_ADDRESS,
    MAP_BOX,
    MAP_BYTES,
    MAP_COLUMNS,
    MAP_EXTENT,
    MAP_IM2COL,
    MAP_LOWER,
    MAP_RANK,
    MAP_STEP,
    MAP_STRIDE,
    MAP_SWIZZLE,
    MAP_TYPE,
    MAP_UPPER,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.machine import Launch, Result, run
from tiledsl.runtime.ptx_machine.memory import GlobalMemory
from tiledsl.runtime.ptx_machine.opcodes import TYPE_CODES
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import Program, decode
from tiledsl.runtime.ptx_names import names_of
from tiledsl.runtime.tensormap import TENSOR_MAP_BYTES, geometry

__all__ = ["run_kernel"]

# What reductions of a tensor map compute with; other types are only moved.
_REDUCED = {
    "int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64", "float16": "f16",
    "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip


def run_kernel(
    kernel: Kernel,
    ptx: str,
    names: Sequence[str],
    values: Sequence[Any],
    grid: tuple[int, int, int],
    *,
    program: Program | None = None,
    **options: Any,
) -> Result:
    """Run a kernel's PTX on NumPy arrays, which it writes in place.

    Args:
        kernel: at protocol level, with its plan, which says what the parameters are.
        ptx: what was emitted for it.
        names, values: of the run-time arguments.
        grid: blocks along x, y, z.
        program: the decoded PTX, where it is known from an earlier run.
        options: of ``machine.Launch``: policy, seed, checks, together, profile...
    """
    assert kernel.plan is not None
    program = program or decode(parse(ptx), kernel.name)
    maps = _Maps()
    arrays = {
        index: read_array(name, value)
        for index, (name, value) in enumerate(zip(names, values, strict=True))
        if is_array(value)
    }
    maps.memory.add_spans(_span(names[index], array) for index, array in arrays.items())
    placed = {index: maps.place(array) for index, array in arrays.items()}
    packed = pack_parameters(kernel.plan.params, names, placed, values, maps.encode)
    data = bytearray(max((p.offset + p.size for p in program.parameters), default=0))
    for parameter, content in zip(program.parameters, packed, strict=True):
        data[parameter.offset : parameter.offset + len(content)] = content
    cluster = (*kernel.cluster_dims, 1, 1)[:3]
    launch = Launch(
        grid=grid,
        block=(kernel.plan.threads, 1, 1),
        cluster=(cluster[0], cluster[1], cluster[2]),
        parameters=bytes(data),
        memory=maps.memory,
        maps=np.array(maps.rows or np.zeros((0, MAP_COLUMNS)), np.int64),
        dynamic_shared=kernel.plan.shared_bytes,
        registers=kernel.plan.entry_registers or 0,
        names=names_of(kernel, [(names[index], array) for index, array in placed.items()]),
        **options,
    )
    return run(program, launch)


def _span(name: str, array: ArrayArg) -> tuple[str, int, int, bool, Any]:
    """Name, first byte, bytes, whether it is read-only, and owner of an array."""
    size = array.dtype.itemsize
    if array.is_empty:
        return name, array.pointer, 0, array.readonly, array.owner
    reach = [(n - 1) * s * size for n, s in zip(array.shape, array.strides, strict=True)]
    low = sum(r for r in reach if r < 0)
    high = sum(r for r in reach if r > 0) + size
    return name, array.pointer + low, high - low, array.readonly, array.owner


@dataclass
class _Maps:
    """Tensor maps of a launch, and the memory that they describe."""

    memory: GlobalMemory = field(default_factory=GlobalMemory)
    rows: list[list[int]] = field(default_factory=list)
    zeros: Any = field(default_factory=lambda: np.zeros(512, np.uint8))

    def place(self, array: ArrayArg) -> ArrayArg:
        """The array as the machine's program sees it."""
        return replace(array, pointer=self.memory.address_of(array.pointer))

    def encode(self, array: ArrayArg, spec: TensorMapSpec) -> bytes:
        """128 bytes that name a row of the machine's table of tensor maps."""
        extents, strides = geometry(array)
        address = array.pointer
        if array.is_empty:  # a map of one zero, as for the driver
            address = self.memory.add("zeros", self.zeros.ctypes.data, 256, owner=self.zeros)
            extents, strides = (1,) * array.rank, (16,) * (array.rank - 1)
        size = array.dtype.itemsize
        row = [0] * MAP_COLUMNS
        row[MAP_ADDRESS], row[MAP_RANK], row[MAP_BYTES] = address, array.rank, size
        row[MAP_SWIZZLE] = spec.swizzle
        row[MAP_TYPE] = TYPE_CODES[_REDUCED.get(spec.dtype.name, f"u{8 * min(size, 8)}")]
        row[MAP_EXTENT : MAP_EXTENT + array.rank] = extents
        row[MAP_STRIDE : MAP_STRIDE + array.rank] = (size, *strides)
        steps = (spec.element_strides or (1,) * array.rank)[::-1]
        row[MAP_STEP : MAP_STEP + array.rank] = steps
        box = spec.box[::-1]
        row[MAP_BOX : MAP_BOX + len(box)] = box
        if spec.im2col is not None:
            row[MAP_IM2COL] = 1
            corners = (spec.im2col.lower, spec.im2col.upper) if not array.is_empty else ((), ())
            for at, bounds in zip((MAP_LOWER, MAP_UPPER), corners, strict=True):
                row[at : at + len(bounds)] = bounds[::-1]
        self.rows.append(row)
        return struct.pack("<Qq", MAGIC, len(self.rows) - 1).ljust(TENSOR_MAP_BYTES, b"\0")
