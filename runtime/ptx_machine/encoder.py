"""Makes rows: what the handlers of isa/ call for the operands of an instruction."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.errors import TileError
from tiledsl.runtime.ptx_machine import opcodes
from tiledsl.runtime.ptx_machine.constants import bits_as
from tiledsl.runtime.ptx_machine.errors import DecodeError, at_instruction
from tiledsl.runtime.ptx_machine.flow import Branch, meeting_rows
from tiledsl.runtime.ptx_machine.forms import Form, Match
from tiledsl.runtime.ptx_machine.isa.control_ops import ASSERT, BRA, BRX, CLOCK, EXIT, TRAP
from tiledsl.runtime.ptx_machine.layout import lay_out
from tiledsl.runtime.ptx_machine.lexer import signed
from tiledsl.runtime.ptx_machine.opcodes import (
    BITS,
    COLUMNS,
    CONTROL,
    D0,
    D1,
    END,
    FAMILY,
    GUARD,
    LINE,
    NEGATED,
    NOTED,
    NUSED,
    NVEC,
    OP,
    RECONVERGE,
    TARGET,
    TYPE_CODES,
    USED,
    VEC,
    A,
    B,
    C,
    D,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.special import CLOCKS, SPECIAL
from tiledsl.runtime.ptx_machine.syntax import (
    Address,
    Discard,
    Function,
    Immediate,
    Instruction,
    Label,
    Loc,
    Module,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)  # fmt: skip

__all__ = ["Encoder"]

_COLUMN_NAMES = [
    "OP",
    "FAMILY",
    "GUARD",
    "NEGATED",
    "TYPE",
    "TYPE2",
    "MODE",
    "MODE2",
    "D0",
    "D1",
    "A",
    "B",
    "C",
    "D",
    "VEC",
    "NVEC",
    "VEC2",
    "NVEC2",
    "IMM",
    "SPACE",
    "TARGET",
    "RECONVERGE",
    "LINE",
    "USED",
    "NUSED",
    "X0",
    "X1",
    "X2",
    "X3",
    "X4",
    "NOTED",
]
_COLUMN = {name.lower(): getattr(opcodes, name) for name in _COLUMN_NAMES}
_EMPTY = [0] * COLUMNS
for _column in (GUARD, D0, D1, A, B, C, D, TARGET):
    _EMPTY[_column] = -1
_EMPTY[RECONVERGE] = END

_LABELS = 1 << 40  # a branch target whose row is not known yet: this and the label's number
# Operands that may be wider than the instruction's type, by the manual.
_RELAXED = frozenset({"ld", "ldu", "st", "cvt"})

# What a register holds; "bits" go with everything of their size.
_KINDS = {
    name: "bits" if name[0] == "b" and name[1].isdigit()
    else name if name == "pred"
    else "integer" if name[0] in "us"
    else "float"
    for name in TYPE_CODES
}  # fmt: skip


class Encoder:
    """Makes the rows of a function. The handlers of forms (isa/) call it for one instruction."""

    instruction: Instruction

    def __init__(self, module: Module, function: Function) -> None:
        self._module, self._function = module, function
        self._types = function.registers
        self._parameters = {it.name: it.offset for it in function.parameters}
        self._numbers: dict[str, int] = {}
        # Registers that were found to be of a type; those of ld, st and cvt may be wider.
        self._strict: dict[tuple[str, str], int] = {}
        self._wider: dict[tuple[str, str], int] = {}
        self._known = self._strict
        self._constants: dict[int, int] = {}
        self._symbols: dict[Symbol, int] = {}
        self._labels: dict[str, int] = {}
        self._label_rows: dict[str, int] = {}
        self._awaited: list[tuple[str, Instruction]] = []
        self._rows: list[list[int]] = []
        self._written: list[list[int]] = []
        self._tensor: set[int] = set()  # registers that wgmma takes
        self._family = CONTROL
        self._used: list[int] = []
        self._results: list[int] = []
        self._guard = (-1, 0)
        self.vectors: list[int] = []
        self.names: list[str] = []
        self.constants: dict[int, int] = {}
        self.specials: dict[int, str] = {}
        self.symbols: dict[int, tuple[str, int]] = {}
        self.locs: list[Loc | None] = []
        self.texts: list[str] = []

    # ------------------------------------------------------------------ for the handlers of isa/
    def source(self, operand: Operand, type: str) -> int:
        """The register of an operand that is read as ``type``: "b32", "f32", "s64"...

        An immediate becomes a constant of that type (``0f3f800000`` and ``1.0`` for floats). A
        register must be as wide as the type: PTX's rules, else a DecodeError. Operands of ld, st
        and cvt may be wider, and those of 8-bit types are.
        """
        if operand.__class__ is Register:
            return self._register(operand, type)
        if isinstance(operand, Immediate):
            return self._immediate(operand, type)
        if isinstance(operand, Symbol):
            return self._symbol(operand)
        raise self.refuse(f"expected a register or constant of type .{type}, got {_kind(operand)}")

    def predicate(self, operand: Operand) -> tuple[int, int]:
        """Register of a predicate operand, and 1 if it is negated (``!p``)."""
        if isinstance(operand, Register):
            plain = Register(operand.name) if operand.negated else operand
            return self._register(plain, "pred"), int(operand.negated)
        return self.source(operand, "pred"), 0

    def result(self, operand: Operand, type: str) -> int:
        """The register of a result, or -1 for ``_``."""
        if isinstance(operand, Discard):
            return -1
        if not isinstance(operand, Register):
            raise self.refuse(f"expected a register for a result, got {_kind(operand)}")
        if operand.name not in self._types:
            raise self.refuse(f"{operand.name} cannot be written")
        number = self._register(operand, type)
        self._results.append(number)
        return number

    def results(self, operand: Operand, first: str, second: str) -> tuple[int, int]:
        """Both registers of ``d|p``; the second is -1 where the operand is no pair."""
        if isinstance(operand, Pair):
            return self.result(operand.first, first), self.result(operand.second, second)
        return self.result(operand, first), -1

    def address(self, operand: Operand, *, bits: int = 64) -> tuple[int, int]:
        """Base register and displacement of ``[base + displacement]``.

        ``bits``: how wide the base register may be at most (shared addresses may be 32).
        """
        if not isinstance(operand, Address):
            raise self.refuse(f"expected an address in brackets, got {_kind(operand)}")
        if operand.coordinates is not None and self.instruction.opcode != "cp":
            raise self.refuse("an address with coordinates, where one without was expected")
        base = operand.base
        if isinstance(base, Immediate):
            return self._immediate(base, "b64"), operand.offset
        if isinstance(base, Symbol):
            return self._symbol(base), operand.offset
        width = self._width_of(base.name)
        if width < 32 or width > bits:
            expected = "32 or 64" if bits == 64 else f"{bits}"
            raise self.refuse(f"an address has {expected} bits, but {base.name} has {width}")
        return self._register(base, f"b{width}"), operand.offset

    def halves(self, operand: Operand, *, result: bool = False) -> tuple[int, int]:
        """The registers of 64 bits, low and high, of one of 128 bits or of a vector of two."""
        if isinstance(operand, Vector):
            if len(operand.elements) != 2:
                raise self.refuse(f"2 registers of 64 bits, not {len(operand.elements)}")
            take = self.result if result else self.source
            low, high = (take(element, "b64") for element in operand.elements)
            return low, high
        if isinstance(operand, Discard) and result:
            return -1, -1
        if not isinstance(operand, Register) or self._types.get(operand.name) != "b128":
            raise self.refuse(f"expected a register of 128 bits, got {_kind(operand)}")
        found = []
        for part in ("low", "high"):
            name = f"{operand.name}.{part}"
            if name not in self._numbers:
                self._numbers[name] = self._new(name)
            found.append(self._numbers[name])
        self._used += found
        if result:
            self._results += found
        return found[0], found[1]

    def vector(self, operand: Operand, type: str, *, result: bool = False) -> tuple[int, int]:
        """Place and number of a list of registers, for VEC and NVEC (or VEC2, NVEC2).

        An operand that is no vector is a list of one. ``_`` among results is -1.
        """
        elements = operand.elements if isinstance(operand, Vector) else (operand,)
        take = self.result if result else self.source
        return self.words([take(element, type) for element in elements])

    def words(self, values: list[int]) -> tuple[int, int]:
        """Numbers of the family's own in the list of vectors: place and number."""
        place = len(self.vectors)
        self.vectors += values
        return place, len(values)

    def immediate(self, operand: Operand) -> int:
        """The value of an operand that must be known: an immediate, as a signed number."""
        if not isinstance(operand, Immediate) or operand.kind != "int":
            raise self.refuse(f"expected an integer constant, got {_kind(operand)}")
        return signed(operand.bits)

    def width(self, operand: Operand) -> int:
        """Bits of a register; 0 of any other operand."""
        return self._width_of(operand.name) if isinstance(operand, Register) else 0

    def hidden(self, name: str) -> int:
        """A register that PTX does not name, such as the carry "cc": one for each name."""
        number = self._numbers.get(f"({name})")
        if number is None:
            number = self._numbers[f"({name})"] = self._new(f"({name})")
        self._used.append(number)
        return number

    def target(self, operand: Operand) -> int:
        """The row of a label; resolved when the whole function is known.

        Until then a number that stands for the label: fit for column TARGET and, in rows of
        ``brx.idx``, for the list VEC.
        """
        if not isinstance(operand, Symbol) or operand.offset:
            raise self.refuse(f"expected a label, got {_kind(operand)}")
        if operand.name not in self._labels:
            self._labels[operand.name] = len(self._labels)
            self._awaited.append((operand.name, self.instruction))
        return _LABELS + self._labels[operand.name]

    def emit(self, op: int, **columns: int) -> None:
        """Write the row: ``emit(ADD, type=U32, d0=d, a=a)``; names of opcodes.py in lower case.

        Guard, family, line and the list of used registers are filled in by the encoder (every
        register that source(), predicate(), result(), vector() and address() gave out).
        """
        row = _EMPTY.copy()
        row[OP] = op
        row[FAMILY] = self._family
        row[GUARD], row[NEGATED] = self._guard
        row[LINE] = self.instruction.line
        for name, value in columns.items():
            row[_COLUMN[name]] = value
        used = dict.fromkeys(self._used)
        row[USED], row[NUSED] = len(self.vectors), len(used)
        self.vectors += used
        self._rows.append(row)
        # wgmma writes its registers later, by its own rules.
        self._written.append([] if self._is_wgmma() else self._results)
        self.locs.append(self.instruction.loc)
        self.texts.append(self.instruction.text)

    def refuse(self, why: str) -> DecodeError:
        """A DecodeError at this instruction: ``raise e.refuse("a 3-d map with 2 coordinates")``."""
        return at_instruction(self.instruction, why)

    # ------------------------------------------------------------------ for decode()
    def label(self, label: Label) -> None:
        if label.name in self._label_rows:
            raise DecodeError(f"PTX line {label.line}: label {label.name} is there twice")
        self._label_rows[label.name] = len(self._rows)

    def encode(self, instruction: Instruction, form: Form, match: Match) -> None:
        """Let a form's handler write the rows of an instruction."""
        self.instruction = instruction
        self._family = form.family
        self._known = self._wider if instruction.opcode in _RELAXED else self._strict
        self._used, self._results = [], []
        self._guard = (-1, 0)
        try:
            if instruction.guard is not None:
                self._guard = self.predicate(instruction.guard)
            form.handler(self, match)
        except TileError:
            raise
        except Exception as problem:
            name = type(problem).__name__
            raise self.refuse(f"the machine's decoder failed: {name}: {problem}") from problem
        if self._is_wgmma():
            for operand in instruction.operands:
                if isinstance(operand, Vector):
                    self._tensor.update(
                        self._numbers[element.name]
                        for element in operand.elements
                        if isinstance(element, Register) and element.name in self._numbers
                    )

    def finish(self) -> None:
        """Fill in what depends on the whole function: targets, meeting rows, addresses."""
        for name, instruction in self._awaited:
            if name not in self._label_rows:
                raise at_instruction(instruction, f"there is no label {name}")
        self._resolve_targets()
        self._leave_at_once()
        self._find_meetings()
        for row, written in zip(self._rows, self._written, strict=True):
            if written and not self._tensor.isdisjoint(written):
                row[NOTED] = 1
        layout = lay_out(self._module, self._function, {it.name for it in self._symbols})
        self.variables, self.shared = layout.variables, layout.shared
        self.shared_size, self.local_size = layout.shared_size, layout.local_size
        for symbol, register in self._symbols.items():
            if symbol.name in layout.local:
                self.constants[register] = layout.local[symbol.name] + symbol.offset
            else:
                self.symbols[register] = symbol.name, symbol.offset

    def _is_wgmma(self) -> bool:
        instruction = self.instruction
        return instruction.opcode == "wgmma" and instruction.modifiers[:1] == ("mma_async",)

    def rows(self) -> np.ndarray[Any, Any]:
        """All rows: int64 [rows, COLUMNS]."""
        return np.array(self._rows, np.int64).reshape(len(self._rows), COLUMNS)

    # ------------------------------------------------------------------ registers
    def _register(self, operand: Register, type: str) -> int:
        name = operand.name
        if operand.negated:
            raise self.refuse(f"`!{name}`, where no predicate is")
        number = self._known.get((name, type))
        if number is None:
            number = self._checked(name, type)
        self._used.append(number)
        return number

    def _checked(self, name: str, type: str) -> int:
        width, wanted = self._width_of(name), BITS[TYPE_CODES[type]]
        kinds = _KINDS[self._types.get(name, "b32")], _KINDS[type]
        fits = width == wanted
        if width > wanted > 1 and (wanted == 8 or self._known is self._wider):
            fits = kinds != ("float", "float")
        if width > 64:
            raise self.refuse(f"{name}: registers of {width} bits are not supported")
        if name == "%gridid" and wanted == 32:
            fits = True
        if fits and set(kinds) == {"integer", "float"}:
            declared = self._types[name]
            raise self.refuse(f"expected a register for .{type}, but {name} is one of .{declared}")
        if not fits:
            what = "a predicate" if width == 1 else f"{width} bits wide"
            expected = "a predicate" if wanted == 1 else f"a register of {wanted} bits for .{type}"
            raise self.refuse(f"expected {expected}, but {name} is {what}")
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self._new(name)
            if name not in self._types:
                self.specials[number] = name
        if name in CLOCKS:
            self._read_clock(name, number)
        else:
            self._known[name, type] = number
        return number

    def _read_clock(self, name: str, number: int) -> None:
        """A row in front that takes the time."""
        family, self._family = self._family, CONTROL
        used, self._used = self._used, [number]
        self.emit(CLOCK, d0=number, x0=CLOCKS.index(name))
        self._family, self._used = family, used

    def _width_of(self, name: str) -> int:
        declared = self._types.get(name)
        if declared is not None:
            return BITS[TYPE_CODES[declared]]
        if name not in SPECIAL:
            raise self.refuse(f"there is no register {name}")
        return SPECIAL[name]

    def _new(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1

    def _immediate(self, operand: Immediate, type: str) -> int:
        try:
            bits = bits_as(operand, type)
        except ValueError as problem:
            raise self.refuse(str(problem)) from None
        return self._constant(bits)

    def _constant(self, bits: int) -> int:
        number = self._constants.get(bits)
        if number is None:
            number = self._constants[bits] = self._new("")
            self.constants[number] = bits
        return number

    def _symbol(self, symbol: Symbol) -> int:
        """The register of an address: within its window, or of global memory."""
        if symbol.name in self._parameters:
            return self._constant(self._parameters[symbol.name] + symbol.offset)
        number = self._symbols.get(symbol)
        if number is not None:
            return number
        if symbol.name not in self._function.variables | self._module.variables:
            if symbol.name in self._module.functions:
                raise self.refuse(
                    f"the address of function {symbol.name}: indirect calls are not supported"
                )
            raise self.refuse(f"there is no variable {symbol.name}")
        number = self._symbols[symbol] = self._new("")
        return number

    # ------------------------------------------------------------------ the flow of control
    def _resolve_targets(self) -> None:
        rows = [self._label_rows[name] for name in self._labels]
        for row in self._rows:
            if row[TARGET] >= _LABELS:
                row[TARGET] = rows[row[TARGET] - _LABELS]
            if row[FAMILY] == CONTROL and row[OP] == BRX:
                for place in range(row[VEC], row[VEC] + row[NVEC]):
                    self.vectors[place] = rows[self.vectors[place] - _LABELS]

    def _leave_at_once(self) -> None:
        """A branch to nothing but an exit is one, as ptxas makes it: lanes that return early end
        there, and do not wait at the last row for the others."""
        exits = {len(self._rows)}
        exits.update(
            number
            for number, row in enumerate(self._rows)
            if row[FAMILY] == CONTROL and row[OP] == EXIT and row[GUARD] < 0
        )
        for number in reversed(range(len(self._rows))):
            row = self._rows[number]
            if row[FAMILY] == CONTROL and row[OP] == BRA and row[TARGET] in exits:
                row[OP], row[TARGET] = EXIT, -1
                if row[GUARD] < 0:
                    exits.add(number)

    def _find_meetings(self) -> None:
        branches = {}
        for number, row in enumerate(self._rows):
            if row[FAMILY] != CONTROL:
                continue
            guarded, op = row[GUARD] >= 0, row[OP]
            if op == BRA:
                branches[number] = Branch((row[TARGET],), guarded)
            elif op == BRX:
                place = row[VEC]
                branches[number] = Branch(tuple(self.vectors[place : place + row[NVEC]]), guarded)
            elif op == EXIT:
                branches[number] = Branch((), guarded, ends=True)
            elif op in (TRAP, ASSERT):
                branches[number] = Branch((), guarded)
        for number, meeting in meeting_rows(len(self._rows), branches).items():
            self._rows[number][RECONVERGE] = meeting


def _kind(operand: Operand) -> str:
    """An operand, for messages."""
    match operand:
        case Register():
            return f"register {operand.name}"
        case Immediate():
            return "a floating-point constant" if operand.kind != "int" else "an integer constant"
        case Symbol():
            return f"symbol {operand.name}"
        case Address():
            return "an address in brackets"
        case Vector():
            return f"{len(operand.elements)} operands in braces"
        case Pair():
            return "a pair `a|b`"
    return "`_`"
