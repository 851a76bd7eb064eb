"""Kernels built by hand, as the frontend would build them: inputs of the lowering's tests.

``Sketch`` is a builder with the shorthands that make such code short; ``gemm`` is the persistent
matrix multiplication of DESIGN.md at tile level, and ``lowered`` brings a kernel down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Block, Builder, Op, Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.kernel import Kernel, Param
from tiledsl.codegen.ir.layouts import pick_swizzle
from tiledsl.codegen.ir.ops import arith, control, tile
from tiledsl.codegen.ir.types import RingType, Scalar, TensorType, TileArray, Type
from tiledsl.codegen.nvptx.targets import get_target
from tiledsl.codegen.passes import bring_down
from tiledsl.errors import Loc

I32 = dtypes.int32


class Sketch(Builder):
    """Builds a kernel. Each operation gets a line of its own in the imagined file sketch.py."""

    def __init__(self, name: str = "sample") -> None:
        super().__init__(Block(), Loc("/home/user/sketch.py", 1, 0, function=name))
        self.name = name
        self.params: list[Param] = []
        self.line = 1

    def add(self, op: Op, name: str = "") -> Op:  # type: ignore[override]
        self.line += 1
        self.loc = Loc("/home/user/sketch.py", self.line, 4, function=self.name)
        return super().add(op, name)

    def kernel(self, **fields: object) -> Kernel:
        return Kernel(
            self.name, self.params, self.block, loc=Loc("/home/user/sketch.py", 1), **fields
        )  # type: ignore[arg-type]

    # ------------------------------------------------------------------------ values

    def tensor(self, name: str, dtype: DType, rank: int) -> Value:
        return self._param(name, TensorType(dtype, rank))

    def scalar(self, name: str, dtype: DType) -> Value:
        return self._param(name, Scalar(dtype))

    def _param(self, name: str, kind: Type) -> Value:
        value = Value(kind, self.loc, name)
        self.params.append(Param(name, value))
        return value

    def const(self, value: bool | int | float, dtype: DType = I32) -> Value:
        return self.value(arith.Constant(value, dtype))

    def _operand(self, value: Value | int, like: Value) -> Value:
        if isinstance(value, Value):
            return value
        return self.const(value, arith.element_type(like.type))

    def op(self, kind: str, lhs: Value, rhs: Value | int, name: str = "") -> Value:
        return self.value(arith.Binary(kind, lhs, self._operand(rhs, lhs)), name)

    def compare(self, kind: str, lhs: Value, rhs: Value | int) -> Value:
        return self.value(arith.Compare(kind, lhs, self._operand(rhs, lhs)))

    def cdiv(self, value: Value, by: int) -> Value:
        return self.op("floordiv", self.op("add", value, by - 1), by)

    def dim(self, tensor: Value, axis: int) -> Value:
        return self.value(tile.TensorDim(tensor, axis), f"{tensor.name}{axis}")

    # ------------------------------------------------------------------- control flow

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        outer, self.block = self.block, block
        yield block
        self.block = outer

    @contextmanager
    def role(self, name: str, warps: int) -> Iterator[None]:
        block = Block()
        with self.inside(block):
            yield
        self.add(control.Role(name, warps, block))

    def loop(
        self,
        start: Value | int,
        stop: Value,
        step: Value | int,
        body: Callable[..., Sequence[Value]],
        inits: Sequence[Value] = (),
        name: str = "i",
    ) -> tuple[Value, ...]:
        """``for``: ``body(counter, *carried)`` emits it and returns what it carries on."""
        begin, by = self._operand(start, stop), self._operand(step, stop)
        block = Block()
        counter = block.add_arg(stop.type, self.loc, name)
        carried = [block.add_arg(init.type, self.loc, init.name) for init in inits]
        with self.inside(block):
            values = body(counter, *carried)
            self.add(control.Continue(tuple(values)))
        return self.add(control.For(begin, stop, by, tuple(inits), block)).results

    def branch(
        self, condition: Value, then: Callable[[], None], orelse: Callable[[], None] | None = None
    ) -> None:
        """``if`` without values. A side that ends in a terminator of its own keeps it."""
        blocks = []
        for side in (then, orelse):
            with self.inside(Block()) as block:
                if side is not None:
                    side()
                if block.terminator is None:
                    self.add(control.Yield(()))
            blocks.append(block)
        self.add(control.If(condition, (), *blocks))


def lowered(kernel: Kernel) -> Kernel:
    """The kernel at protocol level with its plan (in place)."""
    bring_down(kernel, get_target(kernel.target).limits)
    return kernel


@dataclass(frozen=True)
class GemmShape:
    """The constants of a matrix multiplication.

    ``a_mn`` and ``b_mn`` say that the operand is stored with k as its first dimension.
    """

    bm: int = 128
    bn: int = 256
    bk: int = 64
    stages: int = 4
    warps: int = 8
    dtype: DType = dtypes.bfloat16
    out: DType = dtypes.bfloat16
    a_mn: bool = False
    b_mn: bool = False
    group: int = 8
    swizzle: int | None = None


def gemm(shape: GemmShape = GemmShape(), name: str = "gemm") -> Kernel:
    """Persistent c[M, N] = a[M, K] @ b[N, K].T at tile level, grouped tile order."""
    s = Sketch(name)
    a, b = s.tensor("a", shape.dtype, 2), s.tensor("b", shape.dtype, 2)
    c = s.tensor("c", shape.out, 2)
    depth = s.dim(a, 0 if shape.a_mn else 1)
    rows = s.cdiv(s.dim(c, 0), shape.bm)
    columns = s.cdiv(s.dim(c, 1), shape.bn)
    steps = s.cdiv(depth, shape.bk)
    total = s.op("mul", rows, columns, "total")
    first = s.value(tile.BlockId(0), "block")
    blocks = s.value(tile.BlockCount(0), "blocks")

    def array(name: str, extent: int, mn: bool) -> TileArray:
        form = (shape.bk, extent) if mn else (extent, shape.bk)
        swizzle = pick_swizzle(form[1] * shape.dtype.itemsize)
        return TileArray(name, form, shape.dtype, shape.swizzle or swizzle)

    arrays = (array("a", shape.bm, shape.a_mn), array("b", shape.bn, shape.b_mn))
    ring = s.value(tile.PipelineCreate("pipeline", RingType(shape.stages, 1, arrays)), "pipeline")

    def tile_of(t: Value) -> tuple[Value, Value]:
        """(row, column) of tile t: groups of rows, walked down before right."""
        per_group = s.op("mul", columns, shape.group)
        start = s.op("mul", s.op("floordiv", t, per_group), shape.group)
        within = s.op("mod", t, per_group)
        height = s.op("min", s.op("sub", rows, start), shape.group)
        row = s.op("add", start, s.op("mod", within, height), "m")
        column = s.op("floordiv", within, height, "n")
        return s.op("mul", row, shape.bm, "m0"), s.op("mul", column, shape.bn, "n0")

    with s.role("load", 1):

        def load_tile(t: Value) -> Sequence[Value]:
            m0, n0 = tile_of(t)

            def load(k: Value) -> Sequence[Value]:
                stage = s.value(tile.AcquireProducer(ring), "stage")
                slot, full = s.value(tile.StageIndex(stage)), s.value(tile.StageBarrier(stage))
                k0 = s.op("mul", k, shape.bk, "k0")
                for number, (tensor, mn0, mn) in enumerate(
                    ((a, m0, shape.a_mn), (b, n0, shape.b_mn))
                ):
                    into = s.value(tile.PayloadTile(ring, slot, number))
                    s.add(tile.TmaLoad(tensor, (k0, mn0) if mn else (mn0, k0), into, full))
                s.add(tile.Release(stage))
                return ()

            s.loop(0, steps, 1, load, name="k")
            return ()

        s.loop(first, total, blocks, load_tile, name="t")
        s.add(tile.Drain(ring))

    with s.role("mma", shape.warps):

        def mma_tile(t: Value) -> Sequence[Value]:
            m0, n0 = tile_of(t)
            zero = s.const(0.0, dtypes.float32)
            acc = s.value(arith.Full(zero, (shape.bm, shape.bn)), "acc")

            def step(_: Value, acc: Value) -> Sequence[Value]:
                stage = s.value(tile.AcquireConsumer(ring), "stage")
                slot = s.value(tile.StageIndex(stage))
                left = s.value(tile.PayloadTile(ring, slot, 0))
                right = s.value(tile.PayloadTile(ring, slot, 1))
                if shape.a_mn:
                    left = s.value(tile.SharedTranspose(left))
                if not shape.b_mn:
                    right = s.value(tile.SharedTranspose(right))
                acc = s.value(tile.Mma(left, right, acc), "acc")
                s.add(tile.Release(stage))
                return (acc,)

            (acc,) = s.loop(0, steps, 1, step, [acc], name="k")
            if shape.out != dtypes.float32:
                acc = s.value(arith.Cast(acc, shape.out), "out")
            s.add(tile.TmaStore(acc, c, (m0, n0)))
            return ()

        s.loop(first, total, blocks, mma_tile, name="t")

    return s.kernel(persistent=True)
