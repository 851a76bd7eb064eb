"""Misuse of tiles, schedulers, functions and printing, each with its whole report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import tiledsl as td
from tests.language.traced import Refused, one_line, operands, report
from tiledsl.frontend.build import TensorSpec

cases: list[Any] = []
refused = Refused(cases)


@dataclass
class Point:
    x: Any


BF16 = TensorSpec(td.bfloat16, 2)
INT = td.int32


# ----------------------------------------------------------------------------------- tiles


@refused(n=INT)
def zeros_of_run_time_shape(n):
    """TypeMismatch: td.zeros: shape: expected extents known at compile time, but extent 0 is
    a run-time int32
    at: td.zeros((n, 64), td.float32)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    td.zeros((n, 64), td.float32)


@refused()
def zeros_of_many_extents():
    """InvalidValue: td.zeros: shape: expected 1 to 5 extents, got (1, 1, 1, 1, 1, 1)
    at: td.zeros((1,) * 6)"""
    td.zeros((1,) * 6)


@refused(a=BF16)
def full_of_a_tensor(a):
    """TypeMismatch: td.full: value: expected a number, got a bfloat16 tensor of rank 2
    at: td.full((64, 64), a)"""
    td.full((64, 64), a)


@refused()
def full_that_does_not_fit():
    """InvalidValue: 300 does not fit int8: expected -128 to 127
    at: td.full((64, 64), 300, td.int8)"""
    td.full((64, 64), 300, td.int8)


@refused()
def sum_of_two_shapes():
    """TypeMismatch: `+` of tiles: expected two tiles of one shape, got shapes (64, 64) and
    (64, 32)
    at: td.zeros((64, 64)) + td.zeros((64, 32))"""
    td.zeros((64, 64)) + td.zeros((64, 32))


@refused()
def product_of_two_dtypes():
    """TypeMismatch: `*` of tiles: expected two tiles of one dtype, got float32 and bfloat16
    at: td.zeros((64, 64)) * td.zeros((64, 64), td.bfloat16)
    hint: convert one of them: tile.to(td.float32)"""
    td.zeros((64, 64)) * td.zeros((64, 64), td.bfloat16)


@refused(x=td.float64)
def tile_times_a_wider_number(x):
    """TypeMismatch: `*` of a tile and a number: a float64 does not convert to the tile's float32
    by itself
    at: td.zeros((64, 64)) * x
    hint: convert one of them: x.to(td.float32) or tile.to(td.float64)"""
    td.zeros((64, 64)) * x


@refused()
def tile_plus_a_string():
    """TypeMismatch: `+` of a tile: expected a tile of shape (64, 64) or a number on the other
    side, got the compile-time str 'x'
    at: td.zeros((64, 64)) + "x"
    """
    td.zeros((64, 64)) + "x"


@refused()
def integers_divided():
    """TypeMismatch: `/` does not exist for a tile of int32
    at: td.full((64, 64), 1) / 2
    hint: write // for integers, or convert the tile first: tile.to(td.float32)"""
    td.full((64, 64), 1) / 2


@refused()
def integers_times_a_float():
    """TypeMismatch: `*` of a tile and a number: 1.5 does not convert to the tile's int32 by itself
    at: td.full((64, 64), 1) * 1.5
    hint: convert the tile first: tile.to(td.float32)"""
    td.full((64, 64), 1) * 1.5


@refused()
def integers_divided_by_zero():
    """InvalidValue: `%` of a tile: division by zero
    at: td.full((64, 64), 1) % 0"""
    td.full((64, 64), 1) % 0


@refused()
def integers_shifted_too_far():
    """InvalidValue: `<<` of a tile of int16: expected a count from 0 to 15, got 16
    at: td.full((64, 64), 1, td.int16) << 16"""
    td.full((64, 64), 1, td.int16) << 16


@refused()
def fp8_added():
    """TypeMismatch: `+` does not exist for a tile of float8_e5m2
    at: td.zeros((64, 64), td.float8_e5m2) + 1
    hint: convert it first: tile.to(td.float32)"""
    td.zeros((64, 64), td.float8_e5m2) + 1


@refused()
def truth_of_a_tile():
    """TypeMismatch: a float32 tile of shape (64, 64) is neither true nor false
    at: td.zeros((64, 64))"""
    if td.zeros((64, 64)):
        pass


@refused()
def unknown_attribute():
    """TypeMismatch: a float32 tile of shape (64, 64) has no attribute 'T'
    at: td.zeros((64, 64)).T
    hint: it has: dtype, shape, to"""
    td.zeros((64, 64)).T


@refused()
def transposition_of_rank_3():
    """TypeMismatch: .T: expected a shared tile of rank 2, got a bfloat16 shared tile of shape
    (1, 64, 64)
    at: a.T"""
    _, a, _ = operands((1, 64, 64), (64, 64))
    a.T


@refused()
def conversion_to_no_dtype():
    """TypeMismatch: .to: expected a dtype such as td.float32, got the compile-time str 'half'
    at: td.zeros((64, 64)).to("half")"""
    td.zeros((64, 64)).to("half")


@refused()
def number_that_does_not_fit():
    """InvalidValue: 256 does not fit uint8: expected 0 to 255
    at: td.uint8(256)"""
    td.uint8(256)


@refused(a=BF16)
def conversion_of_a_tensor(a):
    """TypeMismatch: td.float32: expected a number or a register tile, got a bfloat16 tensor of
    rank 2
    at: td.float32(a)"""
    td.float32(a)


# ----------------------------------------------------------------- scheduler, grid, functions


@refused(x=td.float32)
def scheduler_of_floats(x):
    """TypeMismatch: td.TileScheduler: m_tiles: expected an integer, got a run-time float32
    at: td.TileScheduler(x, 4)"""
    td.TileScheduler(x, 4)


@refused(n=INT)
def scheduler_of_run_time_group(n):
    """TypeMismatch: td.TileScheduler: group: expected an int known at compile time, got a
    run-time int32
    at: td.TileScheduler(4, 4, group=n)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    td.TileScheduler(4, 4, group=n)


@refused(n=td.bool_)
def scheduler_of_run_time_lockstep(n):
    """TypeMismatch: td.TileScheduler: lockstep: expected True or False, known at compile time, got
    a run-time bool_
    at: td.TileScheduler(4, 4, lockstep=n)
    hint: use a literal, or a kernel parameter annotated td.Constant[bool]"""
    td.TileScheduler(4, 4, lockstep=n)


@refused()
def scheduler_of_no_lockstep():
    """TypeMismatch: td.TileScheduler: lockstep: expected True or False, known at compile time, got
    the compile-time int 1
    at: td.TileScheduler(4, 4, 8, 1)"""
    td.TileScheduler(4, 4, 8, 1)


@refused()
def scheduler_of_no_group():
    """InvalidValue: td.TileScheduler: group: expected at least 1, got 0
    at: td.TileScheduler(4, 4, group=0)"""
    td.TileScheduler(4, 4, group=0)


@refused()
def scheduler_of_negative_tiles():
    """InvalidValue: td.TileScheduler: n_tiles: expected at least 0, got -1
    at: td.TileScheduler(4, -1)"""
    td.TileScheduler(4, -1)


@refused()
def unknown_attribute_of_a_scheduler():
    """TypeMismatch: a tile scheduler has no attribute 'tiles'
    at: td.TileScheduler(1, 1).tiles
    hint: it has: deal, num_tiles"""
    td.TileScheduler(1, 1).tiles


@refused()
def fourth_axis():
    """InvalidValue: td.block_id: axis: expected a number from 0 to 2, got 3
    at: td.block_id(3)"""
    td.block_id(3)


@refused()
def negative_axis():
    """InvalidValue: td.num_blocks: axis: expected a number from 0 to 2, got -1
    at: td.num_blocks(-1)"""
    td.num_blocks(-1)


@refused(n=INT)
def unrolled_loop_of_run_time_length(n):
    """TypeMismatch: td.static_range: stop: expected an int known at compile time, got a run-time
    int32
    at: td.static_range(n)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    for _ in td.static_range(n):
        pass


@refused()
def unrolled_loop_without_step():
    """InvalidValue: td.static_range: expected a step that is not zero, got 0
    at: td.static_range(1, 2, 0)"""
    for _ in td.static_range(1, 2, 0):
        pass


@refused(x=td.float32)
def cdiv_of_a_float(x):
    """TypeMismatch: td.cdiv: a: expected an integer, got a run-time float32
    at: td.cdiv(x, 2)"""
    td.cdiv(x, 2)


@refused(n=INT)
def cdiv_by_zero(n):
    """InvalidValue: td.cdiv: b: expected a number that is not zero, got 0
    at: td.cdiv(n, 0)"""
    td.cdiv(n, 0)


@refused(a=BF16)
def maximum_of_a_tensor(a):
    """TypeMismatch: td.maximum: b: expected a number or a register tile, got a bfloat16 tensor of
    rank 2
    at: td.maximum(0, a)"""
    td.maximum(0, a)


# ----------------------------------------------------------------------------------- print


@refused()
def print_of_a_tile():
    """TypeMismatch: td.print: expected scalars and text, got a float32 tile of shape (64, 64)
    at: td.print("acc", td.zeros((64, 64)))"""
    td.print("acc", td.zeros((64, 64)))


@refused()
def print_of_a_scheduler():
    """TypeMismatch: td.print: a tile scheduler has no text to print
    at: td.print(td.TileScheduler(1, 1))"""
    td.print(td.TileScheduler(1, 1))


@refused(n=INT)
def print_of_an_object(n):
    """TypeMismatch: td.print: a Point object has no text to print
    at: td.print(Point(n))"""
    td.print(Point(n))


@refused(n=INT)
def print_of_a_run_time_separator(n):
    """TypeMismatch: td.print: sep: expected a str known at compile time, got a run-time int32
    at: td.print(1, 2, sep=n)"""
    td.print(1, 2, sep=n)


@refused(n=INT)
def print_centred(n):
    """InvalidValue: td.print: the GPU cannot format with '^5d': expected
    [<>][+ -][0][width][.precision][d x X o e E f F g G]
    at: td.print(f"{n:^5d}")"""
    td.print(f"{n:^5d}")


@refused(x=td.float32)
def print_of_a_float_as_integer(x):
    """InvalidValue: td.print: the GPU cannot format with '4d': 'd' is for integers, and the value
    is float32
    at: td.print(f"{x:4d}")"""
    td.print(f"{x:4d}")


@refused(n=INT)
def print_of_an_integer_with_precision(n):
    """InvalidValue: td.print: the GPU cannot format with '.3d': a precision is for floats
    at: td.print(f"{n:.3d}")"""
    td.print(f"{n:.3d}")


@refused(n=INT)
def print_of_a_conversion(n):
    """InvalidValue: td.print: the GPU cannot format the text of a run-time value, which
    `!r:>9` asks for
    at: td.print(f"{n!r:>9}")
    hint: leave the conversion out"""
    td.print(f"{n!r:>9}")


@refused(n=INT)
def print_of_many(n):
    """InvalidValue: td.print: expected at most 32 run-time values in one call, got 33
    at: td.print((n,) * 33)
    hint: split it into several calls"""
    td.print((n,) * 33)


@refused()
def print_of_nul():
    r"""InvalidValue: td.print: a NUL character would end the text on the GPU
    at: td.print("a\0b")"""
    td.print("a\0b")


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
