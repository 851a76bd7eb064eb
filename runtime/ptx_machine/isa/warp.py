"""Forms of the warp family: shuffles, votes, matches, reductions, elections."""

from __future__ import annotations

from tiledsl.runtime.ptx_machine.forms import Match, Table
from tiledsl.runtime.ptx_machine.isa import warp_ops as ops
from tiledsl.runtime.ptx_machine.opcodes import TYPE_CODES, WARP
from tiledsl.runtime.ptx_machine.program import Encoder

TABLE = Table(WARP)


@TABLE.form("shfl.sync.mode.b32 d, a, b, c, mask", mode=" ".join(ops.SHFL_MODES))
def _shfl(e: Encoder, m: Match) -> None:
    d0, d1 = e.results(m.operands[0], "b32", "pred")
    a, b, c, d = (e.source(o, "b32") for o in m.operands[1:])
    e.emit(ops.SHFL, mode=ops.SHFL_MODES.index(m["mode"]), d0=d0, d1=d1, a=a, b=b, c=c, d=d)


@TABLE.form("vote.sync.mode.pred d, a, mask", mode="all any uni")
@TABLE.form("vote.sync.mode.b32 d, a, mask", mode="ballot")
def _vote(e: Encoder, m: Match) -> None:
    a, negated = e.predicate(m.operands[1])
    ballot = m["mode"] == "ballot"
    d0 = e.result(m.operands[0], "b32" if ballot else "pred")
    d = e.source(m.operands[2], "b32")
    e.emit(ops.VOTE, mode=ops.VOTES.index(m["mode"]), d0=d0, a=a, d=d, x1=negated)


@TABLE.form("match.any.sync.type d, a, mask", "match.all.sync.type d, a, mask", type="b32 b64")
def _match(e: Encoder, m: Match) -> None:
    d0, d1 = e.results(m.operands[0], "b32", "pred")
    a, d = e.source(m.operands[1], m["type"]), e.source(m.operands[2], "b32")
    every = "all" in m.instruction.modifiers
    e.emit(ops.MATCH, mode=ops.MATCHES.index("all" if every else "any"), d0=d0, d1=d1, a=a, d=d)


@TABLE.form("redux.sync.op.type d, a, mask", op="add min max", type="u32 s32")
@TABLE.form("redux.sync.op.type d, a, mask", op="and or xor", type="b32")
def _redux(e: Encoder, m: Match) -> None:
    a, d = e.source(m.operands[1], m["type"]), e.source(m.operands[2], "b32")
    d0 = e.result(m.operands[0], m["type"])
    code = TYPE_CODES[m["type"]]
    e.emit(ops.REDUX, type=code, mode=ops.REDUCTIONS.index(m["op"]), d0=d0, a=a, d=d)


@TABLE.form("elect.sync d, mask")
def _elect(e: Encoder, m: Match) -> None:
    d0, d1 = e.results(m.operands[0], "b32", "pred")
    e.emit(ops.ELECT, d0=d0, d1=d1, d=e.source(m.operands[1], "b32"))


@TABLE.form("activemask.b32 d")
def _activemask(e: Encoder, m: Match) -> None:
    e.emit(ops.ACTIVEMASK, d0=e.result(m.operands[0], "b32"))


@TABLE.form("bar.warp.sync mask")
def _sync(e: Encoder, m: Match) -> None:
    e.emit(ops.SYNC, d=e.source(m.operands[0], "b32"))
