"""Two ways at run time: trace both, then meet. Used by ``if``, the ternary, ``and`` and ``or``."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir.core import Block, Effect, Value
from tiledsl.codegen.ir.ops.arith import Binary, Constant, Select, element_type
from tiledsl.codegen.ir.ops.control import Break, Continue, If, Leave, Return, Scope, Yield
from tiledsl.codegen.ir.types import Scalar
from tiledsl.errors import Loc, NameNotFound
from tiledsl.frontend.merging import Merge, Slot, changed_slots
from tiledsl.frontend.scope import Exit, Frame, Poison, State

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

_MOST_SPECULATED = 8  # operations that are computed on both ways rather than branched around


class Outcome(enum.Enum):
    """How a piece of code ends.

    ``BREAK``, ``CONTINUE`` and ``RETURN`` are on their way outwards, known at compile time; they
    become operations (``materialise``) where the other way of a branch does something else. Then,
    the block has its terminator, and nothing follows: ``DEAD``.
    """

    FALL = "fall"
    BREAK = "break"
    CONTINUE = "continue"
    RETURN = "return"
    DEAD = "dead"


@dataclass(slots=True)
class Way:
    """One of the two blocks of a branch, traced."""

    block: Block
    outcome: Outcome
    result: Any
    state: State
    jump: Loc | None  # where the jump stands that the way ends with


def trace_way(frame: Frame, start: State, body: Callable[[], tuple[Outcome, Any]]) -> Way:
    """Trace ``body`` into a block of its own, from a given state."""
    start.restore(frame)
    block = Block()
    with frame.cx.inside(block):
        outcome, result = body()
    return Way(block, outcome, result, State.capture(frame), frame.owner.jump)


def extend(frame: Frame, way: Way, body: Callable[[], tuple[Outcome, Any]]) -> None:
    """Go on with a way that was traced before."""
    way.state.restore(frame)
    with frame.cx.inside(way.block):
        way.outcome, way.result = body()
    way.state, way.jump = State.capture(frame), frame.owner.jump


def materialise(frame: Frame, outcome: Outcome, result: Any = None) -> Outcome:
    """End the current block with the operation for ``outcome``; returns ``DEAD``."""
    cx = frame.cx
    owner = frame.owner
    if outcome is Outcome.RETURN:
        leave_withs(owner, 0)
        if owner.kind == "kernel":
            cx.end(Return())
            return Outcome.DEAD
        op = cx.end(Leave(()))
        owner.returns.append(Exit(op, State.capture(owner), result))
        return Outcome.DEAD
    loop = owner.loops[-1]
    leave_withs(owner, loop.withs)
    is_break = outcome is Outcome.BREAK
    end: Leave | Break | Continue
    if loop.unrolled:
        # The iteration is a scope; whether the loop goes on is one of its results.
        end = cx.end(Leave(()))
    else:
        end = cx.end(Break(())) if is_break else cx.end(Continue(()))
    exits = loop.breaks if is_break else loop.continues
    exits.append(Exit(end, State.capture(owner), not is_break))
    return Outcome.DEAD


def leave_withs(frame: Frame, depth: int) -> None:
    """The exits of the ``with`` statements that a jump leaves, innermost first."""
    for entered in reversed(frame.withs[depth:]):
        entered.exit(frame.cx)


def meet(
    frame: Frame,
    start: State,
    condition: Value,
    ways: tuple[Way, Way],
    live: Collection[str] | None,
    *,
    select: bool = False,
    results: bool = True,
) -> Any:
    """Emit the ``if`` for two ways that both go on; returns the merged result.

    Args:
        live: names that are read later; None for all.
        select: compute both ways and choose, where that is cheap and cannot fault.
        results: whether the ways' results are wanted.
    """
    cx = frame.cx
    states = [way.state for way in ways]
    slots = changed_slots(states, live, len(start.heap))
    given = [way.result for way in ways] if results else None
    merge = Merge(frame, states, slots, _one_sided(cx.loc, states), given)
    states[0].restore(frame)
    if live is not None:
        drop_dead(frame, states, live)
    if select and _selectable(ways, merge):
        for way in ways:
            cx.splice(way.block)
        pairs = zip(merge.operands(0), merge.operands(1), strict=True)
        return merge.apply([cx.emit(Select(condition, a, b)) for a, b in pairs])
    if not merge.columns and not any(way.block.ops for way in ways):
        return merge.apply(())
    for number, way in enumerate(ways):
        with cx.inside(way.block):
            cx.add(Yield(merge.operands(number)))
    op = cx.add(If(condition, merge.types, ways[0].block, ways[1].block))
    return merge.apply(op.results)


def close(
    frame: Frame,
    start: State,
    condition: Value,
    ways: tuple[Way, Way],
    live: Collection[str],
) -> tuple[Outcome, Any]:
    """End a branch whose ways may also jump: both go on, both jump alike, or they part.

    ``live`` are the names read behind the branch.
    """
    then, orelse = ways
    if then.outcome is orelse.outcome and then.outcome is not Outcome.DEAD:
        if then.outcome is Outcome.RETURN:
            live = ()
        elif then.outcome is not Outcome.FALL:
            live = frame.owner.loops[-1].live
        frame.owner.jump = then.jump
        result = meet(frame, start, condition, ways, live, results=then.outcome is Outcome.RETURN)
        return then.outcome, result
    if Outcome.DEAD not in (then.outcome, orelse.outcome):
        # A jump out of one of them becomes an operation at its end.
        jumping = then if then.outcome is not Outcome.FALL else orelse
        outcome, result = jumping.outcome, jumping.result
        with frame.at(jumping.jump or frame.cx.loc):
            extend(frame, jumping, lambda: (materialise(frame, outcome, result), None))
    going = orelse if then.outcome is Outcome.DEAD else then
    return part(frame, condition, ways), going.result


def part(frame: Frame, condition: Value, ways: tuple[Way, Way]) -> Outcome:
    """Emit the ``if`` for two ways of which one, at least, ends in a terminator.

    The code of the other stays in the surrounding block, behind the ``if``.
    """
    cx = frame.cx
    then, orelse = ways
    skip = Block()
    with cx.inside(skip):
        cx.add(Yield(()))
    if then.outcome is Outcome.DEAD:
        going = orelse
        cx.add(If(condition, (), then.block, skip))
    else:
        going = then
        cx.add(If(condition, (), skip, orelse.block))
    going.state.restore(frame)
    frame.owner.jump = going.jump
    cx.splice(going.block)
    return going.outcome


def scope(
    frame: Frame,
    start: State,
    block: Block,
    exits: Sequence[Exit],
    live: Callable[[Exit], Collection[str]],
) -> Any:
    """Emit the ``scope`` that the ``leave`` operations of ``exits`` end; returns their result.

    ``live`` are the names that are read behind an exit.
    """
    cx = frame.cx
    states = [exit.state for exit in exits]
    # What all exits agree on was computed inside, too, unless it was so before.
    names = frozenset(name for exit in exits for name in live(exit))
    slots = changed_slots([start, *states], names, len(start.heap))
    results = [exit.result for exit in exits]

    def matters(slot: Slot, path: int) -> bool:
        return slot.object >= 0 or slot.name in live(exits[path])

    merge = Merge(frame, states, slots, _on_some_exits(states), results, matters)
    for number, exit in enumerate(exits):
        with cx.before_exit(exit.op):
            assert isinstance(exit.op, Leave)
            exit.op.values = merge.operands(number)
    op = cx.add(Scope(merge.types, block))
    states[0].restore(frame)
    drop_dead(frame, [start, *states], names)
    return merge.apply(op.results)


def drop_dead(frame: Frame, states: Sequence[State], live: Collection[str]) -> None:
    """What nobody reads any more has no value: that of one path would not be visible."""
    for slot in changed_slots(states, None, 0):
        if slot.depth == 0 and slot.name not in live:
            frame.vars.pop(slot.name, None)


def _on_some_exits(states: Sequence[State]) -> Callable[[Slot, Sequence[Any]], Poison]:
    """Explains a variable that only some paths through an unrolled loop assign."""

    def explain(slot: Slot, values: Sequence[Any]) -> Poison:
        places = [slot.where(state) for state in states]
        found = [place for place in places if place is not None]
        return Poison(
            NameNotFound,
            f"{slot.name!r} may have no value here: a jump may leave the loop before it is"
            " assigned",
            (("it is assigned here", found[0]),) if found else (),
            f"assign {slot.name!r} before the loop",
        )

    return explain


def _one_sided(where: Loc, states: Sequence[State]) -> Callable[[Slot, Sequence[Any]], Poison]:
    """Explains a variable that only one of the two ways assigns."""

    def explain(slot: Slot, values: Sequence[Any]) -> Poison:
        side = 0 if isinstance(values[1], Poison) else 1
        word = "true" if side == 0 else "false"
        notes = [
            ("it is assigned here", slot.where(states[side])),
            (f"only if this condition is {word}", where),
        ]
        return Poison(
            NameNotFound,
            f"{slot.name!r} may have no value here: it is assigned on one path only",
            tuple((text, loc) for text, loc in notes if loc is not None),
            f"assign {slot.name!r} before the branch, or on both paths",
        )

    return explain


def _selectable(ways: tuple[Way, Way], merge: Merge) -> bool:
    return all(isinstance(t, Scalar) for t in merge.types) and all(
        speculatable(way.block) for way in ways
    )


def speculatable(block: Block) -> bool:
    """Whether the operations of ``block`` are few and may run where they were not asked for."""
    work = [op for op in block.ops if not isinstance(op, Constant)]
    return len(work) <= _MOST_SPECULATED and all(
        op.effect is Effect.PURE and not op.blocks and not _may_fault(op) for op in work
    )


def _may_fault(op: Any) -> bool:
    """Integer division by what may be zero, and shifts by what may be too much."""
    if not isinstance(op, Binary) or op.kind not in ("floordiv", "mod", "shl", "shr"):
        return False
    return not element_type(op.lhs.type).is_float and not isinstance(op.rhs.owner, Constant)


def choose(
    cx: Context,
    frame: Frame,
    condition: Value,
    then: Callable[[], Any],
    orelse: Callable[[], Any],
) -> Any:
    """``then() if condition else orelse()`` for expressions."""
    start = State.capture(frame)
    first = trace_way(frame, start, lambda: (Outcome.FALL, then()))
    second = trace_way(frame, start, lambda: (Outcome.FALL, orelse()))
    return meet(frame, start, condition, (first, second), None, select=True)
