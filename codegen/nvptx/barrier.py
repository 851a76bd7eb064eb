"""mbarriers and fences."""

from __future__ import annotations

from typing import Any

from tiledsl.codegen.ir.ops import copy, protocol, sync
from tiledsl.codegen.nvptx.cluster import Peers, address_in
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I1, I32
from tiledsl.codegen.nvptx.memory import MBARRIER_BYTES
from tiledsl.codegen.nvptx.named import agree
from tiledsl.codegen.nvptx.registry import lower

# The loop stands inside of the asm, so that LLVM sees one instruction and cannot duplicate it.
# `try_wait` suspends the thread for a while by itself: the loop needs no backoff.
WAIT = (
    "{ .reg .pred done; "
    "WAIT${:uid}: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; "
    "@done bra DONE${:uid}; bra WAIT${:uid}; DONE${:uid}: }"
)

# The same for a thread that need not wait where $2 is true. One loop and no branch around it:
# ptxas would have to let a warp diverge there.
WAIT_UNLESS = (
    "{ .reg .pred done; mov.pred done, $2; "
    "WAIT${:uid}: @!done mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; "
    "@!done bra WAIT${:uid}; }"
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
    builder, runner = low.builder, low.runner
    operands = [("r", low.get(op.barrier)), ("r", low.get(op.parity))]
    text = WAIT
    unless = low.get(op.unless[0]) if op.unless else None
    if op.elect == "role" and not runner.single:
        text = ELECTED_WAIT
        waits = runner.leads_role
        if unless is not None:
            waits = builder.and_(waits, builder.not_(unless))
        operands.append(("b", waits))
    elif unless is not None:
        text = WAIT_UNLESS
        operands.append(("b", unless))
    low.asm(text, operands, convergent=not runner.single)


@lower(sync.MbarrierTryWait)
def _try_wait(low: Lowering, op: sync.MbarrierTryWait) -> None:
    text = "mbarrier.test_wait.parity.shared::cta.b64 $0, [$1], $2;"
    operands = [("r", low.get(op.barrier)), ("r", low.get(op.parity))]
    many = not low.runner.single
    done = low.asm(text, operands, outputs="=b", result=I1, convergent=many)
    low.define(op.result, agree(low, op, done) if op.uniform and many else done)


# -------------------------------------------------------------------------------- arrivals


@lower(protocol.MbarrierArrive)
def _arrive(low: Lowering, op: protocol.MbarrierArrive) -> None:
    when = low.get(op.predicate[0]) if op.predicate else None
    barrier = low.get(op.barrier)
    peers = Peers(low, op.axes, spans=op.spans)
    if op.rank:
        remote = address_in(low, barrier, low.get(op.rank[0]))
        low.elected(ARRIVE_REMOTE, [("r", remote)], op.elect, when)
    elif peers.count == 1:
        low.elected("mbarrier.arrive.shared::cta.b64 _, [$0];", [("r", barrier)], op.elect, when)
    elif low.runner.single:
        for number in range(peers.count):
            remote = address_in(low, barrier, peers.rank(I32(number)))
            low.elected(ARRIVE_REMOTE, [("r", remote)], op.elect, when)
    else:
        _arrive_by_lanes(low, peers, barrier, op.elect, when)


# Release semantics at the scope of the block, as by default: `.release.cluster` would wait for
# every access of this thread to be seen in the whole cluster, and costs some 30 % of a GEMM. What
# frees a slot here are reads that are over.
ARRIVE_REMOTE = "mbarrier.arrive.shared::cluster.b64 _, [$0];"


def _arrive_by_lanes(low: Lowering, peers: Peers, barrier: Any, elect: str, when: Any) -> None:
    """Lane n of the first warp, that of the elected thread, arrives in block n of the peers."""
    lane = _number(low, elect)
    mine = low.builder.icmp_unsigned("<", lane, I32(peers.count))
    remote = address_in(low, barrier, peers.rank(lane))
    condition = mine if when is None else low.builder.and_(mine, when)
    low.asm(f"@$1 {ARRIVE_REMOTE}", [("r", remote), ("b", condition)])


def _number(low: Lowering, elect: str) -> Any:
    """i32 number of this thread in its part or role; the elected thread is number 0."""
    role = low.runner.role
    if role is None:
        return low.thread
    if role.mode == "warpgroup" and elect == "part":
        return low.builder.and_(low.thread, I32(127))
    first = I32(32 * role.first_warp)
    return low.builder.sub(low.thread, first) if role.first_warp else low.thread


@lower(protocol.MbarrierArriveExpectTx)
def _arrive_expect_tx(low: Lowering, op: protocol.MbarrierArriveExpectTx) -> None:
    text = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {op.nbytes};"
    low.elected(text, [("r", low.get(op.barrier))], "role")


@lower(copy.AsyncArrive)
def _async_arrive(low: Lowering, op: copy.AsyncArrive) -> None:
    # Every thread arrives; `noinc`: the count of the barrier includes these arrivals already.
    text = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];"
    low.asm(text, [("r", low.get(op.barrier))])


# ---------------------------------------------------------------------------- raw mbarriers


@lower(sync.MbarrierCreate)
def _create(low: Lowering, op: sync.MbarrierCreate) -> None:
    low.define(op.result, low.shared_at(op.name))  # initialised at the kernel's entry


@lower(sync.MbarrierAt)
def _at(low: Lowering, op: sync.MbarrierAt) -> None:
    offset = low.builder.mul(low.get(op.index), I32(MBARRIER_BYTES))
    low.define(op.result, low.builder.add(low.get(op.barriers), offset))


# ----------------------------------------------------------------------------------- fences


@lower(protocol.FenceProxyAsync)
def _fence(low: Lowering, op: protocol.FenceProxyAsync) -> None:
    low.asm("fence.proxy.async.shared::cta;")
