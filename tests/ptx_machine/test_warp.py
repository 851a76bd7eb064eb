"""The warp family against a model of 32 lanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

from tests.ptx_machine.conformance.values import column
from tests.ptx_machine.straight import run

WARPS = 8
COUNT = 32 * WARPS
EVERYONE = 0xFFFFFFFF
MASKS = (EVERYONE, 0x55555555, 0x80000001, 0x0FFF0000, 0x00000010)


def source(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane that shfl reads, by the manual's pseudo code."""
    by, clamp, segment = b & 31, c & 31, c >> 8 & 31
    most, least = (lane & segment) | (clamp & ~segment), lane & segment
    if mode == "up":
        return lane - by, lane - by >= most
    if mode == "down":
        return lane + by, lane + by <= most
    if mode == "bfly":
        return lane ^ by, lane ^ by <= most
    return least | (by & ~segment & 31), least | (by & ~segment & 31) <= most


@pytest.mark.parametrize("mode", ["idx", "up", "down", "bfly"])
@pytest.mark.parametrize("c", [0x1F, 0x1C03, 0x100F, 0x181F, 0, None])
def test_shuffles(mode: str, c: int | None) -> None:
    a, b = column("i32", f"{mode}#a", COUNT), column("u:40", f"{mode}#b", COUNT)
    controls = column("u:0x2000", f"{mode}#c", COUNT) if c is None else np.full(COUNT, c, np.uint64)
    text = f"shfl.sync.{mode}.b32 %x|%y, %a, %b, %c, 0xffffffff;"
    x, y = run(text, "rrr", "rp", [a, b, controls])
    for i in range(COUNT):
        lane, base = i % 32, i - i % 32
        other, fits = source(mode, lane, int(b[i]), int(controls[i]))
        assert int(y[i]) == fits
        assert int(x[i]) == int(a[base + (other if fits else lane)]), (mode, lane)


@pytest.mark.parametrize("mask", MASKS)
def test_votes(mask: int) -> None:
    p = column("u:20", f"votes {mask}", COUNT) > np.uint64(0)
    p[32:64], p[64:96] = True, False
    given, masks = [p.astype(np.uint64)], np.full(WARPS, mask, np.int64)
    inside = [lane for lane in range(32) if mask >> lane & 1]
    answers: dict[str, Callable[[list[bool]], int]] = {
        "all.pred": lambda v: int(all(v)), "any.pred": lambda v: int(any(v)),
        "uni.pred": lambda v: int(len(set(v)) == 1),
        "ballot.b32": lambda v: sum(1 << lane for lane, bit in zip(inside, v, strict=True) if bit),
    }  # fmt: skip
    for form, answer in answers.items():
        for sign in ("", "!"):
            kind = "p" if form.endswith("pred") else "r"
            (x,) = run(f"vote.sync.{form} %x, {sign}%a, {mask};", "p", kind, given, masks)
            for warp in range(WARPS):
                votes = [bool(p[32 * warp + lane]) != (sign == "!") for lane in inside]
                for lane in range(32):
                    want = answer(votes) if lane in inside else 7
                    assert int(x[32 * warp + lane]) == want, (form, sign, warp, lane)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("bits", [32, 64])
def test_matches(mask: int, bits: int) -> None:
    a = column("u:3", f"match {mask}", COUNT) + np.uint64((1 << bits) - 3)
    a[:32] = 5
    masks = np.full(WARPS, mask, np.int64)
    c = "r" if bits == 32 else "d"
    (some,) = run(f"match.any.sync.b{bits} %x, %a, {mask};", c, "r", [a], masks)
    every, same = run(f"match.all.sync.b{bits} %x|%y, %a, {mask};", c, "rp", [a], masks)
    for warp in range(WARPS):
        values = {lane: int(a[32 * warp + lane]) for lane in range(32) if mask >> lane & 1}
        for lane, value in values.items():
            at = 32 * warp + lane
            assert int(some[at]) == sum(1 << other for other, v in values.items() if v == value)
            alike = len(set(values.values())) == 1
            assert (int(every[at]), int(same[at])) == (mask if alike else 0, int(alike))


@pytest.mark.parametrize("mask", MASKS)
def test_reductions(mask: int) -> None:
    a = column("i32", f"redux {mask}", COUNT)
    masks = np.full(WARPS, mask, np.int64)

    def signed(x: int) -> int:
        return x - (1 << 32) if x >> 31 else x

    forms: dict[str, Callable[[list[int]], int]] = {
        "add.u32": sum, "add.s32": sum, "min.u32": min, "max.u32": max,
        "min.s32": lambda v: min(map(signed, v)), "max.s32": lambda v: max(map(signed, v)),
        "and.b32": lambda v: reduce(lambda x, y: x & y, v),
        "or.b32": lambda v: reduce(lambda x, y: x | y, v),
        "xor.b32": lambda v: reduce(lambda x, y: x ^ y, v),
    }  # fmt: skip
    for form, answer in forms.items():
        (x,) = run(f"redux.sync.{form} %x, %a, {mask};", "r", "r", [a], masks)
        for warp in range(WARPS):
            values = [int(a[32 * warp + lane]) for lane in range(32) if mask >> lane & 1]
            for lane in range(32):
                want = answer(values) & EVERYONE if mask >> lane & 1 else 7
                assert int(x[32 * warp + lane]) == want, (form, warp, lane)


@pytest.mark.parametrize("mask", MASKS)
def test_elections(mask: int) -> None:
    masks = np.full(WARPS, mask, np.int64)
    given = [np.zeros(COUNT, np.uint64)]
    leader, elected = run(f"elect.sync %x|%y, {mask};", "r", "rp", given, masks)
    (active,) = run("activemask.b32 %x;", "r", "r", given, masks)
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    for lane in lanes:
        assert int(elected[32 + lane]) == (lane == lanes[0])
        assert int(leader[32 + lane]) == lanes[0] and int(active[32 + lane]) == mask
