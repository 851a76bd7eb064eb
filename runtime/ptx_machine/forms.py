"""Instruction forms in the notation of the PTX manual, and what they match.

A form is the opcode, its modifiers in order, and its operands::

    add{.rnd}{.ftz}{.sat}.f32 d, a, b
    mbarrier.try_wait.parity{.sem}{.scope}{.space}.b64 p, [a], b
    shfl.sync.mode.b32 d{|p}, a, b, c, mask

``.name`` must stand there, ``{.name}`` may. A name that ``where`` gives stands for one of several
words (``rnd="rn rz rm rp"``); any other is itself. Operands are only counted and shown, but ``[a]``
must be an address, ``{a}`` a vector, and ``{, c}`` may be left out; ``d{|p}`` may be a pair, which
the handler takes apart. Whatever a form does not name is refused: a modifier never goes unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tiledsl.runtime.ptx_machine.syntax import Address, Instruction, Operand, Vector

if TYPE_CHECKING:
    from tiledsl.runtime.ptx_machine.program import Encoder

__all__ = ["Form", "Match", "Table"]

_PART = re.compile(r"\{\.([\w:]+)\}|\.([\w:]+)")


@dataclass(frozen=True, slots=True)
class Match:
    """An instruction and the words that a form's names stand for in it; "" where left out."""

    instruction: Instruction
    words: Mapping[str, str]
    operands: tuple[Operand, ...]

    def __getitem__(self, name: str) -> str:
        return self.words.get(name, "")


Handler = Callable[["Encoder", Match], None]


@dataclass(frozen=True, slots=True)
class Form:
    """One form: ``parts`` are (name, words it may be, whether it may be left out)."""

    notation: str
    opcode: str
    parts: tuple[tuple[str, frozenset[str], bool], ...]
    operands: tuple[str, ...]
    required: int
    handler: Handler
    family: int

    def match(self, instruction: Instruction) -> Match | None:
        """The words of an instruction, or None if it has another form."""
        words = _assign(self.parts, instruction.modifiers)
        count = len(instruction.operands)
        if words is None or not self.required <= count <= len(self.operands):
            return None
        for kind, operand in zip(self.operands, instruction.operands, strict=False):
            if kind.startswith("[") != isinstance(operand, Address):
                return None
            if kind.startswith("{") and not isinstance(operand, Vector):
                return None
        return Match(instruction, words, instruction.operands)


def _assign(
    parts: Sequence[tuple[str, frozenset[str], bool]], modifiers: Sequence[str]
) -> dict[str, str] | None:
    """Give each modifier to a part, in order; optional parts may go without."""
    if not parts:
        return None if modifiers else {}
    (name, words, optional), rest = parts[0], parts[1:]
    if modifiers and modifiers[0] in words:
        found = _assign(rest, modifiers[1:])
        if found is not None:
            return {name: modifiers[0], **found}
    return _assign(rest, modifiers) if optional else None


@dataclass
class Table:
    """The forms of one family, by opcode."""

    family: int
    forms: dict[str, list[Form]] = field(default_factory=dict)

    def form(self, *notations: str, **where: str) -> Callable[[Handler], Handler]:
        """Decorator: the handler of these forms. ``where``: words, separated by spaces."""

        def register(handler: Handler) -> Handler:
            for notation in notations:
                made = _parse(notation, where, handler, self.family)
                self.forms.setdefault(made.opcode, []).append(made)
            return handler

        return register


def _parse(notation: str, where: Mapping[str, str], handler: Handler, family: int) -> Form:
    head, _, tail = notation.partition(" ")
    opcode = re.match(r"\w+", head)
    assert opcode, notation
    parts = []
    rest = head[opcode.end() :]
    for part in _PART.finditer(rest):
        name = part[1] or part[2]
        words = frozenset(where.get(name, name).split())
        parts.append((name, words, part[1] is not None))
    assert "".join(part[0] for part in _PART.finditer(rest)) == rest, notation
    optional = tail.count("{,")
    operands = tuple(text.strip() for text in _operands(tail))
    return Form(
        notation, opcode[0], tuple(parts), operands, len(operands) - optional, handler, family
    )


def _operands(text: str) -> list[str]:
    """Split at commas outside of brackets; ``{, c}`` is an operand ``c``."""
    text = re.sub(r"\{,\s*([^{}]*(?:\{[^{}]*\})?[^{}]*)\}", r", \1", text)
    found, depth = [""], 0
    for char in text:
        if char == "," and depth == 0:
            found.append("")
            continue
        depth += (char in "[{") - (char in "]}")
        found[-1] += char
    return [part for part in found if part.strip()]
