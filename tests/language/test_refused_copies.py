"""Misuse of copies to and from memory, each with its whole report."""

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
F32 = TensorSpec(td.float32, 2)
INT = td.int32


# ---------------------------------------------------------------------------------- barriers


@refused(a=BF16)
def load_onto_a_row_of_barriers(a):
    """TypeMismatch: td.tma_load: barrier: expected the barrier of a stage, got a row of mbarriers
    at: td.tma_load(a, (0, 0), tile, bars)
    hint: choose one of them: x[i]"""
    bars = td.mbarrier(number=2)
    tile = td.shared((64, 64), a.dtype)
    td.tma_load(a, (0, 0), tile, bars)


@refused(a=BF16)
def load_into_a_row_of_tiles(a):
    """TypeMismatch: td.tma_load: tile: expected a tile in shared memory, got a row of shared tiles
    at: td.tma_load(a, (0, 0), tiles, bar)
    hint: choose one of them: x[i]"""
    bar = td.mbarrier()
    tiles = td.shared((64, 64), a.dtype, number=2)
    td.tma_load(a, (0, 0), tiles, bar)


# ------------------------------------------------------------------------ stores that combine


@refused(c=F32)
def unknown_reduction(c):
    """InvalidValue: td.tma_store: reduce: expected one of 'add', 'min', 'max', 'and', 'or', 'xor',
    got 'sum'
    at: td.tma_store(td.zeros((64, 64)), c, (0, 0), reduce="sum")"""
    td.tma_store(td.zeros((64, 64)), c, (0, 0), reduce="sum")


@refused(c=F32)
def minimum_of_float32(c):
    """InvalidValue: td.tma_store: reduce: 'min' does not exist for float32: expected one of int32,
    uint32, int64, uint64, float16, bfloat16
    at: td.tma_store(td.zeros((64, 64)), c, (0, 0), reduce="min")
    hint: float32 has 'add'"""
    td.tma_store(td.zeros((64, 64)), c, (0, 0), reduce="min")


@refused(c=BF16)
def bits_of_bfloat16(c):
    """InvalidValue: td.tma_store: reduce: 'xor' does not exist for bfloat16: expected one of
    int32, uint32, int64, uint64
    at: td.tma_store(td.zeros((64, 64), c.dtype), c, (0, 0), reduce="xor")
    hint: bfloat16 has 'add', 'min', 'max'"""
    td.tma_store(td.zeros((64, 64), c.dtype), c, (0, 0), reduce="xor")


@refused(c=TensorSpec(td.int16, 2))
def sum_of_int16(c):
    """InvalidValue: td.tma_store: reduce: 'add' does not exist for int16: expected one of int32,
    uint32, int64, uint64, float32, float16, bfloat16
    at: td.tma_store(td.zeros((64, 64), c.dtype), c, (0, 0), reduce="add")"""
    td.tma_store(td.zeros((64, 64), c.dtype), c, (0, 0), reduce="add")


@refused(c=TensorSpec(td.float64, 2))
def sum_of_float64(c):
    """InvalidValue: td.tma_store: reduce: 'add' does not exist for float64: expected one of int32,
    uint32, int64, uint64, float32, float16, bfloat16
    at: td.tma_store(td.zeros((64, 64), c.dtype), c, (0, 0), reduce="add")"""
    td.tma_store(td.zeros((64, 64), c.dtype), c, (0, 0), reduce="add")


@refused(c=F32)
def store_of_a_line(c):
    """TypeMismatch: td.tma_store: tile: expected a register tile of rank 2, got a float32 tile of
    shape (64,)
    at: td.tma_store(td.zeros((64,)), c, (0, 0))
    hint: td.store writes tiles of rank 1"""
    td.tma_store(td.zeros((64,)), c, (0, 0))


@refused(c=TensorSpec(td.float32, 3))
def store_of_three_dimensions(c):
    """TypeMismatch: td.tma_store: tile: expected a register tile of rank 2, got a float32 tile of
    shape (2, 64, 64)
    at: td.tma_store(td.zeros((2, 64, 64)), c, (0, 0, 0))"""
    td.tma_store(td.zeros((2, 64, 64)), c, (0, 0, 0))


@refused(c=F32)
def store_of_an_expanded_tile(c):
    """TypeMismatch: td.tma_store: tile: expected a register tile or a tile in shared memory, got a
    tile of rank 1 with a new axis
    at: td.tma_store(td.zeros((64,))[None, :], c, (0, 0))
    hint: give it its other extent: td.zeros((rows, 64), td.float32) + x"""
    td.tma_store(td.zeros((64,))[None, :], c, (0, 0))


# --------------------------------------------------------------------------------- prefetches


@refused(a=BF16)
def prefetch_of_a_narrow_tile(a):
    """InvalidValue: td.tma_prefetch: a row of this tile is 8 bytes (4 bfloat16 elements): expected
    a multiple of 16 bytes
    at: td.tma_prefetch(a, (0, 0), (64, 4))
    hint: use a multiple of 8 for the last extent of (64, 4)"""
    td.tma_prefetch(a, (0, 0), (64, 4))


@refused(a=BF16)
def prefetch_of_a_tile_of_higher_rank(a):
    """TypeMismatch: td.tma_prefetch: expected a tile of at most the tensor's rank 2, got one of
    shape (2, 64, 64)
    at: td.tma_prefetch(a, (0, 0), (2, 64, 64))"""
    td.tma_prefetch(a, (0, 0), (2, 64, 64))


@refused(a=BF16, n=INT)
def prefetch_of_run_time_shape(a, n):
    """TypeMismatch: td.tma_prefetch: shape: expected extents known at compile time, but extent 0
    is a run-time int32
    at: td.tma_prefetch(a, (0, 0), (n, 64))
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    td.tma_prefetch(a, (0, 0), (n, 64))


@refused(a=BF16)
def prefetch_at_an_odd_column(a):
    """InvalidValue: td.tma_prefetch: coords: the last coordinate 3 is byte 6 of a row of bfloat16
    elements: expected a multiple of 16 bytes
    at: td.tma_prefetch(a, (0, 3), (64, 64))
    hint: use a multiple of 8"""
    td.tma_prefetch(a, (0, 3), (64, 64))


# ------------------------------------------------------------------------------- other copies


@refused(a=F32)
def async_copy_of_another_dtype(a):
    """TypeMismatch: td.async_copy: the tile is bfloat16, but tensor a is float32: expected one
    dtype, because a copy converts nothing
    at: td.async_copy(a, (0, 0), tile, barrier)
    hint: declare the payload with a.dtype"""
    tile, barrier = held((64, 64))
    td.async_copy(a, (0, 0), tile, barrier)


@refused(a=BF16)
def async_copy_of_a_transposed_tile(a):
    """TypeMismatch: td.async_copy: tile: expected a tile as it is stored, got a transposed one
    at: td.async_copy(a, (0, 0), tile.T, barrier)
    hint: load into the tile itself and write .T where it is used"""
    tile, barrier = held((64, 64))
    td.async_copy(a, (0, 0), tile.T, barrier)


@refused(a=BF16)
def async_copy_into_registers(a):
    """TypeMismatch: td.async_copy: tile: expected a tile in shared memory, got a bfloat16 tile of
    shape (64, 64)
    at: td.async_copy(a, (0, 0), td.zeros((64, 64), a.dtype), barrier)
    hint: take it from the stage: stage.payload().get_tile(stage.stage())"""
    _, barrier = held((64, 64))
    td.async_copy(a, (0, 0), td.zeros((64, 64), a.dtype), barrier)


@refused(a=BF16)
def async_copy_without_a_barrier(a):
    """TypeMismatch: td.async_copy: barrier: expected the barrier of a stage, got None
    at: td.async_copy(a, (0, 0), tile, None)
    hint: write stage.barrier()"""
    tile, _ = held((64, 64))
    td.async_copy(a, (0, 0), tile, None)


@refused(a=BF16)
def async_copy_at_too_few_coordinates(a):
    """TypeMismatch: td.async_copy: coords: expected 2 coordinates for a tensor of rank 2, got 1
    at: td.async_copy(a, (0,), tile, barrier)"""
    tile, barrier = held((64, 64))
    td.async_copy(a, (0,), tile, barrier)


@refused(a=TensorSpec(td.bfloat16, 1))
def async_copy_of_a_tile_of_higher_rank(a):
    """TypeMismatch: td.async_copy: expected a tile of at most the tensor's rank 1, got one of
    shape (64, 64)
    at: td.async_copy(a, (0,), tile, barrier)"""
    tile, barrier = held((64, 64))
    td.async_copy(a, (0,), tile, barrier)


@refused(a=BF16)
def bulk_load_of_a_matrix(a):
    """TypeMismatch: td.bulk_load: tile: expected a tile of rank 1, got a bfloat16 shared tile of
    shape (64, 64)
    at: td.bulk_load(a, (0, 0), tile, barrier)
    hint: td.tma_load copies tiles of more dimensions"""
    tile, barrier = held((64, 64))
    td.bulk_load(a, (0, 0), tile, barrier)


@refused(a=BF16)
def bulk_load_of_an_odd_length(a):
    """InvalidValue: td.bulk_load: tile: 12 bfloat16 elements are 24 bytes: expected a multiple of
    16 bytes
    at: td.bulk_load(a, (0, 0), td.shared((12,), a.dtype, swizzle=0), bar)
    hint: use a multiple of 8 elements"""
    bar = td.mbarrier()
    td.bulk_load(a, (0, 0), td.shared((12,), a.dtype, swizzle=0), bar)


@refused(a=BF16)
def bulk_load_at_an_odd_column(a):
    """InvalidValue: td.bulk_load: coords: the last coordinate 4 is byte 8 of a row of bfloat16
    elements: expected a multiple of 16 bytes
    at: td.bulk_load(a, (0, 4), tile, barrier)
    hint: use a multiple of 8"""
    tile, barrier = held((64,), swizzle=0)
    td.bulk_load(a, (0, 4), tile, barrier)


@refused(a=BF16)
def bulk_load_before_the_tensor(a):
    """InvalidValue: td.bulk_load: coords: coordinate 1 is -8: expected at least 0, for a bulk copy
    cannot start before the tensor
    at: td.bulk_load(a, (0, -8), tile, barrier)
    hint: td.tma_load may start before a tensor, where it reads zeros"""
    tile, barrier = held((64,), swizzle=0)
    td.bulk_load(a, (0, -8), tile, barrier)


@refused(a=BF16)
def bulk_load_with_an_unknown_hint(a):
    """InvalidValue: td.bulk_load: cache: expected one of 'evict_first', 'evict_normal',
    'evict_last', got 'last'
    at: td.bulk_load(a, (0, 0), tile, barrier, cache="last")"""
    tile, barrier = held((64,), swizzle=0)
    td.bulk_load(a, (0, 0), tile, barrier, cache="last")


# ------------------------------------------------------------------- register tiles and memory


@refused(a=F32)
def load_of_three_dimensions(a):
    """TypeMismatch: td.load: shape: a register tile has rank 1 or 2, got shape (4, 64, 64)
    at: td.load(a, (0, 0), (4, 64, 64))"""
    td.load(a, (0, 0), (4, 64, 64))


@refused(a=TensorSpec(td.float32, 1))
def load_of_a_tile_of_higher_rank(a):
    """TypeMismatch: td.load: expected a tile of at most the tensor's rank 1, got one of shape (64,
    64)
    at: td.load(a, (0,), (64, 64))"""
    td.load(a, (0,), (64, 64))


@refused(n=INT, a=F32)
def load_of_run_time_shape(n, a):
    """TypeMismatch: td.load: shape: expected extents known at compile time, but extent 1 is a
    run-time int32
    at: td.load(a, (0, 0), (64, n))
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    td.load(a, (0, 0), (64, n))


@refused(a=F32)
def load_of_one_number(a):
    """TypeMismatch: td.load: shape: expected a tuple of ints known at compile time, got the
    compile-time int 64
    at: td.load(a, (0, 0), 64)
    hint: write (rows, columns)"""
    td.load(a, (0, 0), 64)


@refused(a=F32)
def load_at_too_few_coordinates(a):
    """TypeMismatch: td.load: coords: expected 2 coordinates for a tensor of rank 2, got 1
    at: td.load(a, (0,), (64, 64))"""
    td.load(a, (0,), (64, 64))


@refused(a=BF16)
def load_from_a_shared_tile(a):
    """TypeMismatch: td.load: tensor: expected a tensor, got a bfloat16 shared tile of shape (64,
    64)
    at: td.load(tile, (0, 0), (64, 64))
    hint: a shared tile is read as a whole: tile.load()"""
    tile, _ = held((64, 64))
    td.load(tile, (0, 0), (64, 64))


@refused(a=BF16)
def store_of_another_dtype(a):
    """TypeMismatch: td.store: the tile is float32, but tensor a is bfloat16: expected one dtype,
    because a copy converts nothing
    at: td.store(td.zeros((64, 64)), a, (0, 0))
    hint: convert the tile first: tile.to(a.dtype)"""
    td.store(td.zeros((64, 64)), a, (0, 0))


@refused(a=BF16)
def store_of_a_shared_tile(a):
    """TypeMismatch: td.store: value: expected a register tile, got a bfloat16 shared tile of shape
    (64, 64)
    at: td.store(tile, a, (0, 0))
    hint: load it first: tile.load()"""
    tile, _ = held((64, 64))
    td.store(tile, a, (0, 0))


@refused(a=F32)
def store_of_a_number(a):
    """TypeMismatch: td.store: value: expected a register tile, got the compile-time float 1.0
    at: td.store(1.0, a, (0, 0))
    hint: make a tile of it: td.full(shape, value, dtype)"""
    td.store(1.0, a, (0, 0))


@refused(a=F32)
def store_the_wrong_way_round(a):
    """TypeMismatch: td.store: value: expected a register tile, got a float32 tensor of rank 2
    at: td.store(a, td.zeros((64, 64)), (0, 0))
    hint: the tile comes first: td.store(value, tensor, coords)"""
    td.store(a, td.zeros((64, 64)), (0, 0))


@refused(a=F32)
def plain_store_of_an_expanded_tile(a):
    """TypeMismatch: td.store: value: expected a register tile, got a tile of rank 1 with a new
    axis
    at: td.store(td.zeros((64,))[None, :], a, (0, 0))
    hint: give it its other extent: td.zeros((rows, 64), td.float32) + x"""
    td.store(td.zeros((64,))[None, :], a, (0, 0))


@refused()
def shared_load_of_three_dimensions():
    """TypeMismatch: .load: a register tile has rank 1 or 2, got shape (2, 8, 64)
    at: tile.load()"""
    tile, _ = held((2, 8, 64))
    tile.load()


@refused()
def shared_store_of_another_shape():
    """TypeMismatch: .store: value: expected a tile of the shared tile's shape (64, 64), got (64,
    32)
    at: tile.store(td.zeros((64, 32), td.bfloat16))"""
    tile, _ = held((64, 64))
    tile.store(td.zeros((64, 32), td.bfloat16))


@refused()
def shared_store_of_another_dtype():
    """TypeMismatch: .store: value: expected the shared tile's dtype bfloat16, got float32
    at: tile.store(td.zeros((64, 64)))
    hint: convert it first: value.to(tile.dtype)"""
    tile, _ = held((64, 64))
    tile.store(td.zeros((64, 64)))


@refused()
def shared_store_of_a_number():
    """TypeMismatch: .store: value: expected a register tile, got the compile-time float 0.0
    at: tile.store(0.0)
    hint: make a tile of it: td.full(shape, value, dtype)"""
    tile, _ = held((64, 64))
    tile.store(0.0)


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
