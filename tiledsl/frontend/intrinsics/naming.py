"""Names of what a block has in shared memory: rings, barriers, tiles. Unique in the kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tiledsl.codegen.ir.core import Op

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


class ObjectName:
    """The name of one object: that of the variable that holds it in the kernel itself.

    A variable of a function that the kernel calls counts until then; of several, the first. The
    objects are made at the top of a kernel, which is traced once.
    """

    def __init__(self, cx: Context, op: Op) -> None:
        """Append an operation whose ``name`` is the one it has when no variable holds it."""
        self.value = cx.emit(op)
        self._cx = cx
        self._op = op
        self._depth: int | None = None
        self._take(op.attributes["name"])

    def assigned(self, name: str) -> None:
        """Told of every variable that the object is assigned to."""
        depth = len(self._cx.frames)
        if self._depth is None or depth < self._depth:
            self._depth = depth
            self._cx.object_names.discard(self._op.attributes["name"])
            self._take(name)

    def _take(self, name: str) -> None:
        free = unique(name, self._cx.object_names)
        self._cx.object_names.add(free)
        self._op.name = free  # type: ignore[attr-defined]
        self.value.name = free


def unique(name: str, taken: Iterable[str]) -> str:
    """``name``, or ``name_2``, ``name_3`` ... where it is taken."""
    known = set(taken)
    names = (name, *(f"{name}_{number}" for number in range(2, len(known) + 3)))
    return next(candidate for candidate in names if candidate not in known)


def expect_at_top(cx: Context, call: str, noun: str) -> None:
    """Raise ``SyntaxNotSupported`` unless ``noun`` is made where the whole block makes it."""
    if not cx.at_top:
        raise cx.syntax_error(
            f"{call}: a {noun} belongs to the whole block: expected it at the top of the kernel,"
            " outside of roles, loops and branches",
            hint=f"make the {noun} before the first td.role",
        )
