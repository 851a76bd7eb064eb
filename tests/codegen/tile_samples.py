"""Kernels of one role that move tiles, at protocol level with a plan made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.codegen.ir_samples import Sketch
from tiledsl.codegen.ir.core import Level, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.layouts import SliceLayout, WgmmaFragment
from tiledsl.codegen.ir.ops import memory, sync, tile
from tiledsl.codegen.ir.plan import Plan, RolePlan, SharedItem
from tiledsl.codegen.ir.types import SharedTile, TileArray
from tiledsl.codegen.passes.plan_params import plan_params


class Mover(Sketch):
    """A sketch of a role that moves tiles between memories."""

    def __init__(self, name: str = "mover", *, role: RolePlan | None = None) -> None:
        super().__init__(name)
        self.role_plan = role or RolePlan("main", 4, 0, "warpgroup")
        self.items: list[SharedItem] = []
        self.offset = 0

    def shared(self, name: str, shape: tuple[int, ...], dtype, swizzle: int = 0) -> Value:  # type: ignore[no-untyped-def]
        """A shared tile of its own, aligned to 1024 bytes."""
        array = TileArray(name, shape, dtype, swizzle)
        self._item(name, array.pitch, 1024)
        created = self.value(memory.SharedCreate(name, array), name)
        return self.value(memory.SharedAt(created, self.const(0)))

    def barrier(self, name: str = "bar") -> Value:
        self._item(name, 8, 8)
        row = self.value(sync.MbarrierCreate(name, 1), name)
        return self.value(sync.MbarrierAt(row, self.const(0)))

    def _item(self, name: str, nbytes: int, align: int) -> None:
        self.offset = -(-self.offset // align) * align
        self.items.append(SharedItem(name, self.offset, nbytes, align, "for a test"))
        self.offset += nbytes

    def transposed(self, value: Value) -> Value:
        return self.value(tile.SharedTranspose(value))

    def planned(self, body: Callable[[], None] | None = None, **fields: object) -> Kernel:
        """The kernel; what ``body`` builds is its role, else all of it is."""
        role = self.role_plan
        plan = Plan([role], threads=32 * (role.first_warp + role.warps))
        plan.shared, plan.shared_bytes = self.items, self.offset
        if body is not None:
            with self.role(role.name, role.warps):
                body()
        kernel = self.kernel(level=Level.PROTOCOL, plan=plan, **fields)
        for op in kernel.body.walk():
            if isinstance(op, sync.MbarrierCreate):
                plan.counts[op.name, "raw"] = 1
        plan_params(kernel)
        return kernel

    def where(self, name: str) -> int:
        return next(item.offset for item in self.items if item.name == name)


def fragment(parts: int, rows: int, columns: int) -> WgmmaFragment:
    """The layout of a tile of ``rows`` x ``columns`` over ``parts`` warpgroups."""
    return WgmmaFragment(parts, rows // parts, columns)


def rows_of(parts: int, extent: int) -> SliceLayout:
    return SliceLayout(WgmmaFragment(parts, extent // parts, 8), 1)


def columns_of(parts: int, extent: int) -> SliceLayout:
    return SliceLayout(WgmmaFragment(parts, 64, extent), 0)


def stored(shared: SharedTile, values):  # type: ignore[no-untyped-def]
    """The bytes of a shared tile (as stored) that holds ``values``, as TMA would write them."""
    import numpy as np

    shape = shared.stored_shape
    itemsize = values.dtype.itemsize
    span = shared.swizzle or shape[-1] * itemsize
    rows = values.reshape(-1, shape[-1])
    raw = np.zeros(values.nbytes, np.uint8)
    panels = rows.view(np.uint8).reshape(len(rows), -1, span).transpose(1, 0, 2).reshape(-1)
    offset = np.arange(values.nbytes)
    if shared.swizzle:
        mask = {128: 7, 64: 3, 32: 1}[shared.swizzle]
        offset ^= ((offset >> 7) & mask) << 4
    raw[offset] = panels
    return raw.tobytes()


def coordinates(s: Mover, values: Sequence[int]) -> tuple[Value, ...]:
    return tuple(s.const(value) for value in values)
