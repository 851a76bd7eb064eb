"""Operands of probes: deterministic, whatever the NumPy version, with all the special values.

Kinds: ``i8 i16 i32 i64`` integers; ``f16 bf16 f32 f64 tf32 e4m3 e5m2`` bits of numbers;
``f16x2``, ``e4m3x4`` and the like, several in one; ``u:K`` integers below K; ``p`` predicates;
``tiny:F`` whole numbers of at most 4 in format F; ``near:F`` numbers of about 1; ``fma:F`` often
near minus the product of the two columns before; ``=V`` always V; ``lane`` the thread's number.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["FORMATS", "column", "random_bits"]

Array = np.ndarray[Any, Any]

# Bits of the exponent and of the fraction.
FORMATS = {
    "f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "tf32": (8, 23),
    "e4m3": (4, 3), "e5m2": (5, 2),
}  # fmt: skip
_PACKED = re.compile(r"(f16|bf16|e4m3|e5m2|i8|i16)x(\d)")


def random_bits(key: str, count: int) -> Array:
    """``count`` random uint64 that depend on the key alone (SplitMix64)."""
    seed = np.uint64(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little"))
    with np.errstate(over="ignore"):
        x = seed + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _below(key: str, count: int, limit: int) -> Array:
    return (random_bits(key, count) >> np.uint64(11)) % np.uint64(limit)


def _mask(bits: int) -> np.uint64:
    return np.uint64((1 << bits) - 1)


def integers(key: str, count: int, bits: int) -> Array:
    """Of all sizes, with the ends of the range and powers of two."""
    how = _below(key + "?how", count, 8)
    value = random_bits(key, count)
    sized = value >> (np.uint64(64 - bits) + _below(key + "?size", count, bits))
    small = _below(key + "?small", count, 9)
    power = np.uint64(1) << _below(key + "?power", count, bits)
    special = np.array(
        [0, 1, -1, 1 << (bits - 1), (1 << (bits - 1)) - 1, -2, 2, (1 << (bits // 2)) - 1],
        dtype=object,
    )
    table = np.array([int(v) & int(_mask(bits)) for v in special], dtype=np.uint64)
    with np.errstate(over="ignore"):
        choices = [value, value, value, sized, sized, np.uint64(0) - small, small,
                   power + _below(key + "?one", count, 3) - np.uint64(1)]  # fmt: skip
        result = np.choose(how.astype(np.int64), choices)
    ends = _below(key + "?end", count, 6) == 0
    result = np.where(ends, table[small.astype(np.int64) % len(table)], result)
    return np.asarray(result & _mask(bits))


def _bits_of(kind: str) -> int:
    return sum(FORMATS[kind]) + 1 if kind in FORMATS else int(kind[1:])


def _assembled(sign: Array, exponent: Array, fraction: Array, ebits: int, mbits: int) -> Array:
    shifted = sign << np.uint64(ebits + mbits) | exponent << np.uint64(mbits)
    return np.asarray(shifted | fraction & _mask(mbits))


def _specials(ebits: int, mbits: int) -> Array:
    top = (1 << ebits) - 1
    size = [
        0, 1, 2, (1 << mbits) - 1, 1 << mbits, (1 << mbits) + 1,  # zero, smallest, around normal
        (top << mbits) - 1, (top << mbits) - 2, top << mbits,  # greatest, infinity
        (top << mbits) | 1, (top << mbits) | (1 << (mbits - 1)),
        (top << mbits) | ((1 << mbits) - 1),
        (top >> 1) << mbits, ((top >> 1) << mbits) + 1, ((top >> 1) << mbits) - 1,  # 1 and near
        ((top >> 1) + 1) << mbits, ((top >> 1) - 1) << mbits,
    ]  # fmt: skip
    sign = 1 << (ebits + mbits)
    return np.array([s | part for s in size for part in (0, sign)], dtype=np.uint64)


def floats(key: str, count: int, name: str, *, near: bool = False) -> Array:
    """Bits of any number, of numbers near 1, of short ones (ties), subnormal and special ones."""
    ebits, mbits = FORMATS[name]
    bias = (1 << (ebits - 1)) - 1
    how = _below(key + "?how", count, 8)
    value = random_bits(key, count)
    sign = value >> np.uint64(63)
    spread = min(8, bias - 1)
    close = np.uint64(bias - spread) + _below(key + "?exp", count, 2 * spread + 1)
    fraction = random_bits(key + "?frac", count)
    ordinary = _assembled(sign, close, fraction, ebits, mbits)
    cut = _below(key + "?cut", count, mbits + 1)
    short = _assembled(sign, close, (fraction >> cut) << cut, ebits, mbits)
    if near:
        return np.where(how < 5, ordinary, short)
    edge = _below(key + "?edge", count, 6)
    extreme = np.where(edge < 3, edge, np.uint64((1 << ebits) - 5) + edge)
    rim = _assembled(sign, extreme, fraction, ebits, mbits)
    table = _specials(ebits, mbits)
    special = table[_below(key + "?special", count, len(table)).astype(np.int64)]
    anything = value & _mask(ebits + mbits + 1)
    choices = [anything, ordinary, ordinary, ordinary, short, short, rim, special]
    return np.choose(how.astype(np.int64), choices)


def as_numbers(codes: Array, name: str) -> Array:
    """float64 of f16, bf16, f32 or f64 bits."""
    if name == "f64":
        return codes.view(np.float64)
    if name == "f16":
        return codes.astype(np.uint16).view(np.float16).astype(np.float64)
    shift = 16 if name == "bf16" else 0
    return (codes.astype(np.uint32) << np.uint32(shift)).view(np.float32).astype(np.float64)


def as_bits(numbers: Array, name: str) -> Array:
    """uint64 of the bits nearest to float64 numbers; bf16 cut off."""
    with np.errstate(over="ignore", invalid="ignore"):
        if name == "f64":
            return numbers.astype(np.float64).view(np.uint64)
        if name == "f16":
            return numbers.astype(np.float16).view(np.uint16).astype(np.uint64)
        bits = numbers.astype(np.float32).view(np.uint32)
    return (bits >> np.uint32(16 if name == "bf16" else 0)).astype(np.uint64)


def _cancelling(key: str, count: int, name: str, before: Sequence[Array]) -> Array:
    """For a third of the lanes c near -a * b, by a few units."""
    any_ = floats(key, count, name)
    with np.errstate(over="ignore", invalid="ignore"):
        product = -(as_numbers(before[-2], name) * as_numbers(before[-1], name))
    size = sum(FORMATS[name]) + 1
    near = (as_bits(product, name) + _below(key + "?ulp", count, 5) - np.uint64(2)) & _mask(size)
    return np.where(_below(key + "?cancel", count, 3) == 0, near, any_)


def column(kind: str, key: str, count: int, before: Sequence[Array] = ()) -> Array:
    """The operand of every thread, uint64 [count], zero-extended."""
    head, _, rest = kind.partition(":")
    if kind.startswith("="):
        return np.full(count, int(kind[1:], 0), dtype=np.uint64)
    if kind == "lane":
        return np.arange(count, dtype=np.uint64)
    if kind == "p":
        return _below(key, count, 2)
    if head == "u":
        return _below(key, count, int(rest, 0))
    if head == "fma":
        half = {"f16x2": "f16", "bf16x2": "bf16"}.get(rest)
        if half is None:
            return _cancelling(key, count, rest, before)
        low, high = ([(c >> np.uint64(s)) & _mask(16) for c in before] for s in (0, 16))
        lower = _cancelling(key + "?low", count, half, low)
        upper = _cancelling(key + "?high", count, half, high)
        return np.asarray(lower | upper << np.uint64(16))
    packed = _PACKED.fullmatch(rest or head)
    if packed and (rest == "" or head in ("tiny", "near")):
        inner = f"{head}:{packed[1]}" if rest else packed[1]
        bits = _bits_of(packed[1])
        value = np.zeros(count, np.uint64)
        for k in range(int(packed[2])):
            part = column(inner, f"{key}?{k}", count) & _mask(bits)
            value |= part << np.uint64(bits * k)
        return value
    if head == "near":
        return floats(key, count, rest, near=True)
    if head == "tiny":
        whole = _below(key, count, 9).astype(np.float64) - 4.0
        if rest[0] == "i":
            return whole.astype(np.int64).astype(np.uint64) & _mask(int(rest[1:]))
        if rest in ("e4m3", "e5m2"):
            # Whole numbers of at most 4 in size: signs, exponents, one bit of fraction.
            ebits, mbits = FORMATS[rest]
            bias = (1 << (ebits - 1)) - 1
            size = np.abs(whole).astype(np.int64)
            table = np.array(
                [0, bias << mbits, (bias + 1) << mbits, ((bias + 1) << mbits) | (1 << (mbits - 1)),
                 (bias + 2) << mbits], dtype=np.uint64)  # fmt: skip
            sign = (whole < 0).astype(np.uint64) << np.uint64(ebits + mbits)
            return table[size] | sign
        return as_bits(whole, "f32" if rest == "tf32" else rest)
    if head in FORMATS:
        return floats(key, count, head)
    return integers(key, count, int(head[1:]))
