"""Tensors that one kernel reaches by tiles and by elements, where nothing would order the two.

Copies of tiles are made by another engine than reads and writes of elements, at its own time. In
program order a read behind ``tma_store`` would see what was stored, and a load behind a write what
was written; the hardware promises neither without waits and fences that no pass places yet.
Elements may be read of a tensor that is only loaded, and written of one that no tile touches.
"""

from __future__ import annotations

from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import tile
from tiledsl.errors import InvalidValue


def check_accesses(kernel: Kernel) -> None:
    """Refuse element accesses that tile copies of the same tensor race with.

    Raises:
        InvalidValue: elements of a tensor are read or written and its tiles stored, or elements
            written and tiles loaded.
    """
    loaded: dict[Value, Op] = {}
    stored: dict[Value, Op] = {}
    for op in kernel.body.walk():
        match op:
            case tile.TmaLoad():
                loaded.setdefault(op.tensor, op)
            case tile.TmaStore():
                stored.setdefault(op.tensor, op)
    for op in kernel.body.walk():
        match op:
            case tile.TensorStore():
                _refuse(op, op.tensor, "written", stored.get(op.tensor), "stored")
                _refuse(op, op.tensor, "written", loaded.get(op.tensor), "loaded")
            case tile.TensorLoad():
                _refuse(op, op.tensor, "read", stored.get(op.tensor), "stored")


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
