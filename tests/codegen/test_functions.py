"""exp, log, tanh...: how far they are off, at every magnitude, and what they are at the edges.

They run on the CPU from the LLVM IR, where all but two instructions are exact: ``ex2.approx`` and
``rsqrt.approx``, whose place takes the right number, moved by as many units in the last place as
PTX allows them to be wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.codegen.arith_samples import tile_shape
from tests.codegen.host_jit import HostKernel, host_text
from tests.codegen.ir_samples import Sketch, lowered
from tiledsl.codegen.assemble import assemble
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, tile
from tiledsl.codegen.nvptx.lower import emit_llvm, emit_ptx

# The bounds that nvptx/functions.py states, in units in the last place.
BOUNDS = {
    "exp": 1.1, "exp2": 2.0, "log": 1.0, "log2": 1.5, "sqrt": 0.5, "rsqrt": 1.1, "tanh": 1.5,
    "erf": 2.0,
}  # fmt: skip
WRONG = {"erf": 2, "rsqrt": 2}  # units that an instruction may be off; exp2 is one itself

_ERF = np.frompyfunc(math.erf, 1, 1)
EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
    "erf": lambda x: _ERF(x).astype(np.float64),
}  # fmt: skip


def function_kernel(kind: str, dtype: DType) -> Kernel:
    """y[i] = kind(x[i]) for all i, by one thread."""
    s = Sketch(f"{kind}_{dtype.name}")
    x, y = s.tensor("x", dtype, 1), s.tensor("y", dtype, 1)

    def step(i: Value) -> Sequence[Value]:
        value = s.value(arith.Unary(kind, s.value(tile.TensorLoad(x, (i,)))))
        s.add(tile.TensorStore(value, y, (i,)))
        return ()

    s.loop(0, s.dim(x, 0), 1, step)
    return s.kernel(warps=1)


def tile_kernel(kind: str, dtype: DType) -> Kernel:
    s = Sketch(f"{kind}_{dtype.name}")
    x, y = s.tensor("x", dtype, 1), s.tensor("y", dtype, 2)
    zero = s.const(0)
    value = s.value(arith.Full(s.value(tile.TensorLoad(x, (zero,))), tile_shape(dtype)))
    s.add(tile.TmaStore(s.value(arith.Unary(kind, value)), y, (zero, zero)))
    return s.kernel(warps=4)


def _moved_text(kernel: Kernel) -> str:
    """The host's text, with the approximations moved by ``moved.ulp.x`` units."""
    text = host_text(kernel)
    for name, exact in (("llvm.nvvm.rsqrt.approx.f", "rsqrt"), ("llvm.exp2.f32", "exp2")):
        pattern = rf'declare float @"?{re.escape(name)}"?\(float [^)]*\)'
        if not re.search(pattern, text):
            continue
        body = "  %r = call double @llvm.exp2.f64(double %d)\n"
        if exact == "rsqrt":
            body = "  %s = call double @llvm.sqrt.f64(double %d)\n  %r = fdiv double 1.0, %s\n"
        text = re.sub(pattern, "", text)
        text = re.sub(rf'@"?{re.escape(name)}"?\(', f"@host.{exact}(", text)
        text += (
            "\n@moved.ulp = global i32 0\n"
            "declare double @llvm.exp2.f64(double)\ndeclare double @llvm.sqrt.f64(double)\n"
            f"define float @host.{exact}(float %x) {{\n"
            f"  %d = fpext float %x to double\n{body}  %f = fptrunc double %r to float\n"
            "  %bits = bitcast float %f to i32\n  %by = load i32, ptr @moved.ulp\n"
            "  %low = and i32 %bits, 2147483647\n"
            "  %more = icmp ugt i32 %low, 2\n  %less = icmp ult i32 %low, 2139095037\n"
            "  %inner = and i1 %more, %less\n  %sum = add i32 %bits, %by\n"
            "  %moved = select i1 %inner, i32 %sum, i32 %bits\n"
            "  %out = bitcast i32 %moved to float\n  ret float %out\n}\n"
        )
    return text


@cache
def on_host(kind: str, dtype: DType) -> HostKernel:
    return HostKernel(lowered(function_kernel(kind, dtype)), _moved_text)


def run(kind: str, dtype: DType, x: Any, moved: int = 0) -> Any:
    kernel = on_host(kind, dtype)
    kernel._set("moved.ulp", moved)
    y = np.full_like(x, 12345)
    kernel([x, y])
    return y


def errors(y: Any, exact: Any) -> Any:
    """Distances from the exact numbers, in units of their last place in float32."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        _, exponent = np.frexp(np.abs(exact))
        unit = np.ldexp(1.0, np.maximum(exponent - 1, -126) - 23)
        found = np.abs(y.astype(np.float64) - exact) / unit
    same = (y == rounded) | (np.isnan(y) & np.isnan(exact))
    return np.where(same, np.minimum(np.nan_to_num(found, nan=0.0, posinf=0.0), 0.5), found)


def numbers(rng: np.random.Generator, count: int) -> Any:
    """float32 numbers: any bits, and those where the functions do something."""
    any_bits = rng.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    exponents = rng.uniform(-30, 7, count)
    usual = (np.exp2(exponents) * rng.choice([-1, 1], count)).astype(np.float32)
    near_one = (1 + rng.normal(0, 0.2, count) * np.exp2(rng.integers(-20, 1, count))).astype(
        np.float32
    )
    ends = rng.uniform(-152, 130, count).astype(np.float32)
    return np.concatenate([any_bits, usual, near_one, ends, np.float32(EDGES)])


EDGES = [
    0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0**-149, -(2.0**-149), 2.0**-126,
    3.4028235e38, -3.4028235e38, 88.72283, 88.72284, -103.97207, -103.97208, 127.99999, 128.0,
    -149.0, -150.0, 0.6666667, 1.3333334, 9.0, 10.0, 4.0, 3.9, 0.99999994, 1.0000001,
]  # fmt: skip


@pytest.mark.parametrize("kind", arith.FLOAT_KINDS)
def test_the_stated_bounds_hold(kind: str) -> None:
    seed = np.random.SeedSequence().entropy
    x = numbers(np.random.default_rng(seed), 60_000 if kind == "erf" else 400_000)
    with np.errstate(all="ignore"):
        exact = EXACT[kind](x.astype(np.float64))
    wrong = WRONG.get(kind, 0)
    for moved in range(-wrong, wrong + 1):
        off = errors(run(kind, dtypes.float32, x, moved), exact)
        worst = int(np.argmax(off))
        assert off[worst] <= BOUNDS[kind], (
            f"seed {seed}: {kind}({x[worst]!r}) is {off[worst]:.2f} units off {exact[worst]}"
            f" with an instruction moved by {moved}"
        )


@pytest.mark.parametrize("kind", arith.FLOAT_KINDS)
def test_edges_are_those_of_ieee(kind: str) -> None:
    x = np.float32(EDGES)
    y = run(kind, dtypes.float32, x)
    with np.errstate(all="ignore"):
        exact = EXACT[kind](x.astype(np.float64)).astype(np.float32)
    assert np.array_equal(np.isnan(y), np.isnan(exact))
    assert np.array_equal(np.isinf(y), np.isinf(exact))
    assert np.array_equal(y == 0, exact == 0)
    signs = ~np.isnan(exact)
    assert np.array_equal(np.signbit(y[signs]), np.signbit(exact[signs]))


@pytest.mark.parametrize("make", [function_kernel, tile_kernel], ids=["scalar", "tile"])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("kind", arith.FLOAT_KINDS)
def test_all_compile(make: Any, dtype: DType, kind: str) -> None:
    kernel = lowered(make(kind, dtype))
    _, ptx = emit_ptx(emit_llvm(kernel), "sm_90a")
    used = assemble(ptx, "sm_90a", kernel.name).resources
    assert used.warnings == () and used.stack_bytes == 0
