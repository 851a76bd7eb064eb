"""Conversions between dtypes, rounding once, whatever the pair.

Float to narrower float rounds to nearest even (fp8 saturates); float to integer truncates towards
zero and saturates, and NaN gives 0; integer to narrower integer wraps; anything to bool_ is != 0.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import F16, F32, F64, I8, I16, I32
from tiledsl.codegen.nvptx.values import LLVM_TYPES

# What fp8 is called in the names of intrinsics.
_FP8 = {dtypes.float8_e4m3fn: "e4m3", dtypes.float8_e5m2: "e5m2"}


def convert(low: Lowering, value: Any, source: DType, dtype: DType) -> Any:
    """One scalar as another dtype."""
    if source == dtype:
        return value
    if source in _FP8:
        if dtype.kind == "bool":  # all bits but the sign
            return low.builder.icmp_unsigned("!=", low.builder.and_(value, I8(0x7F)), I8(0))
        half = _from_fp8(low, value, source)
        return convert(low, half, dtypes.float16, dtype)
    if dtype in _FP8:
        return _to_fp8(low, _to_float32(low, value, source), dtype)
    if dtype.kind == "bool":
        return _to_bool(low, value, source)
    if source.is_float and dtype.is_float:
        return _float_to_float(low, value, source, dtype)
    if source.is_float:
        return _float_to_int(low, value, source, dtype)
    if dtype.is_float:
        return _int_to_float(low, value, source, dtype)
    return _int_to_int(low, value, source, dtype)


def _to_bool(low: Lowering, value: Any, source: DType) -> Any:
    if source.is_float:  # NaN is true, as in Python
        return low.builder.fcmp_unordered("!=", value, value.type(0.0))
    return low.builder.icmp_unsigned("!=", value, value.type(0))


def _int_to_int(low: Lowering, value: Any, source: DType, dtype: DType) -> Any:
    kind = LLVM_TYPES[dtype]
    width = 1 if source.kind == "bool" else source.bits
    if dtype.bits == width:
        return value
    if dtype.bits < width:
        return low.builder.trunc(value, kind)
    return low.builder.sext(value, kind) if source.is_signed else low.builder.zext(value, kind)


def _int_to_float(low: Lowering, value: Any, source: DType, dtype: DType) -> Any:
    kind = LLVM_TYPES[dtype]
    if source.kind == "bool":
        return low.builder.select(value, kind(1.0), kind(0.0))
    if source.is_signed:
        return low.builder.sitofp(value, kind)
    return low.builder.uitofp(value, kind)


def _float_to_int(low: Lowering, value: Any, source: DType, dtype: DType) -> Any:
    if source.bits == 16:  # exact, and float32 has the instructions
        value = low.builder.fpext(value, F32)
    name = "llvm.fptosi.sat" if dtype.is_signed else "llvm.fptoui.sat"
    kind = LLVM_TYPES[dtype]
    # The suffix names both types, the result's first.
    return low.intrinsic(name, kind, (value,), (kind, value.type))


def _float_to_float(low: Lowering, value: Any, source: DType, dtype: DType) -> Any:
    kind = LLVM_TYPES[dtype]
    if source.bits == dtype.bits:  # float16 and bfloat16, through the float32 that holds both
        return low.builder.fptrunc(low.builder.fpext(value, F32), kind)
    if source.bits < dtype.bits:
        return low.builder.fpext(value, kind)
    if source.bits == 64 and dtype.bits == 16:
        value = _round_to_odd(low, value)
    return low.builder.fptrunc(value, kind)


def _round_to_odd(low: Lowering, value: Any) -> Any:
    """float64 as float32 with the last bit set when inexact, so that rounding again is right.

    Rounding to nearest twice is not rounding once: the first may land on the midpoint of the
    second. A set last bit keeps the number off that midpoint, on the right side of it.
    """
    builder = low.builder
    chopped = low.intrinsic("llvm.nvvm.d2f.rz", F32, (value,))
    inexact = builder.fcmp_unordered("!=", builder.fpext(chopped, F64), value)
    bits = builder.or_(builder.bitcast(chopped, I32), builder.zext(inexact, I32))
    return builder.bitcast(bits, F32)


def _to_float32(low: Lowering, value: Any, source: DType) -> Any:
    """``value`` as float32, such that rounding it to fp8 is rounding ``value`` to fp8.

    An integer that float32 cannot hold is beyond every fp8 number and saturates.
    """
    if source == dtypes.float64:
        return _round_to_odd(low, value)
    return convert(low, value, source, dtypes.float32)


def _to_fp8(low: Lowering, value: Any, dtype: DType) -> Any:
    # The instruction converts two; the second operand becomes the lower byte.
    name = f"llvm.nvvm.ff.to.{_FP8[dtype]}x2.rn"
    pair = low.intrinsic(name, I16, (F32(0.0), value))
    return low.builder.trunc(pair, I8)


def _from_fp8(low: Lowering, value: Any, source: DType) -> Any:
    """Exact: every fp8 number is a float16."""
    name = f"llvm.nvvm.{_FP8[source]}x2.to.f16x2.rn"
    pair = low.intrinsic(name, ir.VectorType(F16, 2), (low.builder.zext(value, I16),))
    return low.builder.extract_element(pair, I32(0))


def as_bits(low: Lowering, value: Any, dtype: DType) -> Any:
    """The integer of the dtype's size whose bits are those of ``value`` (bool_: one byte)."""
    if dtype.kind == "bool":
        return low.builder.zext(value, I8)
    if dtype.is_float and dtype.bits > 8:
        return low.builder.bitcast(value, ir.IntType(dtype.bits))
    return value


def from_bits(low: Lowering, bits: Any, dtype: DType) -> Any:
    """The value whose bits are these: the inverse of ``as_bits``."""
    if dtype.kind == "bool":
        return low.builder.icmp_unsigned("!=", bits, I8(0))
    if dtype.is_float and dtype.bits > 8:
        return low.builder.bitcast(bits, LLVM_TYPES[dtype])
    return bits


def as_word(low: Lowering, value: Any, dtype: DType) -> Any:
    """``value`` as an integer of at least 16 bits, since PTX has no 8-bit registers."""
    bits = as_bits(low, value, dtype)
    return low.builder.zext(bits, I16) if dtype.bits == 8 else bits
