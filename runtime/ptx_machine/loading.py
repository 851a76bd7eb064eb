"""Loads the compiled interpreter: once compiled by one process, while the others wait for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tiledsl.runtime.ptx_machine.core.jit import cache_folder

__all__ = ["load"]


def load() -> Callable[[Any, Any], int]:
    """``run_cluster``. Compiling it takes some tens of seconds, the first time."""
    folder = cache_folder()
    done = folder / "complete"
    with contextlib.nullcontext() if done.exists() else _alone(folder):
        from tiledsl.runtime.ptx_machine.core.execute import run_cluster

        with contextlib.suppress(OSError):  # a cache that cannot be written is no cache
            done.touch()
    found: Callable[[Any, Any], int] = run_cluster
    return found


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
