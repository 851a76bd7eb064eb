"""Tile-level IR with register tiles, executed with NumPy: one array for each tile.

As ``tests/frontend/evaluate.py``, which it extends, it shares nothing with the emulator. One
program at a time, so no barriers: kernels that load, compute and store.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.frontend.evaluate import Evaluator, numpy_type
from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, memory, sync, tile
from tiledsl.codegen.ir.types import TensorType, Tile

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
}  # fmt: skip


class TileEvaluator(Evaluator):
    """Runs one block; ``replica`` is the number that roles with replicas see."""

    def __init__(
        self,
        kernel: Kernel,
        arguments: Sequence[Any],
        *,
        block: Sequence[int] = (0, 0, 0),
        grid: Sequence[int] = (1, 1, 1),
        rank: int = 0,
        replica: int = 0,
    ) -> None:
        values: dict[Value, Any] = {}
        for param, argument in zip(kernel.params, arguments, strict=True):
            scalar = not isinstance(param.type, TensorType)
            values[param.value] = numpy_type(param.type.dtype)(argument) if scalar else argument
        super().__init__(values, block)
        self.grid, self.rank, self.replica = grid, rank, replica
        with np.errstate(all="ignore"):
            self.run(kernel.body)

    def execute(self, op: Op) -> list[Any]:
        match op:
            case tile.BlockCount(axis=axis):
                return [np.int32(self.grid[axis])]
            case sync.ClusterRank():
                return [np.int32(self.rank)]
            case sync.Replica():
                return [np.int32(self.replica)]
            case arith.Full(shape=shape):
                value = self.values[op.value]
                return [np.full(shape, value, value.dtype)]
            case arith.Constant(value=value, dtype=dtype):
                return [numpy_type(dtype)(value)]
            case arith.Cast(dtype=dtype):
                return [self.values[op.value].astype(numpy_type(dtype))]
            case arith.Unary(kind=kind) if kind in FUNCTIONS:
                value = self.values[op.value]
                return [FUNCTIONS[kind](value).astype(value.dtype)]
            case arith.Select() if isinstance(op.result.type, Tile):
                return [np.where(*self.read([op.condition, op.true, op.false]))]
            case memory.Iota(shape=shape, axis=axis, dtype=dtype):
                return [np.indices(shape)[axis].astype(numpy_type(dtype))]
            case memory.Broadcast(axis=axis, extent=extent):
                value = self.values[op.value]
                shape = (extent, len(value)) if axis == 0 else (len(value), extent)
                return [np.broadcast_to(np.expand_dims(value, axis), shape)]
            case memory.TileLoad(shape=shape):
                found = np.zeros(shape, self.values[op.tensor].dtype)
                for place, index in self._elements(op.tensor, op.coords, shape):
                    found[place] = self.values[op.tensor][index]
                return [found]
            case memory.TileStore():
                given = self.values[op.value]
                for place, index in self._elements(op.tensor, op.coords, given.shape):
                    self.values[op.tensor][index] = given[place]
                return []
        return super().execute(op)

    def _elements(self, tensor: Value, coords: Sequence[Value], shape: tuple[int, ...]) -> Any:
        """Places in a tile, and what they are in the tensor, where they lie inside of it."""
        extents = self.values[tensor].shape
        first = [int(c) for c in self.read(coords)]
        leading = len(extents) - len(shape)
        for place in itertools.product(*map(range, shape)):
            offsets = (0,) * leading + place
            index = tuple(a + b for a, b in zip(first, offsets, strict=True))
            if all(0 <= i < extent for i, extent in zip(index, extents, strict=True)):
                yield place, index
