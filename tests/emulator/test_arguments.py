"""Arguments: what fits, what does not, and that scalars mean what a launch on the GPU says."""

from __future__ import annotations

import math
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.codegen.ir_samples import Sketch, lowered
from tests.emulator.samples import copy, normal, numpy_of, poisoned
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import ALL_DTYPES, DType
from tiledsl.codegen.ir.ops import tile
from tiledsl.errors import InvalidValue, LaunchError, TileError, TypeMismatch
from tiledsl.runtime.emulator import emulate
from tiledsl.runtime.scalars import pack_scalar


def call(*args: Any) -> None:
    emulate(copy(), args, grid=(1, 1, 1))


X = np.zeros((8, 64), np.float32)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((X, X, 1), TypeMismatch, "kernel copy: expected 4 arguments, got 3"),
        (
            ([1.0], X, 1, 1),
            TypeMismatch,
            "argument x: expected a NumPy array, got list",
        ),
        (
            (X, X.astype(ml_dtypes.bfloat16), 1, 1),
            TypeMismatch,
            "argument y: expected a float32 array of rank 2, got bfloat16 of rank 2",
        ),
        (
            (X[0], X, 1, 1),
            TypeMismatch,
            "argument x: expected a float32 array of rank 2, got float32 of rank 1",
        ),
        (
            (X.astype(">f4"), X, 1, 1),
            TypeMismatch,
            "argument x: expected a float32 array of rank 2, got >f4 of rank 2",
        ),
        (
            (X, X, 2**31, 1),
            InvalidValue,
            "argument loads: 2147483648 does not fit int32: expected -2147483648 <= loads <="
            " 2147483647",
        ),
        (
            (X, X, 1, "one"),
            TypeMismatch,
            "argument stores: expected a scalar of type int32, got str",
        ),
    ],
)
def test_arguments_that_do_not_fit(args: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(*args)
    assert caught.value.message == message  # type: ignore[attr-defined]


def test_an_output_must_be_writeable() -> None:
    y = X.copy()
    y.flags.writeable = False
    call(y, X.copy(), 1, 1)  # reading it is fine
    with pytest.raises(LaunchError) as caught:
        call(X, y, 1, 1)
    assert caught.value.message == (
        "argument y is written by the kernel: expected a writeable array, got a read-only one"
    )


@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1), (1, -1, 1)])
def test_a_grid_that_does_not_fit(grid: Any) -> None:
    with pytest.raises(LaunchError, match="expected a grid of one to three extents, got"):
        emulate(copy(), [X, X.copy(), 1, 1], grid=grid)


def test_numpy_scalars_are_numbers(rng: np.random.Generator) -> None:
    x = normal(rng, (8, 64), dtypes.float32)
    y = poisoned(x.shape, dtypes.float32)
    emulate(copy(), [x, y, np.int64(1), np.uint8(1)], grid=(1, 1, 1))
    assert (x == y).all()


NUMBERS = [
    True, False, 0, 1, -1, 127, 128, 255, 256, -129, 2**31, -(2**31), 2**63, 2**64, 10**400,
    0.0, -0.0, 0.1, 1.5, -2.5, 464.0, 465.0, 57344.0, 61440.0, 65519.0, 65520.0, 3.4e38, 3.5e38,
    math.inf, -math.inf, math.nan, np.float32(0.1), np.int16(-7), np.uint64(2**64 - 1),
    np.bool_(True), np.float64(1e300),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_scalars_mean_what_a_launch_says(dtype: DType) -> None:
    """The same bits reach the kernel as on the GPU, or the same error is raised."""
    s = Sketch("scalar")
    value, out = s.scalar("value", dtype), s.tensor("out", dtype, 1)
    s.add(tile.TensorStore(value, out, (s.const(0),)))
    kernel = lowered(s.kernel(warps=1))
    numbers = [*NUMBERS, random.uniform(-1e6, 1e6), random.uniform(-1, 1), random.getrandbits(62)]
    for number in numbers:
        got = np.zeros(1, numpy_of(dtype))
        expected = packed(number, dtype)
        if isinstance(expected, TileError):
            with pytest.raises(type(expected)) as caught:
                emulate(kernel, [number, got], grid=(1, 1, 1))
            assert str(caught.value) == str(expected)
            continue
        emulate(kernel, [number, got], grid=(1, 1, 1))
        if isinstance(number, float) and math.isnan(number):
            assert np.isnan(got.astype(np.float64))
        else:
            assert got.tobytes() == expected, number


def packed(number: Any, dtype: DType) -> bytes | TileError:
    """What a launch on the GPU makes of a scalar."""
    try:
        return pack_scalar("value", number, dtype)
    except TileError as error:
        return error
