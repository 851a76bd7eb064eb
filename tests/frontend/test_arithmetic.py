"""Scalar arithmetic: promotion, folding, literals, and results as NumPy computes them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tests.frontend.evaluate import Constant, run, trace
from tests.frontend.programs import define
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType, promote
from tiledsl.errors import TypeMismatch

NUMBERS = [
    td.int8, td.int16, td.int32, td.int64, td.uint8, td.uint16, td.uint32, td.uint64, td.float16,
    td.float32, td.float64,
]  # fmt: skip
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "%": operator.mod, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _random(dtype: DType, random: np.random.Generator) -> Any:
    kind = np.dtype(dtype.name).type
    if dtype.is_float:
        return kind(random.normal() * 20)
    low, high = dtypes.int_range(dtype)
    small = random.integers(max(low, -9), 9, endpoint=True)
    return kind(random.choice([small, random.integers(low, high, dtype=kind, endpoint=True)]))


@pytest.mark.parametrize("right", NUMBERS, ids=str)
@pytest.mark.parametrize("left", NUMBERS, ids=str)
def test_operators_compute_in_the_promoted_dtype(left: DType, right: DType) -> None:
    random = np.random.default_rng()
    common = promote(left, right)

    def kernel(out, truth, a, b):
        out[0] = a + b
        out[1] = a - b
        out[2] = a * b
        out[3] = a // b
        out[4] = a % b
        truth[0] = a < b
        truth[1] = a <= b
        truth[2] = a == b
        truth[3] = a != b
        truth[4] = a > b
        truth[5] = a >= b

    for _ in range(4):
        a, b = _random(left, random), _random(right, random)
        b = b if b != 0 else type(b)(3)
        if common is None:
            with pytest.raises(TypeMismatch):
                trace(kernel, out=np.zeros(5), truth=np.zeros(6, bool), a=a, b=b)
            return
        kind = np.dtype(common.name).type
        got = np.zeros(5, kind)
        truth = np.zeros(6, bool)
        run(kernel, out=got, truth=truth, a=a, b=b)
        with np.errstate(all="ignore"):
            wide = [kind(a), kind(b)]
            found = [OPERATORS[o](*wide) for o in ("+", "-", "*", "//", "%")]
            compared = [OPERATORS[o](*wide) for o in ("<", "<=", "==", "!=", ">", ">=")]
        np.testing.assert_array_equal(got, np.array(found, kind), err_msg=f"{a!r} and {b!r}")
        np.testing.assert_array_equal(truth, compared, err_msg=f"{a!r} and {b!r}")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("i8 + 1", td.int8),
        ("i8 + 127", td.int8),
        ("i8 + 128", td.int32),
        ("1 + u8", td.uint8),
        ("u8 - 300", td.int32),
        ("u32 + (-1)", td.int64),
        ("i32 + 2**40", td.int64),
        ("f16 + 1", td.float16),
        ("f16 * 2.5", td.float16),
        ("f64 * 2.5", td.float64),
        ("i32 * 2.5", td.float32),
        ("i64 / 2", td.float32),
        ("i32 / i32", td.float32),
        ("f64 / i32", td.float64),
        ("f16 / i64", td.float16),
        ("flag + flag", td.int32),
        ("flag + 1", td.int32),
        ("flag & True", td.bool_),
        ("flag * f16", td.float16),
        ("-flag", td.int32),
        ("+flag", td.int32),
        ("not i32", td.bool_),
        ("i8 << 3", td.int8),
        ("i8 << i64", td.int8),
        ("1 << i64", td.int64),
        ("i32 + i64", td.int64),
        ("i32 + u32", td.int64),
        ("f16 + f32", td.float32),
        ("True + i16", td.int16),
        ("min(i8, i32)", td.int32),
        ("max(f16, 0)", td.float16),
        ("abs(i16)", td.int16),
        ("i16 ** 3", td.int16),
        ("f16 ** -2", td.float16),
        ("int(f64)", td.int32),
        ("int(i64)", td.int64),
        ("float(i64)", td.float32),
        ("float(f64)", td.float64),
        ("bool(f16)", td.bool_),
        ("td.int8(f32)", td.int8),
        ("i8 if flag else i32", td.int32),
        ("1 if flag else 2", td.int32),
        ("1 if flag else 2**40", td.int64),
        ("1 if flag else f16", td.float16),
        ("i16 and 5", td.int16),
        ("flag or False", td.bool_),
        ("0 < i8 < 5", td.bool_),
    ],
)
def test_dtype_of(source: str, expected: DType) -> None:
    text = f"def kernel(i8, i16, i32, i64, u8, u32, f16, f32, f64, flag, want):\n    x = {source}\n"
    text += "    assert x.dtype == want, f'{x.dtype}'\n"
    kernel = define(text, td=td)
    trace(
        kernel,
        **{
            name: np.dtype(kind).type(1)
            for name, kind in {
                "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
                "u32": "uint32", "f16": "float16", "f32": "float32", "f64": "float64",
                "flag": "bool",
            }.items()
        },
        want=Constant(expected),
    )  # fmt: skip


def test_literal_before_a_loop_takes_the_dtype_of_the_loop() -> None:
    def kernel(out, x, n):
        total = 0
        count = 0
        for i in range(n):
            total += x[i]
            for j in range(2):
                count = count + j
        out[0] = total
        out[1] = count
        assert total.dtype == x.dtype, f"{total.dtype}"
        assert count.dtype == td.int32

    for kind in ("float32", "float64", "int64", "uint8", "int16"):
        x = np.random.default_rng().integers(0, 20, 7).astype(kind)
        out = np.zeros(2, kind)
        run(kernel, out=out, x=x, n=7)
        np.testing.assert_array_equal(out, [x.sum(dtype=kind), 7])


def test_literal_in_one_branch_takes_the_dtype_of_the_other() -> None:
    def kernel(out, x, n):
        if n > 0:
            y = 0
        else:
            y = x
        assert y.dtype == x.dtype
        out[0] = y

    for kind in ("float32", "float16", "int64", "uint8"):
        out = np.zeros(1, kind)
        run(kernel, out=out, x=np.dtype(kind).type(5), n=-1)
        assert out[0] == 5


def test_constants_of_a_block_are_made_once() -> None:
    def kernel(out, n):
        out[0] = n * 7 + 7
        for i in range(n):
            out[i] = i + 7

    text = trace(kernel, out=np.zeros(3, np.int32), n=3).body.ops
    constants = [op for op in text if op.opcode == "const" and op.value == 7]
    assert len(constants) == 1


def test_large_integers_become_int64() -> None:
    def kernel(out, n):
        x = 2**40
        if n > 0:
            x = 2**41
        out[0] = x

    out = np.zeros(1, np.int64)
    run(kernel, out=out, n=1)
    assert out[0] == 2**41


def test_numpy_scalars_are_numbers() -> None:
    three, half = np.int64(3), np.float32(0.5)

    def kernel(out, n):
        out[0] = n + three
        out[1] = n * half + np.bool_(True)

    out = np.zeros(2, np.float32)
    run(kernel, out=out, n=5)
    np.testing.assert_array_equal(out, [8, 3.5])
