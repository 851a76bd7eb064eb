"""Loads the compiled interpreter: once compiled by one process, while the others wait for it.

Two processes share the work, if they can share a cache: a child compiles the families that depend
on little, this one the others, and then loads what the child has made.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tiledsl.runtime.ptx_machine.core.jit import cache_folder

__all__ = ["load"]

_CORE = "tiledsl.runtime.ptx_machine.core."
# The modules of the families, in two parts that take about as long; the second with the scheduler.
_CHILD = ("integer", "floating", "convert", "tensor")
_OWN = ("memory", "warp", "control", "barrier", "bulk", "execute")
_NOTE = "tiledsl: compiling the PTX machine, once: about half a minute\n"


def load() -> tuple[Callable[[Any, Any], int], Any]:
    """``run_cluster``, and the table of addresses that ``M.links`` points to.

    Compiling takes some tens of seconds, the first time.
    """
    folder = cache_folder()
    done = folder / "complete"
    with contextlib.nullcontext() if done.exists() else _alone(folder):
        if not done.exists():
            with contextlib.suppress(OSError, ValueError):  # there may be no stderr
                sys.stderr.write(_NOTE)
            with _child(folder):
                _import(_OWN)
        _import((*_OWN, *_CHILD))
        with contextlib.suppress(OSError):  # a cache that cannot be written is no cache
            done.touch()
    from tiledsl.runtime.ptx_machine.core.execute import run_cluster
    from tiledsl.runtime.ptx_machine.core.links import link_table

    found: Callable[[Any, Any], int] = run_cluster
    return found, link_table()


def _import(modules: tuple[str, ...]) -> None:
    for name in modules:
        import_module(_CORE + name)


@contextlib.contextmanager
def _child(folder: Path) -> Iterator[None]:
    """A process compiles its part meanwhile. Whatever becomes of it, all is compiled here after."""
    process = None
    if sys.executable and (os.cpu_count() or 1) > 1 and _writable(folder):
        code = "".join(f"import {_CORE}{name}\n" for name in _CHILD)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with contextlib.suppress(OSError):
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
    try:
        yield
    except BaseException:
        if process is not None:
            process.kill()
        raise
    finally:
        if process is not None:
            process.wait()


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else compiles meanwhile, where files can be locked."""
    try:
        import fcntl

        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except (ImportError, OSError):
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
