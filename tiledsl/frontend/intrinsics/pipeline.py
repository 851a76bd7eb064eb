"""Input pipelines: rings of stages with tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import tile
from tiledsl.codegen.ir.types import RingType
from tiledsl.errors import counted
from tiledsl.frontend.intrinsics.arguments import static_int
from tiledsl.frontend.intrinsics.arrays import ring_type
from tiledsl.frontend.intrinsics.naming import ObjectName, expect_at_top
from tiledsl.frontend.intrinsics.payload import Contents, contents_of
from tiledsl.frontend.intrinsics.stage import ConsumerStage, ProducerStage, Stage
from tiledsl.frontend.intrinsics.views import AnyPipeline, ConsumerView, ProducerView
from tiledsl.frontend.objects import traced
from tiledsl.frontend.registry import implements
from tiledsl.language import pipeline as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

CALL = "td.InputTilePipeline"


@implements(language.InputTilePipeline)
def input_tile_pipeline(
    cx: Context, payload: object, num_group_stages: object, k_group_size: object = None
) -> Pipeline:
    contents = contents_of(cx, payload, CALL)
    stages = static_int(cx, num_group_stages, f"{CALL}: num_group_stages", least=1)
    given = None
    if k_group_size is not None:
        given = static_int(cx, k_group_size, f"{CALL}: k_group_size", least=1)
    if contents.uniform is None:
        k_group = _own_group(cx, contents, stages, given)
    else:
        k_group = _uniform_group(cx, contents.uniform, stages, given or 1)
    expect_at_top(cx, CALL, "pipeline")
    arrays = tuple(array.in_ring(name, stages) for name, array in contents.arrays.items())
    create = tile.PipelineCreate("pipeline", RingType(stages, k_group, arrays))
    return Pipeline(ObjectName(cx, create), contents)


def _uniform_group(cx: Context, tiles: int, stages: int, k_group: int) -> int:
    """``k_group``, which must fit a payload of the language with so many tiles an array."""
    if stages * k_group != tiles:
        raise cx.value_error(
            f"{CALL}: expected a payload of {counted(stages * k_group, 'pipeline stage')} for"
            f" {counted(stages, 'group stage')} of {counted(k_group, 'tile')}, got one of {tiles}",
            hint=f"write num_pipeline_stages={stages * k_group} for the payload, or"
            f" num_group_stages={tiles // k_group} here"
            if tiles % k_group == 0
            else "num_pipeline_stages is num_group_stages * k_group_size",
        )
    return k_group


def _own_group(cx: Context, contents: Contents, stages: int, given: int | None) -> int:
    """The most tiles that an array has in a stage."""
    for name, array in contents.arrays.items():
        if array.stages % stages:
            below = array.stages // stages * stages
            near = f"{below} or {below + stages}" if below else str(stages)
            raise cx.value_error(
                f"{CALL}: array {name!r} has {array.stages} tiles, which {stages} group stages do"
                " not share evenly",
                hint=f"write stages={near} for it: a multiple of num_group_stages",
            )
    most = max(array.stages // stages for array in contents.arrays.values())
    if given is not None and given != most:
        raise cx.value_error(
            f"{CALL}: k_group_size: expected {most}, the most tiles that an array has in each of"
            f" {stages} group stages, got {given}",
            hint="leave it out: it follows from the stages of the arrays",
        )
    return most


@dataclass(frozen=True, eq=False)
class Pipeline(AnyPipeline):
    """What ``td.InputTilePipeline(...)`` gives."""

    kind: ClassVar[str] = "tile pipeline"
    properties: ClassVar[tuple[str, ...]] = ("k_group_size", "num_group_stages")
    renamed: ClassVar[Mapping[str, str]] = {
        "wait_consumer_if_needed": "wait_empty_if_needed(ready)",
        "wait_producer_if_needed": "wait_full_if_needed(ready)",
        "acquire": "pipeline.producer().acquire() or pipeline.consumer().acquire()",
        "init_barriers": "nothing: barriers are made with the pipeline, their arrivals are counted",
        # Of the rings that came before it.
        "get_slot": "pipeline.producer().acquire()",
        "get_producer_tiles": "pipeline.producer().acquire()",
        "get_consumer_tiles": "pipeline.consumer().acquire()",
        "get_tile": "pipeline.consumer().acquire()",
        "enqueue_tile": "stage.release(), or let the with block of the stage end",
        "release_slot": "stage.release(), or let the with block of the stage end",
        "arrive_empty_barriers": "nothing: the first lap finds each slot empty",
        "get_expected_bytes": "nothing: the bytes of a stage are those of its loads",
    }

    contents: Contents

    def hold(self, side: str, handle: Value) -> Stage:
        stage = ProducerStage if side == "producer" else ConsumerStage
        return stage(self.ring, handle, self.contents)

    @traced
    def producer(self, cx: Context) -> ProducerView:
        return ProducerView(self)

    @traced
    def consumer(self, cx: Context) -> ConsumerView:
        return ConsumerView(self)

    @traced
    def try_acquire_producer(self, cx: Context) -> Value:
        return self.probe(cx, "producer")

    @traced
    def try_acquire_consumer(self, cx: Context) -> Value:
        return self.probe(cx, "consumer")

    def attribute(self, cx: Context, name: str) -> Any:
        if name == "num_group_stages":
            return ring_type(self.ring).stages
        if name == "k_group_size":
            return ring_type(self.ring).k_group
        return super().attribute(cx, name)
