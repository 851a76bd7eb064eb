"""Turns of a role's replicas: begun and ended in pairs, each ring inside of one of them or none.

Inside a turn the replicas share one cursor of each ring that they use there, handed on with the
turn; outside, each replica goes through a ring by itself. So a ring must be used in turns of one
name only, or never in one; a stage must be released before the turn in which it was acquired
ends, for the next replica goes on with the slot behind it; and every replica must take every turn.
A role without replicas may use the same code: its turns do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.codegen.checks.evaluate import Known, reachable
from tiledsl.codegen.checks.paths import PathWalker
from tiledsl.codegen.checks.stages import ACQUIRES, Guards, ring_and_side, ring_name
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, sync, tile
from tiledsl.errors import StageError

Side = tuple[Value, str]  # a ring, and "producer" or "consumer"


@dataclass(frozen=True, slots=True)
class _State:
    """The turns that are open, innermost last; stages held with the turn of their acquire."""

    turns: tuple[sync.TurnBegin, ...] = ()
    held: tuple[tuple[Value, sync.TurnBegin], ...] = ()


def turns_of_rings(body: Block) -> dict[Side, str]:
    """The turn inside of which a role uses a side of a ring, for those that it uses in one."""
    walker = _TurnWalker("", body)
    walker.walk(body, _State())
    return {side: turn for side, uses in walker.uses.items() for turn in uses if turn}


def check_turns(kernel: Kernel) -> None:
    """Raise ``StageError`` unless the turns of every replicated role are well formed."""
    for op in kernel.body.ops:
        if not isinstance(op, control.Role) or op.replicas == 1:
            continue
        if any(isinstance(inner, sync.TurnBegin | sync.TurnEnd) for inner in op.body.walk()):
            walker = _TurnWalker(op.name, op.body)
            end = walker.walk(op.body, _State())
            if end is not None:
                walker.finish(None, end)
            walker.check_uses()
            _check_taken(op)


class _TurnWalker(PathWalker[_State]):
    def __init__(self, role: str, body: Block) -> None:
        super().__init__()
        self.role = role  # "": note the rings only
        self.guards = Guards(body)
        self.uses: dict[Side, dict[str, Op]] = {}  # by the innermost turn; "" outside of turns

    def transfer(self, op: Op, state: _State) -> _State:
        match op:
            case sync.TurnBegin():
                if self.role and any(turn.name == op.name for turn in state.turns):
                    raise self._inside_itself(op, state)
                return _State((*state.turns, op), state.held)
            case sync.TurnEnd():
                return self._end(op, state)
            case tile.Release():
                stage = self.guards.stage(op.stage)
                return _State(state.turns, tuple(h for h in state.held if h[0] is not stage))
        side = ring_and_side(op)
        if side is None:
            return state
        name = state.turns[-1].name if state.turns else ""
        self.uses.setdefault(side, {}).setdefault(name, op)
        if isinstance(op, ACQUIRES) and state.turns:
            return _State(state.turns, (*state.held, (op.result, state.turns[-1])))
        return state

    def _end(self, op: sync.TurnEnd, state: _State) -> _State:
        ended = state.turns[-1] if state.turns else None
        if self.role and (ended is None or ended.name != op.name):
            raise StageError(
                f"turn {op.name!r} ends here, but has not begun on every path to here",
                op.loc,
                hint="write `with me.turn():`",
            )
        for stage, turn in state.held:
            if turn is ended and self.role:
                raise StageError(
                    "a stage that was acquired in a turn is held beyond its end: the next replica"
                    f" of role {self.role!r} goes on with the slot behind it",
                    stage.loc,
                    notes=(("the turn begins here", turn.loc), ("it ends here", op.loc)),
                    hint="release the stage inside of the turn: what still reads it is waited for",
                )
        return _State(state.turns[:-1], tuple(h for h in state.held if h[1] is not ended))

    def join(self, op: Op, arrivals: list[tuple[Op, _State]]) -> _State:
        first = arrivals[0][1]
        self._agree(op, first, arrivals[1:])
        held = dict.fromkeys(h for _, state in arrivals for h in state.held)
        return _State(first.turns, tuple(held))

    def repeat(self, loop: Op, entry: _State, arrivals: list[tuple[Op, _State]]) -> _State:
        self._agree(loop, entry, arrivals)
        return entry

    def finish(self, op: Op | None, state: _State) -> None:
        if self.role and state.turns:
            raise self._unbalanced(state.turns[-1], op)

    def check_uses(self) -> None:
        """Each side of a ring is used in turns of one name, or in none."""
        for (ring, side), uses in self.uses.items():
            if len(uses) < 2:
                continue
            raise StageError(
                f"the replicas of role {self.role!r} use the {side} side of pipeline"
                f" {ring_name(ring)!r} in more than one way: expected all of it in turns of one"
                " name, where the replicas share the stages, or all outside of turns, where each"
                " replica gets every stage",
                list(uses.values())[-1].loc,
                notes=tuple(
                    (f"in turn {name!r} here" if name else "outside of turns here", op.loc)
                    for name, op in uses.items()
                ),
                hint="move the acquires into turns of one name, or use two pipelines",
            )

    def _inside_itself(self, op: sync.TurnBegin, state: _State) -> StageError:
        outer = next(turn for turn in state.turns if turn.name == op.name)
        return StageError(
            f"turn {op.name!r} inside of turn {op.name!r}: a replica would wait for itself",
            op.loc,
            notes=(("the outer turn begins here", outer.loc),),
            hint="leave the inner one out, or give it another name",
        )

    def _agree(self, op: Op, first: _State, arrivals: list[tuple[Op, _State]]) -> None:
        for end, state in arrivals:
            if self.role and state.turns != first.turns:
                longer = max(state.turns, first.turns, key=len)
                raise self._unbalanced(longer[-1], end if op.loc == longer[-1].loc else op)

    @staticmethod
    def _unbalanced(turn: sync.TurnBegin, op: Op | None) -> StageError:
        return StageError(
            f"turn {turn.name!r} does not end on every path: the next replica would wait for ever",
            turn.loc,
            notes=() if op is None else (("on a path through here", op.loc),),
            hint="write `with me.turn():` around what the replicas do one after the other",
        )


def _check_taken(role: control.Role) -> None:
    """Every replica must take every turn: the others wait for it."""
    taken: list[dict[str, Op]] = []
    for number in range(role.replicas):
        known = Known()
        for op in role.body.walk():
            if isinstance(op, sync.Replica):
                known.set(op.result, number)
        taken.append(
            {op.name: op for op in reachable(role.body, known) if isinstance(op, sync.TurnBegin)}
        )
    for other in taken:
        for name, begin in other.items():
            for number, names in enumerate(taken):
                if name not in names:
                    raise StageError(
                        f"replica {number} of role {role.name!r} never takes turn {name!r}, which"
                        " other replicas take: they would wait for it for ever",
                        begin.loc,
                        notes=(("the role", role.loc),),
                        hint="let every replica take the turn, whatever its index",
                    )
