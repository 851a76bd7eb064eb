"""The whole GEMM at both levels, as people read it, and facts that the passes derive for it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import tiledsl as td
from tests.filecheck import filecheck
from tests.golden import Golden
from tests.passes.lowered import BF16, consumer_body, gemm, protocol
from tiledsl.errors import ResourceLimit


def test_levels(golden: Golden) -> None:
    compiled = protocol(gemm)
    golden(compiled.ir, ".tile.ir")
    golden(compiled.protocol_ir, ".protocol.ir")


def test_one_group_stays_in_flight() -> None:
    filecheck(
        consumer_body(gemm),
        """
        CHECK: for %{{.*}} carry(
        CHECK: mbarrier.wait
        CHECK: wgmma.mma
        CHECK-NEXT: wgmma.wait 1
        CHECK: mbarrier.arrive {{.*}} if %pending
        CHECK: continue
        CHECK: wgmma.wait 0
        CHECK: mbarrier.arrive {{.*}} if %pending
        CHECK: staging.write
        """,
    )


def test_a_ring_of_one_stage_is_released_at_once() -> None:
    text = consumer_body(gemm, stages=1)
    filecheck(
        text,
        """
        CHECK: wgmma.mma
        CHECK-NEXT: wgmma.wait 0
        CHECK-NEXT: ring.empty
        CHECK-NEXT: mbarrier.arrive
        CHECK-NOT: mbarrier.arrive
        """,
    )
    assert "if %pending" not in text


@pytest.mark.parametrize(("warps", "parts"), [(4, 1), (8, 2)])
def test_arrivals_come_from_the_roles(warps: int, parts: int) -> None:
    plan = protocol(gemm, BN=64, warps=warps).plan
    assert plan.counts == {("pipeline", "full"): 1, ("pipeline", "empty"): parts}
    assert [role.mode for role in plan.roles] == ["thread", "warpgroup"]


def test_registers_never_exceed_what_the_block_owns() -> None:
    plan = protocol(gemm).plan
    assert plan.entry_registers is not None
    groups = {"load": 1, "mma": 2}
    total = sum((role.registers or 0) * groups[role.name] for role in plan.roles)
    assert total <= plan.entry_registers * plan.threads // 128
    assert [role.registers for role in plan.roles] == [40, 232]


@pytest.mark.parametrize("out", [td.bfloat16, td.float16, td.float32])
def test_shared_memory_is_used_once(out: td.DType) -> None:
    plan = protocol(gemm, BF16, BF16, td.spec((512, 512), out)).plan
    end = 0
    for item in plan.shared:
        assert item.offset >= end and item.offset % item.align == 0
        end = item.offset + item.nbytes
    assert plan.shared_bytes == end <= 232448


def test_odd_column_chunks_use_one_half() -> None:
    """Three chunks of 64 columns: two halves would meet themselves at the next tile."""
    text = consumer_body(gemm, BN=192, stages=3)
    assert "buffer<1 x" in text
    assert "bulk.wait {pending=0" in text and "bulk.wait {pending=1" not in text


def test_accumulators_beyond_the_budget_are_refused() -> None:
    with pytest.raises(ResourceLimit, match="accumulators of role 'mma' need 256 registers"):
        protocol(gemm, BM=256, stages=2)


def test_staging_leaves_room_for_the_roles_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two halves of wide boxes do not fit for both replicas, each gets two narrower ones."""
    samples = Path(__file__).resolve().parents[2] / "samples"
    monkeypatch.setattr(sys, "path", [str(samples), *sys.path])
    gemm_pingpong = importlib.import_module("gemm_pingpong").gemm_pingpong
    x = td.spec((4096, 4096), td.bfloat16)
    wide = gemm_pingpong.compile(x, x, x, stages=5).protocol_ir
    assert wide.count("1 x 2 boxes 128x64xbf16") == 2
    narrow = gemm_pingpong.compile(x, x, x, stages=6).protocol_ir
    assert narrow.count("1 x 2 boxes 128x32xbf16") == 2
