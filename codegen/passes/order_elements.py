"""Reads and writes of elements and register tiles keep program order among a role's threads.

One elected thread writes an element, and every thread reads it; of a register tile each thread
writes and reads its own elements, which may be another's of the next tile. In a role that is run by
many threads a barrier of the role stands before each write (no thread may still have to read the
old value) and behind it (no thread may read too early). Elements are ordered whatever tensors they
are of; tiles where the role reads and writes the same tensor.
"""

from __future__ import annotations

from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.kernel import Kernel, outside_roles, roles_of
from tiledsl.codegen.ir.ops import control, copy, memory, protocol, tile
from tiledsl.codegen.passes.rewrite import blocks_of, emitter
from tiledsl.errors import InvalidValue

_WRITES = (tile.TensorStore, memory.TileStore)
_READS = (tile.TensorLoad, memory.TileLoad, copy.AsyncCopy)


def order_elements(kernel: Kernel) -> None:
    """Place ``role.sync`` around the writes of roles that also read.

    Raises:
        InvalidValue: an element is written beside the roles, where all warps run, in a kernel
            that also reads elements.
    """
    assert kernel.plan is not None
    has_roles = any(isinstance(op, control.Role) for op in kernel.body.ops)
    if has_roles and any(isinstance(op, tile.TensorLoad) for op in kernel.body.walk()):
        for op in outside_roles(kernel):
            if isinstance(op, tile.TensorStore):
                raise InvalidValue(
                    "an element is written outside of the roles, where nothing orders it with"
                    " what this kernel reads: expected element writes inside of a role",
                    op.loc,
                    hint="move it into the role that should write it",
                )
    for name, body in roles_of(kernel):
        writes = {op for op in body.walk() if isinstance(op, _WRITES)}
        if not writes or kernel.plan.role(name).mode == "thread":
            continue
        read: set[Value] = {op.tensor for op in body.walk() if isinstance(op, _READS)}
        elements = any(isinstance(op, tile.TensorLoad) for op in body.walk())
        ordered = {
            op
            for op in writes
            if op.tensor in read or (elements and isinstance(op, tile.TensorStore))
        }
        for block in blocks_of(body):
            ops: list[Op] = []
            for op in block.ops:
                if op not in ordered:
                    ops.append(op)
                    continue
                out = emitter(op.loc)
                out.add(protocol.RoleSync())
                out.block.ops.append(op)
                out.add(protocol.RoleSync())
                ops += out.block.ops
            block.ops = ops
