"""Which loops over tiles run in lockstep: those in which one thread issues loads.

A scheduler made with ``lockstep=True`` marks each loop over it with ``grid.pace``. The mark stays
in the roles that fill stages by TMA or bulk copies, as one elected thread; the roles that take
these stages follow by themselves. Everywhere else it goes. A loop that keeps it gets a counter of
its own, and is entered and left on every path: by its end, ``break``, the ``return`` of a role,
and the early return of a function around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tiledsl.codegen.ir.core import Block, Op
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, copy, tile
from tiledsl.codegen.ir.ops.lockstep import GridEnter, GridLeave, GridPace
from tiledsl.codegen.passes.rewrite import blocks_of

_LOADS = (tile.TmaLoad, copy.TmaLoadIm2col, copy.BulkLoad)


def keep_lockstep(kernel: Kernel) -> None:
    """Give each loop that is kept in step its counter; drop the other marks."""
    assert kernel.plan is not None
    kept: set[Op] = set()
    for op in kernel.body.ops:
        if isinstance(op, control.Role) and kernel.plan.role(op.name).mode == "thread":
            numbers = count()
            for block in blocks_of(op.body):
                kept.update(_keep(block, op.name, numbers))
    for block in blocks_of(kernel.body):
        block.ops = [op for op in block.ops if not isinstance(op, GridPace) or op in kept]


def _keep(block: Block, role: str, numbers: Iterator[int]) -> list[Op]:
    """Enter and leave the loops of ``block`` that issue loads; their marks."""
    kept: list[Op] = []
    ops: list[Op] = []
    for op in block.ops:
        mark = _mark(op)
        if mark is None or not any(isinstance(inner, _LOADS) for inner in _inside(op)):
            ops.append(op)
            continue
        number = next(numbers)
        mark.counter = f"{role}.{number}" if number else role
        _leave_early(op.blocks[0], mark.counter)
        ops += [GridEnter(mark.counter).at(op.loc), op, GridLeave(mark.counter).at(op.loc)]
        kept.append(mark)
    block.ops = ops
    return kept


def _mark(op: Op) -> GridPace | None:
    if not isinstance(op, control.For):
        return None
    return next((inner for inner in op.body.ops if isinstance(inner, GridPace)), None)


def _inside(op: Op) -> Iterator[Op]:
    for block in op.blocks:
        yield from block.walk()


def _leave_early(block: Block, counter: str, *, in_scope: bool = False) -> None:
    """Leave the loop in front of what ends more than the loop. ``in_scope``: of the loop's own."""
    ops: list[Op] = []
    for op in block.ops:
        for nested in op.blocks:
            _leave_early(nested, counter, in_scope=in_scope or isinstance(op, control.Scope))
        if isinstance(op, control.Return) or (isinstance(op, control.Leave) and not in_scope):
            ops.append(GridLeave(counter).at(op.loc))
        ops.append(op)
    block.ops = ops
