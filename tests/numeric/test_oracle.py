"""The oracle itself: it must take what is right and notice small faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.oracle import (
    FORMATS,
    NumpyArrays,
    difference,
    fresh_seed,
    inside,
    numpy_dtype,
    reference,
    untouched,
)

INPUTS = ("bfloat16", "float16")


def inputs(k: int, dtype: str) -> tuple[Any, Any]:
    arrays = NumpyArrays(fresh_seed())
    return arrays.normal((64, k), dtype), arrays.normal((72, k), dtype)


def in_float32(a: Any, b: Any, out_dtype: str) -> Any:
    """The product in float32, in NumPy's order of summation, rounded."""
    product = a.astype(np.float32) @ b.astype(np.float32).T
    return product.astype(numpy_dtype(out_dtype))


@pytest.mark.parametrize("out_dtype", FORMATS)
@pytest.mark.parametrize("dtype", INPUTS)
@pytest.mark.parametrize("k", [1, 8, 64, 1000, 4096])
def test_float32_products_pass(k: int, dtype: str, out_dtype: str) -> None:
    a, b = inputs(k, dtype)
    assert difference(in_float32(a, b, out_dtype), reference(a, b, out_dtype)) == ""


@pytest.mark.parametrize("out_dtype", FORMATS)
@pytest.mark.parametrize("k", [1, 8, 64, 1000, 4096])
def test_truncated_partial_sums_pass(k: int, out_dtype: str) -> None:
    """As a tensor core might do it at worst: 16 products at a time, each sum cut to 24 bits."""
    a, b = (x.astype(np.float32) for x in inputs(k, "bfloat16"))
    total = np.zeros((64, 72), np.float32)
    for start in range(0, k, 16):
        block = a[:, start : start + 16].astype(np.float64) @ b[:, start : start + 16].T
        total = truncate(total.astype(np.float64) + block)
    assert difference(total.astype(numpy_dtype(out_dtype)), reference(a, b, out_dtype)) == ""


def truncate(x: Any) -> Any:
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.trunc(mantissa * 2.0**24) * 2.0**-24, exponent).astype(np.float32)


@pytest.mark.parametrize("k", [8, 64, 1000, 4096])
def test_one_missing_column_is_noticed(k: int) -> None:
    a, b = inputs(k, "bfloat16")
    expected = reference(a, b, "float32")
    assert difference(in_float32(a[:, :-1], b[:, :-1], "float32"), expected)


@pytest.mark.parametrize("out_dtype", FORMATS)
@pytest.mark.parametrize("k", [8, 64, 1000, 4096])
def test_a_missing_mma_step_is_noticed(k: int, out_dtype: str) -> None:
    a, b = inputs(k, "float16")
    expected = reference(a, b, out_dtype)
    assert difference(in_float32(a[:, :-16], b[:, :-16], out_dtype), expected)


@pytest.mark.parametrize("out_dtype", FORMATS)
def test_places_are_named(out_dtype: str) -> None:
    a, b = inputs(64, "bfloat16")
    c = in_float32(a, b, out_dtype)
    c[3, 5:9] = np.nan
    c[7, 2] += 8
    text = difference(c, reference(a, b, out_dtype))
    assert "5 of 4608 elements are wrong (NaN: 4), within [3..7, 2..8]" in text
    assert "the first at (3, 5)" in text


def test_k_zero_is_zero() -> None:
    a, b = inputs(0, "bfloat16")
    zeros = np.zeros((64, 72), np.float32)
    assert difference(zeros, reference(a, b, "float32")) == ""
    zeros[1, 1] = 1e-3
    assert difference(zeros, reference(a, b, "float32"))


def test_writes_around_the_output_are_noticed() -> None:
    c, whole = inside(NumpyArrays(0), (4, 8), "bfloat16")
    c[...] = 1
    assert untouched(whole, (4, 8))
    whole[0, 20] = 0
    assert not untouched(whole, (4, 8))
