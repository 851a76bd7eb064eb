"""Answers of ``try_acquire``: what an acquire or wait may be told instead of waiting.

``acquire_if_needed(ready)`` and the like skip their wait where ``ready`` is true. So ``ready``
must imply that the slot is free (or full): it comes from a ``try_acquire`` of the same ring and
side that nothing has overtaken (an acquire or a step goes on to another slot), it is false, or it
is only used where the answer is known, such as below ``if producer.try_acquire():`` or behind a
wait. Loops may carry it and branches merge it. Dataflow over each role at tile level.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from tiledsl.codegen.checks.paths import Exits, PathWalker, carried, given_by
from tiledsl.codegen.checks.stages import ACQUIRES, Guards, ring_and_side, ring_name
from tiledsl.codegen.checks.turns import turns_of_rings
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import control, ring, sync, tile
from tiledsl.codegen.ir.ops.arith import Binary, Cast, Constant, Select, Unary
from tiledsl.codegen.ir.types import Scalar
from tiledsl.errors import Loc, StageError

Side = tuple[Value, str]  # a ring, and "producer" or "consumer"
# Where the value is true, the slot of the side is ready. What is never true has no side: it stays
# so whatever is acquired, and code behind it is never reached.
Fact = tuple[Side | None, Value]

_HINTS = {
    "producer": "ready = producer.try_acquire(), with no acquire between it and this",
    "consumer": "ready = consumer.try_acquire(), with no acquire between it and this",
}


@dataclass(frozen=True, slots=True)
class _State:
    """What is known at one point.

    Attributes:
        facts: values that imply that a side is ready.
        sure: sides that are ready; None: this point is never reached.
        moved: the last operation that went on to another slot, by side.
    """

    facts: frozenset[Fact] = frozenset()
    sure: frozenset[Side | None] = frozenset()
    moved: dict[Side, Op] = field(default_factory=dict)

    def forget(self, side: Side, op: Op) -> _State:
        return _State(
            frozenset(fact for fact in self.facts if fact[0] != side),
            self.sure - {side},
            {**self.moved, side: op},
        )


def check_ready(kernel: Kernel) -> None:
    """Raise ``StageError`` where a wait may be left out although nothing says it is not needed."""
    for _, body in roles_of(kernel):
        if any(getattr(op, "ready", ()) for op in body.walk()):
            _ReadyWalker(body, set(turns_of_rings(body))).walk(body, _State())


class _ReadyWalker(PathWalker[_State]):
    def __init__(self, body: Block, in_turns: set[Side]) -> None:
        super().__init__()
        self.guards = Guards(body)
        self.in_turns = in_turns
        self.sides: set[Side | None] = {None, *map(ring_and_side, body.walk())}

    def transfer(self, op: Op, state: _State) -> _State:
        side = ring_and_side(op)
        if side is not None:
            for value in getattr(op, "ready", ()):
                if not self._implies(value, side, state):
                    raise self._not_ready(op, value, side, state)
        match op:
            case ring.TryAcquire():
                assert side is not None
                return replace(state, facts=state.facts | {(side, op.result)})
            case tile.AcquireProducer() | tile.AcquireConsumer() | ring.Step():
                assert side is not None
                return state.forget(side, op)
            case ring.Wait() | tile.Drain():
                assert side is not None
                return replace(state, sure=state.sure | {side})
            case sync.TurnBegin() | sync.TurnEnd():
                for shared in self.in_turns:
                    state = state.forget(shared, op)
        return state

    # ------------------------------------------------------------ what a condition says

    def _implies(self, value: Value, side: Side | None, state: _State) -> bool:
        """Whether the side is ready wherever ``value`` is true."""
        if side in state.sure or None in state.sure:
            return True
        if (side, value) in state.facts or (None, value) in state.facts:
            return True
        owner = value.owner
        match owner:
            case Constant():
                return not owner.value
            case Binary(kind="and"):
                return any(self._implies(v, side, state) for v in owner.operands)
            case Binary(kind="or"):
                return all(self._implies(v, side, state) for v in owner.operands)
            case Unary(kind="not"):
                return self._denies(owner.value, side, state)
            case Select():
                return self._chosen(owner, side, state)
            case Cast():
                return owner.value.type == Scalar(dtypes.bool_) and self._implies(
                    owner.value, side, state
                )
        return False

    def _chosen(self, op: Select, side: Side | None, state: _State) -> bool:
        """``true if condition else false``: each is looked at where it is chosen."""
        chosen = self._implies(op.true, side, state) or self._implies(op.condition, side, state)
        otherwise = (
            op.false is op.condition
            or self._implies(op.false, side, state)
            or self._denies(op.condition, side, state)
        )
        return chosen and otherwise

    def _denies(self, value: Value, side: Side | None, state: _State) -> bool:
        """Whether the side is ready wherever ``value`` is false."""
        owner = value.owner
        match owner:
            case Constant():
                return bool(owner.value)
            case Binary(kind="and"):
                return all(self._denies(v, side, state) for v in owner.operands)
            case Binary(kind="or"):
                return any(self._denies(v, side, state) for v in owner.operands)
            case Unary(kind="not"):
                return self._implies(owner.value, side, state)
        return False

    def enter(self, op: control.If, taken: bool, state: _State) -> _State:
        says = self._implies if taken else self._denies
        known = {side for side in self.sides if says(op.condition, side, state)}
        facts = state.facts
        condition = op.condition
        while True:
            if not taken:
                facts |= {(None, condition)}
            if not isinstance(condition.owner, Unary):
                break
            condition, taken = condition.owner.value, not taken
        return replace(state, facts=facts, sure=state.sure | known)

    # --------------------------------------------------------------- where paths meet

    def join(self, op: Op, arrivals: list[tuple[Op, _State]]) -> _State:
        arrivals = [a for a in arrivals if None not in a[1].sure] or arrivals
        states = [state for _, state in arrivals]
        columns = zip(*(given_by(end) for end, _ in arrivals), strict=False)
        given = dict(zip(op.results, columns, strict=False))
        for _, value in frozenset().union(*(state.facts for state in states)):
            given.setdefault(value, (value,) * len(states))
        facts = {
            (side, result)
            for result, values in given.items()
            for side in self.sides
            if all(map(self._implies, values, itertools.repeat(side), states))
        }
        moved: dict[Side, Op] = {}
        for state in states:
            moved |= state.moved
        return _State(
            frozenset(facts),
            frozenset.intersection(*(state.sure for state in states)),
            moved,
        )

    def _loop(self, op: control.For | control.Loop, state: _State) -> _State | None:
        """Suppose what holds before the loop, and drop what an iteration does not keep."""
        args = carried(op)
        moved = dict(state.moved)
        for inner in op.body.walk():
            side = ring_and_side(inner)
            if side is not None and isinstance(inner, (*ACQUIRES, ring.Step)):
                moved[side] = inner
        hopes = {
            (side, arg)
            for arg, init in zip(args, op.inits, strict=True)
            for side in self.sides
            if self._implies(init, side, state)
        }
        entry = replace(state, facts=state.facts | hopes, moved=moved)
        while True:
            kept, exits = self._kept(op, entry)
            if kept.facts == entry.facts and kept.sure == entry.sure:
                break
            entry = kept
        arrivals = list(exits.breaks)
        if isinstance(op, control.For):
            arrivals.insert(0, (op, entry))
        return self.join(op, arrivals) if arrivals else None

    def _kept(self, op: control.For | control.Loop, entry: _State) -> tuple[_State, Exits[_State]]:
        """What holds at the head of the next iteration of what held at the head of this one."""
        args = carried(op)
        self._loops.append(Exits(op))
        self.walk(op.body, entry)
        exits = self._loops.pop()
        facts, sure = entry.facts, entry.sure
        for end, state in exits.continues:
            if None in state.sure:
                continue  # never reached
            values = dict(zip(args, given_by(end), strict=True))
            facts = frozenset(
                (side, value)
                for side, value in facts
                if self._implies(values.get(value, value), side, state)
            )
            sure &= state.sure
        return replace(entry, facts=facts, sure=sure), exits

    # ------------------------------------------------------------------------ messages

    def _not_ready(self, op: Op, value: Value, side: Side, state: _State) -> StageError:
        name = ring_name(side[0])
        tries = [
            root.owner for root in self._sources(value) if isinstance(root.owner, ring.TryAcquire)
        ]
        notes: list[tuple[str, Loc | None]] = []
        same = [t for t in tries if (t.ring, t.side) == side]
        moved = state.moved.get(side)
        if same and moved is not None:
            reason = "may be an answer about an earlier slot"
            notes += [("asked here", t.loc) for t in same]
            what = "step" if isinstance(moved, ring.Step) else "acquire"
            what = "turn" if isinstance(moved, sync.TurnBegin | sync.TurnEnd) else what
            notes.append((f"this {what} goes on to another slot", moved.loc))
        elif same:
            reason = "may be true where try_acquire says that it is not"
            notes += [("asked here", t.loc) for t in same]
        elif tries:
            other = tries[0]
            reason = f"is an answer for the {other.side} of pipeline {ring_name(other.ring)!r}"
            notes += [("asked here", t.loc) for t in tries]
        else:
            reason = "is no answer of try_acquire"
            notes.append(("it comes from here", value.loc))
        return StageError(
            f"the wait of the {side[1]} of pipeline {name!r} may be left out although the slot is"
            f" not ready: `ready` {reason}",
            op.loc,
            notes=tuple(notes),
            hint=f"write {_HINTS[side[1]]}; False is always right",
        )

    def _sources(self, value: Value) -> set[Value]:
        """The values that a condition is made of, merges and logic looked through."""
        found: set[Value] = set()
        seen: set[Value] = set()  # a loop may make a condition of itself
        todo = [value]
        while todo:
            for root in self.guards.merges.roots(todo.pop()) - seen:
                seen.add(root)
                if isinstance(root.owner, Binary | Unary | Select | Cast):
                    todo += root.owner.operands
                else:
                    found.add(root)
        return found
