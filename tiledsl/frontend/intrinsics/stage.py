"""Stages: what a side of a pipeline holds between acquire and release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import ring as ring_ops
from tiledsl.codegen.ir.ops import tile
from tiledsl.frontend.intrinsics.arguments import static_int
from tiledsl.frontend.intrinsics.arrays import HeldStage, ring_tile, ring_type
from tiledsl.frontend.intrinsics.payload import Contents
from tiledsl.frontend.objects import TracedObject, traced

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


@dataclass(frozen=True, eq=False)
class Stage(HeldStage):
    """A stage of a bare ring. Leaving a ``with`` block releases it, on whatever path."""

    def enter(self, cx: Context) -> TracedObject:
        return self

    def exit(self, cx: Context) -> None:
        cx.add(tile.Release(self.handle))

    @traced
    def stage(self, cx: Context) -> Value:
        return self.slot(cx)

    @traced
    def index(self, cx: Context) -> Value:
        return self.slot(cx)

    @traced
    def barrier(self, cx: Context) -> Value:
        return cx.emit(tile.StageBarrier(self.handle), "barrier")

    @traced
    def mbar(self, cx: Context) -> Value:
        return self.barrier(cx)

    @traced
    def arrive(self, cx: Context) -> None:
        cx.add(ring_ops.StageArrive(self.handle))

    @traced
    def release(self, cx: Context) -> None:
        cx.add(tile.Release(self.handle))

    @traced
    def release_without_signal(self, cx: Context) -> None:
        cx.add(tile.Release(self.handle, signal=False))

    def attribute(self, cx: Context, name: str) -> Any:
        if name in ("payload", "tile", "tiles"):
            raise cx.type_error(
                f"a {self.kind} of a bare pipeline has no {name}: the ring has no tiles",
                hint="make tiles with td.shared(..., number=stages), and take tiles[stage.index()]",
            )
        return super().attribute(cx, name)

    def assigned(self, name: str) -> None:
        self.handle.name = self.handle.name or name

    def flatten(self) -> tuple[list[Value], Any]:
        return [self.handle], (type(self), self.ring)

    def unflatten(self, values: list[Value]) -> TracedObject:
        (handle,) = values
        return type(self)(self.ring, handle)


class _Fills(Stage):
    """What only the side that fills the stage has."""

    @traced
    def expect_bytes(self, cx: Context, nbytes: object) -> None:
        number = static_int(cx, nbytes, "expect_bytes: nbytes", least=0)
        cx.add(tile.ExpectBytes(self.handle, number))


class RingProducerStage(_Fills):
    kind: ClassVar[str] = "producer stage"


class RingConsumerStage(Stage):
    kind: ClassVar[str] = "consumer stage"


class ExplicitStage(RingConsumerStage):
    """A stage whose ``with`` block only steps: the arrival is the user's."""

    def exit(self, cx: Context) -> None:
        cx.add(tile.Release(self.handle, signal=False))

    @traced
    def release(self, cx: Context) -> None:
        raise cx.type_error(
            "release: consume_explicit leaves the arrival to you",
            hint="write stage.arrive(), and release_without_signal() or the end of the with block",
        )


@dataclass(frozen=True, eq=False)
class TileStage(Stage):
    """A stage of a pipeline with tiles."""

    contents: Contents

    @traced
    def payload(self, cx: Context) -> Any:
        return self.contents.bind(cx, self.ring)

    @traced
    def tile(self, cx: Context, k: object = 0) -> Value:
        arrays = ring_type(self.ring).arrays
        if len(arrays) != 1:
            names = ", ".join(array.name for array in arrays)
            raise cx.type_error(
                f"tile: expected a payload of one array, got one of {len(arrays)}: {names}",
                hint="write stage.tiles(k) for a tile of each, or stage.payload()",
            )
        return ring_tile(cx, self.ring, 0, self, k, "tile")

    @traced
    def tiles(self, cx: Context, k: object = 0) -> tuple[Value, ...]:
        numbers = range(len(ring_type(self.ring).arrays))
        return tuple(ring_tile(cx, self.ring, n, self, k, "tiles") for n in numbers)

    def unflatten(self, values: list[Value]) -> TracedObject:
        (handle,) = values
        return type(self)(self.ring, handle, self.contents)


class ProducerStage(TileStage, _Fills):
    kind: ClassVar[str] = "producer stage"


class ConsumerStage(TileStage):
    kind: ClassVar[str] = "consumer stage"
