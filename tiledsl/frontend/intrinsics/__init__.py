"""What do the names of ``tiledsl.language`` mean in IR? One module a subject.

Importing this package registers all of them, see ``frontend/registry.py``.
"""

from tiledsl.frontend.intrinsics import (
    arrays,
    barrier,
    cluster,
    copy,
    debug,
    grid,
    im2col,
    math,
    memory,
    mma,
    payload,
    pipeline,
    ring,
    role,
    scalars,
    scheduler,
    shared,
    tensors,
    tile_operators,
    tiles,
    tma,
)

__all__ = [
    "arrays",
    "barrier",
    "cluster",
    "copy",
    "debug",
    "grid",
    "im2col",
    "math",
    "memory",
    "mma",
    "payload",
    "pipeline",
    "ring",
    "role",
    "scalars",
    "scheduler",
    "shared",
    "tensors",
    "tile_operators",
    "tiles",
    "tma",
]
