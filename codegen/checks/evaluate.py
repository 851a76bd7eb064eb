"""What is known at compile time: constants, and arithmetic on what is known.

The frontend folds what it can; what is left are values that are constant only on a path that a
check follows, such as the counter of one iteration, or one replica of a role.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.ops import arith, control, sync
from tiledsl.codegen.ir.types import Scalar

Number = bool | int

_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


class Known:
    """Values of integers and bools as far as they are known; constants are known everywhere."""

    def __init__(self) -> None:
        self._values: dict[Value, Number] = {}

    def get(self, value: Value) -> Number | None:
        owner = value.owner
        if isinstance(owner, arith.Constant):
            return None if isinstance(owner.value, float) else owner.value
        return self._values.get(value)

    def set(self, value: Value, number: Number | None) -> None:
        """What a value is from here on; None: not known any more."""
        if number is None or not _fits(value, number):
            self._values.pop(value, None)
        else:
            self._values[value] = number

    def run(self, op: Op) -> None:
        """Compute the results of an operation without blocks."""
        if isinstance(op, sync.Replica | sync.ClusterRank):
            return  # as it was set, if it was
        for result in op.results:
            self.set(result, self._compute(op) if len(op.results) == 1 else None)

    def _compute(self, op: Op) -> Number | None:
        match op:
            case arith.Binary():
                lhs, rhs = self.get(op.lhs), self.get(op.rhs)
                if op.kind in ("and", "or") and _is_bool(op.result):
                    deciding = op.kind == "or"  # a true operand decides an `or`, a false an `and`
                    if deciding in (lhs, rhs):
                        return deciding
                compute = _BINARY.get(op.kind)
                if lhs is None or rhs is None or compute is None:
                    return None
                if op.kind in ("floordiv", "mod") and rhs == 0:
                    return None
                return compute(lhs, rhs)
            case arith.Compare():
                lhs, rhs = self.get(op.lhs), self.get(op.rhs)
                return None if lhs is None or rhs is None else _COMPARE[op.kind](lhs, rhs)
            case arith.Unary():
                value = self.get(op.value)
                if value is None:
                    return None
                return {"neg": -value, "not": not value, "abs": abs(value), "invert": ~value}.get(
                    op.kind
                )
            case arith.Select():
                condition = self.get(op.condition)
                if condition is None:
                    return None
                return self.get(op.true if condition else op.false)
            case arith.Cast():
                value = self.get(op.value)
                if value is None or not (op.dtype.is_integer or op.dtype.kind == "bool"):
                    return None
                return bool(value) if op.dtype.kind == "bool" else int(value)
        return None


def _is_bool(value: Value) -> bool:
    return value.type == Scalar(dtypes.bool_)


def _fits(value: Value, number: Number) -> bool:
    """Whether nothing wraps: what would is not known here."""
    if not isinstance(value.type, Scalar):
        return False
    dtype = value.type.dtype
    if dtype.kind == "bool":
        return True
    if not dtype.is_integer:
        return False
    low, high = dtypes.int_range(dtype)
    return low <= number <= high


def yielded(block: Block, number: int) -> Value | None:
    """The value that an ``if`` block gives as result ``number``; None when it ends elsewhere."""
    end = block.terminator
    return end.values[number] if isinstance(end, control.Yield) else None


def reachable(block: Block, known: Known) -> Iterator[Op]:
    """Every operation of a block that may run, as far as conditions are known.

    Loop bodies count as run, and what follows a block's terminator does not exist.
    """
    for op in block.ops:
        yield op
        condition = known.get(op.condition) if isinstance(op, control.If) else None
        if isinstance(op, control.If) and condition is not None:
            taken = op.then if condition else op.orelse
            yield from reachable(taken, known)
            for number, result in enumerate(op.results):
                value = yielded(taken, number)
                known.set(result, None if value is None else known.get(value))
            if taken.terminator is not None and not isinstance(taken.terminator, control.Yield):
                return
            continue
        for nested in op.blocks:
            yield from reachable(nested, known)
        known.run(op)
