"""``td.print``: compile-time text and run-time numbers become one printf template."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import tile
from tiledsl.codegen.ir.types import Scalar
from tiledsl.frontend.aggregates import contains_value
from tiledsl.frontend.intrinsics.arguments import static_text
from tiledsl.frontend.intrinsics.scalars import convert
from tiledsl.frontend.objects import FormatPart, FormatString, TracedObject
from tiledsl.frontend.registry import implements
from tiledsl.language import debug as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

MAX_VALUES = 32  # that the printf of the GPU takes
_SPEC = re.compile(
    r"(?P<align>[<>])?(?P<sign>[ +-])?(?P<zero>0)?(?P<width>[1-9]\d*)?"
    r"(?:\.(?P<precision>\d+))?(?P<type>[dxXoeEfFgG])?"
)
_LEGAL = "[<>][+ -][0][width][.precision][d x X o e E f F g G]"


@implements(language.print)
def print_(cx: Context, *values: object, sep: object = " ", end: object = "\n") -> None:
    line = _Line(cx)
    between = static_text(cx, " " if sep is None else sep, "td.print: sep")
    for number, value in enumerate(values):
        if number:
            line.text(between)
        line.value(value)
    line.text(static_text(cx, "\n" if end is None else end, "td.print: end"))
    if len(line.values) > MAX_VALUES:
        raise cx.value_error(
            f"td.print: expected at most {MAX_VALUES} run-time values in one call, got"
            f" {len(line.values)}",
            hint="split it into several calls",
        )
    if line.template:
        cx.add(tile.Print(line.template, tuple(line.values)))


class _Line:
    """The template as far as it is made, and its values."""

    def __init__(self, cx: Context) -> None:
        self.cx = cx
        self.template = ""
        self.values: list[Value] = []

    def text(self, text: str) -> None:
        if "\0" in text:
            raise self.cx.value_error("td.print: a NUL character would end the text on the GPU")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise self.cx.value_error(f"td.print: the text has no UTF-8 form: {error}") from None
        self.template += text.replace("%", "%%")

    def value(self, value: object, *, inside: bool = False) -> None:
        """Append one argument; ``inside`` of a tuple strings print with quotes, as in Python."""
        if isinstance(value, Value):
            self.number(value, "")
        elif isinstance(value, FormatString):
            self.format_string(value)
        elif isinstance(value, tuple) and type(value) is tuple:
            self.sequence(value, "(", ",)" if len(value) == 1 else ")")
        elif isinstance(value, list):
            self.sequence(tuple(value), "[", "]")
        elif isinstance(value, dict) and type(value) is dict:
            self.mapping(value)
        elif isinstance(value, TracedObject) or contains_value(value):
            raise self.cx.type_error(f"td.print: {self.cx.describe(value)} has no text to print")
        else:
            self.text(repr(value) if inside else str(value))

    def sequence(self, values: tuple[object, ...], begin: str, end: str) -> None:
        self.text(begin)
        for number, value in enumerate(values):
            if number:
                self.text(", ")
            self.value(value, inside=True)
        self.text(end)

    def mapping(self, items: dict[object, object]) -> None:
        self.text("{")
        for number, (key, value) in enumerate(items.items()):
            self.text((", " if number else "") + f"{key!r}: ")
            self.value(value, inside=True)
        self.text("}")

    def format_string(self, string: FormatString) -> None:
        for part in string.parts:
            if isinstance(part, FormatPart):
                # `f"{x=}"` asks for `!r`, which is the number itself unless its text is formatted.
                if part.conversion and part.spec:
                    raise self.cx.value_error(
                        f"td.print: the GPU cannot format the text of a run-time value, which"
                        f" `!{part.conversion}:{part.spec}` asks for",
                        hint="leave the conversion out",
                    )
                self.number(part.value, part.spec)
            else:
                self.text(part)

    def number(self, value: Value, spec: str) -> None:
        if not isinstance(value.type, Scalar):
            raise self.cx.type_error(
                f"td.print: expected scalars and text, got {self.cx.describe(value)}"
            )
        conversion, dtype = _conversion(self.cx, spec, value.type.dtype)
        self.template += conversion
        self.values.append(convert(self.cx, value, dtype))


def _conversion(cx: Context, spec: str, dtype: DType) -> tuple[str, DType]:
    """The printf conversion for a format specification, and the dtype that it prints."""
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise _no_format(cx, spec, f"expected {_LEGAL}")
    kind = match["type"] or ("g" if dtype.is_float else "d")
    if dtype.is_float and kind in "dxXo":
        raise _no_format(cx, spec, f"{kind!r} is for integers, and the value is {dtype}")
    if kind in "dxXo" and match["precision"]:
        raise _no_format(cx, spec, "a precision is for floats")
    if match["align"] == "<" and match["zero"]:
        raise _no_format(cx, spec, "zeros cannot fill on the right")
    flags = "-" if match["align"] == "<" else ""
    flags += match["sign"] if match["sign"] in ("+", " ") else ""
    flags += "0" if match["zero"] and match["align"] is None else ""
    if match["zero"] and match["align"] == ">":
        raise _no_format(cx, spec, "write the 0 without '>'")
    precision = f".{match['precision']}" if match["precision"] else ""
    if kind not in "dxXo":
        wide = dtype if dtype.is_float else dtypes.float64  # {i:.2f} of an integer, as in Python
        return f"%{flags}{match['width'] or ''}{precision}{kind}", wide
    printed = _unsigned(dtype) if kind in "xXo" else dtype
    long = "ll" if dtype.bits == 64 else ""
    letter = "u" if kind == "d" and dtype.kind == "uint" else kind
    return f"%{flags}{match['width'] or ''}{long}{letter}", printed


def _unsigned(dtype: DType) -> DType:
    """Hexadecimal and octal show the bits of a negative number at its own width."""
    return dtypes.as_dtype(f"u{dtype.name}") if dtype.kind == "int" else dtype


def _no_format(cx: Context, spec: str, why: str) -> Exception:
    return cx.value_error(f"td.print: the GPU cannot format with {spec!r}: {why}")
