"""What the parts of a compiled kernel are called, as plain data for the PTX machine's messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import memory, protocol, sync, tile
from tiledsl.codegen.ir.types import TileArray
from tiledsl.runtime.arrays import ArrayArg
from tiledsl.runtime.emulator.deadlock import arrivals_on, loads_onto
from tiledsl.runtime.ptx_machine.names import (
    ArrayName,
    BarrierName,
    NamedName,
    Names,
    RoleName,
    SharedName,
)

__all__ = ["names_of"]

BARRIER_BYTES = 8


def names_of(kernel: Kernel, arrays: Iterable[tuple[str, ArrayArg]]) -> Names:
    """Names for a kernel at protocol level, with its plan.

    Args:
        arrays: the tensors' names, and the arrays as the machine sees them.
    """
    assert kernel.plan is not None
    plan = kernel.plan
    ops = [op for op in kernel.body.walk() if isinstance(op, Op)]
    roles = tuple(RoleName(r.first_warp, r.warps, r.name, r.parts) for r in plan.roles)
    return Names(
        shared=tuple(name for op in ops for name in _shared(kernel, op)),
        arrays=tuple(_array(name, array) for name, array in arrays),
        roles=roles,
        barriers={at: name for op in ops for at, name in _barriers(kernel, op)},
        named=_named(kernel, ops),
    )


def _array(name: str, array: ArrayArg) -> ArrayName:
    size = array.dtype.itemsize
    return ArrayName(
        name, array.pointer, tuple(array.shape), tuple(s * size for s in array.strides)
    )


# ------------------------------------------------------------------------ shared memory


def _shared(kernel: Kernel, op: Op) -> list[SharedName]:
    """The objects that an operation makes in shared memory."""
    assert kernel.plan is not None
    at = kernel.plan.shared_offset
    if isinstance(op, tile.PipelineCreate):
        found = [
            _tiles(
                at(f"{op.name}.{array.name}"),
                f"tile {array.name!r} of pipeline {op.name!r}",
                array,
                op.ring.stages * array.tiles,
                array.tiles,
            )
            for array in op.ring.arrays
        ]
        for which in ("full", "empty"):
            name = f"mbarrier {which!r} of pipeline {op.name!r}"
            size = op.ring.stages * BARRIER_BYTES
            found.append(
                SharedName(
                    at(f"{op.name}.{which}"), size, name, BARRIER_BYTES, "mbarrier", per_stage=1
                )
            )
        return found
    if isinstance(op, memory.SharedCreate):
        return [_tiles(at(op.name), f"shared tile {op.name!r}", op.array, op.array.tiles, 0)]
    if isinstance(op, sync.MbarrierCreate):
        size = op.number * BARRIER_BYTES
        name = f"mbarrier {op.name!r}"
        return [SharedName(at(op.name), size, name, BARRIER_BYTES, "mbarrier")]
    if isinstance(op, sync.WordCreate):
        return [SharedName(at(op.name), 4, f"ring cursor {op.name!r}")]
    if isinstance(op, protocol.StagingBuffer):
        buffer = op.buffer
        item = next(item for item in kernel.plan.shared if item.name == op.name)
        rows, columns = buffer.shape
        size = buffer.dtype.itemsize
        return [
            SharedName(
                item.offset,
                item.nbytes,
                f"staging buffer {op.name!r}",
                rows * columns * size,
                "box",
                0,
                *_rows(columns * size, size, buffer.swizzle),
            )
        ]
    return []


def _tiles(offset: int, name: str, array: TileArray, count: int, per_stage: int) -> SharedName:
    size = array.dtype.itemsize
    rows = _rows(array.shape[-1] * size, size, array.swizzle) if len(array.shape) > 1 else ()
    return SharedName(offset, count * array.pitch, name, array.pitch, "tile", per_stage, *rows)


def _rows(row_bytes: int, item_bytes: int, swizzle: int) -> tuple[int, ...]:
    """How a tile's bytes are rows and columns, where each row lies in one piece."""
    return (row_bytes, item_bytes, swizzle) if swizzle in (0, row_bytes) else ()


# ------------------------------------------------------------------------ barriers


def _barriers(kernel: Kernel, op: Op) -> list[tuple[int, BarrierName]]:
    """The mbarriers that an operation makes, with their offsets."""
    assert kernel.plan is not None
    if isinstance(op, tile.PipelineCreate):
        rows = [(f"{op.name}.{which}", which, op.ring.stages) for which in ("full", "empty")]
    elif isinstance(op, sync.MbarrierCreate):
        rows = [(op.name, "raw", op.number)]
    else:
        return []
    found = []
    for item, which, number in rows:
        start = kernel.plan.shared_offset(item)
        arrivals = tuple(
            (role, ops[0].loc) for role, ops in arrivals_on(kernel, op.name, which).items()
        )
        loads = tuple(load.loc for load in loads_onto(kernel, op.name, which))
        found += [
            (start + k * BARRIER_BYTES, BarrierName(op.name, which, k, arrivals, loads))
            for k in range(number)
        ]
    return found


def _named(kernel: Kernel, ops: Sequence[Op]) -> dict[int, NamedName]:
    """Named barriers: the user's own, and those of roles of many threads."""
    assert kernel.plan is not None
    found = {}
    for role in kernel.plan.roles:
        if role.role_barrier:
            found[role.role_barrier] = NamedName(f"all of role {role.name}")
        if role.part_barrier:
            for part in range(role.parts):
                name = f"part {part} of role {role.name}" if role.parts > 1 else f"role {role.name}"
                found[role.part_barrier + part] = NamedName(name)
    for name, planned in kernel.plan.named.items():
        arrivals = []
        for role_name, body in roles_of(kernel):
            for op in body.walk():
                if (
                    isinstance(op, sync.NamedSync | sync.NamedArrive)
                    and isinstance(op.barrier.owner, sync.NamedCreate)
                    and op.barrier.owner.name == name
                ):
                    arrivals.append((role_name, op.loc))
                    break
        found[planned.id] = NamedName(name, tuple(arrivals))
    return found
