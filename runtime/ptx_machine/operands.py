"""Operands of instructions, and the scopes in which their names stand."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tiledsl.runtime.ptx_machine.errors import DecodeError
from tiledsl.runtime.ptx_machine.lexer import Tokens, number, signed
from tiledsl.runtime.ptx_machine.special import SPECIAL
from tiledsl.runtime.ptx_machine.syntax import (
    Address,
    Discard,
    Immediate,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)

__all__ = ["Scope", "split_operands"]

_NAME = r"[A-Za-z_$%][\w$]*(?:\.[xyzwrgba])?"
_PLAIN = re.compile(_NAME)
_OFFSET = re.compile(rf"({_NAME})\s*([+-].*)", re.DOTALL)
_INDEXED = re.compile(rf"({_NAME})\s*\[([^\]]*)\]", re.DOTALL)
_PAIR = re.compile(rf"(!?\s*{_NAME})\s*\|\s*(!?\s*{_NAME})")
_COORDINATES = re.compile(r"([^,]*),\s*(\{[^{}]*\})\s*", re.DOTALL)
# An operand and the comma behind it: brackets of any kind, with anything but commas around them.
_PIECE = re.compile(r"((?:\[[^\]]*\]|\{[^{}]*\}|\([^()]*\)|[^,\[\]{}()]++)++)(,|$)")
_BRACKET = re.compile(r"[\[\]{}()]")
_DISCARD = Discard()
_LANES = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}


def split_operands(text: str) -> list[str]:
    """Split at commas outside of brackets.

    Raises:
        ValueError: brackets that do not match, or nothing between two commas.
    """
    if not text:
        return []
    if not _BRACKET.search(text):
        return [piece.strip() for piece in text.split(",")]
    pieces = _PIECE.findall(text)
    if sum(len(piece) + len(comma) for piece, comma in pieces) == len(text) and not pieces[-1][1]:
        return [piece.strip() for piece, _ in pieces]
    found, depth = [""], 0
    for char in text:
        if char == "," and depth == 0:
            found.append("")
            continue
        depth += (char in "[{(") - (char in "]})")
        found[-1] += char
    if depth:
        raise ValueError("brackets do not match")
    return [piece.strip() for piece in found]


class Scope:
    """Names between braces. What a nested scope declares gets a name of its own in the function."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.registers: dict[str, str] = {}  # name in the text -> name in the function
        self.variables: dict[str, Variable] = {}
        self.vectors: dict[str, tuple[str, ...]] = {}  # `.reg .v4 .f32 a`: a.x, a.y, a.z, a.w
        self.labels: dict[str, str] = {}
        self.start = 0  # number of the first statement
        self._known: dict[str, Operand] = {}

    def declared(self) -> None:
        """A name was declared: what operands mean may have changed."""
        self._known.clear()

    def operands(self, text: str) -> tuple[Operand, ...]:
        """All operands of an instruction.

        Raises:
            ValueError: with what is wrong.
        """
        known = self._known
        pieces = split_operands(text)
        try:
            return tuple([known[piece] for piece in pieces])
        except KeyError:
            return tuple([known.get(piece) or self._operand(piece) for piece in pieces])

    def call_operands(self, text: str) -> tuple[Operand, ...]:
        """``(results), function, (arguments)``: what stands in round brackets becomes a vector."""
        return tuple(
            Vector(self.operands(piece[1:-1].strip()))
            if piece[:1] == "(" and piece[-1] == ")"
            else self._operand(piece)
            for piece in split_operands(text)
        )

    def register(self, name: str) -> Register | None:
        """A register by its name in the text, also a special one."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.registers.get(name)
            if found is not None:
                return Register(found)
            scope = scope.outer
        if name in SPECIAL:
            return Register(name)
        return None

    def variable(self, name: str) -> Variable | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.outer
        return None

    # ------------------------------------------------------------------ one operand
    def _operand(self, text: str) -> Operand:
        operand = self._parse(text)
        self._known[text] = operand
        return operand

    def _parse(self, text: str) -> Operand:
        if not text:
            raise ValueError("an operand is missing")
        first = text[0]
        if first == "[":
            if text[-1] == "]":
                return self._address(text[1:-1].strip())
        elif first == "{":
            if text[-1] == "}":
                return Vector(self.operands(text[1:-1].strip()))
        elif first == "!":
            return self._negated(text)
        elif text == "_":
            return _DISCARD
        elif _PLAIN.fullmatch(text):
            return self._named(text)
        elif (pair := _PAIR.fullmatch(text)) is not None:
            return Pair(self._part(pair[1]), self._part(pair[2]))
        elif (offset := _OFFSET.fullmatch(text)) is not None:
            base = self._named(offset[1])
            if isinstance(base, Symbol):
                return Symbol(base.name, base.offset + self._integer(offset[2]))
            if isinstance(base, Register):
                raise ValueError(f"{text!r} is no operand: displacements stand in brackets")
        elif (indexed := _INDEXED.fullmatch(text)) is not None:
            base, offset_ = self._element(indexed)
            return Symbol(base.name, offset_)
        return self._constant(text)

    def _part(self, text: str) -> Operand:
        text = text.replace(" ", "")
        return self._known.get(text) or self._operand(text)

    def _negated(self, text: str) -> Operand:
        inner = text[1:].strip()
        if _PLAIN.fullmatch(inner):
            operand = self._named(inner)
            if isinstance(operand, Register):
                return Register(operand.name, True)
        return self._constant(text)

    def _named(self, name: str) -> Operand:
        register = self.register(name)
        if register is not None:
            return register
        scope: Scope | None = self
        while scope is not None:
            if name in scope.vectors:
                return Vector(tuple(Register(lane) for lane in scope.vectors[name]))
            if "." in name and name[:-2] in scope.vectors:
                lanes = scope.vectors[name[:-2]]
                if _LANES[name[-1]] < len(lanes):
                    return Register(lanes[_LANES[name[-1]]])
            scope = scope.outer
        if name == "WARP_SZ":
            return Immediate(32)
        if f"{name}.x" in SPECIAL:  # %tid, %ctaid...: all of it
            return Vector(tuple(Register(f"{name}.{axis}") for axis in "xyzw"))
        if name[0] == "%":
            raise ValueError(f"there is no register {name}")
        variable = self.variable(name)
        return Symbol(variable.name if variable else name)

    def _constant(self, text: str) -> Immediate:
        plain = number(text)
        if plain is not None:
            return plain
        tokens = Tokens(text)
        try:
            value = tokens.constant()
        except DecodeError as problem:
            why = problem.message.partition(": ")[2]
            raise ValueError(f"{text!r} is no operand: {why}") from None
        if tokens.peek():
            raise ValueError(f"{text!r} is no operand: {tokens.peek()!r} is not understood")
        return value

    def _integer(self, text: str) -> int:
        value = self._constant(text)
        if value.kind != "int":
            raise ValueError(f"expected an integer, got {text}")
        return signed(value.bits)

    def _element(self, indexed: re.Match[str]) -> tuple[Symbol, int]:
        """``table[3]``: a variable and the displacement of an element."""
        variable = self.variable(indexed[1])
        if variable is None:
            raise ValueError(f"there is no variable {indexed[1]}")
        return Symbol(variable.name), self._integer(indexed[2]) * _SIZES.get(variable.type, 1)

    def _address(self, text: str) -> Address:
        coordinates = None
        pieces = _COORDINATES.fullmatch(text)
        if pieces is not None:
            text = pieces[1].strip()
            vector = self._operand(pieces[2])
            coordinates = vector.elements if isinstance(vector, Vector) else None
        offset = 0
        parts = _OFFSET.fullmatch(text)
        if parts is not None:
            text = parts[1]
            offset = self._displacement(parts[2])
        base = self._named(text) if _PLAIN.fullmatch(text) else self._constant(text)
        if not isinstance(base, Register | Symbol | Immediate):
            raise ValueError(f"{text!r} is no address")
        return Address(base, offset, coordinates)

    def _displacement(self, text: str) -> int:
        """``+8``, ``-8``, ``+ -8``."""
        return self._integer(text)


_SIZES: Mapping[str, int] = {
    f"{kind}{bits}": bits // 8 for kind in "bus" for bits in (8, 16, 32, 64, 128)
} | {"f16": 2, "f32": 4, "f64": 8, "bf16": 2, "f16x2": 4, "bf16x2": 4}
