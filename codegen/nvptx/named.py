"""Where threads of a block meet: named barriers of a part, of a role, and between roles."""

from __future__ import annotations

from typing import Any

from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.ops import protocol, sync
from tiledsl.codegen.ir.plan import WARP, RolePlan
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I1, I32
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.errors import InternalError

# A warp meets without a named barrier.
WARP_SYNC = "bar.warp.sync 0xffffffff;"


@lower(protocol.PartSync)
def _part_sync(low: Lowering, op: protocol.PartSync) -> None:
    if low.runner.single:
        return
    role = _role(low, op)
    if role.part_threads == WARP:
        low.asm(WARP_SYNC, convergent=True)
        return
    first = _barrier_of(op, role, "part_barrier")
    number = low.builder.add(I32(first), low.runner.part)
    low.asm(f"bar.sync $0, {role.part_threads};", [("r", number)], convergent=True)


@lower(protocol.RoleSync)
def _role_sync(low: Lowering, op: protocol.RoleSync) -> None:
    if low.runner.single:
        return
    role = _role(low, op)
    threads = role.parts * role.part_threads
    if threads == WARP:
        low.asm(WARP_SYNC, convergent=True)
        return
    number = _barrier_of(op, role, "role_barrier")
    low.asm(f"bar.sync {number}, {threads};", convergent=True)


def agree(low: Lowering, op: Op, value: Any) -> Any:
    """Whether ``value`` (i1) is true in every thread of the role, the same answer in all of them.

    The threads meet. Outside of roles they are those of the block.
    """
    role = low.runner.role
    threads = role.parts * role.part_threads if role is not None else low.plan.threads
    if threads == WARP:
        text = "vote.sync.all.pred $0, $1, 0xffffffff;"
    else:
        number = _barrier_of(op, role, "role_barrier") if role is not None else 0
        text = f"bar.red.and.pred $0, {number}, {threads}, $1;"
    return low.asm(text, [("b", value)], outputs="=b", result=I1, convergent=True)


def _role(low: Lowering, op: Op) -> RolePlan:
    if low.runner.role is None:
        raise InternalError(f"{op.opcode} outside of roles", op.loc)
    return low.runner.role


def _barrier_of(op: Op, role: RolePlan, field: str) -> int:
    number = getattr(role, field)
    if not number:
        raise InternalError(f"{op.opcode} needs a named barrier, which the plan lacks", op.loc)
    return int(number)


# ---------------------------------------------------------------------------- between roles


@lower(sync.NamedCreate)
def _create(low: Lowering, op: sync.NamedCreate) -> None:
    named = low.plan.named.get(op.name)
    if named is None:
        raise InternalError(f"the plan has no named barrier {op.name!r}", op.loc)
    low.define(op.result, named)


@lower(sync.NamedSync)
def _named_sync(low: Lowering, op: sync.NamedSync) -> None:
    _named(low, op, "sync")


@lower(sync.NamedArrive)
def _named_arrive(low: Lowering, op: sync.NamedArrive) -> None:
    _named(low, op, "arrive")


def _named(low: Lowering, op: sync.NamedSync | sync.NamedArrive, what: str) -> None:
    """One thread stands for its warp, whose others have exited (see ``dispatch``)."""
    named = low.get(op.barrier)
    family = "barrier" if low.runner.single else "bar"
    low.asm(f"{family}.{what} {named.id}, {named.threads};", convergent=True)
