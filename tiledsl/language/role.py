"""Roles: the sequential programs that the warps of a block run beside each other."""

from __future__ import annotations

from types import TracebackType

from tiledsl.language.outside import outside_kernel


class Turn:
    """What ``me.turn()`` gives: for a ``with`` statement."""

    def __enter__(self) -> None:
        raise outside_kernel("Me.turn")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        raise outside_kernel("Me.turn")


class Me:
    """A role, seen from inside: what ``with td.role(...) as me`` binds."""

    @property
    def index(self) -> int:
        """The number of this replica, 0 ... count - 1; 0 in a role without replicas."""
        raise outside_kernel("Me.index")

    @property
    def count(self) -> int:
        """Replicas of the role, known at compile time."""
        raise outside_kernel("Me.count")

    @property
    def name(self) -> str:
        """The name of the role, the same for all replicas."""
        raise outside_kernel("Me.name")

    @property
    def warps(self) -> int:
        """Warps of this replica, known at compile time."""
        raise outside_kernel("Me.warps")

    @property
    def threads(self) -> int:
        """Threads of this replica, known at compile time."""
        raise outside_kernel("Me.threads")

    def turn(self, name: str = "turn") -> Turn:
        """A section that the replicas run one behind the other: 0, 1, ... 0, 1, ...

        The replicas share one place in each ring that they acquire from inside: the stages go
        to the replica whose turn it is, and the place is handed on with the turn. Rings acquired
        outside of turns are read in full by each replica. What wgmma still computes when the turn
        ends goes on beside the next replica's turn. In a role without replicas it does nothing.

        The order is fixed: a replica that leaves a turn out (``continue``, ``return``, a condition)
        holds up the others as soon as they come round to it again.

        Args:
            name: known at compile time. Sections of different names take turns independently.

        Raises:
            SyntaxNotSupported: inside of a turn of the same name, or without ``with``.

        Example::

            with td.role("mma", warps=4, replicas=2) as me:
                for m, n in tiles.deal(me):
                    acc = td.zeros((BM, BN), td.float32)
                    with me.turn("mma"):
                        for k in range(steps):
                            with pipeline.consumer().acquire() as stage:
                                ...
                    with me.turn("store"):
                        td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))
        """
        raise outside_kernel("Me.turn")


class Role:
    """What ``td.role`` gives: for a ``with`` statement."""

    def __enter__(self) -> Me:
        raise outside_kernel("td.role")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        raise outside_kernel("td.role")


def role(name: str, *, warps: int, replicas: int = 1) -> Role:
    """A program that ``warps`` warps run together, beside the other roles of the block.

    What was computed before the roles is visible in each; what a role assigns is its own. The
    roles stand at the top of the kernel, one behind the other, and nothing follows them. The
    compiler places them on warps and deals registers to them. A role that works with register
    tiles needs a multiple of 4 warps (whole warpgroups); its tiles are dealt to them by rows. A
    role that does not, such as a loader, needs no more than one.

    ``replicas`` copies of the program run beside each other, each on warps of its own, usually on
    different output tiles: ``with td.role(...) as me`` says which one it is (``me.index``), and
    ``me.turn()`` orders them.

    Args:
        name: shown in reports; unique in the kernel, known at compile time.
        warps: warps of each replica, at least 1, known at compile time.
        replicas: at least 1, known at compile time.

    Raises:
        TypeMismatch: a name that is no string, or a number that is only known at run time.
        InvalidValue: a name used twice, fewer than one warp or replica, more than 32 warps.
        SyntaxNotSupported: a role inside of a role, loop, branch or inlined function.

    Example::

        with td.role("load", warps=1):
            ...
        with td.role("mma", warps=8):
            ...
    """
    raise outside_kernel("td.role")
