"""Random programs through every layer: emulated, as LLVM IR on the host, as PTX on the machine."""

from __future__ import annotations

import random
import secrets

import numpy as np
import pytest

import tiledsl as td
from tests.codegen.host_jit import HostKernel
from tests.frontend.programs import OUTPUTS, Generator, define

ARGUMENTS = [(0, 0), (3, -4), (7, 5)]


@pytest.mark.parametrize("batch", range(6))
def test_emulated_and_lowered_as_in_python(batch: int) -> None:
    for _ in range(3):
        seed = secrets.randbelow(2**40)
        source = Generator(seed).program()
        try:
            _check(source)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{source}") from error


def _check(source: str) -> None:
    function = define(source)
    kernel = td.kernel(function)
    lowered = HostKernel(kernel.lower(np.zeros(OUTPUTS, np.int32), td.int32, td.int32).kernel)
    for a, b in ARGUMENTS:
        expected, emulated, compiled = (np.zeros(OUTPUTS, np.int32) for _ in range(3))
        function(expected, a, b)
        kernel[1](emulated, a, b)
        lowered([compiled, a, b])
        executed = np.zeros(OUTPUTS, np.int32)
        policy = random.choice(["late", "pct"])
        kernel.run_ptx(executed, a, b, grid=1, options={"policy": policy})
        np.testing.assert_array_equal(emulated, expected, err_msg=f"emulated, a={a}, b={b}")
        np.testing.assert_array_equal(compiled, expected, err_msg=f"compiled, a={a}, b={b}")
        np.testing.assert_array_equal(executed, expected, err_msg=f"PTX {policy}, a={a}, b={b}")


def test_kernel_that_does_nothing() -> None:
    _check("def kernel(out, a, b):\n    return\n")
