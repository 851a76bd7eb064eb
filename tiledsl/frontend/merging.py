"""Where paths meet: one value for each place that they left different.

A *slot* is a variable or the contents of a mutable object. ``Merge`` finds, for any number of
states (the two ends of an ``if``, the exits of a loop or of an inlined function), the run-time
values that have to be passed on, and what each slot is bound to behind the meeting point. A slot
that cannot be merged becomes poison: an error if it is read, and none if it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.types import Type
from tiledsl.errors import Loc, NameNotFound, TypeMismatch
from tiledsl.frontend.aggregates import (
    Key,
    LeafType,
    anything,
    can_be_anything,
    flatten,
    flatten_contents,
    join,
    leaf_as,
    leaf_type,
    same_leaf,
    unflatten,
)
from tiledsl.frontend.scope import Frame, Poison, State, same_contents, set_contents

if TYPE_CHECKING:
    from tiledsl.frontend.aggregates import Leaf
    from tiledsl.frontend.context import Context

MISSING = Poison(NameNotFound, "")  # a variable that was never assigned on a path


@dataclass(frozen=True, slots=True)
class Slot:
    """A variable of the frame's family (``depth`` comprehensions out), or an object's contents."""

    name: str = ""
    depth: int = 0
    object: int = -1  # number in the heap

    def read(self, state: State) -> Any:
        if self.object >= 0:
            return state.heap[self.object]
        return state.variables[self.depth].get(self.name, MISSING)

    def write(self, frame: Frame, value: Any) -> None:
        if self.object >= 0:
            set_contents(frame.cx.heap[self.object], value)
        else:
            list(frame.family())[self.depth].vars[self.name] = value

    def where(self, state: State) -> Loc | None:
        """Where the variable was last assigned in a state."""
        return state.where[self.depth].get(self.name) if self.object < 0 else None

    def label(self, frame: Frame) -> str:
        if self.object < 0:
            return repr(self.name) if self.name else "the result"
        x = frame.cx.heap[self.object]
        names = [name for f in frame.family() for name, v in f.vars.items() if v is x]
        kind = type(x).__name__
        return f"the {kind} {names[0]!r}" if names else f"a {kind}"


def changed_slots(
    states: Sequence[State], live: Collection[str] | None, objects: int
) -> list[Slot]:
    """Slots that differ between states: live variables (all where ``live`` is None), and objects.

    ``objects`` is how many objects existed before the paths parted.
    """
    found: list[Slot] = []
    first = states[0]
    for depth, variables in enumerate(first.variables):
        names = dict.fromkeys(name for state in states for name in state.variables[depth])
        for name in names:
            if live is not None and depth == 0 and name not in live:
                continue
            value = variables.get(name, MISSING)
            if any(s.variables[depth].get(name, MISSING) is not value for s in states[1:]):
                found.append(Slot(name, depth))
    for number in range(objects):
        contents = first.heap[number]
        if any(not same_contents(contents, s.heap[number]) for s in states[1:]):
            found.append(Slot(object=number))
    return found


@dataclass(slots=True)
class _Part:
    """What becomes of one slot: a rebuilt value, or poison."""

    slot: Slot | None  # None: the result
    key: Key | None = None
    leaves: Sequence[Leaf | int] = ()  # a leaf that all states share, or a column's number
    poison: Poison | None = None
    among: Sequence[Any] = ()  # the values of the paths


@dataclass(slots=True)
class _Column:
    """One run-time value that every path passes on."""

    type: LeafType
    leaves: dict[int, Leaf]  # by path; one to which it does not matter has none
    name: str
    weak: bool


class _ColumnNumber(int):
    """Tells the number of a column from a leaf that is an int."""


Explain = Callable[[Slot, Sequence[Any]], Poison]


class Merge:
    """The meeting of paths.

    Args:
        frame: whose variables the states hold.
        states: the state at the end of each path.
        slots: what to merge.
        results: a value that each path gives besides, such as that of a ternary.
        unbound: makes the poison for a variable that some of the paths leave unassigned.
        matters: whether a slot is read later on a path (given by its number); None: always.
    """

    def __init__(
        self,
        frame: Frame,
        states: Sequence[State],
        slots: Sequence[Slot],
        unbound: Explain,
        results: Sequence[Any] | None = None,
        matters: Callable[[Slot, int], bool] = lambda slot, path: True,
    ) -> None:
        self.frame = frame
        self.cx: Context = frame.cx
        self.columns: list[_Column] = []
        self._parts: list[_Part] = []
        self._states = states
        self._count = len(states)
        for slot in slots:
            read = {i: slot.read(s) for i, s in enumerate(states) if matters(slot, i)}
            if not read or any(isinstance(v, Poison) for v in read.values()):
                values = [slot.read(state) for state in states]
                self._parts.append(_Part(slot, poison=_worst(slot, values, unbound)))
            else:
                wheres = [slot.where(states[i]) for i in read]
                self._parts.append(self._part(slot, list(read), list(read.values()), wheres))
        if results is not None:
            paths = list(range(len(results)))
            self._parts.append(self._part(None, paths, results, [None] * len(results)))

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(column.type.type for column in self.columns)

    def operands(self, path: int) -> tuple[Value, ...]:
        """The values that a path passes on; conversions are appended to the current block."""
        return tuple(
            leaf_as(self.cx, c.leaves[path], c.type.type)
            if path in c.leaves
            else anything(self.cx, c.type.type)
            for c in self.columns
        )

    def apply(self, results: Sequence[Value]) -> Any:
        """Bind the slots to the merged values; returns the merged result."""
        for column, value in zip(self.columns, results, strict=True):
            value.name = value.name or column.name
            if column.weak:
                self.cx.weak.add(value)
        outcome: Any = None
        for part in self._parts:
            value = self._value(part, results)
            if part.slot is not None:
                part.slot.write(self.frame, value)
            else:
                outcome = self.frame.usable(value)
        return outcome

    def _value(self, part: _Part, results: Sequence[Value]) -> Any:
        if part.poison is not None:
            if part.slot is not None and part.slot.object >= 0:
                self.frame.usable(part.poison)  # there is no poison for a part of an object
            return part.poison
        assert part.key is not None
        if isinstance(part.key, _Same):
            return part.key.value
        leaves = [results[x] if isinstance(x, _ColumnNumber) else x for x in part.leaves]
        if part.slot is not None and part.slot.object >= 0:
            return part.key.build(iter(leaves))
        made = unflatten(self.cx, part.key, leaves)
        self.cx.origins.chosen(made, part.among)
        return made

    def _conflict(
        self, label: str, values: Sequence[Any], wheres: Sequence[Loc | None], other: int
    ) -> Poison:
        pair = (values[0], values[other])
        return conflict(self.cx, label, pair, (wheres[0], wheres[other]))

    def _visible(self, leaf: Leaf) -> bool:
        return not isinstance(leaf, Value) or self.cx.visible(leaf)

    def _part(
        self,
        slot: Slot | None,
        paths: Sequence[int],
        values: Sequence[Any],
        wheres: Sequence[Loc | None],
    ) -> _Part:
        flat: list[list[Leaf]] = []
        keys: list[Key] = []
        for path, value in zip(paths, values, strict=True):
            leaves: list[Leaf] = []
            with self._states[path].in_force(self.frame, value):
                if slot is not None and slot.object >= 0:
                    keys.append(flatten_contents(self.cx, value, leaves, values))
                else:
                    keys.append(flatten(self.cx, value, leaves))
            flat.append(leaves)
        shared = all(v is values[0] for v in values) and all(map(self._visible, flat[0]))
        if shared and (slot is None or slot.object < 0):
            return _Part(slot, key=_Same(values[0]))
        label = slot.label(self.frame) if slot is not None else "the result"
        differing = next((i for i, key in enumerate(keys) if key != keys[0]), None)
        if differing is not None:
            return _Part(slot, poison=self._conflict(label, values, wheres, differing))
        names = slot.name if slot is not None else ""
        refs: list[Leaf | int] = []
        columns: list[_Column] = []
        for position in range(len(flat[0])):
            candidates = [leaves[position] for leaves in flat]
            first = candidates[0]
            if self._visible(first) and all(same_leaf(c, first) for c in candidates):
                refs.append(candidates[0])
                continue
            found = leaf_type(self.cx, candidates[0])
            for other, candidate in enumerate(candidates[1:], 1):
                joined = join(found, leaf_type(self.cx, candidate))
                if joined is None:
                    return _Part(slot, poison=self._conflict(label, values, wheres, other))
                found = joined
            if found is None or (len(paths) < self._count and not can_be_anything(found.type)):
                return _Part(slot, poison=self._conflict(label, values, wheres, 0))
            weak = found.weak and any(isinstance(c, Value) for c in candidates)
            refs.append(_ColumnNumber(len(self.columns) + len(columns)))
            by_path = dict(zip(paths, candidates, strict=True))
            columns.append(_Column(found, by_path, names, weak))
        self.columns += columns
        return _Part(slot, keys[0], refs, among=values)


class _Same(Key):
    """The key of a value that all paths share: the very object, so that aliases stay aliases."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _worst(slot: Slot, values: Sequence[Any], unbound: Explain) -> Poison:
    """The poison that explains most: one from an earlier meeting, else that of this one."""
    for value in values:
        if isinstance(value, Poison) and value is not MISSING:
            return value
    return unbound(slot, values)


def conflict(
    cx: Context,
    label: str,
    values: tuple[Any, Any],
    wheres: tuple[Loc | None, Loc | None],
    paths: tuple[str, str] = ("on one path", "on the other"),
) -> Poison:
    """For two values that two paths leave and that have no common type."""
    label, values = _innermost(cx, label, values)
    one, other = (cx.describe(value) for value in values)
    notes = tuple(
        (f"{text} from here", where)
        for text, where in zip((one, other), wheres, strict=True)
        if where is not None
    )
    hint = "make them one type, or use two variables"
    if all(isinstance(v, list | dict) for v in values):
        hint = "a list or dict can grow where the code is unrolled, such as td.static_range"
    elif one == other and one.startswith(("a ", "an ")):  # such as stages of two pipelines
        kind = one.split(" ", 1)[1]
        other = f"another {kind}"
        hint = f"use it in each branch: which {kind} it is must be known at compile time"
    message = f"{label} is {one} {paths[0]} and {other} {paths[1]}"
    return Poison(TypeMismatch, message, notes, hint)


def _innermost(cx: Context, label: str, values: tuple[Any, Any]) -> tuple[str, tuple[Any, Any]]:
    """The items that differ, where two sequences are alike but for them."""
    one, other = values
    if type(one) is not type(other) or not isinstance(one, tuple | list):
        return label, values
    if len(one) != len(other):
        return label, values
    for number, pair in enumerate(zip(one, other, strict=True)):
        if not mergeable(cx, *pair):
            return _innermost(cx, f"item {number} of {label}", pair)
    return label, values


def mergeable(cx: Context, one: Any, other: Any) -> bool:
    """Whether two values have a common type, leaf by leaf."""
    leaves: tuple[list[Leaf], list[Leaf]] = ([], [])
    if flatten(cx, one, leaves[0]) != flatten(cx, other, leaves[1]):
        return False
    pairs = zip(*leaves, strict=True)
    return all(
        same_leaf(a, b) or join(leaf_type(cx, a), leaf_type(cx, b)) is not None for a, b in pairs
    )
