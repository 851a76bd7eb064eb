"""PTX text as tokens: comments, numbers, constant expressions.

Bodies of functions are not read token by token (parser.py takes them statement by statement, with
one regular expression), since a kernel has tens of thousands of tokens.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from tiledsl.runtime.ptx_machine.errors import DecodeError
from tiledsl.runtime.ptx_machine.syntax import Immediate

__all__ = ["WORD_MASK", "Tokens", "number", "signed", "without_comments"]

WORD_MASK = (1 << 64) - 1

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|/\*', re.DOTALL)
_NUMBER = re.compile(
    r"""0[fF]([0-9a-fA-F]{8})\b
      | 0[dD]([0-9a-fA-F]{16})\b
      | ((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
      | (0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?\b""",
    re.VERBOSE,
)
_TOKEN = re.compile(
    r"""\s*+("(?:[^"\\\n]|\\.)*"
      | 0[fFdD][0-9a-fA-F]+ | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+
      | \.?[A-Za-z_$%0-9][\w$]*(?:::\w+)*
      | << | >> | && | \|\| | [=!<>]= | @@ | .)""",
    re.VERBOSE | re.DOTALL,
)


def without_comments(text: str) -> str:
    """The text with comments taken out; lines stay where they are."""

    def replace(match: re.Match[str]) -> str:
        found = match[0]
        if found[0] == '"':
            return found
        if found == "/*":
            line = text.count("\n", 0, match.start()) + 1
            raise DecodeError(f"PTX line {line}: the comment that begins here does not end")
        return " " + "\n" * found.count("\n")

    return _COMMENT.sub(replace, text) if "/" in text else text


def signed(value: int) -> int:
    """64 bits as a signed number."""
    value &= WORD_MASK
    return value - (1 << 64) if value >> 63 else value


def number(text: str) -> Immediate | None:
    """A literal without a sign: decimal, hexadecimal, octal, binary, ``0f``, ``0d``, ``1.5``."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    single, double, decimal, integer = match.groups()
    if integer is not None:
        return Immediate(_integer(integer) & WORD_MASK)
    if single is not None:
        return Immediate(int(single, 16), "f32")
    if double is not None:
        return Immediate(int(double, 16), "f64")
    return Immediate(int.from_bytes(struct.pack("<d", float(decimal)), "little"), "f64")


def _integer(text: str) -> int:
    if text[0] == "0" and len(text) > 1 and text.isdigit():
        if set(text) <= set("01234567"):
            return int(text, 8)
        raise ValueError(f"{text} is no octal number")
    return int(text, 0)


class Tokens:
    """A position in the text of a module, and what stands there."""

    def __init__(self, text: str, position: int = 0, line: int = 1) -> None:
        self.text = text
        self.position = position
        self.first_line = line
        self._next: re.Match[str] | None = None

    def seek(self, position: int) -> None:
        self.position = position
        self._next = None

    @property
    def line(self) -> int:
        """The PTX line of the next token."""
        at = self._look().start(1) if self._look() else len(self.text)  # type: ignore[union-attr]
        return self.first_line + self.text.count("\n", 0, at)

    def _look(self) -> re.Match[str] | None:
        if self._next is None:
            self._next = _TOKEN.match(self.text, self.position)
        return self._next

    def peek(self) -> str:
        """The next token, "" at the end."""
        match = self._look()
        return match[1] if match else ""

    def take(self) -> str:
        match = self._look()
        if match is None:
            raise self.error("the text ends within a declaration")
        self.position = match.end()
        self._next = None
        return match[1]

    def accept(self, token: str) -> bool:
        """Whether the next token is this one; then it is taken."""
        if self.peek() != token:
            return False
        self.take()
        return True

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise self.error(f"expected {token!r}, got {self.peek() or 'the end of the text'!r}")
        self.take()

    def name(self) -> str:
        """An identifier."""
        found = self.peek()
        if not re.fullmatch(r"[A-Za-z_$%][\w$]*", found):
            raise self.error(f"expected a name, got {found or 'the end of the text'!r}")
        return self.take()

    def integer(self) -> int:
        """A constant expression."""
        value = self.constant()
        if value.kind != "int":
            raise self.error("expected an integer, got a floating-point number")
        return signed(value.bits)

    def error(self, why: str) -> DecodeError:
        return DecodeError(f"PTX line {self.line}: {why}")

    def skip_line(self) -> str:
        """The next token and the rest of its line, which are taken."""
        self.take()
        end = self.text.find("\n", self.position)
        end = len(self.text) if end < 0 else end
        rest = self.text[self.position : end]
        self.seek(end)
        return rest

    # ------------------------------------------------------------------ constant expressions
    def constant(self, level: int = 0) -> Immediate:
        """A constant expression, as in C: 64-bit integers, or one floating-point literal."""
        if level == len(_LEVELS):
            return self._unary()
        left = self.constant(level + 1)
        while self.peek() in _LEVELS[level]:
            operator = self.take()
            right = self.constant(level + 1)
            left = self._combine(operator, left, right)
        if level == 0 and self.accept("?"):
            first = self.constant()
            self.expect(":")
            second = self.constant()
            return first if left.bits else second
        return left

    def _combine(self, operator: str, left: Immediate, right: Immediate) -> Immediate:
        if left.kind != "int" or right.kind != "int":
            raise self.error(f"{operator!r} of floating-point constants is not supported")
        if operator in "/%" and right.bits == 0:
            raise self.error("a constant expression divides by zero")
        return Immediate(_OPERATORS[operator](signed(left.bits), signed(right.bits)) & WORD_MASK)

    def _unary(self) -> Immediate:
        token = self.peek()
        if token in ("-", "+", "~", "!"):
            self.take()
            value = self._unary()
            if token == "+":
                return value
            if value.kind != "int":
                if token != "-":
                    raise self.error(f"{token!r} of a floating-point constant")
                return Immediate(
                    value.bits ^ (1 << (31 if value.kind == "f32" else 63)), value.kind
                )
            bits = {"-": -value.bits, "~": ~value.bits, "!": int(value.bits == 0)}[token]
            return Immediate(bits & WORD_MASK)
        if token == "(":
            self.take()
            if self.peek() in (".s64", ".u64"):
                self.take()
                self.expect(")")
                return self._unary()
            value = self.constant()
            self.expect(")")
            return value
        if token == "WARP_SZ":
            self.take()
            return Immediate(32)
        try:
            value_ = number(token)
        except ValueError as problem:
            raise self.error(str(problem)) from None
        if value_ is None:
            raise self.error(f"expected a constant, got {token or 'the end of the text'!r}")
        self.take()
        return value_


def _quotient(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"),
    ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b),
}
