"""The GEMM in every form that wgmma takes: what ptxas says of it, and its main loop in SASS."""

from __future__ import annotations

import time
from functools import cache

import pytest

from tests.codegen.ir_samples import GemmShape, gemm, lowered
from tiledsl.codegen.assemble import Assembled, assemble
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.nvptx.lower import emit_llvm, emit_ptx
from tiledsl.codegen.nvptx.wgmma import column_chunks
from tiledsl.codegen.sass import SassReport

SHAPES: dict[str, GemmShape] = {
    "bf16": GemmShape(),
    "f16": GemmShape(dtype=dtypes.float16, out=dtypes.float16),
    "float32 out": GemmShape(out=dtypes.float32, stages=3),
    "a mn-major": GemmShape(a_mn=True),
    "b mn-major": GemmShape(b_mn=True),
    "both mn-major": GemmShape(a_mn=True, b_mn=True),
    "e4m3": GemmShape(dtype=dtypes.float8_e4m3fn, bk=128),
    "e5m2": GemmShape(dtype=dtypes.float8_e5m2, bk=128, out=dtypes.float16),
    "swizzle 64": GemmShape(bk=32),
    "swizzle 32": GemmShape(bk=16, stages=8),
    "two panels of 64": GemmShape(swizzle=64, stages=3),
    "two panels of 128": GemmShape(bk=128, stages=2),
    "two blocks of rows": GemmShape(bm=256, bn=128),
    "192 columns": GemmShape(bn=192),
    "8 columns": GemmShape(bm=64, bn=8, warps=4),
    "8 columns mn-major": GemmShape(bm=64, bn=8, warps=4, b_mn=True),
    "24 columns": GemmShape(bn=24),
    "32 columns mn-major": GemmShape(bn=32, b_mn=True),
    "40 columns": GemmShape(bn=40),
    "320 columns": GemmShape(bm=64, bn=320, warps=4, bk=32, stages=2),
    "one warpgroup": GemmShape(bm=64, warps=4),
    "fp8 out": GemmShape(bn=128, out=dtypes.float8_e4m3fn),
    "int32 out": GemmShape(bn=128, out=dtypes.int32),
    "float64 out": GemmShape(bn=64, out=dtypes.float64, stages=3),
    "bool out": GemmShape(bn=64, out=dtypes.bool_),
}


@cache
def ptx(name: str) -> str:
    return emit_ptx(emit_llvm(lowered(gemm(SHAPES[name]))), "sm_90a")[1]


@cache
def machine_code(name: str) -> Assembled:
    return assemble(ptx(name), "sm_90a", "gemm", assembler="ptxas")


def instructions_of(shape: GemmShape) -> int:
    """wgmma instructions of one step: k steps, blocks of 64 rows in a part, chunks of columns."""
    steps = shape.bk * shape.dtype.itemsize // 32
    rows = shape.bm // (64 * (shape.warps // 4))
    return steps * rows * -(-shape.bn // 256)


@pytest.mark.parametrize("name", SHAPES)
def test_ptxas_keeps_it_asynchronous_and_in_registers(name: str) -> None:
    used = machine_code(name).resources
    assert used.warnings == ()  # C75xx would mean that wgmma is serialised
    assert used.stack_bytes == used.spill_store_bytes == used.spill_load_bytes == 0
    assert ptx(name).count("wgmma.mma_async") == instructions_of(SHAPES[name])


@pytest.mark.parametrize("name", SHAPES)
def test_the_main_loop_is_clean(name: str) -> None:
    loop = SassReport.of(machine_code(name).cubin).hot_loop()
    products = loop.count("HGMMA") + loop.count("QGMMA")
    assert products == instructions_of(SHAPES[name])
    for opcode in ("R2UR", "WARPSYNC", "LDL", "STL", "BSSY", "YIELD"):
        assert loop.count(opcode) == 0, str(loop)
    # One wait behind the products, and nothing that moves accumulators.
    assert loop.count("WARPGROUP.DEPBAR") == 1, str(loop)
    assert loop.count("MOV") + loop.count("IMAD.MOV") <= 4, str(loop)
    assert loop.count("CS2R") == 0, str(loop)


def test_entry_registers_are_those_of_the_plan() -> None:
    assert machine_code("bf16").resources.registers == 168


def test_accumulators_are_not_set_to_zero_before_the_loop() -> None:
    """The first step overwrites them: only the path of no steps at all needs zeros."""
    assert SassReport.of(machine_code("bf16").cubin).count("CS2R") == 0


def test_it_is_quick() -> None:
    """60 and 70 ms are the aim; the bounds leave room for a slower or busier machine."""
    kernel = lowered(gemm())
    best_llvm = best_ptx = 1.0
    for _ in range(3):
        start = time.process_time()
        text = emit_llvm(kernel)
        middle = time.process_time()
        emit_ptx(text, "sm_90a")
        best_llvm = min(best_llvm, middle - start)
        best_ptx = min(best_ptx, time.process_time() - middle)
    assert best_llvm < 0.18
    assert best_ptx < 0.21


@pytest.mark.parametrize("unit", [8, 16, 32, 64])
def test_column_chunks_cover_all_columns(unit: int) -> None:
    for columns in range(unit, 1024, unit):
        chunks = column_chunks(columns, unit)
        assert [c for first, n in chunks for c in range(first, first + n)] == list(range(columns))
        assert all(n <= 256 and n % 8 == 0 and first % unit == 0 for first, n in chunks)
        assert len(chunks) == -(-columns // 256)
