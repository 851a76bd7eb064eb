"""Where the variables of a program lie in shared and local memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tiledsl.runtime.ptx_machine.syntax import Function, Module, Variable

__all__ = ["Layout", "lay_out"]


@dataclass(slots=True)
class Layout:
    """Variables by name; offsets in shared memory of the block and in local memory of a lane."""

    variables: dict[str, Variable] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    shared_size: int = 0
    local: dict[str, int] = field(default_factory=dict)
    local_size: int = 0


def lay_out(module: Module, function: Function, names: Iterable[str]) -> Layout:
    """Place the variables that a function names, and those that their initialisers name."""
    declared = {**module.variables, **function.variables}
    wanted, awaited = set(), list(names)
    while awaited:
        name = awaited.pop()
        if name in declared and name not in wanted:
            wanted.add(name)
            awaited += [symbol.name for _, symbol in declared[name].pointers]
    layout = Layout({name: made for name, made in declared.items() if name in wanted})
    dynamic = []
    for name, variable in layout.variables.items():
        if variable.space == "shared" and variable.size == 0:
            dynamic.append(variable)
        elif variable.space == "shared":
            at = _aligned(layout.shared_size, variable.align)
            layout.shared[name] = at
            layout.shared_size = at + variable.size
        elif variable.space == "local":
            at = _aligned(layout.local_size, variable.align)
            layout.local[name] = at
            layout.local_size = at + variable.size
    start = _aligned(layout.shared_size, max((it.align for it in dynamic), default=1))
    layout.shared.update(dict.fromkeys((it.name for it in dynamic), start))
    layout.shared_size = start if dynamic else layout.shared_size
    return layout


def _aligned(offset: int, align: int) -> int:
    return -(-offset // align) * align
