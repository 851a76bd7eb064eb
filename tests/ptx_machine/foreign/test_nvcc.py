"""PTX of nvcc on the machine, against NumPy in float64 and against exact integers."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ptx_machine.exact import FORMATS, added, multiplied
from tests.ptx_machine.foreign.launch import HERE, TensorMap, aligned, close, launch
from tests.ptx_machine.foreign.make import digest
from tiledsl.errors import TileError
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import decode

Array = np.ndarray[Any, Any]
Options = dict[str, Any]
I32, BF16, F16 = np.int32, np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)


def normal(rng: np.random.Generator, shape: Any, dtype: Any) -> Array:
    return aligned(shape, dtype, rng.standard_normal(shape).astype(dtype))


def test_every_file_was_made_from_its_source() -> None:
    made = {path.stem for path in (HERE / "nvcc").glob("*.ptx")}
    assert made == {path.stem for path in (HERE / "nvcc").glob("*.cu")}
    for path in (HERE / "nvcc").glob("*.ptx"):
        text = path.read_text()
        source = path.with_suffix(".cu")
        from_this = digest(source, source.with_name("device.cuh"))
        assert text.startswith(f"// From {source.name} ({from_this}), by nvcc V"), "run make.py"
        assert not [
            line for line in text.splitlines() if ".file" in line and str(Path.home()) in line
        ]


# ------------------------------------------------------------------ tensor cores


@pytest.mark.parametrize("shape", [(128, 128, 64), (256, 128, 640), (200, 264, 136)])
def test_wgmma_gemm(
    shape: tuple[int, int, int], rng: np.random.Generator, options: Options
) -> None:
    """TMA, mbarriers, wgmma; extents that tiles do not divide are cut off by TMA."""
    m, n, k = shape
    a, b = normal(rng, (m, k), BF16), normal(rng, (n, k), BF16)
    c = aligned((m, n), BF16, np.nan)
    maps = [TensorMap(a, (64, 128), "bf16", 128), TensorMap(b, (64, 128), "bf16", 128),
            TensorMap(c, (128, 64), "bf16")]  # fmt: skip
    launch("nvcc/wgmma_gemm.ptx", [*maps, I32(k)], grid=(-(-n // 128), -(-m // 128)), block=(288,),
           dynamic_shared=132 * 1024, **options)  # fmt: skip
    x, y = a.astype(np.float64), b.astype(np.float64)
    sigma = np.sqrt((x**2) @ (y**2).T)
    close(c.astype(np.float64), x @ y.T, 2**-8, k * 2**-23 * sigma)


def test_a_stage_released_too_early(rng: np.random.Generator) -> None:
    """The same PTX without the wait for wgmma: the machine names the line of the .cu."""
    text = (HERE / "nvcc/wgmma_gemm.ptx").read_text()
    wait = "wgmma.wait_group.sync.aligned 0;"
    assert text.count(wait) >= 1
    damaged = decode(parse(text.replace(wait, "")))
    a, b = normal(rng, (128, 512), BF16), normal(rng, (128, 512), BF16)
    c = aligned((128, 128), BF16, np.nan)
    maps = [TensorMap(a, (64, 128), "bf16", 128), TensorMap(b, (64, 128), "bf16", 128),
            TensorMap(c, (128, 64), "bf16")]  # fmt: skip
    with pytest.raises(TileError, match=r"wgmma_gemm\.cu"):
        launch("", [*maps, I32(512)], grid=(1,), block=(288,), made=damaged,
                       dynamic_shared=132 * 1024)  # fmt: skip


@pytest.mark.parametrize("shape", [(64, 64, 64), (100, 72, 40), (64, 128, 8)])
def test_mma_gemm(shape: tuple[int, int, int], rng: np.random.Generator, options: Options) -> None:
    m, n, k = shape
    a, b = normal(rng, (m, k), F16), normal(rng, (k, n), F16)
    c = aligned((m, n), np.float32, np.nan)
    launch("nvcc/mma_gemm.ptx", [a, b, c, I32(m), I32(n), I32(k)], entry="mma_gemm",
           grid=(-(-n // 64), -(-m // 64)), block=(128,), **options)  # fmt: skip
    close(c, a.astype(np.float64) @ b.astype(np.float64), 0, k * 2**-20)


def test_mma_kinds(rng: np.random.Generator, options: Options) -> None:
    a8 = aligned((16, 32), np.int8, rng.integers(-128, 128, (16, 32)))
    b8 = aligned((8, 32), np.int8, rng.integers(-128, 128, (8, 32)))
    a32, b32 = normal(rng, (16, 8), np.float32), normal(rng, (8, 8), np.float32)
    a64, b64 = normal(rng, (8, 4), np.float64), normal(rng, (8, 4), np.float64)
    c8, c32 = aligned((16, 8), I32), aligned((16, 8), np.float32)
    c64 = aligned((8, 8), np.float64)
    launch("nvcc/mma_gemm.ptx", [a8, b8, c8, a32, b32, c32, a64, b64, c64], entry="mma_kinds",
           grid=(1,), block=(32,), **options)  # fmt: skip
    start = np.zeros((16, 8), I32)
    start[:8, 0::2], start[:8, 1::2], start[8:, 0::2], start[8:, 1::2] = 1, 2, 3, 4
    assert (c8 == a8.astype(I32) @ b8.astype(I32).T + start).all()

    def tf32(x: Array) -> Array:  # to 10 bits, ties away from zero
        bits = x.view(np.uint32).astype(np.uint64) + np.uint64(0x1000)
        return (bits & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32).astype(float)

    close(c32, tf32(a32) @ tf32(b32).T, 0, 2**-18)
    close(c64, a64 @ b64.T + np.tile([0.5, -0.5], 4), 0, 2**-48)


# ------------------------------------------------------------------ clusters


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("steps", [1, 5])
def test_multicast(size: int, steps: int, rng: np.random.Generator, options: Options) -> None:
    x = normal(rng, (steps * size * 16, 32), np.float32)
    out = aligned((size, 32), np.float32)
    launch("nvcc/cluster.ptx", [TensorMap(x, (32, 16), "f32"), out, I32(steps)], grid=(size,),
           entry="multicast_sums", block=(32,), cluster=(size,), **options)  # fmt: skip
    total = x.sum(axis=0, dtype=np.float64)
    close(out, np.arange(1, size + 1)[:, None] * total, 2**-16, 2**-14)


def test_cluster_histogram(rng: np.random.Generator, options: Options) -> None:
    x = aligned(5000, np.uint8, rng.integers(0, 256, 5000))
    bins = aligned(256 + 8 * 4, np.uint32, 0)
    launch("nvcc/cluster.ptx", [x, I32(5000), bins], entry="cluster_histogram", grid=(8,),
           block=(128,), cluster=(4,), **options)  # fmt: skip
    assert (bins[:256] == np.bincount(x, minlength=256)).all()
    before = [(block - 1) % 4 + 1 for block in range(4)] * 2
    assert (bins[256:].reshape(8, 4) == 32 * np.array(before)[:, None]).all()


def test_ring_send(rng: np.random.Generator, options: Options) -> None:
    x = normal(rng, (4, 32, 4), np.float32)
    out = aligned((4, 32, 4), np.float32)
    launch("nvcc/cluster.ptx", [x, out], entry="ring_send", grid=(4,), block=(32,), cluster=(4,),
           **options)  # fmt: skip
    assert (out == np.roll(x, 1, axis=0)).all()


# ------------------------------------------------------------------ pipelines


@pytest.mark.parametrize("chunks", [1, 2, 7])
def test_ring_of_copies(chunks: int, rng: np.random.Generator, options: Options) -> None:
    x = normal(rng, (chunks, 128), np.float32)
    y = aligned((chunks, 128), np.float32)
    launch("nvcc/pipelines.ptx", [x, y, I32(chunks)], entry="ring_of_copies", grid=(1,),
           block=(128,), **options)  # fmt: skip
    scaled = x[:, ::-1] * np.arange(1, chunks + 1, dtype=np.float32)[:, None]
    assert (y == np.maximum.accumulate(scaled, axis=0)).all()


def test_bulk_and_barrier(rng: np.random.Generator, options: Options) -> None:
    x = aligned((3, 2, 64, 4), I32, rng.integers(-1000, 1000, (3, 2, 64, 4)))
    y = aligned((3, 2, 64, 4), I32)
    launch("nvcc/pipelines.ptx", [x, y, I32(3)], entry="bulk_and_barrier", grid=(2,), block=(64,),
           **options)  # fmt: skip
    wanted = np.roll(x, -1, axis=2)
    a, b, c, d = np.moveaxis(wanted.copy(), 3, 0)
    right = np.stack([a + 1, b * 2, c - d, d ^ np.arange(3, dtype=I32)[:, None, None]], 3)
    assert (y == right).all()


def test_pipeline_sum(rng: np.random.Generator, options: Options) -> None:
    x = aligned((5, 256), I32, rng.integers(-(1 << 20), 1 << 20, (5, 256)))
    y = aligned(256, I32)
    launch("nvcc/pipelines.ptx", [x, y, I32(5 * 256)], entry="pipeline_sum", grid=(1,),
           block=(256,), **options)  # fmt: skip
    assert (y == x[:, ::-1].sum(axis=0)).all()


# ------------------------------------------------------------------ warps


def test_warp_sums(rng: np.random.Generator, options: Options) -> None:
    x = normal(rng, (2, 128), np.float32)
    n = aligned((8, 32), I32, rng.integers(-1000, 1000, (8, 32)))
    sums, wholes = aligned(2, np.float64), aligned((9, 8, 32), I32)
    launch("nvcc/warps.ptx", [x, n, sums, wholes], entry="warp_sums", grid=(2,), block=(128,),
           **options)  # fmt: skip
    close(sums, x.sum(axis=1, dtype=np.float64), 0, 1e-12)
    lanes = np.arange(32)
    odd = (n & 1) == 1
    same = (n[:, :, None] & 7) == (n[:, None, :] & 7)
    ranks = np.where(odd, 100 * (np.cumsum(odd, 1) - 1) + odd.sum(1, keepdims=True), -1)
    octets = n.reshape(8, 4, 8)
    quads = n.astype(I32).view(np.int8).reshape(8, 32, 4).astype(int)
    low = n.view(np.uint8).reshape(8, 32, 4)
    pool = np.concatenate([low, (~n).view(np.uint8).reshape(8, 32, 4)], 2).astype(np.int64)
    wanted = [
        np.broadcast_to(n.sum(1, keepdims=True), n.shape),
        np.repeat(octets.min(2), 8, 1),
        np.cumsum(n, 1),
        np.broadcast_to(np.bitwise_xor.reduce(n, 1, keepdims=True), n.shape),
        (same @ (np.int64(1) << lanes)).astype(np.uint32).view(I32),
        n[:, lanes ^ 5],
        ranks,
        7 + quads @ [3, 2, -1, 1],
        (pool[..., [6, 4, 1, 5]] @ [1, 1 << 8, 1 << 16, 1 << 24]).astype(np.uint32).view(I32),
    ]
    for k, right in enumerate(wanted):
        assert (wholes[k] == right).all(), k


def test_compact(rng: np.random.Generator, options: Options) -> None:
    x = aligned(300, I32, rng.integers(-50, 50, 300))
    out, count = aligned(300, I32, 0), aligned(1, I32, 0)
    launch("nvcc/warps.ptx", [x, I32(300), out, count], entry="compact", grid=(5,), block=(64,),
           **options)  # fmt: skip
    positive = x[x > 0]
    assert count[0] == len(positive) and (out[len(positive) :] == 0).all()
    assert (np.sort(out[: len(positive)]) == np.sort(positive)).all()


# ------------------------------------------------------------------ blocks that meet


def test_in_turn(rng: np.random.Generator, options: Options) -> None:
    """Blocks wait for those before them; all are there at once."""
    parts = normal(rng, (6, 150), np.float32)
    y, turn = aligned(150, np.float32, np.nan), aligned(1, np.uint32, 0)
    launch("nvcc/split_k.ptx", [parts, y, turn, I32(150)], entry="in_turn", grid=(6,), block=(64,),
           together=True, **options)  # fmt: skip
    total = np.zeros(150, np.float32)
    for part in parts:
        total = total * np.float32(0.5) + part  # exact halves: fused or not is the same
    assert (y == total).all() and turn[0] == 6


def test_last_block(rng: np.random.Generator, options: Options) -> None:
    x = normal(rng, 3000, np.float32)
    left, done, y = aligned(5, np.float64, np.nan), aligned(1, np.uint32, 0), aligned(1, np.float64)
    launch("nvcc/split_k.ptx", [x, I32(3000), left, done, y], entry="last_block", grid=(5,),
           block=(128,), **options)  # fmt: skip
    close(y, x.sum(dtype=np.float64, keepdims=True), 0, 1e-11)
    assert done[0] == 0


def test_atomics(options: Options) -> None:
    i = np.arange(96)
    f, d = aligned(1, np.float32, 1), aligned(1, np.float64, 2)
    h, b = aligned((2, 2), F16, 0), aligned(2, BF16, 0)
    n = aligned(5, I32, [0, 100, 50, -1, 65530])
    u, v = aligned(4, np.uint64, [5, 0, 3, 0]), aligned(4, np.float32, 0)
    launch("nvcc/split_k.ptx", [f, d, h, b, n, u, v], entry="atomics", grid=(3,), block=(32,),
           **options)  # fmt: skip
    assert f[0] == 1 + 48 and d[0] == 2 + 24
    assert h.astype(float).tolist() == [[96, 48], [192, 0]]
    assert b.astype(float).tolist() == [96, -96]
    mixed = i * 37 % 101
    assert n.tolist() == [mixed.max(), mixed.min() - 60, 50 - 3 * 96, 0, (65530 + 3 * 96) % 65536]
    bits = int(np.bitwise_xor.reduce(np.uint64(1) << (i % 64).astype(np.uint64)))
    assert u.tolist() == [5 + (96 << 33), 77, 95 << 40, bits]
    assert v.tolist() == [96, 192, 288, 12]


# ------------------------------------------------------------------ narrow and wide numbers


def test_to_fp8(rng: np.random.Generator, options: Options) -> None:
    n = 300
    x = aligned(
        (n, 2), np.float32, rng.standard_normal((n, 2)) * 2.0 ** rng.integers(-12, 12, (n, 2))
    )
    x[:4] = [[448, 1e9], [-np.inf, 0.0], [np.nan, -1e-9], [57344, 61000]]
    e4m3, e5m2 = aligned(n, np.uint16), aligned(n, np.uint16)
    back = aligned((2, n, 2), F16)
    launch("nvcc/narrow.ptx", [x, e4m3, e5m2, back, I32(n)], entry="to_fp8", grid=(3,),
           block=(128,), **options)  # fmt: skip
    for k, (codes, dtype, most) in enumerate(
        ((e4m3, ml_dtypes.float8_e4m3fn, 448), (e5m2, ml_dtypes.float8_e5m2, 57344))
    ):
        got = codes.view(np.uint8).view(dtype).reshape(n, 2)
        right = np.clip(x.astype(np.float64), -most, most).astype(np.float32).astype(dtype)
        same = (got.view(np.uint8) == right.view(np.uint8)) | (
            np.isnan(x) & np.isnan(got.astype(float))
        )
        assert same.all(), (dtype, x[~same])
        assert np.array_equal(back[k].astype(float), got.astype(float), equal_nan=True)


def rounded(x: Array, dtype: Any) -> Array:
    """Of float64 that holds the exact result: rounded once."""
    with np.errstate(all="ignore"):
        return x.astype(dtype) if dtype is F16 else _to_bf16(x)


def _to_bf16(x: Array) -> Array:
    """Float64 to bf16 in one rounding (ml_dtypes goes through float32)."""
    fmt = FORMATS["bf16"]

    flat = [
        float(v) if not np.isfinite(v) or v == 0
        else float(Fraction(fmt.rounded(Fraction(float(v)), "rn")))
        for v in x.ravel()
    ]  # fmt: skip
    return np.array(flat).astype(np.float32).astype(BF16).reshape(x.shape)


def test_halves(rng: np.random.Generator, options: Options) -> None:
    n = 200
    a, b = (normal(rng, (n, 2), F16) for _ in range(2))
    y = aligned((10, n, 2), F16)
    launch("nvcc/narrow.ptx", [a, b, y, I32(n)], entry="halves", grid=(2,), block=(128,), **options)
    p, q = a.astype(np.float64), b.astype(np.float64)
    exact = {
        0: p + q, 1: np.maximum(p * q + p, 0), 2: np.clip(p * q, 0, 1), 3: np.maximum(p, q),
        8: (p < q).astype(float), 9: -np.rint(p),
    }  # fmt: skip
    for k, right in exact.items():
        assert (y[k] == right.astype(F16)).all(), k
    for k, right, units in ((4, np.sqrt(abs(p)), 1), (5, np.exp2(p), 2), (6, np.tanh(p), 4),
                            (7, p / q, 1)):  # fmt: skip
        close(y[k].astype(np.float64), right, units * 2**-10, 2**-14 if k == 6 else 2**-24)


def test_brains(rng: np.random.Generator, options: Options) -> None:
    n = 200
    a, b = (normal(rng, (n, 2), BF16) for _ in range(2))
    y = aligned((7, n, 2), BF16)
    launch("nvcc/narrow.ptx", [a, b, y, I32(n)], entry="brains", grid=(2,), block=(128,), **options)
    p, q = a.astype(np.float64), b.astype(np.float64)
    mixed = np.stack(
        [(p[:, 0] * 3).astype(np.float32), q[:, 1].astype(np.float32) * np.float32(0.1)], 1
    )
    exact = {
        0: p + q,
        1: np.maximum(p * q + p, 0),
        2: p * q,
        3: np.minimum(p, q),
        5: mixed,
        6: p - q,
    }
    for k, right in exact.items():
        assert (y[k] == _to_bf16(np.asarray(right, np.float64))).all(), k
    close(y[4].astype(np.float64), 1 / np.sqrt(abs(p)), 2**-8)


def test_wide(rng: np.random.Generator, options: Options) -> None:
    n = 130
    a, b = (aligned(n, np.uint64, rng.integers(0, 1 << 64, n, np.uint64)) for _ in range(2))
    b[:20] >>= np.uint64(40)
    p, q = normal(rng, n, np.float64), normal(rng, n, np.float64)
    y, z = aligned((5, n), np.uint64), aligned((5, n), np.float64)
    launch("nvcc/narrow.ptx", [a, b, y, p, q, z, I32(n)], entry="wide", grid=(2,), block=(96,),
           **options)  # fmt: skip
    low = (1 << 64) - 1
    fmt = FORMATS["f64"]
    for i, (s, t) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        total = (s * t + (t << 64) + s) & ((1 << 128) - 1)
        assert y[:3, i].tolist() == [total >> 64, total & low, total // (t | 1) & low], i
        both = (t & 0xFFFFFFFF) << 32 | s & 0xFFFFFFFF
        assert y[3, i] == (both << i % 32) >> 32 & 0xFFFFFFFF
        assert y[4, i] == 64 - s.bit_length() + 100 * t.bit_count()
        values = [fmt.value(int(v)) for v in (p.view(np.uint64)[i], q.view(np.uint64)[i])]
        product, both_added = multiplied(*values), added(*values, "rp")
        assert not isinstance(product, str)
        assert z[1, i] == float(fmt.rounded(product + 1, "rz"))
        assert z[3, i] == float(fmt.rounded(both_added, "rp"))
    assert (z[0] == p / q).all() and (z[2] == np.sqrt(abs(p))).all()
    assert (z[4] == np.rint(p * 4)).all()


def test_a_missing_proxy_fence(rng: np.random.Generator, options: Options) -> None:
    """Reads of a slot, no fence, and TMA writes it again: what came out was right, so far."""
    text = (HERE / "nvcc/cluster.ptx").read_text()
    fence = "fence.proxy.async.shared::cta;"
    assert text.count(fence) == 1
    damaged = decode(parse(text.replace(fence, "")), "multicast_sums")
    x, out = normal(rng, (5 * 2 * 16, 32), np.float32), aligned((2, 32), np.float32)
    with pytest.raises(TileError, match=r"proxy fence[\s\S]*cluster\.cu"):
        launch("", [TensorMap(x, (32, 16), "f32"), out, I32(5)], made=damaged, grid=(2,),
               block=(32,), cluster=(2,), **options)  # fmt: skip
