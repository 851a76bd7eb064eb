"""Print pip constraints that pin each run-time dependency to its lower bound.

``make lowest`` installs with them and runs the tests: that is what makes a lower bound tested.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def lower_bounds() -> list[str]:
    """``["llvmlite==0.50", ...]`` from the ``>=`` of each dependency in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [pinned(requirement) for requirement in project["dependencies"]]


def pinned(requirement: str) -> str:
    """``numba==0.68`` for ``numba>=0.68,<0.69``."""
    match = re.match(r"([\w.-]+)>=([\w.]+)", requirement)
    if match is None:
        raise SystemExit(f"no lower bound in {requirement!r}: expected NAME>=VERSION[,<VERSION]")
    name, version = match.groups()
    return f"{name}=={version}"


if __name__ == "__main__":
    print("\n".join(lower_bounds()))
