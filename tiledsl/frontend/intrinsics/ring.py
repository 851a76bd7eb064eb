"""The bare ring: pairs of barriers without tiles, and its raw style."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import ring as ring_ops
from tiledsl.codegen.ir.ops import tile
from tiledsl.codegen.ir.types import RingType
from tiledsl.frontend.intrinsics.arguments import static_int
from tiledsl.frontend.intrinsics.arrays import ring_type
from tiledsl.frontend.intrinsics.barrier import MAX_COUNT
from tiledsl.frontend.intrinsics.naming import ObjectName, expect_at_top
from tiledsl.frontend.intrinsics.stage import (
    ExplicitStage,
    RingConsumerStage,
    RingProducerStage,
    Stage,
)
from tiledsl.frontend.intrinsics.views import AnyPipeline, ConsumerView, ProducerView
from tiledsl.frontend.objects import traced
from tiledsl.frontend.registry import implements
from tiledsl.language import ring as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

CALL = "td.ProducerConsumerPipeline"


@implements(language.ProducerConsumerPipeline)
def producer_consumer_pipeline(
    cx: Context,
    num_stages: object,
    producer_count: object = None,
    consumer_count: object = None,
) -> BareRing:
    stages = static_int(cx, num_stages, f"{CALL}: num_stages", least=1)
    counts = (
        _count(cx, producer_count, "producer_count"),
        _count(cx, consumer_count, "consumer_count"),
    )
    expect_at_top(cx, CALL, "pipeline")
    create = tile.PipelineCreate("pipeline", RingType(stages, 1, ()), counts=counts)
    return BareRing(ObjectName(cx, create))


def _count(cx: Context, count: object, name: str) -> int | None:
    if count is None:
        return None
    return static_int(cx, count, f"{CALL}: {name}", least=1, most=MAX_COUNT)


@dataclass(frozen=True, eq=False)
class BareRing(AnyPipeline):
    """What ``td.ProducerConsumerPipeline(...)`` gives."""

    kind: ClassVar[str] = "bare pipeline"
    properties: ClassVar[tuple[str, ...]] = ("num_stages",)
    renamed: ClassVar[Mapping[str, str]] = {
        "wait_consumer": "wait_empty()",
        "wait_producer": "wait_full()",
        "try_wait_consumer": "try_wait_empty()",
        "try_wait_producer": "try_wait_full()",
        "wait_consumer_if_needed": "wait_empty_if_needed(ready)",
        "wait_producer_if_needed": "wait_full_if_needed(ready)",
        "init_mbars": "nothing: the barriers are initialised before the roles begin",
        "acquire": "acquire_producer() or acquire_consumer()",
    }

    def hold(self, side: str, handle: Value) -> Stage:
        stage = RingProducerStage if side == "producer" else RingConsumerStage
        return stage(self.ring, handle)

    def attribute(self, cx: Context, name: str) -> Any:
        if name == "num_stages":
            return ring_type(self.ring).stages
        return super().attribute(cx, name)

    @traced
    def producer(self, cx: Context) -> ProducerView:
        return ProducerView(self)

    @traced
    def consumer(self, cx: Context) -> ConsumerView:
        return ConsumerView(self)

    # --------------------------------------------------------------------------- contexts

    @traced
    def produce(self, cx: Context) -> Stage:
        return self.take(cx, "producer")

    @traced
    def consume(self, cx: Context) -> Stage:
        return self.take(cx, "consumer")

    @traced
    def consume_explicit(self, cx: Context) -> Stage:
        return ExplicitStage(self.ring, self.take(cx, "consumer").handle)

    # -------------------------------------------------------------------------- raw style

    @traced
    def wait_empty(self, cx: Context) -> None:
        self.wait(cx, "producer")

    @traced
    def wait_full(self, cx: Context) -> None:
        self.wait(cx, "consumer")

    @traced
    def try_wait_empty(self, cx: Context) -> Value:
        return self.probe(cx, "producer")

    @traced
    def try_wait_full(self, cx: Context) -> Value:
        return self.probe(cx, "consumer")

    @traced
    def producer_step(self, cx: Context) -> None:
        cx.add(ring_ops.Step(self.ring, "producer"))

    @traced
    def consumer_step(self, cx: Context) -> None:
        cx.add(ring_ops.Step(self.ring, "consumer"))

    @traced
    def producer_signal_and_step(self, cx: Context) -> None:
        self._signal_and_step(cx, "producer")

    @traced
    def consumer_signal_and_step(self, cx: Context) -> None:
        self._signal_and_step(cx, "consumer")

    def _signal_and_step(self, cx: Context, side: str) -> None:
        self.wait(cx, side)
        cx.add(ring_ops.Signal(self.ring, side))
        cx.add(ring_ops.Step(self.ring, side))
