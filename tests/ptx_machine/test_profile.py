"""Profiles: every number against what a hand counts."""

from __future__ import annotations

import re
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.kernels.oracle import fresh_seed
from tests.ptx_machine.test_samples import sample
from tiledsl import ptx
from tiledsl.runtime.ptx_machine.profile import Profile, Wait

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<40>; .reg .f32 %f<9>; .reg .b64 %d<20>;\n"


def profiled(body: str, *args: object, parameters: str = "", **launch: Any) -> Profile:
    """The profile of some statements, in an entry of their own."""
    text = f"{HEAD}.visible .entry k({parameters})\n{{\n{REGISTERS}{body}\nret;\n}}\n"
    launch = {"block": 32, "profile": True, "seed": fresh_seed() % 1000, **launch}
    found = ptx.run(text, args, **launch).profile
    assert found is not None
    return found


# ------------------------------------------------------------------ bank conflicts

ADDRESSES = {
    # What makes %r1, the byte address, of %r0, the lane; width of the access; the worst wavefronts
    # of one group of lanes.
    "one word a lane": ("shl.b32 %r1, %r0, 2;", "u32", 1),
    "two words apart": ("shl.b32 %r1, %r0, 3;", "u32", 2),
    "eight apart": ("shl.b32 %r1, %r0, 5;", "u32", 8),
    "a column of 32 words": ("shl.b32 %r1, %r0, 7;", "u32", 32),
    "a padded column": ("mul.lo.u32 %r1, %r0, 132;", "u32", 1),
    "all the same": ("mov.u32 %r1, 64;", "u32", 1),
    # Element (lane, 0) of a matrix of 32 x 32 words whose columns are swizzled by the row.
    "a swizzled column": (
        "shl.b32 %r1, %r0, 7; shl.b32 %r2, %r0, 2; xor.b32 %r1, %r1, %r2;", "u32", 1,
    ),
    "bytes of one word": ("mov.u32 %r1, %r0;", "u8", 1),
    "doubles": ("shl.b32 %r1, %r0, 3;", "u64", 1),
    "doubles 16 bytes apart": ("shl.b32 %r1, %r0, 4;", "u64", 2),
    "doubles in a column": ("shl.b32 %r1, %r0, 7;", "u64", 16),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDRESSES)
def test_conflicts_of_loads(name: str) -> None:
    code, kind, worst = ADDRESSES[name]
    register = "%d1" if kind == "u64" else "%r5"
    found = profiled(
        ".shared .align 128 .b8 tile[8192];\n"
        f"mov.u32 %r0, %laneid; {code} mov.u32 %r3, tile; add.u32 %r1, %r1, %r3;\n"
        f"ld.shared.{kind} {register}, [%r1];"
    )
    (conflict,) = found.conflicts
    groups = 2 if kind == "u64" else 1
    assert conflict.worst == worst
    assert conflict.wavefronts == groups
    assert conflict.extra == groups * (worst - 1) == found.extra_wavefronts
    assert conflict.site.mnemonic == f"ld.shared.{kind}"
    nbytes = {"u8": 1, "u32": 4, "u64": 8}[kind]
    assert (found.traffic["shared"].read, found.traffic["shared"].written) == (32 * nbytes, 0)


@pytest.mark.parametrize(
    ("pitch", "swizzle", "worst"),
    [(128, False, 8), (128, True, 1), (144, False, 1), (64, False, 4)],
)
def test_conflicts_of_ldmatrix(pitch: int, swizzle: bool, worst: int) -> None:
    """Eight rows of 16 bytes: in a column of a 128-byte tile they are in the same four banks."""
    turn = "and.b32 %r2, %r0, 7; shl.b32 %r2, %r2, 4; xor.b32 %r1, %r1, %r2;" if swizzle else ""
    found = profiled(
        ".shared .align 1024 .b8 tile[8192];\n"
        f"mov.u32 %r0, %laneid; mul.lo.u32 %r1, %r0, {pitch}; {turn}\n"
        "mov.u32 %r3, tile; add.u32 %r1, %r1, %r3;\n"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r1];\n"
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {%r4, %r5, %r6, %r7};"
    )
    assert {c.site.mnemonic.split(".")[0] for c in found.conflicts} == {"ldmatrix", "stmatrix"}
    for conflict in found.conflicts:
        assert (conflict.wavefronts, conflict.extra) == (4, 4 * (worst - 1))
        assert conflict.worst == worst
    assert found.traffic["shared"].read == found.traffic["shared"].written == 512


def test_a_clean_kernel_says_so() -> None:
    found = profiled(
        ".shared .align 128 .b8 tile[128];\nmov.u32 %r0, %laneid; shl.b32 %r1, %r0, 2;\n"
        "mov.u32 %r3, tile; add.u32 %r1, %r1, %r3; st.shared.u32 [%r1], %r0;"
    )
    assert "no bank conflicts in 1 wavefronts" in str(found)
    assert "no bank conflicts" in found._repr_html_()


# ------------------------------------------------------------------ memory of threads


def test_bytes_of_each_space() -> None:
    """Half of the lanes load, all store; generic addresses count where they point to."""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    found = profiled(
        ".local .align 8 .b8 own[64];\n.shared .align 16 .b8 tile[256];\n"
        "ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; mov.u32 %r0, %tid.x;\n"
        "mul.wide.u32 %d3, %r0, 4; add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3;\n"
        "and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; mov.f32 %f1, 0f00000000;\n"
        "@%p1 ld.global.f32 %f1, [%d4];\n"
        "st.f32 [%d5], %f1;\n"
        "st.local.u64 [own], %d3; ld.local.u64 %d6, [own];\n"
        "cvt.u64.u32 %d7, tile; cvta.shared.u64 %d7, %d7; add.u64 %d7, %d7, %d3;\n"
        "st.u32 [%d7], %r0;\n"
        "red.global.add.f32 [%d2], %f1;",
        x, y, parameters=".param .u64 x, .param .u64 y", block=64,
    )  # fmt: skip
    traffic = found.traffic
    assert (traffic["global"].read, traffic["global"].written) == (32 * 4, 64 * 4)
    assert traffic["global"].atomic == 64 * 4
    assert (traffic["local"].read, traffic["local"].written) == (64 * 8, 64 * 8)
    assert (traffic["shared"].read, traffic["shared"].written) == (0, 64 * 4)
    assert traffic["param"].read == 64 * 16
    assert found.opcodes["ld.global.f32"] == 2
    load = next(site for site in found.sites if site.mnemonic == "ld.global.f32")
    assert (load.runs, load.lanes) == (2, 32)
    assert found.instructions == sum(found.ptx_lines.values()) == sum(found.opcodes.values())


def test_waits() -> None:
    """Three warps come to a barrier that the fourth reaches after a loop: each waits once."""
    found = profiled(
        "mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 96; @%p1 bra MEET;\n"
        "mov.u32 %r1, 0;\nLOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 500;\n"
        "@%p2 bra LOOP;\nMEET: bar.sync 0;",
        block=128,
    )
    (wait,) = found.waits
    assert isinstance(wait, Wait)
    assert wait.site.mnemonic == "bar.sync" and wait.site.runs == 4
    assert wait.waits == 3
    # The three wait from their first steps to the end of 500 rounds of three instructions.
    assert 3 * 1490 <= wait.steps <= 3 * 1530
    assert found.opcodes["add.u32"] == 500


# ------------------------------------------------------------------ a GEMM


def test_gemm(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = sample(monkeypatch, "gemm")
    rng = np.random.default_rng(fresh_seed())
    m, n, k, bm, bn, bk = 256, 512, 192, 128, 256, 64
    a, b = (rng.standard_normal((rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    c = np.zeros((m, n), ml_dtypes.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", td.PerformanceWarning)
        for policy in ("eager", "late", "random", "pct"):
            result = kernel.run_ptx(a, b, c, options={"profile": True, "policy": policy})
            found = result.profile
            assert found is not None
            tiles, steps = (m // bm) * (n // bn), k // bk
            loads, stores, products = (
                found.asynchronous[kind] for kind in ("TMA load", "TMA store", "wgmma")
            )
            assert loads.operations == 2 * tiles * steps
            assert loads.global_bytes == loads.shared_bytes == tiles * steps * (bm + bn) * bk * 2
            assert stores.global_bytes == stores.shared_bytes == m * n * 2
            # m64n256k16: two warpgroups, four of them along K of a stage.
            assert products.operations == tiles * steps * 2 * (bk // 16)
            assert products.shared_bytes == products.operations * (64 + 256) * 32
            assert found.opcodes["wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"] == (
                4 * products.operations
            )
            # Each accumulator leaves by stmatrix, into a swizzled tile.
            assert found.traffic["shared"].written == m * n * 2
            assert found.extra_wavefronts == 0
            assert sum(conflict.wavefronts for conflict in found.conflicts) == m * n * 2 // 128
            assert found.instructions == result.instructions
            assert any(line.startswith("gemm.py:") for line in found.source_lines)
            assert products.mean_steps <= products.longest <= result.instructions
            if policy == "eager":
                assert loads.steps == stores.steps == 0
            if policy == "late":
                assert loads.mean_steps > 0 and products.mean_steps > 0
                assert any("try_wait" in wait.site.text for wait in found.waits)


def test_multicast(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a multicast reads once it writes into two blocks."""
    kernel = sample(monkeypatch, "gemm_cluster")
    rng = np.random.default_rng(fresh_seed())
    a, b = (rng.standard_normal((256, 128)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((256, 256), ml_dtypes.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", td.PerformanceWarning)
        found = kernel.run_ptx(a, b, c, options={"profile": True}).profile
    assert found is not None
    cast = found.asynchronous["TMA load, multicast"]
    assert cast.operations > 0
    assert cast.shared_bytes == 2 * cast.global_bytes > 0


def test_boxes_that_reach_beyond_the_tensor() -> None:
    """Only what lies inside is read from global memory; the box fills shared memory."""
    x = np.ones((20, 32), np.float32)
    found = profiled(
        ".shared .align 1024 .b8 tile[4096];\n.shared .align 8 .b64 bar;\n"
        "mov.u32 %r0, %tid.x; setp.ne.u32 %p1, %r0, 0; mov.u32 %r1, tile; mov.u32 %r2, bar;\n"
        "mov.b64 %d1, m; cvta.param.u64 %d1, %d1; mov.u32 %r3, 0;\n"
        "@%p1 bra DONE;\n"
        "mbarrier.init.shared.b64 [%r2], 1;\nfence.proxy.async.shared::cta;\n"
        "mbarrier.arrive.expect_tx.shared.b64 %d2, [%r2], 4096;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%r1], [%d1, {%r3, %r3}], [%r2];\n"
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;\n@!%p2 bra WAIT;\nDONE:",
        ptx.TensorMap(x, box=(32, 32), swizzle=128), parameters=".param .align 64 .b8 m[128]",
    )  # fmt: skip
    loads = found.asynchronous["TMA load"]
    assert (loads.operations, loads.global_bytes, loads.shared_bytes) == (1, 20 * 128, 4096)


# ------------------------------------------------------------------ how it looks


def test_tables() -> None:
    body = (
        ".shared .align 128 .b8 tile[4096];\nmov.u32 %r0, %laneid; shl.b32 %r1, %r0, 7;\n"
        "mov.u32 %r3, tile; add.u32 %r1, %r1, %r3;\nst.shared.u32 [%r1], %r0;"
    )
    found = profiled(body)
    text = str(found)
    assert text.startswith("kernel k: 6 instructions of warps, 192 of threads\n")
    assert re.search(r"st\.shared\.u32 \[%r1\], %r0; +10 +1 +31 +32-way", text)
    page = found._repr_html_()
    assert page.count("<table>") == page.count("</table>") == 3
    assert "32-way" in page and "<script" not in page
    assert not found.asynchronous and not found.waits and not found.source_lines
    launched = ptx.run(f"{HEAD}.entry k() {{ ret; }}", [], block=32)
    assert launched.profile is None


@pytest.mark.parametrize(("shift", "worst"), [(4, 1), (5, 2), (7, 8)])
def test_conflicts_of_vectors(shift: int, worst: int) -> None:
    """16 bytes a lane go in four groups of eight lanes; rows of 32 bytes meet every four lanes."""
    found = profiled(
        ".shared .align 128 .b8 tile[8192];\n"
        f"mov.u32 %r0, %laneid; shl.b32 %r1, %r0, {shift};\n"
        "cvt.u64.u32 %d1, %r1; cvt.u64.u32 %d2, tile; cvta.shared.u64 %d2, %d2;\n"
        "add.u64 %d1, %d1, %d2; mov.b32 %r4, 0;\n"
        "st.v4.b32 [%d1], {%r4, %r4, %r4, %r4};"
    )
    (conflict,) = found.conflicts
    assert (conflict.wavefronts, conflict.extra, conflict.worst) == (4, 4 * (worst - 1), worst)
    assert found.traffic["shared"].written == 512


def test_copies_by_threads() -> None:
    """cp.async: 16 bytes a lane, of which every lane reads as many as it asks for."""
    x = np.arange(128, dtype=np.int32)
    found = profiled(
        ".shared .align 128 .b8 tile[512];\n"
        "ld.param.u64 %d1, [x]; mov.u32 %r0, %laneid; shl.b32 %r1, %r0, 4;\n"
        "cvt.u64.u32 %d2, %r1; add.u64 %d1, %d1, %d2; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;\n"
        "and.b32 %r3, %r0, 15;\n"
        "cp.async.cg.shared.global [%r2], [%d1], 16, %r3;\n"
        "cp.async.commit_group; cp.async.wait_group 0;",
        x, parameters=".param .u64 x",
    )  # fmt: skip
    (kind,) = found.asynchronous
    copies = found.asynchronous[kind]
    assert (kind, copies.operations, copies.shared_bytes) == ("cp.async", 32, 512)
    assert copies.global_bytes == 2 * sum(range(16))


@pytest.mark.parametrize("nbytes", [16, 1024])
def test_bulk_copies(nbytes: int) -> None:
    """Bytes to shared memory and on to another array: one load, one store."""
    x, y = np.arange(1024, dtype=np.uint8), np.zeros(1024, np.uint8)
    found = profiled(
        ".shared .align 128 .b8 tile[1024];\n.shared .align 8 .b64 bar;\n"
        "ld.param.u64 %d1, [x]; ld.param.u64 %d3, [y];\n"
        "mov.u32 %r0, %tid.x; setp.ne.u32 %p1, %r0, 0; mov.u32 %r1, tile; mov.u32 %r2, bar;\n"
        "@%p1 bra DONE;\n"
        "mbarrier.init.shared.b64 [%r2], 1;\nfence.proxy.async.shared::cta;\n"
        f"mbarrier.arrive.expect_tx.shared.b64 %d2, [%r2], {nbytes};\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        f" [%r1], [%d1], {nbytes}, [%r2];\n"
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;\n@!%p2 bra WAIT;\n"
        f"cp.async.bulk.global.shared::cta.bulk_group [%d3], [%r1], {nbytes};\n"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nDONE:",
        x, y, parameters=".param .u64 x, .param .u64 y",
    )  # fmt: skip
    assert np.array_equal(y[:nbytes], x[:nbytes]) and not y[nbytes:].any()
    for kind in ("bulk load", "bulk store"):
        copies = found.asynchronous[kind]
        assert (copies.operations, copies.global_bytes, copies.shared_bytes) == (1, nbytes, nbytes)
