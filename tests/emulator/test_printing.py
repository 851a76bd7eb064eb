"""What ``print`` writes: the text of C's printf."""

from __future__ import annotations

import ctypes
import io
import random

import numpy as np
import pytest

from tests.codegen.ir_samples import Sketch, lowered
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.ops import control, tile
from tiledsl.errors import InternalError
from tiledsl.runtime.emulator import emulate
from tiledsl.runtime.emulator.printf import compile_template

LIBC = ctypes.CDLL(None)
FLOATS = [
    0.0,
    -0.0,
    1.5,
    -2.25,
    1e-7,
    123456789.0,
    1e300,
    float("inf"),
    float("nan"),
    0.1,
    99999.95,
]


def c_printf(template: str, value: ctypes.c_longlong | ctypes.c_int | ctypes.c_double) -> str:
    buffer = ctypes.create_string_buffer(2000)
    LIBC.snprintf(buffer, ctypes.c_size_t(2000), template.encode(), value)
    return buffer.value.decode()


def ours(template: str, *values: object) -> str:
    text, count = compile_template(template)
    assert count == len(values)
    return text(values)


@pytest.mark.parametrize("flags", ["", "-", "0", "+", " ", "#", "-#", "+0", "#0"])
@pytest.mark.parametrize("width", ["", "1", "9", "25"])
@pytest.mark.parametrize("precision", ["", ".", ".0", ".3", ".12"])
def test_agrees_with_c(flags: str, width: str, precision: str) -> None:
    integers = [0, 1, -1, 7, 255, 2**31 - 1, -(2**31)]
    integers += [random.randrange(-(2**31), 2**31) for _ in range(5)]
    for kind in "diuxXo":
        template = f"<%{flags}{width}{precision}{kind}>"
        for value in integers:
            assert ours(template, value) == c_printf(template, ctypes.c_int(value)), template
        template = f"<%{flags}{width}{precision}ll{kind}>"
        for value in [*integers, 2**63 - 1, -(2**63), random.getrandbits(62)]:
            assert ours(template, value) == c_printf(template, ctypes.c_longlong(value)), template
    for kind in "feEgG":
        template = f"<%{flags}{width}{precision}{kind}>"
        for number in [*FLOATS, random.uniform(-1e3, 1e3), random.uniform(-1e-3, 1e-3)]:
            assert ours(template, number) == c_printf(template, ctypes.c_double(number)), template


def test_text_and_several_values() -> None:
    assert ours("100%% of %d: %5.2f|%-4x|%lld", 3, 2.5, 255, -(2**40)) == (
        f"100% of 3:  2.50|ff  |{-(2**40)}"
    )
    assert ours("nothing") == "nothing"


def _kernel(template: str) -> Sketch:
    s = Sketch("hello")
    numbers = s.tensor("numbers", dtypes.float16, 1)
    block = s.value(tile.BlockId(0))
    with s.role("talk", 1):
        value = s.value(tile.TensorLoad(numbers, (block,)))
        positive = s.compare("gt", block, 0)
        s.add(tile.Print(template, (block, value, positive)))
    return s


def test_print_writes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = lowered(_kernel("block %d has %g, %d\n").kernel())
    numbers = np.array([0.1, 2.5], np.float16)
    out = io.StringIO()
    result = emulate(kernel, [numbers], grid=(2, 1, 1), stdout=out)
    expected = "block 0 has 0.0999756, 0\nblock 1 has 2.5, 1\n"
    assert out.getvalue() == expected and result.prints == 2
    emulate(kernel, [numbers], grid=(2, 1, 1))
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("%d %g", "2 conversions for 3 values"),
        ("%d %g %y", "no printf conversion at '%y'"),
        ("%d %g %d %", "no printf conversion at '%'"),
    ],
)
def test_faulty_templates(template: str, problem: str) -> None:
    kernel = lowered(_kernel(template).kernel())
    (role,) = [op for op in kernel.body.ops if isinstance(op, control.Role)]
    where = next(op for op in role.body.ops if isinstance(op, tile.Print)).loc
    with pytest.raises(InternalError) as caught:
        emulate(kernel, [np.zeros(1, np.float16)], grid=(1, 1, 1))
    assert caught.value.message == f"print {template!r}: {problem}"
    assert caught.value.loc == where
