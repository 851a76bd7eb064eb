"""M165-M215 of docs/pipeline-family.md: schedulers, epilogues, configurations. One test per ID."""

from __future__ import annotations

import numpy as np

import tiledsl as td
from tests.family.kernels import compiled, product_by, refused, role_text
from tests.filecheck import filecheck
from tests.kernels import gemm
from tests.kernels.family import epilogues, stores
from tests.kernels.family.registry import Run, problems


@td.kernel(grid=td.persistent)
def visited(seen: td.Tensor, steps: td.Tensor, m_tiles: td.int32, n_tiles: td.int32, *,
            group: td.Constant[int] = 3):  # fmt: skip
    """seen[m, n] = the block that got the tile; steps[block] = how many it got."""
    with td.role("main", warps=1):
        count = 0
        for m, n in td.TileScheduler(m_tiles, n_tiles, group=group):
            seen[m, n] = td.block_id()
            count += 1
        steps[td.block_id()] = count


def _visit(run: Run, m: int, n: int, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    seen = run.place.put(np.full((max(m, 1), max(n, 1)), -1, np.int32))
    steps = run.place.put(np.full(blocks, -1, np.int32))
    visited[blocks](seen, steps, m, n)
    return run.place.get(seen), run.place.get(steps)


def test_M165_work_is_a_pair_of_tile_numbers(run: Run) -> None:
    """Only tiles of the grid come: there is nothing to ask whether it is valid."""
    for m, n in ((1, 1), (3, 5), (7, 2), (0, 4)):
        seen, steps = _visit(run, m, n, 4)
        assert (seen[:m, :n] >= 0).all() if m * n else (seen == -1).all()
        assert steps.sum() == m * n


def test_M167_the_scheduler_is_iterated(run: Run) -> None:
    """Each tile once; blocks that get none make no step."""
    m, n = int(run.rng.integers(1, 9)), int(run.rng.integers(1, 9))
    for blocks in (1, 3, m * n + 2):
        seen, steps = _visit(run, m, n, blocks)
        numbers, counts = np.unique(seen, return_counts=True)
        assert (steps[numbers] == counts).all() and steps.sum() == m * n


def test_M172_the_order_of_tiles(run: Run) -> None:
    """``group`` rows at a time, down each column: neighbours in time share rows and columns."""
    seen, _ = _visit(run, 7, 4, 28)
    order = [
        (m, n) for top in range(0, 7, 3) for n in range(4) for m in range(top, min(top + 3, 7))
    ]
    assert [int(seen[at]) for at in order] == list(range(28))
    refused(lambda: visited.compile(td.spec((1, 1), td.int32), td.spec((1,), td.int32), td.int32,
                                    td.int32, group=0), "group")  # fmt: skip


@td.kernel(grid=td.persistent)
def totals(y: td.Tensor, m_tiles: td.int32, n_tiles: td.int32):
    tiles = td.TileScheduler(m_tiles, n_tiles)
    with td.role("main", warps=1):
        y[td.block_id()] = tiles.num_tiles


def test_M173_persistent_blocks(run: Run) -> None:
    """No work is fetched by hand: a block takes every ``blocks``-th tile until none is left."""
    seen, steps = _visit(run, 5, 5, 4)
    assert steps.tolist() == [7, 6, 6, 6] and seen[0, 0] == 0
    y = run.place.put(np.full(2, -1, np.int32))
    totals[2](y, 6, 7)
    assert run.place.get(y).tolist() == [42, 42]


def test_M191_stores_are_waited_for(run: Run) -> None:
    """Before a staging buffer is written again its store has read it; at the end, all have."""
    wrong = run.product(product_by, (200, 264, 72), stages=2)
    assert not wrong, wrong
    filecheck(
        role_text(compiled(), "mma"),
        """
        CHECK: bulk.wait {pending=1, read=true
        CHECK: staging.write
        CHECK: tma.store_buffer
        CHECK: bulk.commit
        CHECK: bulk.wait {pending=0
        """,
    )


def test_M193_fragments_go_to_shared_memory(run: Run) -> None:
    """16-bit results by stmatrix, others by vector stores; the swizzle avoids bank conflicts."""
    for dtype, instruction in (("bfloat16", "stmatrix.sync.aligned"), ("float32", "st.shared.v2")):
        wrong = run.product(product_by, (70, 72, 64), dtypes=("bfloat16", dtype))
        assert not wrong, wrong
        x, y = (td.spec((256, 256), t) for t in (td.bfloat16, getattr(td, dtype)))
        assert instruction in product_by.compile(x, x, y).ptx


def test_M194_staging_follows_from_the_tile(run: Run) -> None:
    """Its boxes are as wide as the swizzle; each part of a role has two that alternate."""
    problems_found = problems("epilogues", "activations", run)
    assert not problems_found, "\n".join(problems_found)
    filecheck(
        compiled().protocol_ir, "CHECK: staging: 16384 bytes at {{.*}}, 1 x 2 boxes 64x32xf32"
    )


def test_M195_stores_and_reductions(run: Run) -> None:
    """At coordinates of the whole tensor; ``reduce=`` combines with what is there."""
    found = [p for name in ("sums", "combined") for p in problems("stores", name, run)]
    assert not found, "\n".join(found)
    filecheck(stores.split_sum.variants[-1].ptx, "CHECK: cp.reduce.async.bulk.tensor.2d{{.*}}.add")


def test_M196_epilogues_are_functions(run: Run) -> None:
    """Of the accumulators and their coordinates; a residual comes through a ring."""
    found = [p for name in ("activations", "residuals") for p in problems("epilogues", name, run)]
    assert not found, "\n".join(found)
    filecheck(
        epilogues.gemm_residual.variants[0].protocol_ir,
        "CHECK: wgmma.mma\nCHECK: ring.full %residual\nCHECK: shared.load\nCHECK: staging.write",
    )


def test_M210_a_configuration_is_the_constants(run: Run) -> None:
    """Each set of constants is a variant of its own; the same set is not compiled twice."""
    before = len(gemm.gemm_k_group.variants)
    shape = (100, 72, 200)
    tried = ({"BM": 64, "BN": 64, "stages": 2}, {"BM": 128, "BN": 32, "stages": 3})
    for constants in (*tried, tried[0]):
        wrong = run.product(gemm.gemm_k_group, shape, BK=32, k_group=2, warps=4, **constants)
        assert not wrong, wrong
    assert len(gemm.gemm_k_group.variants) - before <= 2


def test_M211_what_a_configuration_costs(run: Run) -> None:
    """Registers, shared memory and threads are known before any launch, and explained."""
    x = td.spec((256, 256), td.bfloat16)
    variant = compiled(stages=3)
    assert variant.resources.threads == 256
    assert variant.resources.shared_bytes > 3 * 2 * 64 * 64 * 2
    text = str(product_by.explain(x, x, x, stages=3))
    for word in ("load", "mma", "pipeline", "full", "empty", "16384"):
        assert word in text
    wrong = run.product(product_by, (64, 64, 64), stages=3)
    assert not wrong, wrong


def test_M214_shared_memory_is_nobodys_struct(run: Run) -> None:
    """Rings, staging and barriers: planned together; the size goes into the launch."""
    for stages in (1, 2, 6):
        wrong = run.product(product_by, (70, 80, 304), stages=stages)
        assert not wrong, wrong
    sizes = [compiled(stages=stages).resources.shared_bytes for stages in (1, 2, 6)]
    per_stage = 2 * 64 * 64 * 2 + 16
    assert [size - sizes[0] for size in sizes] == [0, per_stage, 5 * per_stage]


def test_M215_the_whole_kernel(run: Run) -> None:
    """A Hopper matrix product is written with what the language has, in less than 40 lines."""
    import inspect

    for shape in run.shapes(3, 64):
        wrong = run.product(product_by, shape, dtypes=("float16", "float16"))
        assert not wrong, wrong
    assert len(inspect.getsource(product_by.function).splitlines()) < 40
    filecheck(compiled().ptx, "CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16")
