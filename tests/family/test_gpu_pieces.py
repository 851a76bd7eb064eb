"""M218-M231 of docs/pipeline-family.md: what lies underneath. One test per ID."""

from __future__ import annotations

import numpy as np

import tiledsl as td
from tests.family.kernels import check_product, compiled, product_by, refused, role_text
from tests.filecheck import filecheck
from tests.kernels.family import barriers, clusters
from tests.kernels.family.registry import Run, problems


@td.kernel(grid=1)
def raw(x: td.Tensor, y: td.Tensor, n: td.int32):
    """Arrive, expect bytes, wait and try_wait on mbarriers of the user's own."""
    full, empty = td.mbarrier(1), td.mbarrier(1)
    tile = td.shared((64, 64), x.dtype)
    with td.role("load", warps=1):
        for i in range(n):
            empty.wait((i + 1) % 2)
            full.arrive_and_expect_bytes(tile.nbytes)
            td.tma_load(x, (i * 64, 0), tile, full)
    with td.role("use", warps=4):
        for i in range(n):
            while not full.try_wait(i % 2):
                pass
            value = tile.load()
            empty.arrive()
            td.store(value, y, (i * 64, 0))


def test_M218_mbarriers(run: Run) -> None:
    for n in run.trips(1):
        x = run.normal((max(n, 1) * 64, 64), "float32")
        y = run.output(x.shape)
        raw(run.place.put(x), y, n)
        expected = np.full_like(x, np.nan)
        expected[: n * 64] = x[: n * 64]
        wrong = run.same(y, expected, f"{n} tiles")
        assert not wrong, wrong
    found = problems("clusters", "batons", run)  # arrivals on the barriers of other blocks
    assert not found, "\n".join(found)
    filecheck(raw.variants[-1].ptx, "CHECK: mbarrier.arrive.expect_tx{{.*}}, 16384;")
    remote = clusters.clustered(clusters.around, (2, 1)).variants[-1].ptx
    filecheck(remote, "CHECK: mapa.shared::cluster\nCHECK: mbarrier.arrive.{{.*}}shared::cluster")


def test_M219_slot_and_phase(run: Run) -> None:
    """Two variables of the role: the slot goes round, the parity flips behind the last one."""
    check_product(run, stages=(1, 2, 3))
    filecheck(
        role_text(compiled(stages=3), "load"),
        """
        CHECK: add %[[SLOT:.*]], 1 : i32
        CHECK: eq %{{.*}}, 3 : i32
        CHECK: xor %[[PARITY:.*]], 1 : i32
        CHECK: local.set %pipeline.producer.slot
        CHECK: local.set %pipeline.producer.parity
        """,
    )


def test_M220_all_that_tma_does(run: Run) -> None:
    """Loads of ranks 1 to 5, multicast whole and in parts, stores, reductions, prefetches."""
    for subject, name in (
        ("copies", "ranks"),
        ("clusters", "shared_tiles"),
        ("stores", "combined"),
    ):
        found = problems(subject, name, run)
        assert not found, "\n".join(found)
    ptx = compiled().ptx
    filecheck(ptx, "CHECK: prefetch.tensormap\nCHECK: cp.async.bulk.commit_group")
    from tests.kernels.family import copies

    filecheck(copies.copy_boxes.variants[-1].ptx, "CHECK: cp.async.bulk.prefetch.tensor")


def test_M222_tensor_maps_are_made_at_launch(run: Run) -> None:
    """Of the arrays that are passed: any shape and row pitch, without compiling again."""
    before = len(product_by.variants)
    for m, n, k in ((64, 64, 64), (65, 72, 80), (1, 8, 8)):
        x = run.normal((m, k))
        padded = run.padded(x, k + 24)
        b, c = run.normal((n, k)), run.output((m, n))
        product_by(padded, run.place.put(b), c, stages=5)
        from tests.kernels.oracle import reference

        wrong = run.check(c, reference(x, b, "float32"), f"{m}x{n}x{k}")
        assert not wrong, wrong
    assert len(product_by.variants) - before <= 1


def test_M224_tensors_and_tiles(run: Run) -> None:
    """Elements, boxes of any alignment, register tiles: load, compute, store."""
    for name in ("by_threads", "shared_tiles"):
        found = problems("stores", name, run)
        assert not found, "\n".join(found)

    @td.kernel(grid=1)
    def elements(x: td.Tensor, y: td.Tensor):
        with td.role("main", warps=1):
            for i in range(x.shape[0]):
                for j in range(x.shape[1]):
                    y[j, i] = x[i, j]

    x, y = run.normal((3, 5), "float32"), run.output((5, 3))
    elements(run.place.put(x), y)
    wrong = run.same(y, np.ascontiguousarray(x.T), "transposed")
    assert not wrong, wrong


def test_M225_swizzles(run: Run) -> None:
    for name in ("swizzles", "swizzled_registers"):
        found = problems("copies", name, run)
        assert not found, "\n".join(found)


def test_M226_wgmma(run: Run) -> None:
    """K-major operands, and their fences, commits and waits, placed by the compiler."""
    for dtypes in (("bfloat16", "float32"), ("float16", "float16")):
        wrong = run.product(product_by, (130, 72, 200), dtypes=dtypes)
        assert not wrong, wrong
    filecheck(
        compiled().ptx,
        """
        CHECK: wgmma.fence.sync.aligned
        CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
        CHECK: wgmma.commit_group.sync.aligned
        CHECK: wgmma.wait_group.sync.aligned
        """,
    )


@td.kernel(cluster=(2, 2))
def ranks(y: td.Tensor):
    td.cluster_sync()
    with td.role("main", warps=1):
        at = td.block_id(0) + td.num_blocks(0) * td.block_id(1)
        y[at, 0] = td.cluster_rank()
        y[at, 1] = td.cluster_id(0)
        y[at, 2] = td.cluster_id(1)
        y[at, 3] = td.cluster_shape(0) * td.cluster_shape(1)


def test_M227_clusters(run: Run) -> None:
    """Rank and coordinates; blocks of a cluster begin and end together."""
    y = run.place.put(np.full((8, 4), -1, np.int32))
    ranks[4, 2](y)
    got = run.place.get(y)
    for at in range(8):
        i, j = at % 4 % 2, at // 4 % 2
        assert got[at].tolist() == [i + 2 * j, i, j, 4]
    filecheck(ranks.variants[-1].ptx, "CHECK: barrier.cluster.arrive\nCHECK: barrier.cluster.wait")
    refused(lambda: ranks[3, 2](y), "cluster")


def test_M228_barriers_of_threads(run: Run) -> None:
    for name in ("named_barriers", "named_barriers_of_three", "mbarriers_in_rows"):
        found = problems("barriers", name, run)
        assert not found, "\n".join(found)
    filecheck(barriers.met.variants[-1].ptx, "CHECK: bar{{.*}}arrive")


def test_M229_fences(run: Run) -> None:
    """Generic writes that a TMA or a wgmma reads get a fence of the async proxy, by the writer."""
    for name in ("relays", "keys_values"):
        found = problems("rings", name, run)
        assert not found, "\n".join(found)
    from tests.kernels.family import rings

    text = rings.relay.variants[-1].protocol_ir
    filecheck(text, "CHECK: shared.store\nCHECK: fence.proxy_async\nCHECK: mbarrier.arrive")
    filecheck(rings.relay.variants[-1].ptx, "CHECK: fence.proxy.async.shared::cta")
    filecheck(compiled().ptx, "CHECK: fence.mbarrier_init.release.cluster")


def test_M231_descriptors_of_the_host(run: Run) -> None:
    """Made of the launch's arrays, checked before the driver sees them."""
    found = problems("copies", "strided", run)
    assert not found, "\n".join(found)
    a, c = run.normal((64, 64)), run.output((64, 64))
    wide = run.padded(a, 65)  # rows 130 bytes apart: TMA wants multiples of 16
    refused(lambda: product_by(wide, wide, c), "16")
