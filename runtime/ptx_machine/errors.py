"""What the machine says about PTX that it cannot take."""

from __future__ import annotations

from tiledsl.errors import Loc as PythonLoc
from tiledsl.errors import TileError
from tiledsl.runtime.ptx_machine.syntax import Instruction, Loc

__all__ = ["DecodeError", "at_instruction", "python_loc"]


class DecodeError(TileError):
    """PTX that is wrong, or that the machine does not know: with the line, and the Python line."""


def python_loc(loc: Loc | None) -> PythonLoc | None:
    """Where a ``.loc`` points to, with the calls that were inlined there."""
    if loc is None:
        return None
    column = max(loc.column - 1, 0)
    caller = python_loc(loc.call_site)
    return PythonLoc(
        loc.file, loc.line, column, end_col=column + 1, function=loc.function, call_site=caller
    )


def at_instruction(
    instruction: Instruction, why: str, *, hint: str | None = None, notes: tuple[str, ...] = ()
) -> DecodeError:
    """A DecodeError that shows an instruction."""
    text = instruction.text if len(instruction.text) <= 200 else instruction.text[:197] + "..."
    return DecodeError(
        f"PTX line {instruction.line}: {why}\n    {text}",
        python_loc(instruction.loc),
        hint,
        tuple((note, None) for note in notes),
    )
