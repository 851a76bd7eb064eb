"""Objects that exist while a kernel is being traced: pipelines, views, stages, schedulers.

They are compile-time objects that may hold run-time values. The interpreter calls their public
methods with the context first and enters them in ``with`` statements::

    class ProducerView(TracedObject):
        kind = "pipeline producer"

        @traced
        def acquire(self, cx: Context) -> ProducerStage: ...
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tiledsl.codegen.ir.core import Op, Value

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

_F = TypeVar("_F", bound=Callable[..., Any])


def traced(function: _F) -> _F:
    """Mark a method that kernels may call; it takes the context as its first argument."""
    function.__tiledsl_traced__ = True  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True, slots=True)
class Iteration:
    """A run-time loop over an object: ``for i in range(start, stop, step)``.

    ``start``, ``stop`` and ``step`` are int32 values. ``target`` is called once at the begin of
    the body, with the context and the counter, and gives what the loop's target is bound to: a
    value, or a tuple to be unpacked.
    """

    start: Value
    stop: Value
    step: Value
    target: Callable[[Context, Value], Any]


@dataclass(frozen=True, slots=True)
class FormatPart:
    """``{value!conversion:spec}`` of an f-string, where the value is only known at run time."""

    value: Value
    conversion: str  # "", "s", "r" or "a"
    spec: str


@dataclass(frozen=True, slots=True)
class FormatString:
    """An f-string with run-time parts: text and ``FormatPart`` in turn. ``td.print`` takes it."""

    parts: tuple[str | FormatPart, ...]


class TracedObject:
    """Base of compile-time objects with behaviour inside of kernels.

    They are immutable: a loop body may be traced twice, once to find the types of what it
    carries. State of the program belongs into run-time values.
    """

    kind: ClassVar[str] = "object"  # what error messages call it
    only_with: ClassVar[str | None] = None  # how to write it, where it means nothing by itself
    properties: ClassVar[tuple[str, ...]] = ()  # names that ``attribute`` knows
    renamed: ClassVar[Mapping[str, str]] = {}  # names of other texts -> what to write here

    def attribute(self, cx: Context, name: str) -> Any:
        """``object.name`` where the name is no traced method; raise through ``cx.error``."""
        names = [n for n in dir(self) if getattr(getattr(self, n), "__tiledsl_traced__", False)]
        names = sorted([*names, *self.properties])
        hint = f"it has: {', '.join(names)}" if names else None
        if name in self.renamed:
            hint = f"write {self.renamed[name]}"
        elif close := difflib.get_close_matches(name, names, n=2, cutoff=0.75):
            hint = f"did you mean {' or '.join(close)}?"
        raise cx.type_error(f"a {self.kind} has no attribute {name!r}", hint=hint)

    def enter(self, cx: Context) -> Any:
        """Begin of ``with object as target``; returns what the target is bound to."""
        raise cx.type_error(f"a {self.kind} cannot be used in a with statement")

    def exit(self, cx: Context) -> None:
        """End of the ``with`` block, on the path that falls through or leaves it early."""

    def region(self, cx: Context) -> Op | None:
        """For ``with object:`` whose body is a block of its own, such as a role.

        Return an operation with a field ``body`` (an empty Block): the statement adds it to the
        kernel's body, traces its own body in there with ``cx.role`` set, and makes what it assigns
        local to it; ``return`` inside ends the role. ``enter`` and ``exit`` are not called then.
        That it stands at the top of the kernel, in no other role, is checked before this call.
        """
        return None

    def inside(self, cx: Context, region: Op) -> Any:
        """What ``as`` binds in the region that this object made."""
        return None

    def iterate(self, cx: Context) -> Any:
        """``for target in object``: an ``Iteration``."""
        raise cx.type_error(f"a {self.kind} cannot be iterated over")

    def item(self, cx: Context, index: Any) -> Any:
        """``object[index]``."""
        raise cx.type_error(f"a {self.kind} cannot be indexed")

    def assigned(self, name: str) -> None:
        """Told when the object is assigned to a variable of the user's, for names in IR text."""

    def flatten(self) -> tuple[list[Value], Any]:
        """Run-time values inside, and a key for ``unflatten``; equal keys can be merged."""
        return [], self

    def unflatten(self, values: list[Value]) -> TracedObject:
        """The same object around other values."""
        assert not values
        return self
