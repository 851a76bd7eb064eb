"""The floating family against exact arithmetic (exact.py), in every rounding mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest

from tests.ptx_machine.conformance.values import column
from tests.ptx_machine.exact import (
    FORMATS,
    Format,
    Value,
    added,
    divided,
    multiplied,
    negative,
    number,
    opposite,
    root,
    signed,
)  # fmt: skip
from tests.ptx_machine.straight import run

COUNT = 640
CLASS = {"f16": "h", "bf16": "h", "f32": "r", "f64": "d"}
MODES = ("rn", "rz", "rm", "rp")
Inexact = tuple[Value, int]


def finish(x: Inexact, form: Format, words: Sequence[str]) -> int | None:
    """The bits of a result that the modifiers make of an exact number; None: any NaN."""
    mode = next((w for w in words if w in MODES), "rn")
    # f16 is flushed before it is rounded (as the H200 does), f32 behind it.
    z = form.flushed(x[0]) if "ftz" in words and form.name == "f16" else x[0]
    y = form.rounded(z, mode, x[1])
    if "ftz" in words:
        y = form.flushed(y)
    if "sat" in words:
        y = Fraction(0) if y == "nan" or number(y) <= 0 else min(number(y), Fraction(1))  # type: ignore[assignment]
    if "relu" in words and y != "nan" and number(y) <= 0:
        y = Fraction(0)
    return form.code(y)


Op = Callable[..., Inexact]
OPS: dict[str, Op] = {
    "add": lambda mode, a, b: (added(a, b, mode), 0),
    "sub": lambda mode, a, b: (added(a, opposite(b) if b != "nan" else b, mode), 0),
    "mul": lambda mode, a, b: (multiplied(a, b), 0),
    "fma": lambda mode, a, b, c: (added(multiplied(a, b), c, mode), 0),
    "mad": lambda mode, a, b, c: (added(multiplied(a, b), c, mode), 0),
    "div": lambda mode, a, b: (divided(a, b), 0),
    "rcp": lambda mode, a: (divided(Fraction(1), a), 0),
    "sqrt": lambda mode, a: root(a),
}


def rounded_forms() -> Iterator[str]:
    for rnd in MODES:
        for ftz in ("", ".ftz"):
            for sat in ("", ".sat"):
                for op in ("add", "sub", "mul", "fma"):
                    yield f"{op}.{rnd}{ftz}{sat}.f32"
            for op in ("div", "rcp", "sqrt"):
                yield f"{op}.{rnd}{ftz}.f32"
        for op in ("add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt"):
            yield f"{op}.{rnd}.f64"
    for op in ("add", "sub", "mul"):
        yield f"{op}.f32"
        yield f"{op}.f64"
        yield f"{op}.bf16"
        yield f"{op}.rn.bf16"
        for ftz in ("", ".ftz"):
            for sat in ("", ".sat"):
                yield f"{op}{ftz}{sat}.f16"
    for ftz in ("", ".ftz"):
        for end in ("", ".sat", ".relu"):
            yield f"fma.rn{ftz}{end}.f16"
    yield "fma.rn.bf16"
    yield "fma.rn.relu.bf16"


def operands(text: str, kind: str, count: int) -> list[np.ndarray[tuple[int], np.dtype[np.uint64]]]:
    given: list[np.ndarray[tuple[int], np.dtype[np.uint64]]] = []
    for k in range(count):
        values = f"fma:{kind}" if k == 2 else kind
        given.append(column(values, f"test {text}#{k}", COUNT, given))
    if count == 2:  # near each other, for a third of the lanes: cancellation
        near = (given[0] + column("u:5", text, COUNT) - np.uint64(2)) & np.uint64(
            (1 << FORMATS[kind].bits) - 1
        )
        given[1] = np.where(column("u:3", f"{text} which", COUNT) == 0, near, given[1])
    return given


def expect(found: np.ndarray[tuple[int], np.dtype[np.uint64]], lane: int, wanted: int | None,
           form: Format, what: str) -> None:  # fmt: skip
    got = int(found[lane])
    if wanted is None:
        assert form.value(got) == "nan", f"{what}: {got:#x}, not a NaN"
    else:
        assert got == wanted, f"{what}: {got:#x}, not {wanted:#x}"


def with_packed() -> Iterator[tuple[str, bool]]:
    for text in rounded_forms():
        yield text, False
        if "f16" in text:
            yield text, True


@pytest.mark.parametrize(("text", "packed"), list(with_packed()))
def test_rounding(text: str, packed: bool) -> None:
    op, *words = text.split(".")
    kind = words[-1]
    form = FORMATS[kind]
    count = {"fma": 3, "mad": 3, "rcp": 1, "sqrt": 1}.get(op, 2)
    given = operands(text, kind, count)
    names = ", ".join(f"%{'abc'[k]}" for k in range(count))
    c = CLASS[kind]
    if packed:
        both = [g | np.roll(g, 1) << np.uint64(16) for g in given]
        (found,) = run(f"{text}x2 %x, {names};", "r" * count, "r", both)
        assert np.array_equal(found >> np.uint64(16), np.roll(found & np.uint64(0xFFFF), 1))
        found = found & np.uint64(0xFFFF)
    else:
        (found,) = run(f"{text} %x, {names};", c * count, c, given)
    mode = next((w for w in words if w in MODES), "rn")
    for lane in range(COUNT):
        values = [form.value(int(g[lane])) for g in given]
        if "ftz" in words:
            values = [form.flushed(v) for v in values]
        wanted = finish(OPS[op](mode, *values), form, words)
        expect(found, lane, wanted, form, f"{text} of {[hex(int(g[lane])) for g in given]}")


# ------------------------------------------------------------------ min, max, signs


def least(words: Sequence[str], op: str, x: Value, y: Value) -> Value:
    minus = x != "nan" and y != "nan" and negative(x) != negative(y)
    if "xorsign" in words:
        x, y = (v if v == "nan" else signed(v, False) for v in (x, y))
    if "nan" in (x, y):
        if "NaN" in words or x == y:
            return "nan"
        result = y if x == "nan" else x
        # The sign of a NaN counts, too: the recorded probes have it.
        return result
    if number(x) == number(y):
        result = x if negative(x) == (op == "min") else y
    else:
        result = x if (number(x) < number(y)) == (op == "min") else y
    return signed(result, minus) if "xorsign" in words else result


def end_forms() -> Iterator[str]:
    for op in ("min", "max"):
        yield f"{op}.f64"
        for kind in ("f32", "f16", "bf16"):
            for ftz in ("", ".ftz") if kind != "bf16" else ("",):
                for nan in ("", ".NaN"):
                    for sign in ("", ".xorsign.abs"):
                        yield f"{op}{ftz}{nan}{sign}.{kind}"


@pytest.mark.parametrize("text", list(end_forms()))
def test_ends(text: str) -> None:
    op, *words = text.split(".")
    kind = words[-1]
    form, c = FORMATS[kind], CLASS[kind]
    given = operands(text, kind, 2)
    (found,) = run(f"{text} %x, %a, %b;", c * 2, c, given)
    for lane in range(COUNT):
        values = [form.value(int(g[lane])) for g in given]
        if "ftz" in words:
            values = [form.flushed(v) for v in values]
        if "xorsign" in words and "nan" in values:
            continue
        wanted = form.code(least(words, op, *values))
        expect(found, lane, wanted, form, f"{text} of {[hex(int(g[lane])) for g in given]}")


@pytest.mark.parametrize("kind", CLASS)
def test_signs(kind: str) -> None:
    form, c = FORMATS[kind], CLASS[kind]
    given = operands("signs", kind, 2)
    top = np.uint64(1 << (form.bits - 1))
    # neg and abs of a NaN: its payload is not specified.
    number_ = np.array([form.value(int(v)) != "nan" for v in given[0]])
    (found,) = run(f"neg.{kind} %x, %a;", c, c, given[:1])
    assert np.array_equal(found[number_], (given[0] ^ top)[number_])
    (found,) = run(f"abs.{kind} %x, %a;", c, c, given[:1])
    assert np.array_equal(found[number_], (given[0] & ~top)[number_])
    if kind in ("f32", "f64"):
        (found,) = run(f"copysign.{kind} %x, %a, %b;", c * 2, c, given)
        assert np.array_equal(found, (given[0] & top) | (given[1] & ~top))


# ------------------------------------------------------------------ comparisons

COMPARE: dict[str, Callable[[Fraction | float, Fraction | float], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def holds(name: str, x: Value, y: Value) -> int:
    nan = "nan" in (x, y)
    if name in ("num", "nan"):
        return int(nan == (name == "nan"))
    if nan:
        return int(name.endswith("u"))
    return int(COMPARE[name[:2]](number(x), number(y)))


NAMES = (*COMPARE, *(f"{name}u" for name in COMPARE), "num", "nan")


@pytest.mark.parametrize(
    ("kind", "ftz"), [*((kind, "") for kind in CLASS), ("f32", ".ftz"), ("f16", ".ftz")]
)
def test_comparisons(kind: str, ftz: str) -> None:
    form, c = FORMATS[kind], CLASS[kind]
    for name in NAMES:
        text = f"setp.{name}{ftz}.{kind}"
        given = operands(text, kind, 2)
        given[1] = np.where(column("u:4", text, COUNT) == 0, given[0], given[1])
        given.append(column("p", text, COUNT))
        truths = []
        for lane in range(COUNT):
            values = [form.value(int(g[lane])) for g in given[:2]]
            truths.append(holds(name, *(form.flushed(v) if ftz else v for v in values)))
        truth, other = np.array(truths, np.uint64), given[2]
        (found,) = run(f"{text} %x, %a, %b;", c * 2 + "p", "p", given)
        assert np.array_equal(found, truth), text
        (found,) = run(f"setp.{name}.and{ftz}.{kind} %x, %a, %b, !%c;", c * 2 + "p", "p", given)
        assert np.array_equal(found, truth & ~other & np.uint64(1)), text
        (found,) = run(f"set.{name}{ftz}.u32.{kind} %x, %a, %b;", c * 2 + "p", "r", given)
        assert np.array_equal(found, truth * np.uint64(0xFFFFFFFF)), text
        (found,) = run(f"set.{name}.xor{ftz}.s32.{kind} %x, %a, %b, %c;", c * 2 + "p", "r", given)
        assert np.array_equal(found, (truth ^ other) * np.uint64(0xFFFFFFFF)), text
        if kind in ("f16", "bf16"):
            shift = np.uint64(16)
            pair = [g | np.roll(g, 1) << shift for g in given[:2]]
            body = f"setp.{name}{ftz}.{kind}x2 %x|%y, %a, %b;"
            low, high = run(body, "rr", "pp", pair)
            assert np.array_equal(low, truth) and np.array_equal(high, np.roll(truth, 1)), text
            (found,) = run(f"set.{name}{ftz}.{kind}.{kind} %x, %a, %b;", "hh", "h", given[:2])
            one = np.uint64(0x3C00 if kind == "f16" else 0x3F80)
            assert np.array_equal(found, truth * one), text
            (found,) = run(f"set.{name}{ftz}.{kind}x2.{kind}x2 %x, %a, %b;", "rr", "r", pair)
            assert np.array_equal(found, truth * one | np.roll(truth, 1) * one << shift), text
        else:
            first, second = run(f"{text} %x|%y, %a, %b;", c * 2 + "p", "pp", given)
            assert np.array_equal(first, truth) and np.array_equal(second, truth ^ np.uint64(1)), (
                text
            )


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_testp(kind: str) -> None:
    form, c = FORMATS[kind], CLASS[kind]
    given = operands("testp", kind, 1)
    values = [form.value(int(v)) for v in given[0]]

    def finite(v: Value) -> bool:
        return v not in ("nan", "inf", "-inf")

    def small(v: Value) -> bool:
        return not isinstance(v, str) and 0 < abs(v) < form.least

    tests: dict[str, Callable[[Value], bool]] = {
        "finite": finite,
        "infinite": lambda v: v in ("inf", "-inf"),
        "number": lambda v: v != "nan",
        "notanumber": lambda v: v == "nan",
        "subnormal": small,
        "normal": lambda v: finite(v) and not small(v),  # zeros are normal, says the manual
    }
    for name, test in tests.items():
        (found,) = run(f"testp.{name}.{kind} %x, %a;", c, "p", given)
        assert found.tolist() == [int(test(v)) for v in values], name
