"""Tile pipelines: rings of stages between a role that loads and roles that compute."""

from __future__ import annotations

from typing import Any

from tiledsl.language.barrier import Barrier
from tiledsl.language.outside import outside_kernel
from tiledsl.language.stage import InputConsumerStage, InputProducerStage, Scope, Stage


class InputTilePipeline:
    """A ring of stages that one role fills and others read.

    Each stage has a full and an empty mbarrier and the same number of tiles of each array of the
    payload. Storage, initialisation, arrival counts, transaction bytes and phases are derived.
    The stages are used in turn: ``acquire`` waits for the next one, ``release`` passes it on.

    Args:
        payload: what a stage holds: a payload of the language, an instance of a class of your own
            (``@td.payload``), or a single ``td.TileArray``.
        num_group_stages: stages of the ring, known at compile time. The payload's stages must be
            ``num_group_stages * k_group_size``; in one of your own those of each array a multiple
            of ``num_group_stages``.
        k_group_size: tiles of each array in a stage, known at compile time. More than one makes a
            barrier guard several loads: fewer waits for short tiles. Left out: 1, and the most
            that an array has for a payload of your own.

    Raises:
        TypeMismatch: not a payload, or a number that is only known at run time.
        InvalidValue: numbers that are not positive or do not fit the payload.
        SyntaxNotSupported: inside of a role, loop or branch.

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
        self, payload: Any, num_group_stages: int, k_group_size: int | None = None
    ) -> None:
        raise outside_kernel("td.InputTilePipeline")

    def producer(self) -> InputProducer:
        """The view of a role that fills stages. Of several, each brings its share of each stage."""
        raise outside_kernel("InputTilePipeline.producer")

    def consumer(self) -> InputConsumer:
        """The view of the roles that read stages. Each of them reads every stage."""
        raise outside_kernel("InputTilePipeline.consumer")

    # What the views do, without them.

    def acquire_producer(self) -> InputProducerStage:
        """The same as ``producer().acquire()``."""
        raise outside_kernel("InputTilePipeline.acquire_producer")

    def acquire_consumer(self) -> InputConsumerStage:
        """The same as ``consumer().acquire()``."""
        raise outside_kernel("InputTilePipeline.acquire_consumer")

    def try_acquire_producer(self) -> bool:
        """The same as ``producer().try_acquire()``."""
        raise outside_kernel("InputTilePipeline.try_acquire_producer")

    def try_acquire_consumer(self) -> bool:
        """The same as ``consumer().try_acquire()``."""
        raise outside_kernel("InputTilePipeline.try_acquire_consumer")

    def wait_empty_if_needed(self, ready: bool) -> None:
        """Producer side: wait until the next slot is empty, unless ``ready``; takes nothing."""
        raise outside_kernel("InputTilePipeline.wait_empty_if_needed")

    def wait_full_if_needed(self, ready: bool) -> None:
        """Consumer side: wait until the next slot is full, unless ``ready``; takes nothing."""
        raise outside_kernel("InputTilePipeline.wait_full_if_needed")

    def drain_producer(self) -> None:
        """The same as ``producer().drain()``."""
        raise outside_kernel("InputTilePipeline.drain_producer")

    def producer_stage(self) -> int:
        """The slot that this role's producer side takes next, an int32 run-time value."""
        raise outside_kernel("InputTilePipeline.producer_stage")

    def consumer_stage(self) -> int:
        """The slot that this role's consumer side takes next, an int32 run-time value."""
        raise outside_kernel("InputTilePipeline.consumer_stage")

    def full_mbar(self, stage: int | Stage) -> Barrier:
        """The full barrier of a slot, on which consumers wait."""
        raise outside_kernel("InputTilePipeline.full_mbar")

    def empty_mbar(self, stage: int | Stage) -> Barrier:
        """The empty barrier of a slot, on which the producer waits."""
        raise outside_kernel("InputTilePipeline.empty_mbar")

    def producer_mbar(self, stage: int | Stage) -> Barrier:
        """The barrier on which the producer arrives: the same as ``full_mbar``."""
        raise outside_kernel("InputTilePipeline.producer_mbar")

    def consumer_mbar(self, stage: int | Stage) -> Barrier:
        """The barrier on which consumers arrive: the same as ``empty_mbar``."""
        raise outside_kernel("InputTilePipeline.consumer_mbar")

    def smem_bytes(self) -> int:
        """Shared memory of the ring in bytes: its barriers and its tiles; known at compile time."""
        raise outside_kernel("InputTilePipeline.smem_bytes")

    @property
    def num_group_stages(self) -> int:
        """Stages of the ring, known at compile time."""
        raise outside_kernel("InputTilePipeline.num_group_stages")

    @property
    def k_group_size(self) -> int:
        """Tiles of each array in a stage (the most of them), known at compile time."""
        raise outside_kernel("InputTilePipeline.k_group_size")


class InputProducer(Scope):
    """The loading side of a pipeline. May be used directly, or as ``with ... as producer``."""

    def acquire(self) -> InputProducerStage:
        """Wait until the next stage is empty, and take it.

        Either ``with producer.acquire() as stage:``, which releases at its end, or
        ``stage = producer.acquire()`` with ``stage.release()`` on every path. The first lap waits
        for nothing.
        """
        raise outside_kernel("InputProducer.acquire")

    def acquire_stage(self) -> InputProducerStage:
        """The same as ``acquire``, to be read as: this stage is released by hand."""
        raise outside_kernel("InputProducer.acquire_stage")

    def try_acquire(self) -> bool:
        """Whether ``acquire`` would go on without waiting, now. Takes nothing."""
        raise outside_kernel("InputProducer.try_acquire")

    def acquire_if_needed(self, ready: bool) -> InputProducerStage:
        """As ``acquire``, but waits only where ``ready`` is false.

        Args:
            ready: the answer of ``try_acquire`` since this side last acquired, or False.

        Example::

            ready = producer.try_acquire()
            for k in range(steps):
                with producer.acquire_if_needed(ready) as stage:
                    ...
                ready = producer.try_acquire()
        """
        raise outside_kernel("InputProducer.acquire_if_needed")

    def drain(self) -> None:
        """Wait until the consumers have released every stage."""
        raise outside_kernel("InputProducer.drain")


class InputConsumer(Scope):
    """The reading side of a pipeline. May be used directly, or as ``with ... as consumer``."""

    def acquire(self) -> InputConsumerStage:
        """Wait until the next stage is full, and take it; see ``InputProducer.acquire``."""
        raise outside_kernel("InputConsumer.acquire")

    def acquire_stage(self) -> InputConsumerStage:
        """The same as ``acquire``, to be read as: this stage is released by hand."""
        raise outside_kernel("InputConsumer.acquire_stage")

    def try_acquire(self) -> bool:
        """Whether ``acquire`` would go on without waiting, now. Takes nothing."""
        raise outside_kernel("InputConsumer.try_acquire")

    def acquire_if_needed(self, ready: bool) -> InputConsumerStage:
        """As ``acquire``, but waits only where ``ready`` is false; see ``InputProducer``."""
        raise outside_kernel("InputConsumer.acquire_if_needed")
