"""Element reads and writes of a role that many threads run."""

from __future__ import annotations

import numpy as np
import pytest

import tiledsl as td
from tests.filecheck import filecheck
from tiledsl.errors import InvalidValue
from tiledsl.runtime.emulator import emulate


@td.kernel(grid=1, warps=8)
def counts(x: td.Tensor, y: td.Tensor):
    for i in range(x.shape[0]):
        x[0] = x[0] + i
    td.tma_store(td.full((128, 8), x[0], td.float32), y, (0, 0))


def test_barriers_stand_around_a_write() -> None:
    compiled = counts.lower(td.spec((4,), td.float32), td.spec((128, 8), td.float32))
    filecheck(
        compiled.protocol_ir,
        """
        CHECK: tensor.load
        CHECK: role.sync
        CHECK-NEXT: tensor.store
        CHECK-NEXT: role.sync
        CHECK: tensor.load
        """,
    )
    assert compiled.plan.roles[0].role_barrier > 0


def test_the_emulator_agrees() -> None:
    x, y = np.zeros(9, np.float32), np.full((128, 8), np.nan, np.float32)
    counts(x, y)
    assert x[0] == 36 and (y == 36).all()


@td.kernel(grid=1)
def writes_beside_the_roles(x: td.Tensor):
    x[0] = 1.0
    with td.role("one", warps=1):
        x[1] = x[0]


def test_a_write_beside_the_roles_is_refused() -> None:
    with pytest.raises(InvalidValue, match="an element is written outside of the roles"):
        writes_beside_the_roles.lower(td.spec((4,), td.float32))


@td.kernel(grid=1, warps=8)
def shifts(x: td.Tensor, y: td.Tensor, n: td.int32):
    """Each step reads, 8 rows further down, what other threads wrote in the step before."""
    for _ in range(n):
        value = td.load(x, (0, 0), (128, 8))
        td.store(value + 1.0, x, (8, 0))
        td.store(value, y, (0, 0))


def test_tiles_that_a_role_reads_and_writes_are_ordered() -> None:
    spec = td.spec((136, 8), td.float32)
    compiled = shifts.lower(spec, spec, td.int32)
    filecheck(
        compiled.protocol_ir,
        """
        CHECK: tile.load %x
        CHECK: role.sync
        CHECK-NEXT: tile.store {{.*}} -> %x
        CHECK-NEXT: role.sync
        CHECK-NEXT: tile.store {{.*}} -> %y
        CHECK-NOT: role.sync
        """,
    )
    start = np.random.default_rng().standard_normal((136, 8)).astype(np.float32)
    expected = start.copy()
    for _ in range(5):
        expected[8:] = expected[:128] + 1
    for seed in (None, *range(10)):
        x, y = start.copy(), np.full((136, 8), np.nan, np.float32)
        emulate(compiled.kernel, [x, y, 5], grid=(1, 1, 1), seed=seed)
        assert (x == expected).all()
