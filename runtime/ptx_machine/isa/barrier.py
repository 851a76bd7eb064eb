"""Forms of the barrier family: mbarriers, named and cluster barriers, fences, registers, waits."""

from __future__ import annotations

from tiledsl.runtime.ptx_machine.forms import Match, Table
from tiledsl.runtime.ptx_machine.isa import barrier_ops as ops
from tiledsl.runtime.ptx_machine.opcodes import BARRIER, GENERIC, SHARED
from tiledsl.runtime.ptx_machine.program import Encoder
from tiledsl.runtime.ptx_machine.syntax import Discard, Immediate

TABLE = Table(BARRIER)

_CTA = "shared shared::cta"
_ANY = "shared shared::cta shared::cluster"
_SCOPE = "cta cluster"


def _space(m: Match) -> int:
    return SHARED if m["ss"] else GENERIC


def _place(e: Encoder, m: Match, operand: int) -> dict[str, int]:
    base, displacement = e.address(m.operands[operand])
    return {"a": base, "imm": displacement, "space": _space(m)}


@TABLE.form("mbarrier.init{.ss}.b64 [a], count", "mbarrier.inval{.ss}.b64 [a]", ss=_CTA)
def _init(e: Encoder, m: Match) -> None:
    columns = _place(e, m, 0)
    if len(m.operands) > 1:
        e.emit(ops.MB_INIT, b=e.source(m.operands[1], "u32"), **columns)
    else:
        e.emit(ops.MB_INVAL, **columns)


@TABLE.form("mbarrier.op{.sem}{.scope}{.ss}.b64 d, [a]{, count}", op="arrive arrive_drop",
            sem="release relaxed", scope=_SCOPE, ss=_ANY)  # fmt: skip
@TABLE.form("mbarrier.op.noComplete{.sem}{.scope}{.ss}.b64 d, [a], count", op="arrive arrive_drop",
            sem="release", scope="cta", ss=_CTA)  # fmt: skip
@TABLE.form("mbarrier.op.expect_tx{.sem}{.scope}{.ss}.b64 d, [a], bytes", op="arrive arrive_drop",
            sem="release relaxed", scope=_SCOPE, ss=_ANY)  # fmt: skip
def _arrive(e: Encoder, m: Match) -> None:
    mode = ops.DROP if m["op"] == "arrive_drop" else 0
    mode |= ops.RELAXED if m["sem"] == "relaxed" else 0
    mode |= ops.EXPECTS if m["expect_tx"] else 0
    mode |= ops.NO_COMPLETE if m["noComplete"] else 0
    if m["ss"] == "shared::cluster" and not isinstance(m.operands[0], Discard):
        raise e.refuse("no state from a barrier that may be another block's: `_`")
    columns = _place(e, m, 1)
    if len(m.operands) > 2:
        columns["b"] = e.source(m.operands[2], "u32")
    e.emit(ops.MB_ARRIVE, mode=mode, d0=e.result(m.operands[0], "b64"), **columns)


@TABLE.form("mbarrier.op{.relaxed}{.scope}{.ss}.b64 [a], bytes", op="expect_tx complete_tx",
            scope=_SCOPE, ss=_ANY)  # fmt: skip
def _transactions(e: Encoder, m: Match) -> None:
    op = ops.MB_EXPECT if m["op"] == "expect_tx" else ops.MB_COMPLETE
    e.emit(op, b=e.source(m.operands[1], "u32"), **_place(e, m, 0))


@TABLE.form("mbarrier.op{.sem}{.scope}{.ss}.b64 p, [a], state{, hint}", op="test_wait try_wait",
            sem="acquire relaxed", scope=_SCOPE, ss=_CTA)  # fmt: skip
@TABLE.form("mbarrier.op.parity{.sem}{.scope}{.ss}.b64 p, [a], b{, hint}", op="test_wait try_wait",
            sem="acquire relaxed", scope=_SCOPE, ss=_CTA)  # fmt: skip
def _wait(e: Encoder, m: Match) -> None:
    if m["op"] == "test_wait" and len(m.operands) > 3:
        raise e.refuse("test_wait takes no time")
    mode = ops.RELAXED if m["sem"] == "relaxed" else 0
    mode |= ops.PARITY if m["parity"] else 0
    b = e.source(m.operands[2], "u32" if m["parity"] else "b64")
    if len(m.operands) > 3:
        e.source(m.operands[3], "u32")
    op = ops.MB_TRY if m["op"] == "try_wait" else ops.MB_TEST
    e.emit(op, mode=mode, d0=e.result(m.operands[0], "pred"), b=b, **_place(e, m, 1))


@TABLE.form("mbarrier.pending_count.b64 d, state")
def _pending(e: Encoder, m: Match) -> None:
    a, d0 = e.source(m.operands[1], "b64"), e.result(m.operands[0], "u32")
    e.emit(ops.MB_PENDING, d0=d0, a=a)


# ------------------------------------------------------------------ barriers of blocks, clusters


@TABLE.form("bar{.cta}.op a{, b}", "barrier{.cta}.op{.aligned} a{, b}", op="sync arrive")
def _bar(e: Encoder, m: Match) -> None:
    aligned = m.instruction.opcode == "bar" or m["aligned"]
    number, counts = m.operands[0], {}
    if isinstance(number, Immediate) and not 0 <= number.bits < 16:
        raise e.refuse("a barrier of 0 to 15")
    if len(m.operands) > 1:
        counts["b"] = e.source(m.operands[1], "u32")
    elif m["op"] == "arrive":
        raise e.refuse("how many threads the barrier takes")
    op = ops.BAR_SYNC if m["op"] == "sync" else ops.BAR_ARRIVE
    e.emit(op, mode=ops.ALIGNED if aligned else 0, a=e.source(number, "u32"), **counts)


@TABLE.form(
    "bar{.cta}.red.popc.u32 d, a, b{, c}", "barrier{.cta}.red.popc{.aligned}.u32 d, a, b{, c}"
)
@TABLE.form("bar{.cta}.red.op.pred p, a, b{, c}", "barrier{.cta}.red.op{.aligned}.pred p, a, b{, c}",
            op="and or")  # fmt: skip
def _bar_red(e: Encoder, m: Match) -> None:
    aligned = m.instruction.opcode == "bar" or m["aligned"]
    how = {"": ops.POPC, "and": ops.AND, "or": ops.OR}[m["op"]]
    d0 = e.result(m.operands[0], "pred" if m["op"] else "u32")
    a = e.source(m.operands[1], "u32")
    columns = {"b": e.source(m.operands[2], "u32")} if len(m.operands) > 3 else {}
    c, negated = e.predicate(m.operands[-1])
    mode = how + (ops.ALIGNED if aligned else 0)
    e.emit(ops.BAR_RED, mode=mode, d0=d0, a=a, c=c, x1=negated, **columns)


@TABLE.form("barrier.cluster.arrive{.sem}{.aligned}", sem="release relaxed")
def _cluster_arrive(e: Encoder, m: Match) -> None:
    e.emit(ops.CLUSTER_ARRIVE, mode=ops.RELAXED if m["sem"] == "relaxed" else 0)


@TABLE.form("barrier.cluster.wait{.acquire}{.aligned}")
def _cluster_wait(e: Encoder, m: Match) -> None:
    e.emit(ops.CLUSTER_WAIT)


# ------------------------------------------------------------------ fences and the rest


@TABLE.form("fence{.sem}.scope", sem="sc acq_rel acquire release", scope="cta cluster gpu sys")
@TABLE.form("membar.level", level="cta gl sys")
@TABLE.form("membar.proxy.alias")
def _memory_fence(e: Encoder, m: Match) -> None:
    one = {"acquire": ops.ACQUIRES, "release": ops.RELEASES}
    e.emit(ops.FENCE, mode=one.get(m["sem"] or "", ops.ACQUIRES | ops.RELEASES))


@TABLE.form("fence.mbarrier_init.release.cluster")
def _init_fence(e: Encoder, m: Match) -> None:
    e.emit(ops.FENCE, mode=ops.INITS)


@TABLE.form("fence.acquire.sync_restrict::shared::cluster.cluster")
@TABLE.form("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster")
@TABLE.form("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster")
@TABLE.form("fence.release.sync_restrict::shared::cta.cluster")
@TABLE.form("fence.proxy.tensormap::generic.release.scope", scope="cta cluster gpu sys")
@TABLE.form("fence.proxy.kind", kind="alias")
def _fence(e: Encoder, m: Match) -> None:
    e.emit(ops.FENCE)


@TABLE.form("fence.proxy.tensormap::generic.acquire.scope [a], n", scope="cta cluster gpu sys")
def _fence_map(e: Encoder, m: Match) -> None:
    e.address(m.operands[0])
    e.emit(ops.FENCE)


@TABLE.form("fence.proxy.async{.space}", space="global shared::cta shared::cluster")
@TABLE.form("fence.proxy.kind", kind="async.global async.shared::cta async.shared::cluster")
def _proxy_fence(e: Encoder, m: Match) -> None:
    e.emit(ops.FENCE if m["space"] == "global" else ops.PROXY_FENCE)


@TABLE.form("setmaxnreg.how.sync.aligned.u32 n", how="inc dec")
def _setmaxnreg(e: Encoder, m: Match) -> None:
    count = e.immediate(m.operands[0])
    if not 24 <= count <= 256 or count % 8:
        raise e.refuse(f"24 to 256 registers, a multiple of 8, not {count}")
    e.emit(ops.SETMAXNREG, mode=ops.INCREASE if m["how"] == "inc" else ops.DECREASE, x0=count)


@TABLE.form("nanosleep.u32 t")
def _sleep(e: Encoder, m: Match) -> None:
    e.source(m.operands[0], "u32")
    e.emit(ops.NANOSLEEP)


@TABLE.form("griddepcontrol.what", what="launch_dependents wait")
def _dependency(e: Encoder, m: Match) -> None:
    e.emit(ops.GRID_DEPENDENCY)
