"""Arithmetic on scalars and, element by element, on register tiles, with Python's meaning.

Integers wrap at their width. What LLVM leaves undefined is given a value here, because undefined
behaviour in a branch that a ``select`` discards would still let LLVM delete code: dividing an
integer by zero gives 0, and shifting by the width or more shifts everything out (as in NumPy).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import arith
from tiledsl.codegen.ir.types import Tile
from tiledsl.codegen.nvptx.casts import convert
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.fmod import float_floordiv, float_mod
from tiledsl.codegen.nvptx.functions import function_of
from tiledsl.codegen.nvptx.llvm_ext import BF16, F16, I1, I16
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.codegen.nvptx.values import RegisterTile, constant, layout_of
from tiledsl.errors import InternalError

# Multiplications and additions may be fused into one rounding, as nvcc does by default.
CONTRACT = ("contract",)


@lower(arith.Constant)
def _constant(low: Lowering, op: arith.Constant) -> None:
    low.define(op.result, constant(op.value, op.dtype))


@lower(arith.Full)
def _full(low: Lowering, op: arith.Full) -> None:
    assert isinstance(op.result.type, Tile)
    count = layout_of(op.result.type).values
    low.define(op.result, RegisterTile(op.result.type.dtype, [low.get(op.value)] * count))


def _elementwise(
    low: Lowering, result: Value, operands: tuple[Value, ...], function: Callable[..., Any]
) -> None:
    """Apply ``function`` to scalars, or to the elements of tiles; scalars go with each element."""
    if not isinstance(result.type, Tile):
        if any(isinstance(operand.type, Tile) for operand in operands):
            raise InternalError(f"a tile operand gives {result.type}", result.loc)
        low.define(result, function(*(low.get(operand) for operand in operands)))
        return
    count = layout_of(result.type).values
    columns = []
    for operand in operands:
        if isinstance(operand.type, Tile):
            columns.append(low.elements(operand))
        else:
            columns.append([low.get(operand)] * count)
    elements = [function(*row) for row in zip(*columns, strict=True)]
    low.define(result, RegisterTile(result.type.dtype, elements))


@lower(arith.Binary)
def _binary(low: Lowering, op: arith.Binary) -> None:
    dtype = arith.element_type(op.lhs.type)
    function = _FLOAT[op.kind] if dtype.is_float else _INTEGER[op.kind]
    _elementwise(low, op.result, (op.lhs, op.rhs), lambda a, b: function(low, dtype, a, b))


@lower(arith.Compare)
def _compare(low: Lowering, op: arith.Compare) -> None:
    dtype = arith.element_type(op.lhs.type)
    sign = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}[op.kind]
    builder = low.builder
    if dtype.is_float:
        compare = builder.fcmp_unordered if op.kind == "ne" else builder.fcmp_ordered
    else:
        compare = builder.icmp_signed if dtype.is_signed else builder.icmp_unsigned
    _elementwise(low, op.result, (op.lhs, op.rhs), lambda a, b: compare(sign, a, b))


@lower(arith.Select)
def _select(low: Lowering, op: arith.Select) -> None:
    _elementwise(low, op.result, (op.condition, op.true, op.false), low.builder.select)


@lower(arith.Unary)
def _unary(low: Lowering, op: arith.Unary) -> None:
    dtype = arith.element_type(op.value.type)
    if op.kind in arith.FLOAT_KINDS:
        _function(low, op, dtype)
        return
    _elementwise(low, op.result, (op.value,), lambda a: _unary_scalar(low, op.kind, dtype, a))


def _function(low: Lowering, op: arith.Unary, dtype: DType) -> None:
    """A function of floats; narrow ones are computed in float32."""
    wide = dtypes.float32 if dtype.bits < 32 else dtype

    def compute(value: Any) -> Any:
        return function_of(low, op, op.kind, wide, convert(low, value, dtype, wide))

    if isinstance(op.result.type, Tile):
        elements = [compute(element) for element in low.elements(op.value)]
        low.define(op.result, _as_tile(low, elements, wide, dtype))
    else:
        low.define(op.result, convert(low, compute(low.get(op.value)), wide, dtype))


def _unary_scalar(low: Lowering, kind: str, dtype: DType, value: Any) -> Any:
    builder = low.builder
    match kind:
        case "not":
            return builder.xor(value, I1(1))
        case "invert":
            return builder.not_(value)
        case "neg":
            return builder.fneg(value) if dtype.is_float else builder.neg(value)
        case "abs" if dtype.is_float:
            return low.intrinsic("llvm.fabs", value.type, (value,), value.type)
        case "abs":
            if not dtype.is_signed:
                return value
            return low.intrinsic("llvm.abs", value.type, (value, I1(0)), value.type)
        case _:
            raise InternalError(f"unknown unary operation {kind!r}")


@lower(arith.Cast)
def _cast(low: Lowering, op: arith.Cast) -> None:
    source = arith.element_type(op.value.type)
    if isinstance(op.value.type, Tile):
        low.define(op.result, _cast_tile(low, op.value, source, op.dtype))
    else:
        low.define(op.result, convert(low, low.get(op.value), source, op.dtype))


# Instructions that convert two float32 at once: the intrinsic, and the type of the pair.
_PACKS: dict[DType, tuple[str, Any]] = {
    dtypes.bfloat16: ("llvm.nvvm.ff2bf16x2.rn", ir.VectorType(BF16, 2)),
    dtypes.float16: ("llvm.nvvm.ff2f16x2.rn", ir.VectorType(F16, 2)),
    dtypes.float8_e4m3fn: ("llvm.nvvm.ff.to.e4m3x2.rn", I16),
    dtypes.float8_e5m2: ("llvm.nvvm.ff.to.e5m2x2.rn", I16),
}


def _cast_tile(low: Lowering, value: Value, source: DType, dtype: DType) -> RegisterTile:
    return _as_tile(low, low.elements(value), source, dtype)


def _as_tile(low: Lowering, elements: list[Any], source: DType, dtype: DType) -> RegisterTile:
    """A tile of ``dtype`` from elements of ``source``."""
    if source != dtypes.float32 or dtype not in _PACKS:
        return RegisterTile(dtype, [convert(low, e, source, dtype) for e in elements])
    name, kind = _PACKS[dtype]
    # The first operand becomes the upper half.
    neighbours = zip(elements[0::2], elements[1::2], strict=True)
    pairs = [low.intrinsic(name, kind, (upper, lower)) for lower, upper in neighbours]
    return RegisterTile(dtype, pairs=pairs)


# --------------------------------------------------------------------------- integers

_Binary = Callable[[Lowering, DType, Any, Any], Any]


def _plain(method: str) -> _Binary:
    return lambda low, dtype, a, b: getattr(low.builder, method)(a, b)


def _extreme(which: str) -> _Binary:
    def function(low: Lowering, dtype: DType, a: Any, b: Any) -> Any:
        name = f"llvm.{'s' if dtype.is_signed else 'u'}{which}"
        return low.intrinsic(name, a.type, (a, b), a.type)

    return function


def _divide(low: Lowering, dtype: DType, a: Any, b: Any) -> tuple[Any, Any]:
    """Quotient and remainder rounded towards minus infinity; both 0 where ``b`` is 0."""
    builder = low.builder
    zero, one = b.type(0), b.type(1)
    by_zero = builder.icmp_unsigned("==", b, zero)
    if not dtype.is_signed:
        safe = builder.select(by_zero, one, b)
        quotient, remainder = builder.udiv(a, safe), builder.urem(a, safe)
        return (
            builder.select(by_zero, zero, quotient),
            builder.select(by_zero, zero, remainder),
        )
    # The smallest number divided by -1 overflows, which LLVM leaves undefined too.
    by_minus_one = builder.icmp_signed("==", b, b.type(-1))
    safe = builder.select(builder.or_(by_zero, by_minus_one), one, b)
    quotient, remainder = builder.sdiv(a, safe), builder.srem(a, safe)
    differ = builder.icmp_signed("<", builder.xor(remainder, safe), zero)
    inexact = builder.icmp_signed("!=", remainder, zero)
    down = builder.and_(differ, inexact)
    quotient = builder.select(down, builder.sub(quotient, one), quotient)
    remainder = builder.select(down, builder.add(remainder, safe), remainder)
    quotient = builder.select(by_minus_one, builder.neg(a), quotient)
    return builder.select(by_zero, zero, quotient), remainder


def _shift(method: str) -> _Binary:
    def function(low: Lowering, dtype: DType, a: Any, b: Any) -> Any:
        builder = low.builder
        if method == "right" and dtype.is_signed:
            return builder.ashr(a, _at_most(low, b, dtype.bits - 1))
        # In two halves, neither of which reaches the width. A single shift with a select around
        # it would become PTX's shift, which is right only for 32-bit counts: LLVM 22 cuts a
        # 64-bit count short and forgets the select.
        count = _at_most(low, b, dtype.bits)
        half = builder.lshr(count, b.type(1))
        shift = builder.lshr if method == "right" else builder.shl
        return shift(shift(a, half), builder.sub(count, half))

    return function


def _at_most(low: Lowering, count: Any, limit: int) -> Any:
    """A shift count, where a negative one is a huge unsigned one."""
    return low.intrinsic("llvm.umin", count.type, (count, count.type(limit)), count.type)


_INTEGER: dict[str, _Binary] = {
    "add": _plain("add"),
    "sub": _plain("sub"),
    "mul": _plain("mul"),
    "floordiv": lambda low, dtype, a, b: _divide(low, dtype, a, b)[0],
    "mod": lambda low, dtype, a, b: _divide(low, dtype, a, b)[1],
    "min": _extreme("min"),
    "max": _extreme("max"),
    "and": _plain("and_"),
    "or": _plain("or_"),
    "xor": _plain("xor"),
    "shl": _shift("left"),
    "shr": _shift("right"),
}


# ----------------------------------------------------------------------------- floats


def _float(method: str) -> _Binary:
    return lambda low, dtype, a, b: getattr(low.builder, method)(a, b, flags=CONTRACT)


def _float_extreme(name: str) -> _Binary:
    """A NaN on either side gives NaN, as in NumPy."""
    return lambda low, dtype, a, b: low.intrinsic(name, a.type, (a, b), a.type)


_FLOAT: dict[str, _Binary] = {
    "add": _float("fadd"),
    "sub": _float("fsub"),
    "mul": _float("fmul"),
    "truediv": lambda low, dtype, a, b: low.builder.fdiv(a, b),
    "floordiv": float_floordiv,
    "mod": float_mod,
    "min": _float_extreme("llvm.minimum"),
    "max": _float_extreme("llvm.maximum"),
}
