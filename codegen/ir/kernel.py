"""A kernel in IR: parameters, body, and what the passes have decided so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from tiledsl.codegen.ir.core import Block, Level, Op, Value
from tiledsl.codegen.ir.exact import exact
from tiledsl.codegen.ir.ops.control import Role
from tiledsl.codegen.ir.types import Scalar, TensorType
from tiledsl.errors import UNKNOWN_LOC, Loc

if TYPE_CHECKING:
    from tiledsl.codegen.ir.plan import Plan


@dataclass(frozen=True, slots=True)
class Captured:
    """A Python value from outside of the kernel's function, as it was when it was compiled.

    ``read`` gives the value that the name has now. ``space`` is the ``id`` of the globals or the
    cell that hold the name; ``read`` keeps them alive.
    """

    space: int
    name: str
    value: object
    read: Callable[[], object]

    @property
    def is_current(self) -> bool:
        """Whether the name still has an equal value of the same type."""
        now = self.read()
        if now is self.value:
            return True
        try:
            return exact(now) == exact(self.value)
        except TypeError:  # not hashable, such as a list
            pass
        try:
            return type(now) is type(self.value) and bool(now == self.value)
        except Exception:  # of the value's own comparison: an array in a tuple has none
            return False


@dataclass(eq=False)
class Param:
    """A run-time parameter: a tensor or a scalar."""

    name: str
    value: Value

    @property
    def type(self) -> TensorType | Scalar:
        assert isinstance(self.value.type, TensorType | Scalar)
        return self.value.type


@dataclass(eq=False)
class Kernel:
    """A kernel at some level.

    Attributes:
        name: a legal PTX identifier.
        params: run-time parameters in the order of the call.
        body: operations run by all warps, with ``role`` operations for the warp-specialised part.
        persistent: whether the launch grid is one block per multiprocessor.
        warps: warps of a kernel without roles; None when roles decide.
        target: such as ``"sm_90a"``.
        cluster: blocks of a cluster along each of its axes; their product is its size.
        captured: what globals and closure variables held when they were compiled in.
        plan: roles on warps, registers, shared memory, parameters; set by the planning passes.
    """

    name: str
    params: list[Param]
    body: Block
    level: Level = Level.TILE
    persistent: bool = False
    warps: int | None = None
    target: str = "sm_90a"
    loc: Loc = UNKNOWN_LOC
    plan: Plan | None = None
    constants: dict[str, str] = field(default_factory=dict)
    captured: tuple[Captured, ...] = ()
    cluster: tuple[int, ...] = (1,)

    @property
    def cluster_size(self) -> int:
        """Blocks of a cluster; 1 in a kernel without clusters."""
        return prod(self.cluster)

    @property
    def cluster_dims(self) -> tuple[int, int, int]:
        """The cluster along x, y and z of the grid, as the hardware launches it.

        A persistent grid has x only, so its clusters lie along x, whatever their axes; the axes
        of other clusters are those of the grid. Either way a block's rank counts the first axis
        fastest, so that its coordinates follow from its rank.
        """
        if self.persistent:
            return self.cluster_size, 1, 1
        x, y, z = (*self.cluster, 1, 1)[:3]
        return x, y, z

    def __str__(self) -> str:
        from tiledsl.codegen.ir.printer import print_kernel

        return print_kernel(self)


def roles_of(kernel: Kernel) -> list[tuple[str, Block]]:
    """The sequential programs of a kernel: its roles, or the whole body as ``"main"``."""
    roles = [(op.name, op.body) for op in kernel.body.ops if isinstance(op, Role)]
    return roles or [("main", kernel.body)]


def outside_roles(kernel: Kernel) -> Iterator[Op]:
    """Every operation that all warps run: what stands beside the roles, nested blocks included."""
    for op in kernel.body.ops:
        if not isinstance(op, Role):
            yield op
            for block in op.blocks:
                yield from block.walk()
