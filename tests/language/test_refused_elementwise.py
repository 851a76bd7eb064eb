"""Misuse of elementwise arithmetic, each with its whole report."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import tiledsl as td
from tests.language.traced import Refused, one_line, report
from tiledsl.frontend.build import TensorSpec

cases: list[Any] = []
refused = Refused(cases)

F32 = TensorSpec(td.float32, 2)
LINE = TensorSpec(td.float32, 1)
INT = td.int32


# ------------------------------------------------------------------------------------ shapes


@refused(x=LINE)
def line_beside_a_tile(x):
    """TypeMismatch: `+` of tiles: expected two tiles of one shape, got shapes (64, 128) and (128,)
    at: td.zeros((64, 128)) + td.load(x, (0,), (128,))
    hint: x[None, :] repeats it in every row"""
    td.zeros((64, 128)) + td.load(x, (0,), (128,))


@refused(x=LINE)
def line_beside_a_square_tile(x):
    """TypeMismatch: `max` of tiles: expected two tiles of one shape, got shapes (64,) and (64, 64)
    at: td.maximum(td.load(x, (0,), (64,)), td.zeros((64, 64)))
    hint: x[None, :] repeats it in every row and x[:, None] repeats it in every column"""
    td.maximum(td.load(x, (0,), (64,)), td.zeros((64, 64)))


@refused(x=LINE)
def line_that_fits_nowhere(x):
    """TypeMismatch: `*` of tiles: expected two tiles of one shape, got shapes (64, 128) and (32,)
    at: td.zeros((64, 128)) * td.load(x, (0,), (32,))"""
    td.zeros((64, 128)) * td.load(x, (0,), (32,))


@refused(x=LINE)
def new_axis_on_the_wrong_side(x):
    """TypeMismatch: `+` of tiles: expected two tiles of one shape, got shapes (64, 128) and (128,
    1)
    at: td.zeros((64, 128)) + td.load(x, (0,), (128,))[:, None]
    hint: write x[None, :] for one value per column"""
    td.zeros((64, 128)) + td.load(x, (0,), (128,))[:, None]


@refused(x=LINE)
def expanded_beside_a_line(x):
    """TypeMismatch: `+` of tiles: expected two tiles of one shape, got shapes (64,) and (1, 64)
    at: line[None, :] + line
    hint: x[None, :] repeats it in every row"""
    line = td.load(x, (0,), (64,))
    line[None, :] + line


@refused(x=LINE)
def expanded_of_two_lengths(x):
    """TypeMismatch: `+` of tiles: expected two tiles of one shape, got shapes (1, 64) and (1, 32)
    at: td.load(x, (0,), (64,))[None, :] + td.load(x, (0,), (32,))[None, :]"""
    td.load(x, (0,), (64,))[None, :] + td.load(x, (0,), (32,))[None, :]


@refused()
def where_of_two_shapes():
    """TypeMismatch: td.where of tiles: expected two tiles of one shape, got shapes (64, 8) and
    (64, 16)
    at: td.where(td.zeros((64, 8)) > 0, td.zeros((64, 16)), 0.0)"""
    td.where(td.zeros((64, 8)) > 0, td.zeros((64, 16)), 0.0)


@refused()
def new_axis_of_a_tile_of_rank_2():
    """TypeMismatch: a new axis of a float32 tile of shape (64, 8): expected a tile of rank 1
    at: td.zeros((64, 8))[None, :]
    hint: a tile of rank 2 meets others of its shape as it is"""
    td.zeros((64, 8))[None, :]


@refused()
def element_of_a_tile():
    """TypeMismatch: a float32 tile of shape (64, 8) cannot be indexed: its elements are spread
    over the role's threads
    at: td.zeros((64, 8))[3, 4]
    hint: x[None, :] and x[:, None] give a tile of rank 1 a new axis"""
    td.zeros((64, 8))[3, 4]


@refused()
def slice_of_a_line():
    """TypeMismatch: a float32 tile of shape (64,) cannot be indexed: its elements are spread over
    the role's threads
    at: td.zeros((64,))[None, :8]
    hint: x[None, :] and x[:, None] give a tile of rank 1 a new axis"""
    td.zeros((64,))[None, :8]


@refused()
def two_new_axes():
    """TypeMismatch: a float32 tile of shape (64,) cannot be indexed: its elements are spread over
    the role's threads
    at: td.zeros((64,))[None, None]
    hint: x[None, :] and x[:, None] give a tile of rank 1 a new axis"""
    td.zeros((64,))[None, None]


@refused()
def assignment_to_a_tile():
    """TypeMismatch: items of a float32 tile of shape (64,) cannot be assigned
    at: tile[3]"""
    tile = td.zeros((64,))
    tile[3] = 1.0


# ------------------------------------------------------------------------------------ dtypes


@refused()
def expanded_of_another_dtype():
    """TypeMismatch: `+` of tiles: expected two tiles of one dtype, got float32 and float16
    at: td.zeros((64, 8)) + td.zeros((8,), td.float16)[None, :]
    hint: convert one of them: tile.to(td.float32)"""
    td.zeros((64, 8)) + td.zeros((8,), td.float16)[None, :]


@refused()
def where_of_two_dtypes():
    """TypeMismatch: td.where of tiles: expected two tiles of one dtype, got float32 and float16
    at: td.where(True, td.zeros((64, 8)), td.zeros((64, 8), td.float16))
    hint: convert one of them: tile.to(td.float32)"""
    td.where(True, td.zeros((64, 8)), td.zeros((64, 8), td.float16))


@refused()
def where_of_a_number_that_does_not_fit():
    """TypeMismatch: td.where of a tile and a number: 0.5 does not convert to the tile's int32 by
    itself
    at: td.where(td.iota((8,)) > 3, td.iota((8,)), 0.5)
    hint: convert the tile first: tile.to(td.float32)"""
    td.where(td.iota((8,)) > 3, td.iota((8,)), 0.5)


@refused()
def where_of_no_condition():
    """TypeMismatch: td.where: condition: expected bool_, got a float32 tile of shape (64, 8)
    at: td.where(td.zeros((64, 8)), 1.0, 2.0)
    hint: compare it: write x != 0"""
    td.where(td.zeros((64, 8)), 1.0, 2.0)


@refused(n=INT)
def where_of_a_number(n):
    """TypeMismatch: td.where: condition: expected bool_, got a run-time int32
    at: td.where(n, 1.0, 2.0)
    hint: compare it: write x != 0"""
    td.where(n, 1.0, 2.0)


@refused()
def where_of_none():
    """TypeMismatch: td.where: condition: expected a bool_ or a register tile of them, got None
    at: td.where(None, 1.0, 2.0)"""
    td.where(None, 1.0, 2.0)


@refused(x=F32)
def where_of_a_tensor(x):
    """TypeMismatch: td.where: a: expected a number or a register tile, got a float32 tensor of
    rank 2
    at: td.where(True, x, 2.0)"""
    td.where(True, x, 2.0)


@refused(n=td.int64)
def where_of_numbers_without_a_dtype(n):
    """TypeMismatch: td.where: a run-time int64 and the compile-time float 0.5 have no dtype in
    common
    at: td.where(n > 0, n, 0.5)
    hint: convert one of them, such as td.float32(x)"""
    td.where(n > 0, n, 0.5)


@refused(x=F32)
def maximum_of_a_tensor(x):
    """TypeMismatch: td.maximum: a: expected a number or a register tile, got a float32 tensor of
    rank 2
    at: td.maximum(x, 0.0)"""
    td.maximum(x, 0.0)


@refused()
def maximum_by_python():
    """TypeMismatch: max: expected numbers, got a float32 tile of shape (64, 8)
    at: max(td.zeros((64, 8)), 0.0)
    hint: td.maximum works on tiles, element by element"""
    max(td.zeros((64, 8)), 0.0)


@refused()
def truth_of_an_expanded_tile():
    """TypeMismatch: a tile of rank 1 with a new axis is neither true nor false
    at: td.zeros((64,))[None, :]"""
    if td.zeros((64,))[None, :]:
        pass


@refused()
def not_of_a_mask():
    """TypeMismatch: a bool_ tile of shape (8,) is neither true nor false
    at: not (td.iota((8,)) > 3)"""
    not (td.iota((8,)) > 3)


@refused()
def invert_of_floats():
    """TypeMismatch: `~` does not exist for a tile of float32
    at: ~td.zeros((8,))[None, :]"""
    ~td.zeros((8,))[None, :]


# --------------------------------------------------------------------------------- functions


@refused()
def exp_of_integers():
    """TypeMismatch: td.exp: expected a float of at least 16 bits, got an int32 tile of shape (8,)
    at: td.exp(td.iota((8,)))
    hint: convert it first: x.to(td.float32)"""
    td.exp(td.iota((8,)))


@refused(n=INT)
def sqrt_of_an_integer(n):
    """TypeMismatch: td.sqrt: expected a float of at least 16 bits, got a run-time int32
    at: td.sqrt(n)
    hint: convert it first: x.to(td.float32)"""
    td.sqrt(n)


@refused()
def tanh_of_fp8():
    """TypeMismatch: td.tanh: expected a float of at least 16 bits, got a float8_e4m3fn tile of
    shape (64, 16)
    at: td.tanh(td.zeros((64, 16), td.float8_e4m3fn))
    hint: convert it first: x.to(td.float32)"""
    td.tanh(td.zeros((64, 16), td.float8_e4m3fn))


@refused(x=td.float64)
def exp_of_float64(x):
    """TypeMismatch: td.exp does not exist for float64: expected float32, float16 or bfloat16, got
    a run-time float64
    at: td.exp(x)
    hint: convert it first: x.to(td.float32)"""
    td.exp(x)


@refused()
def sigmoid_of_float64():
    """TypeMismatch: td.sigmoid does not exist for float64: expected float32, float16 or bfloat16,
    got a tile of rank 1 with a new axis
    at: td.sigmoid(td.zeros((8,), td.float64)[None, :])
    hint: convert it first: x.to(td.float32)"""
    td.sigmoid(td.zeros((8,), td.float64)[None, :])


@refused(x=F32)
def exp_of_a_tensor(x):
    """TypeMismatch: td.exp: expected a number or a register tile, got a float32 tensor of rank 2
    at: td.exp(x)"""
    td.exp(x)


@refused()
def exp_of_text():
    """TypeMismatch: td.exp: expected a number or a register tile, got the compile-time str '1'
    at: td.exp("1")"""
    td.exp("1")


@refused(x=td.float32)
def exp_of_python(x):
    """TypeMismatch: exp is run by Python while the kernel is compiled: expected compile-time
    arguments, got a run-time float32
    at: math.exp(x)
    hint: td.exp works on run-time floats and on tiles"""
    math.exp(x)


@refused()
def abs_of_a_mask():
    """TypeMismatch: `abs` does not exist for a tile of bool_
    at: td.abs(td.iota((8,)) > 3)"""
    td.abs(td.iota((8,)) > 3)


@refused()
def iota_of_an_axis_too_many():
    """InvalidValue: td.iota: axis: expected a number from 0 to 1, got 2
    at: td.iota((64, 8), 2)"""
    td.iota((64, 8), 2)


@refused()
def iota_of_bools():
    """TypeMismatch: td.iota: dtype: expected an integer or a float of at least 16 bits, got bool_
    at: td.iota((8,), 0, td.bool_)"""
    td.iota((8,), 0, td.bool_)


@refused()
def iota_of_fp8():
    """TypeMismatch: td.iota: dtype: expected an integer or a float of at least 16 bits, got
    float8_e5m2
    at: td.iota((8,), 0, td.float8_e5m2)"""
    td.iota((8,), 0, td.float8_e5m2)


@refused()
def attribute_of_an_expanded_tile():
    """TypeMismatch: a tile of rank 1 with a new axis has no attribute 'T'
    at: td.iota((8,))[None, :].T
    hint: it has: dtype, shape, to"""
    td.iota((8,))[None, :].T


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
