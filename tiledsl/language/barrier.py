"""Raw mbarriers, and named barriers between roles: the escape hatch below pipelines."""

from __future__ import annotations

from typing import overload

from tiledsl.language.outside import outside_kernel


class Barrier:
    """An mbarrier in shared memory: one of the user's own, or the full or empty one of a stage.

    It completes a *phase* when all arrivals that it expects, and all bytes that were announced,
    have come; then it begins the next. Phases are told apart by their parity: 0 for the first, 1
    for the second, 0 for the third...
    """

    def arrive(self, rank: int | None = None) -> None:
        """One arrival of the role, when all of its threads have got here.

        Args:
            rank: with it, the arrival is on the same barrier of the block of that rank in the
                cluster: 0 ... size - 1, checked where it is known at compile time.

        Raises:
            InvalidValue: a rank in a kernel without clusters, or one that no block has.
        """
        raise outside_kernel("Barrier.arrive")

    def arrive_and_expect_bytes(self, nbytes: int) -> None:
        """One arrival of the role that announces bytes, which loads onto this barrier then bring.

        Args:
            nbytes: known at compile time. Every load counts its whole tile.
        """
        raise outside_kernel("Barrier.arrive_and_expect_bytes")

    def wait(self, parity: int) -> None:
        """Wait until the phase of this parity is complete.

        Args:
            parity: 0 or 1, or the number of the phase: its lowest bit counts. A wait for parity 1
                of a fresh barrier goes through: the phase before the first counts as complete.
        """
        raise outside_kernel("Barrier.wait")

    def try_wait(self, parity: int) -> bool:
        """Whether the phase of this parity is complete, without waiting; see ``wait``."""
        raise outside_kernel("Barrier.try_wait")


class Barriers:
    """A row of mbarriers: ``td.mbarrier(number=...)``."""

    def __getitem__(self, index: int) -> Barrier:
        """Barrier ``index``, from 0 on; known at compile time or at run time."""
        raise outside_kernel("Barriers[...]")

    @property
    def number(self) -> int:
        """How many there are."""
        raise outside_kernel("Barriers.number")


@overload
def mbarrier(count: int | None = None, *, number: None = None) -> Barrier: ...


@overload
def mbarrier(count: int | None = None, *, number: int) -> Barriers: ...


def mbarrier(count: int | None = None, *, number: int | None = None) -> Barrier | Barriers:
    """A barrier in shared memory that no pipeline guards, or a row of them.

    Made at the top of the kernel and initialised before the roles begin. What a pipeline derives
    is up to the user here: who arrives, which parity to wait for, when it may be used anew.

    Args:
        count: arrivals that complete a phase, known at compile time. None: derived from the roles
            that arrive, each of them once a phase.
        number: how many barriers; None for a single one.

    Raises:
        TypeMismatch: numbers that are only known at run time.
        InvalidValue: numbers that are not positive, more than 1048575 arrivals.
        SyntaxNotSupported: inside of a role, loop or branch.

    Example::

        q_tile = td.shared((BM, D), q.dtype)
        loaded = td.mbarrier()
        with td.role("load", warps=1):
            loaded.arrive_and_expect_bytes(BM * D * q.dtype.itemsize)
            td.tma_load(q, (0, 0), q_tile, loaded)
        with td.role("mma", warps=4):
            loaded.wait(0)
            ...
    """
    raise outside_kernel("td.mbarrier")


class NamedBarrier:
    """A named barrier (``bar.sync``) between roles."""

    def sync(self) -> None:
        """Arrive and wait until every thread of every role that uses the barrier has arrived."""
        raise outside_kernel("NamedBarrier.sync")

    def wait(self) -> None:
        """The same as ``sync``."""
        raise outside_kernel("NamedBarrier.wait")

    def arrive(self) -> None:
        """Arrive without waiting: what stands before is seen by those who wait."""
        raise outside_kernel("NamedBarrier.arrive")


def named_barrier() -> NamedBarrier:
    """A barrier at which the roles that use it meet, with all of their threads.

    Its id and the number of threads are derived: those of every role that calls ``sync`` or
    ``arrive``. Each of these roles takes part in each round once.

    Raises:
        SyntaxNotSupported: inside of a role, loop or branch.

    Example::

        written = td.named_barrier()
        with td.role("write", warps=4):
            tile.store(x)
            written.arrive()
        with td.role("read", warps=4):
            written.sync()
            y = tile.load()
    """
    raise outside_kernel("td.named_barrier")
