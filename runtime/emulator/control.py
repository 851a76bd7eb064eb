"""Control flow: ``if``, loops, scopes, and the terminators that leave them.

A terminator first copies its values to where its target keeps them, then returns the signal that
the target waits for; everything between passes the signal on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiledsl.codegen.ir.core import Block
from tiledsl.codegen.ir.ops import control
from tiledsl.errors import InvalidValue
from tiledsl.runtime.emulator.compile import (
    BREAK,
    CONTINUE,
    LEAVE,
    RETURN,
    Blocking,
    Code,
    Compiler,
    Coroutine,
    LoopSlots,
    Signal,
    Step,
    coroutine,
    step,
)
from tiledsl.runtime.emulator.machine import Part


def _copy(sources: Sequence[int], targets: Sequence[int], signal: Signal = None) -> Step:
    """Copy slots all at once (a loop may exchange its values), then return ``signal``."""
    if not sources:
        return lambda part: signal
    if len(sources) == 1:
        (source,), (target,) = sources, targets

        def copy_one(part: Part) -> Signal:
            part.registers[target] = part.registers[source]
            return signal

        return copy_one
    pairs = tuple(zip(sources, targets, strict=True))

    def copy(part: Part) -> Signal:
        registers = part.registers
        values = [registers[source] for source, _ in pairs]
        for (_, target), value in zip(pairs, values, strict=True):
            registers[target] = value
        return signal

    return copy


@step(control.If)
def _if(cx: Compiler, op: control.If) -> Code:
    condition = cx.slot(op.condition)
    cx.ifs.append(cx.slots(op.results))
    then, orelse = cx.block(op.then), cx.block(op.orelse)
    cx.ifs.pop()
    if not isinstance(then, Blocking) and not isinstance(orelse, Blocking):
        plain_then, plain_else = then, orelse

        def run(part: Part) -> Signal:
            return plain_then(part) if part.registers[condition] else plain_else(part)

        return run
    start_then, start_else = coroutine(then), coroutine(orelse)

    def start(part: Part) -> Coroutine:
        return (yield from (start_then if part.registers[condition] else start_else)(part))

    return Blocking(start)


def _loop_body(cx: Compiler, body: Block, slots: LoopSlots) -> Code:
    cx.loops.append(slots)
    code = cx.block(body)
    cx.loops.pop()
    return code


@step(control.For)
def _for(cx: Compiler, op: control.For) -> Code:
    counter, *args = cx.slots(op.body.args)
    slots = LoopSlots(args, cx.slots(op.results))
    begin = _copy(cx.slots(op.inits), slots.args)
    finish = _copy(slots.args, slots.results)
    bounds = cx.slots((op.start, op.stop, op.step))
    loc = op.loc

    def counters(part: Part) -> Iterable[int]:
        first, stop, by = (part.registers[slot] for slot in bounds)
        if by == 0:
            raise InvalidValue(
                "the step of range() is 0: expected a positive or negative number", loc
            )
        return range(first, stop, by)

    body = _loop_body(cx, op.body, slots)
    if isinstance(body, Blocking):
        start_body = body.start

        def start(part: Part) -> Coroutine:
            begin(part)
            registers = part.registers
            for registers[counter] in counters(part):
                signal = yield from start_body(part)
                if signal is not None and signal != CONTINUE:
                    return None if signal == BREAK else signal
            return finish(part)

        return Blocking(start)
    run_body = body

    def run(part: Part) -> Signal:
        begin(part)
        registers = part.registers
        for registers[counter] in counters(part):
            signal = run_body(part)
            if signal is not None and signal != CONTINUE:
                return None if signal == BREAK else signal
        return finish(part)

    return run


@step(control.Loop)
def _loop(cx: Compiler, op: control.Loop) -> Code:
    slots = LoopSlots(cx.slots(op.body.args), cx.slots(op.results))
    begin = _copy(cx.slots(op.inits), slots.args)
    body = _loop_body(cx, op.body, slots)
    if isinstance(body, Blocking):
        start_body = body.start

        def start(part: Part) -> Coroutine:
            begin(part)
            while True:
                signal = yield from start_body(part)
                if signal is not None and signal != CONTINUE:
                    return None if signal == BREAK else signal

        return Blocking(start)
    run_body = body

    def run(part: Part) -> Signal:
        begin(part)
        while True:
            signal = run_body(part)
            if signal is not None and signal != CONTINUE:
                return None if signal == BREAK else signal

    return run


@step(control.Scope)
def _scope(cx: Compiler, op: control.Scope) -> Code:
    cx.scopes.append(cx.slots(op.results))
    body = cx.block(op.body)
    cx.scopes.pop()
    if isinstance(body, Blocking):
        start_body = body.start

        def start(part: Part) -> Coroutine:
            signal = yield from start_body(part)
            return None if signal == LEAVE else signal

        return Blocking(start)
    run_body = body

    def run(part: Part) -> Signal:
        signal = run_body(part)
        return None if signal == LEAVE else signal

    return run


# ------------------------------------------------------------------------- terminators


@step(control.Yield)
def _yield(cx: Compiler, op: control.Yield) -> Step:
    return _copy(cx.slots(op.values), cx.ifs[-1])


@step(control.Continue)
def _continue(cx: Compiler, op: control.Continue) -> Step:
    return _copy(cx.slots(op.values), cx.loops[-1].args, CONTINUE)


@step(control.Break)
def _break(cx: Compiler, op: control.Break) -> Step:
    return _copy(cx.slots(op.values), cx.loops[-1].results, BREAK)


@step(control.Leave)
def _leave(cx: Compiler, op: control.Leave) -> Step:
    return _copy(cx.slots(op.values), cx.scopes[-1], LEAVE)


@step(control.Return)
def _return(cx: Compiler, op: control.Return) -> Step:
    return lambda part: RETURN
