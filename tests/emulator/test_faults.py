"""What a faulty pass would make is found where it happens, not as a wrong number later."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.emulator.samples import Array, copy, edit, gemm, normal, ops_of, poisoned, remove
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, protocol, tile
from tiledsl.errors import InternalError, InvalidValue, StageError, TileError
from tiledsl.runtime.emulator import emulate

SHAPE = {"bm": 64, "bn": 64, "bk": 64, "warps": 4}


def run(kernel: Kernel, rng: np.random.Generator, seed: int | None = None) -> tuple[Array, Array]:
    """Result and reference of a product with several tiles for the block."""
    a, b = normal(rng, (128, 640)), normal(rng, (128, 640))
    c = poisoned((128, 128))
    emulate(kernel, [a, b, c], grid=(1, 1, 1), seed=seed)
    return c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32).T


def fault(kernel: Kernel, rng: np.random.Generator, kind: type[TileError] = InternalError) -> str:
    with pytest.raises(kind) as caught:
        run(kernel, rng)
    return caught.value.message


def forward(kernel: Kernel, wait: protocol.WgmmaWait) -> None:
    """Take a wait out and let its users read the registers directly."""
    mapping = dict(zip(wait.results, wait.values, strict=True))
    for op in kernel.body.walk():
        op.replace_operands(mapping)
    remove(kernel, wait)


def test_the_last_wait_is_missing(rng: np.random.Generator) -> None:
    kernel = gemm(**SHAPE)
    (last,) = [w for w in ops_of(kernel, protocol.WgmmaWait) if w.values]
    forward(kernel, last)
    assert fault(kernel, rng) == (
        "role 'mma' reads an accumulator that is in flight: expected the result of a wgmma.wait"
    )


def test_the_wait_does_not_give_the_registers_out(rng: np.random.Generator) -> None:
    kernel = gemm(**SHAPE)
    (last,) = [w for w in ops_of(kernel, protocol.WgmmaWait) if w.values]
    edit(kernel, lambda op: [protocol.WgmmaWait((), 0), op] if op is last else [op])
    forward(kernel, last)
    assert fault(kernel, rng) == (
        "role 'mma' reads an accumulator that was retired under another name: expected the result"
        " of a wgmma.wait"
    )


def test_a_wait_that_leaves_one_group_too_many(rng: np.random.Generator) -> None:
    kernel = gemm(**SHAPE)
    (last,) = [w for w in ops_of(kernel, protocol.WgmmaWait) if w.values]
    last.pending = 1
    assert "reads an accumulator that is in flight" in fault(kernel, rng)


def test_a_stage_released_before_its_group_has_run(rng: np.random.Generator) -> None:
    """No wait in the loop: the loader overwrites tiles that groups in flight still read."""
    kernel = gemm(stages=2, **SHAPE)
    remove(kernel, *[w for w in ops_of(kernel, protocol.WgmmaWait) if not w.values])
    got, expected = run(kernel, rng)
    assert not np.allclose(got, expected, rtol=0.02, atol=0.5)


def test_an_accumulator_taken_twice(rng: np.random.Generator) -> None:
    kernel = gemm(**SHAPE)
    (mma,) = ops_of(kernel, protocol.Wgmma)
    again = protocol.Wgmma(mma.a, mma.b, mma.acc)
    edit(kernel, lambda op: [op, again] if op is mma else [op])
    assert fault(kernel, rng) == (
        "an accumulator in flight is taken by a second group: expected a copy made after a"
        " wgmma.wait"
    )


def test_an_arrival_while_bytes_are_missing(rng: np.random.Generator) -> None:
    kernel = copy()
    (arrive,) = ops_of(kernel, protocol.MbarrierArriveExpectTx)
    twice = protocol.MbarrierArriveExpectTx(arrive.barrier, 0).at(arrive.loc)
    edit(kernel, lambda op: [op, twice] if op is arrive else [op])
    x = normal(rng, (8, 64), dtypes.float32)
    with pytest.raises(StageError) as caught:
        emulate(kernel, [x, x.copy(), 1, 1], grid=(1, 1, 1))
    assert caught.value.message == (
        "role 'load' arrives on pipeline.full[0] once too often in phase 0: expected 1 arrival(s),"
        " which came from role 'load'; 2048 bytes are still missing"
    )
    assert caught.value.loc is not None and caught.value.loc.line == 6


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (protocol.FenceProxyAsync, "written"),
        (protocol.StagingWrite, "poison"),
    ],
)
def test_a_store_of_what_tma_does_not_see(
    rng: np.random.Generator, kind: type[Op], state: str
) -> None:
    kernel = gemm(**SHAPE)
    remove(kernel, *ops_of(kernel, kind))
    assert fault(kernel, rng).startswith(
        f"role 'mma' stores box 0 of mma.staging, whose contents are {state}: expected a write, a"
        " proxy fence and a meeting of the part's threads before"
    )


def test_a_store_before_the_threads_met(rng: np.random.Generator) -> None:
    kernel = gemm(**SHAPE)
    syncs = []

    def behind_fence(op: Op) -> list[Op]:
        last = previous[0]
        previous[0] = op
        if isinstance(op, protocol.PartSync) and isinstance(last, protocol.FenceProxyAsync):
            syncs.append(op)
            return []
        return [op]

    previous: list[Op | None] = [None]
    edit(kernel, behind_fence)
    assert syncs
    assert "whose contents are fenced" in fault(kernel, rng)


def test_a_buffer_written_while_tma_reads_it(rng: np.random.Generator) -> None:
    kernel = gemm(**SHAPE)
    (end,) = ops_of(kernel, protocol.BulkWait)[-1:]
    waits = [w for w in ops_of(kernel, protocol.BulkWait) if w is not end]
    assert waits
    remove(kernel, *waits)
    assert fault(kernel, rng) == (
        "role 'mma' writes box 0 of mma.staging while a TMA store may still read it: expected a"
        " bulk.wait and a meeting of the part's threads before"
    )


def test_a_role_that_ends_before_its_stores_have_read(rng: np.random.Generator) -> None:
    kernel = gemm(**SHAPE)
    remove(kernel, ops_of(kernel, protocol.BulkWait)[-1])
    assert fault(kernel, rng) == (
        "role 'mma' ends while 1 TMA store(s) may still read shared memory: expected a bulk.wait"
        " before"
    )


def test_a_store_that_was_never_committed(rng: np.random.Generator) -> None:
    kernel = copy()
    remove(kernel, *ops_of(kernel, protocol.BulkCommit))
    x = normal(rng, (8, 64), dtypes.float32)
    with pytest.raises(InternalError, match="ends while 1 TMA store"):
        emulate(kernel, [x, x.copy(), 1, 1], grid=(1, 1, 1))


def test_a_tile_index_outside_of_the_ring(rng: np.random.Generator) -> None:
    kernel = copy(stages=2)
    payload = ops_of(kernel, tile.PayloadTile)[0]
    shifted = arith.Binary("add", payload.index, payload.index)  # slot 1 becomes tile 2
    edit(kernel, lambda op: [shifted, op] if op is payload else [op])
    payload.index = shifted.result
    x = normal(rng, (80, 64), dtypes.float32)
    with pytest.raises(InvalidValue) as caught:
        emulate(kernel, [x, x.copy(), 2, 2], grid=(1, 1, 1))
    assert caught.value.message == "tile 2 of the payload of pipeline 'pipeline': expected 0 to 1"


def test_overlapping_plans_are_refused(rng: np.random.Generator) -> None:
    kernel = copy()
    assert kernel.plan is not None
    first, second, *_ = kernel.plan.shared
    kernel.plan.shared[1] = dataclasses.replace(second, offset=first.nbytes - 16)
    x = normal(rng, (8, 64), dtypes.float32)
    with pytest.raises(InternalError, match=f"{second.name} overlaps that of {first.name}"):
        emulate(kernel, [x, x.copy(), 1, 1], grid=(1, 1, 1))


def test_memory_is_poison_until_written(rng: np.random.Generator) -> None:
    """A stage that is stored without having been loaded is full of NaN, in every block."""
    kernel = copy()
    remove(kernel, *ops_of(kernel, tile.TmaLoad))
    (arrive,) = ops_of(kernel, protocol.MbarrierArriveExpectTx)
    arrive.nbytes = 0
    x = normal(rng, (8, 64), dtypes.float32)
    y = np.zeros_like(x)
    emulate(kernel, [x, y, 1, 1], grid=(2, 1, 1))
    assert np.isnan(y).all()
