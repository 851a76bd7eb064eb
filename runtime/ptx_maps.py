"""Tensor maps as the PTX machine has them: rows of numbers, named by 128 bytes in a parameter."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tiledsl.codegen.ir.plan import TensorMapSpec
from tiledsl.runtime.arrays import ArrayArg
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
from tiledsl.runtime.ptx_machine.memory import GlobalMemory
from tiledsl.runtime.ptx_machine.opcodes import TYPE_CODES
from tiledsl.runtime.tensormap import TENSOR_MAP_BYTES, geometry

__all__ = ["Maps"]

# What reductions of a tensor map compute with; other types are only moved.
_REDUCED = {
    "int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64", "float16": "f16",
    "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip


@dataclass
class Maps:
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

    def table(self) -> np.ndarray[Any, Any]:
        """int64 [maps, MAP_COLUMNS]."""
        return np.array(self.rows or np.zeros((0, MAP_COLUMNS)), np.int64)
