"""mbarriers, named barriers and fences."""

from __future__ import annotations

from tiledsl.codegen.ir.ops import protocol
from tiledsl.codegen.ir.plan import RolePlan
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I32
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.errors import InternalError

# The loop stands inside of the asm, so that LLVM sees one instruction and cannot duplicate it.
# `try_wait` suspends the thread for a while by itself: the loop needs no backoff.
WAIT = (
    "{ .reg .pred done; "
    "WAIT${:uid}: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; "
    "@done bra DONE${:uid}; bra WAIT${:uid}; DONE${:uid}: }"
)


# The same for one thread of a role of many: the others of its warp wait for it behind the loop,
# because what follows may be for whole warps.
ELECTED_WAIT = (
    "{ .reg .pred done; @!$2 bra DONE${:uid}; "
    "WAIT${:uid}: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; "
    "@done bra DONE${:uid}; bra WAIT${:uid}; DONE${:uid}: bar.warp.sync 0xffffffff; }"
)


@lower(protocol.MbarrierWait)
def _wait(low: Lowering, op: protocol.MbarrierWait) -> None:
    operands = [("r", low.get(op.barrier)), ("r", low.get(op.parity))]
    text = WAIT
    if op.elect == "role" and not low.runner.single:
        text = ELECTED_WAIT
        operands.append(("b", low.runner.leads_role))
    low.asm(text, operands, convergent=not low.runner.single)


@lower(protocol.MbarrierArrive)
def _arrive(low: Lowering, op: protocol.MbarrierArrive) -> None:
    when = low.get(op.predicate[0]) if op.predicate else None
    text = "mbarrier.arrive.shared::cta.b64 _, [$0];"
    low.elected(text, [("r", low.get(op.barrier))], op.elect, when)


@lower(protocol.MbarrierArriveExpectTx)
def _arrive_expect_tx(low: Lowering, op: protocol.MbarrierArriveExpectTx) -> None:
    text = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {op.nbytes};"
    low.elected(text, [("r", low.get(op.barrier))], "role")


@lower(protocol.FenceProxyAsync)
def _fence(low: Lowering, op: protocol.FenceProxyAsync) -> None:
    low.asm("fence.proxy.async.shared::cta;")


@lower(protocol.PartSync)
def _part_sync(low: Lowering, op: protocol.PartSync) -> None:
    role = low.runner.role
    if low.runner.single:
        return
    first = _barrier_of(op, role, "part_barrier")
    assert role is not None
    number = low.builder.add(I32(first), low.runner.part)
    low.asm(f"bar.sync $0, {role.part_threads};", [("r", number)], convergent=True)


@lower(protocol.RoleSync)
def _role_sync(low: Lowering, op: protocol.RoleSync) -> None:
    role = low.runner.role
    if low.runner.single:
        return
    number = _barrier_of(op, role, "role_barrier")
    assert role is not None
    low.asm(f"bar.sync {number}, {role.parts * role.part_threads};", convergent=True)


def _barrier_of(
    op: protocol.PartSync | protocol.RoleSync, role: RolePlan | None, field: str
) -> int:
    number = getattr(role, field) if role is not None else 0
    if not number:
        raise InternalError(f"{op.opcode} needs a named barrier, which the plan lacks", op.loc)
    return int(number)
