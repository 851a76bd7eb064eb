"""Control flow: the LLVM IR of each sample, run on the CPU, against the same in Python."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.codegen.ctl_samples import END, samples
from tests.codegen.host_jit import HostKernel
from tests.codegen.ir_samples import lowered
from tiledsl.codegen.nvptx.lower import emit_llvm, emit_ptx

SAMPLES = samples()


@cache
def compiled(name: str) -> HostKernel:
    return HostKernel(lowered(SAMPLES[name].kernel))


CASES = [(name, arguments) for name, sample in SAMPLES.items() for arguments in sample.arguments]


@pytest.mark.parametrize(("name", "arguments"), CASES, ids=str)
def test_does_what_python_does(name: str, arguments: tuple[int, int, int]) -> None:
    expected = SAMPLES[name].python(*arguments)
    out = np.zeros(500, np.int64)  # room for a few mistakes
    compiled(name)([*arguments, out])
    wrapped = (np.array(expected, dtype=object) + 2**31) % 2**32 - 2**31
    given = out[: len(expected)]
    if "64" not in name and "uint" not in name:
        assert given.tolist() == wrapped.tolist()
    else:
        assert given.tolist() == expected
    assert out[len(expected)] in (END, 0)  # nothing was written behind


@pytest.mark.parametrize("name", SAMPLES)
def test_loops_are_neither_unrolled_nor_duplicated(name: str) -> None:
    kernel = compiled(name).kernel
    stores = emit_llvm(kernel).count("store i64")
    optimised, _ = emit_ptx(emit_llvm(kernel), "sm_90a")
    assert optimised.count("store i64") <= stores
