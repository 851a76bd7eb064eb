"""Misuse of clusters and of the options of a load, each with its whole report."""

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


# --------------------------------------------------------------------------------- multicast


@refused(a=BF16)
def multicast_without_clusters(a):
    """InvalidValue: td.tma_load: multicast: this kernel has no clusters
    at: td.tma_load(a, (0, 0), tile, barrier, multicast=0)
    hint: declare them: @td.kernel(cluster=(2, 1), ...)"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, multicast=0)


@refused(a=BF16, cluster=(2, 1))
def multicast_along_an_axis_too_many(a):
    """InvalidValue: td.tma_load: multicast: expected an axis of the cluster (2, 1), 0 to 1, got 2
    at: td.tma_load(a, (0, 0), tile, barrier, multicast=2)"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, multicast=2)


@refused(a=BF16, cluster=(2, 1))
def multicast_along_a_negative_axis(a):
    """InvalidValue: td.tma_load: multicast: expected an axis of the cluster (2, 1), 0 to 1, got -1
    at: td.tma_load(a, (0, 0), tile, barrier, multicast=(0, -1))"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, multicast=(0, -1))


@refused(a=BF16, cluster=(2, 1))
def multicast_twice(a):
    """InvalidValue: td.tma_load: multicast: expected each axis once, got 0 twice
    at: td.tma_load(a, (0, 0), tile, barrier, multicast=(0, 0))"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, multicast=(0, 0))


@refused(a=BF16, n=INT, cluster=(2, 1))
def multicast_along_a_run_time_axis(a, n):
    """TypeMismatch: td.tma_load: multicast: axis: expected an int known at compile time, got a
    run-time int32
    at: td.tma_load(a, (0, 0), tile, barrier, multicast=n)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, multicast=n)


@refused(a=BF16, cluster=(2, 1))
def multicast_along_a_name(a):
    """TypeMismatch: td.tma_load: multicast: axis: expected an int, got the compile-time str 'm'
    at: td.tma_load(a, (0, 0), tile, barrier, multicast="m")"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, multicast="m")


@refused(a=BF16, cluster=(2, 1))
def partitioned_perhaps(a):
    """TypeMismatch: td.tma_load: partitioned: expected True or False, known at compile time, got
    the compile-time int 2
    at: td.tma_load(a, (0, 0), tile, barrier, multicast=0, partitioned=2)"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, multicast=0, partitioned=2)


@refused(a=BF16, n=td.bool_, cluster=(2, 1))
def partitioned_at_run_time(a, n):
    """TypeMismatch: td.tma_load: partitioned: expected True or False, known at compile time, got a
    run-time bool_
    at: td.tma_load(a, (0, 0), tile, barrier, multicast=0, partitioned=n)
    hint: use a literal, or a kernel parameter annotated td.Constant[bool]"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, multicast=0, partitioned=n)


@refused(a=BF16, cluster=(3, 1))
def uneven_shares(a):
    """InvalidValue: td.tma_load: multicast: a tile of shape (64, 64) is shared by 3 blocks:
    expected a first extent that is a multiple of 3, got 64
    at: td.tma_load(a, (0, 0), tile, barrier, multicast=0)
    hint: write partitioned=False: one block loads the whole tile for all"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, multicast=0)


@refused(a=BF16, cluster=(2, 2))
def shares_of_half_an_atom(a):
    """InvalidValue: td.tma_load: multicast: a tile of shape (16, 64) is shared by 4 blocks, 4 of
    its first extent each: expected a multiple of 8 rows, of which its swizzle of 128 bytes is
    made
    at: td.tma_load(a, (0, 0), tile, barrier, multicast=(0, 1))
    hint: use a multiple of 32 rows, or write partitioned=False: one block loads the whole tile
    for all"""
    tile, barrier = held((16, 64))
    td.tma_load(a, (0, 0), tile, barrier, multicast=(0, 1))


@refused(a=BF16, cluster=(2,))
def shares_that_are_not_aligned(a):
    """InvalidValue: td.tma_load: multicast: a tile of shape (2, 24) is shared by 2 blocks, 48
    bytes each: expected a multiple of 128 bytes
    at: td.tma_load(a, (0, 0), tile, barrier, multicast=0)
    hint: write partitioned=False: one block loads the whole tile for all"""
    tile, barrier = held((2, 24), swizzle=0)
    td.tma_load(a, (0, 0), tile, barrier, multicast=0)


@refused(a=BF16, cluster=(2,))
def shares_of_a_row(a):
    """InvalidValue: td.tma_load: multicast: a tile of shape (256,) has no rows to share among 2
    blocks
    at: td.tma_load(a, (0, 0), tile, barrier, multicast=0)
    hint: write partitioned=False: one block loads the whole tile for all"""
    tile, barrier = held((256,), swizzle=0)
    td.tma_load(a, (0, 0), tile, barrier, multicast=0)


# ------------------------------------------------------------------------ options of a load


@refused(a=BF16)
def unknown_cache_hint(a):
    """InvalidValue: td.tma_load: cache: expected one of 'evict_first', 'evict_normal',
    'evict_last', got 'evict_frist'
    at: td.tma_load(a, (0, 0), tile, barrier, cache="evict_frist")
    hint: did you mean 'evict_first'?"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, cache="evict_frist")


@refused(a=BF16)
def cache_hint_that_is_no_word(a):
    """TypeMismatch: td.tma_load: cache: expected a str known at compile time, got the compile-time
    bool True
    at: td.tma_load(a, (0, 0), tile, barrier, cache=True)"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, cache=True)


@refused(a=BF16)
def too_few_element_strides(a):
    """TypeMismatch: td.tma_load: element_strides: expected a tuple of 2 ints, one for each
    dimension of the tensor, got 1 of them
    at: td.tma_load(a, (0, 0), tile, barrier, element_strides=(2,))"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, element_strides=(2,))


@refused(a=BF16)
def one_element_stride(a):
    """TypeMismatch: td.tma_load: element_strides: expected a tuple of 2 ints, one for each
    dimension of the tensor, got the compile-time int 2
    at: td.tma_load(a, (0, 0), tile, barrier, element_strides=2)"""
    tile, barrier = held((64, 64))
    td.tma_load(a, (0, 0), tile, barrier, element_strides=2)


@refused(a=BF16)
def wide_element_strides(a):
    """InvalidValue: td.tma_load: element_strides: number 0: expected a number from 1 to 8, got 9
    at: td.tma_load(a, (0, 0), tile, barrier, element_strides=(9, 1))"""
    tile, barrier = held((16, 64))
    td.tma_load(a, (0, 0), tile, barrier, element_strides=(9, 1))


@refused(a=BF16, n=INT)
def run_time_element_strides(a, n):
    """TypeMismatch: td.tma_load: element_strides: number 0: expected an int known at compile time,
    got a run-time int32
    at: td.tma_load(a, (0, 0), tile, barrier, element_strides=(n, 1))
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    tile, barrier = held((16, 64))
    td.tma_load(a, (0, 0), tile, barrier, element_strides=(n, 1))


@refused(a=BF16)
def element_strides_of_columns(a):
    """InvalidValue: td.tma_load: element_strides: expected 1 for the last dimension, whose
    elements are copied without gaps, got 2
    at: td.tma_load(a, (0, 0), tile, barrier, element_strides=(1, 2))"""
    tile, barrier = held((16, 64))
    td.tma_load(a, (0, 0), tile, barrier, element_strides=(1, 2))


@refused(a=BF16)
def element_strides_that_cover_too_much(a):
    """InvalidValue: td.tma_load: element_strides: 128 elements along extent 0 of a tile of shape
    (128, 64), in steps of 4, span 509: expected at most 256
    at: td.tma_load(a, (0, 0), tile, barrier, element_strides=(4, 1))
    hint: load a smaller tile"""
    tile, barrier = held((128, 64))
    td.tma_load(a, (0, 0), tile, barrier, element_strides=(4, 1))


# ------------------------------------------------------------------------------------ clusters


@refused(cluster=(2, 1))
def coordinate_of_a_fourth_axis():
    """InvalidValue: td.cluster_id: axis: expected a number from 0 to 2, got 3
    at: td.cluster_id(3)"""
    td.cluster_id(3)


@refused(cluster=(2, 1))
def shape_of_a_negative_axis():
    """InvalidValue: td.cluster_shape: axis: expected a number from 0 to 2, got -1
    at: td.cluster_shape(-1)"""
    td.cluster_shape(-1)


@refused(cluster=(2, 1), n=INT)
def coordinate_of_a_run_time_axis(n):
    """TypeMismatch: td.cluster_id: axis: expected an int known at compile time, got a run-time
    int32
    at: td.cluster_id(n)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    td.cluster_id(n)


@refused(cluster=(2, 1))
def cluster_sync_in_a_role():
    """SyntaxNotSupported: td.cluster_sync inside of role 'load': expected it outside of roles, for
    all threads of the cluster must come
    at: td.cluster_sync()
    hint: let roles wait for each other through pipelines or mbarriers"""
    with td.role("load", warps=1):
        td.cluster_sync()


@refused()
def deal_to_a_number():
    """TypeMismatch: deal: role: expected what `with td.role(...) as me:` gives, got the
    compile-time int 2
    at: tiles.deal(2)
    hint: write `with td.role(name, warps=4, replicas=2) as me:` and tiles.deal(me)"""
    tiles = td.TileScheduler(4, 4)
    for _ in tiles.deal(2):
        pass


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
