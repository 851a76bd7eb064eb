"""Arithmetic with Python's meaning, on scalars and element by element on register tiles.

Integers wrap at their width. bfloat16 and float16 are computed in float32 and rounded after each
operation, which gives the correctly rounded result for ``+ - * /``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import arith
from tiledsl.codegen.ir.ops.arith import element_type
from tiledsl.codegen.ir.types import Scalar, Tile
from tiledsl.errors import InvalidValue, Loc
from tiledsl.runtime.emulator.compile import Compiler, Signal, Step, step
from tiledsl.runtime.emulator.machine import Part
from tiledsl.runtime.emulator.values import (
    Array,
    convert,
    numpy_dtype,
    share_of,
    to_float32,
    wrap,
)
from tiledsl.runtime.emulator.wgmma import ready_tile

Function = Callable[..., Any]


class _Fault(Exception):
    """An operation without a value; the text says why."""


# ----------------------------------------------------------------------------- integers


def _nonzero(function: Function, what: str) -> Function:
    def checked(lhs: Any, rhs: Any) -> Any:
        if rhs == 0:
            raise _Fault(f"integer {what} by zero: {lhs} {'%' if what == 'modulo' else '//'} 0")
        return function(lhs, rhs)

    return checked


def _shift(function: Function, bits: int) -> Function:
    def checked(lhs: int, rhs: int) -> Any:
        if rhs < 0:
            raise _Fault(f"negative shift count: {rhs}")
        return function(lhs, min(rhs, bits))

    return checked


def _integer_binary(kind: str, dtype: DType) -> Function:
    """On Python integers."""
    plain: dict[str, Function] = {
        "min": min, "max": max, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
        "mod": _nonzero(operator.mod, "modulo"),
        "shr": _shift(operator.rshift, dtype.bits),
    }  # fmt: skip
    if kind in plain:
        return plain[kind]
    wrapping: dict[str, Function] = {
        "add": operator.add, "sub": operator.sub, "mul": operator.mul,
        "floordiv": _nonzero(operator.floordiv, "division"),
        "shl": _shift(operator.lshift, dtype.bits),
    }  # fmt: skip
    exact, wrapped = wrapping[kind], wrap(dtype)
    return lambda lhs, rhs: wrapped(exact(lhs, rhs))


def _integer_tile_binary(kind: str, dtype: DType) -> Function:
    """On arrays, whose arithmetic wraps by itself."""
    functions: dict[str, Function] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum,
        "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
        "floordiv": np.floor_divide, "mod": np.remainder,
        "shl": np.left_shift, "shr": np.right_shift,
    }  # fmt: skip
    function = functions[kind]

    def checked(lhs: Array, rhs: Array) -> Any:
        if kind in ("floordiv", "mod") and not rhs.all():
            raise _Fault(f"integer {'modulo' if kind == 'mod' else 'division'} by zero in a tile")
        if kind in ("shl", "shr") and dtype.is_signed and rhs.min(initial=0) < 0:
            raise _Fault(f"negative shift count in a tile: {rhs.min()}")
        # From the width on, NumPy shifts out all bits, which is Python's result wrapped.
        return function(lhs, rhs)

    return checked


# ------------------------------------------------------------------------------- floats


def _minimum(lhs: Any, rhs: Any) -> Any:
    """NaN where either is NaN; -0.0 is below 0.0."""
    return np.where(lhs == rhs, np.where(np.signbit(lhs), lhs, rhs), np.minimum(lhs, rhs))[()]


def _maximum(lhs: Any, rhs: Any) -> Any:
    """NaN where either is NaN; 0.0 is above -0.0."""
    return np.where(lhs == rhs, np.where(np.signbit(lhs), rhs, lhs), np.maximum(lhs, rhs))[()]


_FLOAT_BINARY: dict[str, Function] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "min": _minimum, "max": _maximum,
}  # fmt: skip
_ERF = np.frompyfunc(math.erf, 1, 1)
_MATHS: dict[str, Function] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
    "rsqrt": lambda value: 1 / np.sqrt(value), "tanh": np.tanh,
    "erf": lambda value: np.asarray(_ERF(value), np.float64)[()],
}  # fmt: skip
_LOGIC: dict[str, Function] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip
_COMPARE: dict[str, Function] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def _in_float64(function: Function) -> Function:
    """``function`` of a float32 or float64, computed in float64 and rounded once."""
    return lambda value: function(value.astype(np.float64)).astype(value.dtype)


def _rounded(function: Function, dtype: DType, *, tile: bool) -> Function:
    """``function`` on floats of ``dtype``: computed in float32 at least, then rounded."""
    if dtype.bits >= 32:
        return function
    kind = numpy_dtype(dtype)

    def run(*values: Any) -> Any:
        wide = function(*[np.asarray(value).astype(np.float32) for value in values])
        return np.asarray(wide).astype(kind)[()]

    def run_tile(*values: Array) -> Any:
        return function(*[to_float32(value) for value in values]).astype(kind)

    return run_tile if tile else run


def binary_function(kind: str, dtype: DType, *, tile: bool) -> Function:
    """What ``Binary(kind)`` computes from two scalars, or from two arrays."""
    if dtype.is_float:
        return _rounded(_FLOAT_BINARY[kind], dtype, tile=tile)
    if dtype.kind == "bool":
        logic = _LOGIC[kind]
        return logic if tile else lambda lhs, rhs: bool(logic(lhs, rhs))
    return _integer_tile_binary(kind, dtype) if tile else _integer_binary(kind, dtype)


def unary_function(kind: str, dtype: DType, *, tile: bool) -> Function:
    """What ``Unary(kind)`` computes from a scalar, or from an array."""
    if dtype.is_float:
        if kind in _MATHS:
            return _rounded(_in_float64(_MATHS[kind]), dtype, tile=tile)
        return _rounded({"neg": np.negative, "abs": np.abs}[kind], dtype, tile=tile)
    if tile:
        functions: dict[str, Function] = {
            "neg": np.negative, "abs": np.abs, "invert": np.invert, "not": np.logical_not,
        }  # fmt: skip
        return functions[kind]
    if kind == "not":
        return operator.not_
    exacts: dict[str, Function] = {"neg": operator.neg, "abs": abs, "invert": operator.invert}
    exact = exacts[kind]
    wrapped = wrap(dtype)
    return lambda value: wrapped(exact(value))


def cast_function(source: DType, target: DType, *, tile: bool) -> Function:
    """What ``Cast`` computes from a scalar, or from an array."""
    if tile:
        return lambda values: convert(values, source, target)
    if source == target:
        return lambda value: value
    if not source.is_float and not target.is_float:
        if target.kind == "bool":
            return bool
        wrapped = wrap(target)
        return lambda value: wrapped(int(value))
    kind, is_float = numpy_dtype(source), target.is_float

    def run(value: Any) -> Any:
        result = convert(np.array(value, kind), source, target)[()]
        return result if is_float else result.item()

    return run


# --------------------------------------------------------------------------- operations


@step(arith.Binary)
def _binary(cx: Compiler, op: arith.Binary) -> Step:
    out, lhs, rhs, loc = cx.slot(op.result), cx.slot(op.lhs), cx.slot(op.rhs), op.loc
    tile = isinstance(op.lhs.type, Tile)
    function = binary_function(op.kind, element_type(op.lhs.type), tile=tile)
    if tile:

        def run_tile(part: Part) -> Signal:
            registers = part.registers
            left, right = ready_tile(registers[lhs], loc), ready_tile(registers[rhs], loc)
            registers[out] = _checked(function, loc, left, right)
            return None

        return run_tile
    if op.kind in ("floordiv", "mod", "shl", "shr"):

        def run_checked(part: Part) -> Signal:
            registers = part.registers
            registers[out] = _checked(function, loc, registers[lhs], registers[rhs])
            return None

        return run_checked

    def run(part: Part) -> Signal:
        registers = part.registers
        registers[out] = function(registers[lhs], registers[rhs])
        return None

    return run


def _checked(function: Function, loc: Loc, *values: Any) -> Any:
    try:
        return function(*values)
    except _Fault as fault:
        raise InvalidValue(str(fault), loc) from None


@step(arith.Compare)
def _compare(cx: Compiler, op: arith.Compare) -> Step:
    out, lhs, rhs, loc = cx.slot(op.result), cx.slot(op.lhs), cx.slot(op.rhs), op.loc
    function = _COMPARE[op.kind]
    if isinstance(op.lhs.type, Tile):

        def run_tile(part: Part) -> Signal:
            registers = part.registers
            left, right = ready_tile(registers[lhs], loc), ready_tile(registers[rhs], loc)
            registers[out] = np.asarray(function(left, right), np.bool_)
            return None

        return run_tile

    def run(part: Part) -> Signal:
        registers = part.registers
        registers[out] = bool(function(registers[lhs], registers[rhs]))
        return None

    return run


def _one_operand(cx: Compiler, op: arith.Unary | arith.Cast, function: Function) -> Step:
    out, value, loc = cx.slot(op.result), cx.slot(op.value), op.loc
    if isinstance(op.value.type, Tile):

        def run_tile(part: Part) -> Signal:
            part.registers[out] = function(ready_tile(part.registers[value], loc))
            return None

        return run_tile

    def run(part: Part) -> Signal:
        part.registers[out] = function(part.registers[value])
        return None

    return run


@step(arith.Unary)
def _unary(cx: Compiler, op: arith.Unary) -> Step:
    tile = isinstance(op.value.type, Tile)
    return _one_operand(cx, op, unary_function(op.kind, element_type(op.value.type), tile=tile))


@step(arith.Cast)
def _cast(cx: Compiler, op: arith.Cast) -> Step:
    tile = isinstance(op.value.type, Tile)
    return _one_operand(cx, op, cast_function(element_type(op.value.type), op.dtype, tile=tile))


@step(arith.Select)
def _select(cx: Compiler, op: arith.Select) -> Step:
    out, condition = cx.slot(op.result), cx.slot(op.condition)
    true, false, loc = cx.slot(op.true), cx.slot(op.false), op.loc
    if isinstance(op.condition.type, Tile):

        def run_tile(part: Part) -> Signal:
            registers = part.registers
            where, left, right = (
                ready_tile(registers[slot], loc) for slot in (condition, true, false)
            )
            registers[out] = np.where(where, left, right)
            return None

        return run_tile
    check = ready_tile if isinstance(op.true.type, Tile) else None

    def run(part: Part) -> Signal:
        registers = part.registers
        if check is not None:  # both are evaluated
            check(registers[true], loc)
            check(registers[false], loc)
        registers[out] = registers[true if registers[condition] else false]
        return None

    return run


@step(arith.Full)
def _full(cx: Compiler, op: arith.Full) -> Step:
    out, value = cx.slot(op.result), cx.slot(op.value)
    shape = share_of(op.shape, op.layout).shape
    assert isinstance(op.value.type, Scalar)
    kind = numpy_dtype(op.value.type.dtype)

    def run(part: Part) -> Signal:
        part.registers[out] = np.full(shape, part.registers[value], kind)
        return None

    return run
