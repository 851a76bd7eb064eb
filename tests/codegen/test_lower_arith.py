"""Arithmetic: every operation and dtype that the verifier accepts compiles, and means what it says.

Integers, float32 and float64 run on the CPU from the LLVM IR; narrower floats need PTX, so their
numbers are checked on a GPU (``tests/gpu/test_lowering.py``).
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.codegen import arith_reference as reference
from tests.codegen.arith_samples import accepted, scalar_kernel, tile_kernel
from tests.codegen.host_jit import HostKernel
from tests.codegen.ir_samples import lowered
from tiledsl.codegen.assemble import assemble
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import ALL_DTYPES, DType
from tiledsl.codegen.nvptx.formats import FORMATS, fp8_bits, round_to
from tiledsl.codegen.nvptx.lower import emit_llvm, emit_ptx

HOST = [d for d in ALL_DTYPES if not d.is_float or d.bits >= 32]
COUNT = 400


@pytest.mark.parametrize("make", [scalar_kernel, tile_kernel])
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_operation_compiles(make: Any, dtype: DType) -> None:
    kernel = lowered(make(dtype))
    _, ptx = emit_ptx(emit_llvm(kernel), "sm_90a")
    used = assemble(ptx, "sm_90a", kernel.name).resources
    assert used.warnings == ()
    assert used.stack_bytes == used.spill_store_bytes == 0
    assert ".local" not in ptx


def outputs(dtype: DType, count: int, cast_to: list[DType]) -> tuple[Any, Any, dict[DType, Any]]:
    binary, unary, compare = accepted(dtype)
    rows = len(binary) + len(unary) + bool(compare)
    numbers = np.zeros((max(1, rows), count), reference.NUMPY[dtype])
    truths = np.zeros((max(1, len(compare)), count), bool)
    return numbers, truths, {d: np.zeros(count, reference.NUMPY[d]) for d in cast_to}


def mistakes(
    dtype: DType, x: Any, y: Any, numbers: Any, truths: Any, casts: dict[DType, Any]
) -> list[str]:
    """Every result that differs from the reference."""
    binary, unary, compare = accepted(dtype)
    found = []

    def check(what: str, given: Any, expected: Any, *operands: Any) -> None:
        if not reference.same(given, expected):
            found.append(f"{dtype} {what} {operands}: got {given}, expected {expected}")

    for i, (a, b) in enumerate(zip(x, y, strict=True)):
        column = numbers[:, i]
        for kind, given in zip(binary, column, strict=False):
            check(kind, given, reference.binary(kind, dtype, a, b), a, b)
        for kind, given in zip(unary, column[len(binary) :], strict=False):
            check(kind, given, reference.unary(kind, dtype, a), a)
        if compare:
            check("select", column[-1], a if a == b else b, a, b)
        for kind, given in zip(compare, truths[:, i], strict=False):
            check(kind, given, reference.compare(kind, a, b), a, b)
        for to, out in casts.items():
            check(f"as {to}", out[i], reference.cast(a, dtype, to), a)
    return found


@pytest.mark.parametrize("dtype", HOST, ids=str)
def test_scalars_mean_what_they_say(dtype: DType) -> None:
    seed = np.random.SeedSequence().entropy
    rng = np.random.default_rng(seed)
    x, y = reference.inputs(dtype, COUNT, rng)
    numbers, truths, casts = outputs(dtype, COUNT, HOST)
    run = HostKernel(lowered(scalar_kernel(dtype, HOST)))
    run([x, y, numbers, truths, *casts.values()], COUNT)
    found = mistakes(dtype, x, y, numbers, truths, casts)
    assert not found, f"seed {seed}: {len(found)} mistakes, the first: " + "\n".join(found[:5])


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_constants_are_rounded_once(dtype: DType) -> None:
    rng = np.random.default_rng()
    x, _ = reference.inputs(dtypes.float64, 3000, rng)
    # Midpoints between neighbours, and what lies just beside them.
    y, _ = reference.inputs(dtype, 500, rng)
    exact = [float(v) for v in y if np.isfinite(float(v))]
    middles = [(a + b) / 2 for a, b in pairwise(exact)]
    beside = [float(np.nextafter(v, np.inf)) for v in middles]
    far = [2**2000, -(10**400), sys.float_info.max]
    for value in [*map(float, x), *exact, *middles, *beside, *far]:
        assert reference.same(round_to(value, dtype), reference.round_exactly(value, dtype)), value


@pytest.mark.parametrize("dtype", [dtypes.float8_e4m3fn, dtypes.float8_e5m2], ids=str)
def test_fp8_bits(dtype: DType) -> None:
    for bits in range(256):
        number = np.array([bits], np.uint8).view(reference.NUMPY[dtype])[0]
        if np.isfinite(float(number)):
            assert fp8_bits(float(number), dtype) == bits
    assert np.isnan(
        float(np.array([fp8_bits(float("nan"), dtype)], np.uint8).view(reference.NUMPY[dtype])[0])
    )
