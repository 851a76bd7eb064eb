"""Source locations and every exception that tiledsl raises.

This module is a leaf: it imports nothing of tiledsl, so that each layer can report at the
user's line. A message always reads: what is wrong, what was expected, what came, where;
then the source line with a caret, notes, and a hint that says what to write instead.
"""

from __future__ import annotations

import linecache
import unicodedata
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Loc:
    """A range of the user's Python source.

    ``line`` and ``end_line`` count from 1, ``col`` and ``end_col`` from 0 (characters, as in
    ``ast`` after decoding). ``call_site`` is where the surrounding ``@td.function`` was called
    from, when it was inlined.
    """

    file: str
    line: int
    col: int = 0
    end_line: int | None = None
    end_col: int | None = None
    function: str = ""
    call_site: Loc | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def short(self) -> str:
        """``file.py:12``: the file's base name and the line."""
        return f"{self.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"


UNKNOWN_LOC = Loc("<unknown>", 0)


def counted(number: int, noun: str) -> str:
    """A number of things in a message: ``1 arrival``, ``2 arrivals``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _width(text: str) -> int:
    """Columns a terminal needs for ``text`` (East Asian wide characters take two)."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _excerpt(loc: Loc) -> list[str]:
    source = linecache.getline(loc.file, loc.line).rstrip("\n")
    if not source.strip():
        return []
    end = loc.end_col if loc.end_line in (None, loc.line) else len(source)
    end = len(source) if end is None else end
    span = max(1, _width(source[loc.col : end]))
    # Tabs stay tabs under the line, so that the caret keeps its column.
    pad = "".join(char if char == "\t" else " " * _width(char) for char in source[: loc.col])
    return [f"    {source}", f"    {pad}{'^' * span}"]


def format_location(loc: Loc) -> str:
    """The location with its source line and caret, then the chain of inlined call sites."""
    lines: list[str] = []
    current: Loc | None = loc
    while current is not None:
        inside = f", in {current.function}" if current.function else ""
        prefix = "  " if current is loc else "  called from "
        lines.append(f'{prefix}File "{current.file}", line {current.line}{inside}')
        lines += _excerpt(current)
        current = current.call_site
    return "\n".join(lines)


@dataclass(eq=False)
class TileError(Exception):
    """Base of everything that tiledsl raises about a kernel.

    Attributes:
        message: what is wrong, what was expected and what came.
        loc: the user's line, when there is one.
        hint: what to write instead.
        notes: further places or facts, each with an optional location.
    """

    message: str
    loc: Loc | None = None
    hint: str | None = None
    notes: tuple[tuple[str, Loc | None], ...] = field(default=())

    def __str__(self) -> str:
        parts = [self.message]
        if self.loc is not None:
            parts.append(format_location(self.loc))
        for note, loc in self.notes:
            parts.append(f"note: {note}")
            if loc is not None:
                parts.append(format_location(loc))
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.loc, self.hint, self.notes)

    def _render_traceback_(self) -> list[str]:
        """IPython calls this: in a notebook only the diagnostic is shown."""
        return [f"{type(self).__name__}: {self}"]


class SyntaxNotSupported(TileError):
    """Python that a kernel cannot contain."""


class NameNotFound(TileError, NameError):
    """A name that is not defined, or not on every path that reaches its use."""


class TypeMismatch(TileError, TypeError):
    """An operand, argument or tile of the wrong type, rank, shape or dtype."""


class InvalidValue(TileError, ValueError):
    """A value outside of what the operation or the hardware allows."""


class StageError(TileError):
    """A pipeline stage that is not released, released twice, or used after its release."""


class ResourceLimit(TileError):
    """Shared memory, registers, barriers or threads that the target does not have."""


class TargetNotSupported(TileError, ValueError):
    """A target that is unknown, or an operation that the target lacks."""


class LaunchError(TileError):
    """Arguments, grid or device that a launch cannot use."""


class Deadlock(TileError):
    """The emulator found roles that wait on each other for ever."""


class PtxError(TileError):
    """The assembler refused the PTX that tiledsl made, or warned where it must not."""


class InternalError(TileError):
    """A fault of the compiler itself, never of the user's kernel."""


class TileWarning(UserWarning):
    """Base of the warnings that tiledsl gives."""


class PerformanceWarning(TileWarning):
    """The kernel is right, but slower than it need be (spills, ignored ``setmaxnreg``, ...)."""
