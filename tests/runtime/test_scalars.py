"""Scalar arguments: bytes, rounding and refusals."""

from __future__ import annotations

import enum
import math
import struct
from bisect import bisect
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType, int_range
from tiledsl.errors import InvalidValue, TypeMismatch
from tiledsl.runtime.arrays import ScalarSpec
from tiledsl.runtime.scalars import pack_scalar, scalar_keyer, scalar_spec

INTEGERS = [dtype for dtype in dtypes.ALL_DTYPES if dtype.is_integer]
NARROW = [dtypes.float16, dtypes.bfloat16, dtypes.float8_e4m3fn, dtypes.float8_e5m2]


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, dtype.name, None) or dtype.name.removesuffix("_"))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_at_the_ends_of_their_range(dtype: DType) -> None:
    for number in int_range(dtype):
        packed = pack_scalar("n", number, dtype)
        assert int.from_bytes(packed, "little", signed=dtype.is_signed) == number
        assert len(packed) == dtype.itemsize
    low, high = int_range(dtype)
    for number in (low - 1, high + 1):
        with pytest.raises(InvalidValue) as caught:
            pack_scalar("n", number, dtype)
        assert caught.value.message == (
            f"argument n: {number} does not fit {dtype}: expected {low} <= n <= {high}"
        )


def finite_values(dtype: DType) -> list[Fraction]:
    """Every finite value of a narrow float type, from its bits."""
    bits = np.arange(1 << dtype.bits, dtype=f"uint{dtype.bits}")
    with np.errstate(invalid="ignore"):  # the NaNs among them
        values = bits.view(numpy_dtype(dtype)).astype(np.float64)
    return sorted({Fraction(value) for value in values.tolist() if math.isfinite(value)})


TABLES = {dtype.name: finite_values(dtype) for dtype in NARROW}


@given(st.sampled_from(NARROW), st.data())
def test_floats_are_rounded_to_the_nearest_value(dtype: DType, data: st.DataObject) -> None:
    table = TABLES[dtype.name]
    at = data.draw(st.integers(0, len(table) - 2))
    # Values next to the middle of two neighbours, where rounding twice goes wrong.
    middle = float((table[at] + table[at + 1]) / 2)
    number = middle * (
        1 + data.draw(st.sampled_from([0.0, 2.0**-40, -(2.0**-40), 2.0**-20, -(2.0**-20)]))
    )
    packed = pack_scalar("x", number, dtype)
    got = Fraction(float(np.frombuffer(packed, numpy_dtype(dtype))[0]))
    around = bisect(table, Fraction(number))
    distances = [abs(value - Fraction(number)) for value in table[max(around - 1, 0) : around + 1]]
    assert abs(got - Fraction(number)) == min(distances)
    if len(distances) == 2 and distances[0] == distances[1]:  # a tie: then the even one
        assert int.from_bytes(packed, "little") % 2 == 0


@pytest.mark.parametrize("dtype", [*NARROW, dtypes.float32, dtypes.float64], ids=str)
def test_special_floats(dtype: DType) -> None:
    def value(number: float) -> float:
        return float(np.frombuffer(pack_scalar("x", number, dtype), numpy_dtype(dtype))[0])

    assert math.isnan(value(math.nan))
    assert math.copysign(1.0, value(-0.0)) == -1.0
    if dtype == dtypes.float8_e4m3fn:
        with pytest.raises(InvalidValue, match=r"argument x: inf is too large for float8_e4m3fn"):
            value(math.inf)
    else:
        assert value(-math.inf) == -math.inf


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (dtypes.float32, 1e39),
        (dtypes.float16, 65520.0),
        (dtypes.bfloat16, 3.4e38 * 1.01),
        (dtypes.bfloat16, -1e300),
        (dtypes.float8_e4m3fn, 465.0),
        (dtypes.float8_e5m2, 62000.0),
        (dtypes.float64, 10**400),
    ],
)
def test_a_float_that_overflows_is_refused(dtype: DType, number: float) -> None:
    with pytest.raises(InvalidValue) as caught:
        pack_scalar("eps", number, dtype)
    assert caught.value.message == f"argument eps: {number!r} is too large for {dtype}"
    assert caught.value.hint == "declare eps with a wider type, or pass float('inf')"


def test_integers_are_floats_but_floats_are_not_integers() -> None:
    assert pack_scalar("x", 3, dtypes.float32) == struct.pack("<f", 3.0)
    assert pack_scalar("x", np.int16(-3), dtypes.float64) == struct.pack("<d", -3.0)
    with pytest.raises(TypeMismatch, match=r"argument n: expected an integer \(int32\), got 2\.0"):
        pack_scalar("n", 2.0, dtypes.int32)
    with pytest.raises(TypeMismatch, match=r"argument n: expected an integer"):
        pack_scalar("n", np.float32(2), dtypes.int32)


def test_bools_are_one_byte_and_numbers_are_not_bools() -> None:
    assert pack_scalar("flag", True, dtypes.bool_) == b"\1"
    assert pack_scalar("flag", np.False_, dtypes.bool_) == b"\0"
    assert pack_scalar("n", True, dtypes.int32) == struct.pack("<i", 1)
    with pytest.raises(TypeMismatch, match=r"argument flag: expected a bool, got 1"):
        pack_scalar("flag", 1, dtypes.bool_)


def test_arrays_are_not_scalars() -> None:
    with pytest.raises(TypeMismatch) as caught:
        pack_scalar("eps", np.ones((2, 3)), dtypes.float32)
    assert caught.value.message == (
        "argument eps: expected a scalar of type float32, got a numpy.ndarray of shape (2, 3)"
    )
    with pytest.raises(TypeMismatch, match=r"got a numpy.ndarray of shape \(\)") as caught:
        pack_scalar("eps", np.array(1.0), dtypes.float32)
    assert caught.value.hint is not None and caught.value.hint.startswith("eps.item()")
    with pytest.raises(TypeMismatch, match=r"expected a scalar of type float32, got 'a'"):
        pack_scalar("eps", "a", dtypes.float32)


class Mode(enum.IntEnum):
    FAST = 7
    SLOW = 8


def test_specs() -> None:
    assert scalar_spec("x", True) == ScalarSpec("bool")
    assert scalar_spec("x", 1) == ScalarSpec("int")
    assert scalar_spec("x", Mode.FAST) == ScalarSpec("int")
    assert scalar_spec("x", 1.5) == ScalarSpec("float")
    assert scalar_spec("x", np.float64(1)) == ScalarSpec("float", dtypes.float64)
    assert scalar_spec("x", np.uint8(1)) == ScalarSpec("int", dtypes.uint8)
    assert scalar_spec("x", np.True_) == ScalarSpec("bool", dtypes.bool_)
    assert scalar_spec("x", ml_dtypes.bfloat16(1)) == ScalarSpec("float", dtypes.bfloat16)
    assert scalar_spec("x", "1") is None
    with pytest.raises(
        TypeMismatch, match=r"argument x: no tiledsl dtype for dtype\('complex64'\)"
    ):
        scalar_spec("x", np.complex64(1))


def test_keys_tell_apart_what_is_passed_differently() -> None:
    def key(value: Any) -> Any:
        return type(value), scalar_keyer("x", value)(value, 0)

    values = [1, 1.0, True, 0, 0.0, -0.0, False, np.float32(1), np.float32(0), np.float32(-0.0)]
    values += [np.int32(1), np.int64(1), Mode.FAST, Mode.SLOW]
    assert len({key(value) for value in values}) == len(values)
    assert key(float("nan")) == key(float("nan"))
    with pytest.raises(TypeMismatch, match=r"argument x: expected an array or a number, got None"):
        scalar_keyer("x", None)
