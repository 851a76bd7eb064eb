"""Protocol-level kernels written by hand, with a plan of their own: no pass has a say in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tests.codegen.ir_samples import Sketch
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Block, Level, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, memory, protocol, sync, tile
from tiledsl.codegen.ir.plan import NamedBarrier, Plan, RolePlan, SharedItem
from tiledsl.codegen.ir.types import RingType, TileArray, Type
from tiledsl.codegen.ir.verifier import verify


class Machine(Sketch):
    """A sketch at protocol level. Rings, barriers and roles enter the plan as they are made."""

    def __init__(self, name: str = "machine") -> None:
        super().__init__(name)
        self.plan = Plan()
        self.warps = 0

    def done(self, *, cluster: tuple[int, ...] = (1,), persistent: bool = False) -> Kernel:
        self.plan.threads = 32 * self.warps
        kernel = self.kernel(
            level=Level.PROTOCOL, plan=self.plan, cluster=cluster, persistent=persistent
        )
        verify(kernel)
        return kernel

    # ------------------------------------------------------------------------ the plan

    def _place(self, name: str, nbytes: int) -> None:
        start = -(-self.plan.shared_bytes // 1024) * 1024
        self.plan.shared.append(SharedItem(name, start, nbytes, 1024, name))
        self.plan.shared_bytes = start + nbytes

    def ring(
        self, stages: int, arrays: Sequence[TileArray], full: int, empty: int, name: str = "ring"
    ) -> Value:
        for array in arrays:
            self._place(f"{name}.{array.name}", stages * array.tiles * array.pitch)
        self.plan.counts |= {(name, "full"): full, (name, "empty"): empty}
        return self.value(tile.PipelineCreate(name, RingType(stages, 1, tuple(arrays))), name)

    def bars(self, number: int, count: int, name: str = "bars") -> Value:
        self.plan.counts[name, "raw"] = count
        return self.value(sync.MbarrierCreate(name, number, count), name)

    def shared(self, array: TileArray, name: str = "own") -> Value:
        self._place(name, array.tiles * array.pitch)
        return self.value(memory.SharedCreate(name, array), name)

    def named(self, threads: int, name: str = "meet") -> Value:
        self.plan.named[name] = NamedBarrier(len(self.plan.named) + 1, threads)
        return self.value(sync.NamedCreate(name), name)

    @contextmanager
    def role(self, name: str, warps: int = 1, mode: str = "thread") -> Iterator[None]:
        self.plan.roles.append(RolePlan(name, warps, self.warps, mode))
        self.warps += warps
        with super().role(name, warps):
            yield

    def main(self, warps: int, mode: str) -> None:
        """The kernel has no roles; this is how its body runs."""
        self.plan.roles.append(RolePlan("main", warps, 0, mode))
        self.warps = warps

    # ---------------------------------------------------------------------- shorthands

    def bar(self, row: Value, index: Value | int = 0) -> Value:
        index = index if isinstance(index, Value) else self.const(index)
        return self.value(sync.MbarrierAt(row, index))

    def full(self, ring: Value, slot: Value) -> Value:
        return self.value(protocol.RingBarrier(ring, slot, "full"))

    def empty(self, ring: Value, slot: Value) -> Value:
        return self.value(protocol.RingBarrier(ring, slot, "empty"))

    def tile_of(self, ring: Value, slot: Value, array: int = 0) -> Value:
        return self.value(tile.PayloadTile(ring, slot, array))

    def own(self, array: Value, index: int = 0) -> Value:
        return self.value(memory.SharedAt(array, self.const(index)))

    def wait(self, barrier: Value, parity: Value | int, **fields: object) -> None:
        parity = parity if isinstance(parity, Value) else self.const(parity)
        self.add(protocol.MbarrierWait(barrier, parity, **fields))  # type: ignore[arg-type]

    def arrive(self, barrier: Value, elect: str = "role", **fields: object) -> None:
        self.add(protocol.MbarrierArrive(barrier, (), elect=elect, **fields))  # type: ignore[arg-type]

    def expect(self, barrier: Value, nbytes: int) -> None:
        self.add(protocol.MbarrierArriveExpectTx(barrier, nbytes))

    def store(self, source: Value, tensor: Value, coords: Sequence[Value], **fields: str) -> None:
        """A shared tile to global memory, done before it goes on."""
        self.add(protocol.TmaStoreShared(source, tensor, tuple(coords), **fields))
        self.add(protocol.BulkCommit("role"))
        self.add(protocol.BulkWait(0, False, "role"))

    def each(self, stages: int, count: int, body: Callable[[Value, Value, Value], None]) -> None:
        """``body(i, slot, parity)`` for ``count`` steps around a ring."""

        def step(i: Value) -> Sequence[Value]:
            lap = self.op("floordiv", i, stages)
            body(i, self.op("mod", i, stages), self.op("mod", lap, 2))
            return ()

        self.loop(0, self.const(count), 1, step)

    def when(self, condition: Value, then: Callable[[], None]) -> None:
        self.branch(condition, then)

    def spin(self, ask: Callable[[], Value]) -> None:
        """Repeat ``ask`` until it says yes."""
        block = Block()
        with self.inside(block):
            yes = ask()
            self.branch(yes, lambda: self.add(control.Break(())))
            self.add(control.Continue(()))
        self.add(control.Loop((), block))


F32 = dtypes.float32


def rows_of(rows: int, columns: int = 64, tiles: int = 1) -> TileArray:
    return TileArray("tile", (rows, columns), F32, 0, tiles)


def types(*values: Value) -> list[Type]:
    return [value.type for value in values]
