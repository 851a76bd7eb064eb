"""Rare forms that touch memory: 128-bit accesses, vector atomics, reductions in the shared memory
of a cluster, tensor maps that a kernel changes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.oracle import fresh_seed
from tests.ptx_machine.foreign.launch import TensorMap, aligned, launch
from tiledsl.errors import TileError
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import decode

Array = np.ndarray[Any, Any]
POLICIES = ("eager", "late", "random", "pct")


def execute(
    body: str, arguments: list[Any], parameters: str, shared: str = "", **options: Any
) -> None:
    """Run statements as a kernel: %tid is in %t, the parameters are a, b, c..."""
    text = (
        ".version 8.6\n.target sm_90a\n.address_size 64\n"
        f".visible .entry k({parameters})\n{{\n"
        ".reg .pred %p<10>; .reg .b16 %h<40>; .reg .b32 %r<32>, %t, %rank; .reg .b64 %d<20>;\n"
        f".reg .b128 %q<4>; {shared}\nmov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank;\n"
        f"{body}\nret;\n}}\n"
    )
    launch("", arguments, made=decode(parse(text)), **options)


ONE = ".param .u64 a"


def test_all_parts_of_a_special_register() -> None:
    out = aligned((2, 24, 4), np.uint32)
    execute(
        "mov.v4.u32 {%r0, %r1, %r2, %r3}, %tid; mov.v4.u32 {%r4, _, %r6, %r7}, %ctaid;"
        " mov.u32 %r8, %tid.y; mov.u32 %r9, %tid.z; mad.lo.u32 %r10, %r8, 4, %t;"
        " mad.lo.u32 %r10, %r9, 12, %r10; mad.lo.u32 %r10, %r4, 24, %r10;"
        " ld.param.u64 %d0, [a]; mul.wide.u32 %d1, %r10, 16; add.u64 %d0, %d0, %d1;"
        " add.u32 %r3, %r3, %r7; st.global.v4.u32 [%d0], {%r0, %r1, %r2, %r3};",
        [out], ONE, grid=(2,), block=(4, 3, 2),
    )  # fmt: skip
    i = np.arange(24)
    assert (out == np.stack([i % 4, i // 4 % 3, i // 12, 0 * i], 1)).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_tiles_whose_lanes_come_apart(policy: str) -> None:
    """Each tile of eight goes round a loop as often as it likes, odd lanes by a detour."""
    out = aligned((2, 64), np.uint32)
    execute(
        "and.b32 %r0, %t, 24; mov.b32 %r1, 255; shl.b32 %r1, %r1, %r0; shr.u32 %r2, %t, 3;"
        " mul.lo.u32 %r3, %t, %t; and.b32 %r7, %t, 1; setp.eq.u32 %p0, %r7, 0;\n"
        "more: @%p0 bra join; add.u32 %r3, %r3, 1000;\n"
        "join: shfl.sync.bfly.b32 %r3, %r3, 1, 0x181f, %r1; add.u32 %r3, %r3, %t;"
        " setp.eq.u32 %p1, %r2, 0; sub.u32 %r2, %r2, 1; @!%p1 bra more;"
        " ld.param.u64 %d0, [a]; mov.u32 %r6, %ctaid.x; mad.lo.u32 %r6, %r6, 64, %t;"
        " mul.wide.u32 %d1, %r6, 4; add.u64 %d0, %d0, %d1; st.global.u32 [%d0], %r3;",
        [out], ONE, grid=(2,), block=(64,), policy=policy, seed=fresh_seed() & 0xFFFF,
    )  # fmt: skip
    t = np.arange(64)
    value = t * t
    for k in range(8):
        once = (value + 1000 * (t & 1))[t ^ 1] + t
        value = np.where(t // 8 >= k, once, value)
    assert (out == value).all()


def test_accesses_of_128_bits() -> None:
    rng = np.random.default_rng(fresh_seed())
    x = aligned((32, 2), np.uint64, rng.integers(0, 1 << 63, (32, 2), np.uint64))
    y, last = aligned((32, 2), np.uint64), aligned(2, np.uint64, [5, 6])
    execute(
        "ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; ld.param.u64 %d2, [c];"
        " mul.wide.u32 %d3, %t, 16; add.u64 %d4, %d0, %d3; add.u64 %d5, %d1, %d3;"
        " ld.global.b128 %q0, [%d4]; mov.u32 %r0, s; mad.lo.u32 %r0, %t, 16, %r0;"
        " st.shared.b128 [%r0], %q0; bar.warp.sync -1; xor.b32 %r1, %t, 1; mov.u32 %r0, s;"
        " mad.lo.u32 %r0, %r1, 16, %r0; ld.shared.b128 %q1, [%r0]; st.global.b128 [%d5], %q1;"
        " atom.global.exch.b128 %q2, [%d2], %q0;",
        [x, y, last], ".param .u64 a, .param .u64 b, .param .u64 c",
        ".shared .align 16 .b8 s[512];", grid=(1,), block=(32,),
    )  # fmt: skip
    assert (y == x[np.arange(32) ^ 1]).all()
    assert (last == x).all(axis=1).any()
    with pytest.raises(TileError, match="misaligned"):
        execute(
            "ld.param.u64 %d0, [a]; ld.global.b128 %q0, [%d0+8];", [x], ONE, grid=(1,), block=(1,)
        )


def test_compare_and_swap_of_128_bits() -> None:
    """A counter of 128 bits: all threads add to it, over the carry."""
    start = (1 << 64) - 20
    counter = aligned(2, np.uint64, [start, 3])
    execute(
        "ld.param.u64 %d0, [a];\nagain: ld.relaxed.gpu.global.b128 %q0, [%d0];"
        " mov.b128 {%d1, %d2}, %q0;"
        " add.cc.u64 %d3, %d1, 7; addc.u64 %d4, %d2, 0; mov.b128 %q1, {%d3, %d4};"
        " atom.relaxed.gpu.global.cas.b128 %q2, [%d0], %q0, %q1; mov.b128 {%d5, %d6}, %q2;"
        " setp.ne.u64 %p0, %d5, %d1; setp.ne.or.u64 %p0, %d6, %d2, %p0; @%p0 bra again;",
        [counter], ONE, grid=(2,), block=(48,), policy="pct", seed=fresh_seed() & 0xFFFF,
    )  # fmt: skip
    total = (3 << 64) + start + 7 * 96
    assert counter.tolist() == [total & ((1 << 64) - 1), total >> 64]


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("kind", ["f16", "bf16", "f16x2", "bf16x2"])
def test_vector_atomics(op: str, kind: str) -> None:
    rng = np.random.default_rng(fresh_seed())
    dtype = np.float16 if kind[0] == "f" else ml_dtypes.bfloat16
    pairs = kind.endswith("x2")
    x = aligned((64, 8), dtype, rng.standard_normal((64, 8)).astype(dtype))
    start = rng.standard_normal(8).astype(dtype) * dtype(0.1)
    x[3, 5] = np.nan  # a number wins
    y = aligned(8, dtype, start)
    load = "ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%d2];"
    unpack = "".join(f"mov.b32 {{%h{2 * k}, %h{2 * k + 1}}}, %r{k};" for k in range(4))
    count = 4 if pairs else 8
    listed = ", ".join(f"%{'r' if pairs else 'h'}{k}" for k in range(count))
    execute(
        "ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; mul.wide.u32 %d2, %t, 16;"
        f" add.u64 %d2, %d0, %d2; {load} {unpack}"
        f" red.relaxed.gpu.global.{op}.noftz.v{count}.{kind} [%d1], {{{listed}}};",
        [x, y], ".param .u64 a, .param .u64 b", grid=(1,), block=(64,),
    )  # fmt: skip
    numbers = np.vstack([start.astype(np.float32), x.astype(np.float32)])
    assert (y.astype(np.float32) == getattr(np, f"nan{op}")(numbers, axis=0)).all()


# ------------------------------------------------------------------ shared memory of a cluster

_BARRIER = (
    "mov.u32 %r20, bar; setp.ne.u32 %p9, %t, 0; @%p9 bra made;"
    " mbarrier.init.shared::cta.b64 [%r20], 1; fence.mbarrier_init.release.cluster;"
    " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20],"
    " {nbytes};\nmade: {before} barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
)
_WAIT = (
    "\nagain: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r20], 0;"
    " @!%p1 bra again;\n"
)
_LEAVE = " barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
_SHARED = ".shared .align 16 .b8 sums[256]; .shared .align 16 .b8 own[256]; .shared .b64 bar;"
REDUCTIONS = {
    "add.u32": np.add, "add.s32": np.add, "add.u64": np.add, "min.u32": np.minimum,
    "min.s32": np.minimum, "max.s32": np.maximum, "and.b32": np.bitwise_and,
    "or.b32": np.bitwise_or, "xor.b32": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("form", REDUCTIONS)
@pytest.mark.parametrize("bulk", [False, True])
def test_reductions_in_shared_memory(form: str, policy: str, bulk: bool) -> None:
    """Both blocks of a cluster change the sums of block 0; its barrier counts the bytes."""
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    size, signed = int(form[-2:]) // 8, form[-3] == "s"
    dtype = np.dtype(f"{'i' if signed else 'u'}{size}")
    x = aligned((3, 256 // size), dtype)
    x.view(np.uint8)[...] = rng.integers(0, 256, x.view(np.uint8).shape)
    y = aligned(256 // size, dtype)
    reg, n = ("%d" if size == 8 else "%r"), 256 // size
    init = (
        "ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; mov.u32 %r1, sums; mov.u32 %r2, own;"
        f" mul.lo.u32 %r3, %t, {size}; add.u32 %r1, %r1, %r3; add.u32 %r2, %r2, %r3;"
        f" mad.lo.u32 %r4, %rank, 256, %r3; cvt.u64.u32 %d2, %r4; add.u64 %d2, %d0, %d2;"
        f" ld.global.b{8 * size} {reg}10, [%d2+256]; cvt.u64.u32 %d3, %r3; add.u64 %d3, %d0, %d3;"
        f" ld.global.b{8 * size} {reg}11, [%d3]; st.shared.b{8 * size} [%r1], {reg}11;"
        f" st.shared.b{8 * size} [%r2], {reg}10; fence.proxy.async.shared::cta;"
    )
    at = "mapa.shared::cluster.u32 %r6, %r20, 0;"
    single = (
        f"{at} mapa.shared::cluster.u32 %r5, %r1, 0; red.async.relaxed.cluster.shared::cluster"
        f".mbarrier::complete_tx::bytes.{form} [%r5], {reg}10, [%r6];"
    )
    whole = (
        f"@%p9 bra sent; {at} mapa.shared::cluster.u32 %r5, %r1, 0;"
        " cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
        f".{form} [%r5], [%r2], 256, [%r6];\nsent:"
    )
    execute(
        _BARRIER.format(nbytes=512, before=init) + (whole if bulk else single)
        + f"\nsetp.ne.u32 %p2, %rank, 0; @%p2 bra left; {_WAIT}"
        f" ld.shared.b{8 * size} {reg}12, [%r1]; mul.wide.u32 %d4, %t, {size};"
        f" add.u64 %d4, %d1, %d4; st.global.b{8 * size} [%d4],"
        f" {reg}12;\nleft: {_LEAVE}",
        [x, y], ".param .u64 a, .param .u64 b", _SHARED, grid=(2,), block=(n,), cluster=(2,),
        policy=policy, seed=seed & 0xFFFF,
    )  # fmt: skip
    assert (y == REDUCTIONS[form](REDUCTIONS[form](x[0], x[1]), x[2])).all()


def test_a_reduction_that_nobody_waits_for() -> None:
    """A read of the sums without the barrier: a race, or in flight."""
    y = aligned(4, np.uint32)
    with pytest.raises(TileError, match=r"in flight|race"):
        execute(
            "mov.u32 %r20, bar; mov.u32 %r1, sums; mov.u32 %r2, 0; st.shared.u32 [%r1], %r2;"
            " mbarrier.init.shared::cta.b64 [%r20], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _,"
            " [%r20], 4; fence.proxy.async.shared::cta; ld.param.u64 %d0, [a];"
            " red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"
            " [%r1], 7, [%r20]; ld.shared.u32 %r3, [%r1]; st.global.u32 [%d0], %r3;",
            [y], ONE, _SHARED, grid=(1,), block=(1,),
        )  # fmt: skip


# ------------------------------------------------------------------ tensor maps


@pytest.mark.parametrize("policy", POLICIES)
def test_a_changed_tensor_map(policy: str) -> None:
    """Copied to shared memory, turned to another array of fewer rows, and kept in global memory."""
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    first = aligned((16, 32), np.float32, rng.standard_normal((16, 32)))
    second = aligned((16, 64), np.float32, rng.standard_normal((16, 64)))
    place, out = aligned(128, np.uint8), aligned((8, 32), np.float32)
    replace = "tensormap.replace.tile"
    execute(
        "ld.param.u64 %d0, [b]; ld.param.u64 %d1, [c]; ld.param.u64 %d2, [d]; mov.b64 %d3, a;"
        " cvta.param.u64 %d3, %d3; mov.u32 %r1, map; mov.u32 %r20, bar; mov.u32 %r2, tile;"
        " setp.gt.u32 %p0, %t, 15; @%p0 bra copied; mul.wide.u32 %d4, %t, 8; add.u64 %d4, %d3, %d4;"
        " ld.b64 %d5, [%d4]; mad.lo.u32 %r3, %t, 8, %r1; st.shared.b64 [%r3], %d5;\n"
        "copied: bar.warp.sync -1; setp.ne.u32 %p9, %t, 0; @%p9 bra changed;"
        f" {replace}.global_address.shared::cta.b1024.b64 [%r1], %d1;"
        f" {replace}.global_dim.shared::cta.b1024.b32 [%r1], 0, 64;"
        f" {replace}.global_dim.shared::cta.b1024.b32 [%r1], 1, 5;"
        f" {replace}.global_stride.shared::cta.b1024.b64 [%r1], 0, 256;"
        f" {replace}.swizzle_mode.shared::cta.b1024.b32 [%r1], 0;"
        " mbarrier.init.shared::cta.b64 [%r20], 1; fence.mbarrier_init.release.cluster;\n"
        "changed: bar.warp.sync -1; tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic"
        ".release.gpu.sync.aligned [%d0], [%r1], 128;"
        " fence.proxy.tensormap::generic.acquire.gpu [%d0], 128; @%p9 bra started;"
        " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 1024;"
        " cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2],"
        f" [%d0, {{32, 0}}], [%r20];\nstarted: bar.warp.sync -1; {_WAIT}"
        " mad.lo.u32 %r3, %t, 32, %r2; mul.wide.u32 %d6, %t, 32; add.u64 %d6, %d2, %d6;"
        " ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3];"
        " st.global.v4.b32 [%d6], {%r4, %r5, %r6, %r7};"
        " ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3+16];"
        " st.global.v4.b32 [%d6+16], {%r4, %r5, %r6, %r7};",
        [TensorMap(first, (32, 8), "f32", 128), place, second, out],
        ".param .align 64 .b8 a[128], .param .u64 b, .param .u64 c, .param .u64 d",
        ".shared .align 128 .b8 map[128]; .shared .align 128 .b8 tile[1024]; .shared .b64 bar;",
        grid=(1,), block=(32,), policy=policy, seed=seed & 0xFFFF,
    )  # fmt: skip
    assert (out[:5] == second[:5, 32:]).all() and (out[5:] == 0).all()
