"""Shared memory: an offset for each array of tiles, each barrier row and each staging buffer."""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.layouts import tile_alignment
from tiledsl.codegen.ir.ops import protocol, tile
from tiledsl.codegen.ir.plan import SharedItem
from tiledsl.codegen.ir.types import shape_text
from tiledsl.errors import Loc, ResourceLimit

BARRIER_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Wanted:
    name: str
    nbytes: int
    align: int
    what: str
    loc: Loc


def plan_shared(kernel: Kernel, limit: int) -> None:
    """Fill ``plan.shared``.

    Raises:
        ResourceLimit: when more than ``limit`` bytes are needed, with the bytes of each part.
    """
    assert kernel.plan is not None
    wanted = _wanted(kernel)
    # Widest alignment first: no padding between tiles; barriers come last.
    wanted.sort(key=lambda item: -item.align)
    offset = 0
    items = []
    for item in wanted:
        offset = -(-offset // item.align) * item.align
        items.append(SharedItem(item.name, offset, item.nbytes, item.align, item.what))
        offset += item.nbytes
    if offset > limit:
        raise ResourceLimit(
            f"the tiles of this kernel do not fit in shared memory: they need {offset} bytes, a"
            f" block of {kernel.target} has {limit}",
            wanted[0].loc,
            notes=tuple((f"{w.name}: {w.nbytes} bytes ({w.what})", None) for w in wanted),
            hint="use fewer stages or smaller tiles",
        )
    kernel.plan.shared = items
    kernel.plan.shared_bytes = offset


def _wanted(kernel: Kernel) -> list[_Wanted]:
    found = []
    assert kernel.plan is not None
    for op in kernel.body.walk():
        if isinstance(op, tile.PipelineCreate):
            ring = op.ring
            count = ring.stages * ring.k_group
            for array in ring.arrays:
                what = f"{count} tiles {shape_text(array.shape)}x{array.dtype.short}"
                align = tile_alignment(array.swizzle)
                nbytes = count * array.pitch
                found.append(_Wanted(f"{op.name}.{array.name}", nbytes, align, what, op.loc))
            for which in ("full", "empty"):
                what = f"{ring.stages} mbarriers"
                nbytes = ring.stages * BARRIER_BYTES
                found.append(_Wanted(f"{op.name}.{which}", nbytes, BARRIER_BYTES, what, op.loc))
    for name, body in roles_of(kernel):
        parts = kernel.plan.role(name).parts
        for inner in body.walk():
            if isinstance(inner, protocol.StagingBuffer):
                buffer = inner.buffer
                box = f"{shape_text(buffer.shape)}x{buffer.dtype.short}"
                what = f"{parts} x {buffer.count} boxes {box}"
                align = tile_alignment(buffer.swizzle)
                found.append(_Wanted(inner.name, parts * buffer.nbytes, align, what, inner.loc))
    return found
