"""The text that the GPU's ``printf`` makes, made in Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d*)(?:\.(?P<precision>\d*))?"
    r"(?P<length>hh|h|ll|l)?(?P<kind>[diouxXfFeEgGc%])"
)
_BITS = {"hh": 8, "h": 16, None: 32, "l": 64, "ll": 64}


def compile_template(template: str) -> tuple[Callable[[Sequence[Any]], str], int]:
    """The function from values to text, and the number of values it takes.

    Raises:
        ValueError: for a conversion that does not exist.
    """
    pieces: list[str | Callable[[Any], str]] = []
    end = 0
    while end < len(template):
        start = template.find("%", end)
        if start < 0:
            break
        pieces.append(template[end:start])
        found = _CONVERSION.match(template, start)
        if found is None:
            raise ValueError(f"no printf conversion at {template[start:]!r}")
        pieces.append("%" if found["kind"] == "%" else _conversion(found))
        end = found.end()
    pieces.append(template[end:])
    count = sum(callable(piece) for piece in pieces)

    def text(values: Sequence[Any]) -> str:
        given = iter(values)
        return "".join(p if isinstance(p, str) else p(next(given)) for p in pieces)

    return text, count


def _conversion(found: re.Match[str]) -> Callable[[Any], str]:
    kind = found["kind"]
    precision = "" if found["precision"] is None else f".{found['precision'] or 0}"
    flags = found["flags"]
    if kind in "diuoxX" and precision:
        flags = flags.replace("0", "")  # as in C: a precision says how many digits
    head = f"%{flags}{found['width']}{precision}"
    if kind in "fFeEgG":
        return lambda value: f"{head}{kind}" % float(value)
    if kind == "c":
        return lambda value: f"{head}c" % chr(int(value) & 0xFF)
    modulus = 1 << _BITS[found["length"]]

    def integer(value: Any) -> str:
        number = int(value) % modulus
        if kind in "di" and number >= modulus // 2:
            number -= modulus
        if kind == "o" and "#" in flags:  # Python would write 0o17
            return f"%{flags.replace('#', '')}{found['width']}s" % f"0{number:o}"
        if kind in "xX" and "#" in flags and number == 0:
            return f"%{flags.replace('#', '')}{found['width']}{precision}{kind}" % number
        return f"{head}{'d' if kind in 'diu' else kind}" % number

    return integer
