"""What the project's Python files are called and what they import, read without importing them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# Where each installed package lies: the same as `package-dir` in pyproject.toml.
PACKAGE_FOLDERS = {"tiledsl.codegen": "codegen", "tiledsl.runtime": "runtime", "tiledsl": "tiledsl"}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module or name, and the line that imports it."""

    target: str
    file: str
    line: int


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@cache
def package_modules() -> dict[str, Path]:
    """Every module that is installed: its dotted name and its file."""
    modules: dict[str, Path] = {}
    for package, folder in PACKAGE_FOLDERS.items():
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            modules[".".join((package, *parts))] = file
    return modules


def python_files() -> list[Path]:
    """Every Python file of the project."""
    folders = [*PACKAGE_FOLDERS.values(), "tests", "samples", "benchmarks"]
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def imports_of(file: Path) -> Iterator[Import]:
    """All imports of a file, those inside functions and ``TYPE_CHECKING`` too.

    ``from package import name`` counts as ``package.name`` when that is a module of ours.
    """
    shown = file.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = {f"{module}.{alias.name}" for alias in node.names}
            targets = {name if name in package_modules() else module for name in names}
        else:
            continue
        for target in sorted(targets):
            yield Import(target, shown, node.lineno)
