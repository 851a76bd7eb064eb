"""Immediates as the bits of a type."""

from __future__ import annotations

import math
import struct

from tiledsl.runtime.ptx_machine.opcodes import BITS, TYPE_CODES
from tiledsl.runtime.ptx_machine.syntax import Immediate

__all__ = ["bits_as"]

_FLOATS = ("f32", "f64")


def bits_as(immediate: Immediate, type: str) -> int:
    """The bits of an immediate that is read as ``type``.

    Raises:
        ValueError: it is of another kind.
    """
    width = BITS[TYPE_CODES[type]]
    if type == "pred":
        return int(immediate.bits != 0)
    if immediate.kind == "int" and type[0] in "bus" and type[:2] != "bf":
        return immediate.bits & ((1 << width) - 1)  # ptxas, too, cuts off what does not fit
    if immediate.kind == "int":
        raise ValueError(f"an integer constant where a value of type .{type} must be")
    if type in _FLOATS:
        return immediate.bits if type == immediate.kind else _converted(immediate, type)
    if type[0] == "b" and width == BITS[TYPE_CODES[immediate.kind]]:
        return immediate.bits
    raise ValueError(f"a floating-point constant where one of type .{type} must be")


def _converted(immediate: Immediate, type: str) -> int:
    """An f32 as f64, or an f64 rounded to f32."""
    if type == "f64":
        (value,) = struct.unpack("<f", immediate.bits.to_bytes(4, "little"))
        return int.from_bytes(struct.pack("<d", value), "little")
    (value,) = struct.unpack("<d", immediate.bits.to_bytes(8, "little"))
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", math.copysign(math.inf, value))
    return int.from_bytes(packed, "little")
