"""M137-M145 of docs/pipeline-family.md: named barriers, roles, shared memory. One test per ID."""

from __future__ import annotations

import numpy as np

import tiledsl as td
from tests.family.kernels import compiled, product_by, refused, role_text
from tests.filecheck import filecheck
from tests.kernels.family import barriers, clusters
from tests.kernels.family.registry import Run, problems


def test_M137_named_barriers(run: Run) -> None:
    """Threads of all roles that arrive or wait are counted; each barrier gets an id of its own."""
    found = [p for name in ("named_barriers", "named_barriers_of_three") for p in
             problems("barriers", name, run)]  # fmt: skip
    assert not found, "\n".join(found)
    filecheck(barriers.met.variants[-1].ptx, "CHECK: bar.arrive {{[0-9]+}}, 160;")
    # Four warps, and the one thread that runs "read" with its warp: 160 threads on each.
    lines = [line.split() for line in barriers.met.variants[-1].ptx.splitlines() if "160;" in line]
    assert len({words[1] for words in lines if words[0].startswith("bar")}) == 2


@td.kernel(grid=1)
def who(y: td.Tensor):
    """Each role writes what it is: warps, threads, number of replicas."""
    with td.role("main_load", warps=1) as me:
        y[0, 0] = me.warps
        y[0, 1] = me.threads
        y[0, 2] = me.count
    with td.role("mma", warps=4, replicas=2) as me:
        tile = td.full((64, 8), me.index * 1000 + me.threads + me.warps, td.int32)
        td.store(tile, y, (64 + 64 * me.index, 0))


def test_M138_roles_instead_of_warp_numbers(run: Run) -> None:
    """A role says what its warps do; the compiler places them, warpgroups at multiples of four."""
    y = run.place.put(np.full((192, 8), -1, np.int32))
    who(y)
    got = run.place.get(y)
    assert got[0, :3].tolist() == [1, 32, 1]
    assert (got[64:128] == 132).all() and (got[128:192] == 1132).all()
    filecheck(
        who.variants[-1].protocol_ir,
        "CHECK: role main_load: warp 0\nCHECK: warps 4-7\nCHECK: warps 8-11",
    )
    refused(lambda: compiled(fill=fill_by_warp_number), "warp_id", "hint: write `with td.role(")
    refused(lambda: asked.compile(td.spec((1,), td.int32)), "is_mma", "hint: write a `with td.role")


@td.kernel(grid=1)
def asked(y: td.Tensor):
    with td.role("mma", warps=1) as me:
        if me.is_mma():
            y[0] = 1


@td.function
def fill_by_warp_number(pipeline, a, b, m, n, steps):
    if td.warp_id() == 0:
        pass


@td.kernel(grid=td.persistent, cluster=(2, 1))
def context(y: td.Tensor):
    """What a block knows of itself and of its cluster."""
    with td.role("main", warps=1):
        y[td.block_id(), 0] = td.cluster_rank()
        y[td.block_id(), 1] = td.cluster_size()
        y[td.block_id(), 2] = td.cluster_id(0)
        y[td.block_id(), 3] = td.num_blocks()


def test_M140_what_a_block_knows(run: Run) -> None:
    """Rank, leader, masks: derived where they are needed, and there to be asked for."""
    blocks = 4
    y = run.place.put(np.full((blocks, 4), -1, np.int32))
    context[blocks](y)
    ranks = np.arange(blocks) % 2
    expected = np.stack([ranks, ranks * 0 + 2, ranks, ranks * 0 + blocks], 1).astype(np.int32)
    wrong = run.same(y, expected, "context")
    assert not wrong, wrong
    filecheck(context.variants[-1].ptx, "CHECK: .reqnctapercluster 2\nCHECK: %cluster_ctarank")


def test_M141_counts_and_boxes_are_computed(run: Run) -> None:
    """In a cluster, a consumer frees its slot in every block that writes into it."""
    kernel = clusters.clustered(clusters.multicast_gemm, (2, 2))
    for partitioned in (True, False):
        wrong = run.product(kernel, (130, 136, 200), partitioned=partitioned)
        assert not wrong, wrong
    # Partitioned loads bring half a tile: each of the three blocks that share a tile of a or b
    # writes into a slot. Whole loads come from the first block alone, which all four free.
    for height, arrivals in ((32, 3), (64, 4)):
        texts = [v.protocol_ir for v in kernel.variants if f"load box={height}x64" in v.protocol_ir]
        assert texts
        for text in texts:
            filecheck(text, f"CHECK: barrier pipeline.empty: {arrivals} arrival(s) a phase")


def test_M142_barriers_are_initialised_before_anybody_arrives(run: Run) -> None:
    wrong = run.product(product_by, (70, 72, 136), stages=3)
    assert not wrong, wrong
    ptx = compiled(stages=3).ptx
    last, fence, meet = (
        ptx.rindex("mbarrier.init"),
        ptx.index("fence.mbarrier_init"),
        ptx.index("bar.sync"),
    )
    assert ptx.count("mbarrier.init") == 6 and last < fence < meet < ptx.index(
        "cp.async.bulk.tensor"
    )
    filecheck(role_text(compiled(stages=3), "load"), "CHECK-NOT: init")


@td.kernel(grid=1)
def shared_rows(x: td.Tensor, y: td.Tensor, *, number: td.Constant[int]):
    """Shared tiles outside of any ring: one, or a row of them, read back in reverse."""
    rows = td.shared((64, 32), x.dtype, number=number)
    done = td.mbarrier(1)
    with td.role("write", warps=4):
        for i in range(number):
            rows[i].store(td.load(x, (i * 64, 0), (64, 32)))
        done.arrive()
    with td.role("read", warps=4):
        done.wait(0)
        for i in range(number):
            td.store(rows[number - 1 - i].load(), y, (i * 64, 0))
        assert rows.number == number and rows.shape == (64, 32), "known at compile time"


def _reversed(run: Run) -> None:
    for number in (1, 3):
        x = run.normal((number * 64, 32), "float32")
        y = run.output(x.shape)
        shared_rows(run.place.put(x), y, number=number)
        expected = x.reshape(number, 64, 32)[::-1].reshape(-1, 32)
        wrong = run.same(y, np.ascontiguousarray(expected), f"{number} tiles")
        assert not wrong, wrong


def test_M143_one_kind_of_shared_tile(run: Run) -> None:
    """td.shared: a tile with shape, dtype and bytes; no pointers, no layouts to be written."""
    _reversed(run)
    filecheck(shared_rows.variants[-1].protocol_ir, "CHECK: shared rows: 24576 bytes")
    spec = td.spec((64, 32), td.float32)
    refused(
        lambda: model_array.compile(spec), "SMemTileArray", "hint: write td.TileArray(", "td.shared"
    )
    refused(lambda: model_barrier.compile(spec), "SMemBarrier", "hint: write td.mbarrier(")


@td.kernel(grid=1)
def model_array(x: td.Tensor):
    td.SMemTileArray(x.dtype, 64, 32).stack_allocation()


@td.kernel(grid=1)
def model_barrier(x: td.Tensor):
    td.SMemBarrier().init()


@td.kernel(grid=1)
def indexed(x: td.Tensor, *, at: td.Constant[int]):
    rows = td.shared((64, 32), x.dtype, number=2)
    with td.role("write", warps=4):
        rows[at].store(td.load(x, (0, 0), (64, 32)))


def test_M144_arrays_of_tiles(run: Run) -> None:
    """Indexed by numbers known late or early; one that is known must be in range."""
    _reversed(run)
    spec = td.spec((64, 32), td.float32)
    indexed.compile(spec, at=1)
    refused(lambda: indexed.compile(spec, at=2), "2")


@td.kernel(grid=1)
def barrier_row(y: td.Tensor, n: td.int32, *, number: td.Constant[int]):
    """A row of barriers, each completed once a lap."""
    bars = td.mbarrier(1, number=number)
    with td.role("arrive", warps=1):
        for i in range(n):
            bars[i % number].arrive()
            bars[i % number].wait(i // number)
            y[i] = i // number
        y[n] = bars.number


def test_M145_arrays_of_barriers(run: Run) -> None:
    for n in run.trips(3):
        y = run.place.put(np.full(n + 1, -1, np.int32))
        barrier_row(y, n, number=3)
        assert run.place.get(y).tolist() == [i // 3 for i in range(n)] + [3]
    filecheck(
        barrier_row.variants[-1].protocol_ir, "CHECK: shared bars: 24 bytes at {{.*}}, 3 mbarriers"
    )
