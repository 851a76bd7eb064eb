"""Rings beyond acquire and release: probes, early arrivals, and the raw style of a bare ring."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import TILE, Effect, Op, Value, attribute, define, operand, operands
from tiledsl.codegen.ir.ops.tile import I32, check_ready
from tiledsl.codegen.ir.types import RingType, Scalar, StageType, Type

Namer = Callable[[Value], str]
SIDES = ("producer", "consumer")


class _OnSide(Op):
    ring: Value
    side: str

    def verify(self) -> None:
        if not isinstance(self.ring.type, RingType):
            raise ValueError(f"expected a pipeline, got {self.ring.type}")
        if self.side not in SIDES:
            raise ValueError(f"a ring has a producer and a consumer, not a {self.side!r}")

    def print_head(self, name: Namer) -> str:
        return f"{self.opcode} {name(self.ring)}.{self.side}"


@define("pipeline.try_acquire", levels=TILE, effect=Effect.SYNC)
class TryAcquire(_OnSide):
    """Whether the next slot can be acquired without waiting. Moves nothing, never waits.

    The answer is the same for all threads of the role. It stays true until this side acquires.
    """

    ring: Value = operand()
    side: str = attribute()

    def result_types(self) -> Sequence[Type]:
        return (Scalar(dtypes.bool_),)


@define("pipeline.position", levels=TILE, effect=Effect.READ)
class Position(_OnSide):
    """The slot that this side acquires next, 0 ... stages - 1."""

    ring: Value = operand()
    side: str = attribute()

    def result_types(self) -> Sequence[Type]:
        return (I32,)


@define("pipeline.wait", levels=TILE, effect=Effect.SYNC)
class Wait(_OnSide):
    """Raw style: wait until the next slot can be used by this side, without taking it.

    With ``ready`` (none or one bool_, from ``try_acquire``) only where that is false.
    """

    ring: Value = operand()
    ready: tuple[Value, ...] = operands(default=(), kw_only=True)
    side: str = attribute()

    def verify(self) -> None:
        super().verify()
        check_ready(self.ready)

    def print_head(self, name: Namer) -> str:
        unless = f" unless {name(self.ready[0])}" if self.ready else ""
        return super().print_head(name) + unless


@define("pipeline.signal", levels=TILE, effect=Effect.SYNC)
class Signal(_OnSide):
    """Raw style: arrive for the slot where this side stands: a producer on full, a consumer on
    empty."""

    ring: Value = operand()
    side: str = attribute()


@define("pipeline.step", levels=TILE, effect=Effect.SYNC)
class Step(_OnSide):
    """Raw style: go on to the next slot."""

    ring: Value = operand()
    side: str = attribute()


@define("stage.arrive", levels=TILE, effect=Effect.SYNC)
class StageArrive(Op):
    """Arrive for a stage that is held (producer: on full; consumer: on empty), and keep it.

    It takes the place of the arrival of the release, which must then be one without signal.
    """

    stage: Value = operand()

    def verify(self) -> None:
        if not isinstance(self.stage.type, StageType):
            raise ValueError(f"expected a stage, got {self.stage.type}")
