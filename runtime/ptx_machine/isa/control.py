"""Forms of the family "control"."""

from __future__ import annotations

from tiledsl.runtime.ptx_machine.encoder import Encoder
from tiledsl.runtime.ptx_machine.forms import Match, Table
from tiledsl.runtime.ptx_machine.isa.control_ops import (
    ASSERT,
    BRA,
    BREAKPOINT,
    BRX,
    EXIT,
    NOP,
    PRINT,
    TRAP,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.opcodes import CONTROL
from tiledsl.runtime.ptx_machine.syntax import Symbol

TABLE = Table(CONTROL)


@TABLE.form("bra{.uni} target")
def _bra(e: Encoder, match: Match) -> None:
    # `.uni` is a promise of the program; lanes that part all the same are followed here.
    e.emit(BRA, target=e.target(match.operands[0]))


@TABLE.form("brx.idx{.uni} index, list")
def _brx(e: Encoder, match: Match) -> None:
    labels = e.instruction.labels
    if not labels:
        raise e.refuse("brx.idx needs the label of a .branchtargets list")
    index = e.source(match.operands[0], "b32")
    place, number = e.words([e.target(Symbol(label)) for label in labels])
    e.emit(BRX, a=index, vec=place, nvec=number)


@TABLE.form("exit", "ret{.uni}")
def _exit(e: Encoder, match: Match) -> None:
    # calls.py has turned each `ret` of a called function into a branch.
    e.emit(EXIT)


@TABLE.form("trap")
def _trap(e: Encoder, match: Match) -> None:
    e.emit(TRAP)


@TABLE.form("brkpt")
def _brkpt(e: Encoder, match: Match) -> None:
    e.emit(BREAKPOINT)


@TABLE.form("pmevent{.mask} a")
def _pmevent(e: Encoder, match: Match) -> None:
    e.emit(NOP)


@TABLE.form("vprintf d, format, arguments")
def _print(e: Encoder, match: Match) -> None:
    """What calls.py makes of ``call vprintf``."""
    d, text, arguments = match.operands
    e.emit(PRINT, d0=e.result(d, "b32"), a=e.source(text, "b64"), b=e.source(arguments, "b64"))


@TABLE.form("assertfail message, file, line, function, size")
def _assert(e: Encoder, match: Match) -> None:
    """What calls.py makes of ``call __assertfail``."""
    types = ("b64", "b64", "b32", "b64", "b64")
    place, number = e.words([e.source(*pair) for pair in zip(match.operands, types, strict=True)])
    e.emit(ASSERT, vec=place, nvec=number)
