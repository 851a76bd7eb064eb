"""Loops in lockstep: the tickets that are waited for, and what the PTX does with the word."""

from __future__ import annotations

import itertools
import random
from math import prod

import pytest

from tests.codegen.host_asm import HostThreads
from tests.codegen.sync_samples import Protocol, machine_code, ptx_of
from tests.filecheck import filecheck
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops.lockstep import GridEnter, GridLeave, GridPace
from tiledsl.codegen.ir.plan import RolePlan
from tiledsl.codegen.nvptx.lockstep import PATIENCE
from tiledsl.codegen.sass import SassReport

Grid = tuple[int, int, int]


def pacing(
    tile: int = 0, total: int = 1, step: int = 1, cluster: tuple[int, ...] = (1,), loops: int = 1
) -> Kernel:
    s = Protocol("paced")
    with s.planned_role(RolePlan("load", 1, 0, "thread")):
        for number in range(loops):
            counter = f"load.{number}" if number else "load"
            s.add(GridEnter(counter))
            s.add(GridPace(s.const(tile), s.const(step), s.const(total), counter))
            s.add(GridLeave(counter))
    return s.planned(cluster=cluster)


def numbers(grid: Grid, cluster: tuple[int, ...]) -> tuple[list[int], int]:
    """The first tile of each block, and the step, as the scheduler's docstring says."""
    shape = (*cluster, 1, 1)[:3]
    dealt = [axis for axis in range(3) if axis == 0 or shape[axis] > 1]
    places = [
        tuple(block[axis] // shape[axis] for axis in dealt)
        for block in itertools.product(*(range(extent) for extent in grid))
    ]
    order = sorted(set(places), key=lambda place: place[::-1])
    return [order.index(place) for place in places], len(order)


CLUSTERS = [(1,), (2, 1), (1, 2), (2, 2), (2, 1, 2), (1, 1, 2)]


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda cluster: "x".join(map(str, cluster)))
def test_tickets_of_the_whole_launch(cluster: tuple[int, ...]) -> None:
    """As many as all blocks have taken when each has begun this round or has no tile in it."""
    for _ in range(6):
        shape = (*cluster, 1, 1)[:3]
        grid: Grid = tuple(along * random.randint(1, 3) for along in shape)  # type: ignore[assignment]
        firsts, step = numbers(grid, cluster)
        total = random.choice([random.randint(1, step), random.randint(1, 5 * step)])
        tile = random.randrange(total)
        begun = [min(tile // step + 1, len(range(first, total, step))) for first in firsts]
        run = HostThreads(pacing(tile, total, step, cluster))
        for axis, blocks in zip("yz", grid[1:], strict=True):
            run.kernel._set(f"nctaid.{axis}", blocks)
        ((_, awaited),) = run.run(0).operands("%clock64")
        assert awaited == sum(begun), (grid, total, tile)
        assert prod(grid) == len(firsts)


def test_the_last_tiles_of_a_huge_grid() -> None:
    """The end of a round lies beyond int32, and tickets do too."""
    total, step = 2**31 - 1, 1000
    run = HostThreads(pacing(total - 1, total, step))
    run.kernel._set("nctaid.y", 7)
    run.kernel._set("nctaid.z", 1)
    ((_, awaited),) = run.run(0).operands("%clock64")
    assert awaited == 7 * total


def test_what_the_ptx_does() -> None:
    ptx = ptx_of(pacing(3, 10, 2, loops=2))
    filecheck(
        ptx,
        """
        CHECK: .global .align 8 .u64 lockstep_load;
        CHECK: .global .align 8 .u64 lockstep_load_1;
        CHECK: red.relaxed.gpu.global.add.u64 [%[[WORD:rd[0-9]+]]], 1;
        CHECK: red.relaxed.gpu.global.add.u64 [%[[WORD]]], 16777216;
        CHECK-SAME: mov.u64 begin, %clock64;
        CHECK-SAME: WAIT[[N:[0-9]+]]: ld.relaxed.gpu.global.u64 word, [%[[WORD]]];
        CHECK-SAME: @done bra DONE[[N]];
        CHECK-SAME: setp.lt.u64 done, now, 131072; @done bra WAIT[[N]];
        CHECK-SAME: red.relaxed.gpu.global.or.b64 [%[[WORD]]], 0x8000000000000000;
        CHECK: atom.relaxed.gpu.global.add.u64 word, [%[[WORD]]], -1;
        CHECK-SAME: @last atom.relaxed.gpu.global.cas.b64 inside, [%[[WORD]]], word, 0;
        """,
    )


def test_the_wait_stays_a_loop_in_machine_code() -> None:
    """ptxas reads the word and the clock in each round of the wait, and leaves its bound alone."""
    (wait,) = SassReport.of(machine_code(pacing(3, 10, 2)).cubin).loops()
    assert wait.count("LDG") == 1 and wait.count("CS2R") == 1, str(wait)
    assert f"{PATIENCE:#x}" in str(wait), str(wait)
