"""Structured control flow. Blocks end in exactly one terminator.

``if`` blocks end in ``yield``; loop bodies in ``continue`` (next iteration) or ``break``; an
inlined function with an early return is a ``scope`` that ``leave`` ends from any depth; ``return``
ends the role (or the kernel, outside of roles). Each of them may end any nested block: a block
that ends in ``break`` gives no value to its ``if``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import (
    Block,
    Effect,
    Op,
    Value,
    attribute,
    define,
    nested_block,
    operand,
    operands,
)
from tiledsl.codegen.ir.types import Scalar, Type

Namer = Callable[[Value], str]


def _list(name: Namer, values: Sequence[Value]) -> str:
    return ", ".join(name(value) for value in values)


def _carry(name: Namer, args: Sequence[Value], inits: Sequence[Value]) -> str:
    if not args:
        return ""
    return (
        " carry("
        + ", ".join(f"{name(a)} = {name(i)}" for a, i in zip(args, inits, strict=True))
        + ")"
    )


def _check_carry(args: Sequence[Value], inits: Sequence[Value]) -> None:
    if [a.type for a in args] != [i.type for i in inits]:
        raise ValueError(
            f"loop arguments {[str(a.type) for a in args]} do not match their initial values"
            f" {[str(i.type) for i in inits]}"
        )


@define("if", effect=Effect.CONTROL)
class If(Op):
    """Run one of two blocks; ``types`` are the types of the values they ``yield``."""

    condition: Value = operand()
    types: tuple[Type, ...] = attribute()
    then: Block = nested_block()
    orelse: Block = nested_block()

    def result_types(self) -> Sequence[Type]:
        return self.types

    def print_head(self, name: Namer) -> str:
        return f"if {name(self.condition)}"

    def verify(self) -> None:
        if self.condition.type != Scalar(dtypes.bool_):
            raise ValueError(f"the condition must be a bool_ scalar, got {self.condition.type}")


@define("for", effect=Effect.CONTROL)
class For(Op):
    """``for i in range(start, stop, step)`` with carried values.

    The body's first argument is the counter, the others are the carried values, which are also
    the results after the last iteration or a ``break``. A negative step counts down; a step
    known to be zero is refused by the frontend.
    """

    start: Value = operand()
    stop: Value = operand()
    step: Value = operand()
    inits: tuple[Value, ...] = operands()
    body: Block = nested_block()

    def result_types(self) -> Sequence[Type]:
        return [init.type for init in self.inits]

    def print_head(self, name: Namer) -> str:
        counter, *args = self.body.args
        return (
            f"for {name(counter)} = {name(self.start)} to {name(self.stop)} step"
            f" {name(self.step)}{_carry(name, args, self.inits)}"
        )

    def verify(self) -> None:
        if not (self.start.type == self.stop.type == self.step.type == self.body.args[0].type):
            raise ValueError("start, stop, step and counter must have one type")
        _check_carry(self.body.args[1:], self.inits)


@define("loop", effect=Effect.CONTROL)
class Loop(Op):
    """Repeat until ``break``; ``while`` becomes a loop whose first ``if`` breaks."""

    inits: tuple[Value, ...] = operands()
    body: Block = nested_block()

    def result_types(self) -> Sequence[Type]:
        return [init.type for init in self.inits]

    def print_head(self, name: Namer) -> str:
        return f"loop{_carry(name, self.body.args, self.inits)}"

    def verify(self) -> None:
        _check_carry(self.body.args, self.inits)


@define("scope", effect=Effect.CONTROL)
class Scope(Op):
    """A block that ``leave`` ends from any depth: an inlined function with early returns."""

    types: tuple[Type, ...] = attribute()
    body: Block = nested_block()

    def result_types(self) -> Sequence[Type]:
        return self.types

    def print_head(self, name: Namer) -> str:
        return "scope"


@define("role", effect=Effect.CONTROL)
class Role(Op):
    """One sequential program run by ``warps`` warps together, beside the other roles.

    ``replicas`` of them run beside each other, each on warps of its own; a pass makes them roles
    ``name.0``, ``name.1``... with ``replicas`` 1, whose ``group`` is the name of what they are
    replicas of (empty for any other role) and ``index`` their number.
    """

    name: str = attribute()
    warps: int = attribute()
    body: Block = nested_block()
    replicas: int = attribute(default=1)
    group: str = attribute(default="")
    index: int = attribute(default=0)

    def print_head(self, name: Namer) -> str:
        replicas = f" replicas={self.replicas}" if self.replicas != 1 else ""
        return f'role "{self.name}" warps={self.warps}{replicas}'

    def verify(self) -> None:
        if self.warps < 1:
            raise ValueError(f"a role needs at least one warp, got {self.warps}")


class _Terminator(Op):
    def print_head(self, name: Namer) -> str:
        return f"{self.opcode} {_list(name, self.operands)}".rstrip()


@define("yield", effect=Effect.CONTROL, terminator=True)
class Yield(_Terminator):
    """End an ``if`` block with its values."""

    values: tuple[Value, ...] = operands()


@define("continue", effect=Effect.CONTROL, terminator=True)
class Continue(_Terminator):
    """Go on with the next iteration of the innermost loop."""

    values: tuple[Value, ...] = operands()


@define("break", effect=Effect.CONTROL, terminator=True)
class Break(_Terminator):
    """End the innermost loop with these results."""

    values: tuple[Value, ...] = operands()


@define("leave", effect=Effect.CONTROL, terminator=True)
class Leave(_Terminator):
    """End the innermost ``scope`` with these results."""

    values: tuple[Value, ...] = operands()


@define("return", effect=Effect.CONTROL, terminator=True)
class Return(_Terminator):
    """End the role, or the kernel when outside of roles."""
