"""Input pipelines: the ring, its two views and the stages that they hand out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import tile
from tiledsl.codegen.ir.types import RingType
from tiledsl.frontend.intrinsics.arguments import static_int
from tiledsl.frontend.intrinsics.payload import Payload, StagePayload
from tiledsl.frontend.objects import TracedObject, traced
from tiledsl.frontend.registry import implements
from tiledsl.language import pipeline as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


@implements(language.InputTilePipeline)
def input_tile_pipeline(
    cx: Context, payload: object, num_group_stages: object, k_group_size: object = 1
) -> Pipeline:
    call = "td.InputTilePipeline"
    if not isinstance(payload, Payload):
        raise cx.type_error(
            f"{call}: payload: expected a tile payload, got {cx.describe(payload)}",
            hint="make one with td.StandardTilePayload(...)",
        )
    stages = static_int(cx, num_group_stages, f"{call}: num_group_stages", least=1)
    k_group = static_int(cx, k_group_size, f"{call}: k_group_size", least=1)
    if stages * k_group != payload.num_pipeline_stages:
        raise cx.value_error(
            f"{call}: {stages} group stages of {k_group} tiles need a payload of"
            f" {stages * k_group} pipeline stages, got one of {payload.num_pipeline_stages}",
            hint=f"write num_pipeline_stages={stages * k_group} for the payload, or"
            f" num_group_stages={payload.num_pipeline_stages // k_group} here"
            if payload.num_pipeline_stages % k_group == 0
            else "num_pipeline_stages is num_group_stages * k_group_size",
        )
    if not cx.at_top:
        raise cx.syntax_error(
            f"{call}: a pipeline belongs to the whole block: expected it at the top of the kernel,"
            " outside of roles, loops and branches",
            hint="make the pipeline before the first td.role",
        )
    taken = frozenset(op.name for op in cx.body.ops if isinstance(op, tile.PipelineCreate))
    name = _unique("pipeline", taken)
    ring = cx.emit(tile.PipelineCreate(name, RingType(stages, k_group, payload.arrays)), name)
    return Pipeline(ring, taken)


def _unique(name: str, taken: frozenset[str]) -> str:
    """``name``, or ``name_2``, ``name_3`` ... where it is taken."""
    names = (name, *(f"{name}_{number}" for number in range(2, len(taken) + 3)))
    return next(candidate for candidate in names if candidate not in taken)


@dataclass(frozen=True, eq=False)
class Pipeline(TracedObject):
    """What ``td.InputTilePipeline(...)`` gives."""

    kind: ClassVar[str] = "tile pipeline"
    properties: ClassVar[tuple[str, ...]] = ("k_group_size", "num_group_stages")

    ring: Value
    earlier: frozenset[str]  # names of the pipelines before this one

    @traced
    def producer(self, cx: Context) -> ProducerView:
        return ProducerView(self.ring)

    @traced
    def consumer(self, cx: Context) -> ConsumerView:
        return ConsumerView(self.ring)

    def attribute(self, cx: Context, name: str) -> Any:
        assert isinstance(self.ring.type, RingType)
        if name == "num_group_stages":
            return self.ring.type.stages
        if name == "k_group_size":
            return self.ring.type.k_group
        return super().attribute(cx, name)

    def assigned(self, name: str) -> None:
        """The ring takes the name of the first variable that holds it."""
        create = self.ring.owner
        assert isinstance(create, tile.PipelineCreate)
        if create.name == _unique("pipeline", self.earlier):
            create.name = self.ring.name = _unique(name, self.earlier)


@dataclass(frozen=True, eq=False)
class _Scope(TracedObject):
    """What may stand in a ``with`` statement and binds itself."""

    def enter(self, cx: Context) -> TracedObject:
        return self


@dataclass(frozen=True, eq=False)
class ProducerView(_Scope):
    kind: ClassVar[str] = "pipeline producer"

    ring: Value

    @traced
    def acquire(self, cx: Context) -> ProducerStage:
        return ProducerStage(self.ring, cx.emit(tile.AcquireProducer(self.ring)))

    @traced
    def drain(self, cx: Context) -> None:
        cx.add(tile.Drain(self.ring))


@dataclass(frozen=True, eq=False)
class ConsumerView(_Scope):
    kind: ClassVar[str] = "pipeline consumer"

    ring: Value

    @traced
    def acquire(self, cx: Context) -> ConsumerStage:
        return ConsumerStage(self.ring, cx.emit(tile.AcquireConsumer(self.ring)))


@dataclass(frozen=True, eq=False)
class _Stage(_Scope):
    """A stage that is held. Leaving a ``with`` block releases it, on whatever path."""

    ring: Value
    handle: Value

    def exit(self, cx: Context) -> None:
        cx.add(tile.Release(self.handle))

    @traced
    def payload(self, cx: Context) -> StagePayload:
        return StagePayload(self.ring)

    @traced
    def stage(self, cx: Context) -> Value:
        return cx.emit(tile.StageIndex(self.handle), "slot")

    @traced
    def barrier(self, cx: Context) -> Value:
        return cx.emit(tile.StageBarrier(self.handle), "barrier")

    @traced
    def release(self, cx: Context) -> None:
        cx.add(tile.Release(self.handle))

    def assigned(self, name: str) -> None:
        self.handle.name = self.handle.name or name

    def flatten(self) -> tuple[list[Value], Any]:
        return [self.handle], (type(self), self.ring)

    def unflatten(self, values: list[Value]) -> TracedObject:
        (handle,) = values
        return type(self)(self.ring, handle)


class ProducerStage(_Stage):
    kind: ClassVar[str] = "producer stage"

    @traced
    def expect_bytes(self, cx: Context, nbytes: object) -> None:
        number = static_int(cx, nbytes, "expect_bytes: nbytes", least=0)
        cx.add(tile.ExpectBytes(self.handle, number))


class ConsumerStage(_Stage):
    kind: ClassVar[str] = "consumer stage"

    @traced
    def mbar(self, cx: Context) -> Value:
        return self.barrier(cx)
