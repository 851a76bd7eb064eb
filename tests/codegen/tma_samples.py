"""Kernels around bulk tensor copies: of every rank, in several boxes, and by a wgmma role."""

from __future__ import annotations

from collections.abc import Sequence

from tests.codegen.ir_samples import Sketch
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, tile
from tiledsl.codegen.ir.types import RingType, TileArray


def copy_kernel(
    shape: tuple[int, ...], rank: int, dtype: DType, swizzle: int, name: str = "copy"
) -> Kernel:
    """out[to ...] = source[at ...] for one tile, at coordinates at0, at1, ..., to0, to1, ...

    One role loads the tile, another stores it from shared memory as it lies.
    """
    s = Sketch(name)
    source, out = s.tensor("source", dtype, rank), s.tensor("out", dtype, rank)
    at, to = (
        tuple(s.scalar(f"{name}{axis}", dtypes.int32) for axis in range(rank))
        for name in ("at", "to")
    )
    ring_type = RingType(2, 1, (TileArray("x", shape, dtype, swizzle),))
    ring = s.value(tile.PipelineCreate("ring", ring_type), "ring")
    with s.role("load", 1):
        stage = s.value(tile.AcquireProducer(ring))
        slot, full = s.value(tile.StageIndex(stage)), s.value(tile.StageBarrier(stage))
        s.add(tile.TmaLoad(source, at, s.value(tile.PayloadTile(ring, slot, 0)), full))
        s.add(tile.Release(stage))
    with s.role("store", 1):
        stage = s.value(tile.AcquireConsumer(ring))
        slot = s.value(tile.StageIndex(stage))
        s.add(tile.TmaStore(s.value(tile.PayloadTile(ring, slot, 0)), out, to))
        s.add(tile.Release(stage))
    return s.kernel()


def one_role_gemm(
    bm: int = 128, bn: int = 64, bk: int = 64, warps: int = 4, name: str = "one_role"
) -> Kernel:
    """c = a @ b.T (bf16, accumulated in float32), loads and products by the same warps, no roles.

    Each block also writes the largest of its coordinates and the number of its steps to ``info``,
    through scalar stores, and reads them back.
    """
    s = Sketch(name)
    a, b = s.tensor("a", dtypes.bfloat16, 2), s.tensor("b", dtypes.bfloat16, 2)
    c, info = s.tensor("c", dtypes.bfloat16, 2), s.tensor("info", dtypes.int64, 2)
    i, j = s.value(tile.BlockId(0), "i"), s.value(tile.BlockId(1), "j")
    m0, n0 = s.op("mul", i, bm), s.op("mul", j, bn)
    steps = s.cdiv(s.dim(a, 1), bk)
    arrays = (
        TileArray("a", (bm, bk), dtypes.bfloat16, 128),
        TileArray("b", (bn, bk), dtypes.bfloat16, 128),
    )
    ring = s.value(tile.PipelineCreate("ring", RingType(2, 1, arrays)), "ring")
    zero = s.const(0.0, dtypes.float32)
    acc = s.value(arith.Full(zero, (bm, bn)), "acc")

    def step(k: Value, acc: Value) -> Sequence[Value]:
        stage = s.value(tile.AcquireProducer(ring))
        slot, full = s.value(tile.StageIndex(stage)), s.value(tile.StageBarrier(stage))
        k0 = s.op("mul", k, bk)
        s.add(tile.TmaLoad(a, (m0, k0), s.value(tile.PayloadTile(ring, slot, 0)), full))
        s.add(tile.TmaLoad(b, (n0, k0), s.value(tile.PayloadTile(ring, slot, 1)), full))
        s.add(tile.Release(stage))
        stage = s.value(tile.AcquireConsumer(ring))
        slot = s.value(tile.StageIndex(stage))
        left = s.value(tile.PayloadTile(ring, slot, 0))
        right = s.value(tile.SharedTranspose(s.value(tile.PayloadTile(ring, slot, 1))))
        acc = s.value(tile.Mma(left, right, acc), "acc")
        s.add(tile.Release(stage))
        return (acc,)

    (acc,) = s.loop(0, steps, 1, step, [acc], name="k")
    s.add(tile.TmaStore(s.value(arith.Cast(acc, dtypes.bfloat16)), c, (m0, n0)))
    wide = s.value(arith.Cast(s.op("max", m0, n0), dtypes.int64))
    s.add(tile.TensorStore(wide, info, (i, j)))
    return s.kernel(warps=warps)
