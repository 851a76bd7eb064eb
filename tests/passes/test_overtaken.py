"""Ordinary loads of what TMA fills are fenced before the next copy may overtake them (0014)."""

from __future__ import annotations

import numpy as np
import pytest

import tiledsl as td
from tests.filecheck import filecheck
from tests.kernels.family import barriers, rings
from tests.passes.lowered import consumer_body, gemm

F32 = td.spec((256, 128), td.float32)
BF16 = td.spec((256, 128), td.bfloat16)


def role(text: str, name: str) -> str:
    """The text of one role."""
    begin = text.index(f'role "{name}"')
    end = text.find('role "', begin + 1)
    return text[begin : end if end > 0 else len(text)]


def test_a_release_is_fenced() -> None:
    """`relay`: the role that reads float32 tiles with ordinary loads and writes bfloat16 ones."""
    text = rings.relay.lower(F32, BF16, F32).protocol_ir
    filecheck(
        role(text, "relu"),
        """
        CHECK: mbarrier.wait
        CHECK: shared.load
        CHECK-NEXT: fence.proxy_async
        CHECK-NEXT: part.sync
        CHECK: mbarrier.arrive
        CHECK: shared.store
        CHECK: fence.proxy_async
        CHECK-NEXT: part.sync
        """,
    )


@pytest.mark.parametrize("fenced", [True, False])
def test_arrivals_of_the_users_own(fenced: bool) -> None:
    """Tiles that TMA fills need a fence; tiles that a role stores to do not."""
    if fenced:
        text = role(barriers.by_numbers.lower(F32, F32, 3).protocol_ir, "add")
    else:
        text = role(barriers.three_meet.lower(F32, F32, 3).protocol_ir, "below")
    between = text[text.index("shared.load") : text.index("arrive", text.index("shared.load"))]
    assert ("fence.proxy_async" in between) == fenced


def test_products_have_no_more_fences() -> None:
    """wgmma's reads are complete when its groups are: one fence a staged chunk is all."""
    text = consumer_body(gemm)
    assert text.count("fence.proxy_async") == text.count("staging.write") > 0


@td.kernel(grid=1)
def copied(x: td.Tensor, y: td.Tensor, n: td.int32):
    """y = x + 1 through a ring that `cp.async` fills and ordinary loads read."""
    ring = td.InputTilePipeline(td.TileArray(x.dtype, (64, 32), 2), 2)
    with td.role("load", warps=4):
        for i in range(n):
            with ring.producer().acquire() as stage:
                td.async_copy(x, (i * 64, 0), stage.tile(), stage.barrier())
    with td.role("add", warps=4):
        for i in range(n):
            with ring.consumer().acquire() as stage:
                value = stage.tile().load()
            td.store(value + 1.0, y, (i * 64, 0))


def test_copies_by_threads_have_none() -> None:
    """`cp.async` takes the same way into shared memory as loads do."""
    text = role(copied.lower(F32, F32, 3).protocol_ir, "add")
    assert "shared.load" in text and "fence.proxy_async" not in text


@td.kernel(grid=1)
def again(x: td.Tensor, y: td.Tensor, n: td.int32):
    """y[i] = x[i] + 1: one tile of the kernel's own, loaded again by the role that reads it."""
    tile = td.shared((64, 32), x.dtype)
    loaded = td.mbarrier()
    with td.role("all", warps=4):
        for i in range(n):
            loaded.arrive_and_expect_bytes(tile.nbytes)
            td.tma_load(x, (i * 64, 0), tile, loaded)
            loaded.wait(i)
            td.store(tile.load() + 1.0, y, (i * 64, 0))


@pytest.mark.parametrize("policy", ["late", "pct"])
def test_a_role_that_loads_for_itself(policy: str) -> None:
    """On the PTX machine, which reports a copy over a load that no fence has followed."""
    x = np.random.default_rng().standard_normal((256, 32), np.float32)
    for n in (0, 1, 4):
        y = np.full_like(x, np.nan)
        again.run_ptx(x, y, n, options={"policy": policy, "seed": n})
        assert (y[: 64 * n] == x[: 64 * n] + 1).all() and np.isnan(y[64 * n :]).all()
