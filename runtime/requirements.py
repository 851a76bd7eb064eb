"""Conditions on a launch: ``assert`` on shapes and scalars, evaluated with Python's numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, control, tile
from tiledsl.codegen.ir.plan import Requirement
from tiledsl.errors import LaunchError

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "min": min, "max": max,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "shl": operator.lshift, "shr": operator.rshift,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg, "invert": operator.invert, "not": operator.not_, "abs": abs,
}  # fmt: skip


def check_requirements(
    kernel: Kernel, shapes: Mapping[int, Sequence[int]], args: Sequence[Any]
) -> None:
    """Raise ``LaunchError`` unless every ``assert`` at the top of the kernel holds.

    Args:
        kernel: brought down; its plan has the requirements.
        shapes: extents of the tensor arguments, by parameter index.
        args: all arguments; scalars are read from here.
    """
    assert kernel.plan is not None
    for requirement in kernel.plan.requirements:
        host = _Host(kernel, shapes, args)
        try:
            holds = host.value(requirement.condition)
        except (ArithmeticError, ValueError) as error:  # a division by zero, a negative shift
            raise LaunchError(
                f"kernel {kernel.name} cannot be launched with these arguments: the condition"
                f" below has no value ({error}), got {_given(kernel, host)}",
                requirement.loc,
            ) from None
        if not holds:
            raise _failure(kernel, requirement, host)


def _given(kernel: Kernel, host: _Host) -> str:
    """The arguments as far as conditions can see them."""
    return ", ".join(
        f"{param.name}.shape = {tuple(host.shapes[index])}"
        if index in host.shapes
        else f"{param.name} = {host.args[index]}"
        for index, param in enumerate(kernel.params)
    )


def _failure(kernel: Kernel, requirement: Requirement, host: _Host) -> LaunchError:
    said = f": {requirement.message}" if requirement.message else ""
    owner = requirement.condition.owner
    compared = ""
    if isinstance(owner, arith.Compare):
        compared = f"; compared {host.value(owner.lhs)} with {host.value(owner.rhs)}"
    return LaunchError(
        f"kernel {kernel.name} cannot be launched with these arguments{said}: expected the"
        f" condition below to hold, got {_given(kernel, host)}{compared}",
        requirement.loc,
    )


class _Host:
    """Evaluates values of the preamble for the arguments of one launch."""

    def __init__(
        self, kernel: Kernel, shapes: Mapping[int, Sequence[int]], args: Sequence[Any]
    ) -> None:
        self.shapes = shapes
        self.args = args
        self._index = {param.value: index for index, param in enumerate(kernel.params)}

    def value(self, value: Value) -> Any:
        if value in self._index:
            return self.args[self._index[value]]
        op = value.owner
        match op:
            case arith.Constant():
                return op.value
            case tile.TensorDim():
                return self.shapes[self._index[op.tensor]][op.axis]
            case arith.Binary():
                return _BINARY[op.kind](self.value(op.lhs), self.value(op.rhs))
            case arith.Compare():
                return _COMPARE[op.kind](self.value(op.lhs), self.value(op.rhs))
            case arith.Unary():
                return _UNARY[op.kind](self.value(op.value))
            case arith.Cast():
                found = self.value(op.value)
                if op.dtype.kind == "bool":
                    return bool(found)
                return float(found) if op.dtype.is_float else int(found)
            case arith.Select():
                return self.value(op.true if self.value(op.condition) else op.false)
            case control.If():
                block = op.then if self.value(op.condition) else op.orelse
                end = block.terminator
                assert isinstance(end, control.Yield)
                return self.value(end.values[op.results.index(value)])
        raise AssertionError(f"{op} is not known on the host")
