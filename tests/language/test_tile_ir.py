"""The tile IR of what users write: what is made, its names, and the attributes of objects."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tiledsl as td
from tests.golden import Golden
from tests.language.traced import trace
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Effect
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, control, tile
from tiledsl.codegen.ir.types import SharedTile, Tile
from tiledsl.frontend.build import TensorSpec

BF16 = TensorSpec(td.bfloat16, 2)
TILES = {"BM": 128, "BN": 256, "BK": 64, "stages": 4}


def ops_of(kernel: Kernel, kind: type[Any]) -> list[Any]:
    return [op for op in kernel.body.walk() if isinstance(op, kind)]


def gemm(a, b, c, *, BM, BN, BK, stages):
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages, k_group_size=1)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8)

    with td.role("load", warps=1):
        with pipeline.producer() as producer:
            for m, n in tiles:
                for k in range(td.cdiv(K, BK)):
                    with producer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                        td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())

    with td.role("mma", warps=8):
        with pipeline.consumer() as consumer:
            for m, n in tiles:
                acc = td.zeros((BM, BN), td.float32)
                for k in range(td.cdiv(K, BK)):
                    with consumer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        acc = td.mma(a_tile, b_tile.T, acc)
                td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@td.function
def load_tiles(a, b, row, column, k, payload, slot, barrier):
    a_tile, b_tile = payload.get_tile(slot, 0)
    td.tma_load(a, (row, k), a_tile, barrier)
    td.tma_load(b, (column, k), b_tile, barrier)


def gemm_flat(a, b, c, *, BM, BN, BK, stages):
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages, k_group_size=1)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8)

    with td.role("load", warps=1):
        producer = pipeline.producer()
        for m, n in tiles:
            for k in range(td.cdiv(K, BK)):
                stage = producer.acquire()
                load_tiles(
                    a, b, m * BM, n * BN, k * BK, stage.payload(), stage.stage(), stage.barrier()
                )
                stage.release()

    with td.role("mma", warps=8):
        consumer = pipeline.consumer()
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for k in range(td.cdiv(K, BK)):
                stage = consumer.acquire()
                a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                acc = td.mma(a_tile, b_tile.T, acc)
                stage.release()
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


@pytest.mark.parametrize("function", [gemm, gemm_flat], ids=["with", "flat"])
def test_gemm(function: Any, golden: Golden) -> None:
    golden(str(trace(function, a=BF16, b=BF16, c=BF16, **TILES)), ".ir")


def test_both_styles_are_the_same_program() -> None:
    """But for index arithmetic, and where the helper's arguments are evaluated."""

    def effects(function: Any) -> list[str]:
        kernel = trace(function, a=BF16, b=BF16, c=BF16, **TILES)
        return [op.opcode for op in kernel.body.walk() if op.effect is not Effect.PURE]

    assert effects(gemm) == effects(gemm_flat)


# --------------------------------------------------------------------------------- pipelines


def test_pipeline_names_are_unique() -> None:
    def kernel():
        payload = td.StandardTilePayload(
            td.float16, td.float16, (64, 64), (8, 64), num_pipeline_stages=2
        )
        first = td.InputTilePipeline(payload, 2)
        pair = [td.InputTilePipeline(payload, 2), td.InputTilePipeline(payload, 2)]
        first_again, first = first, td.InputTilePipeline(payload, 2)

    names = [op.name for op in ops_of(trace(kernel), tile.PipelineCreate)]
    assert names == ["first", "pipeline", "pipeline_2", "first_2"]


def test_payload_of_a_k_group() -> None:
    """Tile k of slot s is number s * k_group + k; swizzles follow from the rows."""

    def kernel(out, k):
        payload = td.StandardTilePayload(
            td.float8_e4m3fn, td.float16, (64, 32), (8, 32), num_pipeline_stages=6
        )
        pipe = td.InputTilePipeline(payload, num_group_stages=2, k_group_size=3)
        out[0] = pipe.num_group_stages + pipe.k_group_size
        with pipe.producer().acquire() as stage:
            a, b = stage.payload().get_tile(stage.stage(), 2)
            a = stage.payload().get_a_tile(stage.stage(), k)
            b = stage.payload().get_b_tile(stage.stage())
        with pipe.consumer().acquire() as stage:
            stage.barrier()
            stage.mbar()
        pipe.producer().drain()

    traced = trace(kernel, out=TensorSpec(td.int32, 1), k=td.int32)
    (create,) = ops_of(traced, tile.PipelineCreate)
    assert [(a.name, a.shape, a.dtype, a.swizzle) for a in create.ring.arrays] == [
        ("a", (64, 32), td.float8_e4m3fn, 32),
        ("b", (8, 32), td.float16, 64),
    ]
    assert (create.ring.stages, create.ring.k_group) == (2, 3)
    (store,) = ops_of(traced, tile.TensorStore)
    assert store.value.owner.value == 5
    assert [op.array for op in ops_of(traced, tile.PayloadTile)] == [0, 1, 0, 1]
    sums = [op.index.owner for op in ops_of(traced, tile.PayloadTile)]
    assert [s.kind for s in sums[:3]] == ["add"] * 3 and sums[3].kind == "mul"
    assert len(ops_of(traced, tile.StageBarrier)) == 2
    assert len(ops_of(traced, tile.Release)) == 2
    assert len(ops_of(traced, tile.Drain)) == 1


def test_leaving_a_with_block_releases_on_every_path() -> None:
    def kernel(n, limit):
        payload = td.StandardTilePayload(
            td.int8, td.int8, (64, 64), (64, 64), num_pipeline_stages=2
        )
        pipe = td.InputTilePipeline(payload, 2)
        with td.role("load", warps=1):
            for i in range(n):
                with pipe.producer().acquire() as stage:
                    if i == limit:
                        break
                    if i > 100:
                        continue
                    if i > 50:
                        return

    traced = trace(kernel, n=td.int32, limit=td.int32)
    assert len(ops_of(traced, tile.Release)) == 4


# ------------------------------------------------------------------------------------- tiles


def test_attributes_known_at_compile_time() -> None:
    shape = (64 * random.randint(1, 4), 8 * random.randint(1, 32))

    def kernel(out, x, x3, *, shape):
        assert (x.dtype, x.rank, x.ndim, x3.rank, len(x3.shape)) == (td.bfloat16, 2, 2, 3, 3)
        t = td.zeros(shape)
        assert (t.shape, t.dtype) == (shape, td.float32)
        u = t.to(td.float16)
        assert (u.shape, u.dtype) == (shape, td.float16)
        assert td.full(shape, 1).dtype == td.int32
        assert td.full(shape, 1.0).dtype == td.float32
        assert td.full(shape, 1, td.int8).dtype == td.int8
        assert td.full(shape, out[0]).dtype == td.int64
        assert td.full(shape, 1 << 40).dtype == td.int64
        assert td.full(shape, True).dtype == td.bool_
        assert td.bfloat16(t).dtype == td.bfloat16
        assert out[0].dtype == td.int64
        payload = td.StandardTilePayload(
            td.bfloat16, td.bfloat16, shape, (64, 64), num_pipeline_stages=1
        )
        stage = td.InputTilePipeline(payload, 1).consumer().acquire()
        s, _ = stage.payload().get_tile(stage.stage())
        assert (s.shape, s.dtype, s.nbytes) == (shape, td.bfloat16, 2 * shape[0] * shape[1])
        assert s.T.shape == shape[::-1]
        assert s.T.T.shape == shape

    out, x3 = TensorSpec(td.int64, 1), TensorSpec(td.float32, 3)
    traced = trace(kernel, out=out, x=BF16, x3=x3, shape=shape)
    (shared,) = {op.result.type for op in ops_of(traced, tile.PayloadTile) if op.array == 0}
    assert isinstance(shared, SharedTile) and not shared.transposed
    assert all(op.tile.type == shared for op in ops_of(traced, tile.SharedTranspose)), ".T.T undoes"


def test_conversions_that_change_nothing_are_left_out() -> None:
    def kernel(x, i):
        t = td.zeros((64, 64)).to(td.float32)
        t = td.float32(t)
        i.to(td.int32)
        td.int32(i)

    traced = trace(kernel, x=BF16, i=td.int32)
    assert not ops_of(traced, arith.Cast)


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL_DTYPES if d.bits > 8 or d.is_integer])
def test_numbers_adapt_to_the_tile(dtype: td.DType) -> None:
    """The tile's dtype stays, on either side, for literals and run-time numbers alike."""

    def kernel(i):
        t = td.full((64, 64), 3, dtype)
        u = t + 1
        u = 2 - t
        u = t * i.to(dtype)
        u = td.maximum(t, 0)
        u = td.minimum(1, t)
        u = -t
        u = abs(t)
        assert u.dtype == dtype
        v = t < 4
        v = 4 <= t
        assert v.dtype == td.bool_ and v.shape == t.shape
        v = ~t if dtype.is_integer else t / 2

    traced = trace(kernel, i=td.int32)
    kinds = [(op.kind, op.lhs.type, op.rhs.type) for op in ops_of(traced, arith.Binary)]
    wanted = Tile((64, 64), dtype)
    assert all(left == right == wanted for _, left, right in kinds)
    assert [kind for kind, _, _ in kinds][:5] == ["add", "sub", "mul", "max", "min"]


def test_loads_and_stores_of_every_rank() -> None:
    """A tile of lower rank takes extent 1 in the leading dimensions of the tensor."""

    def kernel(x, i, j, *, rank):
        shape = (2, 1, 1, 64, 32)[-rank:]
        payload = td.StandardTilePayload(x.dtype, x.dtype, shape, (8,), num_pipeline_stages=1)
        pipe = td.InputTilePipeline(payload, 1)
        at = (i, j, 0, i + j, 4)[-rank:]
        with pipe.producer().acquire() as stage:
            tile, row = stage.payload().get_tile(stage.stage())
            td.tma_load(x, at, tile, stage.barrier())
            td.tma_load(x, at, row, stage.barrier())
        with pipe.consumer().acquire() as stage:
            tile, row = stage.payload().get_tile(stage.stage())
            td.tma_store(tile, x, at)
            td.tma_store(row, x, at)

    for rank in range(1, 6):
        traced = trace(kernel, x=TensorSpec(td.float32, rank), i=td.int64, j=td.uint8, rank=rank)
        for op in (*ops_of(traced, tile.TmaLoad), *ops_of(traced, tile.TmaStore)):
            assert [coord.type.dtype for coord in op.coords] == [td.int32] * rank


def test_roles_know_their_warps() -> None:
    def kernel(*, name):
        with td.role(name, warps=1):
            pass
        with td.role("b" + name, warps=32):
            pass

    traced = trace(kernel, name="load")
    assert [(op.name, op.warps) for op in ops_of(traced, control.Role)] == [
        ("load", 1),
        ("bload", 32),
    ]
