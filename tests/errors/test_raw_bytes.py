"""Bytes announced on mbarriers of the user's own, and those that loads bring: refused, twins."""

from __future__ import annotations

import pytest

import tiledsl as td
from tests.errors.checks import BF, F32, check, run
from tests.errors.messages import message
from tests.golden import Golden
from tiledsl.errors import StageError


@td.kernel(grid=1)
def own_right(a: td.Tensor, c: td.Tensor, n: td.int32):
    """Announced once for two loads, announced in two parts, and once in each iteration."""
    q = td.shared((64, 64), td.bfloat16, number=2)
    both = td.mbarrier()
    row = td.mbarrier(number=2)
    with td.role("load", warps=1):
        both.arrive_and_expect_bytes(2 * 64 * 64 * 2)
        for k in td.static_range(2):
            td.tma_load(a, (0, 64 * k), q[k], both)
        for k in range(n):
            row[k % 2].arrive_and_expect_bytes(64 * 64 * 2)
            td.tma_load(a, (0, 64 * k), q[k % 2], row[k % 2])
    with td.role("take", warps=1):
        both.wait(0)
        for k in range(n):
            row[k % 2].wait(k // 2)


@td.kernel(grid=1)
def own_elsewhere(a: td.Tensor, c: td.Tensor, n: td.int32):
    """One role announces, another loads; on some paths more than on others."""
    q = td.shared((64, 64), td.bfloat16, number=2)
    bar = td.mbarrier(count=1)
    with td.role("tell", warps=1):
        bar.arrive_and_expect_bytes(64 * 64 * 2 * 2)
    with td.role("load", warps=1):
        if n > 0:
            td.tma_load(a, (0, 0), q[0], bar)
            td.tma_load(a, (0, 64), q[1], bar)
        else:
            for k in range(2):
                td.tma_load(a, (0, 0), q[k], bar)
    with td.role("take", warps=1):
        bar.wait(0)


@td.kernel(grid=1)
def own_wrong_number(a: td.Tensor, c: td.Tensor):
    q = td.shared((64, 64), td.bfloat16, number=2)
    bar = td.mbarrier()
    with td.role("load", warps=1):
        bar.arrive_and_expect_bytes(64 * 64 * 2)
        for k in td.static_range(2):
            td.tma_load(a, (0, 64 * k), q[k], bar)
    with td.role("take", warps=1):
        bar.wait(0)


@td.kernel(grid=1)
def own_never_told(a: td.Tensor, c: td.Tensor):
    q = td.shared((64, 64), td.bfloat16)
    bar = td.mbarrier()
    with td.role("load", warps=1):
        bar.arrive()
        td.tma_load(a, (0, 0), q, bar)
    with td.role("take", warps=1):
        bar.wait(0)


@td.kernel(grid=1)
def own_never_loaded(a: td.Tensor, c: td.Tensor):
    bars = td.mbarrier(number=2)
    q = td.shared((64, 64), td.bfloat16)
    with td.role("load", warps=1):
        bars[0].arrive_and_expect_bytes(64 * 64 * 2)
        bars[1].arrive_and_expect_bytes(64 * 64 * 2)
        td.tma_load(a, (0, 0), q, bars[0])
    with td.role("take", warps=1):
        bars[0].wait(0)
        bars[1].wait(0)


REFUSED = {kernel.name: kernel for kernel in (own_wrong_number, own_never_told, own_never_loaded)}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: Golden) -> None:
    golden(message(lambda: check(REFUSED[name], BF, F32), StageError))


@pytest.mark.parametrize("kernel", [own_right, own_elsewhere], ids=lambda k: k.name)
def test_accepted(kernel: td.Kernel) -> None:
    run(kernel, BF, F32, 2)
