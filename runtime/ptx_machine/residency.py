"""Which blocks run together: those of a cluster, or all where blocks wait on each other."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tiledsl.errors import LaunchError
from tiledsl.runtime.ptx_machine.core.sizes import AGENTS
from tiledsl.runtime.ptx_machine.isa.control_ops import BRA
from tiledsl.runtime.ptx_machine.opcodes import (
    BARRIER,
    CONTROL,
    FAMILY,
    INTEGER,
    MEMORY,
    OP,
    SPACE,
    TARGET,
)
from tiledsl.runtime.ptx_machine.opcodes import GENERIC as GENERIC_SPACE
from tiledsl.runtime.ptx_machine.opcodes import GLOBAL as GLOBAL_SPACE
from tiledsl.runtime.ptx_machine.program import Program

__all__ = ["asking_rows", "loop_around", "polled_row", "run_together"]

COMPONENTS = 4096  # of a vector clock: what a record of core/order.py can name
ALONE_BLOCKS = 96  # run together without being asked

# Loads that another block's store may change, and atomics with a result: what a flag is read with.
_ASKS = re.compile(r"\b(ld\.(volatile|relaxed|acquire|mmio)|atom)\b")


def run_together(
    program: Program, together: bool | None, blocks: int, cluster: int, warps: int
) -> bool:
    """Whether all blocks of a grid run at once.

    Args:
        together: what the caller says; None: if the program polls global memory, and they fit.
        blocks, cluster: of the grid, and of a cluster.
        warps: of a block.

    Raises:
        LaunchError: more warps together than the machine can keep apart.
    """
    most = COMPONENTS // (AGENTS * warps)
    if cluster > most:
        raise LaunchError(
            f"kernel {program.name}: a cluster of {cluster} blocks of {warps} warps: expected at"
            f" most {most} blocks together"
        )
    if together is None:
        return cluster < blocks <= min(most, ALONE_BLOCKS) and _waits_on_others(program)
    if together and blocks > most:
        raise LaunchError(
            f"kernel {program.name}: together=True with a grid of {blocks} blocks of {warps} warps:"
            f" expected at most {most} blocks"
        )
    return together


def _waits_on_others(program: Program) -> bool:
    """Is there a loop that does nothing but ask for a word in global memory?"""
    for row, columns in enumerate(program.rows):
        if columns[FAMILY] == CONTROL and columns[OP] == BRA and 0 <= columns[TARGET] <= row:
            first = int(columns[TARGET])
            families = set(program.rows[first : row + 1, FAMILY].tolist())
            if families <= {CONTROL, INTEGER, MEMORY, BARRIER} and (
                _asks(program, first, row) is not None
            ):
                return True
    return False


def _asks(program: Program, first: int, last: int) -> int | None:
    """The row between two that asks for a word in global memory."""
    for row in range(first, last + 1):
        columns = program.rows[row]
        space = columns[SPACE] in (GLOBAL_SPACE, GENERIC_SPACE)
        if columns[FAMILY] == MEMORY and space and _ASKS.search(program.texts[row]):
            return row
    return None


def asking_rows(program: Program) -> np.ndarray[Any, Any]:
    """int64 [rows], 1: in a loop that asks for a word or a phase, and in no loop inside of it.

    Warps that are all at such rows, while nothing changes, ask in vain; one in any other loop
    computes, however long.
    """
    asks = np.zeros(len(program.rows), bool)
    for row in np.flatnonzero(np.isin(program.rows[:, FAMILY], (MEMORY, BARRIER))):
        text = program.texts[row]
        asks[row] = "_wait" in text or _ASKS.search(text) is not None
    found = np.zeros(len(program.rows), np.int64)
    rows = program.rows
    back = (rows[:, FAMILY] == CONTROL) & (rows[:, OP] == BRA) & (rows[:, TARGET] >= 0)
    loops = [(int(rows[k, TARGET]), int(k)) for k in np.flatnonzero(back) if rows[k, TARGET] <= k]
    for first, last in sorted(loops, key=lambda loop: loop[0] - loop[1]):  # inner ones behind
        found[first : last + 1] = asks[first : last + 1].any()
    return found


def loop_around(program: Program, row: int) -> tuple[int, int] | None:
    """First and last row of the innermost loop that a row stands in."""
    found = None
    for at in range(row, len(program.rows)):
        columns = program.rows[at]
        if columns[FAMILY] == CONTROL and columns[OP] == BRA and 0 <= columns[TARGET] <= row:
            size = at - int(columns[TARGET])
            if found is None or size < found[1] - found[0]:
                found = int(columns[TARGET]), at
    return found


def polled_row(program: Program, row: int) -> int:
    """The row of the loop around ``row`` that asks for a word; ``row`` if there is none."""
    loop = loop_around(program, row)
    if loop is None:
        return row
    asked = _asks(program, *loop)
    if asked is None:
        waits = [k for k in range(loop[0], loop[1] + 1) if "_wait" in program.texts[k]]
        loads = [k for k in range(*loop) if program.texts[k].split()[0].startswith("ld.")]
        return (waits or loads or [row])[0]
    return asked
