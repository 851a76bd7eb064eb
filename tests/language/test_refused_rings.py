"""Misuse of pipelines and their stages, barriers and shared tiles, each with its whole report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiledsl as td
from tests.language.traced import Refused, one_line, report

cases: list[Any] = []
refused = Refused(cases)

INT = td.int32


# -------------------------------------------------------------------------- stages and ready


@refused()
def misspelt_method_of_a_pipeline():
    """TypeMismatch: a tile pipeline has no attribute 'acquire_consumr'
    at: td.InputTilePipeline(td.TileArray(td.int8, (64, 64), 2), 2).acquire_consumr
    hint: did you mean acquire_consumer or try_acquire_consumer?"""
    td.InputTilePipeline(td.TileArray(td.int8, (64, 64), 2), 2).acquire_consumr()


@refused()
def name_of_the_model():
    """TypeMismatch: a bare pipeline has no attribute 'wait_producer'
    at: td.ProducerConsumerPipeline(2).wait_producer
    hint: write wait_full()"""
    td.ProducerConsumerPipeline(2).wait_producer()


@refused()
def initialised_by_hand():
    """TypeMismatch: a bare pipeline has no attribute 'init_mbars'
    at: td.ProducerConsumerPipeline(2).init_mbars
    hint: write nothing: the barriers are initialised before the roles begin"""
    td.ProducerConsumerPipeline(2).init_mbars(1, 1)


@refused()
def ready_without_a_probe():
    """InvalidValue: acquire_if_needed: ready: expected the answer of a try_acquire, got True
    at: td.ProducerConsumerPipeline(2).producer().acquire_if_needed(True)
    hint: only the barrier knows whether the slot is ready: ready = view.try_acquire()"""
    td.ProducerConsumerPipeline(2).producer().acquire_if_needed(True)


@refused(n=INT)
def ready_of_a_number(n):
    """TypeMismatch: wait_full_if_needed: ready: expected a bool, got a run-time int32
    at: td.ProducerConsumerPipeline(2).wait_full_if_needed(n)
    hint: write ready = view.try_acquire()"""
    td.ProducerConsumerPipeline(2).wait_full_if_needed(n)


@refused()
def tiles_of_a_bare_ring():
    """TypeMismatch: a consumer stage of a bare pipeline has no payload: the ring has no tiles
    at: stage.payload
    hint: make tiles with td.shared(..., number=stages), and take tiles[stage.index()]"""
    stage = td.ProducerConsumerPipeline(2).acquire_consumer()
    stage.payload()


@refused()
def release_of_an_explicit_stage():
    """TypeMismatch: release: consume_explicit leaves the arrival to you
    at: stage.release()
    hint: write stage.arrive(), and release_without_signal() or the end of the with block"""
    ring = td.ProducerConsumerPipeline(2)
    with ring.consume_explicit() as stage:
        stage.release()


@refused()
def barrier_of_a_slot_that_is_none():
    """InvalidValue: full_mbar: stage: expected a number from 0 to 1, got 2
    at: td.ProducerConsumerPipeline(2).full_mbar(2)
    hint: write stage.stage()"""
    td.ProducerConsumerPipeline(2).full_mbar(2)


@refused()
def count_of_nobody():
    """InvalidValue: td.ProducerConsumerPipeline: consumer_count: expected a number from 1 to
    1048575, got 0
    at: td.ProducerConsumerPipeline(2, consumer_count=0)"""
    td.ProducerConsumerPipeline(2, consumer_count=0)


@refused(n=INT)
def count_of_run_time(n):
    """TypeMismatch: td.ProducerConsumerPipeline: producer_count: expected an int known at compile
    time, got a run-time int32
    at: td.ProducerConsumerPipeline(2, producer_count=n)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    td.ProducerConsumerPipeline(2, producer_count=n)


@refused(n=INT)
def ring_in_a_loop(n):
    """SyntaxNotSupported: td.ProducerConsumerPipeline: a pipeline belongs to the whole block:
    expected it at the top of the kernel, outside of roles, loops and branches
    at: td.ProducerConsumerPipeline(2)
    hint: make the pipeline before the first td.role"""
    for _ in range(n):
        td.ProducerConsumerPipeline(2)


@refused()
def drain_of_a_consumer():
    """TypeMismatch: a pipeline consumer has no attribute 'drain'
    at: td.ProducerConsumerPipeline(2).consumer().drain
    hint: it has: acquire, acquire_if_needed, acquire_stage, try_acquire"""
    td.ProducerConsumerPipeline(2).consumer().drain()


# --------------------------------------------------------------------------------- barriers


@refused()
def barrier_of_many_arrivals():
    """InvalidValue: td.mbarrier: count: expected a number from 1 to 1048575, got 1048576
    at: td.mbarrier(2**20)"""
    td.mbarrier(2**20)


@refused()
def barrier_row_of_none():
    """InvalidValue: td.mbarrier: number: expected at least 1, got 0
    at: td.mbarrier(number=0)"""
    td.mbarrier(number=0)


@refused()
def barrier_in_a_role():
    """SyntaxNotSupported: td.mbarrier: a barrier belongs to the whole block: expected it at the
    top of the kernel, outside of roles, loops and branches
    at: td.mbarrier()
    hint: make the barrier before the first td.role"""
    with td.role("one", warps=1):
        td.mbarrier()


@refused()
def wait_of_a_row():
    """TypeMismatch: wait: expected one mbarrier, got a row of 2
    at: bars.wait
    hint: write bars[i].wait(...)"""
    bars = td.mbarrier(number=2)
    bars.wait(0)


@refused()
def barrier_beyond_its_row():
    """InvalidValue: index of a row of mbarriers: expected a number from 0 to 1, got 2
    at: td.mbarrier(number=2)[2]"""
    td.mbarrier(number=2)[2]


@refused()
def row_of_a_count():
    """TypeMismatch: expected a row of mbarriers, got a single one
    at: bars[0]
    hint: td.mbarrier(number=4) makes a row; the first argument is the count of arrivals"""
    bars = td.mbarrier(4)
    bars[0].arrive()


@refused(x=td.float32)
def parity_of_a_float(x):
    """TypeMismatch: wait: parity: expected an integer, got a run-time float32
    at: td.mbarrier().wait(x)"""
    td.mbarrier().wait(x)


@refused()
def wait_without_a_parity():
    """TypeMismatch: wait: missing a required argument: 'parity'
    at: td.mbarrier().wait()
    hint: its signature is wait(parity)"""
    td.mbarrier().wait()


@refused()
def arrival_without_a_cluster():
    """InvalidValue: arrive: rank: this kernel has no clusters
    at: td.mbarrier().arrive(rank=0)
    hint: write @td.kernel(cluster=(2, 1)), or leave the rank out"""
    td.mbarrier().arrive(rank=0)


@refused(cluster=(2, 2))
def arrival_beyond_the_cluster():
    """InvalidValue: arrive: rank: expected a number from 0 to 3, the blocks of a cluster (2, 2),
    got 4
    at: td.mbarrier().arrive(rank=4)"""
    td.mbarrier().arrive(rank=4)


@refused(cluster=(2, 2), x=td.float32)
def arrival_in_a_block_of_a_float(x):
    """TypeMismatch: arrive: rank: expected an integer, got a run-time float32
    at: td.mbarrier().arrive(rank=x)"""
    td.mbarrier().arrive(rank=x)


@refused(n=INT)
def run_time_bytes(n):
    """TypeMismatch: arrive_and_expect_bytes: nbytes: expected an int known at compile time, got a
    run-time int32
    at: td.mbarrier().arrive_and_expect_bytes(n)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    td.mbarrier().arrive_and_expect_bytes(n)


@refused()
def too_many_bytes():
    """InvalidValue: arrive_and_expect_bytes: nbytes: expected a number from 0 to 1048575, got
    1048576
    at: td.mbarrier().arrive_and_expect_bytes(2**20)"""
    td.mbarrier().arrive_and_expect_bytes(2**20)


@refused()
def misspelt_method_of_a_barrier():
    """TypeMismatch: an mbarrier has no attribute 'arive'
    at: td.mbarrier().arive
    hint: did you mean arrive?"""
    td.mbarrier().arive()


@refused()
def barrier_in_front_of_the_roles():
    """SyntaxNotSupported: an mbarrier is used outside of the roles, in a kernel that has roles
    at: bar.arrive()
    hint: move this into one of the roles"""
    bar = td.mbarrier()
    bar.arrive()
    with td.role("one", warps=1):
        bar.wait(0)


@refused()
def named_barrier_outside_of_roles():
    """SyntaxNotSupported: sync: a named barrier is between roles: expected it inside of one
    at: met.sync()
    hint: what stands before the roles needs no barrier: they begin when it is done"""
    met = td.named_barrier()
    met.sync()


@refused()
def named_barrier_of_a_parity():
    """TypeMismatch: wait: too many positional arguments
    at: met.wait(0)
    hint: its signature is wait()"""
    met = td.named_barrier()
    with td.role("one", warps=1):
        met.wait(0)


@refused()
def arithmetic_of_a_named_barrier():
    """TypeMismatch: `+` does not exist for a named barrier and the compile-time int 1
    at: td.named_barrier() + 1"""
    td.named_barrier() + 1


# ----------------------------------------------------------------------------- shared tiles


@refused()
def shared_of_wrong_order():
    """TypeMismatch: td.shared: shape: expected a tuple of ints known at compile time, got the
    dtype float32
    at: td.shared(td.float32, (64, 64))
    hint: write (rows, columns)"""
    td.shared(td.float32, (64, 64))


@refused()
def shared_in_a_role():
    """SyntaxNotSupported: td.shared: a shared tile belongs to the whole block: expected it at the
    top of the kernel, outside of roles, loops and branches
    at: td.shared((64, 64), td.float32)
    hint: make the shared tile before the first td.role"""
    with td.role("one", warps=1):
        td.shared((64, 64), td.float32)


@refused()
def shared_beyond_its_row():
    """InvalidValue: index of a row of shared tiles: expected a number from 0 to 1, got 3
    at: td.shared((64, 64), td.float32, number=2)[3]"""
    td.shared((64, 64), td.float32, number=2)[3]


@refused()
def shared_of_an_illegal_swizzle():
    """InvalidValue: td.shared: swizzle: a row of 8 float32 elements is 32 bytes, which a swizzle
    of 64 bytes does not divide
    at: td.shared((64, 8), td.float32, swizzle=64)
    hint: use a multiple of 16 for the last extent of (64, 8), or swizzle=32"""
    td.shared((64, 8), td.float32, swizzle=64)


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
