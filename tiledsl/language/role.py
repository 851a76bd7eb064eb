"""Roles: the sequential programs that the warps of a block run beside each other."""

from __future__ import annotations

from types import TracebackType

from tiledsl.language.outside import outside_kernel


class Role:
    """What ``td.role`` gives: for a ``with`` statement."""

    def __enter__(self) -> None:
        raise outside_kernel("td.role")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        raise outside_kernel("td.role")


def role(name: str, *, warps: int) -> Role:
    """A program that ``warps`` warps run together, beside the other roles of the block.

    What was computed before the roles is visible in each; what a role assigns is its own. The
    roles stand at the top of the kernel, one behind the other, and nothing follows them. The
    compiler places them on warps and deals registers to them. A role that works with register
    tiles needs a multiple of 4 warps (whole warpgroups); its tiles are dealt to them by rows. A
    role that does not, such as a loader, needs no more than one.

    Args:
        name: shown in reports; unique in the kernel, known at compile time.
        warps: at least 1, known at compile time.

    Raises:
        TypeMismatch: a name that is no string, or a number that is only known at run time.
        InvalidValue: a name used twice, or fewer than one warp.
        SyntaxNotSupported: a role inside of a role, loop, branch or inlined function.

    Example::

        with td.role("load", warps=1):
            ...
        with td.role("mma", warps=8):
            ...
    """
    raise outside_kernel("td.role")
