"""What ptxas and nvJitLink print: messages and the resources of each function."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tiledsl.codegen.ptx_lines import line_table
from tiledsl.errors import Loc

# ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; ...
# ptxas kernel.ptx, line 21; error   : Arguments mismatch for instruction 'mul.wide'
# error   : Undefined reference to 'foo' in 'kernel.ptx'
_MESSAGE = re.compile(
    r"(?:ptxas )?(?:.*, line (?P<line>\d+); )?(?P<severity>info|warning|error|fatal)\s*: "
    r"(?:\((?P<code>C\d+)\) )?(?P<text>.*)"
)
_LINE_IN_TEXT = re.compile(r"\b(?:around|in|at) line (\d+)")
_FUNCTIONS_IN_TEXT = re.compile(r"\bfunction '?([\w$]+)")
_ABORTED = "Ptx assembly aborted due to errors"

_ENTRY = re.compile(r"Compiling entry function '(.+?)' for '")
_PROPERTIES = re.compile(r"Function properties for '?([^':]+)")
_NUMBERS = {
    "registers": re.compile(r"[Uu]sed (\d+) registers"),
    "barriers": re.compile(r"used (\d+) barriers"),
    "stack": re.compile(r"(\d+) bytes (?:stack frame|cumulative stack size)"),
    "spill_stores": re.compile(r"(\d+) bytes spill stores"),
    "spill_loads": re.compile(r"(\d+) bytes spill loads"),
    "shared": re.compile(r"(\d+) bytes smem"),
}
_TIME = re.compile(r"Compile time = ([\d.]+) ms")


@dataclass(frozen=True, slots=True)
class PtxasMessage:
    """One diagnostic of the assembler.

    Attributes:
        severity: "info", "warning", "error" or "fatal".
        code: ptxas's number for it, such as "C7508", when it has one.
        text: the message, without code and severity.
        ptx_line: the line of the PTX text, counted from 1, when the message names one.
        loc: the user's Python line: that of the PTX line or, when only a function is named,
            the function's first.
    """

    severity: str
    code: str | None
    text: str
    ptx_line: int | None = None
    loc: Loc | None = None

    @property
    def file(self) -> str | None:
        """The user's file, or None when the PTX carries no location."""
        return self.loc.file if self.loc else None

    @property
    def line(self) -> int | None:
        """The user's line, counted from 1, or None when the PTX carries no location."""
        return self.loc.line if self.loc else None

    @property
    def failed(self) -> bool:
        """Whether no cubin came of it."""
        return self.severity in ("error", "fatal")

    def __str__(self) -> str:
        code = f"({self.code}) " if self.code else ""
        where = f" (PTX line {self.ptx_line})" if self.ptx_line else ""
        return f"{code}{self.text}{where}"


@dataclass(slots=True)
class FunctionUse:
    """What one function of the PTX uses, as the log says: bytes, and counts of registers."""

    entry: bool = False
    numbers: dict[str, int] = field(default_factory=dict)
    compile_ms: float | None = None


def parse_messages(log: str, ptx: str) -> tuple[PtxasMessage, ...]:
    """The diagnostics of a log, in its order: errors, warnings, and infos that have a code.

    ptxas gives what matters most (ignored `setmaxnreg`, serialised wgmma) as "info" with a
    code; infos without one are statistics.
    """
    found = [match for line in log.splitlines() if (match := _MESSAGE.match(line))]
    found = [m for m in found if m["severity"] != "info" or m["code"]]
    if sum(m["severity"] in ("error", "fatal") for m in found) > 1:
        found = [m for m in found if m["text"] != _ABORTED]
    if not found:
        return ()
    table = line_table(ptx)
    messages = []
    for match in found:
        text = match["text"].rstrip()
        in_text = _LINE_IN_TEXT.search(text)
        number = int(match["line"] or (in_text[1] if in_text else 0))
        if not number and "'setmaxnreg' ignored" in text:
            number = _first_line(ptx, "setmaxnreg")
        # "... due to function call in the function 'gemm'": not every match is a name.
        starts = map(table.function, _FUNCTIONS_IN_TEXT.findall(text))
        loc = table.lookup(number) if number else None
        loc = loc or next(filter(None, starts), None)
        severity, code = match["severity"], match["code"]
        messages.append(PtxasMessage(severity, code, text, number or None, loc))
    return tuple(messages)


def _first_line(ptx: str, word: str) -> int:
    """The first line, counted from 1, that contains a word; 0 when none does."""
    return next((n for n, line in enumerate(ptx.split("\n"), 1) if word in line), 0)


def parse_functions(log: str) -> dict[str, FunctionUse]:
    """The resources of every function that a verbose log describes.

    nvJitLink describes each kernel twice: ptxas does when it compiles it, then the linker
    (lines without "ptxas"), whose barriers are those that the hardware reserves, and whose
    shared memory contains the driver's 1 KiB: of these only registers and barriers are taken.
    """
    functions: dict[str, FunctionUse] = {}
    current = FunctionUse()
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            functions.setdefault(match[1], FunctionUse()).entry = True
        elif match := _PROPERTIES.search(line):
            current = functions.setdefault(match[1], FunctionUse())
        elif match := _TIME.search(line):
            current.compile_ms = float(match[1])
        else:
            linked = line.startswith("info")
            for name, pattern in _NUMBERS.items():
                if (match := pattern.search(line)) and not (linked and name == "shared"):
                    current.numbers[name] = max(int(match[1]), current.numbers.get(name, 0))
    return functions
