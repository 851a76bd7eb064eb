"""Along which cluster axes blocks write into each other's stages: those of multicast loads.

A consumer must then free a slot in every block that may write into it. Axes along which a cluster
has one block are dropped from the loads. Runs at tile level.

Along two axes at once a block may take all of its tiles from blocks that do not wait for the one
that lies diagonally across, and then be a lap ahead of it: on the barriers that both arrive on, its
next arrival would stand for the one that is missing. Where each block loads a share, it does wait:
one of the two in between waits for both. So ``spans``, with which each slot waits for all of them,
is also set where loads along two axes are made by the first block alone.
"""

from __future__ import annotations

from tiledsl.codegen.checks.stages import Guards
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import copy, tile


def derive_axes(kernel: Kernel) -> None:
    """Set ``axes`` and ``spans`` of every ``pipeline.create``."""
    shared: dict[tile.PipelineCreate, set[int]] = {}  # axes along which each block loads a share
    for _, body in roles_of(kernel):
        loads = [
            op
            for op in body.walk()
            if isinstance(op, tile.TmaLoad | copy.TmaLoadIm2col) and op.multicast
        ]
        if not loads:
            continue
        guards = Guards(body)
        for load in loads:
            load.multicast = tuple(
                axis
                for axis in sorted(set(load.multicast))
                if axis < len(kernel.cluster) and kernel.cluster[axis] > 1
            )
            for ring in guards.rings(load.barrier):
                create = ring.owner
                assert isinstance(create, tile.PipelineCreate)
                create.axes = tuple(sorted({*create.axes, *load.multicast}))
                create.spans = create.spans or len(load.multicast) > 1
                share = isinstance(load, tile.TmaLoad) and load.partitioned
                shared.setdefault(create, set()).update(load.multicast if share else ())
    for create, axes in shared.items():
        create.spans = create.spans or len(set(create.axes) - axes) > 1
