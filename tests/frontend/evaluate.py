"""A small interpreter of tile-level IR with scalars only, to compare kernels with Python itself.

It shares nothing with the emulator, which runs protocol-level IR: numbers are NumPy scalars, and
a jump is a Python exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.dtypes import DType, as_dtype, float32, int32
from tiledsl.codegen.ir.ops import arith, control, tile
from tiledsl.codegen.ir.types import Scalar, TensorType
from tiledsl.frontend.build import ConstantSpec, ScalarSpec, TensorSpec, build_kernel

_NUMPY = {"bool_": np.bool_}


def numpy_type(dtype: DType) -> Any:
    return _NUMPY.get(dtype.name) or getattr(np, dtype.name, None) or getattr(ml_dtypes, dtype.name)


class _Jump(Exception):
    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)


class _Break(_Jump):
    pass


class _Continue(_Jump):
    pass


class _Leave(_Jump):
    pass


class _Return(_Jump):
    pass


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift,
    "shr": np.right_shift,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative, "abs": np.abs, "invert": np.invert, "not": np.logical_not,
}  # fmt: skip


class Evaluator:
    """Runs one block of a grid."""

    def __init__(self, values: Mapping[Value, Any], block_id: Sequence[int] = (0, 0, 0)) -> None:
        self.values = dict(values)
        self.block_id = block_id
        self.printed: list[str] = []

    def run(self, block: Block) -> list[Any]:
        """Execute a block; returns what its ``yield`` gives."""
        for op in block.ops:
            if isinstance(op, control.Yield):
                return self.read(op.values)
            results = self.execute(op)
            assert len(results) == len(op.results), op
            for value, result in zip(op.results, results, strict=True):
                if isinstance(value.type, Scalar):
                    assert type(result) is numpy_type(value.type.dtype), (op, result)
                self.values[value] = result
        return []

    def read(self, values: Sequence[Value]) -> list[Any]:
        return [self.values[value] for value in values]

    def execute(self, op: Op) -> list[Any]:
        match op:
            case arith.Constant(value=value, dtype=dtype):
                return [numpy_type(dtype)(value)]
            case arith.Binary(kind=kind):
                with np.errstate(all="ignore"):
                    return [_BINARY[kind](*self.read([op.lhs, op.rhs]))]
            case arith.Compare(kind=kind):
                return [_COMPARE[kind](*self.read([op.lhs, op.rhs]))]
            case arith.Unary(kind=kind):
                with np.errstate(all="ignore"):
                    return [_UNARY[kind](self.values[op.value])]
            case arith.Cast(dtype=dtype):
                with np.errstate(all="ignore"):
                    return [self.values[op.value].astype(numpy_type(dtype))]
            case arith.Select():
                condition, true, false = self.read([op.condition, op.true, op.false])
                return [true if condition else false]
            case tile.TensorDim(tensor=tensor, axis=axis):
                return [np.int32(self.values[tensor].shape[axis])]
            case tile.BlockId(axis=axis):
                return [np.int32(self.block_id[axis])]
            case tile.BlockCount():
                return [np.int32(1)]
            case tile.TensorLoad(tensor=tensor, indices=indices):
                return [self.values[tensor][self.index(indices)]]
            case tile.TensorStore(value=value, tensor=tensor, indices=indices):
                self.values[tensor][self.index(indices)] = self.values[value]
                return []
            case tile.Require(condition=condition, message=message):
                assert self.values[condition], message
                return []
            case tile.Print(template=template, values=values):
                self.printed.append(template % tuple(self.read(values)))
                return []
        return self.control(op)

    def index(self, indices: Sequence[Value]) -> tuple[int, ...]:
        found = tuple(int(i) for i in self.read(indices))
        assert all(i >= 0 for i in found), f"out of range: {found}"
        return found

    def control(self, op: Op) -> list[Any]:
        match op:
            case control.If():
                return self.run(op.then if self.values[op.condition] else op.orelse)
            case control.For():
                start, stop, step = (int(x) for x in self.read([op.start, op.stop, op.step]))
                counter, *args = op.body.args
                kind = type(self.values[op.start])
                carried = self.read(op.inits)
                for i in range(start, stop, step):
                    self.values[counter] = kind(i)
                    done, carried = self.iteration(op.body, args, carried)
                    if done:
                        break
                return carried
            case control.Loop():
                carried = self.read(op.inits)
                for _ in range(100_000):
                    done, carried = self.iteration(op.body, op.body.args, carried)
                    if done:
                        return carried
                raise AssertionError("endless loop")
            case control.Scope():
                try:
                    self.run(op.body)
                except _Leave as jump:
                    return jump.values
                raise AssertionError("a scope must end in leave")
            case control.Role():
                try:
                    self.run(op.body)
                except _Return:
                    pass
                return []
            case control.Break():
                raise _Break(self.read(op.values))
            case control.Continue():
                raise _Continue(self.read(op.values))
            case control.Leave():
                raise _Leave(self.read(op.values))
            case control.Return():
                raise _Return([])
        raise NotImplementedError(op.opcode)

    def iteration(
        self, body: Block, args: Sequence[Value], carried: Sequence[Any]
    ) -> tuple[bool, list[Any]]:
        self.values.update(zip(args, carried, strict=True))
        try:
            self.run(body)
        except _Continue as jump:
            return False, jump.values
        except _Break as jump:
            return True, jump.values
        raise AssertionError("a loop body must end in continue or break")


def spec_of(argument: Any) -> Any:
    """What the frontend is told about an argument: arrays, and NumPy or Python scalars."""
    if isinstance(argument, np.ndarray):
        return TensorSpec(as_dtype(argument.dtype), argument.ndim)
    if isinstance(argument, Constant):
        return ConstantSpec(argument.value)
    if isinstance(argument, np.generic):
        return ScalarSpec(as_dtype(argument.dtype))
    return ScalarSpec(float32 if isinstance(argument, float) else int32)


class Constant:
    """An argument that is known at compile time."""

    def __init__(self, value: Any) -> None:
        self.value = value


def trace(function: Callable[..., Any], **arguments: Any) -> Any:
    """The tile-level kernel for these arguments."""
    specs = {name: spec_of(argument) for name, argument in arguments.items()}
    return build_kernel(function, specs, name=function.__name__)


def run(function: Callable[..., Any], **arguments: Any) -> Evaluator:
    """Trace a kernel and execute its IR on the arguments; arrays are changed in place."""
    kernel = trace(function, **arguments)
    values: dict[Value, Any] = {}
    for param in kernel.params:
        argument = arguments[param.name]
        if isinstance(param.type, TensorType):
            values[param.value] = argument
        else:
            values[param.value] = numpy_type(param.type.dtype)(argument)
    evaluator = Evaluator(values)
    try:
        evaluator.run(kernel.body)
    except _Return:
        pass
    return evaluator
