"""Copies of operations and blocks, with new values for what they define."""

from __future__ import annotations

from typing import Any

from tiledsl.codegen.ir.core import Block, Op, Value

Renamed = dict[Value, Value]


def clone_block(block: Block, renamed: Renamed) -> Block:
    """A copy of a block and all that is nested in it.

    ``renamed`` says which values stand for which in the copy; what the block defines is added,
    what is defined outside and not listed stays the same.
    """
    copy = Block()
    for arg in block.args:
        renamed[arg] = copy.add_arg(arg.type, arg.loc, arg.name)
    copy.ops = [clone_op(op, renamed) for op in block.ops]
    return copy


def clone_op(op: Op, renamed: Renamed) -> Op:
    """A copy of an operation, nested blocks included, whose operands are taken from ``renamed``."""
    fields: dict[str, Any] = {}
    for name, kind in op.field_kinds.items():
        value = getattr(op, name)
        if kind == "operand":
            value = renamed.get(value, value)
        elif kind == "operands":
            value = tuple(renamed.get(one, one) for one in value)
        elif kind == "block":
            value = clone_block(value, renamed)
        fields[name] = value
    copy = type(op)(**fields)
    copy.loc = op.loc
    for old, new in zip(op.results, copy.results, strict=True):
        new.type, new.loc, new.name = old.type, old.loc, old.name
        renamed[old] = new
    return copy
