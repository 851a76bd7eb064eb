"""The text that the GPU's ``printf`` makes, made in Python."""

from __future__ import annotations

import math
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
    """The function from a value to its text, for one conversion."""
    kind, flags = found["kind"], found["flags"]
    width = int(found["width"] or 0)
    precision = None if found["precision"] is None else int(found["precision"] or 0)

    def padded(sign: str, body: str, *, zeros: bool) -> str:
        if "-" in flags:
            return (sign + body).ljust(width)
        if "0" in flags and zeros:
            return sign + body.rjust(width - len(sign), "0")
        return (sign + body).rjust(width)

    def signed(negative: bool) -> str:
        return "-" if negative else "+" if "+" in flags else " " if " " in flags else ""

    def floating(value: Any) -> str:
        number = float(value)
        alternate = "#" if "#" in flags else ""
        body = f"%{alternate}.{6 if precision is None else precision}{kind}" % abs(number)
        sign = signed(math.copysign(1.0, number) < 0)
        return padded(sign, body, zeros=math.isfinite(number))

    def integer(value: Any) -> str:
        modulus = 1 << _BITS[found["length"]]
        number = int(value) % modulus
        sign = ""
        if kind in "di":
            if number >= modulus // 2:
                number -= modulus
            sign = signed(number < 0)
        body = format(abs(number), "d" if kind in "diu" else kind)
        if precision is not None:
            body = "" if number == 0 and precision == 0 else body.rjust(precision, "0")
        if "#" in flags and kind == "o" and not body.startswith("0"):
            body = "0" + body
        if "#" in flags and kind in "xX" and number:
            sign = f"0{kind}"
        return padded(sign, body, zeros=precision is None)

    if kind == "c":
        return lambda value: padded("", chr(int(value) & 0xFF), zeros=False)
    return floating if kind in "fFeEgG" else integer
