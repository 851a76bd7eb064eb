"""Two ways at run time: trace both, then meet. Used by ``if``, the ternary, ``and`` and ``or``."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir.core import Block, Effect, Value
from tiledsl.codegen.ir.ops.arith import Binary, Constant, Select, Unary, element_type
from tiledsl.codegen.ir.ops.control import Break, Continue, If, Leave, Return, Yield
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


def trace_way(frame: Frame, start: State, body: Callable[[], tuple[Outcome, Any]]) -> Way:
    """Trace ``body`` into a block of its own, from a given state."""
    start.restore(frame)
    block = Block()
    with frame.cx.inside(block):
        outcome, result = body()
    return Way(block, outcome, result, State.capture(frame))


def extend(frame: Frame, way: Way, body: Callable[[], tuple[Outcome, Any]]) -> None:
    """Go on with a way that was traced before."""
    way.state.restore(frame)
    with frame.cx.inside(way.block):
        way.outcome, way.result = body()
    way.state = State.capture(frame)


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
    if loop.unrolled:
        word = outcome.value
        raise cx.syntax_error(
            f"`{word}` under a run-time condition in a loop that is unrolled",
            hint="loop over range(...), which runs at run time, or put the rest of the body into"
            " the other branch",
        )
    leave_withs(owner, loop.withs)
    if outcome is Outcome.BREAK:
        end: Break | Continue = cx.end(Break(()))
        loop.breaks.append(Exit(end, State.capture(owner)))
    else:
        end = cx.end(Continue(()))
        loop.continues.append(Exit(end, State.capture(owner)))
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
        # What nobody reads any more has no value: that of one way would not be visible.
        for slot in changed_slots(states, None, 0):
            if slot.depth == 0 and slot.name not in live:
                frame.vars.pop(slot.name, None)
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


def part(frame: Frame, condition: Value, ways: tuple[Way, Way]) -> Outcome:
    """Emit the ``if`` for two ways of which one, at least, ends in a terminator.

    The code of the other stays in the surrounding block, behind the ``if``.
    """
    cx = frame.cx
    then, orelse = ways
    if then.outcome is Outcome.DEAD:
        dead, going = then, orelse
    else:
        dead, going = orelse, then
        condition = cx.emit(Unary("not", condition))
    skip = Block()
    with cx.inside(skip):
        cx.add(Yield(()))
    cx.add(If(condition, (), dead.block, skip))
    going.state.restore(frame)
    cx.splice(going.block)
    return going.outcome


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
