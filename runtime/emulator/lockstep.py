"""Loops in lockstep: a hint about speed, and so nothing here."""

from __future__ import annotations

from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.ops.lockstep import GridEnter, GridLeave, GridPace
from tiledsl.runtime.emulator.compile import Compiler, step

_HINTS: tuple[type[Op], ...] = (GridEnter, GridPace, GridLeave)


def _nothing(cx: Compiler, op: Op) -> None:
    return None


for _hint in _HINTS:
    step(_hint)(_nothing)
