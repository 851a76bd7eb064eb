"""A function as rows of integers, which is what the interpreter runs.

Operands have no kinds in a row: an immediate, a special register or the address of a variable is a
register too, whose value stands there when a warp starts (``Program.constants``, ``specials``,
``symbols``). encoder.py makes the rows; here all parts come together.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.calls import inline_calls
from tiledsl.runtime.ptx_machine.encoder import Encoder
from tiledsl.runtime.ptx_machine.errors import DecodeError, at_instruction
from tiledsl.runtime.ptx_machine.forms import Form, Match, Table
from tiledsl.runtime.ptx_machine.opcodes import FAMILIES
from tiledsl.runtime.ptx_machine.syntax import (
    Function,
    Instruction,
    Label,
    Loc,
    Module,
    Parameter,
    Variable,
)

__all__ = ["DecodeError", "Encoder", "Program", "decode"]

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Program:
    """What the interpreter needs of one entry.

    Attributes:
        name: of the entry.
        rows: int64 [instructions, COLUMNS]; columns in opcodes.py.
        vectors: int64, the lists of registers that rows refer to.
        registers: how many 64-bit registers a lane has, constants and specials included.
        names: the PTX name of each register, "" for constants.
        constants: register -> bits. Addresses of parameters and of local variables are constants,
            too: offsets from the start of the kernel's parameters, and of a lane's local memory.
        specials: register -> name of the special register, such as "%tid.x".
        symbols: register -> (variable, displacement): addresses of shared, global and constant
            variables, known at launch. All of them stand in ``variables``.
        locs: the source line of each row, None where there is none.
        texts: the PTX text of each row.
        parameters: of the entry.
        directives: of the entry: "reqntid", "maxntid", "reqnctapercluster"...
        variables: what rows refer to, by name, and what initialisers of these refer to.
        shared: offset of each shared variable from the start of the block's shared memory (where
            address SHARED_BASE points to). ``extern`` ones lie behind the others, all at one place.
        shared_size: bytes of shared memory without the dynamic part, which begins there.
        local_size: bytes of local memory of a lane.
    """

    name: str
    rows: Array
    vectors: Array
    registers: int
    names: list[str]
    constants: dict[int, int] = field(default_factory=dict)
    specials: dict[int, str] = field(default_factory=dict)
    symbols: dict[int, tuple[str, int]] = field(default_factory=dict)
    locs: list[Loc | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    parameters: tuple[Parameter, ...] = ()
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    shared_size: int = 0
    local_size: int = 0


def decode(module: Module, entry: str | None = None, tables: Sequence[Table] = ()) -> Program:
    """The rows of an entry, with the functions that it calls inlined.

    Args:
        entry: its name; may be left out where there is one only.
        tables: forms to use instead of those of isa/, for tests.

    Raises:
        DecodeError: an unknown instruction or form, operands of wrong width, recursion...
    """
    function = inline_calls(module, _entry(module, entry))
    forms = Forms(tables or _tables())
    encoder = Encoder(module, function)
    for statement in function.body:
        if isinstance(statement, Label):
            encoder.label(statement)
        else:
            form, match = forms.find(statement)
            encoder.encode(statement, form, match)
    encoder.finish()
    return Program(
        name=function.name,
        rows=encoder.rows(),
        vectors=np.array(encoder.vectors or [0], np.int64),
        registers=len(encoder.names),
        names=encoder.names,
        constants=encoder.constants,
        specials=encoder.specials,
        symbols=encoder.symbols,
        locs=encoder.locs,
        texts=encoder.texts,
        parameters=function.parameters,
        directives=function.directives,
        variables=encoder.variables,
        shared=encoder.shared,
        shared_size=encoder.shared_size,
        local_size=encoder.local_size,
    )


def _entry(module: Module, name: str | None) -> Function:
    entries = [function.name for function in module.functions.values() if function.entry]
    listed = ", ".join(entries) or "none"
    if name is None:
        if len(entries) != 1:
            raise DecodeError(f"which entry? The module has: {listed}")
        name = entries[0]
    if name not in entries:
        raise DecodeError(f"the PTX has no entry {name!r}; it has: {listed}")
    return module.functions[name]


@cache
def _tables() -> tuple[Table, ...]:
    """The tables of all families."""
    package = "tiledsl.runtime.ptx_machine.isa"
    names = [f"{package}.{family}" for family in FAMILIES]
    return tuple(
        importlib.import_module(name).TABLE for name in names if importlib.util.find_spec(name)
    )


_Key = tuple[str, tuple[str, ...], tuple[type, ...]]
_found: dict[tuple[int, ...], dict[_Key, tuple[Form, Match]]] = {}


class Forms:
    """Finds the form of an instruction. The same opcode, modifiers and kinds of operands have the
    same one, and so are looked for once."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = tables
        self.known = _found.setdefault(tuple(map(id, tables)), {}) if tables is _tables() else {}

    def find(self, instruction: Instruction) -> tuple[Form, Match]:
        operands = instruction.operands
        key = (instruction.opcode, instruction.modifiers, tuple(map(type, operands)))
        known = self.known.get(key)
        if known is not None:
            return known[0], Match(instruction, known[1].words, operands)
        candidates = [
            form for table in self.tables for form in table.forms.get(instruction.opcode, ())
        ]
        found = [(form, form.match(instruction)) for form in candidates]
        fitting = [(form, match) for form, match in found if match is not None]
        if not fitting:
            raise self._refusal(instruction, candidates)
        # `mov.b64 {a, b}, c` also fits the form `mov.b64 d, a`: the one that names braces is meant.
        form, match = max(fitting, key=lambda pair: "".join(pair[0].operands).count("{"))
        self.known[key] = form, match
        return form, match

    def _refusal(self, instruction: Instruction, candidates: Sequence[Form]) -> DecodeError:
        if candidates:
            lines = "".join(f"\n    {line}" for line in dict.fromkeys(map(_shown, candidates)))
            return at_instruction(
                instruction,
                f"the machine does not know this form of {instruction.opcode!r}",
                notes=(f"it knows these forms:{lines}",),
            )
        opcodes = {opcode for table in self.tables for opcode in table.forms}
        close = difflib.get_close_matches(instruction.opcode, sorted(opcodes), 3)
        return at_instruction(
            instruction,
            f"the machine does not know the instruction {instruction.opcode!r}",
            hint=f"similar ones: {', '.join(close)}" if close else None,
        )


def _shown(form: Form) -> str:
    """A form as in the manual, with what its names stand for."""
    choices = [
        f"{name}: {' '.join(sorted(words))}" for name, words, _ in form.parts if words != {name}
    ]
    return form.notation + ("" if not choices else f"    ({'; '.join(choices)})")
