"""Clusters: what every block must do because the others wait for it.

A multicast load fills the stages of several blocks, and a slot is free when the consumers of all of
them have released it. So every block of the cluster must go through such a ring, on both sides, and
every block must come to each ``cluster_sync``. Branches on the block's rank are followed for each
rank; a block that certainly never takes part is refused.
"""

from __future__ import annotations

from math import prod

from tiledsl.codegen.checks.evaluate import Known, reachable
from tiledsl.codegen.checks.stages import ACQUIRES, Guards, ring_and_side, ring_name
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel, outside_roles, roles_of
from tiledsl.codegen.ir.ops import copy, sync, tile
from tiledsl.errors import StageError, SyntaxNotSupported


def check_clusters(kernel: Kernel) -> None:
    """Raise ``StageError`` where blocks of a cluster wait for one that does not take part.

    Also ``SyntaxNotSupported``: ``cluster_sync`` in a branch that only some blocks take.
    """
    size = prod(kernel.cluster)
    if size == 1:
        return
    _check_syncs(kernel, size)
    shared = _multicast_rings(kernel)
    for name, body in roles_of(kernel):
        found = _by_rank(body, size)
        users: dict[tuple[Value, str], list[Op | None]] = {}
        for rank, ops in enumerate(found):
            for op in ops:
                side = ring_and_side(op)
                if isinstance(op, ACQUIRES) and side is not None and side[0] in shared:
                    users.setdefault(side, [None] * size)[rank] = op
        for (ring, which), acquires in users.items():
            for ranks in _groups(kernel.cluster, shared[ring]):
                missing = [rank for rank in ranks if acquires[rank] is None]
                acquire = next((a for rank in ranks if (a := acquires[rank]) is not None), None)
                if missing and acquire is not None:
                    raise _left_out(name, ring, which, missing, acquire, shared[ring][0])


def _groups(cluster: tuple[int, ...], loads: list[Op]) -> list[list[int]]:
    """The blocks that fill each other's stages: those that differ along the loads' axes only."""
    axes = {axis for load in loads for axis in getattr(load, "multicast", ())}
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank in range(prod(cluster)):
        elsewhere = tuple(
            rank // prod(cluster[:axis]) % extent
            for axis, extent in enumerate(cluster)
            if axis not in axes
        )
        groups.setdefault(elsewhere, []).append(rank)
    return list(groups.values())


def _multicast_rings(kernel: Kernel) -> dict[Value, list[Op]]:
    """Rings whose stages other blocks fill, each with the loads that do."""
    found: dict[Value, list[Op]] = {}
    for _, body in roles_of(kernel):
        guards = Guards(body)
        for op in body.walk():
            if isinstance(op, tile.TmaLoad | copy.TmaLoadIm2col) and op.multicast:
                for ring in guards.rings(op.barrier):
                    found.setdefault(ring, []).append(op)
    return found


def _by_rank(body: Block, size: int) -> list[list[Op]]:
    """What each block of a cluster may run."""
    found = []
    for rank in range(size):
        known = Known()
        for op in body.walk():
            if isinstance(op, sync.ClusterRank):
                known.set(op.result, rank)
        found.append(list(reachable(body, known)))
    return found


def _check_syncs(kernel: Kernel, size: int) -> None:
    if not any(isinstance(op, sync.ClusterSync) for op in outside_roles(kernel)):
        return
    counts = [
        [op for op in ops if isinstance(op, sync.ClusterSync)]
        for ops in _by_rank(kernel.body, size)
    ]
    for rank, syncs in enumerate(counts):
        if not syncs:
            op = next(found for ops in counts for found in ops)
            raise SyntaxNotSupported(
                f"td.cluster_sync() that the block of rank {rank} never comes to: the others would"
                " wait for it for ever",
                op.loc,
                hint="move it out of the branch on the block's rank",
            )


def _left_out(
    role: str, ring: Value, side: str, missing: list[int], acquire: Op, load: Op
) -> StageError:
    ranks = ", ".join(map(str, missing))
    blocks = f"the block of rank {ranks}" if len(missing) == 1 else f"the blocks of rank {ranks}"
    never = "never acquires" if len(missing) == 1 else "never acquire"
    return StageError(
        f"{blocks} of a cluster {never} a stage of pipeline {ring_name(ring)!r} in role {role!r},"
        f" other blocks do: its tiles are multicast, so that a stage is done when the {side}s of"
        " all of them are",
        acquire.loc,
        notes=(("this load is multicast", load.loc),),
        hint="acquire the stage in every block, whatever its rank",
    )
