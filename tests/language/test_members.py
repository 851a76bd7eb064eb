"""The stubs and what stands behind them have the same members: none is promised or hidden."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tiledsl.codegen.ir.types import BarrierType, NamedBarrierType, Type
from tiledsl.frontend import registry
from tiledsl.frontend.intrinsics import arrays, views
from tiledsl.frontend.intrinsics import barrier as barriers
from tiledsl.frontend.intrinsics import payload as payloads
from tiledsl.frontend.intrinsics import pipeline as pipelines
from tiledsl.frontend.intrinsics import ring as rings
from tiledsl.frontend.intrinsics import role as roles
from tiledsl.frontend.intrinsics import shared as shareds
from tiledsl.frontend.intrinsics import stage as stages
from tiledsl.frontend.objects import TracedObject
from tiledsl.language import barrier, payload, pipeline, ring, role, shared, stage

OBJECTS: list[tuple[type, type[TracedObject]]] = [
    (payload.TileArray, arrays.RingArray),
    (payload.TileArray, arrays.ArraySpec),
    (payload.StandardTilePayload, payloads.StagePayload),
    (payload.BlockwiseFP8TilePayload, payloads.ScaledStagePayload),
    (pipeline.InputTilePipeline, pipelines.Pipeline),
    (pipeline.InputProducer, views.ProducerView),
    (pipeline.InputConsumer, views.ConsumerView),
    (ring.ProducerConsumerPipeline, rings.BareRing),
    (ring.RingProducer, views.ProducerView),
    (ring.RingConsumer, views.ConsumerView),
    (stage.InputProducerStage, stages.ProducerStage),
    (stage.InputConsumerStage, stages.ConsumerStage),
    (stage.ProducerStage, stages.RingProducerStage),
    (stage.ConsumerStage, stages.RingConsumerStage),
    (stage.ConsumerStage, stages.ExplicitStage),
    (barrier.Barriers, barriers.Barriers),
    (shared.SharedTiles, shareds.SharedTiles),
    (role.Me, roles.Me),
]
VALUES: list[tuple[type, type[Type]]] = [
    (barrier.Barrier, BarrierType),
    (barrier.NamedBarrier, NamedBarrierType),
]


def promised(stub: type) -> dict[str, inspect.Signature | None]:
    """The public members of a stub; properties have no signature."""
    found: dict[str, inspect.Signature | None] = {}
    for name in dir(stub):
        member = inspect.getattr_static(stub, name)
        if name.startswith("_") or not isinstance(member, property | type(promised)):
            continue
        found[name] = None if isinstance(member, property) else inspect.signature(member)
    return found


def names(signature: inspect.Signature, skip: int) -> list[tuple[str, Any]]:
    return [(p.name, p.default) for p in list(signature.parameters.values())[skip:]]


@pytest.mark.parametrize(("stub", "traced"), OBJECTS, ids=lambda cls: cls.__name__)
def test_members_of_objects(stub: type, traced: type[TracedObject]) -> None:
    wanted = promised(stub)
    methods = {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(traced)
        if getattr(member, "__tiledsl_traced__", False)
    }
    assert set(wanted) == {*methods, *traced.properties}
    for name, signature in methods.items():
        promise = wanted[name]
        assert promise is not None, f"{name} is a property of the stub"
        assert names(signature, 2) == names(promise, 1), name


@pytest.mark.parametrize(("stub", "type"), VALUES, ids=lambda cls: cls.__name__)
def test_members_of_values(stub: type, type: type[Type]) -> None:
    wanted = promised(stub)
    known = [name for name in registry.members_of(type.__new__(type)) if name[0] != "_"]
    assert set(wanted) == set(known)
    for name, promise in wanted.items():
        found = registry.method_of(type.__new__(type), name)
        assert found is not None and promise is not None, name
        assert names(inspect.signature(found), 2) == names(promise, 1), name
