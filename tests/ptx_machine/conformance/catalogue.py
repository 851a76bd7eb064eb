"""All probes, by group and name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module

from tests.ptx_machine.conformance.probe import Probe

GROUPS = (
    "integers", "floats", "conversions", "lanes", "atomics", "matrices", "wgmma", "barriers",
    "copies",
)  # fmt: skip


@cache
def group(name: str) -> list[Probe]:
    """The probes of one group."""
    found = list(import_module(f"tests.ptx_machine.conformance.{name}").probes())
    names = [probe.name for probe in found]
    twice = {n for n in names if names.count(n) > 1}
    assert not twice, twice
    return found


def catalogue(groups: Sequence[str] = ()) -> dict[str, Probe]:
    """Probes of some groups, or of all, by "group: name"."""
    return {f"{g}: {p.name}": p for g in groups or GROUPS for p in group(g)}
