"""Forms that few programs have, each against exact numbers: carries, tiles of lanes, 128 bits,
video instructions, small matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ptx_machine.conformance.values import column
from tests.ptx_machine.straight import run
from tiledsl.errors import TileError

Array = np.ndarray[Any, Any]
COUNT = 256
EVERYONE = 0xFFFFFFFF


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("first", ["add", "sub"])
@pytest.mark.parametrize("then", ["addc", "subc"])
def test_a_carry_is_the_adders(bits: int, first: str, then: str) -> None:
    """``a - b`` is ``a + ~b + 1``: behind it the carry says that nothing was borrowed.

    The manual does not say so, the hardware and nvcc's 128-bit division do.
    """
    a, b, c, d = (column(f"i{bits}", f"carries {first} {then} {k}", COUNT) for k in range(4))
    b[:40], d[:40] = a[:40], c[:40]
    kind, full = "r" if bits == 32 else "d", (1 << bits) - 1
    x, y, z = run(
        f"{first}.cc.u{bits} %x, %a, %b; {then}.cc.u{bits} %y, %c, %d; addc.u{bits} %z, 0, 0;",
        kind * 4, kind * 3, [a, b, c, d],
    )  # fmt: skip
    for i in range(COUNT):
        p, q, r, s = (int(v[i]) for v in (a, b, c, d))
        total = p + q if first == "add" else p + (q ^ full) + 1
        more = (r + s if then == "addc" else r + (s ^ full)) + (total >> bits)
        assert [int(v[i]) for v in (x, y, z)] == [total & full, more & full, more >> bits]


@pytest.mark.parametrize("width", [4, 8, 16])
def test_tiles_of_a_warp(width: int) -> None:
    """Lanes that name other lanes are other groups, at one instruction."""
    a = column("i32", f"tiles {width}", COUNT)
    lane = np.arange(COUNT) % 32
    tile = lane // width * width
    masks = (((1 << width) - 1) << tile).astype(np.uint64)
    control = ((32 - width) << 8) | 0x1F
    text = (
        f"shfl.sync.bfly.b32 %x, %a, 1, {control}, %b; redux.sync.xor.b32 %y, %a, %b;"
        " elect.sync %r0|%p0, %b; selp.u32 %z, %r0, 99, %p0;"
        " setp.lt.s32 %p1, %a, 0; vote.sync.ballot.b32 %u, %p1, %b;"
        " and.b32 %r1, %a, 3; match.any.sync.b32 %v, %r1, %b;"
    )
    x, y, z, u, v = run(text, "rr", "rrrrr", [a, masks])
    for i in range(COUNT):
        first = i - i % width
        values = [int(w) for w in a[first : first + width]]
        base = int(tile[i])
        assert x[i] == a[i ^ 1]
        assert y[i] == np.bitwise_xor.reduce(a[first : first + width])
        assert z[i] == (base if i == first else 99)
        assert u[i] == sum(1 << base + k for k, w in enumerate(values) if w >> 31)
        assert v[i] == sum(1 << base + k for k, w in enumerate(values) if (w ^ int(a[i])) & 3 == 0)


def test_registers_of_128_bits() -> None:
    a, b = column("i64", "low", COUNT), column("i64", "high", COUNT)
    x, y = run(".reg .b128 %q0, %q1; mov.b128 %q0, {%a, %b}; mov.b128 %q1, %q0;"
               " mov.b128 {%y, %x}, %q1;", "dd", "dd", [a, b])  # fmt: skip
    assert (x == b).all() and (y == a).all()
    (x,) = run(".reg .b128 %q; mov.b128 %q, {%a, %b}; mov.b128 {_, %x}, %q;", "dd", "d", [a, b])
    assert (x == b).all()
    with pytest.raises(TileError, match="128 bits"):
        run(".reg .b128 %q; mov.b128 %q, %a;", "d", "d", [a])


def test_set_to_bf16() -> None:
    a, b = column("i32", "set a", COUNT), column("u:3", "set b", COUNT)
    a %= np.uint64(3)
    (x,) = run("set.lt.bf16.u32 %x, %a, %b;", "rr", "h", [a, b])
    assert (x == np.where(a < b, 0x3F80, 0)).all()


# ------------------------------------------------------------------ video


def elements(word: int, bits: int, kind: str) -> list[int]:
    """The elements of a register, the lowest first."""
    found = [word >> k & ((1 << bits) - 1) for k in range(0, 32, bits)]
    return [v - (v >> bits - 1 << bits) if kind == "s32" else v for v in found]


VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda p, q: p + q, "vsub": lambda p, q: p - q, "vabsdiff": lambda p, q: abs(p - q),
    "vmin": min, "vmax": max, "vavrg": lambda p, q: math.floor((p + q) / 2 + 0.5 * (p + q >= 0)),
}  # fmt: skip
COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__,
    "ge": int.__ge__,
}  # fmt: skip


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("op", VIDEO)
def test_video(op: str, count: int) -> None:
    bits = 32 // count
    a, b, c = (column("i32", f"{op}{count} {k}", COUNT) for k in range(3))
    for d_kind in ("u32", "s32"):
        for a_kind, b_kind in (("u32", "u32"), ("s32", "s32"), ("u32", "s32")):
            for sat in ("", ".sat"):
                form = f"{op}{count}.{d_kind}.{a_kind}.{b_kind}{sat}"
                (x,) = run(f"{form} %x, %a, %b, %c;", "rrr", "r", [a, b, c])
                low = -(1 << bits - 1) if d_kind == "s32" else 0
                high = (1 << bits - (d_kind == "s32")) - 1
                for i in range(COUNT):
                    p = elements(int(a[i]), bits, a_kind)
                    q = elements(int(b[i]), bits, b_kind)
                    values = [VIDEO[op](s, t) for s, t in zip(p, q, strict=True)]
                    if sat:
                        values = [min(max(v, low), high) for v in values]
                    word = sum((v & (1 << bits) - 1) << bits * k for k, v in enumerate(values))
                    assert int(x[i]) == word, (d_kind, a_kind, b_kind, sat)


@pytest.mark.parametrize("count", [2, 4])
def test_video_sums(count: int) -> None:
    bits = 32 // count
    a, b, c = (column("i32", f"sums{count} {k}", COUNT) for k in range(3))
    (x,) = run(f"vabsdiff{count}.u32.u32.u32.add %x, %a, %b, %c;", "rrr", "r", [a, b, c])
    for i in range(COUNT):
        p, q = (elements(int(v[i]), bits, "u32") for v in (a, b))
        total = int(c[i]) + sum(abs(s - t) for s, t in zip(p, q, strict=True))
        assert int(x[i]) == total & EVERYONE
    b[::2] = a[::2]
    for name, compare in COMPARED.items():
        x, y = run(f"vset{count}.s32.s32.{name} %x, %a, %b, %c; vset{count}.s32.s32.{name}.add %y,"
                   " %a, %b, %c;", "rrr", "rr", [a, b, c])  # fmt: skip
        for i in range(COUNT):
            p, q = (elements(int(v[i]), bits, "s32") for v in (a, b))
            holds = [int(compare(s, t)) for s, t in zip(p, q, strict=True)]
            assert int(x[i]) == sum(h << bits * k for k, h in enumerate(holds)), name
            assert int(y[i]) == int(c[i]) + sum(holds) & EVERYONE
    with pytest.raises(TileError, match=r"\.add"):
        run(f"vadd{count}.u32.u32.u32.add %x, %a, %b, %c;", "rrr", "r", [a, b, c])


# ------------------------------------------------------------------ mma.sync


def words(matrix: Array) -> Array:
    """Registers of 4 bytes, by the manual: row lane // 4, bytes 4 * (lane % 4)...; uint64 [32]."""
    raw = matrix.view(np.uint8).reshape(8, 4, 4).copy().view(np.uint32)
    return raw.reshape(32).astype(np.uint64)


@pytest.mark.parametrize("kinds", [("s8", "s8"), ("u8", "s8"), ("s8", "u8"), ("u8", "u8")])
@pytest.mark.parametrize("saturates", [False, True])
def test_mma_of_8_rows(kinds: tuple[str, str], saturates: bool) -> None:
    rng = np.random.default_rng(abs(hash(kinds)) % 1000)
    dtypes = {"s8": np.int8, "u8": np.uint8}
    a, b = (
        rng.integers(np.iinfo(dtypes[k]).min, np.iinfo(dtypes[k]).max + 1, (8, 16)).astype(
            dtypes[k]
        )
        for k in kinds
    )
    c = rng.integers(-(1 << 31), 1 << 31, (8, 8))
    c[0] = (1 << 31) - 1
    lane = np.arange(32)
    held = [c[lane // 4, lane % 4 * 2 + k].astype(np.uint64) & np.uint64(EVERYONE) for k in (0, 1)]
    sat = ".satfinite" if saturates else ""
    x, y = run(f"mma.sync.aligned.m8n8k16.row.col{sat}.s32.{kinds[0]}.{kinds[1]}.s32 {{%x, %y}},"
               " {%a}, {%b}, {%c, %d};", "rrrr", "rr", [words(a), words(b), *held])  # fmt: skip
    total = a.astype(np.int64) @ b.astype(np.int64).T + c
    if saturates:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    for k, got in enumerate((x, y)):
        assert (got == (total[lane // 4, lane % 4 * 2 + k] & EVERYONE).astype(np.uint64)).all()


@pytest.mark.parametrize("kinds", [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e5m2")])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_mma_of_16_fp8(kinds: tuple[str, str], dtype: str) -> None:
    """Small integers: every sum is exact in either format."""
    rng = np.random.default_rng(abs(hash(kinds)) % 1000)
    dtypes = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
    a = rng.integers(-4, 5, (16, 16)).astype(dtypes[kinds[0]])
    b = rng.integers(-4, 5, (8, 16)).astype(dtypes[kinds[1]])
    lane, product = np.arange(32), a.astype(float) @ b.astype(float).T
    given = [words(a[:8]), words(a[8:]), words(b)]
    form = f"mma.sync.aligned.m16n8k16.row.col.{dtype}.{kinds[0]}.{kinds[1]}.{dtype}"
    places = [(lane // 4 + r, lane % 4 * 2 + c) for r in (0, 8) for c in (0, 1)]
    if dtype == "f32":
        got = run(f"mov.b32 %r0, 0f3F800000; {form} {{%x, %y, %z, %u}}, {{%a, %b}}, {{%c}},"
                  " {%r0, %r0, %r0, %r0};", "rrr", "rrrr", given)  # fmt: skip
        values: list[Array] = [v.astype(np.uint32).view(np.float32) for v in got]
    else:
        got = run(f"mov.b32 %r0, 0x3C003C00; {form} {{%x, %y}}, {{%a, %b}}, {{%c}}, {{%r0, %r0}};",
                  "rrr", "rr", given)  # fmt: skip
        halves = [v.astype(np.uint32).view(np.float16).reshape(32, 2) for v in got]
        values = [half[:, k] for half in halves for k in (0, 1)]
    for value, place in zip(values, places, strict=True):
        assert (value == product[place] + 1).all()
