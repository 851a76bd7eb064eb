"""Kernels for the emulator's tests, built by hand with lines of an imagined user's file.

``copy`` moves rows through a ring; ``gemm`` is the matrix multiplication of the lowering's tests.
Both are brought down by the real passes. Tests that want a fault edit the protocol-level result
with ``ops_of`` and ``remove``.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from tests.codegen.ir_samples import GemmShape, Sketch, lowered
from tests.codegen.ir_samples import gemm as tile_level_gemm
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, tile
from tiledsl.codegen.ir.types import RingType, TileArray
from tiledsl.errors import Loc

_OpT = TypeVar("_OpT", bound=Op)
Array = np.ndarray[Any, Any]

FILE = "/home/user/copy.py"
SOURCE = """\
@td.kernel(grid=1)
def copy(x: td.Tensor, y: td.Tensor, loads: td.int32, stores: td.int32):
    pipeline = td.InputTilePipeline(payload, num_group_stages=2)
    with td.role("load", warps=1):
        for i in range(loads):
            with producer.acquire() as stage:
                td.tma_load(x, (8 * i, 0), stage.tile(), stage.barrier())
    with td.role("store", warps=1):
        for i in range(stores):
            with consumer.acquire() as stage:
                td.tma_store(stage.tile(), y, (8 * i, 0))
"""


def loc(text: str, *, source: str = SOURCE, file: str = FILE, function: str = "copy") -> Loc:
    """Where ``text`` stands in a user's file, which is registered so that messages show it."""
    lines = source.splitlines(keepends=True)
    linecache.cache[file] = (len(source), None, lines, file)
    number, line = next((n, line) for n, line in enumerate(lines, 1) if text in line)
    first = line.index(text)
    return Loc(file, number, first, number, first + len(text), function)


class Program(Sketch):
    """A sketch whose operations stand at the line that ``at`` chose last."""

    where: Loc | None = None

    def at(self, text: str) -> None:
        self.where = loc(text)

    def add(self, op: Op, name: str = "") -> Any:  # type: ignore[override]
        super().add(op, name)
        return op.at(self.where) if self.where is not None else op


def copy(stages: int = 2, columns: int = 64, dtype: dtypes.DType = dtypes.float32) -> Kernel:
    """y[8 i : 8 i + 8] = x[8 i : 8 i + 8] for i in range, through a ring, by two roles.

    ``loads`` and ``stores`` are the trip counts of the two roles, scalars of the kernel.
    """
    s = Program("copy")
    x, y = s.tensor("x", dtype, 2), s.tensor("y", dtype, 2)
    loads, stores = s.scalar("loads", dtypes.int32), s.scalar("stores", dtypes.int32)
    s.at("td.InputTilePipeline(payload, num_group_stages=2)")
    array = TileArray("tile", (8, columns), dtype, 0)
    ring = s.value(tile.PipelineCreate("pipeline", RingType(stages, 1, (array,))), "pipeline")

    def load(i: Value) -> Sequence[Value]:
        s.at("producer.acquire()")
        stage = s.value(tile.AcquireProducer(ring), "stage")
        s.at("td.tma_load(x, (8 * i, 0), stage.tile(), stage.barrier())")
        into = s.value(tile.PayloadTile(ring, s.value(tile.StageIndex(stage)), 0))
        at = (s.op("mul", i, 8), s.const(0))
        s.add(tile.TmaLoad(x, at, into, s.value(tile.StageBarrier(stage))))
        s.at("producer.acquire()")
        s.add(tile.Release(stage))
        return ()

    def store(i: Value) -> Sequence[Value]:
        s.at("consumer.acquire()")
        stage = s.value(tile.AcquireConsumer(ring), "stage")
        s.at("td.tma_store(stage.tile(), y, (8 * i, 0))")
        source = s.value(tile.PayloadTile(ring, s.value(tile.StageIndex(stage)), 0))
        s.add(tile.TmaStore(source, y, (s.op("mul", i, 8), s.const(0))))
        s.at("consumer.acquire()")
        s.add(tile.Release(stage))
        return ()

    for name, count, body in (("load", loads, load), ("store", stores, store)):
        with s.role(name, 1):
            s.at(f"for i in range({name}s)")
            s.loop(0, count, 1, body)
    return lowered(s.kernel())


def gemm(**fields: Any) -> Kernel:
    """c[M, N] = a[M, K] @ b[N, K].T at protocol level; ``fields`` are those of ``GemmShape``."""
    return lowered(tile_level_gemm(GemmShape(**fields)))


def ops_of(kernel: Kernel, kind: type[_OpT], role: str = "") -> list[_OpT]:
    """Every operation of a kind, perhaps only those of one role."""
    bodies = [op.body for op in kernel.body.ops if isinstance(op, control.Role) and op.name == role]
    block = bodies[0] if bodies else kernel.body
    return [op for op in block.walk() if isinstance(op, kind)]


def edit(kernel: Kernel, change: Callable[[Op], list[Op]]) -> None:
    """Replace each operation by what ``change`` gives for it."""

    def visit(block: Block) -> None:
        block.ops = [new for op in block.ops for new in change(op)]
        for op in block.ops:
            for nested in op.blocks:
                visit(nested)

    visit(kernel.body)


def remove(kernel: Kernel, *ops: Op) -> None:
    """Take operations out, as a faulty pass would forget them."""
    edit(kernel, lambda op: [] if any(op is one for one in ops) else [op])


# ----------------------------------------------------------------------------- numbers

NUMPY = {
    dtypes.bfloat16: np.dtype(ml_dtypes.bfloat16),
    dtypes.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    dtypes.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    dtypes.bool_: np.dtype(np.bool_),
}


def numpy_of(dtype: dtypes.DType) -> np.dtype[Any]:
    return NUMPY.get(dtype) or np.dtype(dtype.name)


def normal(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: dtypes.DType = dtypes.bfloat16
) -> Array:
    return rng.standard_normal(shape, np.float32).astype(numpy_of(dtype))


def poisoned(shape: tuple[int, ...], dtype: dtypes.DType = dtypes.bfloat16) -> Array:
    return np.full(shape, np.nan, numpy_of(dtype))
