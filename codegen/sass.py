"""Machine code of a cubin: disassembly, loops, and what stands in the hot one.

Tests use it to assert what the hardware will run, such as no register spills between the
matrix instructions::

    loop = SassReport.of(cubin).hot_loop()
    assert loop.count("HGMMA") == 4
    assert not loop.count("LDL") and not loop.count("R2UR")
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tiledsl.codegen.toolkit import require_tool
from tiledsl.errors import TileError

MATRIX = ("HGMMA", "QGMMA", "IGMMA", "BGMMA", "HMMA", "QMMA", "IMMA", "UTCHMMA", "UTCQMMA")
"""Opcodes, without suffixes, that multiply matrices."""

_SECTION = re.compile(r"^//-+ \.(?:text\.(\S+))?")
_FILE_LINE = re.compile(r'^\s*//## File "(.*)", line (\d+)')
_LABEL = re.compile(r"^(\.\S+):")
_INSTRUCTION = re.compile(
    r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?\w+)\s+)?([A-Z]\S*?)(?:\s+(.*?))?\s*;"
)
_TARGET = re.compile(r"`\((\.\S+)\)")


def sass(cubin: bytes) -> str:
    """Disassemble a cubin with nvdisasm, with the user's lines where the cubin has them.

    (`cuobjdump -sass` itself runs nvdisasm, so that there is no second way.)

    Raises:
        ToolNotFound: nvdisasm is not installed.
        TileError: nvdisasm refused the cubin.
    """
    path = require_tool("nvdisasm")
    with tempfile.TemporaryDirectory(prefix="tiledsl-") as folder:
        Path(folder, "kernel.cubin").write_bytes(cubin)
        command = [path, "--print-code", "--print-line-info", "--no-dataflow", "kernel.cubin"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip() or f"exit status {done.returncode}"
        raise TileError(f"nvdisasm could not disassemble the cubin: {said}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """One machine instruction.

    Attributes:
        offset: bytes from the start of the kernel.
        predicate: such as "P0" or "!UP1"; "" when it always executes.
        opcode: with its suffixes, such as "HGMMA.64x256x16.F32.BF16".
        operands: as written, such as ("R24", "gdesc[UR12]", "R24", "gsb0").
        text: the whole instruction, without offset and semicolon.
        file: the user's file, when the cubin says.
        line: the user's line, counted from 1, when the cubin says.
    """

    offset: int
    predicate: str
    opcode: str
    operands: tuple[str, ...]
    text: str
    file: str | None = None
    line: int | None = None

    def is_a(self, opcode: str) -> bool:
        """Whether the opcode is this one, with any suffixes: "BAR" for "BAR.SYNC", not "BARX"."""
        return self.opcode == opcode or self.opcode.startswith(opcode + ".")

    def __str__(self) -> str:
        where = f"  // {self.file}:{self.line}" if self.line else ""
        return f"/*{self.offset:04x}*/ {self.text}{where}"


@dataclass(frozen=True, slots=True)
class SassLoop:
    """A natural loop: a header, and all that runs from it back to it.

    Attributes:
        kernel: the kernel's name.
        header: offset of the first instruction of the header.
        depth: 1 for an outermost loop.
        instructions: the whole body, in order of offsets, inner loops included. ptxas moves
            cold parts (the spinning half of a wait) to the kernel's end; they belong to it too.
    """

    kernel: str
    header: int
    depth: int
    instructions: tuple[SassInstruction, ...]

    def count(self, opcode: str) -> int:
        """How many of its instructions have an opcode, with any suffixes."""
        return sum(instruction.is_a(opcode) for instruction in self.instructions)

    def matrix_count(self) -> int:
        """How many of its instructions multiply matrices."""
        return sum(self.count(opcode) for opcode in MATRIX)

    def __str__(self) -> str:
        return "\n".join(map(str, self.instructions))


@dataclass(frozen=True, slots=True)
class _Code:
    """One kernel: its instructions, and the index of the one that each label precedes."""

    instructions: list[SassInstruction]
    labels: dict[str, int]


class SassReport:
    """The kernels of a disassembly, as `sass` returns it."""

    def __init__(self, text: str) -> None:
        self._kernels = _parse(text)

    @classmethod
    def of(cls, cubin: bytes) -> SassReport:
        """Disassemble a cubin and read the result; raises what `sass` raises."""
        return cls(sass(cubin))

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of all kernels."""
        return tuple(self._kernels)

    def instructions(self, kernel: str | None = None) -> list[SassInstruction]:
        """A kernel's instructions; the name may be left out when there is one kernel.

        Raises:
            KeyError: there is no such kernel, or several and no name.
        """
        return list(self._code(kernel).instructions)

    def count(self, opcode: str, kernel: str | None = None) -> int:
        """How many instructions of a kernel have an opcode, with any suffixes."""
        return sum(instruction.is_a(opcode) for instruction in self._code(kernel).instructions)

    def loops(self, kernel: str | None = None) -> list[SassLoop]:
        """A kernel's natural loops, in order of their headers; an outer one before an inner."""
        code = self._code(kernel)
        name = kernel or self.kernels[0]
        bodies = _natural_loops(code)
        found = []
        for header, body in sorted(bodies.items()):
            # Every loop whose body holds this header encloses this loop, or is it.
            depth = sum(header in other for other in bodies.values())
            instructions = tuple(code.instructions[index] for index in sorted(body))
            offset = code.instructions[header].offset
            found.append(SassLoop(name, offset, depth, instructions))
        return found

    def hot_loop(self, kernel: str | None = None) -> SassLoop:
        """The loop to look at: of those that multiply matrices in themselves the innermost ones,
        and of these the one that does so most; without any, the deepest and then longest.

        Raises:
            LookupError: the kernel has no loop.
        """
        loops = self.loops(kernel)
        if not loops:
            raise LookupError(f"no loop in kernel {kernel or self.kernels[0]!r}")
        matrix = [loop for loop in loops if loop.matrix_count()]
        if not matrix:
            return max(loops, key=lambda loop: (loop.depth, len(loop.instructions)))
        headers = {loop.header: loop for loop in matrix}
        innermost = [
            loop
            for loop in matrix
            if sum(instruction.offset in headers for instruction in loop.instructions) == 1
        ]
        return max(innermost, key=SassLoop.matrix_count)

    def _code(self, kernel: str | None) -> _Code:
        if kernel is None and len(self._kernels) == 1:
            return next(iter(self._kernels.values()))
        if kernel not in self._kernels:
            found = ", ".join(map(repr, self._kernels)) or "none"
            raise KeyError(f"expected the name of a kernel, got {kernel!r}: found {found}")
        return self._kernels[kernel]


def _parse(text: str) -> dict[str, _Code]:
    kernels: dict[str, _Code] = {}
    code = _Code([], {})
    file: str | None = None
    number: int | None = None
    for line in text.splitlines():
        if match := _INSTRUCTION.match(line):
            offset, predicate, opcode, rest = match.groups()
            operands = tuple(re.split(r"\s*,\s*", rest)) if rest else ()
            words = (f"@{predicate}" if predicate else "", opcode, rest or "")
            whole = " ".join(filter(None, words))
            code.instructions.append(
                SassInstruction(
                    int(offset, 16), predicate or "", opcode, operands, whole, file, number
                )
            )
        elif match := _FILE_LINE.match(line):
            file, number = match[1], int(match[2])
        elif match := _LABEL.match(line):
            code.labels[match[1]] = len(code.instructions)
        elif match := _SECTION.match(line):
            code, file, number = _Code([], {}), None, None
            if match[1]:
                kernels[match[1]] = code
    return kernels


def _successors(code: _Code) -> list[list[int]]:
    """For each instruction the indices of those that may run after it.

    `BSSY B0, L` sets where the threads that `BSYNC B0` gathers go on: at L, which ptxas
    usually lets follow the BSYNC. The pair is matched by place: the nearest BSSY of the same
    register above.
    """
    instructions, gather = code.instructions, dict[str, int]()
    result = []
    for index, instruction in enumerate(instructions):
        match = _TARGET.search(instruction.text)
        target = code.labels.get(match[1]) if match else None
        follow = [index + 1]
        if instruction.is_a("BSSY") and target is not None:
            gather[instruction.operands[0]] = target
        elif instruction.is_a("BSYNC"):
            target = gather.get(instruction.operands[0], index + 1)
            follow = [target, index + 1] if instruction.predicate else [target]
        elif target is not None and not instruction.is_a("CALL"):
            # `BRA P0, L` and `BRA.DIV UR4, L` have a condition before the target.
            always = not instruction.predicate and len(instruction.operands) == 1
            follow = [target] if always and instruction.is_a("BRA") else [target, index + 1]
        elif not instruction.predicate and _ends(instruction):
            follow = []
        result.append([follower for follower in follow if follower < len(instructions)])
    return result


def _ends(instruction: SassInstruction) -> bool:
    """Whether nothing follows here; `EXIT P0` goes on when P0 is false."""
    if instruction.is_a("EXIT"):
        return not instruction.operands
    return any(map(instruction.is_a, ("RET", "BRX", "JMX", "KILL")))


def _natural_loops(code: _Code) -> dict[int, set[int]]:
    """Bodies by header, as indices of instructions; loops that share a header are one."""
    successors = _successors(code)
    # Every instruction is a node; `order` is reverse post-order from the kernel's entry.
    order = _reverse_postorder(successors)
    position = {node: place for place, node in enumerate(order)}
    predecessors: dict[int, list[int]] = {node: [] for node in order}
    for node in order:
        for follower in successors[node]:
            predecessors[follower].append(node)
    dominator = _immediate_dominators(order, position, predecessors)
    bodies: dict[int, set[int]] = {}
    for node in order:
        for header in successors[node]:
            if _dominates(header, node, dominator, position):
                body = bodies.setdefault(header, {header})
                _add_body(body, node, predecessors)
    return bodies


def _reverse_postorder(successors: list[list[int]]) -> list[int]:
    order: list[int] = []
    if not successors:
        return order
    seen, stack = {0}, [(0, iter(successors[0]))]
    while stack:
        node, followers = stack[-1]
        follower = next((f for f in followers if f not in seen), None)
        if follower is None:
            order.append(node)
            stack.pop()
        else:
            seen.add(follower)
            stack.append((follower, iter(successors[follower])))
    return order[::-1]


def _immediate_dominators(
    order: list[int], position: dict[int, int], predecessors: dict[int, list[int]]
) -> dict[int, int]:
    """Cooper, Harvey and Kennedy's iteration; the entry is its own dominator."""
    dominator = dict.fromkeys(order[:1], order[0]) if order else {}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            best = _meet((p for p in predecessors[node] if p in dominator), dominator, position)
            if dominator.get(node) != best:
                dominator[node] = best
                changed = True
    return dominator


def _meet(nodes: Iterable[int], dominator: dict[int, int], position: dict[int, int]) -> int:
    nodes = iter(nodes)
    left = next(nodes)
    for right in nodes:
        while left != right:
            if position[left] > position[right]:
                left = dominator[left]
            else:
                right = dominator[right]
    return left


def _dominates(above: int, below: int, dominator: dict[int, int], position: dict[int, int]) -> bool:
    while position[below] > position[above]:
        below = dominator[below]
    return above == below


def _add_body(body: set[int], latch: int, predecessors: dict[int, list[int]]) -> None:
    """Add what reaches the latch without passing the header, which `body` holds already."""
    waiting = [latch]
    while waiting:
        node = waiting.pop()
        if node not in body:
            body.add(node)
            waiting += predecessors[node]
