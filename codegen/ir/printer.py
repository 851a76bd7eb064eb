"""IR text. People read it to learn what their kernel does, so it stays short and stable.

One operation a line: ``%result = opcode operands {attributes} : type``. Names come from the
user's variables; a number is appended when two values share one. Constants stand where they are
used, not on lines of their own.
"""

from __future__ import annotations

import enum
from typing import Any

from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops.arith import Constant
from tiledsl.codegen.ir.types import BarrierType, LocalType, StageType


class Namer:
    """Gives every value a unique printed name."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._used: dict[str, int] = {}

    def __call__(self, value: Value) -> str:
        if isinstance(value.owner, Constant):
            return str(value.owner.value)
        if value not in self._names:
            self._names[value] = self._fresh(value.name)
        return self._names[value]

    def _fresh(self, hint: str) -> str:
        if not hint:
            number = self._used.get("", 0)
            self._used[""] = number + 1
            return f"%{number}"
        number = self._used.get(hint, 0)
        self._used[hint] = number + 1
        return f"%{hint}" if number == 0 else f"%{hint}.{number}"


def _attribute_text(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, DType):
        return value.short
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(_attribute_text(item) for item in value) + "]"
    return str(value)


class Printer:
    """Prints a kernel or a block; ``locations`` appends the user's line to each operation."""

    def __init__(self, *, locations: bool = False) -> None:
        self.name = Namer()
        self.locations = locations
        self.lines: list[str] = []

    def block(self, block: Block, depth: int) -> None:
        for op in block.ops:
            if not isinstance(op, Constant):
                self.op(op, depth)

    def op(self, op: Op, depth: int) -> None:
        text = self._head(op)
        if self.locations and op.loc.line:
            text += f"  // {op.loc.short()}"
        blocks = op.blocks
        if not blocks:
            self.lines.append("  " * depth + text)
            return
        self.lines.append("  " * depth + text + " {")
        for number, block in enumerate(blocks):
            if number:
                self.lines.append("  " * depth + "} else {")
            self.block(block, depth + 1)
        self.lines.append("  " * depth + "}")

    def _head(self, op: Op) -> str:
        custom = getattr(op, "print_head", None)
        results = ", ".join(self.name(result) for result in op.results)
        prefix = f"{results} = " if results else ""
        if custom is not None:
            return prefix + str(custom(self.name))
        parts = [op.opcode]
        if operands := ", ".join(self.name(v) for v in op.operands):
            parts.append(operands)
        shown = {k: v for k, v in op.attributes.items() if v is not None and v is not False}
        if shown:
            pairs = ", ".join(f"{k}={_attribute_text(v)}" for k, v in shown.items())
            parts.append("{" + pairs + "}")
        if types := self._types(op):
            parts.append(f": {types}")
        return prefix + " ".join(parts)

    @staticmethod
    def _types(op: Op) -> str:
        """Result types, left out where the opcode says it already."""
        quiet = (BarrierType, LocalType, StageType)
        return ", ".join(str(r.type) for r in op.results if not isinstance(r.type, quiet))


def print_kernel(kernel: Kernel, *, locations: bool = False) -> str:
    """The text of a kernel, with its plan (roles, registers, shared memory) once it has one."""
    printer = Printer(locations=locations)
    params = ", ".join(f"{printer.name(p.value)}: {p.value.type}" for p in kernel.params)
    lines = [f"kernel {kernel.name}({params}) level={kernel.level.value} {{"]
    if kernel.plan is not None:
        lines += [f"  {line}" for line in kernel.plan.describe()]
    printer.block(kernel.body, 1)
    return "\n".join([*lines, *printer.lines, "}"]) + "\n"


def print_block(block: Block, *, locations: bool = False) -> str:
    """The text of one block."""
    printer = Printer(locations=locations)
    printer.block(block, 0)
    return "\n".join(printer.lines) + "\n"
