"""``%`` and ``//`` of floats, exactly as Python computes them.

The remainder of two floats is itself a float, but x - trunc(x / y) * y (what LLVM makes of
``frem``) misses it as soon as the quotient has more bits than the format. So the remainder is
found by long division: subtract y scaled by ever smaller powers of two; each step is exact.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import F32, F64, keep_loop
from tiledsl.codegen.nvptx.values import LLVM_TYPES

_NAMES = {str(F32): "tiledsl_fmod_f32", str(F64): "tiledsl_fmod_f64"}


def float_mod(low: Lowering, dtype: DType, a: Any, b: Any) -> Any:
    """``a % b``: with the sign of ``b``; NaN where ``b`` is 0."""
    wide_a, wide_b = _widen(low, dtype, a), _widen(low, dtype, b)
    return _narrow(low, dtype, _python_mod(low, wide_a, wide_b))


def _widen(low: Lowering, dtype: DType, value: Any) -> Any:
    return low.builder.fpext(value, F32) if dtype.bits == 16 else value


def _narrow(low: Lowering, dtype: DType, value: Any) -> Any:
    return low.builder.fptrunc(value, LLVM_TYPES[dtype]) if dtype.bits == 16 else value


def _python_mod(low: Lowering, a: Any, b: Any) -> Any:
    builder, zero = low.builder, a.type(0.0)
    rest = builder.call(_fmod(low, a.type), (a, b))
    moved = builder.select(_opposite(low, rest, b), builder.fadd(rest, b), rest)
    is_zero = builder.fcmp_ordered("==", rest, zero)
    return builder.select(is_zero, _copysign(low, zero, b), moved)


def float_floordiv(low: Lowering, dtype: DType, a: Any, b: Any) -> Any:
    """``a // b``: the whole number below ``a / b``; infinity or NaN where ``b`` is 0."""
    builder = low.builder
    a, b = _widen(low, dtype, a), _widen(low, dtype, b)
    zero, one = a.type(0.0), a.type(1.0)
    rest = builder.call(_fmod(low, a.type), (a, b))
    # (a - rest) / b is a whole number but for rounding, so rounding it again is right.
    quotient = builder.fdiv(builder.fsub(a, rest), b)
    quotient = builder.select(_opposite(low, rest, b), builder.fsub(quotient, one), quotient)
    below = low.intrinsic("llvm.floor", a.type, (quotient,), a.type)
    short = builder.fcmp_ordered(">", builder.fsub(quotient, below), a.type(0.5))
    whole = builder.select(short, builder.fadd(below, one), below)
    ratio = builder.fdiv(a, b)
    is_zero = builder.fcmp_ordered("==", quotient, zero)
    whole = builder.select(is_zero, _copysign(low, zero, ratio), whole)
    by_zero = builder.fcmp_ordered("==", b, zero)
    return _narrow(low, dtype, builder.select(by_zero, ratio, whole))


def _opposite(low: Lowering, rest: Any, b: Any) -> Any:
    """Whether ``rest`` is not zero and has the other sign than ``b``."""
    builder, zero = low.builder, b.type(0.0)
    negative = builder.fcmp_ordered("<", b, zero)
    below = builder.fcmp_ordered("<", rest, zero)
    above = builder.fcmp_ordered(">", rest, zero)
    return builder.select(negative, above, below)


def _copysign(low: Lowering, magnitude: Any, sign: Any) -> Any:
    return low.intrinsic("llvm.copysign", sign.type, (magnitude, sign), sign.type)


def _fmod(low: Lowering, kind: Any) -> Any:
    """The C function fmod for one type, made on first use, internal to the module."""
    name = _NAMES[str(kind)]
    if name not in low.module.globals:
        _build_fmod(low, kind, name)
    return low.module.globals[name]


def _build_fmod(low: Lowering, kind: Any, name: str) -> None:
    """fmod(a, b)::

    rest, step, least = |a|, |b|, |b|
    if a is infinite or NaN, or b is 0 or NaN: return NaN
    while step <= rest - step: step = 2 step      # now step <= rest < 2 step, or rest < |b|
    while least <= step <= |a|:
        if rest >= step: rest = rest - step
        step = step / 2
    return rest with the sign of a
    """
    function = ir.Function(low.module, ir.FunctionType(kind, (kind, kind)), name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    a, b = function.args
    entry, odd, grow, double, shrink, take, done = (
        function.append_basic_block(label)
        for label in ("entry", "odd", "grow", "double", "shrink", "take", "done")
    )
    builder = ir.IRBuilder(entry)

    def magnitude(value: Any) -> Any:
        return _in_function(low, builder, "llvm.fabs", value)

    size, least = magnitude(a), magnitude(b)
    zero, half = kind(0.0), kind(0.5)
    # |a| - |a| is 0 for a number and NaN for the rest.
    finite = builder.fcmp_ordered("==", builder.fsub(size, size), zero)
    usable = builder.fcmp_ordered(">", least, zero)
    builder.cbranch(builder.and_(finite, usable), grow, odd)

    builder.position_at_end(odd)
    builder.ret(kind(float("nan")))

    builder.position_at_end(grow)
    step = builder.phi(kind)
    step.add_incoming(least, entry)
    builder.cbranch(builder.fcmp_ordered("<=", step, builder.fsub(size, step)), double, shrink)

    builder.position_at_end(double)
    step.add_incoming(builder.fadd(step, step), double)
    keep_loop(low.module, builder.branch(grow))

    builder.position_at_end(shrink)
    rest, scaled = builder.phi(kind), builder.phi(kind)
    rest.add_incoming(size, grow)
    scaled.add_incoming(step, grow)
    # An infinite b stays infinite when halved: the second comparison ends the loop.
    in_range = builder.and_(
        builder.fcmp_ordered(">=", scaled, least), builder.fcmp_ordered("<=", scaled, size)
    )
    builder.cbranch(in_range, take, done)

    builder.position_at_end(take)
    fits = builder.fcmp_ordered(">=", rest, scaled)
    smaller = builder.select(fits, builder.fsub(rest, scaled), rest)
    rest.add_incoming(smaller, take)
    scaled.add_incoming(builder.fmul(scaled, half), take)
    keep_loop(low.module, builder.branch(shrink))

    builder.position_at_end(done)
    builder.ret(_in_function(low, builder, "llvm.copysign", rest, a))


def _in_function(low: Lowering, builder: Any, name: str, *arguments: Any) -> Any:
    """An intrinsic in another function than the kernel."""
    outer, low.builder = low.builder, builder
    try:
        return low.intrinsic(name, arguments[0].type, arguments, arguments[0].type)
    finally:
        low.builder = outer
