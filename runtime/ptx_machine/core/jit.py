"""How the interpreter's functions are compiled: each once, for one signature, and cached.

Numba keys its cache by the file that defines a function alone, so that a change in another module
would leave old code in use. Here the cache's folder is named by a digest of all modules of the
machine and of what compiles them.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
from numba import types

from tiledsl.runtime.ptx_machine.core.state import MACHINE, WARPS

__all__ = [
    "LINKED", "b1", "cache_folder", "compiled", "f32", "f64", "i64", "none", "pi64", "pu64", "u64",
]  # fmt: skip

i64, u64, f32, f64, b1, none = (
    types.int64, types.uint64, types.float32, types.float64, types.boolean, types.void,
)  # fmt: skip
pi64, pu64 = types.CPointer(i64), types.CPointer(u64)


def cache_folder() -> Path:
    """Where compiled code is kept: ``TILEDSL_CACHE_DIR`` or the user's cache, and the digest."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parents[1]
    files = [*root.glob("core/*.py"), *root.glob("isa/*_ops.py"), root / "opcodes.py"]
    for path in sorted(files):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    for name in ("numba", "llvmlite", "numpy"):
        digest.update(version(name).encode())
    digest.update(platform.python_version().encode() + platform.machine().encode())
    base = os.environ.get("TILEDSL_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    parent = Path(base) if base else Path.home() / ".cache"
    return parent / "tiledsl" / f"ptx-machine-{digest.hexdigest()[:16]}"


_FOLDER = str(cache_folder())


# Functions that others call through an address (core/links.py), by their numbers there.
LINKED: dict[int, Any] = {}


def compiled(
    result: Any, *arguments: Any, state: bool = True, link: int | None = None, host: bool = False
) -> Callable[[Any], Any]:
    """Decorator: compile a function for these types, in front of which come the state's.

    ``@compiled(i64, i64, pi64)`` makes ``f(M, W, warp, row) -> i64``; with ``state=False`` there
    is no M and W. ``link``: its number among those that are called through an address. ``host``:
    Python calls it, too, as it can those with a link. These are compiled now, or loaded from the
    cache; the others when one that calls them is compiled.
    """
    signature = result(*((MACHINE, WARPS) if state else ()), *arguments)
    root = host or link is not None

    def decorate(function: Any) -> Any:
        kept = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = _FOLDER  # read when the function is made, for this one alone
        try:
            made = numba.njit(
                cache=True,
                error_model="numpy",
                nogil=True,
                no_cfunc_wrapper=link is None,
                no_cpython_wrapper=not root,
            )(function)
        finally:
            numba.config.CACHE_DIR = kept
        if root:
            made.compile(signature)
            made.disable_compile()
        else:
            _compile_when_called(made, signature)
        if link is not None:
            LINKED[link] = made
        return made

    return decorate


def _compile_when_called(function: Any, signature: Any) -> None:
    """Compile a function, or load it, when a caller is compiled: callers in the cache hold it."""
    template = function.get_call_template

    def first(args: Any, kws: Any) -> Any:
        if not function.overloads:
            function.compile(signature)
            function.disable_compile()
        return template(args, kws)

    function.get_call_template = first
