"""Misuse of im2col loads, each with its whole report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiledsl as td
from tests.language.traced import Refused, held, one_line, report
from tiledsl.frontend.build import TensorSpec

cases: list[Any] = []
refused = Refused(cases)

BF16 = TensorSpec(td.bfloat16, 2)
INT = td.int32


# ---------------------------------------------------------------------------------- im2col

NHWC = TensorSpec(td.bfloat16, 4)
NWC = TensorSpec(td.bfloat16, 3)
NDHWC = TensorSpec(td.bfloat16, 5)


@refused(x=BF16)
def im2col_of_a_matrix(x):
    """TypeMismatch: td.tma_load_im2col: tensor: expected a channels-last tensor of rank 3 to 5:
    (image, [depth, [height,]] width, channel), got a bfloat16 tensor of rank 2
    at: td.tma_load_im2col(x, (0, 0), (), tile, barrier, lower=(), upper=())"""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(x, (0, 0), (), tile, barrier, lower=(), upper=())


@refused(x=NHWC)
def im2col_into_three_dimensions(x):
    """TypeMismatch: td.tma_load_im2col: tile: expected one of rank 2, (pixels, channels), got
    shape (2, 64, 64)
    at: td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(0, 0), upper=(0, 0))"""
    tile, barrier = held((2, 64, 64))
    td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(0, 0), upper=(0, 0))


@refused(x=NHWC)
def im2col_without_enough_bounds(x):
    """TypeMismatch: td.tma_load_im2col: lower: expected a tuple of 2 ints, one for each spatial
    dimension, got 1 of them
    at: td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(0,), upper=(0, 0))"""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(0,), upper=(0, 0))


@refused(x=NWC)
def im2col_with_one_number_for_a_tuple(x):
    """TypeMismatch: td.tma_load_im2col: lower: expected a tuple of 1 int, one for each spatial
    dimension, got the compile-time int -1
    at: td.tma_load_im2col(x, (0, 0, 0), (0,), tile, barrier, lower=-1, upper=(0,))
    hint: write (x,) for one"""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(x, (0, 0, 0), (0,), tile, barrier, lower=-1, upper=(0,))


@refused(x=NWC)
def im2col_bounds_of_rank_3(x):
    """InvalidValue: td.tma_load_im2col: lower: number 0: expected a number from -32768 to 32767,
    got -32769
    at: td.tma_load_im2col(x, (0, 0, 0), (0,), tile, barrier, lower=(-32769,), upper=(0,))"""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(x, (0, 0, 0), (0,), tile, barrier, lower=(-32769,), upper=(0,))


@refused(x=NHWC)
def im2col_bounds_of_rank_4(x):
    """InvalidValue: td.tma_load_im2col: upper: number 1: expected a number from -128 to 127, got
    128
    at: td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(0, 0), upper=(0, 128))"""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(0, 0), upper=(0, 128))


@refused(x=NDHWC)
def im2col_bounds_of_rank_5(x):
    """InvalidValue: td.tma_load_im2col: lower: number 1: expected a number from -16 to 15, got -17
    at: td.tma_load_im2col("""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(
        x, (0, 0, 0, 0, 0), (0, 0, 0), tile, barrier, lower=(0, -17, 0), upper=(0, 0, 0)
    )


@refused(x=NHWC, n=INT)
def im2col_bounds_at_run_time(x, n):
    """TypeMismatch: td.tma_load_im2col: lower: number 0: expected an int known at compile time,
    got a run-time int32
    at: td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(n, 0), upper=(0, 0))
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(n, 0), upper=(0, 0))


@refused(x=NHWC)
def im2col_without_enough_offsets(x):
    """TypeMismatch: td.tma_load_im2col: offsets: expected a tuple of 2 integers, one for each
    spatial dimension, got 3 of them
    at: td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0, 0), tile, barrier, lower=(0, 0), upper=(0,
    0))"""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0, 0), tile, barrier, lower=(0, 0), upper=(0, 0))


@refused(x=NHWC)
def im2col_offsets_that_are_no_tuple(x):
    """TypeMismatch: td.tma_load_im2col: offsets: expected a tuple of 2 integers, one for each
    spatial dimension, got the compile-time int 1
    at: td.tma_load_im2col(x, (0, 0, 0, 0), 1, tile, barrier, lower=(0, 0), upper=(0, 0))"""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(x, (0, 0, 0, 0), 1, tile, barrier, lower=(0, 0), upper=(0, 0))


@refused(x=NHWC)
def im2col_negative_offset(x):
    """InvalidValue: td.tma_load_im2col: offsets: number 1: expected 0 to 255, got -1
    at: td.tma_load_im2col(x, (0, 0, 0, 0), (1, -1), tile, barrier, lower=(0, 0), upper=(0, 0))"""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(x, (0, 0, 0, 0), (1, -1), tile, barrier, lower=(0, 0), upper=(0, 0))


@refused(x=NDHWC)
def im2col_large_offset(x):
    """InvalidValue: td.tma_load_im2col: offsets: number 2: expected 0 to 31, got 32
    at: td.tma_load_im2col("""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(
        x, (0, 0, 0, 0, 0), (0, 0, 32), tile, barrier, lower=(0, 0, 0), upper=(0, 0, 0)
    )


@refused(x=NHWC, r=td.float32)
def im2col_offset_of_floats(x, r):
    """TypeMismatch: td.tma_load_im2col: offsets: number 0: expected an integer, got a run-time
    float32
    at: td.tma_load_im2col(x, (0, 0, 0, 0), (r, 0), tile, barrier, lower=(0, 0), upper=(0, 0))"""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(x, (0, 0, 0, 0), (r, 0), tile, barrier, lower=(0, 0), upper=(0, 0))


@refused(x=NHWC)
def im2col_strides(x):
    """InvalidValue: td.tma_load_im2col: strides: number 0: expected a number from 1 to 8, got 0
    at: td.tma_load_im2col("""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(
        x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(0, 0), upper=(0, 0), strides=(0, 2)
    )


@refused(x=NHWC)
def im2col_of_many_pixels(x):
    """InvalidValue: td.tma_load_im2col: tile: expected at most 1024 pixels, got 1032
    at: td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(0, 0), upper=(0, 0))
    hint: load several tiles"""
    tile, barrier = held((1032, 8))
    td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(0, 0), upper=(0, 0))


@refused(x=NHWC)
def im2col_of_many_channels(x):
    """InvalidValue: td.tma_load_im2col: tile: expected at most 256 channels, as no swizzle divides
    its rows, got 264
    at: td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(0, 0), upper=(0, 0))
    hint: use a multiple of 16 channels, which is copied in pieces"""
    tile, barrier = held((8, 264))
    td.tma_load_im2col(x, (0, 0, 0, 0), (0, 0), tile, barrier, lower=(0, 0), upper=(0, 0))


@refused(x=NHWC)
def im2col_at_an_odd_channel(x):
    """InvalidValue: td.tma_load_im2col: coords: the last coordinate 4 is byte 8 of a row of
    bfloat16 elements: expected a multiple of 16 bytes
    at: td.tma_load_im2col(x, (0, 0, 0, 4), (0, 0), tile, barrier, lower=(0, 0), upper=(0, 0))
    hint: use a multiple of 8"""
    tile, barrier = held((64, 64))
    td.tma_load_im2col(x, (0, 0, 0, 4), (0, 0), tile, barrier, lower=(0, 0), upper=(0, 0))


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
