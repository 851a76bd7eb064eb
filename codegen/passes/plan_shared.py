"""Shared memory: an offset for each array of tiles, barrier row, cursor and staging buffer."""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.layouts import tile_alignment
from tiledsl.codegen.ir.ops import memory, protocol, sync, tile
from tiledsl.codegen.ir.plan import SharedItem
from tiledsl.codegen.ir.types import TileArray, shape_text
from tiledsl.errors import Loc, ResourceLimit, counted

BARRIER_BYTES = 8
WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """A part of shared memory that a kernel asks for."""

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
    wanted = wanted_items(kernel)
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


def wanted_items(kernel: Kernel) -> list[Wanted]:
    """All that takes shared memory so far: rings, tiles, barriers, words, staging buffers."""
    found = []
    assert kernel.plan is not None
    for op in kernel.body.walk():
        match op:
            case tile.PipelineCreate():
                found += [
                    _tiles(f"{op.name}.{array.name}", op.ring.stages * array.tiles, array, op)
                    for array in op.ring.arrays
                ]
                for which in ("full", "empty"):
                    found.append(_barriers(f"{op.name}.{which}", op.ring.stages, op))
            case memory.SharedCreate():
                found.append(_tiles(op.name, op.array.tiles, op.array, op))
            case sync.MbarrierCreate():
                found.append(_barriers(op.name, op.number, op))
            case sync.WordCreate():
                found.append(Wanted(op.name, WORD_BYTES, WORD_BYTES, "ring cursor", op.loc))
    for name, body in roles_of(kernel):
        parts = kernel.plan.role(name).parts
        for inner in body.walk():
            if isinstance(inner, protocol.StagingBuffer):
                buffer = inner.buffer
                box = f"{shape_text(buffer.shape)}x{buffer.dtype.short}"
                what = f"{parts} x {buffer.count} boxes {box}"
                align = tile_alignment(buffer.swizzle)
                found.append(Wanted(inner.name, parts * buffer.nbytes, align, what, inner.loc))
    return found


def _tiles(name: str, count: int, array: TileArray, op: Op) -> Wanted:
    what = f"{counted(count, 'tile')} {shape_text(array.shape)}x{array.dtype.short}"
    return Wanted(name, count * array.pitch, tile_alignment(array.swizzle), what, op.loc)


def _barriers(name: str, number: int, op: Op) -> Wanted:
    what = counted(number, "mbarrier")
    return Wanted(name, number * BARRIER_BYTES, BARRIER_BYTES, what, op.loc)
