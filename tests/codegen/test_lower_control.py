"""Control flow: the LLVM IR of each sample, run on the CPU, against the same in Python."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.codegen.ctl_samples import END, samples
from tests.codegen.host_jit import HostKernel
from tests.codegen.ir_samples import Sketch, lowered
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import tile
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


def test_names_may_repeat_and_be_of_any_script() -> None:
    s = Sketch("größe_x")
    s.name = "names"
    extent, k = s.scalar("größe", dtypes.int32), s.scalar("k", dtypes.int32)
    out = s.tensor("out", dtypes.int32, 1)

    def body(i: Value) -> tuple[()]:
        s.add(tile.TensorStore(s.op("mul", i, k), out, (i,)))
        return ()

    for _ in range(2):
        s.loop(0, extent, 1, body, name="k")
    result = np.zeros(9, np.int32)
    HostKernel(lowered(s.kernel(warps=1)))([7, 3, result])
    assert result.tolist() == [0, 3, 6, 9, 12, 15, 18, 0, 0]


def test_a_role_per_warp_and_idle_warps() -> None:
    """Two roles of one thread in one warpgroup, the first with an idle warp of its own."""
    s = Sketch("roles")
    out = s.tensor("out", dtypes.int32, 1)
    shared = s.op("mul", s.value(tile.BlockId(0)), 10)
    for number, (name, warps) in enumerate((("first", 2), ("second", 1), ("third", 4))):
        with s.role(name, warps):
            s.add(tile.TensorStore(s.op("add", shared, number), out, (s.const(number),)))
    kernel = lowered(s.kernel())
    assert kernel.plan is not None
    starts = [role.first_warp * 32 for role in kernel.plan.roles]
    run = HostKernel(kernel)
    for thread in range(kernel.plan.threads):
        result = np.full(3, -1, np.int32)
        run([result], thread=thread)
        expected = [n if start == thread else -1 for n, start in enumerate(starts)]
        assert result.tolist() == expected
