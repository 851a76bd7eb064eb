"""Reads and writes of single elements keep program order among the threads of a role.

One elected thread writes, every thread reads. In a role that is run by many threads a barrier of
the role stands before each write (no thread may still have to read the old value) and behind it
(no thread may read too early); a role that only writes or only reads needs none.
"""

from __future__ import annotations

from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.kernel import Kernel, outside_roles, roles_of
from tiledsl.codegen.ir.ops import control, protocol, tile
from tiledsl.codegen.passes.rewrite import blocks_of, emitter
from tiledsl.errors import InvalidValue


def order_elements(kernel: Kernel) -> None:
    """Place ``role.sync`` around the element writes of roles that also read elements.

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
        reads = any(isinstance(op, tile.TensorLoad) for op in body.walk())
        writes = any(isinstance(op, tile.TensorStore) for op in body.walk())
        if not (reads and writes) or kernel.plan.role(name).mode == "thread":
            continue
        for block in blocks_of(body):
            ops: list[Op] = []
            for op in block.ops:
                if not isinstance(op, tile.TensorStore):
                    ops.append(op)
                    continue
                out = emitter(op.loc)
                out.add(protocol.RoleSync())
                out.block.ops.append(op)
                out.add(protocol.RoleSync())
                ops += out.block.ops
            block.ops = ops
