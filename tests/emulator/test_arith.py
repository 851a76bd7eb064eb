"""Arithmetic and conversions, on scalars and on tiles, against exact arithmetic."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.codegen.arith_samples import accepted, scalar_kernel, tile_kernel
from tests.codegen.ir_samples import Sketch, lowered
from tests.emulator import exact
from tests.emulator.samples import numpy_of
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import ALL_DTYPES, DType, int_range
from tiledsl.codegen.ir.ops import arith, tile
from tiledsl.errors import InvalidValue
from tiledsl.runtime.emulator import emulate
from tiledsl.runtime.emulator.arith import binary_function, cast_function, unary_function

INTEGERS = [d for d in ALL_DTYPES if d.is_integer]
FLOATS = [d for d in ALL_DTYPES if d.is_float and d.bits > 8]
FP8 = [d for d in ALL_DTYPES if d.is_float and d.bits == 8]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 3.0, math.inf, -math.inf, math.nan]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    """As inside of ``emulate``: overflow and NaN are no news."""
    with np.errstate(all="ignore"):
        yield


def integers(dtype: DType, count: int) -> list[int]:
    """The ends of the range, small numbers, and random ones of every size."""
    low, high = int_range(dtype)
    found = [low, low + 1, high, high - 1, 0, 1, 2, 3, 7, min(dtype.bits, high), high // 2]
    if low:
        found += [-1, -2, -3, -7]
    while len(found) < count:
        size = random.randint(1, dtype.bits)
        value = random.getrandbits(size) * (random.choice((-1, 1)) if low else 1)
        if low <= value <= high:
            found.append(value)
    return found


def floats(dtype: DType, count: int) -> list[float]:
    """Special values, and random bit patterns: every exponent, subnormals too."""
    unsigned = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[dtype.bits]
    bits = np.array([random.getrandbits(dtype.bits) for _ in range(count)], unsigned)
    near = np.array([random.uniform(-4, 4) for _ in range(count)], numpy_of(dtype))
    drawn = [*bits.view(numpy_of(dtype)), *near]
    return [exact.rounded(v, dtype) for v in SPECIAL] + [float(v) for v in drawn]


def numbers(dtype: DType, count: int) -> list[Any]:
    if dtype.kind == "bool":
        return [False, True]
    return floats(dtype, count) if dtype.is_float else integers(dtype, count)


def wrapped(value: int, dtype: DType) -> int:
    low, high = int_range(dtype)
    return (value - low) % (high - low + 1) + low


def same(got: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        got = float(got)
        if math.isnan(expected):
            return math.isnan(got)
        return got == expected and math.copysign(1, got) == math.copysign(1, expected)
    return type(got) is type(expected) and bool(got == expected)


# ----------------------------------------------------------------------------- integers

PYTHON: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << min(b, 200),
    "shr": lambda a, b: a >> min(b, 200),
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_have_pythons_meaning(dtype: DType) -> None:
    values = integers(dtype, 40)
    for kind in accepted(dtype)[0]:
        pairs = [
            (a, b)
            for a, b in itertools.product(values, values)
            if not (kind in ("floordiv", "mod") and b == 0)
            and not (kind in ("shl", "shr") and b < 0)
        ]
        expected = [wrapped(PYTHON[kind](a, b), dtype) for a, b in pairs]
        scalar = binary_function(kind, dtype, tile=False)
        for (a, b), want in zip(pairs, expected, strict=True):
            assert same(scalar(a, b), want), (kind, a, b)
        lhs, rhs = (np.array(column, numpy_of(dtype)) for column in zip(*pairs, strict=True))
        got = binary_function(kind, dtype, tile=True)(lhs, rhs)
        assert got.dtype == numpy_of(dtype)
        assert got.tolist() == expected, kind


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_unary_integers(dtype: DType) -> None:
    python = {"neg": lambda v: -v, "abs": abs, "invert": lambda v: ~v}
    values = integers(dtype, 100)
    for kind in accepted(dtype)[1]:
        expected = [wrapped(python[kind](v), dtype) for v in values]
        scalar = unary_function(kind, dtype, tile=False)
        assert [scalar(v) for v in values] == expected
        got = unary_function(kind, dtype, tile=True)(np.array(values, numpy_of(dtype)))
        assert got.tolist() == expected and got.dtype == numpy_of(dtype)


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_bools(a: bool, b: bool) -> None:
    expected = {"and": a and b, "or": a or b, "xor": a != b}
    assert accepted(dtypes.bool_)[0] == list(expected)
    for kind, want in expected.items():
        assert binary_function(kind, dtypes.bool_, tile=False)(a, b) is want
        got = binary_function(kind, dtypes.bool_, tile=True)(np.array([a]), np.array([b]))
        assert got.tolist() == [want] and got.dtype == np.bool_
    assert unary_function("not", dtypes.bool_, tile=False)(a) is (not a)


@pytest.mark.parametrize(
    ("kind", "a", "b", "message"),
    [
        ("floordiv", 7, 0, "integer division by zero: 7 // 0"),
        ("mod", -7, 0, "integer modulo by zero: -7 % 0"),
        ("shl", 1, -2, "negative shift count: -2"),
        ("shr", 1, -1, "negative shift count: -1"),
    ],
)
@pytest.mark.parametrize("in_tile", [False, True])
def test_integers_without_a_result(kind: str, a: int, b: int, message: str, in_tile: bool) -> None:
    """What Python raises, the emulator reports at the user's line."""
    s = Sketch()
    x, y, out = (s.tensor(name, dtypes.int32, 1) for name in ("x", "y", "out"))
    zero = s.const(0)
    lhs, rhs = (s.value(tile.TensorLoad(t, (zero,))) for t in (x, y))
    if in_tile:
        lhs, rhs = (s.value(arith.Full(value, (64, 8))) for value in (lhs, rhs))
        message = {
            "floordiv": "integer division by zero in a tile",
            "mod": "integer modulo by zero in a tile",
            "shl": "negative shift count in a tile: -2",
            "shr": "negative shift count in a tile: -1",
        }[kind]
    result = s.value(arith.Binary(kind, lhs, rhs))
    line = s.line
    if in_tile:
        big = s.tensor("big", dtypes.int32, 2)
        s.add(tile.TmaStore(result, big, (zero, zero)))
    else:
        s.add(tile.TensorStore(result, out, (zero,)))
    kernel = lowered(s.kernel(warps=4))
    args = [np.array([v], np.int32) for v in (a, b, 0)] + [np.zeros((64, 8), np.int32)] * in_tile
    with pytest.raises(InvalidValue) as caught:
        emulate(kernel, args, grid=(1, 1, 1))
    assert caught.value.message == message
    assert caught.value.loc is not None and caught.value.loc.line == line


# ------------------------------------------------------------------------------- floats


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_are_rounded_once(dtype: DType) -> None:
    values = floats(dtype, 30)
    pairs = list(itertools.product(values, values))
    kind_of = numpy_of(dtype)
    for kind in accepted(dtype)[0]:
        scalar = binary_function(kind, dtype, tile=False)
        lhs, rhs = (np.array(column, kind_of) for column in zip(*pairs, strict=True))
        in_tile = binary_function(kind, dtype, tile=True)(lhs, rhs)
        assert in_tile.dtype == kind_of
        for (a, b), from_tile in zip(pairs, in_tile, strict=True):
            got = scalar(kind_of.type(a), kind_of.type(b))
            assert got.dtype == kind_of
            assert same(got, float(from_tile)), (kind, a, b)
            expected = exact.binary(kind, a, b, dtype)
            if kind == "floordiv" and abs(expected) >= 2.0**20:
                # As in Python, a quotient that fills the significand may be off by one, or by a
                # unit in the last place.
                last = 2.0 ** (1 - exact.FORMATS[dtype].bits)
                near = math.isclose(got, expected, rel_tol=last, abs_tol=1.0)
                assert same(got, expected) or near, (a, b, float(got), expected)
            else:
                assert same(got, expected), (kind, a, b, float(got), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_signs(dtype: DType) -> None:
    values = floats(dtype, 25)
    kind_of = numpy_of(dtype)
    for value in values:
        for kind, want in (("neg", -value), ("abs", abs(value))):
            got = unary_function(kind, dtype, tile=False)(kind_of.type(value))
            assert same(got, want) and got.dtype == kind_of
            array = unary_function(kind, dtype, tile=True)(np.array([value], kind_of))
            assert same(array[0], want) and array.dtype == kind_of


# -------------------------------------------------------------------------- conversions


def converted(value: Any, source: DType, target: DType) -> Any:
    if source == target:
        return value
    if target.kind == "bool":
        return value != 0
    if target.is_integer:
        low, high = int_range(target)
        if not source.is_float:
            return wrapped(int(value), target)
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return high if value > 0 else low
        return min(max(int(value), low), high)
    if source.is_float:
        return exact.rounded(value, target)
    return exact.rounded(exact.Fraction(int(value)), target)


@pytest.mark.parametrize("source", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("target", ALL_DTYPES, ids=str)
def test_conversions(source: DType, target: DType) -> None:
    values = numbers(source, 150)
    if source.is_float and target.is_float and source.bits > target.bits:
        values += ties(source, target)
    kind_of = numpy_of(source)
    expected = [converted(v, source, target) for v in values]
    scalar = cast_function(source, target, tile=False)
    array = cast_function(source, target, tile=True)(np.array(values, kind_of))
    assert array.dtype == numpy_of(target)
    for value, want, from_tile in zip(values, expected, array, strict=True):
        got = scalar(kind_of.type(value) if source.is_float else value)
        assert same(got, want), (value, got, want)
        in_tile = float(from_tile) if target.is_float else from_tile.item()
        assert same(in_tile, want), (value, in_tile, want)


def ties(source: DType, target: DType) -> list[float]:
    """Midpoints between neighbours of ``target``, and the numbers of ``source`` beside them."""
    found = []
    for value in floats(target, 40):
        if not math.isfinite(value) or value == 0:
            continue
        one = np.array(value, numpy_of(target))
        after = float(np.nextafter(one, np.array(np.inf, one.dtype)))
        middle = (value + after) / 2
        if math.isfinite(middle):
            if source == dtypes.float64:
                found += [middle, math.nextafter(middle, 9e99), math.nextafter(middle, -9e99)]
            elif source == dtypes.float32:
                single = np.float32(middle)
                found += [float(single), float(np.nextafter(single, np.float32(9e9)))]
            else:
                found.append(float(np.array(middle, numpy_of(source))))
    return found


def test_large_integers_to_bfloat16() -> None:
    """A tie in bfloat16 that rounding through float32 or float64 would lose or invent."""
    for base in (2**40, 2**53, 2**62):
        step = base >> 7  # a unit in the last place of bfloat16
        for offset in (-1, 0, 1):
            value = base + step // 2 + offset
            for sign in (1, -1):
                got = cast_function(dtypes.int64, dtypes.bfloat16, tile=False)(sign * value)
                assert same(got, exact.rounded(exact.Fraction(sign * value), dtypes.bfloat16))


# ---------------------------------------------------------------- through whole kernels


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_operation_in_a_kernel(dtype: DType) -> None:
    """Scalars and tiles agree with the functions that the tests above have checked."""
    if dtype.is_integer:
        x, y = ([v for v in integers(dtype, 60) if v > 0][:12] for _ in range(2))
        count = min(len(x), len(y))
        x, y = x[:count], y[:count]
    else:
        x, y = numbers(dtype, 12), numbers(dtype, 12)
    kind_of = numpy_of(dtype)
    given = [np.array(x, kind_of), np.array(y, kind_of)]
    count = len(x)
    binary, unary, compare = accepted(dtype)
    rows = len(binary) + len(unary) + bool(compare)

    def outputs(height: int, width: int) -> list[Any]:
        made = [np.zeros((max(1, rows * height), width), kind_of)]
        made.append(np.zeros((max(1, len(compare) * height), width), np.bool_))
        return made

    def casts(shape: tuple[int, ...]) -> list[Any]:
        return [np.zeros(shape, numpy_of(d)) for d in ALL_DTYPES]

    scalar_out = [*outputs(1, count), *casts((count,))]
    emulate(lowered(scalar_kernel(dtype)), [*given, *scalar_out], grid=(count, 1, 1))
    a, b = given
    expected = [binary_function(kind, dtype, tile=True)(a, b) for kind in binary]
    expected += [unary_function(kind, dtype, tile=True)(a) for kind in unary]
    if compare:
        expected.append(np.where(a == b, a, b))
    for got, want in zip(scalar_out[0], expected, strict=False):
        np.testing.assert_array_equal(got.view(_bits(dtype)), want.view(_bits(dtype)))
    wide = [v.astype(np.float64) if dtype.is_float else v for v in given]
    for row, kind in enumerate(compare):
        want = getattr(np, {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
                            "gt": "greater", "ge": "greater_equal"}[kind])(*wide)  # fmt: skip
        assert scalar_out[1][row].tolist() == want.tolist(), kind

    kernel = lowered(tile_kernel(dtype))
    columns = 16
    for i in random.sample(range(count), min(2, count)):
        one = [np.array([values[i]], kind_of) for values in (x, y)]
        out = [*outputs(64, columns), *casts((64, columns))]
        emulate(kernel, [*one, *out], grid=(1, 1, 1))
        for row, want in enumerate(expected):
            block = out[0][64 * row : 64 * row + 64]
            np.testing.assert_array_equal(
                block.view(_bits(dtype)), np.full(block.shape, want[i]).view(_bits(dtype))
            )
        for row in range(len(compare)):
            assert (out[1][64 * row : 64 * row + 64] == scalar_out[1][row][i]).all()
        for d, got, want in zip(ALL_DTYPES, out[2:], scalar_out[2:], strict=True):
            np.testing.assert_array_equal(
                got.view(_bits(d)), np.full(got.shape, want[i]).view(_bits(d))
            )


def _bits(dtype: DType) -> Any:
    """The integer whose bits are compared: NaN equals NaN, and 0.0 is not -0.0."""
    return {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[dtype.bits]


def test_ml_dtypes_agrees_on_what_is_rounded() -> None:
    """The oracle itself: every bfloat16 pattern and its neighbours in float32."""
    bits = np.arange(0, 1 << 16, 7, dtype=np.uint32) << 16 | np.uint32(random.getrandbits(16))
    values = bits.view(np.float32)
    rounded = values.astype(ml_dtypes.bfloat16)
    for value, want in zip(values.tolist(), rounded, strict=True):
        assert same(exact.rounded(value, dtypes.bfloat16), float(want))


def test_constant_that_overflows_its_dtype_is_infinite_without_a_warning() -> None:
    """Constants are converted before the blocks run; a warning would be an error here."""

    @td.kernel(grid=1)
    def scale(out, x):
        out[0] = x * 1e300

    out = np.zeros(1, np.float32)
    scale(out, -2.5)
    assert out[0] == -np.inf
