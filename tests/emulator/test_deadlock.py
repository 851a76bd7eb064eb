"""A deadlock is a report: roles, stages, phases, what is missing, and the user's lines."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.samples import Array, copy, edit, gemm, normal, ops_of, poisoned, remove
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Block
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, control, protocol, tile
from tiledsl.errors import Deadlock, StageError
from tiledsl.runtime.emulator import EmulationResult, emulate


def run(
    kernel: Kernel, rng: np.random.Generator, loads: int, stores: int, seed: int | None = None
) -> tuple[Array, Array, EmulationResult]:
    x = normal(rng, (80, 64), dtypes.float32)
    y = poisoned(x.shape, dtypes.float32)
    result = emulate(kernel, [x, y, loads, stores], grid=(1, 1, 1), seed=seed)
    return x, y, result


def report(kernel: Kernel, rng: np.random.Generator, loads: int, stores: int) -> str:
    with pytest.raises(Deadlock) as caught:
        run(kernel, rng, loads, stores)
    return str(caught.value)


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_equal_trip_counts_end(
    rng: np.random.Generator, seed: int, stages: int, count: int
) -> None:
    for one in (None, seed, seed + 1, seed + 2):
        x, y, result = run(copy(stages), rng, count, count, one)
        assert (y[: 8 * count] == x[: 8 * count]).all()
        assert np.isnan(y[8 * count :]).all()
        assert result.tma_loads == result.tma_stores == count


def test_the_producer_goes_on_too_long(rng: np.random.Generator) -> None:
    assert report(copy(), rng, 5, 2) == (
        "deadlock in block (0, 0, 0) of kernel 'copy': no role can go on, and no load is in"
        " flight\n"
        "role 'load' waits until stage 0 of pipeline 'pipeline' is empty: 1 of 1 arrivals missing"
        " (phase 1, parity 1)\n"
        '  File "/home/user/copy.py", line 6, in copy\n'
        "                with producer.acquire() as stage:\n"
        "                     ^^^^^^^^^^^^^^^^^^\n"
        "note: expected to arrive here: role 'store', which has ended\n"
        '  File "/home/user/copy.py", line 10, in copy\n'
        "                with consumer.acquire() as stage:\n"
        "                     ^^^^^^^^^^^^^^^^^^\n"
        "note: role 'store' has ended\n"
        "hint: both sides of a pipeline must acquire and release equally many stages"
    )


def test_the_consumer_goes_on_too_long(rng: np.random.Generator) -> None:
    assert report(copy(stages=3), rng, 4, 6) == (
        "deadlock in block (0, 0, 0) of kernel 'copy': no role can go on, and no load is in"
        " flight\n"
        "role 'store' waits until stage 1 of pipeline 'pipeline' is full: 1 of 1 arrivals missing"
        " (phase 1, parity 1)\n"
        '  File "/home/user/copy.py", line 10, in copy\n'
        "                with consumer.acquire() as stage:\n"
        "                     ^^^^^^^^^^^^^^^^^^\n"
        "note: expected to arrive here: role 'load', which has ended\n"
        '  File "/home/user/copy.py", line 6, in copy\n'
        "                with producer.acquire() as stage:\n"
        "                     ^^^^^^^^^^^^^^^^^^\n"
        "note: role 'load' has ended\n"
        "hint: both sides of a pipeline must acquire and release equally many stages"
    )


def test_more_bytes_expected_than_loaded(rng: np.random.Generator) -> None:
    kernel = copy()
    (arrive,) = ops_of(kernel, protocol.MbarrierArriveExpectTx)
    arrive.nbytes += 512
    assert report(kernel, rng, 5, 5) == (
        "deadlock in block (0, 0, 0) of kernel 'copy': no role can go on, and no load is in"
        " flight\n"
        "role 'store' waits until stage 0 of pipeline 'pipeline' is full: 512 bytes missing"
        " (phase 0, parity 0)\n"
        '  File "/home/user/copy.py", line 10, in copy\n'
        "                with consumer.acquire() as stage:\n"
        "                     ^^^^^^^^^^^^^^^^^^\n"
        "note: the bytes for pipeline 'pipeline' come from this load\n"
        '  File "/home/user/copy.py", line 7, in copy\n'
        "                    td.tma_load(x, (8 * i, 0), stage.tile(), stage.barrier())\n"
        "                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "note: role 'load' waits until stage 0 of pipeline 'pipeline' is empty: 1 of 1 arrivals"
        " missing (phase 0, parity 0)\n"
        '  File "/home/user/copy.py", line 6, in copy\n'
        "                with producer.acquire() as stage:\n"
        "                     ^^^^^^^^^^^^^^^^^^\n"
        "note: expected to arrive here: role 'store', which waits itself\n"
        '  File "/home/user/copy.py", line 10, in copy\n'
        "                with consumer.acquire() as stage:\n"
        "                     ^^^^^^^^^^^^^^^^^^\n"
        "hint: the bytes that a stage expects must be those that its loads bring, zeros included"
    )


def test_fewer_bytes_expected_than_loaded(rng: np.random.Generator) -> None:
    kernel = copy()
    (arrive,) = ops_of(kernel, protocol.MbarrierArriveExpectTx)
    arrive.nbytes -= 512
    text = report(kernel, rng, 5, 5)
    assert (
        "role 'store' waits until stage 0 of pipeline 'pipeline' is full: 512 bytes more than"
        " announced (phase 0, parity 0)"
    ) in text


def test_a_missing_release(rng: np.random.Generator) -> None:
    kernel = copy()
    remove(kernel, *ops_of(kernel, protocol.MbarrierArrive, "store"))
    text = report(kernel, rng, 5, 5)
    assert "role 'load' waits until stage 0 of pipeline 'pipeline' is empty: 1 of 1" in text
    assert "note: no role arrives on pipeline.empty\n" in text


def test_a_release_too_many(rng: np.random.Generator) -> None:
    """Each release completes a phase of its own, so the second hides the first."""
    kernel = copy()
    (arrive,) = ops_of(kernel, protocol.MbarrierArrive, "store")
    twice = protocol.MbarrierArrive(arrive.barrier, (), "role").at(arrive.loc)
    edit(kernel, lambda op: [op, twice] if op is arrive else [op])
    text = report(kernel, rng, 5, 5)
    assert "is empty: 1 of 1 arrivals missing (phase 2, parity 0)" in text


def test_a_release_by_one_of_two_parts(rng: np.random.Generator) -> None:
    kernel = gemm(bm=128, bn=64, warps=8, stages=2)
    for arrive in ops_of(kernel, protocol.MbarrierArrive, "mma"):
        arrive.elect = "role"  # part 0 only: two arrivals are expected
    a, b = normal(rng, (128, 512)), normal(rng, (64, 512))
    with pytest.raises(Deadlock) as caught:
        emulate(kernel, [a, b, poisoned((128, 64))], grid=(1, 1, 1))
    text = str(caught.value)
    assert "role 'load' waits until stage 0 of pipeline 'pipeline' is empty: 1 of 2" in text
    assert "note: only role 'mma' part 0 of 2 arrives on pipeline.empty\n" in text
    assert "role 'mma' part 1 of 2 waits until stage 0 of pipeline 'pipeline' is full" in text


def test_both_parts_missing_are_named(rng: np.random.Generator) -> None:
    kernel = gemm(bm=128, bn=64, warps=8, stages=2)
    for loop in ops_of(kernel, control.For, "mma"):
        if loop.body.args[0].name == "k":
            loop.stop = loop.start  # the consumers never look at a stage
    a, b = normal(rng, (128, 512)), normal(rng, (64, 512))
    with pytest.raises(Deadlock, match=r"role 'mma' parts 0 and 1 of 2, which have ended"):
        emulate(kernel, [a, b, poisoned((128, 64))], grid=(1, 1, 1))


def test_a_role_barrier_that_one_part_never_reaches(rng: np.random.Generator) -> None:
    kernel = gemm(bm=128, bn=64, warps=8, stages=2)
    (role,) = [op for op in kernel.body.ops if isinstance(op, control.Role) and op.name == "mma"]
    part = protocol.PartIndex()
    zero = next(op for op in ops_of(kernel, tile.BlockId))
    # Only where the part's number differs from the block's (0): part 1.
    differs = arith.Compare("ne", part.result, zero.result)
    then = Block()
    then.ops = [protocol.RoleSync().at(role.loc), control.Yield(())]
    orelse = Block()
    orelse.ops = [control.Yield(())]
    role.body.ops += [part, differs, control.If(differs.result, (), then, orelse)]
    a, b = normal(rng, (128, 64)), normal(rng, (64, 64))
    with pytest.raises(
        Deadlock, match=r"role 'mma' part 1 of 2 waits for the other parts: 1 of 2 have come"
    ):
        emulate(kernel, [a, b, poisoned((128, 64))], grid=(1, 1, 1))


@pytest.mark.parametrize("counts", [(5, 2), (2, 5)])
def test_every_schedule_finds_it(
    rng: np.random.Generator, seed: int, counts: tuple[int, int]
) -> None:
    kernel = copy()
    for one in range(seed, seed + 20):
        with pytest.raises(Deadlock):
            run(kernel, rng, *counts, one)


def test_a_lead_within_the_ring_is_no_deadlock(rng: np.random.Generator) -> None:
    """Two stages more are loaded than stored: they fit into the ring, but nobody waits for them."""
    for seed in (None, 1, 2, 3):
        with pytest.raises(StageError) as caught:
            run(copy(stages=2), rng, 5, 3, seed)
        assert str(caught.value) == (
            "block (0, 0, 0) of kernel 'copy' ends with 2 stage(s) of pipeline 'pipeline' filled"
            " that were never taken: expected every load to be waited for\n"
            '  File "/home/user/copy.py", line 3, in copy\n'
            "        pipeline = td.InputTilePipeline(payload, num_group_stages=2)\n"
            "                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "note: role 'load' fills stages here\n"
            '  File "/home/user/copy.py", line 6, in copy\n'
            "                with producer.acquire() as stage:\n"
            "                     ^^^^^^^^^^^^^^^^^^\n"
            "note: role 'store' takes stages here\n"
            '  File "/home/user/copy.py", line 10, in copy\n'
            "                with consumer.acquire() as stage:\n"
            "                     ^^^^^^^^^^^^^^^^^^\n"
            "hint: both sides of a pipeline must acquire and release equally many stages"
        )


def test_what_waits_is_printed_in_short(rng: np.random.Generator) -> None:
    """pytest and debuggers print the locals of the frames of a report: in one line, at once."""
    with pytest.raises(Deadlock) as caught:
        run(copy(), rng, 5, 2)
    locals_of = [entry.frame.f_locals for entry in caught.traceback]
    tasks = next(found["tasks"] for found in locals_of if "tasks" in found)
    assert repr(tasks[-1].part) == "<role 'store'>"
    assert repr(tasks[-1].part.block) == "<block (0, 0, 0) of (1, 1, 1)>"
    assert len(repr(tasks[-1])) < 2000
