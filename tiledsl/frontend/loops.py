"""``for`` and ``while``: at run time with carried values, at compile time unrolled."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from typing import Any

from tiledsl.codegen.ir.core import Block, Value
from tiledsl.codegen.ir.ops.control import For, If, Loop, Yield
from tiledsl.frontend.branches import Outcome, close, materialise, scope, trace_way
from tiledsl.frontend.carried import LoopTracer, Sure
from tiledsl.frontend.expressions import evaluate
from tiledsl.frontend.iteration import counter_dtype, elements
from tiledsl.frontend.liveness import assigned_in
from tiledsl.frontend.objects import Iteration, TracedObject
from tiledsl.frontend.scope import Frame, LoopState, State
from tiledsl.frontend.statements import FALL, Flow, assign, run_block, statement


@statement(ast.For)
def _for(frame: Frame, node: ast.For) -> Flow:
    cx = frame.cx
    _refuse_else(frame, node)
    iterable = evaluate(frame, node.iter)
    where = frame.source.loc(node.iter, frame.call_site)
    with frame.at(where):
        if isinstance(iterable, TracedObject):
            iteration = iterable.iterate(cx)
            assert isinstance(iteration, Iteration)
            return _run_time_for(frame, node, iteration, runs=False)
        if isinstance(iterable, range):
            dtype = counter_dtype(cx, iterable.start, iterable.stop, iterable.step)
            bounds = (iterable.start, iterable.stop, iterable.step)
            start, stop, step = (cx.constant(bound, dtype) for bound in bounds)
            plain = Iteration(start, stop, step, lambda cx, counter: counter)
            return _run_time_for(frame, node, plain, runs=len(iterable) > 0)
        items = elements(cx, iterable, "to loop over")
    return _unrolled(frame, node, items)


def _refuse_else(frame: Frame, node: ast.For | ast.While) -> None:
    if node.orelse:
        word = "for" if isinstance(node, ast.For) else "while"
        with frame.at(frame.source.loc(node.orelse[0], frame.call_site)):
            raise frame.cx.syntax_error(
                f"else of a {word} loop is not supported in a kernel",
                hint="set a variable before `break` and test it after the loop",
            )


def _unrolled(frame: Frame, node: ast.For, items: Sequence[Any]) -> Flow:
    """Trace the body once for each item."""
    liveness = frame.source.liveness
    live = liveness.head(node) | liveness.after(node)
    for number, item in enumerate(items):
        outcome, result = _iteration(frame, node, item, live)
        if outcome is Outcome.BREAK:
            break
        if outcome in (Outcome.RETURN, Outcome.DEAD):
            return outcome, result
        if isinstance(result, Value):
            # Whether it goes on is only known at run time: the rest stands under a condition.
            rest = functools.partial(_unrolled, frame, node, items[number + 1 :])
            start = State.capture(frame)
            ways = (trace_way(frame, start, rest), trace_way(frame, start, lambda: FALL))
            return close(frame, start, result, ways, liveness.after(node))
    return FALL


def _iteration(frame: Frame, node: ast.For, item: Any, live: frozenset[str]) -> Flow:
    """One iteration of an unrolled loop; with ``FALL``, a value that says whether to go on."""
    cx, owner = frame.cx, frame.owner
    assign(frame, node.target, item)
    loop = LoopState(len(owner.withs), unrolled=True, live=live)
    start = State.capture(frame)
    returns = len(owner.returns)
    block = Block()
    owner.loops.append(loop)
    try:
        if not _jumps_under_condition(node):
            return run_block(frame, node.body)
        with cx.inside(block):
            flow = run_block(frame, node.body)
            jumped = bool(loop.breaks or loop.continues)
            returned = flow[0] is Outcome.RETURN and owner.kind != "kernel"
            if jumped and flow[0] is not Outcome.DEAD and not returned:
                outcome = Outcome.CONTINUE if flow[0] is Outcome.FALL else flow[0]
                with frame.at((owner.jump if flow[0] is not Outcome.FALL else None) or cx.loc):
                    materialise(frame, outcome)
    finally:
        owner.loops.pop()
    exits = [*loop.continues, *loop.breaks]
    if not exits:
        cx.splice(block)
        return flow
    if returned or len(owner.returns) > returns:
        with frame.at(owner.jump or cx.loc):
            raise cx.syntax_error(
                "`return` in an unrolled loop that `break` or `continue` leaves at run time",
                hint="set a variable and return behind the loop, or loop over range(...)",
            )
    after = frame.source.liveness.after(node)
    goes_on = scope(frame, start, block, exits, lambda exit: after if exit in loop.breaks else live)
    if goes_on is False:
        return Outcome.BREAK, None
    return Outcome.FALL, None if goes_on is True else goes_on


def _jumps_under_condition(node: ast.For) -> bool:
    """Whether a ``break`` or ``continue`` of this very loop stands in a branch."""

    def jumps(statements: Sequence[ast.stmt], conditional: bool) -> bool:
        for inner in statements:
            match inner:
                case ast.Break() | ast.Continue():
                    if conditional:
                        return True
                case ast.If(body=body, orelse=orelse):
                    if jumps(body, True) or jumps(orelse, True):
                        return True
                case ast.With(body=body):
                    if jumps(body, conditional):
                        return True
        return False

    return jumps(node.body, False)


def _run_time_for(frame: Frame, node: ast.For, iteration: Iteration, *, runs: bool) -> Flow:
    def body(counter: Value | None) -> Flow:
        assert counter is not None
        if isinstance(node.target, ast.Name):
            counter.name = node.target.id
        with frame.at(frame.source.loc(node.target, frame.call_site)):
            target = iteration.target(frame.cx, counter)
        assign(frame, node.target, target)
        return run_block(frame, node.body)

    def build(inits: tuple[Value, ...], block: Block) -> For:
        return For(iteration.start, iteration.stop, iteration.step, inits, block)

    names = assigned_in([ast.Assign([node.target], ast.Constant(None)), *node.body])
    tracer = LoopTracer(frame, node, names, sure=Sure.ALL if runs else Sure.NONE)
    with frame.at(frame.source.loc(node.target, frame.call_site)):
        return tracer.trace(body, build, counter=iteration.start)


@statement(ast.While)
def _while(frame: Frame, node: ast.While) -> Flow:
    cx = frame.cx
    _refuse_else(frame, node)
    where = frame.source.loc(node.test, frame.call_site)
    endless = False

    def body(counter: Value | None) -> Flow:
        nonlocal endless
        with frame.at(where):
            condition = cx.truth(evaluate(frame, node.test))
        if condition is False:
            raise _NeverRuns
        endless = condition is True
        if isinstance(condition, Value):
            leave = Block()
            with cx.inside(leave), frame.at(where):
                materialise(frame, Outcome.BREAK)
            stay = Block()
            with cx.inside(stay):
                cx.add(Yield(()))
            with frame.at(where):
                cx.add(If(condition, (), stay, leave))
        return run_block(frame, node.body)

    start = State.capture(frame)
    mark = len(cx.heap)
    names = assigned_in([ast.Expr(node.test), *node.body])
    # Whether it is endless is only known once the test was evaluated; a literal says so at once.
    literal = isinstance(node.test, ast.Constant) and bool(node.test.value)
    sure = Sure.BREAKS if literal else Sure.NONE
    tracer = LoopTracer(frame, node, names, sure=sure)
    try:
        with frame.at(where):
            return tracer.trace(body, Loop, counter=None, endless=lambda: endless)
    except _NeverRuns:
        start.restore(frame)
        cx.forget(mark)
        with frame.at(where):
            cx.truth(evaluate(frame, node.test))
        return FALL


class _NeverRuns(Exception):
    """The test of a ``while`` is false at compile time."""
