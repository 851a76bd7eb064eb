"""What do the names of ``tiledsl.language`` mean in IR? One module a subject.

Importing this package registers all of them, see ``frontend/registry.py``.
"""

from tiledsl.frontend.intrinsics import (
    debug,
    grid,
    math,
    mma,
    payload,
    pipeline,
    role,
    scalars,
    scheduler,
    tensors,
    tiles,
    tma,
)

__all__ = [
    "debug",
    "grid",
    "math",
    "mma",
    "payload",
    "pipeline",
    "role",
    "scalars",
    "scheduler",
    "tensors",
    "tiles",
    "tma",
]
