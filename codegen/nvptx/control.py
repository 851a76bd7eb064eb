"""Structured control flow as basic blocks.

A ``Join`` is a place where several paths meet with values: the end of an ``if``, the next
iteration of a loop, its exit, the end of a scope. Whatever terminator leads there, from any depth,
adds its values to the join, and the join makes the phis, one for each register.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import control, protocol
from tiledsl.codegen.ir.ops.arith import Constant
from tiledsl.codegen.ir.types import Scalar, Tile, Type
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import F32, I1, keep_loop, llvm_name
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.codegen.nvptx.values import RegisterTile, flatten, machine_types, unflatten
from tiledsl.codegen.nvptx.wgmma import is_zero, retire


class Join:
    """A place that several paths reach, each with values of the same types."""

    def __init__(self, low: Lowering, types: Sequence[Type], name: str) -> None:
        self.low = low
        self.types = list(types)
        self.name = name
        self.label: Any = None  # made when the first path leads here
        self.paths: list[tuple[list[Any], Any]] = []

    def add(self, values: Sequence[Any]) -> Any:
        """Note that the current block leads here with these lowered values; the label to go to."""
        registers: list[Any] = []
        for value in values:
            registers += flatten(value, self.low.builder)
        if self.label is None:
            self.label = self.low.label(self.name)
        self.paths.append((registers, self.low.builder.block))
        return self.label

    def jump(self, values: Sequence[Any] = ()) -> None:
        """End the current block by going here."""
        self.low.builder.branch(self.add(values))

    def enter(self) -> list[Any]:
        """Go on emitting here, with the values that arrive.

        When no path leads here, the place of emission stays where it was, behind a terminator.
        """
        if self.label is None:
            return []
        self.low.builder.position_at_end(self.label)
        columns = zip(*(registers for registers, _ in self.paths), strict=True)
        merged = iter([self._merge(list(column)) for column in columns])
        found = []
        for kind in self.types:
            found.append(unflatten(kind, [next(merged) for _ in machine_types(kind)]))
        return found

    def _merge(self, registers: list[Any]) -> Any:
        first = registers[0]
        if all(register is first for register in registers):
            return first
        phi = self.low.builder.phi(first.type)
        for register, (_, source) in zip(registers, self.paths, strict=True):
            phi.add_incoming(register, source)
        return phi


@dataclass(slots=True)
class LoopTargets:
    """Where ``continue`` and ``break`` of a loop lead."""

    next: Join
    exit: Join


class LoopExit(Join):
    """The place behind a loop, where a ``wgmma.wait`` that stands there may be drawn into.

    Accumulators that are in flight must not meet others: where the paths of a loop that ran and
    of one that had no iteration join, ptxas would have to copy registers that an instruction in
    flight still writes, and serialises all of them instead (C7515). So the wait stands on each
    path out of the loop, before the join, and not on the path around it. What stands between the
    loop and the wait is emitted on all of these paths.
    """

    def __init__(self, low: Lowering, op: control.For | control.Loop, name: str) -> None:
        self.drawn = low.drawn_in.get(op)
        before = self.drawn.before if self.drawn is not None else ()
        self.results = op.results
        self.between = [result for inner in before for result in inner.results]
        super().__init__(low, [value.type for value in (*op.results, *self.between)], name)

    def add(self, values: Sequence[Any]) -> Any:
        if self.drawn is None:
            return super().add(values)
        values = [*values, *self._emit_between(values)]
        wait = self.drawn.wait
        places = [self.results.index(value) for value in wait.values]
        ready = retire(self.low, [values[place] for place in places], wait.pending)
        for place, tile in zip(places, ready, strict=True):
            values[place] = tile
        return super().add(values)

    def skip(self, values: Sequence[Any]) -> None:
        """End the current block by going here without a run of the loop: nothing is in flight."""
        self.low.builder.branch(super().add([*values, *self._emit_between(values)]))

    def _emit_between(self, values: Sequence[Any]) -> list[Any]:
        """What stands between the loop and the wait, on a path with these results of the loop."""
        define_all(self.low, self.results, values)
        for op in self.drawn.before if self.drawn is not None else ():
            self.low.operation(op)
        return [self.low.get(value) for value in self.between]

    def finish(self) -> None:
        """Go on emitting here, with all results."""
        values = self.enter()
        define_all(self.low, [*self.results, *self.between], values)
        if self.drawn is not None and values:
            wait = self.drawn.wait
            define_all(self.low, wait.results, [self.low.get(value) for value in wait.values])


def define_all(low: Lowering, results: Sequence[Value], values: Sequence[Any]) -> None:
    """Set the results of an operation, unless the place behind it cannot be reached."""
    for result, value in zip(results, values, strict=False):
        low.define(result, value)


@lower(control.If)
def _if(low: Lowering, op: control.If) -> None:
    then, orelse = low.label("then"), low.label("else")
    low.builder.cbranch(low.get(op.condition), then, orelse)
    end = Join(low, op.types, "endif")
    low.ifs.append(end)
    for label, block in ((then, op.then), (orelse, op.orelse)):
        low.builder.position_at_end(label)
        low.block(block)
    low.ifs.pop()
    define_all(low, op.results, end.enter())


@lower(control.Scope)
def _scope(low: Lowering, op: control.Scope) -> None:
    end = Join(low, op.types, "endscope")
    low.scopes.append(end)
    low.block(op.body)
    low.scopes.pop()
    define_all(low, op.results, end.enter())


# ------------------------------------------------------------------------------- loops


def _open_loop(low: Lowering, label: Any, args: Sequence[Value], inits: Sequence[Any]) -> list[Any]:
    """Phis for a loop's arguments at the head of its body, with their first values; all of them."""
    source = low.builder.block
    low.builder.position_at_end(label)
    phis: list[Any] = []
    for arg, init in zip(args, inits, strict=True):
        mine = []
        for register in init:
            phi = low.builder.phi(register.type, name=llvm_name(arg.name) if len(init) == 1 else "")
            phi.add_incoming(register, source)
            mine.append(phi)
        low.define(arg, unflatten(arg.type, mine))
        phis += mine
    return phis


def _close_loop(low: Lowering, phis: Sequence[Any], values: Sequence[Any]) -> None:
    """Give the phis at a loop's head what the next iteration starts with."""
    for phi, value in zip(phis, values, strict=True):
        phi.add_incoming(value, low.builder.block)


@lower(control.For)
def _for(low: Lowering, op: control.For) -> None:
    builder = low.builder
    counts = _Counting(low, op)
    inits = [low.get(init) for init in op.inits]
    types = [init.type for init in op.inits]
    body, skip, exit_ = low.label("for"), low.label("nothing"), LoopExit(low, op, "endfor")
    first = [[counts.start], *(flatten(init, builder) for init in inits)]
    fresh = _fresh_accumulators(low, op)
    for place in fresh:
        first[place] = [F32(ir.Undefined)] * len(first[place])
    before = builder.block
    builder.cbranch(counts.any(), body, skip)
    phis = _open_loop(low, body, op.body.args, first)
    counter = phis[0]
    again = _mark_fresh(low, op, fresh, before)
    targets = LoopTargets(Join(low, types, "next"), exit_)
    low.loops.append(targets)
    low.block(op.body)
    low.loops.pop()
    carried = targets.next.enter()
    if not low.ended:
        builder.debug_metadata = low.debug.location(op.loc)
        registers = [register for value in carried for register in flatten(value, builder)]
        following = builder.add(counter, counts.step)
        more = counts.more(counter, following)
        _close_loop(low, [*phis, *again], [following, *registers, *[I1(1)] * len(again)])
        over = low.label("over")
        keep_loop(low.module, builder.cbranch(more, body, over))
        builder.position_at_end(over)
        exit_.jump(carried)
    builder.position_at_end(skip)
    builder.debug_metadata = low.debug.location(op.loc)
    exit_.skip(inits)
    exit_.finish()


def _fresh_accumulators(low: Lowering, op: control.For) -> list[int]:
    """Which arguments of the body are accumulators that start at zero (see ``_mark_fresh``)."""
    found = []
    for place, arg in enumerate(op.body.args):
        if place == 0 or not isinstance(arg.type, Tile):
            continue
        readers = [inner for inner in op.body.walk() if arg in inner.operands]
        if (
            len(readers) == 1
            and isinstance(readers[0], protocol.Wgmma)
            and readers[0] in op.body.ops
        ):
            init = low.get(op.inits[place - 1])
            assert isinstance(init, RegisterTile)
            if is_zero(init):
                found.append(place)
    return found


def _mark_fresh(low: Lowering, op: control.For, places: Sequence[int], before: Any) -> list[Any]:
    """A predicate "not the first iteration" for accumulators that start at zero.

    The first group of an iteration then overwrites its accumulator or adds to it, as the predicate
    says, and the registers are not set to zero before the loop: for short loops that matters.
    """
    if not places:
        return []
    again = low.builder.phi(I1, name="again")
    again.add_incoming(I1(0), before)
    for place in places:
        tile = low.get(op.body.args[place])
        low.define(op.body.args[place], dataclasses.replace(tile, nonzero=again))
    return [again]


class _Counting:
    """The arithmetic of ``range(start, stop, step)``, exact up to the ends of the counter's type.

    ``counter + step`` may wrap where it would pass ``stop``, so whether there is a next iteration
    is decided by the distance that is left. That distance, taken modulo 2**bits, is right as an
    unsigned number because the counter lies before ``stop``.
    """

    def __init__(self, low: Lowering, op: control.For) -> None:
        self.builder = low.builder
        self.start = low.get(op.start)
        self.stop = low.get(op.stop)
        self.step = low.get(op.step)
        assert isinstance(op.step.type, Scalar)
        self.signed = op.step.type.dtype.is_signed
        owner = op.step.owner
        self.known: int | None = int(owner.value) if isinstance(owner, Constant) else None
        self.zero = self.step.type(0)

    def _less(self, left: Any, right: Any) -> Any:
        compare = self.builder.icmp_signed if self.signed else self.builder.icmp_unsigned
        return compare("<", left, right)

    def _up(self) -> Any:
        """Whether the step is positive, when that is known at run time only."""
        return self._less(self.zero, self.step)

    def any(self) -> Any:
        """Whether there is a first iteration. A step of zero gives none."""
        up, down = self._less(self.start, self.stop), self._less(self.stop, self.start)
        if self.known is not None:
            return up if self.known > 0 else down if self.known < 0 else I1(0)
        up = self.builder.and_(self._up(), up)
        if not self.signed:
            return up
        down = self.builder.and_(self._less(self.step, self.zero), down)
        return self.builder.or_(up, down)

    def more(self, counter: Any, following: Any) -> Any:
        """Whether ``following``, which is ``counter + step``, is an iteration too."""
        if self.known == 1:
            return self._less(following, self.stop)
        if self.known == -1:
            return self._less(self.stop, following)
        if self.known is not None:
            return self._passes(counter, self.known > 0)
        if not self.signed:
            return self._passes(counter, True)
        up, down = self._passes(counter, True), self._passes(counter, False)
        return self.builder.select(self._up(), up, down)

    def _passes(self, counter: Any, up: bool) -> Any:
        sub = self.builder.sub
        left = sub(self.stop, counter) if up else sub(counter, self.stop)
        step = self.step if up else sub(self.zero, self.step)
        return self.builder.icmp_unsigned("<", step, left)


@lower(control.Loop)
def _loop(low: Lowering, op: control.Loop) -> None:
    inits = [flatten(low.get(init), low.builder) for init in op.inits]
    types = [init.type for init in op.inits]
    body = low.label("loop")
    low.builder.branch(body)
    phis = _open_loop(low, body, op.body.args, inits)
    exit_ = LoopExit(low, op, "endloop")
    targets = LoopTargets(Join(low, types, "next"), exit_)
    low.loops.append(targets)
    low.block(op.body)
    low.loops.pop()
    carried = targets.next.enter()
    if not low.ended:
        registers = [register for value in carried for register in flatten(value, low.builder)]
        keep_loop(low.module, low.builder.branch(body))
        _close_loop(low, phis, registers)
    exit_.finish()


# ------------------------------------------------------------------------- terminators


def _values(low: Lowering, values: Sequence[Value]) -> list[Any]:
    return [low.get(value) for value in values]


@lower(control.Yield)
def _yield(low: Lowering, op: control.Yield) -> None:
    low.ifs[-1].jump(_values(low, op.values))


@lower(control.Continue)
def _continue(low: Lowering, op: control.Continue) -> None:
    low.loops[-1].next.jump(_values(low, op.values))


@lower(control.Break)
def _break(low: Lowering, op: control.Break) -> None:
    low.loops[-1].exit.jump(_values(low, op.values))


@lower(control.Leave)
def _leave(low: Lowering, op: control.Leave) -> None:
    low.scopes[-1].jump(_values(low, op.values))


@lower(control.Return)
def _return(low: Lowering, op: control.Return) -> None:
    assert low.exit is not None
    low.exit.jump()
