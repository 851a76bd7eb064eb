"""Stages: what a side of a pipeline holds between acquire and release."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tiledsl.language.barrier import Barrier
from tiledsl.language.outside import outside_kernel

if TYPE_CHECKING:
    from tiledsl.language.tile import SharedTile


class Scope:
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


class Stage(Scope):
    """A stage that is held: from acquire to release, on every path once.

    In a ``with`` statement it is released at the end of the block, on whatever path. A stage may
    be passed to functions, returned from them, and kept in tuples and dataclasses; whoever has it
    last releases it.
    """

    def stage(self) -> int:
        """The slot in the ring, 0 ... stages - 1: an int32 run-time value."""
        raise outside_kernel("Stage.stage")

    def index(self) -> int:
        """The same as ``stage()``."""
        raise outside_kernel("Stage.index")

    def barrier(self) -> Barrier:
        """The barrier that the other side waits on: full for a producer, empty for a consumer.

        The loads of a producer's stage complete on it.
        """
        raise outside_kernel("Stage.barrier")

    def mbar(self) -> Barrier:
        """The same as ``barrier()``."""
        raise outside_kernel("Stage.mbar")

    def arrive(self) -> None:
        """Tell the other side now, and keep the stage.

        It takes the place of the arrival of the release, which must then be
        ``release_without_signal()``. The stage's tiles are the other side's from here on.
        """
        raise outside_kernel("Stage.arrive")

    def release(self) -> None:
        """Give the stage up, and tell the other side.

        A producer hands it to the consumers, who get it once its loads have completed. A consumer
        gives it back; computations that still read it are waited for: the compiler delays the
        arrival until then, so that a release straight after ``td.mma`` costs no overlap.
        """
        raise outside_kernel("Stage.release")

    def release_without_signal(self) -> None:
        """Give the stage up, and tell nobody: the arrival came, or comes, from elsewhere."""
        raise outside_kernel("Stage.release_without_signal")


class TileStage(Stage):
    """A stage with tiles."""

    def payload(self) -> Any:
        """The payload with its tiles: of the class that the pipeline was made of."""
        raise outside_kernel("TileStage.payload")

    def tile(self, k: int = 0) -> SharedTile:
        """Tile ``k`` of this stage in the only array of the payload.

        Args:
            k: 0 ... tiles of a stage - 1; checked where it is known at compile time.

        Raises:
            TypeMismatch: the payload has several arrays.
        """
        raise outside_kernel("TileStage.tile")

    def tiles(self, k: int = 0) -> tuple[SharedTile, ...]:
        """Tile ``k`` of this stage in each array of the payload, in the arrays' order."""
        raise outside_kernel("TileStage.tiles")


class InputProducerStage(TileStage):
    """A stage that the producer of a pipeline with tiles fills."""

    def expect_bytes(self, nbytes: int) -> None:
        """State how many bytes the loads on this stage bring.

        Not needed: the number is derived from the loads. One that is given is checked against it.

        Args:
            nbytes: known at compile time; every load counts its whole tile, also where it lies
                outside of the tensor.
        """
        raise outside_kernel("InputProducerStage.expect_bytes")


class InputConsumerStage(TileStage):
    """A stage that a consumer of a pipeline with tiles reads."""


class ProducerStage(Stage):
    """A stage that the producer of a bare ring holds."""

    def expect_bytes(self, nbytes: int) -> None:
        """State how many bytes the loads on this stage bring; see ``InputProducerStage``."""
        raise outside_kernel("ProducerStage.expect_bytes")


class ConsumerStage(Stage):
    """A stage that a consumer of a bare ring holds."""
