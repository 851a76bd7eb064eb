"""Every GEMM that the GPU tests launch also assembles: no spill, no warning. Needs no GPU."""

from __future__ import annotations

import pytest

import tiledsl as td
from tests.kernels import cases, control_flow, gemm
from tests.kernels.oracle import NumpyArrays, fresh_seed
from tiledsl.compiled import CompiledKernel

KERNELS = [
    value for module in (gemm, control_flow) for value in vars(module).values()
    if isinstance(value, td.Kernel)
]  # fmt: skip
CONFIGS = [pytest.param(config, id=cases.config_id(config)) for config in cases.CONFIGS]


def check(compiled: CompiledKernel) -> None:
    resources = compiled.resources  # a warning of the assembler would raise here
    spilled = resources.spill_store_bytes + resources.spill_load_bytes
    assert (spilled, resources.stack_bytes, resources.warnings) == (0, 0, ())
    assert resources.threads * resources.registers <= 65536


@pytest.mark.parametrize("out_dtype", cases.OUTPUTS)
@pytest.mark.parametrize("config", CONFIGS)
def test_tile_sizes(config: cases.Config, out_dtype: str) -> None:
    turn = cases.CONFIGS.index(config) + cases.OUTPUTS.index(out_dtype)
    matrix = td.spec((4096, 4096), getattr(td, cases.INPUTS[turn % 2]))
    out = td.spec((4096, 4096), getattr(td, out_dtype))
    check(gemm.gemm.compile(matrix, matrix, out, **config))


@pytest.mark.parametrize("form", cases.FORMS)
def test_forms(form: str) -> None:
    """The variants that the form's cases make, which the emulator runs here on the way."""
    known = {variant for kernel in KERNELS for variant in kernel.variants}
    turn = list(cases.FORMS).index(form)
    cases.run_form(form, NumpyArrays(fresh_seed()), cases.DTYPE_PAIRS[turn % 6])
    variants = {variant for kernel in KERNELS for variant in kernel.variants}
    # All of them, where another test in this process has made the form's variants before.
    for variant in variants - known or variants:
        check(variant)
