"""Tensors that one kernel reaches in two ways, where nothing would order the two.

Copies of tiles are made by another engine than reads and writes of elements, at its own time. In
program order a read behind ``tma_store`` would see what was stored, and a load behind a write what
was written; the hardware promises neither without waits and fences that no pass places yet.
Elements may be read of a tensor that is only loaded, and written of one that no tile touches.

Tiles may be read by one way and written by the other, as in ``c = a @ b + c``, where each tile is
read before it is written. What TMA has stored is waited for before the role reads the tensor again.
Only a TMA load of the very tile that the role has just written with ``td.store`` is refused.
"""

from __future__ import annotations

from tiledsl.codegen.checks.paths import PathWalker
from tiledsl.codegen.checks.stages import BULK_LOADS, uncast
from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import copy, memory, tile
from tiledsl.codegen.ir.ops.arith import Binary, Constant
from tiledsl.errors import InvalidValue

_WRITES = (tile.TmaStore, memory.TileStore)
_READS = (*BULK_LOADS, copy.AsyncCopy, memory.TileLoad)


def check_accesses(kernel: Kernel) -> None:
    """Refuse accesses to the elements and tiles of a tensor that would race with each other.

    Raises:
        InvalidValue: elements of a tensor are read or written and its tiles stored, or elements
            written and tiles loaded; or a tile is read again that the same role has written.
    """
    loaded: dict[Value, Op] = {}
    stored: dict[Value, Op] = {}
    for op in kernel.body.walk():
        if isinstance(op, BULK_LOADS):
            loaded.setdefault(op.tensor, op)
        elif isinstance(op, tile.TmaStore):
            stored.setdefault(op.tensor, op)
    for op in kernel.body.walk():
        match op:
            case tile.TensorStore():
                _refuse(op, op.tensor, "written", stored.get(op.tensor), "stored")
                _refuse(op, op.tensor, "written", loaded.get(op.tensor), "loaded")
            case tile.TensorLoad():
                _refuse(op, op.tensor, "read", stored.get(op.tensor), "stored")
    for _, body in roles_of(kernel):
        _ReadBack().walk(body, ())


def _refuse(op: Op, tensor: Value, act: str, copy: Op | None, what: str) -> None:
    if copy is None:
        return
    raise InvalidValue(
        f"an element of tensor {tensor.name!r} is {act} here, and tiles of it are {what} by TMA in"
        " the same kernel: expected one of the two, because nothing orders them",
        op.loc,
        notes=((f"a tile is {what} here", copy.loc),),
        hint="do one of them in a kernel of its own",
    )


class _ReadBack(PathWalker[tuple[Op, ...]]):
    """Follows the tiles that a role has written; another iteration writes other tiles."""

    def transfer(self, op: Op, state: tuple[Op, ...]) -> tuple[Op, ...]:
        if isinstance(op, _READS):
            for written in state:
                if _same_place(written, op) and _unordered(written, op):
                    raise InvalidValue(
                        f"a tile of tensor {op.tensor.name!r} is read here that the same role has"
                        " written: the read may come first, because nothing orders the two",
                        op.loc,
                        notes=(("it is written here", written.loc),),
                        hint="keep the tile in registers or shared memory, or read it in another"
                        " kernel",
                    )
        return (*state, op) if isinstance(op, _WRITES) else state

    def join(self, op: Op, arrivals: list[tuple[Op, tuple[Op, ...]]]) -> tuple[Op, ...]:
        return tuple(dict.fromkeys(written for _, state in arrivals for written in state))

    def repeat(
        self, loop: Op, entry: tuple[Op, ...], arrivals: list[tuple[Op, tuple[Op, ...]]]
    ) -> tuple[Op, ...]:
        return entry


def _unordered(written: Op, read: Op) -> bool:
    """Whether threads write and TMA reads: nothing makes the write visible to it."""
    return isinstance(written, memory.TileStore) and isinstance(read, BULK_LOADS)


def _same_place(written: Op, read: Op) -> bool:
    assert isinstance(written, _WRITES) and isinstance(read, _READS)
    return written.tensor is read.tensor and [_key(c) for c in written.coords] == [
        _key(c) for c in read.coords
    ]


def _key(coordinate: Value) -> object:
    """Equal for coordinates that are computed in the same way from the same values."""
    value = uncast(coordinate)
    match value.owner:
        case Constant():
            return value.owner.value
        case Binary():
            return value.owner.kind, _key(value.owner.lhs), _key(value.owner.rhs)
    return value
