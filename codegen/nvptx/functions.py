"""exp, exp2, log, log2, sqrt, rsqrt, tanh and erf, of float32 and, as far as PTX goes, float64.

There is no mathematical library to call, so that each function is arithmetic: an argument reduced
to a short interval, a polynomial there (coefficients fitted for this file: minimax of the relative
error, then rounded to float32), and the way back. Subnormal numbers are numbers everywhere.
float16 and bfloat16 are computed in float32 and rounded.

Largest error in float32, in units in the last place, found by trying numbers of all magnitudes
(``tests/codegen/test_functions.py``) or as PTX states it:

    exp 1.1, exp2 2 (the instruction), log 1, log2 1.5, sqrt 0.5, rsqrt 1.1, tanh 1.5, erf 2
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.formats import round_to
from tiledsl.codegen.nvptx.llvm_ext import F32, F64, I32
from tiledsl.errors import TypeMismatch

LN2 = math.log(2)
LOG2E = 1 / LN2
MANTISSA = 23  # bits behind the point
BIAS = 127

# e**r = 1 + r + r**2 P(r) for |r| <= ln(2) / 2.
_EXP = (0.4999999403953552, 0.1666651964187622, 0.041668396443128586, 0.008368796668946743,
        0.0013814433477818966)  # fmt: skip
# ln(1 + f) = f + f**2 P(f) for |f| <= 1/3; log2 likewise.
_LOG = (-0.5, 0.3333320915699005, -0.24999716877937317, 0.20010747015476227, -0.16682305932044983,
        0.14001160860061646, -0.12167153507471085, 0.1400475651025772,
        -0.12948966026306152)  # fmt: skip
_LOG2 = (-0.7213475108146667, 0.480896532535553, -0.36066967248916626, 0.2886940538883209,
         -0.24067479372024536, 0.20199404656887054, -0.1755349189043045, 0.20204593241214752,
         -0.186814084649086)  # fmt: skip
# tanh(x) = x + x**3 P(x**2) for |x| <= 1.
_TANH = (-0.33333295583724976, 0.13332344591617584, -0.05387980118393898, 0.021486656740307808,
         -0.007946106605231762, 0.0023013644386082888, -0.0003584519727155566)  # fmt: skip
# erf(x) = x + x P(x**2) for |x| <= 1; log2(1 - erf(x)) = P(x) for 1 <= x <= 4.
_ERF = (0.12837916612625122, -0.3761262595653534, 0.1128358542919159, -0.026853812858462334,
        0.005188327748328447, -0.0008010193705558777, 7.853861461626366e-05)  # fmt: skip
_LOG2_ERFC = (-0.0004927135887555778, -1.6260459423065186, -0.9206483960151672,
              -0.14875160157680511, 0.03150566667318344, -0.004252572078257799,
              0.0002688883396331221)  # fmt: skip


def function_of(low: Lowering, op: Op, kind: str, dtype: DType, value: Any) -> Any:
    """``kind(value)`` of a float32 or float64.

    Raises:
        TypeMismatch: the function does not exist for float64.
    """
    if dtype == dtypes.float32:
        return _FLOAT32[kind](_Maths(low), value)
    if kind == "sqrt":
        return low.intrinsic("llvm.sqrt", F64, (value,), F64)
    if kind == "rsqrt":
        return low.builder.fdiv(F64(1.0), low.intrinsic("llvm.sqrt", F64, (value,), F64))
    raise TypeMismatch(
        f"{kind} does not exist for {dtype}: expected float32, float16 or bfloat16",
        op.loc,
        hint="convert it first: x.to(td.float32)",
    )


def _f32(number: float) -> Any:
    return F32(round_to(number, dtypes.float32))


class _Maths:
    """float32 arithmetic without contraction: what is fused is written as ``fma``."""

    def __init__(self, low: Lowering) -> None:
        self.low = low
        self.builder = low.builder

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.low.intrinsic("llvm.fma", F32, (a, b, c), F32)

    def mul(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b)

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b)

    def fabs(self, value: Any) -> Any:
        return self.low.intrinsic("llvm.fabs", F32, (value,), F32)

    def with_sign(self, value: Any, sign: Any) -> Any:
        return self.low.intrinsic("llvm.copysign", F32, (value, sign), F32)

    def bits(self, value: Any) -> Any:
        return self.builder.bitcast(value, I32)

    def from_bits(self, bits: Any) -> Any:
        return self.builder.bitcast(bits, F32)

    def is_(self, sign: str, a: Any, b: Any) -> Any:
        """Whether a comparison holds; false for a NaN."""
        return self.builder.fcmp_ordered(sign, a, b)

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        return self.builder.select(condition, a, b)

    def within(self, value: Any, least: float | None, most: float) -> Any:
        """``value`` cut to an interval; a NaN stays one."""
        if least is not None:
            value = self.select(self.is_("<", value, _f32(least)), _f32(least), value)
        return self.select(self.is_(">", value, _f32(most)), _f32(most), value)

    def polynomial(self, coefficients: Sequence[float], x: Any) -> Any:
        """The constant term first."""
        *others, found = (_f32(c) for c in coefficients)
        for coefficient in reversed(others):
            found = self.fma(found, x, coefficient)
        return found

    def power_of_two(self, exponent: Any) -> Any:
        """2**exponent for an i32 exponent of a normal number."""
        biased = self.builder.add(exponent, I32(BIAS))
        return self.from_bits(self.builder.shl(biased, I32(MANTISSA)))


def _exp_parts(m: _Maths, x: Any) -> tuple[Any, Any]:
    """e**r, and k (i32), such that e**x = e**r 2**k; x must be small enough for k to be an i32."""
    magic = _f32(1.5 * 2.0**MANTISSA)  # added, it leaves the nearest integer in the last bits
    shifted = m.fma(x, _f32(LOG2E), magic)
    nearest = m.builder.fsub(shifted, magic)
    k = m.builder.sub(m.bits(shifted), I32(0x4B400000))
    # ln(2) in two parts: the product with the first is exact.
    upper = math.ldexp(round(math.ldexp(LN2, 15)), -15)
    r = m.fma(nearest, _f32(-upper), x)
    r = m.fma(nearest, _f32(upper - LN2), r)
    square = m.mul(r, r)
    return m.add(m.fma(square, m.polynomial(_EXP, r), r), _f32(1.0)), k


def _exp(m: _Maths, x: Any) -> Any:
    # Beyond these it is 0 or infinite anyway.
    power, k = _exp_parts(m, m.within(x, -104.0, 89.0))
    # In two steps, of which the second alone rounds: the result may be subnormal.
    half = m.builder.ashr(k, I32(1))
    power = m.mul(power, m.power_of_two(half))
    return m.mul(power, m.power_of_two(m.builder.sub(k, half)))


def _exp2(m: _Maths, x: Any) -> Any:
    return m.low.intrinsic("llvm.exp2", F32, (x,), F32)


def _log_parts(m: _Maths, x: Any) -> tuple[Any, Any]:
    """f in -1/3 ... 1/3 and e (as float32) such that x = (1 + f) 2**e, for positive numbers."""
    builder = m.builder
    small = m.is_("<", x, _f32(2.0**-126))
    x = m.select(small, m.mul(x, _f32(2.0**MANTISSA)), x)
    bits = m.bits(x)
    third = I32(0x3F2AAAAB)  # 2/3
    exponent = builder.and_(builder.sub(bits, third), I32(-(1 << MANTISSA)))
    f = builder.fsub(m.from_bits(builder.sub(bits, exponent)), _f32(1.0))
    e = builder.sitofp(builder.ashr(exponent, I32(MANTISSA)), F32)
    return f, builder.fadd(e, m.select(small, _f32(-MANTISSA), _f32(0.0)))


def _log_edges(m: _Maths, x: Any, found: Any) -> Any:
    """A logarithm where ``x`` is not a positive number."""
    infinity, nan = F32(math.inf), F32(math.nan)
    found = m.select(m.is_("==", x, infinity), infinity, found)
    found = m.select(m.is_("==", x, _f32(0.0)), F32(-math.inf), found)
    return m.select(m.is_(">=", x, _f32(0.0)), found, nan)


def _log(m: _Maths, x: Any) -> Any:
    f, e = _log_parts(m, x)
    found = m.fma(m.mul(f, f), m.polynomial(_LOG, f), f)
    return _log_edges(m, x, m.fma(e, _f32(LN2), found))


def _log2(m: _Maths, x: Any) -> Any:
    f, e = _log_parts(m, x)
    upper = round_to(LOG2E, dtypes.float32)
    rest = m.fma(f, _f32(LOG2E - upper), m.mul(m.mul(f, f), m.polynomial(_LOG2, f)))
    return _log_edges(m, x, m.add(e, m.fma(f, _f32(upper), rest)))


def _sqrt(m: _Maths, x: Any) -> Any:
    return m.low.intrinsic("llvm.sqrt", F32, (x,), F32)


def _rsqrt(m: _Maths, x: Any) -> Any:
    rough = m.low.intrinsic("llvm.nvvm.rsqrt.approx.f", F32, (x,))
    # One step of Newton's; 0 and infinity give NaN in it, and are right already.
    wrong = m.fma(m.builder.fneg(m.mul(x, rough)), rough, _f32(1.0))
    better = m.fma(m.mul(rough, _f32(0.5)), wrong, rough)
    return m.select(m.builder.fcmp_unordered("uno", wrong, wrong), rough, better)


def _tanh(m: _Maths, x: Any) -> Any:
    size = m.fabs(x)
    square = m.mul(x, x)
    near = m.fma(m.mul(x, square), m.polynomial(_TANH, square), x)
    # 1 - 2 / (e**2x + 1); beyond 10 it is 1 anyway.
    power, k = _exp_parts(m, m.mul(m.within(size, None, 10.0), _f32(2.0)))
    more = m.fma(power, m.power_of_two(k), _f32(1.0))
    far = m.fma(_reciprocal(m, more), _f32(-2.0), _f32(1.0))
    return m.with_sign(m.select(m.is_("<", size, _f32(1.0)), near, far), x)


def _reciprocal(m: _Maths, x: Any) -> Any:
    """1 / x, at most one unit in the last place wrong."""
    return m.builder.fdiv(_f32(1.0), x, flags=("arcp", "afn"))


def _erf(m: _Maths, x: Any) -> Any:
    size = m.fabs(x)
    square = m.mul(x, x)
    near = m.fma(x, m.polynomial(_ERF, square), x)
    complement = _exp2(m, m.polynomial(_LOG2_ERFC, m.within(size, None, 4.0)))
    far = m.builder.fsub(_f32(1.0), complement)
    return m.select(m.is_("<", size, _f32(1.0)), near, m.with_sign(far, x))


_FLOAT32 = {
    "exp": _exp,
    "exp2": _exp2,
    "log": _log,
    "log2": _log2,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "tanh": _tanh,
    "erf": _erf,
}
