"""Objects that exist while a kernel is being traced: pipelines, views, stages, schedulers.

They are compile-time objects that may hold run-time values. The interpreter calls their public
methods with the context first and enters them in ``with`` statements::

    class ProducerView(TracedObject):
        kind = "pipeline producer"

        @traced
        def acquire(self, cx: Context) -> ProducerStage: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tiledsl.codegen.ir.core import Value

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

_F = TypeVar("_F", bound=Callable[..., Any])


def traced(function: _F) -> _F:
    """Mark a method that kernels may call; it takes the context as its first argument."""
    function.__tiledsl_traced__ = True  # type: ignore[attr-defined]
    return function


class TracedObject:
    """Base of compile-time objects with behaviour inside of kernels."""

    kind: ClassVar[str] = "object"  # what error messages call it

    def attribute(self, cx: Context, name: str) -> Any:
        """``object.name`` where the name is no traced method; raise through ``cx.error``."""
        names = [n for n in dir(self) if getattr(getattr(self, n), "__tiledsl_traced__", False)]
        raise cx.type_error(
            f"a {self.kind} has no attribute {name!r}",
            hint=f"it has: {', '.join(names)}" if names else None,
        )

    def enter(self, cx: Context) -> Any:
        """Begin of ``with object as target``; returns what the target is bound to."""
        raise cx.type_error(f"a {self.kind} cannot be used in a with statement")

    def exit(self, cx: Context) -> None:
        """End of the ``with`` block, on the path that falls through or leaves it early."""

    def iterate(self, cx: Context) -> Any:
        """``for target in object``: an ``Iteration``, see ``frontend/loops.py``."""
        raise cx.type_error(f"a {self.kind} cannot be iterated over")

    def flatten(self) -> tuple[list[Value], Any]:
        """Run-time values inside, and a key for ``unflatten``; equal keys can be merged."""
        return [], self

    def unflatten(self, values: list[Value]) -> TracedObject:
        """The same object around other values."""
        assert not values
        return self
