"""The bare ring: full and empty barriers without tiles, for data that a pipeline does not know."""

from __future__ import annotations

from tiledsl.language.barrier import Barrier
from tiledsl.language.outside import outside_kernel
from tiledsl.language.stage import ConsumerStage, ProducerStage, Scope, Stage


class ProducerConsumerPipeline:
    """A ring of stages with a full and an empty mbarrier each, and no tiles.

    What a stage guards is the user's: shared tiles of his own, or no memory at all. Phases and
    slots are derived, and so are the arrival counts unless they are given. A producer that loads
    nothing arrives when it releases; what the role wrote before is then visible to consumers.

    Args:
        num_stages: stages of the ring, known at compile time.
        producer_count: arrivals that make a stage full, known at compile time; None: derived from
            the roles that produce.
        consumer_count: arrivals that make a stage empty; None: derived from the roles that
            consume. To be given where arrivals are made by hand (``consume_explicit``).

    Raises:
        TypeMismatch: a number that is only known at run time.
        InvalidValue: numbers that are not positive, more than 1048575 arrivals.
        SyntaxNotSupported: inside of a role, loop or branch.

    Example::

        ring = td.ProducerConsumerPipeline(2)
        rows = td.shared((64, 64), td.float32, number=2)
        with td.role("make", warps=4):
            for i in range(n):
                with ring.produce() as stage:
                    rows[stage.index()].store(x)
        with td.role("use", warps=4):
            for i in range(n):
                with ring.consume() as stage:
                    y = rows[stage.index()].load()
    """

    def __init__(
        self,
        num_stages: int,
        *,
        producer_count: int | None = None,
        consumer_count: int | None = None,
    ) -> None:
        raise outside_kernel("td.ProducerConsumerPipeline")

    def producer(self) -> RingProducer:
        """The view of a role that fills stages."""
        raise outside_kernel("ProducerConsumerPipeline.producer")

    def consumer(self) -> RingConsumer:
        """The view of the roles that read stages. Each of them reads every stage."""
        raise outside_kernel("ProducerConsumerPipeline.consumer")

    def produce(self) -> ProducerStage:
        """``with ring.produce() as stage:`` waits for an empty slot; its end hands it on."""
        raise outside_kernel("ProducerConsumerPipeline.produce")

    def consume(self) -> ConsumerStage:
        """``with ring.consume() as stage:`` waits for a full slot; its end gives it back."""
        raise outside_kernel("ProducerConsumerPipeline.consume")

    def consume_explicit(self) -> ConsumerStage:
        """As ``consume``, but the end of the ``with`` only goes on to the next slot.

        The arrival is the user's: ``stage.arrive()`` inside of the block, or a raw arrival on
        ``stage.mbar()``, now or later, here or from elsewhere; the ring needs its
        ``consumer_count`` for the latter.
        """
        raise outside_kernel("ProducerConsumerPipeline.consume_explicit")

    def acquire_producer(self) -> ProducerStage:
        """Wait for an empty slot and take it; to be released on every path."""
        raise outside_kernel("ProducerConsumerPipeline.acquire_producer")

    def acquire_consumer(self) -> ConsumerStage:
        """Wait for a full slot and take it; to be released on every path."""
        raise outside_kernel("ProducerConsumerPipeline.acquire_consumer")

    # Raw style: wait, arrive and step by hand.

    def wait_empty(self) -> None:
        """Producer side: wait until the slot where it stands is empty; takes nothing."""
        raise outside_kernel("ProducerConsumerPipeline.wait_empty")

    def wait_full(self) -> None:
        """Consumer side: wait until the slot where it stands is full; takes nothing."""
        raise outside_kernel("ProducerConsumerPipeline.wait_full")

    def try_wait_empty(self) -> bool:
        """Whether ``wait_empty`` would go on at once."""
        raise outside_kernel("ProducerConsumerPipeline.try_wait_empty")

    def try_wait_full(self) -> bool:
        """Whether ``wait_full`` would go on at once."""
        raise outside_kernel("ProducerConsumerPipeline.try_wait_full")

    def wait_empty_if_needed(self, ready: bool) -> None:
        """``wait_empty``, unless ``ready``: the answer of ``try_wait_empty``, or False."""
        raise outside_kernel("ProducerConsumerPipeline.wait_empty_if_needed")

    def wait_full_if_needed(self, ready: bool) -> None:
        """``wait_full``, unless ``ready``: the answer of ``try_wait_full``, or False."""
        raise outside_kernel("ProducerConsumerPipeline.wait_full_if_needed")

    def producer_stage(self) -> int:
        """The slot where this role's producer side stands, an int32 run-time value."""
        raise outside_kernel("ProducerConsumerPipeline.producer_stage")

    def consumer_stage(self) -> int:
        """The slot where this role's consumer side stands, an int32 run-time value."""
        raise outside_kernel("ProducerConsumerPipeline.consumer_stage")

    def producer_step(self) -> None:
        """The producer side goes on to the next slot; nobody is told."""
        raise outside_kernel("ProducerConsumerPipeline.producer_step")

    def consumer_step(self) -> None:
        """The consumer side goes on to the next slot; nobody is told."""
        raise outside_kernel("ProducerConsumerPipeline.consumer_step")

    def producer_signal_and_step(self) -> None:
        """Wait for an empty slot, arrive on its full barrier, go on to the next."""
        raise outside_kernel("ProducerConsumerPipeline.producer_signal_and_step")

    def consumer_signal_and_step(self) -> None:
        """Wait for a full slot, arrive on its empty barrier, go on to the next."""
        raise outside_kernel("ProducerConsumerPipeline.consumer_signal_and_step")

    def full_mbar(self, stage: int | Stage) -> Barrier:
        """The full barrier of a slot, on which consumers wait."""
        raise outside_kernel("ProducerConsumerPipeline.full_mbar")

    def empty_mbar(self, stage: int | Stage) -> Barrier:
        """The empty barrier of a slot, on which the producer waits."""
        raise outside_kernel("ProducerConsumerPipeline.empty_mbar")

    def producer_mbar(self, stage: int | Stage) -> Barrier:
        """The barrier on which the producer arrives: the same as ``full_mbar``."""
        raise outside_kernel("ProducerConsumerPipeline.producer_mbar")

    def consumer_mbar(self, stage: int | Stage) -> Barrier:
        """The barrier on which consumers arrive: the same as ``empty_mbar``."""
        raise outside_kernel("ProducerConsumerPipeline.consumer_mbar")

    def drain_producer(self) -> None:
        """Producer side: wait until every slot is empty."""
        raise outside_kernel("ProducerConsumerPipeline.drain_producer")

    def smem_bytes(self) -> int:
        """Shared memory of the barriers in bytes, known at compile time."""
        raise outside_kernel("ProducerConsumerPipeline.smem_bytes")

    @property
    def num_stages(self) -> int:
        """Stages of the ring, known at compile time."""
        raise outside_kernel("ProducerConsumerPipeline.num_stages")


class RingProducer(Scope):
    """The producing side of a bare ring; see ``InputProducer``."""

    def acquire(self) -> ProducerStage:
        """Wait until the next stage is empty, and take it."""
        raise outside_kernel("RingProducer.acquire")

    def acquire_stage(self) -> ProducerStage:
        """The same as ``acquire``, to be read as: this stage is released by hand."""
        raise outside_kernel("RingProducer.acquire_stage")

    def try_acquire(self) -> bool:
        """Whether ``acquire`` would go on without waiting, now. Takes nothing."""
        raise outside_kernel("RingProducer.try_acquire")

    def acquire_if_needed(self, ready: bool) -> ProducerStage:
        """As ``acquire``, but waits only where ``ready`` is false; see ``InputProducer``."""
        raise outside_kernel("RingProducer.acquire_if_needed")

    def drain(self) -> None:
        """Wait until the consumers have released every stage."""
        raise outside_kernel("RingProducer.drain")


class RingConsumer(Scope):
    """The consuming side of a bare ring; see ``InputConsumer``."""

    def acquire(self) -> ConsumerStage:
        """Wait until the next stage is full, and take it."""
        raise outside_kernel("RingConsumer.acquire")

    def acquire_stage(self) -> ConsumerStage:
        """The same as ``acquire``, to be read as: this stage is released by hand."""
        raise outside_kernel("RingConsumer.acquire_stage")

    def try_acquire(self) -> bool:
        """Whether ``acquire`` would go on without waiting, now. Takes nothing."""
        raise outside_kernel("RingConsumer.try_acquire")

    def acquire_if_needed(self, ready: bool) -> ConsumerStage:
        """As ``acquire``, but waits only where ``ready`` is false; see ``InputProducer``."""
        raise outside_kernel("RingConsumer.acquire_if_needed")
