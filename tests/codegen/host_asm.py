"""Runs single threads of a kernel on the CPU, inline PTX included: Python plays the hardware.

Each inline asm becomes a call of a Python function with the text and the operands. So what a
thread does, and under which conditions, can be tested without a GPU.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from llvmlite import binding

from tests.codegen.host_jit import HostKernel, host_text
from tiledsl.codegen.ir.kernel import Kernel

_ASM = re.compile(
    r'call (void|i\d+) asm (?:sideeffect )? ?"([^"]*)", "[^"]*"\(([^\n]*?)\)(?: |,|$)'
)
_PREDICATE = re.compile(r"@\$(\d+) ")
_RECORD = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int32, *[ctypes.c_int64] * 4)
RANK = "llvm.nvvm.read.ptx.sreg.cluster.ctarank"
RANK_ON_HOST = """@ctarank.x = global i32 0
define i32 @"host.rank"() {
  %v = load i32, ptr @ctarank.x
  ret i32 %v
}"""


@dataclass
class Thread:
    """What one thread did: the instructions that it ran, with their operands."""

    ran: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def texts(self) -> list[str]:
        return [text for text, _ in self.ran]

    def operands(self, of: str) -> list[tuple[int, ...]]:
        """The operands of each instruction whose text contains ``of``."""
        return [operands for text, operands in self.ran if of in text]


class HostThreads:
    """A kernel without parameters. ``answer`` gives the result of an instruction that has one."""

    def __init__(
        self, kernel: Kernel, answer: Callable[[str, tuple[int, ...]], int] = lambda *_: 0
    ) -> None:
        self.answer = answer
        self.texts: list[str] = []
        self.counts: list[int] = []
        self.thread = Thread()
        self.callback = _RECORD(self._record)
        binding.add_symbol("host_record", ctypes.cast(self.callback, ctypes.c_void_p).value)
        self.kernel = HostKernel(kernel, self._text)

    def _text(self, kernel: Kernel) -> str:
        text = host_text(kernel).replace(
            'ptrtoint [0 x i8] addrspace(3)* @"tiledsl_shared" to i32', "add i32 0, 0"
        )
        text = text.replace(f'declare i32 @"{RANK}"()', RANK_ON_HOST)
        text = text.replace(f'@"{RANK}"', '@"host.rank"')
        functions: list[str] = []

        def call(match: re.Match[str]) -> str:
            result, asm, arguments = match.groups()
            types = [a.split()[0] for a in arguments.split(", ")] if arguments else []
            number = len(self.texts)
            self.texts.append(asm)
            self.counts.append(len(types))
            functions.append(_function(number, result, types))
            return f'call {result} @"host.asm.{number}"({arguments}) '

        text = _ASM.sub(call, text)
        return "\n".join([text, *functions, "declare i64 @host_record(i32, i64, i64, i64, i64)"])

    def _record(self, number: int, *values: int) -> int:
        text, operands = self.texts[number], values[: self.counts[number]]
        if guard := _PREDICATE.match(text):
            if not operands[int(guard[1])]:
                return 0
            text = text[guard.end() :]
        self.thread.ran.append((text, operands))
        return self.answer(text, operands)

    def run(self, thread: int, rank: int = 0) -> Thread:
        """What one thread does that gets through all branches of its own."""
        self.thread = Thread()
        self.kernel._set("ctarank.x", rank)
        self.kernel([], thread=thread)
        texts = self.thread.texts()
        if "exit;" in texts:  # what stands behind it is not reached
            del self.thread.ran[texts.index("exit;") + 1 :]
        return self.thread


def _function(number: int, result: str, types: list[str]) -> str:
    lines = []
    for place, kind in enumerate(types):
        lines.append(f"  %w{place} = zext {kind} %a{place} to i64" if kind != "i64"
                     else f"  %w{place} = add i64 %a{place}, 0")  # fmt: skip
    values = [f"i64 %w{n}" for n in range(len(types))] + ["i64 0"] * (4 - len(types))
    lines.append(f"  %r = call i64 @host_record(i32 {number}, {', '.join(values)})")
    if result == "void":
        lines.append("  ret void")
    else:
        lines += [f"  %t = trunc i64 %r to {result}", f"  ret {result} %t"]
    given = ", ".join(f"{kind} %a{n}" for n, kind in enumerate(types))
    body = "\n".join(lines)
    return f'define {result} @"host.asm.{number}"({given}) {{\n{body}\n}}'
