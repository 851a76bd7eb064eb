"""M001-M020 of docs/pipeline-family.md: tile payloads. One test per ID, named after it."""

from __future__ import annotations

import numpy as np

import tiledsl as td
from tests.family.kernels import refused
from tests.filecheck import filecheck
from tests.kernels.family.registry import Run

BM, BN, BK = 64, 64, 64


@td.kernel(grid=td.persistent)
def grouped(
    a: td.Tensor, b: td.Tensor, c: td.Tensor, *, stages: td.Constant[int], group: td.Constant[int]
):
    """c = a @ b.T with ``group`` tiles of each operand behind one barrier."""
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages * group
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages, k_group_size=group)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), td.cdiv(b.shape[0], BN))
    steps = td.cdiv(a.shape[1], BK * group)
    with td.role("load", warps=1), pipeline.producer() as producer:
        for m, n in tiles:
            for step in range(steps):
                with producer.acquire() as stage:
                    for k in td.static_range(group):
                        at = (step * group + k) * BK
                        a_tile = stage.payload().get_a_tile(stage.stage(), k)
                        b_tile = stage.payload().get_b_tile(stage.stage(), k)
                        td.tma_load(a, (m * BM, at), a_tile, stage.barrier())
                        td.tma_load(b, (n * BN, at), b_tile, stage.barrier())
    with td.role("mma", warps=4), pipeline.consumer() as consumer:
        for m, n in tiles:
            acc = td.zeros((BM, BN), td.float32)
            for _ in range(steps):
                with consumer.acquire() as stage:
                    for k in td.static_range(group):
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), k)
                        acc = td.mma(a_tile, b_tile.T, acc)
            td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


def test_M005_get_tile_with_k_groups(run: Run) -> None:
    """Tile k of stage s is number s * k_group + k of its array; the last group may be ragged."""
    for stages, group in ((3, 1), (2, 2), (1, 3)):
        for shape in run.shapes(stages, BK * group):
            assert not run.product(grouped, shape, stages=stages, group=group)
    filecheck(
        grouped.variants[-1].protocol_ir,
        """
        CHECK: role "mma"
        CHECK: payload.tile
        """,
    )


def test_M001_barriers_are_values(run: Run) -> None:
    """No pointer to a barrier: it is a value that goes into helpers, loads and waits."""
    n = int(run.rng.integers(1, 4))
    x, y = run.normal((n * 64, 64), "float32"), run.output((n * 64, 64))
    through_barrier_value[1](run.place.put(x), y, n)
    wrong = run.same(y, x, "copied through a raw barrier")
    assert not wrong, wrong
    filecheck(
        through_barrier_value.variants[-1].ptx,
        """
        CHECK: mbarrier.init.shared::cta.b64
        CHECK: cp.async.bulk.tensor
        """,
    )
    refused(lambda: of_a_pointer.compile(td.spec((64, 64), td.float32)), "MbarPtr", "td.mbarrier(")


@td.kernel
def of_a_pointer(x: td.Tensor):
    td.MbarPtr(x)


@td.function
def load_onto(x, at, tile, barrier):
    barrier.arrive_and_expect_bytes(tile.nbytes)
    td.tma_load(x, (at, 0), tile, barrier)


@td.kernel
def through_barrier_value(x: td.Tensor, y: td.Tensor, n: td.int32):
    full, empty = td.mbarrier(), td.mbarrier()
    tile = td.shared((64, 64), x.dtype)
    with td.role("load", warps=1):
        for i in range(n):
            empty.wait((i + 1) % 2)
            load_onto(x, i * 64, tile, full)
    with td.role("use", warps=4):
        for i in range(n):
            full.wait(i % 2)
            td.store(tile.load(), y, (i * 64, 0))
            empty.arrive()


@td.payload
class Pair:
    """A payload of the user's own: its arrays differ in shape, dtype and number of stages."""

    wide: td.TileArray
    narrow: td.TileArray

    def both(self, stage, k):
        return self.wide[stage], self.narrow[stage, k]


@td.kernel
def own_payload(x: td.Tensor, z: td.Tensor, y: td.Tensor, n: td.int32, *, stages: td.Constant[int]):
    """y = x + both halves of z"""
    arrays = Pair(
        wide=td.TileArray(x.dtype, (64, 64), stages),
        narrow=td.TileArray(z.dtype, (64, 32), 2 * stages),
    )
    pipeline = td.InputTilePipeline(arrays, num_group_stages=stages)
    with td.role("load", warps=1):
        for i in range(n):
            with pipeline.acquire_producer() as stage:
                wide, _ = stage.payload().both(stage, 0)
                td.tma_load(x, (i * 64, 0), wide, stage.barrier())
                for k in td.static_range(2):
                    _, narrow = stage.payload().both(stage, k)
                    td.tma_load(z, (i * 64, 32 * k), narrow, stage.barrier())
    with td.role("use", warps=4):
        for i in range(n):
            with pipeline.acquire_consumer() as stage:
                wide, left = stage.payload().both(stage, 0)
                right = stage.payload().narrow[stage, 1]
                td.store(wide.load(), y, (i * 64, 0))
                td.store(left.load().to(td.float32), y, (i * 64, 64))
                td.store(right.load().to(td.float32), y, (i * 64, 96))


def test_M002_a_payload_is_a_decorated_class(run: Run) -> None:
    """It may hold any arrays of tiles; another class is no payload, and the message says how."""
    for stages in (1, 2):
        for n in run.trips(stages):
            rows = max(n, 1) * 64
            x, z = run.normal((rows, 64), "float32"), run.normal((rows, 64), "float16")
            y = run.output((rows, 128))
            own_payload[1](run.place.put(x), run.place.put(z), y, n, stages=stages)
            expected = np.full((rows, 128), np.nan, np.float32)
            expected[: n * 64] = np.concatenate([x, z.astype(np.float32)], 1)[: n * 64]
            wrong = run.same(y, expected, f"{n} of {stages}")
            assert not wrong, wrong
    filecheck(
        own_payload.variants[-1].protocol_ir,
        "CHECK: ring<2 stages x 2, wide: shared<64x64xf32{{.*}}>, narrow: shared<64x32xf16",
    )

    class Plain:
        pass

    @td.kernel
    def of_plain_class(x: td.Tensor):
        td.InputTilePipeline(plain, num_group_stages=1)

    plain = Plain()
    spec = td.spec((64, 64), td.float32)
    refused(lambda: of_plain_class.compile(spec), "payload")
    refused(lambda: of_a_trait.compile(spec), "TilePayload", "@td.payload")


@td.kernel
def of_a_trait(x: td.Tensor):
    td.TilePayload(x)


def test_M003_standard_payload(run: Run) -> None:
    """A and B may differ in dtype and shape; their tiles are swizzled for wgmma and TMA."""
    for shape in run.shapes(2, 64):
        wrong = run.product(unlike, shape)
        assert not wrong, wrong
    filecheck(
        unlike.variants[-1].protocol_ir,
        "CHECK: a: shared<64x64xbf16, swizzle=128>, b: shared<96x64xbf16, swizzle=128>",
    )


@td.kernel(grid=td.persistent)
def unlike(a: td.Tensor, b: td.Tensor, c: td.Tensor):
    payload = td.StandardTilePayload(a.dtype, b.dtype, (64, 64), (96, 64), num_pipeline_stages=2)
    pipeline = td.InputTilePipeline(payload, num_group_stages=2)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], 64), td.cdiv(b.shape[0], 96))
    steps = td.cdiv(a.shape[1], 64)
    with td.role("load", warps=1):
        for m, n in tiles:
            for k in range(steps):
                with pipeline.acquire_producer() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage)
                    td.tma_load(a, (m * 64, k * 64), a_tile, stage.barrier())
                    td.tma_load(b, (n * 96, k * 64), b_tile, stage.barrier())
    with td.role("mma", warps=4):
        for m, n in tiles:
            acc = td.zeros((64, 96), td.float32)
            for _ in range(steps):
                with pipeline.acquire_consumer() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage)
                    acc = td.mma(a_tile, b_tile.T, acc)
            td.tma_store(acc, c, (m * 64, n * 96))


@td.kernel
def made_of(
    x: td.Tensor, *, a: td.Constant[tuple], b: td.Constant[tuple], stages: td.Constant[int]
):
    td.StandardTilePayload(x.dtype, x.dtype, a, b, num_pipeline_stages=stages)


def test_M004_arguments_of_the_standard_payload() -> None:
    """Storage is planned from them; what fits no tile is refused where it stands."""
    spec = td.spec((64, 64), td.float32)
    made_of.compile(spec, a=(64, 64), b=(32, 64), stages=1)
    refused(lambda: made_of.compile(spec, a=(64, 64), b=(32, 64), stages=0), "stages")
    refused(lambda: made_of.compile(spec, a=(64, 0), b=(32, 64), stages=1), "0")
    refused(lambda: made_of.compile(spec, a=(64, "k"), b=(32, 64), stages=1), "k")
    x = td.spec((256, 256), td.bfloat16)
    text = grouped.compile(x, x, x, stages=2, group=2).protocol_ir
    filecheck(text, "CHECK: shared pipeline.a: 32768 bytes at 0, 4 tiles 64x64xbf16")


@td.kernel
def tile_numbers(x: td.Tensor, *, k: td.Constant[int]):
    payload = td.StandardTilePayload(x.dtype, x.dtype, (8, 64), (8, 64), num_pipeline_stages=4)
    pipeline = td.InputTilePipeline(payload, num_group_stages=2, k_group_size=2)
    with td.role("load", warps=1):
        with pipeline.acquire_producer() as stage:
            td.tma_load(x, (0, 0), stage.payload().get_a_tile(stage.stage(), k), stage.barrier())
    with td.role("use", warps=1):
        with pipeline.acquire_consumer() as stage:
            pass


def test_M006_get_a_tile(run: Run) -> None:
    """Tile k of A alone; k must be one of the stage's tiles."""
    _one_side(run, "a")
    spec = td.spec((64, 64), td.bfloat16)
    tile_numbers.compile(spec, k=1)
    refused(lambda: tile_numbers.compile(spec, k=2), "2")
    refused(lambda: tile_numbers.compile(spec, k=-1), "-1")


def test_M007_get_b_tile(run: Run) -> None:
    _one_side(run, "b")


def _one_side(run: Run, side: str) -> None:
    for n in run.trips(2):
        x = run.normal((max(n, 1) * 64, 128), "float32")
        y = run.output((max(n, 1) * 64, 128))
        one_side[1](run.place.put(x), y, n, side=side)
        expected = np.full_like(x, np.nan)
        expected[: n * 64] = x[: n * 64]
        wrong = run.same(y, expected, f"{side}, {n} stages")
        assert not wrong, wrong


@td.kernel
def one_side(x: td.Tensor, y: td.Tensor, n: td.int32, *, side: td.Constant[str]):
    """The two tiles of one operand of each stage, read where they were loaded."""
    payload = td.StandardTilePayload(x.dtype, x.dtype, (64, 64), (64, 64), num_pipeline_stages=4)
    pipeline = td.InputTilePipeline(payload, num_group_stages=2, k_group_size=2)
    with td.role("load", warps=1):
        for i in range(n):
            with pipeline.acquire_producer() as stage:
                for k in td.static_range(2):
                    held = stage.payload()
                    tile = held.get_a_tile(stage, k) if side == "a" else held.get_b_tile(stage, k)
                    td.tma_load(x, (i * 64, 64 * k), tile, stage.barrier())
    with td.role("use", warps=4):
        for i in range(n):
            with pipeline.acquire_consumer() as stage:
                for k in td.static_range(2):
                    held = stage.payload()
                    tile = held.get_a_tile(stage, k) if side == "a" else held.get_b_tile(stage, k)
                    td.store(tile.load(), y, (i * 64, 64 * k))
