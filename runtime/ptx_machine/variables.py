"""Declarations of variables and parameters, with initialisers."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from tiledsl.runtime.ptx_machine.lexer import Tokens, signed
from tiledsl.runtime.ptx_machine.opcodes import BITS, TYPE_CODES
from tiledsl.runtime.ptx_machine.syntax import Immediate, Parameter, Symbol, Variable

__all__ = ["SPACES", "parameters", "variables"]

SPACES = ("reg", "shared", "local", "global", "const", "param", "tex")
_OPAQUE = ("texref", "samplerref", "surfref")
_IGNORED = (".attribute", ".language")

# What an initialiser holds at an offset: a value, or the address of a symbol, of so many bytes.
_Bytes = list[tuple[int, Immediate | Symbol, int]]


def _type(tokens: Tokens) -> tuple[str, int]:
    """The type that the next token names, and its size in bytes."""
    name = tokens.peek()[1:]
    if name in _OPAQUE:
        tokens.take()
        return name, 8
    if name == "pred" or name not in TYPE_CODES:
        raise tokens.error(f"expected a type, got {tokens.peek()!r}")
    tokens.take()
    return name, BITS[TYPE_CODES[name]] // 8


def _attributes(tokens: Tokens) -> tuple[int, int]:
    """Alignment (0: none given) and number of vector elements, in any order."""
    align, lanes = 0, 1
    while True:
        token = tokens.peek()
        if token == ".align":
            tokens.take()
            align = tokens.integer()
            if align < 1 or align & (align - 1):
                raise tokens.error(f"an alignment is a power of two, got {align}")
        elif token in (".v2", ".v4", ".v8"):
            lanes = int(tokens.take()[2:])
        elif token in _IGNORED:
            tokens.take()
            tokens.expect("(")
            while not tokens.accept(")"):
                tokens.take()
        else:
            return align, lanes


def _lengths(tokens: Tokens) -> list[int | None]:
    """``[4][8]``; None for ``[]``."""
    lengths: list[int | None] = []
    while tokens.accept("["):
        if tokens.accept("]"):
            lengths.append(None)
            continue
        length = tokens.integer()
        if length < 0:
            raise tokens.error(f"an array of {length} elements")
        lengths.append(length)
        tokens.expect("]")
    return lengths


def variables(
    tokens: Tokens, space: str, extern: bool, rename: Callable[[str], str]
) -> list[tuple[str, Variable]]:
    """The declaration behind ``.shared``, ``.global``..., to its ``;``: names in the text, and what
    they stand for."""
    align, lanes = _attributes(tokens)
    kind, size = _type(tokens)
    more_align, more_lanes = _attributes(tokens)
    align, lanes = align or more_align, lanes * more_lanes
    found = []
    while True:
        text = tokens.name()
        lengths = _lengths(tokens)
        initial: bytes | None = None
        pointers: tuple[tuple[int, Symbol], ...] = ()
        shape = [*lengths, *([lanes] if lanes > 1 else [])]
        if tokens.accept("="):
            values: _Bytes = []
            taken = _initialiser(tokens, shape, size, values, 0)
            if shape and shape[0] is None:
                shape[0] = taken
            if any(length is None for length in shape[1:]):
                raise tokens.error(f"{text}: only the first length of an array may be left out")
            initial, pointers = _image(tokens, values, size * _product(shape), kind)
        number = 0 if any(length is None for length in shape) else _product(shape)
        made = Variable(
            rename(text),
            space,
            kind,
            align or size * lanes,
            size * number,
            initial,
            pointers,
            extern,
        )
        found.append((text, made))
        if tokens.accept(";"):
            return found
        tokens.expect(",")


def _product(lengths: list[int | None]) -> int:
    product = 1
    for length in lengths:
        product *= length or 0
    return product


def _initialiser(
    tokens: Tokens, shape: list[int | None], size: int, values: _Bytes, offset: int
) -> int:
    """One level of an initialiser, at an offset in bytes; how many elements of it were given."""
    if not tokens.accept("{"):
        values.append((offset, *_value(tokens, size)))
        return 1
    if not shape:
        taken = _initialiser(tokens, shape, size, values, offset)  # `{5}` for a scalar
        tokens.expect("}")
        return taken
    count, step = 0, size * _product(shape[1:])
    while not tokens.accept("}"):
        if shape[0] is not None and count >= shape[0]:
            raise tokens.error(f"more than {shape[0]} values for an array of {shape[0]}")
        if tokens.peek() == "{" or len(shape) == 1:
            _initialiser(tokens, shape[1:], size, values, offset + count * step)
        else:  # a flat list for an array of arrays
            return _flat(tokens, shape, size, values, offset)
        count += 1
        if tokens.peek() != "}":
            tokens.expect(",")
    return count


def _flat(tokens: Tokens, shape: list[int | None], size: int, values: _Bytes, offset: int) -> int:
    count = 0
    while not tokens.accept("}"):
        values.append((offset + count * size, *_value(tokens, size)))
        count += 1
        if tokens.peek() != "}":
            tokens.expect(",")
    inner = _product(shape[1:])
    return -(-count // inner)


def _value(tokens: Tokens, size: int) -> tuple[Immediate | Symbol, int]:
    """A constant, or ``symbol``, ``generic(symbol)+4``, ``0xFF00(symbol)``; the last is one byte
    of an address: size -1 for its lowest, -2 for the next, and so on."""
    if re.match(r"[A-Za-z_$%]", tokens.peek()):
        return _symbol(tokens), size
    value = tokens.constant()
    if tokens.peek() != "(":
        return value, size
    tokens.expect("(")
    symbol = _symbol(tokens)
    tokens.expect(")")
    place = value.bits.bit_length() // 8
    if value.bits != 0xFF << (8 * (place - 1)):
        raise tokens.error(f"{value.bits:#x} is no mask of one byte of an address")
    return symbol, -place


def _symbol(tokens: Tokens) -> Symbol:
    name = tokens.name()
    if name == "generic" and tokens.accept("("):
        inner = _symbol(tokens)
        tokens.expect(")")
        name, offset = inner.name, inner.offset
    else:
        offset = 0
    if tokens.peek() in ("+", "-"):
        sign = 1 if tokens.take() == "+" else -1
        offset += sign * tokens.integer()
    return Symbol(name, offset)


def _image(
    tokens: Tokens, values: _Bytes, total: int, kind: str
) -> tuple[bytes, tuple[tuple[int, Symbol], ...]]:
    image = bytearray(total)
    pointers: dict[int, Symbol] = {}
    parts: dict[int, int] = {}  # bytes of an address that stand one by one
    for offset, value, size in values:
        if isinstance(value, Symbol):
            start = offset if size > 0 else offset + size + 1
            if size < 0:
                if pointers.setdefault(start, value) != value:
                    raise tokens.error(f"parts of several addresses at byte {start}")
                parts[start] = parts.get(start, 0) | 1 << (-size - 1)
            elif size in (4, 8):
                pointers[start] = value
            else:
                raise tokens.error(f"an address in {size} bytes")
            if start + (8 if size < 0 else size) > total:
                raise tokens.error("an address beyond the end of the variable")
        elif offset + size > total:
            raise tokens.error("more values than the variable has elements")
        else:
            image[offset : offset + size] = _encoded(tokens, value, kind, size)
    if any(bits != 0xFF for bits in parts.values()):
        raise tokens.error("an address of which some bytes are missing")
    return bytes(image), tuple(sorted(pointers.items()))


def _encoded(tokens: Tokens, value: Immediate, kind: str, size: int) -> bytes:
    if value.kind == "int":
        if kind in ("f32", "f64"):
            number = float(signed(value.bits))
            return struct.pack("<f" if kind == "f32" else "<d", number)
        return (value.bits & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
    wanted = {4: "f32", 8: "f64"}.get(size)
    if wanted is None or kind[0] not in "fb":
        raise tokens.error(f"a floating-point constant in a variable of type .{kind}")
    if value.kind == wanted:
        return value.bits.to_bytes(size, "little")
    from tiledsl.runtime.ptx_machine.constants import bits_as

    return bits_as(value, wanted).to_bytes(size, "little")


def parameters(tokens: Tokens) -> tuple[Parameter, ...]:
    """``(.param .b64 a, .param .align 8 .b8 b[16])``, behind the opening bracket."""
    found: list[Parameter] = []
    offset = 0
    while not tokens.accept(")"):
        if found:
            tokens.expect(",")
        space = tokens.peek()[1:]
        if space not in ("param", "reg"):
            raise tokens.error(f"expected .param or .reg, got {tokens.peek()!r}")
        tokens.take()
        align, lanes = _attributes(tokens)
        if space == "reg" and tokens.accept(".pred"):
            found.append(Parameter(tokens.name(), "pred", 1, 1, 0, "reg"))
            continue
        kind, size = _type(tokens)
        if tokens.accept(".ptr"):
            # The alignment of what the pointer points to, not of the parameter.
            while tokens.peek() in (".global", ".shared", ".const", ".local", ".param"):
                tokens.take()
            _attributes(tokens)
        more_align, _ = _attributes(tokens)
        align = align or more_align
        name = tokens.name()
        lengths = _lengths(tokens)
        number = lanes * (0 if None in lengths else _product(lengths))
        align = align or size * lanes
        offset = -(-offset // align) * align
        found.append(Parameter(name, kind, align, size * number, offset, space))
        offset += size * number
    return tuple(found)
