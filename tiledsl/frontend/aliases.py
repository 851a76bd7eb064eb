"""Which objects of the kernel may be one: lists and instances that a run-time condition chose.

After ``u = v if n > 0 else w`` the trace has a third list, with the items of the one or the other.
Reading it is fine. But changing ``u``, ``v`` or ``w`` would have to show in the others, which it
cannot: so a change is refused while another name leads to an object that may be the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

_DEPTH = 20  # of objects in objects


class Origins:
    """For each object that the kernel made, where it may come from.

    An object that is made by an expression is its own origin; one that stands for several, of
    which run-time conditions choose, has the origins of them all.
    """

    def __init__(self) -> None:
        self._of: dict[int, frozenset[object]] = {}
        self._kept: list[object] = []  # so that no other object gets the id of one
        self._shared: set[object] = set()  # origins of more than one object

    def add(self, x: object) -> None:
        self._of[id(x)] = frozenset([object()])
        self._kept.append(x)

    def chosen(self, x: Any, among: Sequence[Any], depth: int = 0) -> None:
        """``x``, made anew, stands for one of ``among``; so do the objects inside of it."""
        among = [other for other in among if other is not x and type(other) is type(x)]
        if not among or depth > _DEPTH:
            return
        if id(x) in self._of:
            found = [self._of[id(other)] for other in among if id(other) in self._of]
            if found:
                self._of[id(x)] = frozenset().union(*found)
                self._shared |= self._of[id(x)]
        for place, item in _items(x):
            inside = [dict(_items(other)).get(place) for other in among]
            self.chosen(item, inside, depth + 1)

    def check_change(self, cx: Context, x: Any) -> None:
        """Refuse to change ``x`` while a variable leads to another object that may be ``x``.

        Raises:
            TypeMismatch: at the present location.
        """
        mine = self._of.get(id(x), frozenset())
        if mine.isdisjoint(self._shared):
            return
        for frame in cx.frames:
            for name, value in frame.vars.items():
                if self._leads_to(value, x, mine):
                    raise cx.type_error(
                        f"a run-time condition decides whether this is also {name!r}, which would"
                        " have to change with it",
                        hint="copy it first, such as list(x), or change it in each branch",
                    )

    def _leads_to(self, value: Any, x: Any, mine: frozenset[object], depth: int = 0) -> bool:
        if value is x or depth > _DEPTH:
            return False
        if not mine.isdisjoint(self._of.get(id(value), frozenset())):
            return True
        return any(self._leads_to(item, x, mine, depth + 1) for _, item in _items(value))


def _items(x: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(x, list | tuple):
        return enumerate(x)
    if isinstance(x, dict):
        return x.items()
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return ((f.name, getattr(x, f.name, None)) for f in dataclasses.fields(x))
    return getattr(x, "__dict__", {}).items() if type(x).__module__ != "builtins" else ()
