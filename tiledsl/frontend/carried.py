"""Run-time loops: what they carry, and in which types.

The types of carried variables are found by tracing the body: first with those that the variables
have before the loop, and again whenever an iteration leaves another type (``x = 0`` that becomes
a float32). A literal before the loop adapts; see ``aggregates.join``.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiledsl.codegen.ir.core import Block, Op, Value, replace_uses
from tiledsl.codegen.ir.ops.control import Break, Continue, Return
from tiledsl.codegen.ir.types import Type
from tiledsl.errors import NameNotFound
from tiledsl.frontend.aggregates import (
    Key,
    Leaf,
    LeafType,
    anything,
    can_be_anything,
    flatten,
    flatten_contents,
    join,
    leaf_as,
    leaf_type,
    unflatten,
)
from tiledsl.frontend.branches import Outcome, materialise
from tiledsl.frontend.merging import MISSING, Slot, conflict
from tiledsl.frontend.scope import Exit, Frame, LoopState, Poison, State, same_contents

Flow = tuple[Outcome, Any]
_MOST_TRACES = 10  # of one body until its types settle
_MOST_ROUNDS = 3  # in which lists are followed from one variable to the next


class Sure(enum.Enum):
    """After which ends of a loop its body has certainly run."""

    NONE = "none"
    ALL = "all"  # a range known not to be empty
    BREAKS = "breaks"  # an endless loop, which only break ends


@dataclass(slots=True)
class _Head:
    """What a slot is at the begin of each iteration."""

    key: Key | None = None  # None: it has no value there, or poison
    types: list[LeafType] = field(default_factory=list)
    poison: Poison | None = None
    args: list[Value] = field(default_factory=list)

    def same_as(self, other: _Head) -> bool:
        types = [(t.type, t.weak) for t in self.types] == [(t.type, t.weak) for t in other.types]
        return types and (self.poison is None) == (other.poison is None) and self.key == other.key


class LoopTracer:
    """Traces one loop.

    Args:
        frame: the function in which the loop stands.
        node: the loop.
        names: the variables that its body assigns.
        sure: whether its body certainly runs.
    """

    def __init__(
        self, frame: Frame, node: ast.For | ast.While, names: Sequence[str], sure: Sure
    ) -> None:
        self.frame = frame
        self.cx = frame.cx
        self.sure = sure
        liveness = frame.source.liveness
        self.live_head = liveness.head(node)
        self.live_after = liveness.after(node)
        live = self.live_head | self.live_after
        self.slots = [Slot(name) for name in names if name in live]
        self.start = State.capture(frame)
        self.mark = len(self.cx.heap)
        self.weak = set(self.cx.weak)
        self.returns = len(frame.returns)
        self.block = Block()
        self.loop = LoopState(0, unrolled=False)
        self._before = [self.start]
        self.heads = [self._first_head(slot) for slot in self.slots]

    @property
    def exits(self) -> list[Exit]:
        return [*self.loop.continues, *self.loop.breaks]

    def trace(
        self,
        body: Callable[[Value | None], Flow],
        build: Callable[[tuple[Value, ...], Block], Op],
        counter: Value | None,
        endless: Callable[[], bool] = lambda: False,
    ) -> Flow:
        """Trace until the types settle, then emit the loop and bind what it leaves."""
        traces = again = 0
        while True:
            self._trace_once(body, counter)
            if self._settled():
                if again >= min(self._rebound(), _MOST_ROUNDS):
                    break
                again += 1  # to learn which objects one iteration hands to the next
                continue
            traces += 1
            if traces == _MOST_TRACES:
                raise self.cx.type_error("the types of this loop's variables do not settle")
        self.cx.weak = set(self.weak)
        never_ends = endless() and not self.loop.breaks
        if endless():
            self.sure = Sure.BREAKS
        self._emit(build)
        if never_ends:
            # Nothing follows, but a block must end.
            self.cx.end(Return())
            return Outcome.DEAD, None
        return Outcome.FALL, None

    # ----------------------------------------------------------------------------- tracing

    def _rebound(self) -> int:
        """How many variables an iteration may bind to another list or object."""
        return sum(
            any(
                self.cx.is_made_here(value) and value is not slot.read(self.start)
                for value in (slot.read(exit.state) for exit in self.loop.continues)
            )
            for slot, head in zip(self.slots, self.heads, strict=True)
            if slot.object < 0 and head.key is not None
        )

    def _first_head(self, slot: Slot) -> _Head:
        value = slot.read(self.start)
        if isinstance(value, Poison):
            return _Head()
        leaves: list[Leaf] = []
        key = self._flatten(slot, self.start, leaves)
        types = [leaf_type(self.cx, leaf) for leaf in leaves]
        if any(t is None for t in types):
            raise self.cx.value_error(f"{slot.label(self.frame)} does not fit 64 bits")
        return _Head(key, [t for t in types if t is not None])

    def _flatten(self, slot: Slot, state: State, leaves: list[Leaf]) -> Key:
        """As ``flatten``, for what the slot is in a state."""
        value = slot.read(state)
        with state.in_force(self.frame, value):
            if slot.object < 0:
                return flatten(self.cx, value, leaves)
            states = [self.start, *(exit.state for exit in self.exits)]
            return flatten_contents(self.cx, value, leaves, [slot.read(s) for s in states])

    def _trace_once(self, body: Callable[[Value | None], Flow], counter: Value | None) -> None:
        cx, frame = self.cx, self.frame
        self.start.restore(frame)
        cx.forget(self.mark)
        del frame.returns[self.returns :]
        cx.weak = set(self.weak)
        self.block = block = Block()
        argument = None if counter is None else block.add_arg(counter.type, cx.loc)
        # What an iteration before may have left; empty in the first trace.
        self._before = [self.start, *(exit.state for exit in self.loop.continues)]
        for slot, head in zip(self.slots, self.heads, strict=True):
            self._bind_head(slot, head)
        self.loop = LoopState(
            len(frame.withs), unrolled=False, live=frozenset(slot.name for slot in self.slots)
        )
        frame.loops.append(self.loop)
        try:
            with cx.inside(block):
                outcome, result = body(argument)
                if outcome is Outcome.FALL:
                    outcome = Outcome.CONTINUE
                    frame.jump = None
                if outcome is not Outcome.DEAD:
                    with frame.at(frame.jump or cx.loc):
                        materialise(frame, outcome, result)
        finally:
            frame.loops.pop()

    def _bind_head(self, slot: Slot, head: _Head) -> None:
        if head.poison is not None:
            slot.write(self.frame, head.poison)
            return
        if head.key is None or not head.types:
            return  # unassigned, or a compile-time object that must not change
        head.args = [self.block.add_arg(t.type, self.cx.loc, slot.name) for t in head.types]
        self.cx.weak |= {a for a, t in zip(head.args, head.types, strict=True) if t.weak}
        with self.cx.inside(self.block):
            slot.write(self.frame, self._rebuild(slot, head.key, head.args, self._before))

    def _rebuild(
        self, slot: Slot, key: Key, leaves: Sequence[Value], states: Sequence[State]
    ) -> Any:
        """The slot's value around other leaves; it stands for its value in one of ``states``."""
        if slot.object >= 0:
            return key.build(iter(leaves))
        made = unflatten(self.cx, key, list(leaves))
        self.cx.origins.chosen(made, [slot.read(state) for state in states])
        return made

    # ------------------------------------------------------------------------ finding types

    def _settled(self) -> bool:
        """Whether the heads hold for every iteration; refines them where they do not."""
        refined = [self._refine(s, h) for s, h in zip(self.slots, self.heads, strict=True)]
        settled = all(a.same_as(b) for a, b in zip(self.heads, refined, strict=True))
        if not settled:
            self.heads = refined
        known = {slot.object for slot in self.slots}
        for number in range(self.mark):
            before = self.start.heap[number]
            changed = any(not same_contents(before, e.state.heap[number]) for e in self.exits)
            if changed and number not in known:
                slot = Slot(object=number)
                self.slots.append(slot)
                self.heads.append(self._first_head(slot))
                settled = False
        return settled

    def _refine(self, slot: Slot, head: _Head) -> _Head:
        if head.key is None or head.poison is not None:
            return head
        before = slot.read(self.start)
        first = self._first_head(slot)
        if first.key != head.key:
            return first  # an object that it holds does not stay the same after all
        types: list[LeafType | None] = list(first.types)
        for exit in self.exits:
            if not self._matters(slot, exit):
                continue
            value = slot.read(exit.state)
            if isinstance(value, Poison):
                return _Head(poison=value if value is not MISSING else self._unbound(slot))
            leaves: list[Leaf] = []
            key = self._flatten(slot, exit.state, leaves)
            if key == head.key:
                types = [
                    join(t, leaf_type(self.cx, leaf)) for t, leaf in zip(types, leaves, strict=True)
                ]
            if key != head.key or None in types:
                wheres = (slot.where(self.start), slot.where(exit.state))
                label = slot.label(self.frame)
                paths = ("before the loop", "after an iteration")
                found = conflict(self.cx, label, (before, value), wheres, paths)
                if slot.object >= 0:
                    raise self.frame.usable(found)
                return _Head(poison=found)
        return _Head(head.key, [t for t in types if t is not None], args=head.args)

    def _matters(self, slot: Slot, exit: Exit) -> bool:
        """Whether somebody reads the slot behind this exit."""
        live = self.live_after if isinstance(exit.op, Break) else self.live_head
        return slot.object >= 0 or slot.name in live

    def _unbound(self, slot: Slot, exit: Exit | None = None) -> Poison:
        place = None
        for candidate in self.exits if exit is None else [exit]:
            place = slot.where(candidate.state) or place
        notes: list[Any] = [] if place is None else [("it is assigned here", place)]
        notes.append(("in this loop, which may run zero times", self.cx.loc))
        return Poison(
            NameNotFound,
            f"{slot.name!r} may have no value here: it is assigned in a loop only",
            tuple(notes),
            f"assign {slot.name!r} before the loop",
        )

    # ---------------------------------------------------------------------------- emitting

    def _emit(self, build: Callable[[tuple[Value, ...], Block], Op]) -> None:
        """The loop operation, with every exit passing on what the heads say."""
        inits: list[Value] = []
        unchanged: dict[Value, Value] = {}  # arguments that every iteration passes on as they are
        passed: list[list[Value]] = [[] for _ in self.exits]
        bindings: list[tuple[Slot, Key, list[Value | int], list[LeafType]]] = []
        poisons: list[tuple[Slot, Poison]] = []
        # The block has the arguments of the others already: those of late variables come behind.
        pairs = list(zip(self.slots, self.heads, strict=True))
        for slot, head in sorted(pairs, key=lambda pair: pair[1].key is None):
            if head.poison is not None:
                poisons.append((slot, head.poison))
            elif head.key is None:
                late = self._late(slot)
                if isinstance(late, Poison):
                    poisons.append((slot, late))
                    continue
                refs = self._carry_late(slot, late, inits, passed)
                assert late.key is not None
                bindings.append((slot, late.key, refs, []))
            elif head.types:
                refs = self._carry(slot, head, inits, passed, unchanged)
                bindings.append((slot, head.key, refs, head.types))
        for exit, values in zip(self.exits, passed, strict=True):
            assert isinstance(exit.op, Break | Continue)
            exit.op.values = tuple(values)
        replace_uses(self.block, unchanged)
        op = self.cx.add(build(tuple(inits), self.block))
        self.start.restore(self.frame)
        states = [exit.state for exit in self.exits]
        if self.sure is Sure.NONE:
            states.append(self.start)
        for slot, key, refs, types in bindings:
            values = [op.results[r] if isinstance(r, int) else r for r in refs]
            self._mark(slot, values, refs, types)
            slot.write(self.frame, self._rebuild(slot, key, values, states))
        for slot, poison in poisons:
            slot.write(self.frame, poison)

    def _mark(
        self, slot: Slot, values: list[Value], refs: list[Value | int], types: list[LeafType]
    ) -> None:
        """Names of the results, and whether they still adapt (in a first trace further out)."""
        before: list[Leaf] = []
        if types:
            self._flatten(slot, self.start, before)
        for number, (value, ref) in enumerate(zip(values, refs, strict=True)):
            if isinstance(ref, int):
                value.name = slot.name
                if types and types[number].weak and before[number] in self.weak:
                    self.cx.weak.add(value)

    def _carry(
        self,
        slot: Slot,
        head: _Head,
        inits: list[Value],
        passed: list[list[Value]],
        unchanged: dict[Value, Value],
    ) -> list[Value | int]:
        """Pass a slot's leaves around the loop; those that never change stay outside of it."""
        before: list[Leaf] = []
        self._flatten(slot, self.start, before)
        flat = [
            self._flat(slot, exit) if self._matters(slot, exit) else head.args
            for exit in self.exits
        ]
        refs: list[Value | int] = []
        # The states of returns inside of the loop may refer to any argument.
        prune = len(self.frame.returns) == self.returns
        for number, (arg, type) in enumerate(zip(head.args, head.types, strict=True)):
            init = leaf_as(self.cx, before[number], type.type)
            if prune and all(leaves[number] is arg for leaves in flat):
                unchanged[arg] = init
                self.block.args.remove(arg)
                refs.append(init)
                continue
            refs.append(len(inits))
            inits.append(init)
            self._pass(passed, flat, number, type.type)
        return refs

    def _pass(
        self, passed: list[list[Value]], flat: Sequence[Sequence[Leaf]], number: int, type: Type
    ) -> None:
        for exit, values, leaves in zip(self.exits, passed, flat, strict=True):
            with self.cx.before_exit(exit.op):
                values.append(leaf_as(self.cx, leaves[number], type))

    def _flat(self, slot: Slot, exit: Exit) -> list[Leaf]:
        leaves: list[Leaf] = []
        self._flatten(slot, exit.state, leaves)
        return leaves

    # ------------------------------------------------- variables first assigned in the body

    def _late(self, slot: Slot) -> _Head | Poison:
        """A variable without a value before the loop, but with one at each end that counts."""
        ends = {
            Sure.NONE: [],
            Sure.ALL: self.exits,
            Sure.BREAKS: self.loop.breaks,
        }[self.sure]
        earlier = slot.read(self.start)
        if not ends:
            known = isinstance(earlier, Poison) and earlier is not MISSING
            return earlier if known and not self._assigned(slot) else self._unbound(slot)
        head: _Head | None = None
        for exit in ends:
            value = slot.read(exit.state)
            if isinstance(value, Poison):
                return value if value is not MISSING else self._unbound(slot, exit)
            leaves: list[Leaf] = []
            key = self._flatten(slot, exit.state, leaves)
            types = [leaf_type(self.cx, leaf) for leaf in leaves]
            if head is not None and head.key == key:
                types = [join(a, b) for a, b in zip(head.types, types, strict=True)]
            if None in types or (head is not None and head.key != key):
                first = slot.read(ends[0].state)
                wheres = (slot.where(ends[0].state), slot.where(exit.state))
                return conflict(self.cx, slot.label(self.frame), (first, value), wheres)
            head = _Head(key, [t for t in types if t is not None])
        assert head is not None
        if not all(can_be_anything(t.type) for t in head.types):
            return self._unbound(slot)
        return head

    def _assigned(self, slot: Slot) -> bool:
        before = slot.read(self.start)
        return any(slot.read(exit.state) is not before for exit in self.exits)

    def _carry_late(
        self, slot: Slot, head: _Head, inits: list[Value], passed: list[list[Value]]
    ) -> list[Value | int]:
        refs: list[Value | int] = []
        for number, type in enumerate(head.types):
            arg = self.block.add_arg(type.type, self.cx.loc, slot.name)
            refs.append(len(inits))
            inits.append(anything(self.cx, type.type))
            for exit, values in zip(self.exits, passed, strict=True):
                if isinstance(slot.read(exit.state), Poison):
                    values.append(arg)
                    continue
                with self.cx.before_exit(exit.op):
                    values.append(leaf_as(self.cx, self._flat(slot, exit)[number], type.type))
        return refs
