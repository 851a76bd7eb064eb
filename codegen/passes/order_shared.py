"""Generic writes to shared tiles of the kernel's own keep program order among a role's threads.

``td.shared`` tiles are guarded by no ring. Where a role writes one (``tile.store``), all of its
threads meet before (none may still have to read the old tile) and behind it (none may read too
early), and each fences its writes for TMA and wgmma, which read through the async proxy. What other
roles may see of it and when is for the barriers between them to say.
"""

from __future__ import annotations

from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import memory, protocol, tile
from tiledsl.codegen.passes.rewrite import blocks_of, emitter


def order_shared(kernel: Kernel) -> None:
    """Place ``role.sync`` and fences around every ``shared.store`` to a tile outside of rings."""
    for _, body in roles_of(kernel):
        for block in blocks_of(body):
            ops: list[Op] = []
            for op in block.ops:
                if not _is_own_store(op):
                    ops.append(op)
                    continue
                out = emitter(op.loc)
                out.add(protocol.RoleSync())
                out.block.ops.append(op)
                out.add(protocol.FenceProxyAsync())
                out.add(protocol.RoleSync())
                ops += out.block.ops
            block.ops = ops


def _is_own_store(op: Op) -> bool:
    if not isinstance(op, memory.SharedStore):
        return False
    owner = op.tile.owner
    while isinstance(owner, tile.SharedTranspose):
        owner = owner.tile.owner
    return not isinstance(owner, tile.PayloadTile)
