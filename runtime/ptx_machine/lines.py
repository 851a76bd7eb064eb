"""Source lines: ``.file`` and ``.loc``."""

from __future__ import annotations

import re
from bisect import bisect_right

from tiledsl.runtime.ptx_machine.syntax import Loc

__all__ = ["Lines"]

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_LOC = re.compile(
    r"[ \t]*(\d+)[ \t]+(\d+)(?:[ \t]+(\d+))?(?:\s*,\s*function_name\s+([\w$.]+)(?:\s*\+\s*(\d+))?)?"
    r"(?:\s*,\s*inlined_at\s+(\d+)\s+(\d+)(?:\s+(\d+))?)?"
)
_STRINGS = re.compile(r"\.section\s+\.debug_str\s*\{([^}]*)\}")
_STRING_ITEM = re.compile(r"([\w$]+)\s*:|\.b8\s+([\d,\s]+)")


class Lines:
    """The source lines of a module, and where its lines begin."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._files = {int(number): _unescaped(name) for number, name in _FILE.findall(text)}
        self._strings: dict[str, str] | None = None
        self._inlined: dict[tuple[int, int, int], Loc] = {}
        self._begins = [0, *(match.end() for match in re.finditer("\n", text))]

    def line(self, position: int) -> int:
        """The line of the text, from 1."""
        return bisect_right(self._begins, position)

    def loc(self, position: int) -> tuple[Loc | None, int]:
        """What the ``.loc`` says whose numbers begin here, and where it ends."""
        match = _LOC.match(self._text, position)
        if match is None:
            end = self._text.find("\n", position)
            return None, len(self._text) if end < 0 else end
        file, line, column = int(match[1]), int(match[2]), int(match[3] or 0)
        function, caller = "", None
        if match[4]:
            function = self._string(match[4], int(match[5] or 0))
        if match[6]:
            at = int(match[6]), int(match[7]), int(match[8] or 0)
            # The call may stand in a function that is inlined itself: a .loc before said so.
            caller = self._inlined.get(at) or Loc(self._file(at[0]), at[1], at[2])
        found = Loc(self._file(file), line, column, function, caller)
        self._inlined[file, line, column] = found
        return found, match.end()

    def _file(self, number: int) -> str:
        return self._files.get(number, f"<file {number}>")

    def _string(self, label: str, offset: int) -> str:
        """A name in the debug data: ``info_string0``, ``.debug_str+17``; "" if it is not there."""
        if self._strings is None:
            self._strings = _debug_strings(self._text)
        return self._strings.get(f"{label}+{offset}" if offset else label, "")


def _debug_strings(text: str) -> dict[str, str]:
    section = _STRINGS.search(text)
    if section is None:
        return {}
    labels: dict[str, int] = {}
    data = bytearray()
    for item in _STRING_ITEM.finditer(section[1]):
        if item[1]:
            labels[item[1]] = len(data)
        else:
            data += bytes(int(byte) & 0xFF for byte in item[2].replace(",", " ").split())
    found = {}
    start = 0
    for string in bytes(data).split(b"\0"):
        found[start] = string.decode(errors="replace")
        start += len(string) + 1
    names = {label: found.get(offset, "") for label, offset in labels.items()}
    names.update({f".debug_str+{offset}": string for offset, string in found.items()})
    return names | {".debug_str": found.get(0, "")}


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)
