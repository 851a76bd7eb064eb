"""The convert family against exact arithmetic: every pair of types, of 16 bits all values."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor

import numpy as np
import pytest

from tests.ptx_machine.conformance.values import column
from tests.ptx_machine.exact import FORMATS, Value, negative, number
from tests.ptx_machine.straight import run

COUNT = 640
CLASS = {"f16": "h", "bf16": "h", "f32": "r", "f64": "d"}
INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
MODES = ("rn", "rz", "rm", "rp")
Codes = np.ndarray[tuple[int], np.dtype[np.uint64]]


def register(kind: str) -> str:
    return CLASS.get(kind) or {"8": "h", "16": "h", "32": "r", "64": "d"}[kind[1:]]


def whole(x: Fraction, mode: str) -> int:
    """An integer, by rn, rz, rm or rp."""
    down = floor(x)
    if mode == "rz":
        return down if x >= 0 or x == down else down + 1
    if mode in ("rm", "rp"):
        return down if mode == "rm" or x == down else down + 1
    part = x - down
    return down + (part > Fraction(1, 2) or (part == Fraction(1, 2) and down % 2 == 1))


def clamp(x: int, kind: str) -> int:
    bits = int(kind[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return max(low, min(high, x))


def signed(x: int, kind: str) -> int:
    bits = int(kind[1:])
    x &= (1 << bits) - 1
    return x - (1 << bits) if kind[0] == "s" and x >> (bits - 1) else x


def saturated(x: Value) -> Value:
    if x == "nan" or number(x) <= 0:
        return Fraction(0)
    return min(number(x), Fraction(1))  # type: ignore[return-value]


def inputs(kind: str, text: str) -> Codes:
    """All 65536 values of 16-bit types, many of others."""
    if kind in ("f16", "bf16"):
        return np.arange(1 << 16, dtype=np.uint64)
    if kind in CLASS:
        return column(kind, text, COUNT)
    if kind[1:] in ("8", "16"):
        return np.arange(1 << int(kind[1:]), dtype=np.uint64)
    return column(f"i{kind[1:]}", text, COUNT)


def compare(text: str, found: Codes, given: Codes, wanted: list[int | None], kind: str) -> None:
    form = FORMATS[kind]
    for k, want in enumerate(wanted):
        got = int(found[k])
        same = form.value(got) == "nan" if want is None else got == want
        assert same, (
            f"{text} of {int(given[k]):#x}: {got:#x}, not {want if want is None else hex(want)}"
        )


@pytest.mark.parametrize("source", INTEGERS)
def test_between_integers(source: str) -> None:
    given = inputs(source, f"from {source}")
    for target in INTEGERS:
        for sat in ("", ".sat"):
            text = f"cvt{sat}.{target}.{source}"
            (found,) = run(f"{text} %x, %a;", register(source), register(target), [given])
            bits = {"h": 16, "r": 32, "d": 64}[register(target)]
            for k, code in enumerate(given):
                x = signed(int(code), source)
                x = clamp(x, target) if sat else signed(x, target)
                assert int(found[k]) == x & ((1 << bits) - 1), f"{text} of {int(code):#x}"


@pytest.mark.parametrize("source", CLASS)
@pytest.mark.parametrize("mode", MODES)
def test_to_integers(source: str, mode: str) -> None:
    form = FORMATS[source]
    for target in ("s8", "u16", "s32", "u32", "s64", "u64"):
        if source == "bf16" and target == "s8":
            continue
        text = f"cvt.{mode}i.{target}.{source}"
        given = inputs(source, text)[:: 7 if source in ("f16", "bf16") else 1]
        (found,) = run(f"{text} %x, %a;", register(source), register(target), [given])
        bits = {"h": 16, "r": 32, "d": 64}[register(target)]
        for k, code in enumerate(given):
            x = form.value(int(code))
            if x == "nan":
                continue  # the recorded probes have it
            ends = {"inf": 1 << 70, "-inf": -(1 << 70), "-0": 0}
            n = ends[x] if isinstance(x, str) else whole(x, mode)
            want = clamp(n, target) & ((1 << bits) - 1)
            assert int(found[k]) == want, f"{text} of {int(code):#x}: {int(found[k]):#x}"


@pytest.mark.parametrize("target", CLASS)
@pytest.mark.parametrize("mode", MODES)
def test_from_integers(target: str, mode: str) -> None:
    form = FORMATS[target]
    for source in ("u8", "s16", "s32", "u32", "s64", "u64"):
        if target == "bf16" and source == "u8":
            continue
        for sat in ("", ".sat") if target != "bf16" else ("",):
            text = f"cvt.{mode}{sat}.{target}.{source}"
            given = inputs(source, text)[:: 7 if source == "s16" else 1]
            (found,) = run(f"{text} %x, %a;", register(source), register(target), [given])
            wanted = []
            for code in given:
                x: Value = form.rounded(Fraction(signed(int(code), source)), mode)
                wanted.append(form.code(saturated(x) if sat else x))
            compare(text, found, given, wanted, target)


def narrowing() -> Iterator[tuple[str, str, str]]:
    """(modifiers, target, source)."""
    for mode in MODES:
        for target, source in (("f32", "f64"), ("f16", "f64"), ("bf16", "f64"), ("f16", "f32"),
                               ("bf16", "f32"), ("f16", "bf16"), ("bf16", "f16")):  # fmt: skip
            yield f".{mode}", target, source
        yield f".{mode}.sat", "f16", "f32"
        yield f".{mode}.sat", "f32", "f64"
        yield f".{mode}.ftz", "f32", "f64"
        for kind in CLASS:
            yield f".{mode}i", kind, kind
        yield f".{mode}i.ftz", "f32", "f32"
        yield f".{mode}i.sat", "f32", "f32"
    for words in (".rn.relu", ".rz.relu", ".rn.satfinite", ".rz.relu.satfinite"):
        yield words, "f16", "f32"
        yield words, "bf16", "f32"
    for target, source in (("f64", "f32"), ("f64", "f16"), ("f64", "bf16"), ("f32", "f16"),
                           ("f32", "bf16")):  # fmt: skip
        yield "", target, source
    yield ".sat", "f32", "f16"
    yield ".ftz", "f32", "f16"
    yield ".ftz", "f64", "f32"


def expected(x: Value, words: list[str], target: str, source: str) -> int | None:
    form = FORMATS[target]
    if "ftz" in words and source == "f32" and target != "f16":
        x = FORMATS["f32"].flushed(x)
    mode = next((w for w in words if w[:2] in MODES), "rn")
    if mode.endswith("i"):
        if not isinstance(x, str):
            n = whole(x, mode[:2])
            x = Fraction(n) if n or not negative(x) else "-0"
    infinite = x in ("inf", "-inf")
    x = form.rounded(x, mode[:2])
    if "satfinite" in words and (infinite or x in ("inf", "-inf")):
        x = -form.greatest if negative(x) else form.greatest
    if "ftz" in words and target == "f32":
        x = form.flushed(x)
    if "sat" in words:
        x = saturated(x)
    if "relu" in words and x != "nan" and number(x) <= 0:
        x = Fraction(0)
    return form.code(x)


@pytest.mark.parametrize(
    "case", list(narrowing()), ids=lambda case: f"cvt{case[0]}.{case[1]}.{case[2]}"
)
def test_between_floats(case: tuple[str, str, str]) -> None:
    words, target, source = case
    text = f"cvt{words}.{target}.{source}"
    given = inputs(source, text)
    given = given if len(given) < 4096 else given[::5]
    (found,) = run(f"{text} %x, %a;", register(source), register(target), [given])
    values = [FORMATS[source].value(int(code)) for code in given]
    wanted = [expected(x, words.split(".")[1:], target, source) for x in values]
    compare(text, found, given, wanted, target)


@pytest.mark.parametrize(
    ("half", "words"),
    [(half, words) for half in ("f16", "bf16", "e4m3", "e5m2") for words in ("rn", "rz", "rn.relu")
     if half[0] != "e" or words != "rz"],
)  # fmt: skip
def test_pairs(half: str, words: str) -> None:
    """Two f32 into one register, the first above; fp8 with .satfinite, which is not optional."""
    small = half[0] == "e"
    end = words.replace("rn", "rn.satfinite") if small else words
    text = f"cvt.{end}.{half}x2.f32"
    first, second = column("f32", f"{text}#0", 2 * COUNT), column("f32", f"{text}#1", 2 * COUNT)
    (found,) = run(f"{text} %x, %a, %b;", "rr", "h" if small else "r", [first, second])
    form = FORMATS[half]
    for part, given in ((1, first), (0, second)):
        codes = found >> np.uint64(part * form.bits) & np.uint64((1 << form.bits) - 1)
        wanted = [
            expected(FORMATS["f32"].value(int(code)), end.split("."), half, "f32") for code in given
        ]
        compare(text, codes, given, wanted, half)


@pytest.mark.parametrize("half", ["e4m3", "e5m2"])
def test_fp8(half: str) -> None:
    """To f16x2, all of them; from f16x2, all f16."""
    form = FORMATS[half]
    given = np.arange(1 << 16, dtype=np.uint64)
    (found,) = run(f"cvt.rn.f16x2.{half}x2 %x, %a;", "h", "r", [given])
    for part in (0, 1):
        codes = found >> np.uint64(16 * part) & np.uint64(0xFFFF)
        small = given >> np.uint64(8 * part) & np.uint64(0xFF)
        table = [FORMATS["f16"].code(form.value(code)) for code in range(256)]
        compare(half, codes[::3], small[::3], [table[int(code)] for code in small[::3]], "f16")
    pair = given | np.roll(given, 1) << np.uint64(16)
    (found,) = run(f"cvt.rn.satfinite.{half}x2.f16x2 %x, %a;", "r", "h", [pair])
    wanted = [
        expected(FORMATS["f16"].value(code), ["rn", "satfinite"], half, "f16")
        for code in range(0, 1 << 16, 3)
    ]
    compare(half, (found & np.uint64(0xFF))[::3], given[::3], wanted, half)
    assert np.array_equal(found >> np.uint64(8), np.roll(found & np.uint64(0xFF), 1))


@pytest.mark.parametrize("mode", ["rn", "rz", "rna"])
def test_tf32(mode: str) -> None:
    given = column("f32", f"tf32 {mode}", 2 * COUNT)
    (found,) = run(f"cvt.{mode}.tf32.f32 %x, %a;", "r", "r", [given])
    form = FORMATS["tf32"]
    assert not np.any(found & np.uint64(0x1FFF))
    for k, code in enumerate(given):
        x = FORMATS["f32"].value(int(code))
        if x != "nan":
            want = form.code(form.rounded(x, mode))
            assert int(found[k]) >> 13 == want, f"{mode} of {int(code):#x}"


def test_saturated_integers() -> None:
    given = [column("i32", f"cvt.pack#{k}", COUNT) for k in range(3)]
    for kind, bits in (("u16", 16), ("s16", 16), ("u8", 8), ("s8", 8)):
        more, third = (".b32", ", %c") if bits == 8 else ("", "")
        (found,) = run(f"cvt.pack.sat.{kind}.s32{more} %x, %a, %b{third};", "rrr", "r", given)
        for k in range(COUNT):
            a, b = (clamp(signed(int(g[k]), "s32"), kind) & ((1 << bits) - 1) for g in given[:2])
            c = int(given[2][k]) if bits == 8 else 0
            assert int(found[k]) == (c << 2 * bits | a << bits | b) & 0xFFFFFFFF
