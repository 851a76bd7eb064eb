"""``for`` and ``while``: at run time with carried values, at compile time unrolled."""

from __future__ import annotations

import ast
from typing import Any

from tiledsl.codegen.ir.core import Block, Value
from tiledsl.codegen.ir.ops.arith import Unary
from tiledsl.codegen.ir.ops.control import For, If, Loop, Yield
from tiledsl.frontend.branches import Outcome, materialise
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


def _unrolled(frame: Frame, node: ast.For, items: list[Any]) -> Flow:
    """Trace the body once for each item."""
    owner = frame.owner
    live = frame.source.liveness.head(node) | frame.source.liveness.after(node)
    for item in items:
        assign(frame, node.target, item)
        owner.loops.append(LoopState(len(owner.withs), unrolled=True, live=live))
        try:
            flow = run_block(frame, node.body)
        finally:
            owner.loops.pop()
        if flow[0] is Outcome.BREAK:
            break
        if flow[0] in (Outcome.RETURN, Outcome.DEAD):
            return flow
    return FALL


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
                stop = cx.emit(Unary("not", condition))
                cx.add(If(stop, (), leave, stay))
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
