"""Stores of tiles by TMA: staging through shared memory, groups, and the waits around them.

A register tile leaves a column chunk at a time through a staging buffer of its part: wait until
the store that used the same half of the buffer has read it, write the chunk, fence, start the
bulk copies and commit them. Two halves alternate, so that a chunk is written while the one before
is on its way; stores are not waited for at the end of a tile but before the buffer is written
again, and once before the role ends. A shared tile is stored as it lies; its stage must not be
released before it has been read. A role that loads from a tensor it has stored to waits for the
writes first.
"""

from __future__ import annotations

from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.layouts import WgmmaFragment, pick_swizzle
from tiledsl.codegen.ir.ops import control, copy, memory, protocol, tile
from tiledsl.codegen.ir.plan import RolePlan
from tiledsl.codegen.ir.types import BufferType, TensorType, Tile
from tiledsl.codegen.passes.plan_shared import wanted_items
from tiledsl.codegen.passes.rewrite import Emitter, blocks_of, emitter
from tiledsl.errors import ResourceLimit

HALVES = 2
# Turns may hand on the cursors of rings in words that a later pass makes.
CURSOR_BYTES = 128


def expand_stores(kernel: Kernel, shared_limit: int) -> None:
    """Replace every ``tma.store``. ``shared_limit`` is the shared memory of a block in bytes."""
    assert kernel.plan is not None
    storing = [
        (kernel.plan.role(name), body)
        for name, body in roles_of(kernel)
        if any(isinstance(op, tile.TmaStore) for op in body.walk())
    ]
    for number, (role, body) in enumerate(storing):
        # What the roles before this one stage is among the items already.
        taken = sum(item.nbytes for item in wanted_items(kernel)) + CURSOR_BYTES
        later = sum(least_bytes(*other) for other in storing[number + 1 :])
        _RoleStores(role, body, shared_limit - taken - later).run()


def least_bytes(role: RolePlan, body: Block) -> int:
    """The least that a role's staging takes: one box for each form of tile that it stores."""
    boxes = set()  # rows, columns, dtype
    for op in body.walk():
        if isinstance(op, tile.TmaStore) and isinstance(op.value.type, Tile):
            value = op.value.type
            assert isinstance(value.layout, WgmmaFragment)
            boxes.add((value.layout.rows, _columns(value, value.layout), value.dtype))
    return role.parts * sum(rows * columns * dtype.itemsize for rows, columns, dtype in boxes)


def _columns(value: Tile, layout: WgmmaFragment) -> int:
    """Columns of the widest box that a tile leaves in."""
    swizzle = pick_swizzle(layout.columns * value.dtype.itemsize)
    return swizzle // value.dtype.itemsize if swizzle else layout.columns


_READS = (
    tile.TmaLoad, tile.TensorLoad, copy.TmaLoadIm2col, copy.BulkLoad, copy.AsyncCopy,
    memory.TileLoad,
)  # fmt: skip


class _RoleStores:
    def __init__(self, role: RolePlan, body: Block, free: int) -> None:
        self.role = role
        self.body = body
        self.free = free
        self.buffers: dict[tuple[object, ...], Value] = {}
        self.header: list[Op] = []
        self.stored = {op.tensor for op in body.walk() if isinstance(op, tile.TmaStore)}

    def run(self) -> None:
        for block in blocks_of(self.body):
            ops: list[Op] = []
            for op in block.ops:
                if isinstance(op, tile.TmaStore):
                    ops += self._expand(op)
                elif isinstance(op, control.Return):
                    ops += [*self._finish(op), op]
                elif isinstance(op, _READS) and op.tensor in self.stored:
                    ops += [*self._written(op), op]
                else:
                    ops.append(op)
            block.ops = ops
        if self.body.terminator is None:
            last = self.body.ops[-1]
            self.body.ops += self._finish(last)
        self.body.ops[0:0] = self.header

    def _written(self, at: Op) -> list[Op]:
        """What this role stored to a tensor must be there before it loads from it again."""
        out = emitter(at.loc)
        out.add(protocol.BulkWait(0, False, "part"))
        one = isinstance(at, tile.TmaLoad | copy.TmaLoadIm2col | copy.BulkLoad)
        if self.role.parts > 1 or (not one and self.role.mode != "thread"):
            out.add(protocol.RoleSync())  # who loads did not store all of it
        return out.block.ops

    def _finish(self, at: Op) -> list[Op]:
        """The block's shared memory must live until the last store has read it."""
        out = emitter(at.loc)
        out.add(protocol.BulkWait(0, True, "part"))
        return out.block.ops

    def _expand(self, op: tile.TmaStore) -> list[Op]:
        out = emitter(op.loc)
        if isinstance(op.value.type, Tile):
            self._store_registers(out, op, op.value.type)
        else:
            out.add(protocol.TmaStoreShared(op.value, op.tensor, op.coords, op.reduce, op.cache))
            out.add(protocol.BulkCommit("role"))
            # The stage may be released next: its tile must have been read by then.
            out.add(protocol.BulkWait(0, True, "role"))
        return out.block.ops

    def _store_registers(self, out: Emitter, op: tile.TmaStore, value: Tile) -> None:
        layout = value.layout
        assert isinstance(layout, WgmmaFragment) and isinstance(op.tensor.type, TensorType)
        buffer, kind = self._buffer(op, value, layout)
        columns = kind.shape[1]
        row = op.coords[-2]
        if layout.parts > 1:
            part = out.value(protocol.PartIndex(), "part")
            row = out.binary("add", row, out.binary("mul", part, layout.rows), "row")
        for number, column in enumerate(range(0, layout.columns, columns)):
            box = number % kind.count
            out.add(protocol.BulkWait(kind.count - 1, True, "part"))
            out.add(protocol.PartSync())
            out.add(protocol.StagingWrite(op.value, buffer, column, box, 1))
            out.add(protocol.FenceProxyAsync())
            out.add(protocol.PartSync())
            at = out.binary("add", op.coords[-1], column) if column else op.coords[-1]
            coords = (*op.coords[:-2], row, at)
            out.add(protocol.TmaStoreBuffer(buffer, op.tensor, coords, box, op.reduce, op.cache))
            out.add(protocol.BulkCommit("part"))

    def _buffer(
        self, op: tile.TmaStore, value: Tile, layout: WgmmaFragment
    ) -> tuple[Value, BufferType]:
        """The staging buffer for tiles of this form, made on first use."""
        if layout.rows > 256:
            raise ResourceLimit(
                f"each warpgroup of role {self.role.name!r} would store {layout.rows} rows of this"
                " tile: a TMA copy takes at most 256",
                op.loc,
                hint=f"use more warps for the role than {self.role.warps}",
            )
        widest = _columns(value, layout)
        key = (layout.rows, widest, value.dtype, layout.columns // widest % HALVES)
        if key not in self.buffers:
            kind = self._kind(value, layout)
            self.free -= self.role.parts * kind.nbytes
            number = len(self.buffers)
            name = f"{self.role.name}.staging" + (f".{number}" if number else "")
            out = emitter(op.loc)
            self.buffers[key] = out.value(protocol.StagingBuffer(name, kind), "staging")
            self.header += out.block.ops
        buffer = self.buffers[key]
        assert isinstance(buffer.type, BufferType)
        return buffer, buffer.type

    def _kind(self, value: Tile, layout: WgmmaFragment) -> BufferType:
        """Two halves of the widest boxes, else of boxes half as wide; else one box."""
        widest, size = _columns(value, layout), value.dtype.itemsize
        # With an odd number of chunks the first half would follow itself from tile to tile.
        if layout.columns // widest % HALVES == 0:
            for columns in (widest, widest // 2):
                swizzle = pick_swizzle(columns * size)
                kind = BufferType((layout.rows, columns), value.dtype, swizzle, HALVES)
                if swizzle and self.role.parts * kind.nbytes <= self.free:
                    return kind
        return BufferType((layout.rows, widest), value.dtype, pick_swizzle(widest * size), 1)
