"""What went wrong, for people: PTX line, Python line, what was expected and what came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.errors import Deadlock, TileError
from tiledsl.runtime.ptx_machine.errors import python_loc
from tiledsl.runtime.ptx_machine.explain import EXPLAIN, Fault
from tiledsl.runtime.ptx_machine.opcodes import F_DEADLOCK, F_OVERFLOW, FAULTS, LINE
from tiledsl.runtime.ptx_machine.places import instruction, who
from tiledsl.runtime.ptx_machine.stuck import deadlock

if TYPE_CHECKING:
    from tiledsl.runtime.ptx_machine.machine import _Runner

__all__ = ["MachineDeadlock", "MachineFault", "fault_error"]


class MachineFault(TileError):
    """A program did something wrong on the PTX machine.

    Attributes:
        kind: which of ``opcodes.FAULTS``.
        ptx_line: line of the PTX text, from 1; of a deadlock, where the first one waits.
        prints: what the program had printed before, a text for each call.
    """

    kind: str = ""
    ptx_line: int = 0
    prints: tuple[str, ...] = ()


class MachineDeadlock(MachineFault, Deadlock):
    """Warps wait on each other for ever: a ``td.Deadlock``, as in the emulator."""


def fault_error(runner: _Runner) -> MachineFault:
    """The exception of the fault in the machine's record."""
    code, warp, row, lane, first, second, third, fourth = (int(x) for x in runner.state["error"])
    program = runner.program
    if code == F_DEADLOCK:
        message, loc, hint, notes, row = deadlock(runner, polls=bool(first))
    else:
        row = min(max(row, 0), len(program.rows) - 1)
        fault = Fault(runner, warp, row, lane, first, second, third, fourth)
        told = EXPLAIN[code](fault)
        line = int(program.rows[row][LINE])
        at = f", lane {lane}" if lane >= 0 else ""
        message = f"{FAULTS[code]}: {told.what}: expected {told.expected}, got {told.got}"
        loc, hint, notes = None, told.hint, list(told.notes)
        if code != F_OVERFLOW:  # a full table of the machine's is nobody's line
            text = instruction(program.texts[row])
            message += f"\n    PTX line {line}: {text}\n    {who(runner, warp)}{at}"
            loc = python_loc(program.locs[row])
    made = MachineDeadlock if code == F_DEADLOCK else MachineFault
    found = made(message, loc, hint, tuple(notes))
    found.kind, found.ptx_line = FAULTS[code], int(program.rows[row][LINE])
    return found
