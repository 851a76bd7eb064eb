"""Whose code is it? A user's functions are traced; those of libraries are run, at compile time."""

from __future__ import annotations

import sys
import types
from typing import Any

_INSTALLED = ("site-packages", "dist-packages")


def is_library(x: types.FunctionType | type) -> bool:
    """Whether a function or class belongs to Python's own library or an installed package.

    Installed packages write what kernels shall trace as ``td.function``.
    """
    module = str(getattr(x, "__module__", None) or "")
    if module.partition(".")[0] in sys.stdlib_module_names and module != "__main__":
        return True
    return any(folder in _file_of(x, module) for folder in _INSTALLED)


def _file_of(x: Any, module: str) -> str:
    if isinstance(x, types.FunctionType):
        return x.__code__.co_filename
    return str(getattr(sys.modules.get(module), "__file__", None) or "")


def is_ours(x: Any) -> bool:
    """Whether a function, class or object is tiledsl's own."""
    of = x if isinstance(x, types.FunctionType | type) else type(x)
    return str(getattr(of, "__module__", "")).partition(".")[0] == "tiledsl"
