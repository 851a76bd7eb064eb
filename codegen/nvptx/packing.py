"""Neighbouring elements of register tiles as the words that wide loads and stores move."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.nvptx.casts import as_bits, as_word, from_bits
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I8, I16, I32
from tiledsl.codegen.nvptx.values import LLVM_TYPES, RegisterTile


def words(low: Lowering, tile: RegisterTile) -> list[Any]:
    """Neighbouring 16-bit elements as 32-bit words, the first in the lower half."""
    builder = low.builder
    if tile.pairs is not None:
        return [builder.bitcast(pair, I32) for pair in tile.pairs]
    halves = [builder.zext(as_bits(low, e, tile.dtype), I32) for e in tile.unpack(builder)]
    return [
        builder.or_(first, builder.shl(second, I32(16)))
        for first, second in zip(halves[0::2], halves[1::2], strict=True)
    ]


def from_words(low: Lowering, found: list[Any], dtype: DType) -> RegisterTile:
    """The tile whose 16-bit elements these 32-bit words hold."""
    kind = ir.VectorType(LLVM_TYPES[dtype], 2)
    return RegisterTile(dtype, pairs=[low.builder.bitcast(word, kind) for word in found])


def byte_pairs(low: Lowering, tile: RegisterTile) -> list[Any]:
    """Neighbouring bytes as 16-bit words, the first in the lower half."""
    builder = low.builder
    if tile.pairs is not None:
        return tile.pairs
    found = [builder.zext(as_bits(low, e, tile.dtype), I16) for e in tile.unpack(builder)]
    return [
        builder.or_(first, builder.shl(second, I16(8)))
        for first, second in zip(found[0::2], found[1::2], strict=True)
    ]


def from_byte_pairs(low: Lowering, found: list[Any], dtype: DType) -> RegisterTile:
    """The tile whose 8-bit elements these 16-bit words hold."""
    if dtype.kind != "bool":
        return RegisterTile(dtype, pairs=found)
    builder, elements = low.builder, []
    for pair in found:
        halves = (pair, builder.lshr(pair, I16(8)))
        elements += [from_bits(low, builder.trunc(half, I8), dtype) for half in halves]
    return RegisterTile(dtype, elements)


def register(dtype: DType) -> tuple[str, Any]:
    """Constraint and LLVM type of the register in which memory instructions move one element.

    PTX has no 8-bit registers: bytes move through 16-bit ones.
    """
    if dtype.bits <= 16:
        return "h", I16
    if dtype.is_float:
        return ("f" if dtype.bits == 32 else "d"), LLVM_TYPES[dtype]
    return ("r" if dtype.bits == 32 else "l"), LLVM_TYPES[dtype]


def to_registers(low: Lowering, tile: RegisterTile) -> list[Any]:
    """The elements of a tile as the registers of ``register``."""
    dtype, builder = tile.dtype, low.builder
    if dtype.bits > 16 or tile.pairs is None:
        return [to_register(low, e, dtype) for e in tile.unpack(builder)]
    if dtype.bits == 8:  # a store of one byte takes the lower one
        return [half for pair in tile.pairs for half in (pair, builder.lshr(pair, I16(8)))]
    halves = [(word, builder.lshr(word, I32(16))) for word in words(low, tile)]
    return [builder.trunc(half, I16) for pair in halves for half in pair]


def to_register(low: Lowering, value: Any, dtype: DType) -> Any:
    """An element as the register of ``register``."""
    return as_word(low, value, dtype) if dtype.bits <= 16 else value


def from_register(low: Lowering, value: Any, dtype: DType) -> Any:
    """An element out of the register of ``register``."""
    if dtype.bits > 16:
        return value
    return from_bits(low, low.builder.trunc(value, I8) if dtype.bits == 8 else value, dtype)


def store_pairs(low: Lowering, tile: RegisterTile) -> tuple[str, list[list[tuple[str, Any]]]]:
    """What a store of two neighbours is called behind its state space, and its operands a pair.

    ``("v2.b32 [$0], {$1, $2}", ...)``: operand 0 is the address.
    """
    dtype = tile.dtype
    if dtype.bits == 8:
        return "b16 [$0], $1", [[("h", pair)] for pair in byte_pairs(low, tile)]
    if dtype.bits == 16:
        return "b32 [$0], $1", [[("r", word)] for word in words(low, tile)]
    constraint, _ = register(dtype)
    elements = tile.unpack(low.builder)
    return f"v2.b{dtype.bits} [$0], {{$1, $2}}", [
        [(constraint, first), (constraint, second)]
        for first, second in zip(elements[0::2], elements[1::2], strict=True)
    ]


def load_pair(dtype: DType) -> tuple[str, str, Any]:
    """What a load of two neighbours is called behind its state space, and what it gives.

    Opcode and outputs (``"v2.b32 {$0, $1}"``), their constraints, and the LLVM type of the result:
    one word for 8 and 16 bits, else a struct of two.
    """
    if dtype.bits == 8:
        return "b16 $0", "=h", I16
    if dtype.bits == 16:
        return "b32 $0", "=r", I32
    constraint, kind = register(dtype)
    outputs = f"={constraint},={constraint}"
    return f"v2.b{dtype.bits} {{$0, $1}}", outputs, ir.LiteralStructType([kind, kind])


def registers_of(low: Lowering, pairs: list[Any], dtype: DType) -> list[Any]:
    """The registers of pairs that were loaded as ``load_pair`` says.

    One for two neighbours of 8 or 16 bits, else one an element.
    """
    if dtype.bits <= 16:
        return pairs
    extract = low.builder.extract_value
    return [extract(pair, half) for pair in pairs for half in (0, 1)]


def joined(low: Lowering, first: Any, second: Any, dtype: DType) -> list[Any]:
    """The same registers of two neighbours that were loaded one by one (see ``register``)."""
    builder = low.builder
    if dtype.bits == 8:
        return [builder.or_(first, builder.shl(second, I16(8)))]
    if dtype.bits == 16:
        halves = builder.zext(first, I32), builder.zext(second, I32)
        return [builder.or_(halves[0], builder.shl(halves[1], I32(16)))]
    return [first, second]


def from_registers(low: Lowering, found: list[Any], dtype: DType) -> RegisterTile:
    """The tile whose elements these registers hold (see ``registers_of``)."""
    if dtype.bits == 8:
        return from_byte_pairs(low, found, dtype)
    if dtype.bits == 16:
        return from_words(low, found, dtype)
    return RegisterTile(dtype, found)


def from_pairs(low: Lowering, pairs: list[Any], dtype: DType) -> RegisterTile:
    """The tile whose pairs of neighbours were loaded as ``load_pair`` says."""
    return from_registers(low, registers_of(low, pairs, dtype), dtype)
