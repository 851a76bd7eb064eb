"""Replicas become roles: ``mma`` with two replicas is ``mma.0`` and ``mma.1``.

Each gets a copy of the body in which ``role.replica`` is a constant, and branches on it are
decided: what a replica does not do must not count as done by it. Each turn becomes a row of
mbarriers, one a replica, named ``role.turn``. In a role without replicas turns mean nothing and
go away. Runs at tile level.
"""

from __future__ import annotations

from tiledsl.codegen.checks.evaluate import Known
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.clone import clone_block
from tiledsl.codegen.ir.core import Block, Op, Value, replace_uses
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, control, sync
from tiledsl.codegen.passes.rewrite import blocks_of
from tiledsl.errors import InvalidValue

_TURNS = (sync.TurnBegin, sync.TurnEnd)


def replicate_roles(kernel: Kernel) -> None:
    """Replace every role with ``replicas`` above 1, and every ``role.replica``.

    Raises:
        InvalidValue: a replica's name is taken.
    """
    names = {op.name for op in kernel.body.ops if isinstance(op, control.Role)}
    ops: list[Op] = []
    for op in kernel.body.ops:
        if isinstance(op, control.Role) and op.replicas > 1:
            first = next(n for n, one in enumerate([*ops, op]) if isinstance(one, control.Role))
            ops[first:first] = _turn_barriers(op)
            ops += [_replica(op, index, names) for index in range(op.replicas)]
        else:
            ops.append(op)
    kernel.body.ops = ops
    _fix_index(kernel.body, 0, keep_turns=False)
    for op in ops:
        if not (isinstance(op, control.Role) and op.group):  # alone in its role, or in none
            for nested in op.blocks:
                for block in blocks_of(nested):
                    _fix_index(block, 0, keep_turns=False)


def turn_barrier_name(group: str, turn: str) -> str:
    """The name of the mbarriers that pass a turn on."""
    return f"{group}.{turn}"


def _turn_barriers(role: control.Role) -> list[Op]:
    begins = {op.name: op for op in role.body.walk() if isinstance(op, sync.TurnBegin)}
    return [
        sync.MbarrierCreate(turn_barrier_name(role.name, name), role.replicas, 1, True).at(
            begin.loc, turn_barrier_name(role.name, name)
        )
        for name, begin in begins.items()
    ]


def _replica(role: control.Role, index: int, names: set[str]) -> control.Role:
    name = f"{role.name}.{index}"
    if name in names:
        raise InvalidValue(
            f"replica {index} of role {role.name!r} is called {name!r}: there is a role of that"
            " name",
            role.loc,
            hint="rename one of the two roles",
        )
    body = clone_block(role.body, {})
    for block in blocks_of(body):
        _fix_index(block, index, keep_turns=True)
    _decide(body, Known(), {})
    copy = control.Role(name, role.warps, body, 1, role.name, index)
    return copy.at(role.loc)


def _fix_index(block: Block, index: int, *, keep_turns: bool) -> None:
    """Make ``role.replica`` a constant; drop turns unless they are kept."""
    if not any(isinstance(op, (sync.Replica, *_TURNS)) for op in block.ops):
        return
    ops: list[Op] = []
    for op in block.ops:
        if isinstance(op, sync.Replica):
            number = arith.Constant(index, dtypes.int32).at(op.loc, op.result.name)
            replace_uses(block, {op.result: number.result})
            ops.append(number)
        elif keep_turns or not isinstance(op, _TURNS):
            ops.append(op)
    block.ops = ops


def _decide(block: Block, known: Known, renamed: dict[Value, Value]) -> None:
    """Replace branches whose condition follows from constants by the block that is taken.

    ``renamed``: what such a branch gave -> what its block yields.
    """
    ops: list[Op] = []
    todo = list(reversed(block.ops))
    decided: dict[Op, control.If] = {}  # by the yield that ends the block which was taken
    while todo:
        op = todo.pop()
        op.replace_operands(renamed)
        if op in decided:
            renamed.update(zip(decided[op].results, op.operands, strict=True))
            continue
        taken = None
        if isinstance(op, control.If) and (condition := known.get(op.condition)) is not None:
            taken = op.then if condition else op.orelse
        if taken is None:
            known.run(op)
            for nested in op.blocks:
                _decide(nested, known, renamed)
            ops.append(op)
            continue
        assert isinstance(op, control.If)
        end = taken.terminator
        if isinstance(end, control.Yield):
            decided[end] = op
        else:
            todo.clear()  # it does not come back
        todo += reversed(taken.ops)
    block.ops = ops
