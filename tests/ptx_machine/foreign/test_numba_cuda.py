"""PTX of numba-cuda on the machine, against NumPy in higher precision."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ptx_machine.foreign.launch import HERE, aligned, close, launch_numba
from tests.ptx_machine.foreign.make import digest
from tiledsl.errors import TileError
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import decode

Array = np.ndarray[Any, Any]
I32 = np.int32


def test_every_file_was_made_from_the_source() -> None:
    source = HERE / "numba_cuda" / "kernels.py"
    names = set(re.findall(r"@kernel\(.*\)\ndef (\w+)", source.read_text()))
    assert len(names) == 15 and names == {p.stem for p in source.parent.glob("*.ptx")}
    for path in source.parent.glob("*.ptx"):
        first = path.read_text().partition("\n")[0]
        assert first.startswith(f"// From kernels.py ({digest(source)}), by numba-cuda "), path


def test_block_sum(rng: np.random.Generator, options: dict[str, Any]) -> None:
    x = aligned(5003, np.float32, rng.standard_normal(5003))
    total = aligned(1, np.float64, 1.5)
    launch_numba("block_sum", [x, total], grid=(3,), block=(256,), **options)
    close(total, 1.5 + np.asarray(x.astype(np.float64).sum()), 0, 1e-10)


def test_histogram(rng: np.random.Generator, options: dict[str, Any]) -> None:
    x = aligned(3001, np.uint8, np.minimum(rng.integers(3, 300, 3001), 250))
    bins, extremes = aligned(256, I32, 7), aligned(2, I32, [-1, 1000])
    launch_numba("histogram", [x, bins, extremes], grid=(4,), block=(96,), **options)
    assert (bins == 7 + np.bincount(x, minlength=256)).all()
    assert extremes.tolist() == [x.max(), x.min()]


def test_all_atomics(options: dict[str, Any]) -> None:
    i = np.arange(192)
    f, d = aligned(3, np.float32, [0, -1e9, 1e9]), aligned(3, np.float64, [0, -1e9, np.nan])
    n, u = aligned(4, np.int64, [5, -9999, 9999, 0]), aligned(7, np.uint32, [0, -1 & 0xFFFFFFFF, 1,
                                                                        0, 5, 3, 1000])  # fmt: skip
    launch_numba("all_atomics", [f, d, n, u], grid=(3,), block=(64,), **options)
    parts = i % 101 - 50
    assert f.tolist() == [(i % 7).sum(), parts.max(), parts.min()]
    assert d[:2].tolist() == [(i * 0.25).sum(), 0.0]
    assert np.isnan(d[2])  # Numba compares and swaps: nothing is less than NaN
    mixed = i * 1000003 % 9973 - 5000
    assert n[:3].tolist() == [5 + (i - 40).sum(), mixed.max(), mixed.min()] and 1 <= n[3] <= 192
    wrapped = [0, 5]
    for _ in i:
        wrapped[0] = 0 if wrapped[0] >= 9 else wrapped[0] + 1
        wrapped[1] = 9 if wrapped[1] == 0 or wrapped[1] > 9 else wrapped[1] - 1
    assert u.tolist() == [0xFFFFFFFF, 0xFFFFE000, 1 ^ int(np.bitwise_xor.reduce(i)), *wrapped, 77,
                          1000 - 3 * 192]  # fmt: skip


def test_sort_rows(rng: np.random.Generator, options: dict[str, Any]) -> None:
    """Equal keys keep their order: a stable sort has one answer."""
    x = aligned((100, 9), np.float32, rng.integers(-5, 5, (100, 9)) * 0.25)
    before, order = x.copy(), aligned((100, 9), I32)
    launch_numba("sort_rows", [x, order], grid=(4,), block=(32,), **options)
    wanted = np.argsort(before, axis=1, kind="stable")
    assert (order == wanted).all() and (x == np.take_along_axis(before, wanted, 1)).all()


_each: dict[str, Callable[..., Any]] = {
    name: np.vectorize(getattr(math, name)) for name in ("erf", "lgamma", "cbrt")
}


def test_double_functions(rng: np.random.Generator, options: dict[str, Any]) -> None:
    x = aligned(200, np.float64, rng.standard_normal(200) * 3)
    x[:3] = 0.5, -1.0, 1e-8
    y = aligned((15, 200), np.float64)
    launch_numba("double_functions", [x, y], grid=(2,), block=(128,), **options)
    a = np.abs(x)
    wanted = [
        np.sin(x), np.cos(x), np.exp(x), np.log(a), np.sqrt(a), np.tanh(x), _each["erf"](x),
        np.arctan2(x, 1 - x), a**1.7, np.floor(x * 10), np.fmod(x, 0.7), _each["lgamma"](a + 0.5),
        np.log1p(a), np.hypot(x, 2), 1 / x,
    ]  # fmt: skip
    for k, (got, right) in enumerate(zip(y, wanted, strict=True)):
        print("function", k)
        # libdevice's bounds are 1 to 5 units in the last place; log's zeros need an absolute one.
        close(got, right, 2**-50, {3: 2**-50, 11: 2**-47}.get(k, 0.0))
    assert (y[[4, 9, 10, 14]] == np.array(wanted)[[4, 9, 10, 14]]).all()  # rounded correctly


def test_float_functions(rng: np.random.Generator, options: dict[str, Any]) -> None:
    x = aligned(200, np.float32, np.clip(rng.standard_normal(200) * 3, -9.9, 9.9))
    x[:2] = 0.5, -1.0
    y = aligned((15, 200), np.float32)
    launch_numba("float_functions", [x, y], grid=(2,), block=(128,), **options)
    d = x.astype(np.float64)
    a = np.abs(d)
    wanted = [
        np.sin(d), np.cos(d), np.exp(d), np.log(a), np.sqrt(a), np.tanh(d), _each["erf"](d),
        np.arctan2(d, (np.float32(1) - x).astype(np.float64)), a ** float(np.float32(1.7)),
        np.ceil((x * np.float32(10)).astype(np.float64)),
        np.arccos((x / np.float32(10)).astype(np.float64)), np.expm1(d), np.log2(a), 1 / d,
        _each["cbrt"](d),
    ]  # fmt: skip
    for k, (got, right) in enumerate(zip(y, wanted, strict=True)):
        print("function", k)
        close(got, right, 2**-20, 2**-22 if k in (0, 1, 3, 12) else 0.0)
    for k in (4, 9, 13):
        assert (y[k] == wanted[k].astype(np.float32)).all()


def test_stencil(rng: np.random.Generator, options: dict[str, Any]) -> None:
    """Arrays with strides of their own: one is transposed, one has rows to spare."""
    n, m = 37, 21
    x = aligned((m, n), np.float32, rng.standard_normal((m, n))).T
    y = aligned((n, m + 5), np.float32)[:, :m]
    weight = np.float32(0.3)
    launch_numba("stencil", [x, y, weight], grid=(3, 2), block=(16, 16), **options)
    wide = np.pad(x.astype(np.float64), 1)
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    w = float(weight)
    close(y, (1 - w) * wide[1:-1, 1:-1] + w * 0.25 * around, 2**-20, 2**-20)


@pytest.mark.parametrize("shape", [(33, 50, 20), (16, 16, 16)])
def test_matmul(
    shape: tuple[int, int, int], rng: np.random.Generator, options: dict[str, Any]
) -> None:
    m, k, n = shape
    a = aligned((m, k), np.float32, rng.standard_normal((m, k)))
    b = aligned((k, n), np.float32, rng.standard_normal((k, n)))
    c = aligned((m, n), np.float32, np.nan)
    launch_numba("matmul", [a, b, c], grid=(-(-m // 16), -(-n // 16)), block=(16, 16), **options)
    close(c, a.astype(np.float64) @ b.astype(np.float64), 0, k * 2**-22)


def test_escape_times(rng: np.random.Generator, options: dict[str, Any]) -> None:
    points = aligned(150, np.complex128, rng.uniform(-2, 1, 150) + 1j * rng.uniform(-1, 1, 150))
    times = aligned(150, I32)
    launch_numba("escape_times", [points, times, I32(60)], grid=(2,), block=(96,), **options)
    z, count = np.zeros(150, complex), np.zeros(150, int)
    near = np.zeros(150, bool)  # where another rounding may count one more or less
    for _ in range(60):
        size = z.real**2 + z.imag**2
        inside = size <= 4
        near |= np.abs(size - 4) < 1e-6
        count += inside
        z = np.where(inside, z * z + points, z)
    # Roundings grow in chaotic orbits: those stay out that a small change sends elsewhere.
    w, other = np.zeros(150, complex), np.zeros(150, int)
    for _ in range(60):
        inside = w.real**2 + w.imag**2 <= 4
        other += inside
        w = np.where(inside, w * w + points * (1 + 1e-13), w)
    sure = ~near & (count == other)
    assert sure.sum() > 120 and len(set(count[sure])) > 8
    assert (times == count)[sure].all()


def test_complex_numbers(rng: np.random.Generator, options: dict[str, Any]) -> None:
    x, y = (
        aligned(70, np.complex64, rng.standard_normal(70) + 1j * rng.standard_normal(70))
        for _ in range(2)
    )
    products, values = aligned(70, np.complex64), aligned(70, np.complex128)
    launch_numba("complex_numbers", [x, y, products, values], grid=(3,), block=(32,), **options)
    a, b = x.astype(complex), y.astype(complex)
    assert (np.abs(products - (a * b.conj() + 1j)) < 2**-20 * (np.abs(a * b) + 1)).all()
    wanted = np.exp(a) / b + np.abs(a)
    assert (np.abs(values - wanted) < 2**-48 * (np.abs(wanted) + np.abs(a))).all()


def test_collatz(rng: np.random.Generator, options: dict[str, Any]) -> None:
    x = aligned(90, np.int64, rng.integers(1, 100_000, 90))
    x[:3] = 1, 27, 97
    steps, peaks = aligned(90, I32), aligned(90, np.int64)
    launch_numba("collatz", [x, steps, peaks], grid=(1,), block=(64,), **options)
    for given, count, peak in zip(x.tolist(), steps, peaks, strict=True):
        n, k, high = given, 0, given
        while n > 1 and k <= 500:
            n = 3 * n + 1 if n % 2 else n // 2
            high, k = max(high, n), k + 1
        assert (count, peak) == (k, high), given


def test_calls(rng: np.random.Generator, options: dict[str, Any]) -> None:
    """Not optimised: functions with arguments and results in .param, frames in local memory."""
    a, b = (aligned(60, I32, rng.integers(1, 5000, 60)) for _ in range(2))
    coefficients = aligned(6, np.float64, rng.standard_normal(6))
    found, values = aligned((2, 60), I32), aligned(60, np.float64)
    arguments = [a, b, coefficients, found, values]
    launch_numba("calls", arguments, grid=(2,), block=(32,), **options)
    common = np.gcd(a, b)
    assert (found == [common, a // common]).all()
    close(values, np.polyval(coefficients, a / b), 1e-9, 1e-9)


def test_warps(rng: np.random.Generator, options: dict[str, Any]) -> None:
    x = aligned(128, I32, rng.integers(-40, 40, 128))
    x[32:64] = 17
    y = aligned((12, 128), I32)
    launch_numba("warps", [x, y], grid=(2,), block=(64,), **options)
    lanes = np.arange(32)
    bits = np.int64(1) << lanes
    for warp in range(4):
        value = x[32 * warp : 32 * warp + 32].astype(np.int64)
        got = y[:, 32 * warp : 32 * warp + 32].astype(np.int64) & 0xFFFFFFFF
        word = value & 0xFFFFFFFF
        texts = [f"{w:032b}" for w in word]
        ones = (value % 2 == 0) * bits
        wanted = [
            np.full(32, ((value % 3 == 0) * bits).sum()),
            ((value % 5)[:, None] == (value % 5)[None]) @ bits,
            np.full(32, 0xFFFFFFFF),
            np.full(32, 1 + 2 * (value == 17).any()),
            word[(lanes * 7 + 3) % 32],
            np.where(lanes >= 3, np.roll(word, 3), word),
            [t.count("1") + 100 * (32 - len(t.lstrip("0"))) for t in texts],
            [int(t[::-1], 2) for t in texts],
            [len(t) - t.rindex("1") if "1" in t else 0 for t in texts],
            np.where(lanes % 2, ones[1::2].sum(), word[lanes ^ 2]),
            np.abs(value),
            np.full(32, 0xFFFFFFFF),
        ]  # fmt: skip
        wanted[10] = np.where(value > 5, value, -value)
        for k, right in enumerate(wanted):
            assert (got[k] == np.asarray(right) % (1 << 32)).all(), (warp, k)


@pytest.mark.parametrize("threads", [64, 256])
def test_scan(threads: int, rng: np.random.Generator, options: dict[str, Any]) -> None:
    x = aligned(2 * threads, I32, rng.integers(-99, 99, 2 * threads))
    y = aligned(2 * threads, I32)
    launch_numba("scan", [x, y], grid=(2,), block=(threads,), dynamic_shared=8 * threads, **options)
    assert (y.reshape(2, -1) == np.cumsum(x.reshape(2, -1), axis=1)).all()


def test_integers(rng: np.random.Generator, options: dict[str, Any]) -> None:
    a = aligned(96, np.int8, rng.integers(-128, 128, 96))
    b = aligned(96, np.int16, rng.integers(-300, 300, 96))
    c = aligned(96, np.uint64, rng.integers(0, 1 << 64, 96, np.uint64))
    y, z = aligned((8, 96), np.int64), aligned(96, np.float32)
    launch_numba("integers", [a, b, c, y, z], grid=(3,), block=(32,), **options)
    weights = (0.25, -1.5, 3.0, 0.125, 7.0)
    for i, (p, q, r) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        divisor, s = q or 1, r - (1 << 64) if r >> 63 else r
        wanted = [
            p // divisor, p % divisor, r // (i + 1), r % (i + 3), s >> i % 64, r >> i % 64,
            p * q ^ s, s // divisor,
        ]  # fmt: skip
        assert [int(v) % (1 << 64) for v in y[:, i]] == [w % (1 << 64) for w in wanted], i
        assert z[i] == np.float32(weights[i % 5] * p + weights[(i + 2) % 5])


def test_an_error_names_the_python_line(options: dict[str, Any]) -> None:
    """Numba checks no index: here the machine does."""
    x, y = aligned(64, I32, 1), aligned(63, I32)
    with pytest.raises(TileError, match=r"kernels\.py:\d+.*|out of bounds") as caught:
        launch_numba("scan", [x, y], grid=(1,), block=(64,), dynamic_shared=512, **options)
    text = str(caught.value)
    assert "out of bounds" in text and "kernels.py" in text and "argument 1" in text, text


@pytest.mark.parametrize("which", [0, 1])
def test_a_missing_barrier(which: int, options: dict[str, Any]) -> None:
    """Without one of its bar.sync the scan is a race, whatever comes out."""
    text = (HERE / "numba_cuda/scan.ptx").read_text()
    pieces = text.split("bar.sync \t0;")
    assert len(pieces) >= 3
    pieces[which : which + 2] = [pieces[which] + pieces[which + 1]]
    x, y = aligned(64, I32, 1), aligned(64, I32)
    with pytest.raises(TileError, match="race"):
        launch_numba("scan", [x, y], grid=(1,), block=(64,), dynamic_shared=512,
                     made=decode(parse("bar.sync \t0;".join(pieces))), **options)  # fmt: skip
