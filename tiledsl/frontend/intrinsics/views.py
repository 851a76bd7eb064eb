"""What pipelines with and without tiles have in common: their two sides, and the views of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import ring as ring_ops
from tiledsl.codegen.ir.ops import tile
from tiledsl.codegen.ir.ops.protocol import RingBarrier
from tiledsl.codegen.ir.types import Scalar
from tiledsl.frontend.intrinsics.arrays import ring_type, slot_number
from tiledsl.frontend.intrinsics.naming import ObjectName
from tiledsl.frontend.intrinsics.stage import Stage
from tiledsl.frontend.objects import TracedObject, traced

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

BARRIER_BYTES = 8


def ready_flag(cx: Context, ready: object, what: str) -> tuple[Value, ...]:
    """``ready`` of an operation that waits unless it is true."""
    if ready is False:
        return ()
    if ready is True:
        raise cx.value_error(
            f"{what}: ready: expected the answer of a try_acquire, got True",
            hint="only the barrier knows whether the slot is ready: ready = view.try_acquire()",
        )
    if isinstance(ready, Value) and ready.type == Scalar(dtypes.bool_):
        return (ready,)
    raise cx.type_error(
        f"{what}: ready: expected a bool, got {cx.describe(ready)}",
        hint="write ready = view.try_acquire()",
    )


@dataclass(frozen=True, eq=False)
class AnyPipeline(TracedObject):
    """A ring with its name; subclasses say what their stages are."""

    name: ObjectName

    @property
    def ring(self) -> Value:
        return self.name.value

    def hold(self, side: str, handle: Value) -> Stage:
        """The stage object of an acquired handle."""
        raise NotImplementedError

    def assigned(self, name: str) -> None:
        self.name.assigned(name)

    def take(self, cx: Context, side: str, ready: tuple[Value, ...] = ()) -> Stage:
        """Acquire the next stage of a side."""
        acquire = tile.AcquireProducer if side == "producer" else tile.AcquireConsumer
        return self.hold(side, cx.emit(acquire(self.ring, ready=ready)))

    # ------------------------------------------------------------------ without the views

    @traced
    def acquire_producer(self, cx: Context) -> Stage:
        return self.take(cx, "producer")

    @traced
    def acquire_consumer(self, cx: Context) -> Stage:
        return self.take(cx, "consumer")

    @traced
    def producer_stage(self, cx: Context) -> Value:
        return cx.emit(ring_ops.Position(self.ring, "producer"), "slot")

    @traced
    def consumer_stage(self, cx: Context) -> Value:
        return cx.emit(ring_ops.Position(self.ring, "consumer"), "slot")

    @traced
    def wait_empty_if_needed(self, cx: Context, ready: object) -> None:
        self.wait(cx, "producer", ready_flag(cx, ready, "wait_empty_if_needed"))

    @traced
    def wait_full_if_needed(self, cx: Context, ready: object) -> None:
        self.wait(cx, "consumer", ready_flag(cx, ready, "wait_full_if_needed"))

    @traced
    def producer_mbar(self, cx: Context, stage: object) -> Value:
        return self._barrier(cx, stage, "full", "producer_mbar")

    @traced
    def consumer_mbar(self, cx: Context, stage: object) -> Value:
        return self._barrier(cx, stage, "empty", "consumer_mbar")

    @traced
    def full_mbar(self, cx: Context, stage: object) -> Value:
        return self._barrier(cx, stage, "full", "full_mbar")

    @traced
    def empty_mbar(self, cx: Context, stage: object) -> Value:
        return self._barrier(cx, stage, "empty", "empty_mbar")

    @traced
    def drain_producer(self, cx: Context) -> None:
        cx.add(tile.Drain(self.ring))

    @traced
    def smem_bytes(self, cx: Context) -> int:
        kind = ring_type(self.ring)
        return 2 * BARRIER_BYTES * kind.stages + kind.shared_bytes

    def wait(self, cx: Context, side: str, ready: tuple[Value, ...] = ()) -> None:
        cx.add(ring_ops.Wait(self.ring, side, ready=ready))

    def probe(self, cx: Context, side: str) -> Value:
        return cx.emit(ring_ops.TryAcquire(self.ring, side), "ready")

    def _barrier(self, cx: Context, stage: object, which: str, what: str) -> Value:
        slot = cx.int32(slot_number(cx, self.ring, stage, what))
        return cx.emit(RingBarrier(self.ring, slot, which), "barrier")


@dataclass(frozen=True)
class View(TracedObject):
    """One side of a pipeline. It may stand in a ``with`` statement and binds itself."""

    side: ClassVar[str]
    renamed: ClassVar[Mapping[str, str]] = {"get_tiles": "acquire()"}

    pipeline: AnyPipeline

    def enter(self, cx: Context) -> TracedObject:
        return self

    @traced
    def acquire(self, cx: Context) -> Stage:
        return self.pipeline.take(cx, self.side)

    @traced
    def acquire_stage(self, cx: Context) -> Stage:
        return self.pipeline.take(cx, self.side)

    @traced
    def try_acquire(self, cx: Context) -> Value:
        return self.pipeline.probe(cx, self.side)

    @traced
    def acquire_if_needed(self, cx: Context, ready: object) -> Stage:
        return self.pipeline.take(cx, self.side, ready_flag(cx, ready, "acquire_if_needed"))


class ProducerView(View):
    kind: ClassVar[str] = "pipeline producer"
    side: ClassVar[str] = "producer"

    @traced
    def drain(self, cx: Context) -> None:
        self.pipeline.drain_producer(cx)


class ConsumerView(View):
    kind: ClassVar[str] = "pipeline consumer"
    side: ClassVar[str] = "consumer"
