"""Tile pipelines: rings of stages between a role that loads and roles that compute."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from tiledsl.language.outside import outside_kernel
from tiledsl.language.payload import StandardTilePayload


class _Scope:
    """What may stand in a ``with`` statement."""

    def __enter__(self) -> Self:
        raise outside_kernel(f"with {type(self).__name__}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        raise outside_kernel(f"with {type(self).__name__}")


class Barrier:
    """An mbarrier in shared memory: the full or the empty one of a stage."""


class InputTilePipeline:
    """A ring of stages that one role fills and others read.

    Each stage has a full and an empty mbarrier and ``k_group_size`` tiles of every array of the
    payload. Storage, initialisation, arrival counts, transaction bytes and phases are derived.
    The stages are used in turn: ``acquire`` waits for the next one, ``release`` passes it on.

    Args:
        payload: what a stage holds.
        num_group_stages: stages of the ring, known at compile time; the payload must have
            ``num_group_stages * k_group_size`` pipeline stages.
        k_group_size: tiles of each array in a stage, known at compile time. More than one makes a
            barrier guard several loads: fewer waits for short tiles.

    Raises:
        TypeMismatch: not a payload, or a number that is only known at run time.
        InvalidValue: numbers that are not positive or do not fit the payload.

    Example::

        with td.role("load", warps=1):
            with pipeline.producer() as producer:
                for k in range(steps):
                    with producer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage())
                        td.tma_load(a, (0, k * BK), a_tile, stage.barrier())
                        td.tma_load(b, (0, k * BK), b_tile, stage.barrier())
    """

    def __init__(
        self, payload: StandardTilePayload, num_group_stages: int, k_group_size: int = 1
    ) -> None:
        raise outside_kernel("td.InputTilePipeline")

    def producer(self) -> InputProducer:
        """The view of the role that fills stages. One role of a kernel may use it."""
        raise outside_kernel("InputTilePipeline.producer")

    def consumer(self) -> InputConsumer:
        """The view of the roles that read stages. Each of them reads every stage."""
        raise outside_kernel("InputTilePipeline.consumer")

    @property
    def num_group_stages(self) -> int:
        """Stages of the ring, known at compile time."""
        raise outside_kernel("InputTilePipeline.num_group_stages")

    @property
    def k_group_size(self) -> int:
        """Tiles of each array in a stage, known at compile time."""
        raise outside_kernel("InputTilePipeline.k_group_size")


class InputProducer(_Scope):
    """The loading side of a pipeline. May be used directly, or as ``with ... as producer``."""

    def acquire(self) -> InputProducerStage:
        """Wait until the next stage is empty, and take it.

        Either ``with producer.acquire() as stage:``, which releases at its end, or
        ``stage = producer.acquire()`` with ``stage.release()`` on every path. The first lap waits
        for nothing.
        """
        raise outside_kernel("InputProducer.acquire")

    def drain(self) -> None:
        """Wait until the consumers have released every stage."""
        raise outside_kernel("InputProducer.drain")


class InputConsumer(_Scope):
    """The reading side of a pipeline. May be used directly, or as ``with ... as consumer``."""

    def acquire(self) -> InputConsumerStage:
        """Wait until the next stage is full, and take it; see ``InputProducer.acquire``."""
        raise outside_kernel("InputConsumer.acquire")


class InputProducerStage(_Scope):
    """A stage that the producer holds: from ``acquire`` to ``release``, on every path once."""

    def payload(self) -> StandardTilePayload:
        """The payload with its tiles."""
        raise outside_kernel("InputProducerStage.payload")

    def stage(self) -> int:
        """The slot in the ring, 0 ... num_group_stages - 1: an int32 run-time value."""
        raise outside_kernel("InputProducerStage.stage")

    def barrier(self) -> Barrier:
        """The full barrier, on which the loads of this stage complete."""
        raise outside_kernel("InputProducerStage.barrier")

    def expect_bytes(self, nbytes: int) -> None:
        """State how many bytes the loads on this stage bring.

        Not needed: the number is derived from the loads. One that is given is checked against it.

        Args:
            nbytes: known at compile time; every load counts its whole tile, also where it lies
                outside of the tensor.
        """
        raise outside_kernel("InputProducerStage.expect_bytes")

    def release(self) -> None:
        """Hand the stage to the consumers: they get it once the loads have completed."""
        raise outside_kernel("InputProducerStage.release")


class InputConsumerStage(_Scope):
    """A stage that a consumer holds: from ``acquire`` to ``release``, on every path once."""

    def payload(self) -> StandardTilePayload:
        """The payload with its tiles."""
        raise outside_kernel("InputConsumerStage.payload")

    def stage(self) -> int:
        """The slot in the ring, 0 ... num_group_stages - 1: an int32 run-time value."""
        raise outside_kernel("InputConsumerStage.stage")

    def barrier(self) -> Barrier:
        """The empty barrier, on which the consumers arrive when they release."""
        raise outside_kernel("InputConsumerStage.barrier")

    def mbar(self) -> Barrier:
        """The same as ``barrier()``."""
        raise outside_kernel("InputConsumerStage.mbar")

    def release(self) -> None:
        """Give the stage back to the producer.

        Computations that still read it are waited for: the compiler delays the arrival until
        then, so that a release straight after ``td.mma`` costs no overlap.
        """
        raise outside_kernel("InputConsumerStage.release")
