"""Conditions on the launch leave the program: the host checks them before every launch."""

from __future__ import annotations

from collections.abc import Iterator

from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, control, tile
from tiledsl.codegen.ir.plan import Requirement
from tiledsl.errors import InvalidValue

_KNOWN_ON_THE_HOST = (
    arith.Constant, arith.Binary, arith.Compare, arith.Unary, arith.Cast, arith.Select,
    tile.TensorDim, control.If, control.Yield,
)  # fmt: skip


def take_requirements(kernel: Kernel) -> None:
    """Move every ``launch.require`` into the plan.

    Raises:
        InvalidValue: the condition depends on more than extents and scalar arguments.
    """
    assert kernel.plan is not None
    kept: list[Op] = []
    for op in kernel.body.ops:
        if not isinstance(op, tile.Require):
            kept.append(op)
            continue
        for source in _sources(op.condition):
            if not isinstance(source, _KNOWN_ON_THE_HOST):
                raise InvalidValue(
                    "this assert depends on what is only known inside of the kernel"
                    f" ({source.opcode}): expected a condition on shapes and scalar arguments,"
                    " which is checked before the launch",
                    op.loc,
                    notes=(("this is only known inside", source.loc),),
                    hint="td.print what is wrong under an if",
                )
        kernel.plan.requirements.append(Requirement(op.condition, op.message, op.loc))
    kernel.body.ops = kept


def _sources(value: Value) -> Iterator[Op]:
    """Every operation that ``value`` is computed from."""
    pending, seen = [value], set[Value]()
    while pending:
        current = pending.pop()
        owner = current.owner
        if current in seen or owner is None or isinstance(owner, Block):
            continue
        seen.add(current)
        yield owner
        pending += owner.operands
        for block in owner.blocks:
            for inner in block.walk():
                yield inner
                pending += inner.operands
