"""What each Python statement means. ``run_block`` is the entry; a table maps node classes.

A handler returns how the statement ends (see ``Outcome``) and, for ``RETURN``, the value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import tile
from tiledsl.frontend import subscripts
from tiledsl.frontend.attributes import get_attribute, set_attribute
from tiledsl.frontend.branches import Outcome, Way, close, extend, trace_way
from tiledsl.frontend.describe import describe
from tiledsl.frontend.expressions import BINARY, binary, evaluate
from tiledsl.frontend.function import function as td_function
from tiledsl.frontend.iteration import assign_names, unpack
from tiledsl.frontend.nested_function import NestedFunction
from tiledsl.frontend.objects import TracedObject
from tiledsl.frontend.scope import Frame, State

Flow = tuple[Outcome, Any]
Handler = Callable[[Frame, Any], Flow]
_HANDLERS: dict[type[ast.stmt], Handler] = {}
FALL: Flow = (Outcome.FALL, None)


def statement(*kinds: type[ast.stmt]) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for kind in kinds:
            _HANDLERS[kind] = handler
        return handler

    return register


def run_block(frame: Frame, statements: Sequence[ast.stmt], *, tail: bool = False) -> Flow:
    """Trace statements. ``tail``: they are the last of their function, which then returns None."""
    for number, node in enumerate(statements):
        if isinstance(node, ast.If):
            rest = statements[number + 1 :]
            flow, consumed = _if(frame, node, rest, tail)
            if consumed:
                return flow
        else:
            flow = run_statement(frame, node)
        if flow[0] is not Outcome.FALL:
            return flow
    return (Outcome.RETURN, None) if tail else FALL


def run_statement(frame: Frame, node: ast.stmt) -> Flow:
    cx = frame.cx
    saved = cx.loc
    cx.loc = frame.source.loc(node, frame.call_site)
    try:
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise _unsupported(frame, node)
        return handler(frame, node)
    finally:
        cx.loc = saved


_HINTS: dict[type[ast.stmt], tuple[str, str | None]] = {
    ast.Global: ("global", "return the value, or pass it as an argument"),
    ast.Nonlocal: ("nonlocal", "return the value and assign it where the function is called"),
    ast.Import: ("import", "import at the top of the module"),
    ast.ImportFrom: ("import", "import at the top of the module"),
    ast.ClassDef: ("class", "define the class outside of the kernel"),
    ast.Try: ("try", "a GPU has no exceptions: test the condition with if"),
    ast.TryStar: ("try", "a GPU has no exceptions: test the condition with if"),
    ast.Match: ("match", "write if / elif"),
    ast.Delete: ("del", "leave the variable alone, or assign None"),
    ast.AsyncFunctionDef: ("async def", "write def"),
    ast.AsyncFor: ("async for", "write for"),
    ast.AsyncWith: ("async with", "write with"),
}


def _unsupported(frame: Frame, node: ast.stmt) -> Exception:
    what, hint = _HINTS.get(type(node), (type(node).__name__, None))
    return frame.cx.syntax_error(f"{what} is not supported in a kernel", hint=hint)


# ------------------------------------------------------------------------- simple statements


@statement(ast.Pass)
def _pass(frame: Frame, node: ast.Pass) -> Flow:
    return FALL


@statement(ast.Expr)
def _expr(frame: Frame, node: ast.Expr) -> Flow:
    value = evaluate(frame, node.value)
    if isinstance(value, TracedObject) and value.only_with is not None:
        raise frame.cx.syntax_error(
            f"{describe(value)} does nothing by itself: expected a with statement",
            hint=f"write {value.only_with}",
        )
    return FALL


@statement(ast.Assign)
def _assign(frame: Frame, node: ast.Assign) -> Flow:
    value = evaluate(frame, node.value)
    for target in node.targets:
        assign(frame, target, value)
    return FALL


def assign(frame: Frame, target: ast.expr, value: Any) -> None:
    """Bind a target: a name, an item, an attribute, or a sequence of targets."""
    match target:
        case ast.Tuple() | ast.List():
            for inner, item in unpack(frame, target, value):
                assign(frame, inner, item)
        case ast.Subscript():
            base = evaluate(frame, target.value)
            index = evaluate(frame, target.slice)
            with frame.at(frame.source.loc(target, frame.call_site)):
                subscripts.store(frame.cx, base, index, value)
        case ast.Attribute():
            base = evaluate(frame, target.value)
            with frame.at(frame.source.loc(target, frame.call_site)):
                set_attribute(frame.cx, base, target.attr, value)
        case _:
            assign_names(frame, target, value)


@statement(ast.AnnAssign)
def _annotated(frame: Frame, node: ast.AnnAssign) -> Flow:
    """``x: td.float32 = 0`` converts to the dtype; other annotations are for the reader."""
    if node.value is None:
        return FALL
    value = evaluate(frame, node.value)
    try:
        annotation = evaluate(frame, node.annotation)
    except NameError:
        annotation = None  # such as a name imported for the type checker only
    if isinstance(annotation, DType):
        value = frame.cx.scalar(value, annotation)
    assign(frame, node.target, value)
    return FALL


@statement(ast.AugAssign)
def _augmented(frame: Frame, node: ast.AugAssign) -> Flow:
    """``x op= y``. Base and index of the target are evaluated once."""
    cx = frame.cx
    kind = BINARY[type(node.op)]
    match node.target:
        case ast.Subscript() as target:
            base = evaluate(frame, target.value)
            index = evaluate(frame, target.slice)
            old = subscripts.load(cx, base, index)
            value = _in_place(frame, kind, old, evaluate(frame, node.value))
            subscripts.store(cx, base, index, value)
        case ast.Attribute() as target:
            base = evaluate(frame, target.value)
            old = get_attribute(cx, base, target.attr)
            value = _in_place(frame, kind, old, evaluate(frame, node.value))
            set_attribute(cx, base, target.attr, value)
        case ast.Name() as target:
            old = frame.lookup(target.id)
            assign(frame, target, _in_place(frame, kind, old, evaluate(frame, node.value)))
    return FALL


def _in_place(frame: Frame, kind: str, old: Any, value: Any) -> Any:
    """Lists grow in place, as in Python; everything else is computed anew."""
    if kind == "add" and isinstance(old, list):
        frame.cx.call(old.extend, value)
        return old
    return binary(frame, kind, old, value)


@statement(ast.Assert)
def _assert(frame: Frame, node: ast.Assert) -> Flow:
    cx = frame.cx
    truth = cx.truth(evaluate(frame, node.test))
    if isinstance(truth, Value):
        return _require(frame, node, truth)
    if not truth:
        message = "" if node.msg is None else f": {evaluate(frame, node.msg)}"
        raise cx.value_error(f"assertion failed{message}")
    return FALL


def _require(frame: Frame, node: ast.Assert, condition: Value) -> Flow:
    """A run-time condition at the top of the kernel becomes a condition on the launch."""
    cx = frame.cx
    if not cx.at_top:
        raise cx.syntax_error(
            "an assert on run-time values is checked before the launch: expected it at the top of"
            " the kernel, outside of roles, loops and branches",
            hint="assert on shapes before the first td.role, or td.print what is wrong under an if",
        )
    message = "" if node.msg is None else evaluate(frame, node.msg)
    if not isinstance(message, str):
        raise cx.type_error(
            f"the message of an assert must be known at compile time, got {cx.describe(message)}",
            hint="the values that were compared are reported by themselves",
        )
    cx.add(tile.Require(condition, message))
    return FALL


@statement(ast.Raise)
def _raise(frame: Frame, node: ast.Raise) -> Flow:
    """Reached at compile time, it is an error of the compilation."""
    cx = frame.cx
    if len(cx.branches) > frame.owner.branches:
        raise cx.syntax_error(
            "raise under a run-time condition is not supported in a kernel",
            hint="a GPU has no exceptions: return early, or td.print what is wrong",
            notes=[("the condition is here", cx.branches[-1])],
        )
    error = None if node.exc is None else evaluate(frame, node.exc)
    if isinstance(error, type) and issubclass(error, BaseException):
        error = error()
    raise cx.value_error(f"{type(error).__name__}: {error}")


@statement(ast.FunctionDef)
def _def(frame: Frame, node: ast.FunctionDef) -> Flow:
    made: Any = NestedFunction.define(frame, node, evaluate)
    for decorator in reversed(node.decorator_list):
        function = evaluate(frame, decorator)
        if function is not td_function:  # which says what holds anyway
            made = frame.cx.call(function, made)
    frame.assign(node.name, made)
    return FALL


# ------------------------------------------------------------------------------------ jumps


@statement(ast.Return)
def _return(frame: Frame, node: ast.Return) -> Flow:
    frame.owner.jump = frame.cx.loc
    value = None if node.value is None else evaluate(frame, node.value)
    if frame.owner.kind == "kernel" and value is not None:
        raise frame.cx.syntax_error(
            f"a kernel returns nothing, got {frame.cx.describe(value)}",
            hint="store the result in a tensor: out[i] = x, or td.tma_store",
        )
    return Outcome.RETURN, value


@statement(ast.Break)
def _break(frame: Frame, node: ast.Break) -> Flow:
    frame.owner.jump = frame.cx.loc
    return Outcome.BREAK, None


@statement(ast.Continue)
def _continue(frame: Frame, node: ast.Continue) -> Flow:
    frame.owner.jump = frame.cx.loc
    return Outcome.CONTINUE, None


# --------------------------------------------------------------------------------- branches


def _if(frame: Frame, node: ast.If, rest: Sequence[ast.stmt], tail: bool) -> tuple[Flow, bool]:
    """An ``if``; also whether ``rest``, the statements behind it, were traced with it.

    That happens at the end of a function where one way returns and the other goes on: the other
    takes the rest with it, so that both return and no jump is needed.
    """
    cx = frame.cx
    where = frame.source.loc(node.test, frame.call_site)
    with frame.at(where):
        condition = cx.truth(evaluate(frame, node.test))
    if isinstance(condition, bool):
        taken = node.body if condition else node.orelse
        flow = run_block(frame, taken, tail=tail and not rest)
        return flow, flow[0] is not Outcome.FALL
    start = State.capture(frame)
    last = tail and not rest
    cx.branches.append(where)
    try:
        ways = (
            trace_way(frame, start, lambda: run_block(frame, node.body, tail=last)),
            trace_way(frame, start, lambda: run_block(frame, node.orelse, tail=last)),
        )
        consumed = last
        if tail and frame.owner.kind == "function":
            consumed = _take_rest(frame, ways, rest) or last
    finally:
        cx.branches.pop()
    with frame.at(where):
        live = frame.source.liveness.after(node)
        return close(frame, start, condition, ways, live), consumed


def _take_rest(frame: Frame, ways: tuple[Way, Way], rest: Sequence[ast.stmt]) -> bool:
    for one, other in (ways, ways[::-1]):
        if one.outcome is Outcome.RETURN and other.outcome is Outcome.FALL:
            extend(frame, other, lambda: run_block(frame, rest, tail=True))
            return True
    return False


def _load_other_statements() -> None:
    """Loops and ``with`` have modules of their own, which register themselves."""
    from tiledsl.frontend import loops, with_statement  # noqa: F401


_load_other_statements()
