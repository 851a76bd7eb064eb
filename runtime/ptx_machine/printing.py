"""What ``printf`` of a kernel printed: the host's half of ``vprintf``.

The interpreter keeps the arguments as they lie in memory (core/control.py), since only the format
says how many they are. C promotes them: an int has 4 bytes, a long long, a double and a pointer 8,
each aligned to its size.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.isa.control_ops import (
    PRINT_ARGUMENTS,
    PRINT_BYTES,
    PRINT_FORMAT,
    PRINT_WORDS,
)

__all__ = ["format_text", "new_records", "texts"]

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t)?(?P<kind>[diouxXfFeEgGaAcspn%])"
)
_LONG = ("l", "ll", "j", "z", "t")
_NARROW = {"hh": 8, "h": 16}


def new_records(limit: int) -> np.ndarray[Any, Any]:
    """Room for so many calls: what ``M.prints`` points to, with ``M.prints_limit``."""
    return np.zeros((limit, PRINT_WORDS), np.int64)


def texts(records: np.ndarray[Any, Any], count: int, string: Callable[[int], bytes]) -> list[str]:
    """The texts of the first ``count`` calls.

    Args:
        records: from ``new_records``.
        count: ``M.printed``.
        string: reads a string of C at an address of the machine, without its NUL.
    """
    found = []
    for record in records[:count]:
        size = int(record[PRINT_BYTES])
        arguments = record[PRINT_ARGUMENTS:].tobytes()[:size]
        found.append(format_text(string(int(record[PRINT_FORMAT])), arguments, string))
    return found


class _Arguments:
    """Takes values from the bytes of a call."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, code: str, size: int) -> Any:
        start = -(-self.place // size) * size
        self.place = start + size
        piece = self.data[start : self.place].ljust(size, b"\0")
        return struct.unpack("<" + code, piece)[0]


def format_text(template: bytes, data: bytes, string: Callable[[int], bytes]) -> str:
    """``template`` with the values that lie in ``data``; what is no conversion stays."""
    arguments = _Arguments(data)

    def replace(match: re.Match[str]) -> str:
        return _conversion(match, arguments, string)

    return _CONVERSION.sub(replace, template.decode("utf-8", "replace"))


def _conversion(match: re.Match[str], arguments: _Arguments, string: Callable[[int], bytes]) -> str:
    kind, flags, length = match["kind"], match["flags"], match["length"]
    if kind == "%":
        return "%"
    width = str(arguments.take("i", 4)) if match["width"] == "*" else match["width"]
    precision = match["precision"]
    if precision == "*":
        precision = str(arguments.take("i", 4))
    if width.startswith("-"):
        flags, width = flags + "-", width[1:]
    spec = f"%{flags}{width}" + (f".{precision or 0}" if precision is not None else "")
    if kind in "di":
        value = arguments.take("q", 8) if length in _LONG else arguments.take("i", 4)
        bits = _NARROW.get(length or "", 0)
        if bits:
            value = (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        return f"{(spec + 'd') % value}"
    if kind in "ouxX":
        value = arguments.take("Q", 8) if length in _LONG else arguments.take("I", 4)
        value %= 1 << _NARROW.get(length or "", 64)
        text: str = (spec + kind.replace("u", "d")) % value
        return text.replace("0o", "0") if kind == "o" else text
    if kind in "fFeEgG":
        return f"{(spec + kind) % arguments.take('d', 8)}"
    if kind in "aA":
        hexadecimal = float.hex(arguments.take("d", 8))
        return (f"%{flags}{width}s") % (hexadecimal.upper() if kind == "A" else hexadecimal)
    if kind == "c":
        return (f"%{flags}{width}s") % chr(arguments.take("i", 4) & 0xFF)
    if kind == "s":
        address = arguments.take("Q", 8)
        text = string(address).decode("utf-8", "replace") if address else "(null)"
        return (spec + "s") % text
    address = arguments.take("Q", 8)
    return (f"%{flags}{width}s") % f"{address:#x}" if kind == "p" else ""
