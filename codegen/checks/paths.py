"""Dataflow over structured IR, shared by the checks that follow every path.

A check gives the meaning of one operation (``transfer``) and what holds where paths meet
(``join``); this class walks ``if``, loops, scopes and early exits. States are treated as values:
``transfer`` returns a new one. None stands for "this point is not reached".

``Merges`` says where a value comes from that a branch, loop or scope gives on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.ops import control

S = TypeVar("S")


@dataclass
class Exits(Generic[S]):
    """States at the exits of an enclosing construct."""

    owner: Op
    breaks: list[tuple[Op, S]] = field(default_factory=list)
    continues: list[tuple[Op, S]] = field(default_factory=list)


class PathWalker(Generic[S]):
    """Walks every path of a block; subclasses override the hooks."""

    def __init__(self) -> None:
        self._loops: list[Exits[S]] = []
        self._scopes: list[Exits[S]] = []

    # ------------------------------------------------------------------------- hooks

    def transfer(self, op: Op, state: S) -> S:
        """The state after an operation without nested blocks."""
        return state

    def enter(self, op: control.If, taken: bool, state: S) -> S:
        """The state at the begin of one of the blocks of an ``if``."""
        return state

    def join(self, op: Op, arrivals: list[tuple[Op, S]]) -> S:
        """The state after ``op``, where these paths meet; each comes with the op that ends it."""
        raise NotImplementedError

    def repeat(self, loop: Op, entry: S, arrivals: list[tuple[Op, S]]) -> S:
        """Check the states that reach the loop's back edge; the state when the loop ends there."""
        raise NotImplementedError

    def finish(self, op: Op | None, state: S) -> None:
        """The role or kernel ends here, by ``return`` or (None) by falling off its end."""

    # -------------------------------------------------------------------------- walk

    def walk(self, block: Block, state: S) -> S | None:
        """The state at the end of a block without terminator; None when it ends elsewhere."""
        current: S | None = state
        for op in block.ops:
            if current is None:
                return None
            current = self._step(op, current)
        return current

    def _step(self, op: Op, state: S) -> S | None:
        match op:
            case control.If():
                return self._if(op, self.transfer(op, state))
            case control.For() | control.Loop():
                return self._loop(op, self.transfer(op, state))
            case control.Scope():
                return self._scope(op, self.transfer(op, state))
            case control.Yield():
                return self.transfer(op, state)  # the end of an if block: read by _if
            case control.Continue():
                self._loops[-1].continues.append((op, self.transfer(op, state)))
                return None
            case control.Break():
                self._loops[-1].breaks.append((op, self.transfer(op, state)))
                return None
            case control.Leave():
                self._scopes[-1].breaks.append((op, self.transfer(op, state)))
                return None
            case control.Return():
                self.finish(op, self.transfer(op, state))
                return None
            case _:
                return self.transfer(op, state)

    def _if(self, op: control.If, state: S) -> S | None:
        arrivals: list[tuple[Op, S]] = []
        for taken, block in ((True, op.then), (False, op.orelse)):
            after = self.walk(block, self.enter(op, taken, state))
            if after is not None:
                arrivals.append((block.ops[-1] if block.ops else op, after))
        return self.join(op, arrivals) if arrivals else None

    def _loop(self, op: control.For | control.Loop, state: S) -> S | None:
        self._loops.append(Exits(op))
        self.walk(op.body, state)
        exits = self._loops.pop()
        done = self.repeat(op, state, exits.continues)
        arrivals = list(exits.breaks)
        if isinstance(op, control.For):  # a loop without end leaves only by break
            arrivals.insert(0, (op, done))
        return self.join(op, arrivals) if arrivals else None

    def _scope(self, op: control.Scope, state: S) -> S | None:
        self._scopes.append(Exits(op))
        loops, self._loops = self._loops, []
        self.walk(op.body, state)
        self._loops = loops
        arrivals = self._scopes.pop().breaks
        return self.join(op, arrivals) if arrivals else None


def given_by(end: Op) -> list[Value]:
    """The values that a path hands to what it ends in: those of its terminator, or of the loop."""
    if isinstance(end, control.For):
        return end.body.args[1:]
    return list(end.operands) if end.is_terminator else []


class Merges:
    """Results of branches, loops and scopes, and arguments of loops -> what may be in them."""

    def __init__(self, block: Block) -> None:
        self.incoming: dict[Value, list[Value]] = {}
        self._scan(block, [], [])

    def roots(self, value: Value) -> set[Value]:
        """The values, merged by nothing, of which this one may be any."""
        found: set[Value] = set()
        seen: set[Value] = set()
        todo = [value]
        while todo:
            current = todo.pop()
            if current in seen:
                continue
            seen.add(current)
            if current in self.incoming:
                todo += self.incoming[current]
            else:
                found.add(current)
        return found

    def _add(self, targets: Sequence[Value], values: Sequence[Value]) -> None:
        for target, value in zip(targets, values, strict=False):
            self.incoming.setdefault(target, []).append(value)

    def _scan(self, block: Block, loops: list[Op], scopes: list[Op]) -> None:
        for op in block.ops:
            match op:
                case control.If():
                    for nested in op.blocks:
                        self._scan(nested, loops, scopes)
                        if isinstance(nested.terminator, control.Yield):
                            self._add(op.results, nested.terminator.values)
                case control.For() | control.Loop():
                    args = carried(op)
                    self._add(args, op.inits)
                    if isinstance(op, control.For):
                        self._add(op.results, args)
                    self._scan(op.body, [*loops, op], scopes)
                case control.Scope():
                    self._scan(op.body, loops, [*scopes, op])
                case control.Continue():
                    self._add(carried(loops[-1]), op.values)
                case control.Break():
                    self._add(loops[-1].results, op.values)
                case control.Leave():
                    self._add(scopes[-1].results, op.values)
                case control.Role():
                    self._scan(op.body, [], [])


def carried(loop: Op) -> list[Value]:
    """The arguments of a loop's body that stand for what it carries."""
    assert isinstance(loop, control.For | control.Loop)
    return loop.body.args[1:] if isinstance(loop, control.For) else loop.body.args
