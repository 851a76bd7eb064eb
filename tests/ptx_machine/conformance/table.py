"""Probes of one instruction each, from short lines.

``add.s32 x,a,b | r:i32 r:i32 | r`` is a probe whose body is ``add.s32 %x, %a, %b;``, whose operands
are of class r and kind i32, and whose result is one register r. Without ``;`` at the end of its
first part it is one instruction; otherwise it stands as it is.
"""

from __future__ import annotations

import re
from typing import Any

from tests.ptx_machine.conformance.probe import Probe

_SHORT = re.compile(r"(?<![\w.%])([a-hxyzuvw])(?![\w.:])")


def one(line: str, **options: Any) -> Probe:
    """The probe of a line."""
    text, operands, results = (part.strip() for part in line.rsplit("| ", 2))
    opcode, _, rest = text.partition(" ")
    named = _SHORT.sub(r"%\1", rest)
    body = text if text.endswith(";") else f"{opcode} {named};"
    pairs = tuple((w.partition(":")[0], w.partition(":")[2]) for w in operands.split())
    return Probe(options.pop("name", text), body, pairs, tuple(results.split()), **options)
