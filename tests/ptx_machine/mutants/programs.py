"""The five programs that are damaged: samples on small tiles, and a ring with three producers."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import tiledsl as td
from tests.kernels.family import producers
from tests.kernels.oracle import difference, reference
from tiledsl.runtime.ptx_backend import run_kernel
from tiledsl.runtime.ptx_machine.opcodes import LINE
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import decode

SAMPLES = Path(__file__).resolve().parents[3] / "samples"
Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Program:
    """A kernel with arrays to run on.

    Attributes:
        name: of the program.
        compiled: the variant for these arrays.
        names, values: the run-time arguments.
        grid: blocks.
        check: what is wrong with the output, as text; empty if it is right.
    """

    name: str
    compiled: Any
    names: list[str]
    values: list[Array]
    grid: tuple[int, int, int]
    check: Callable[[], str]

    def run(self, ptx: str, **options: Any) -> str:
        """Run PTX in place of the kernel's own, into a poisoned output: what is wrong with it.

        Raises:
            TileError: what the machine noticed, or that it cannot decode the text.
        """
        self._launch(ptx, decode(parse(ptx), self.compiled.kernel.name), **options)
        with np.errstate(invalid="ignore"):  # NaN where a damaged program wrote nothing
            return self.check()

    def lines(self) -> set[int]:
        """The PTX lines of instructions that at least one lane takes part in, in a right run."""
        program = decode(parse(self.compiled.ptx), self.compiled.kernel.name)
        result = self._launch(self.compiled.ptx, program)
        return {int(line) for line in program.rows[result.lanes > 0, LINE]}

    def _launch(self, ptx: str, program: Any, **options: Any) -> Any:
        self.values[-1][...] = np.nan
        return run_kernel(self.compiled.kernel, ptx, self.names, self.values, self.grid,
                          program=program, **options)  # fmt: skip


def sample(module: str, name: str) -> td.Kernel:
    """A kernel of a sample; samples import each other as scripts do."""
    sys.path.insert(0, str(SAMPLES))
    try:
        kernel: td.Kernel = getattr(importlib.import_module(module), name)
    finally:
        sys.path.remove(str(SAMPLES))
    return kernel


def program(
    name: str,
    kernel: td.Kernel,
    values: list[Array],
    check: Callable[[], str],
    blocks: int,
    **constants: Any,
) -> Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", td.PerformanceWarning)
        kernel.run_ptx(*values, **constants)
    compiled = kernel.variants[-1]
    names = [each.name for each in compiled.kernel.params][: len(values)]
    return Program(name, compiled, names, values, (blocks, 1, 1), check)


def _product(rng: np.random.Generator, m: int, n: int, k: int, out: Any) -> tuple[list[Array], Any]:
    a, b = (rng.standard_normal((rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    c = np.full((m, n), np.nan, np.float32).astype(out)
    expected = reference(a, b, np.dtype(out).name)
    return [a, b, c], lambda: difference(c, expected)


def programs(rng: np.random.Generator) -> list[Program]:
    """The five, on random ragged arrays: several tiles a block, more steps than stages."""
    made = []
    half = ml_dtypes.bfloat16
    steps = 64 * 5 - 8 * int(rng.integers(1, 4))
    values, check = _product(rng, 248, 504, steps, half)
    made.append(program("gemm", sample("gemm", "gemm"), values, check, 2, BN=128, stages=3))
    values, check = _product(rng, 248, 504, steps, half)
    made.append(program("cluster", sample("gemm_cluster", "gemm_cluster"), values, check, 2,
                        BN=128, stages=3, lockstep=False))  # fmt: skip
    values, check = _product(rng, 248, 504, steps, half)
    made.append(program("pingpong", sample("gemm_pingpong", "gemm_pingpong"), values, check, 1,
                        stages=3))  # fmt: skip
    made.append(_convolution(rng))
    values, check = _product(rng, 120, 248, steps, np.float32)
    made.append(program("three ways", producers.three_ways, values, check, 2))
    return made


def _convolution(rng: np.random.Generator) -> Program:
    """Three taps by two of two images, stride 1, padding 1."""
    kernel = sample("conv_im2col", "conv")
    module = sys.modules["conv_im2col"]
    x = rng.standard_normal((2, 11, 9, 40)).astype(ml_dtypes.bfloat16)
    w = rng.standard_normal((72, 3, 2, 40)).astype(ml_dtypes.bfloat16)
    y = np.full((2, 11, 10, 72), np.nan, np.float32).astype(ml_dtypes.bfloat16)
    exact, sigma = module.reference(x, w, 1, 1)

    def check() -> str:
        allowed = 2.0**-7 * np.abs(exact).clip(2.0**-14) + 240 * 2.0**-23 * sigma
        wrong = ~(np.abs(y.astype(np.float64) - exact) <= allowed)
        return f"{int(wrong.sum())} elements differ" if wrong.any() else ""

    taps = w.reshape(72, 6, 40).swapaxes(0, 1)
    return program("conv", kernel, [x, taps, y.reshape(-1, 72)], check, 1, R=3, S=2,
                   BN=64, stages=3)  # fmt: skip
