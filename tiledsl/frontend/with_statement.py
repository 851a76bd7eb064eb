"""``with``: traced objects that are entered and left, and roles."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.ops.control import Role
from tiledsl.errors import Loc, NameNotFound
from tiledsl.frontend.branches import Outcome
from tiledsl.frontend.expressions import evaluate
from tiledsl.frontend.merging import changed_slots
from tiledsl.frontend.objects import TracedObject
from tiledsl.frontend.scope import Frame, Poison, State
from tiledsl.frontend.statements import FALL, Flow, assign, run_block, statement


@statement(ast.With)
def _with(frame: Frame, node: ast.With) -> Flow:
    return _items(frame, node, node.items)


def _items(frame: Frame, node: ast.With, items: Sequence[ast.withitem]) -> Flow:
    """``with a, b:`` is ``with a: with b:``."""
    if not items:
        return run_block(frame, node.body)
    item, *rest = items
    cx = frame.cx
    entered = evaluate(frame, item.context_expr)
    where = frame.source.loc(item.context_expr, frame.call_site)
    with frame.at(where):
        if not isinstance(entered, TracedObject):
            raise cx.type_error(
                f"{cx.describe(entered)} cannot be used in a with statement",
                hint="with takes roles, views of pipelines and their stages",
            )
        if entered.region is not None and _is_region(entered):
            return _region(frame, node, item, rest, entered, where)
        bound = entered.enter(cx)
    if item.optional_vars is not None:
        assign(frame, item.optional_vars, bound)
    owner = frame.owner
    owner.withs.append(entered)
    try:
        flow = _items(frame, node, rest)
    finally:
        owner.withs.pop()
    if flow[0] is not Outcome.DEAD:
        with frame.at(where):
            entered.exit(cx)
    return flow


def _is_region(entered: TracedObject) -> bool:
    return type(entered).region is not TracedObject.region


def _region(
    frame: Frame,
    node: ast.With,
    item: ast.withitem,
    rest: Sequence[ast.withitem],
    entered: TracedObject,
    where: Loc,
) -> Flow:
    """A role: its body is a block of the kernel, and what it assigns is its own."""
    cx = frame.cx
    if cx.role is not None:
        raise cx.syntax_error(
            f"a role inside of role {cx.role.name!r}",
            hint="write the roles one behind the other",
            notes=[("the outer role begins here", cx.role.loc)],
        )
    if not cx.at_top or frame.kind != "kernel":
        raise cx.syntax_error(
            "a role must stand at the top of the kernel, in no run-time loop, branch or function",
            hint="write the loop or the condition inside of the role",
        )
    op = entered.region(cx)
    assert isinstance(op, Op)
    cx.add(op)
    start = State.capture(frame)
    cx.role = op if isinstance(op, Role) else None
    try:
        with cx.inside(op.blocks[0]):
            if item.optional_vars is not None:
                assign(frame, item.optional_vars, entered.inside(cx, op))
            _items(frame, node, rest)
    finally:
        cx.role = None
    _leave_region(frame, op, start)
    return FALL


def _leave_region(frame: Frame, op: Any, start: State) -> None:
    """Variables are again as before; those that the role assigned are an error to read."""
    end = State.capture(frame)
    slots = changed_slots([start, end], None, 0)
    start.restore(frame)
    for slot in slots:
        place = slot.where(end)
        notes = [] if place is None else [("the role assigns it here", place)]
        poison = Poison(
            NameNotFound,
            f"{slot.name!r} was assigned in role {op.name!r}: what a role assigns is its own",
            tuple(notes),
            "compute it before the roles; roles hand data to each other through pipelines",
        )
        slot.write(frame, poison)
