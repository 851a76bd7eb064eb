"""Misuse of pipelines, roles, TMA and mma, each with its whole report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiledsl as td
from tests.language.traced import Refused, one_line, operands, report
from tiledsl.frontend.build import TensorSpec

cases: list[Any] = []
refused = Refused(cases)

BF16 = TensorSpec(td.bfloat16, 2)
F16 = TensorSpec(td.float16, 2)
F32 = TensorSpec(td.float32, 2)
INT = td.int32


# ---------------------------------------------------------------------------------- payload


@refused(n=INT)
def payload_of_run_time_shape(n):
    """TypeMismatch: td.StandardTilePayload: a_shape: expected extents known at compile time, but
    extent 1 is a run-time int32
    at: td.StandardTilePayload(td.int8, td.int8, (64, n), (64, 64), num_pipeline_stages=1)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    td.StandardTilePayload(td.int8, td.int8, (64, n), (64, 64), num_pipeline_stages=1)


@refused()
def payload_of_short_rows():
    """InvalidValue: td.StandardTilePayload: b_shape: a row of 12 bfloat16 elements is 24 bytes,
    expected a multiple of 16 bytes
    at: td.StandardTilePayload(D, D, (64, 64), (64, 12), num_pipeline_stages=1)
    hint: use a multiple of 8 for the last extent of (64, 12)"""
    D = td.bfloat16
    td.StandardTilePayload(D, D, (64, 64), (64, 12), num_pipeline_stages=1)


@refused()
def payload_of_no_rows():
    """InvalidValue: td.StandardTilePayload: a_shape: extent 0: expected at least 1, got 0
    at: td.StandardTilePayload(D, D, (0, 64), (64, 64), num_pipeline_stages=1)"""
    D = td.bfloat16
    td.StandardTilePayload(D, D, (0, 64), (64, 64), num_pipeline_stages=1)


@refused()
def payload_of_a_float():
    """TypeMismatch: td.StandardTilePayload: a_shape: extent 0: expected an int, got the
    compile-time float 64.0
    at: td.StandardTilePayload(D, D, (128 / 2, 64), (64, 64), num_pipeline_stages=1)"""
    D = td.bfloat16
    td.StandardTilePayload(D, D, (128 / 2, 64), (64, 64), num_pipeline_stages=1)


@refused()
def payload_of_no_dtype():
    """TypeMismatch: td.StandardTilePayload: b_dtype: expected a dtype such as td.float32, got
    the compile-time int 16
    at: td.StandardTilePayload(td.int8, 16, (64, 64), (64, 64), num_pipeline_stages=1)"""
    td.StandardTilePayload(td.int8, 16, (64, 64), (64, 64), num_pipeline_stages=1)


@refused()
def payload_of_one_number():
    """TypeMismatch: td.StandardTilePayload: a_shape: expected a tuple of ints known at compile
    time, got the compile-time int 64
    at: td.StandardTilePayload(td.int8, td.int8, 64, 64, num_pipeline_stages=1)
    hint: write (rows, columns)"""
    td.StandardTilePayload(td.int8, td.int8, 64, 64, num_pipeline_stages=1)


@refused()
def payload_without_storage():
    """TypeMismatch: get_tile: this payload has no storage: expected the payload of a stage
    at: payload.get_tile
    hint: write stage.payload().get_tile(stage.stage(), k)"""
    payload = td.StandardTilePayload(td.int8, td.int8, (64, 64), (64, 64), num_pipeline_stages=1)
    payload.get_tile(0, 0)


@refused()
def tile_beyond_the_group():
    """InvalidValue: get_a_tile: k: expected a number from 0 to 0, got 1
    at: stage.payload().get_a_tile(stage.stage(), 1)
    hint: k counts the tiles of a stage: the pipeline's k_group_size"""
    stage, _, _ = operands((64, 64), (64, 64))
    stage.payload().get_a_tile(stage.stage(), 1)


@refused()
def tile_of_a_payload():
    """TypeMismatch: get_tile: stage: expected an integer, got a tile payload
    at: stage.payload().get_tile(stage.payload(), 0)
    hint: write stage.stage()"""
    stage, _, _ = operands((64, 64), (64, 64))
    stage.payload().get_tile(stage.payload(), 0)


# --------------------------------------------------------------------------------- pipeline


@refused()
def pipeline_of_other_stages():
    """InvalidValue: td.InputTilePipeline: expected a payload of 6 pipeline stages for 3 group
    stages of 2 tiles, got one of 4
    at: td.InputTilePipeline(payload, num_group_stages=3, k_group_size=2)
    hint: write num_pipeline_stages=6 for the payload, or num_group_stages=2 here"""
    payload = td.StandardTilePayload(td.int8, td.int8, (64, 64), (64, 64), num_pipeline_stages=4)
    td.InputTilePipeline(payload, num_group_stages=3, k_group_size=2)


@refused()
def pipeline_of_uneven_stages():
    """InvalidValue: td.InputTilePipeline: expected a payload of 4 pipeline stages for 2 group
    stages of 2 tiles, got one of 5
    at: td.InputTilePipeline(payload, num_group_stages=2, k_group_size=2)
    hint: num_pipeline_stages is num_group_stages * k_group_size"""
    payload = td.StandardTilePayload(td.int8, td.int8, (64, 64), (64, 64), num_pipeline_stages=5)
    td.InputTilePipeline(payload, num_group_stages=2, k_group_size=2)


@refused(n=INT)
def pipeline_of_run_time_stages(n):
    """TypeMismatch: td.InputTilePipeline: num_group_stages: expected an int known at compile
    time, got a run-time int32
    at: td.InputTilePipeline(payload, n)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    payload = td.StandardTilePayload(td.int8, td.int8, (64, 64), (64, 64), num_pipeline_stages=5)
    td.InputTilePipeline(payload, n)


@refused()
def pipeline_without_payload():
    """TypeMismatch: td.InputTilePipeline: payload: expected a tile payload, got the compile-time
    int 4
    at: td.InputTilePipeline(4, 1)
    hint: make one with td.StandardTilePayload(...), or td.TileArray(...)"""
    td.InputTilePipeline(4, 1)


@refused()
def pipeline_in_a_role():
    """SyntaxNotSupported: td.InputTilePipeline: a pipeline belongs to the whole block: expected
    it at the top of the kernel, outside of roles, loops and branches
    at: td.InputTilePipeline(payload, 4)
    hint: make the pipeline before the first td.role"""
    payload = td.StandardTilePayload(td.int8, td.int8, (64, 64), (64, 64), num_pipeline_stages=4)
    with td.role("load", warps=1):
        td.InputTilePipeline(payload, 4)


@refused()
def acquire_without_a_side():
    """TypeMismatch: a tile pipeline has no attribute 'acquire'
    at: pipeline.acquire
    hint: write pipeline.producer().acquire() or pipeline.consumer().acquire()"""
    payload = td.StandardTilePayload(td.int8, td.int8, (64, 64), (64, 64), num_pipeline_stages=4)
    pipeline = td.InputTilePipeline(payload, 4)
    pipeline.acquire()


@refused()
def bytes_of_a_consumer():
    """TypeMismatch: a consumer stage has no attribute 'expect_bytes'
    at: stage.expect_bytes
    hint: it has: arrive, barrier, index, mbar, payload, release, release_without_signal, stage,
    tile, tiles"""
    payload = td.StandardTilePayload(td.int8, td.int8, (64, 64), (64, 64), num_pipeline_stages=4)
    stage = td.InputTilePipeline(payload, 4).consumer().acquire()
    stage.expect_bytes(4096)


@refused(n=INT)
def bytes_of_run_time(n):
    """TypeMismatch: expect_bytes: nbytes: expected an int known at compile time, got a run-time
    int32
    at: stage.expect_bytes(n)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    stage, _, _ = operands((64, 64), (64, 64))
    stage.expect_bytes(n)


# ------------------------------------------------------------------------------------ roles


@refused()
def role_without_warps():
    """InvalidValue: td.role: warps: expected a number from 1 to 32, got 0
    at: td.role("load", warps=0)"""
    with td.role("load", warps=0):
        pass


@refused(n=INT)
def role_of_run_time_warps(n):
    """TypeMismatch: td.role: warps: expected an int known at compile time, got a run-time int32
    at: td.role("load", warps=n)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    with td.role("load", warps=n):
        pass


@refused()
def role_of_no_name():
    """TypeMismatch: td.role: name: expected a str known at compile time, got the compile-time
    int 3
    at: td.role(3, warps=1)"""
    with td.role(3, warps=1):
        pass


@refused()
def role_twice():
    """InvalidValue: td.role: expected a name of its own for each role, got 'load' twice
    at: td.role("load", warps=4)
    note: the first role of this name at: td.role("load", warps=1)
    hint: give one of the two another name"""
    with td.role("load", warps=1):
        pass
    with td.role("load", warps=4):
        pass


@refused()
def role_in_a_role():
    """SyntaxNotSupported: a role inside of role 'load'
    at: td.role("mma", warps=4)
    note: the outer role begins here at: td.role("load", warps=1)
    hint: write the roles one behind the other"""
    with td.role("load", warps=1):
        with td.role("mma", warps=4):
            pass


@refused(n=INT)
def role_in_a_loop(n):
    """SyntaxNotSupported: a role must stand at the top of the kernel, in no run-time loop, branch
    or function
    at: td.role("load", warps=1)
    hint: write the loop or the condition inside of the role"""
    for _ in range(n):
        with td.role("load", warps=1):
            pass


# ------------------------------------------------------------------------------------- tma


@refused(a=F16)
def load_of_another_dtype(a):
    """TypeMismatch: td.tma_load: the tile is bfloat16, but tensor a is float16: expected one
    dtype, because a copy converts nothing
    at: td.tma_load(a, (0, 0), a_tile, stage.barrier())
    hint: declare the payload with a.dtype"""
    stage, a_tile, _ = operands((64, 64), (64, 64))
    td.tma_load(a, (0, 0), a_tile, stage.barrier())


@refused(a=BF16)
def load_of_few_coordinates(a):
    """TypeMismatch: td.tma_load: coords: expected 2 coordinates for a tensor of rank 2, got 1
    at: td.tma_load(a, (0,), a_tile, stage.barrier())"""
    stage, a_tile, _ = operands((64, 64), (64, 64))
    td.tma_load(a, (0,), a_tile, stage.barrier())


@refused(v=TensorSpec(td.bfloat16, 1))
def load_of_no_tuple(v):
    """TypeMismatch: td.tma_load: coords: expected a tuple of 1 integers, got the compile-time
    int 0
    at: td.tma_load(v, 0, a_tile, stage.barrier())
    hint: write (x,) for one coordinate"""
    stage, a_tile, _ = operands((64,), (64,))
    td.tma_load(v, 0, a_tile, stage.barrier())


@refused(a=BF16, x=td.float32)
def load_at_a_float(a, x):
    """TypeMismatch: td.tma_load: coordinate 1: expected an integer, got a run-time float32
    at: td.tma_load(a, (0, x), a_tile, stage.barrier())"""
    stage, a_tile, _ = operands((64, 64), (64, 64))
    td.tma_load(a, (0, x), a_tile, stage.barrier())


@refused(v=TensorSpec(td.bfloat16, 1))
def load_of_higher_rank(v):
    """TypeMismatch: td.tma_load: expected a tile of at most the tensor's rank 1, got one of
    shape (64, 64)
    at: td.tma_load(v, (0,), a_tile, stage.barrier())"""
    stage, a_tile, _ = operands((64, 64), (64, 64))
    td.tma_load(v, (0,), a_tile, stage.barrier())


@refused(a=BF16)
def load_into_a_transposed_tile(a):
    """TypeMismatch: td.tma_load: tile: expected a tile as it is stored, got a transposed one
    at: td.tma_load(a, (0, 0), a_tile.T, stage.barrier())
    hint: load into the tile itself and write .T where it is used"""
    stage, a_tile, _ = operands((64, 64), (64, 64))
    td.tma_load(a, (0, 0), a_tile.T, stage.barrier())


@refused(a=BF16)
def load_into_registers(a):
    """TypeMismatch: td.tma_load: tile: expected a tile in shared memory, got a bfloat16 tile of
    shape (64, 64)
    at: td.tma_load(a, (0, 0), td.zeros((64, 64), a.dtype), stage.barrier())
    hint: take it from the stage: stage.payload().get_tile(stage.stage())"""
    stage, _, _ = operands((64, 64), (64, 64))
    td.tma_load(a, (0, 0), td.zeros((64, 64), a.dtype), stage.barrier())


@refused(a=BF16)
def load_on_no_barrier(a):
    """TypeMismatch: td.tma_load: barrier: expected the barrier of a stage, got a producer stage
    at: td.tma_load(a, (0, 0), a_tile, stage)
    hint: write stage.barrier()"""
    stage, a_tile, _ = operands((64, 64), (64, 64))
    td.tma_load(a, (0, 0), a_tile, stage)


@refused(a=BF16)
def load_on_a_method(a):
    """TypeMismatch: td.tma_load: barrier: expected the barrier of a stage, got the method barrier,
    not called
    at: td.tma_load(a, (0, 0), a_tile, stage.barrier)
    hint: write stage.barrier()"""
    stage, a_tile, _ = operands((64, 64), (64, 64))
    td.tma_load(a, (0, 0), a_tile, stage.barrier)


@refused()
def load_from_no_tensor():
    """TypeMismatch: td.tma_load: tensor: expected a tensor, got a bfloat16 shared tile of shape
    (64, 64)
    at: td.tma_load(b_tile, (0, 0), a_tile, stage.barrier())"""
    stage, a_tile, b_tile = operands((64, 64), (64, 64))
    td.tma_load(b_tile, (0, 0), a_tile, stage.barrier())


@refused(a=TensorSpec(td.bfloat16, 3))
def load_of_a_large_middle_extent(a):
    """InvalidValue: td.tma_load: extent 1 of a tile of shape (2, 512, 64) is 512: expected at
    most 256
    at: td.tma_load(a, (0, 0, 0), a_tile, stage.barrier())
    hint: only the first extent and swizzled rows are copied in pieces"""
    stage, a_tile, _ = operands((2, 512, 64), (64, 64))
    td.tma_load(a, (0, 0, 0), a_tile, stage.barrier())


@refused(a=BF16)
def load_of_a_large_row(a):
    """InvalidValue: td.tma_load: extent 1 of a tile of shape (64, 264) is 264: expected at most
    256, as no swizzle divides its rows
    at: td.tma_load(a, (0, 0), a_tile, stage.barrier())
    hint: use a multiple of 16 elements, which is copied in pieces"""
    stage, a_tile, _ = operands((64, 264), (64, 64))
    td.tma_load(a, (0, 0), a_tile, stage.barrier())


@refused(c=BF16)
def store_of_another_dtype(c):
    """TypeMismatch: td.tma_store: the tile is float32, but tensor c is bfloat16: expected one
    dtype, because a copy converts nothing
    at: td.tma_store(td.zeros((64, 64)), c, (0, 0))
    hint: convert the tile first: tile.to(c.dtype)"""
    td.tma_store(td.zeros((64, 64)), c, (0, 0))


@refused(c=F32)
def store_in_another_order(c):
    """TypeMismatch: td.tma_store: tile: expected a register tile or a tile in shared memory, got
    a float32 tensor of rank 2
    at: td.tma_store(c, td.zeros((64, 64)), (0, 0))
    hint: the tile comes first: td.tma_store(tile, tensor, coords)"""
    td.tma_store(c, td.zeros((64, 64)), (0, 0))


@refused(c=BF16)
def store_of_a_transposed_tile(c):
    """TypeMismatch: td.tma_store: tile: expected a tile as it is stored, got a transposed one
    at: td.tma_store(a_tile.T, c, (0, 0))
    hint: a copy cannot transpose: store the tile itself"""
    _, a_tile, _ = operands((64, 64), (64, 64))
    td.tma_store(a_tile.T, c, (0, 0))


@refused(c=TensorSpec(td.float8_e4m3fn, 2))
def store_of_short_rows(c):
    """InvalidValue: td.tma_store: a row of this tile is 8 bytes (8 float8_e4m3fn elements):
    expected a multiple of 16 bytes
    at: td.tma_store(td.zeros((64, 8)).to(c.dtype), c, (0, 0))
    hint: use a multiple of 16 for the last extent of (64, 8)"""
    td.tma_store(td.zeros((64, 8)).to(c.dtype), c, (0, 0))


# ------------------------------------------------------------------------------------- mma


@refused()
def mma_of_another_k():
    """TypeMismatch: td.mma: K does not match: a has shape (64, 64), (M, K), and b has shape
    (32, 128), (K, N): expected b with 64 rows, got 32
    at: td.mma(a, b.T, td.zeros((64, 128)))"""
    _, a, b = operands((64, 64), (128, 32))
    td.mma(a, b.T, td.zeros((64, 128)))


@refused()
def mma_without_transposition():
    """TypeMismatch: td.mma: K does not match: a has shape (64, 64), (M, K), and b has shape
    (128, 64), (K, N): expected b with 64 rows, got 128
    at: td.mma(a, b, td.zeros((64, 128)))
    hint: write b.T: a tile that was loaded as (N, K) is given transposed"""
    _, a, b = operands((64, 64), (128, 64))
    td.mma(a, b, td.zeros((64, 128)))


@refused()
def mma_into_another_shape():
    """TypeMismatch: td.mma: acc: expected shape (64, 128) for a of shape (64, 64) and b of shape
    (64, 128), got (128, 64)
    at: td.mma(a, b.T, td.zeros((128, 64)))
    hint: begin with acc = td.zeros((64, 128), td.float32)"""
    _, a, b = operands((64, 64), (128, 64))
    td.mma(a, b.T, td.zeros((128, 64)))


@refused()
def mma_of_rank_3():
    """TypeMismatch: td.mma: a: expected a tile of rank 2, got shape (1, 64, 64)
    at: td.mma(a, b, td.zeros((64, 64)))"""
    _, a, b = operands((1, 64, 64), (64, 64))
    td.mma(a, b, td.zeros((64, 64)))


@refused()
def mma_of_registers():
    """TypeMismatch: td.mma: a: expected a tile in shared memory, got a bfloat16 tile of shape
    (64, 64)
    at: td.mma(td.zeros((64, 64), td.bfloat16), b, td.zeros((64, 64)))
    hint: operands in registers are not supported yet: load the tile through a pipeline"""
    _, _, b = operands((64, 64), (64, 64))
    td.mma(td.zeros((64, 64), td.bfloat16), b, td.zeros((64, 64)))


@refused()
def mma_into_a_number():
    """TypeMismatch: td.mma: acc: expected a float32 register tile, got the compile-time float
    0.0
    at: td.mma(a, b.T, 0.0)
    hint: begin with acc = td.zeros((M, N), td.float32)"""
    _, a, b = operands((64, 64), (64, 64))
    td.mma(a, b.T, 0.0)


@refused()
def mma_of_two_dtypes():
    """TypeMismatch: td.mma: expected a and b of one dtype, got bfloat16 and float16
    at: td.mma(a, b.T, td.zeros((64, 64)))
    hint: give both tensors one dtype before the launch"""
    _, a, b = operands((64, 64), (64, 64), td.bfloat16, td.float16)
    td.mma(a, b.T, td.zeros((64, 64)))


@refused()
def mma_of_float32():
    """TypeMismatch: td.mma: expected tiles of one of bfloat16, float16, float8_e4m3fn,
    float8_e5m2, got float32
    at: td.mma(a, b.T, td.zeros((64, 64)))"""
    _, a, b = operands((64, 64), (64, 64), td.float32, td.float32)
    td.mma(a, b.T, td.zeros((64, 64)))


@refused()
def mma_into_float16():
    """TypeMismatch: td.mma: acc: expected float32, got float16
    at: td.mma(a, b.T, td.zeros((64, 64), td.float16))
    hint: accumulate in float32 and convert the result: acc.to(dtype)"""
    _, a, b = operands((64, 64), (64, 64))
    td.mma(a, b.T, td.zeros((64, 64), td.float16))


@refused()
def mma_of_fp8_with_n_contiguous():
    """TypeMismatch: td.mma: b: the tensor cores read float8_e5m2 with K contiguous only:
    expected a tile stored as (N, K), given as b.T
    at: td.mma(a, b, td.zeros((64, 64)))
    hint: transpose the tensor before the launch, or use 16-bit elements"""
    _, a, b = operands((64, 64), (64, 64), td.float8_e5m2, td.float8_e5m2)
    td.mma(a, b, td.zeros((64, 64)))


@refused()
def mma_of_fp8_with_m_contiguous():
    """TypeMismatch: td.mma: a: the tensor cores read float8_e4m3fn with K contiguous only:
    expected a tile stored as (M, K), without .T
    at: td.mma(a.T, b.T, td.zeros((64, 64)))
    hint: transpose the tensor before the launch, or use 16-bit elements"""
    _, a, b = operands((64, 64), (64, 64), td.float8_e4m3fn, td.float8_e4m3fn)
    td.mma(a.T, b.T, td.zeros((64, 64)))


@refused()
def mma_of_few_rows():
    """InvalidValue: td.mma: wgmma has no shape for M = 32 (a is (32, 64), b is (64, 64),
    bfloat16): expected M a multiple of 64, N a multiple of 8 up to 256, K a multiple of 16
    at: td.mma(a, b.T, td.zeros((32, 64)))"""
    _, a, b = operands((32, 64), (64, 64))
    td.mma(a, b.T, td.zeros((32, 64)))


@refused()
def mma_of_many_columns():
    """InvalidValue: td.mma: wgmma has no shape for N = 264 (a is (64, 64), b is (64, 264),
    bfloat16): expected M a multiple of 64, N a multiple of 8 up to 256, K a multiple of 16
    at: td.mma(a, b.T, td.zeros((64, 264)))"""
    _, a, b = operands((64, 64), (264, 64))
    td.mma(a, b.T, td.zeros((64, 264)))


@refused()
def mma_of_odd_columns():
    """InvalidValue: td.mma: wgmma has no shape for N = 12 (a is (64, 64), b is (64, 12),
    bfloat16): expected M a multiple of 64, N a multiple of 8 up to 256, K a multiple of 16
    at: td.mma(a, b.T, td.zeros((64, 12)))"""
    _, a, b = operands((64, 64), (12, 64))
    td.mma(a, b.T, td.zeros((64, 12)))


@refused()
def mma_of_short_k():
    """InvalidValue: td.mma: wgmma has no shape for K = 16 (a is (64, 16), b is (16, 64),
    float8_e4m3fn): expected M a multiple of 64, N a multiple of 8 up to 256, K a multiple of 32
    at: td.mma(a, b.T, td.zeros((64, 64)))"""
    _, a, b = operands((64, 16), (64, 16), td.float8_e4m3fn, td.float8_e4m3fn)
    td.mma(a, b.T, td.zeros((64, 64)))


@refused()
def mma_without_a_swizzle():
    """InvalidValue: td.mma: a: the tile is stored with swizzle=0: expected a swizzle of 32, 64 or
    128 bytes, which the tensor cores can read
    at: td.mma(a, a.T, td.zeros((64, 64)))
    hint: leave swizzle= out where the tile is made: the widest that fits is taken"""
    a = td.shared((64, 64), td.bfloat16, swizzle=0)
    td.mma(a, a.T, td.zeros((64, 64)))


@refused()
def mma_of_narrow_rows():
    """InvalidValue: td.mma: b: the stored tile has rows of 48 bytes: expected a multiple of 32
    bytes, which the tensor cores can read
    at: td.mma(a, b, td.zeros((64, 24)))
    hint: use a multiple of 16 for the last extent of (64, 24)"""
    _, a, b = operands((64, 64), (64, 24))
    td.mma(a, b, td.zeros((64, 24)))


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
