"""Where the programs of the CUDA toolkit are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tiledsl.errors import TileError

WHEELS = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}
"""The package on PyPI that brings each program."""


class ToolNotFound(TileError):
    """A program or library of the CUDA toolkit that is not installed."""


def _in_wheels(name: str) -> Iterator[str]:
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob(f"*/bin/{name}"), reverse=True):
            if shutil.which(path):
                yield str(path)


def find_tool(name: str) -> str | None:
    """The path of a program, or None when it is not installed.

    A wheel beside this package comes first, since its version was chosen with ours; then
    PATH; then what `cuda.pathfinder` knows of (conda, CUDA_HOME, a toolkit that the dynamic
    loader knows). Only the last step is slow (0.1 s, because of the import). Nothing is
    remembered, so that a notebook finds what has just been installed.
    """
    found = next(_in_wheels(name), None) or shutil.which(name)
    if found is not None:
        return found
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        return None
    path: str | None = find_nvidia_binary_utility(name)
    return path


def require_tool(name: str) -> str:
    """The path of a program.

    Raises:
        ToolNotFound: when it is not installed, naming the package that brings it.
    """
    path = find_tool(name)
    if path is None:
        raise ToolNotFound(
            f"{name} was not found: expected it in an installed {WHEELS[name]} package, on PATH, "
            "or in a CUDA toolkit",
            hint=f"pip install {WHEELS[name]}",
        )
    return path
