"""What each Python expression means. ``evaluate`` is the entry; a table maps node classes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops.arith import Binary
from tiledsl.frontend import calls, iteration, subscripts
from tiledsl.frontend.arithmetic import dtype_of
from tiledsl.frontend.attributes import get_attribute
from tiledsl.frontend.branches import Outcome, choose, meet, speculatable, trace_way
from tiledsl.frontend.merging import changed_slots
from tiledsl.frontend.nested_function import NestedFunction
from tiledsl.frontend.objects import FormatPart, FormatString
from tiledsl.frontend.scope import Frame, State

_N = TypeVar("_N", bound=ast.expr)
Handler = Callable[[Frame, Any], Any]
_HANDLERS: dict[type[ast.expr], Handler] = {}

BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "shr", ast.MatMult: "matmul",
}  # fmt: skip
_UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "not"}
_COMPARE = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip


def expression(*kinds: type[ast.expr]) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for kind in kinds:
            _HANDLERS[kind] = handler
        return handler

    return register


def evaluate(frame: Frame, node: ast.expr) -> Any:
    """The value of an expression: a ``Value``, or any Python object at compile time."""
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


def _unsupported(frame: Frame, node: ast.expr) -> Exception:
    what, hint = {
        ast.Await: ("await", "a role waits by acquiring a stage of a pipeline"),
        ast.Yield: ("yield", "build a tuple or list instead"),
        ast.YieldFrom: ("yield", "build a tuple or list instead"),
        ast.Starred: ("a starred expression here", "write the items one by one"),
    }.get(type(node), (type(node).__name__, None))
    return frame.cx.syntax_error(f"{what} is not supported in a kernel", hint=hint)


@expression(ast.Constant)
def _constant(frame: Frame, node: ast.Constant) -> Any:
    return node.value


@expression(ast.Name)
def _name(frame: Frame, node: ast.Name) -> Any:
    return frame.lookup(node.id)


@expression(ast.Attribute)
def _attribute(frame: Frame, node: ast.Attribute) -> Any:
    return get_attribute(frame.cx, evaluate(frame, node.value), node.attr)


@expression(ast.Subscript)
def _subscript(frame: Frame, node: ast.Subscript) -> Any:
    base = evaluate(frame, node.value)
    return subscripts.load(frame.cx, base, evaluate(frame, node.slice))


@expression(ast.Slice)
def _slice(frame: Frame, node: ast.Slice) -> Any:
    parts = (node.lower, node.upper, node.step)
    return slice(*(None if part is None else evaluate(frame, part) for part in parts))


def items(frame: Frame, nodes: Iterable[ast.expr]) -> list[Any]:
    """The values of a display or argument list, with ``*sequence`` expanded."""
    found: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            value = evaluate(frame, node.value)
            with frame.at(frame.source.loc(node, frame.call_site)):
                found += iteration.elements(frame.cx, value, "to be unpacked")
        else:
            found.append(evaluate(frame, node))
    return found


@expression(ast.Tuple)
def _tuple(frame: Frame, node: ast.Tuple) -> Any:
    return tuple(items(frame, node.elts))


@expression(ast.List)
def _list(frame: Frame, node: ast.List) -> Any:
    return frame.cx.made(items(frame, node.elts))


@expression(ast.Set)
def _set(frame: Frame, node: ast.Set) -> Any:
    found = items(frame, node.elts)
    if any(isinstance(x, Value) for x in found):
        raise frame.cx.type_error("a set of run-time values", hint="use a tuple or list")
    return frozenset(found)


@expression(ast.Dict)
def _dict(frame: Frame, node: ast.Dict) -> Any:
    found: dict[Any, Any] = {}
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        if key_node is None:
            found.update(calls.keywords_of(frame.cx, evaluate(frame, value_node)))
            continue
        key = dict_key(frame, key_node)  # first, as in Python
        found[key] = evaluate(frame, value_node)
    return frame.cx.made(found)


def dict_key(frame: Frame, node: ast.expr) -> Any:
    key = evaluate(frame, node)
    if isinstance(key, Value):
        raise frame.cx.type_error(
            f"a dict key must be known at compile time, got {frame.cx.describe(key)}"
        )
    return key


@expression(ast.BinOp)
def _binop(frame: Frame, node: ast.BinOp) -> Any:
    lhs = evaluate(frame, node.left)
    return binary(frame, BINARY[type(node.op)], lhs, evaluate(frame, node.right))


def binary(frame: Frame, kind: str, lhs: Any, rhs: Any) -> Any:
    if isinstance(lhs, str) and kind == "mod" and _has_value(rhs):
        raise frame.cx.type_error(
            "`%` formatting of a run-time value", hint='write an f-string: f"... {x}"'
        )
    result = frame.cx.binary(kind, lhs, rhs)
    return frame.cx.made(result) if isinstance(result, list) else result


def _has_value(x: Any) -> bool:
    return isinstance(x, Value) or (isinstance(x, tuple) and any(map(_has_value, x)))


@expression(ast.UnaryOp)
def _unary(frame: Frame, node: ast.UnaryOp) -> Any:
    return frame.cx.unary(_UNARY[type(node.op)], evaluate(frame, node.operand))


@expression(ast.Compare)
def _compare(frame: Frame, node: ast.Compare) -> Any:
    return _comparisons(frame, evaluate(frame, node.left), node.ops, node.comparators)


def _comparisons(frame: Frame, lhs: Any, ops: list[ast.cmpop], comparators: list[ast.expr]) -> Any:
    """``a < b < c``: each operand is evaluated once, and later ones only if needed."""
    rhs = evaluate(frame, comparators[0])
    first = _one_comparison(frame, ops[0], lhs, rhs)
    if len(ops) == 1:
        return first
    return short_circuit(
        frame, True, first, lambda: _comparisons(frame, rhs, ops[1:], comparators[1:])
    )


def _one_comparison(frame: Frame, op: ast.cmpop, lhs: Any, rhs: Any) -> Any:
    cx = frame.cx
    if isinstance(op, ast.Is | ast.IsNot):
        if isinstance(lhs, Value) and isinstance(rhs, Value) and lhs is not rhs:
            raise cx.type_error("`is` between run-time values", hint="compare with ==")
        return (lhs is rhs) == isinstance(op, ast.Is)
    if isinstance(op, ast.In | ast.NotIn):
        found = subscripts.contains(cx, rhs, lhs)
        return found if isinstance(op, ast.In) else cx.unary("not", found)
    return cx.compare(_COMPARE[type(op)], lhs, rhs)


@expression(ast.BoolOp)
def _boolop(frame: Frame, node: ast.BoolOp) -> Any:
    return _bool_chain(frame, isinstance(node.op, ast.And), node.values)


def _bool_chain(frame: Frame, is_and: bool, nodes: list[ast.expr]) -> Any:
    first = evaluate(frame, nodes[0])
    if len(nodes) == 1:
        return first
    return short_circuit(frame, is_and, first, lambda: _bool_chain(frame, is_and, nodes[1:]))


def short_circuit(frame: Frame, is_and: bool, first: Any, rest: Callable[[], Any]) -> Any:
    """``first and rest()`` or ``first or rest()``: the value of the operand that decides."""
    cx = frame.cx
    truth = cx.truth(first)
    if isinstance(truth, bool):
        return rest() if truth == is_and else first
    start = State.capture(frame)
    way = trace_way(frame, start, lambda: (Outcome.FALL, rest()))
    both_bool = dtype_of(first) == dtypes.bool_ and (
        isinstance(way.result, bool) or dtype_of(way.result) == dtypes.bool_
    )
    quiet = not changed_slots([start, way.state], None, len(start.heap))
    if both_bool and quiet and speculatable(way.block):
        cx.splice(way.block)
        if isinstance(way.result, bool):
            # `x and True` is x, `x and False` is False, likewise for `or`.
            return first if way.result == is_and else way.result
        return cx.emit(Binary("and" if is_and else "or", first, way.result))
    other = trace_way(frame, start, lambda: (Outcome.FALL, first))
    ways = (way, other) if is_and else (other, way)
    return meet(frame, start, truth, ways, None, select=True)


@expression(ast.IfExp)
def _ternary(frame: Frame, node: ast.IfExp) -> Any:
    truth = frame.cx.truth(evaluate(frame, node.test))
    if isinstance(truth, bool):
        return evaluate(frame, node.body if truth else node.orelse)
    return choose(
        frame.cx,
        frame,
        truth,
        lambda: evaluate(frame, node.body),
        lambda: evaluate(frame, node.orelse),
    )


@expression(ast.NamedExpr)
def _walrus(frame: Frame, node: ast.NamedExpr) -> Any:
    value = evaluate(frame, node.value)
    if isinstance(value, Value) and not value.name:
        value.name = node.target.id
    frame.owner.assign(node.target.id, value)
    return value


@expression(ast.Lambda)
def _lambda(frame: Frame, node: ast.Lambda) -> Any:
    return NestedFunction.define(frame, node, evaluate)


@expression(ast.Call)
def _call(frame: Frame, node: ast.Call) -> Any:
    callee = evaluate(frame, node.func)
    args = items(frame, node.args)
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        value = evaluate(frame, keyword.value)
        given = {keyword.arg: value} if keyword.arg else calls.keywords_of(frame.cx, value)
        for name, item in given.items():
            if name in kwargs:
                raise frame.cx.type_error(f"the argument {name!r} is given twice")
            kwargs[name] = item
    return calls.call(frame.cx, callee, args, kwargs)


@expression(ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
def _comprehension(frame: Frame, node: Any) -> Any:
    return iteration.comprehension(frame, node, evaluate)


@expression(ast.JoinedStr)
def _fstring(frame: Frame, node: ast.JoinedStr) -> Any:
    parts: list[str | FormatPart] = []
    for item in node.values:
        if isinstance(item, ast.FormattedValue):
            parts += _format(frame, item)
        else:
            parts.append(str(evaluate(frame, item)))
    if all(isinstance(part, str) for part in parts):
        return "".join(str(part) for part in parts)
    return FormatString(tuple(parts))


def _format(frame: Frame, node: ast.FormattedValue) -> list[str | FormatPart]:
    """One ``{value!conversion:spec}``: text, or a part that the GPU formats."""
    cx = frame.cx
    value = evaluate(frame, node.value)
    spec = "" if node.format_spec is None else evaluate(frame, node.format_spec)
    if not isinstance(spec, str):
        raise cx.type_error("a format specification must be known at compile time")
    conversion = "" if node.conversion == -1 else chr(node.conversion)
    if isinstance(value, Value):
        return [FormatPart(value, conversion, spec)]
    if isinstance(value, FormatString):
        if spec or conversion:
            raise cx.type_error("a format specification for an f-string with run-time parts")
        return list(value.parts)
    conversions: dict[str, Callable[[Any], Any]] = {"s": str, "r": repr, "a": ascii}
    try:
        text = conversions[conversion](value) if conversion else value
        return [format(text, spec)]
    except (TypeError, ValueError) as error:
        raise cx.type_error(f"cannot format {cx.describe(value)}: {error}") from None
