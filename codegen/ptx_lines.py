"""From a line of PTX back to the user's line of Python, through `.file` and `.loc`."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from tiledsl.errors import Loc

_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
# `.loc 2 3 5` or `.loc 2 3 5, function_name $L__info_string0, inlined_at 1 11 9`
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*\binlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_FUNCTION = re.compile(r"\s*(?:\.\w+\s+)*?\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$.]+)")
_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class LineTable:
    """The source location of every line of a PTX text.

    Attributes:
        starts: PTX lines, counted from 1, at which the location changes, ascending.
        locations: what holds from each of them on; None before a function's first `.loc`.
        functions: the first location of each function.
    """

    starts: list[int] = field(default_factory=list)
    locations: list[Loc | None] = field(default_factory=list)
    functions: dict[str, Loc] = field(default_factory=dict)

    def lookup(self, ptx_line: int) -> Loc | None:
        """The user's line for a PTX line (counted from 1); None where the PTX says nothing."""
        index = bisect_right(self.starts, ptx_line) - 1
        return self.locations[index] if index >= 0 else None

    def function(self, name: str) -> Loc | None:
        """Where a function of the PTX begins in the user's source."""
        return self.functions.get(name)


def _unescape(text: str) -> str:
    """Undo LLVM's octal escapes of the bytes of a UTF-8 path."""
    raw = _OCTAL.sub(lambda match: bytes([int(match[1], 8) & 255]), text.encode())
    return raw.decode(errors="replace")


def line_table(ptx: str) -> LineTable:
    """Read the `.file` and `.loc` directives of a PTX text.

    Line 0, LLVM's "no line in particular", keeps the location before it. `inlined_at` names a
    call site that an earlier `.loc` of the same file, line and column described (ptxas insists
    on that); it becomes the location's `call_site`, over any number of levels.
    """
    lines = ptx.split("\n")
    files = {m[1]: _unescape(m[2]) for line in lines if (m := _FILE.match(line))}
    table = LineTable()
    seen: dict[tuple[str, ...], Loc] = {}
    function = ""
    for number, line in enumerate(lines, 1):
        if match := _LOC.match(line):
            key = match.group(1, 2, 3)
            if int(key[1]) == 0:
                continue
            site = seen.get(match.group(4, 5, 6)) if match[4] else None
            file, column = files.get(key[0], "<unknown>"), max(0, int(key[2]) - 1)
            loc = Loc(file, int(key[1]), column, call_site=site)
            seen[key] = loc
            table.functions.setdefault(function, loc)
            table.starts.append(number)
            table.locations.append(loc)
        elif match := _FUNCTION.match(line):
            function = match[1]
            seen.clear()
            table.starts.append(number)
            table.locations.append(None)
    return table
