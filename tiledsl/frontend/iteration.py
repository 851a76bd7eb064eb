"""What can be iterated over: at run time a range or traced object, at compile time Python's own."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops.arith import Binary, Cast, Constant
from tiledsl.codegen.ir.ops.tile import BlockCount, TensorDim
from tiledsl.frontend.arithmetic import dtype_of, natural_dtype, python_number, scalar
from tiledsl.frontend.objects import FormatString, Iteration, TracedObject
from tiledsl.frontend.scope import Frame

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

Evaluate = Callable[[Frame, ast.expr], Any]
MOST_UNROLLED = 4096  # iterations of a loop over compile-time values


@dataclass(frozen=True, eq=False)
class RuntimeRange(TracedObject):
    """``range(...)`` with a bound that is only known at run time."""

    start: Value
    stop: Value
    step: Value

    kind = "run-time range"

    def iterate(self, cx: Context) -> Iteration:
        return Iteration(self.start, self.stop, self.step, lambda cx, counter: counter)

    def flatten(self) -> tuple[list[Value], Any]:
        return [self.start, self.stop, self.step], "range"

    def unflatten(self, values: list[Value]) -> TracedObject:
        return RuntimeRange(*values)


def make_range(cx: Context, *bounds: Any) -> Any:
    """``range(...)``: Python's own at compile time, else a ``RuntimeRange``."""
    if not 1 <= len(bounds) <= 3:
        raise cx.type_error(f"range: expected 1 to 3 arguments, got {len(bounds)}")
    for bound in bounds:
        dtype = dtype_of(bound)
        number = python_number(bound)
        if not (dtype is not None and dtype.is_integer) and not isinstance(number, int):
            raise cx.type_error(f"range: expected integers, got {cx.describe(bound)}")
    start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    if step == 0 and not isinstance(step, Value):
        raise cx.value_error("range: the step must not be zero")
    if not any(isinstance(bound, Value) for bound in bounds):
        return range(int(start), int(stop), int(step))
    if isinstance(step, Value) and not known_positive(step):
        raise cx.value_error(
            "range: a run-time step must be known to be positive",
            hint="write range(start, stop, max(step, 1)), or count down with a compile-time step",
        )
    dtype = counter_dtype(cx, start, stop, step)
    return RuntimeRange(*(scalar(cx, bound, dtype) for bound in (start, stop, step)))


def counter_dtype(cx: Context, *bounds: Any) -> DType:
    """The dtype of a loop's counter: int32, or wider where a bound needs it."""
    found: DType = dtypes.int32
    values = [b for b in bounds if isinstance(b, Value)]
    if values and all(dtype_of(b) == dtypes.uint32 for b in values):
        numbers = [b for b in bounds if not isinstance(b, Value)]
        if all(0 <= n <= dtypes.int_range(dtypes.uint32)[1] for n in numbers):
            return dtypes.uint32
    for bound in bounds:
        dtype = dtype_of(bound) or natural_dtype(int(bound))
        joined = dtypes.promote(found, dtype) if dtype is not None else None
        if joined is None:
            raise cx.type_error(f"range: {cx.describe(bound)} does not fit a 64-bit counter")
        found = joined
    return found


def known_positive(value: Value) -> bool:
    """Whether a run-time integer is greater than zero, whatever the kernel's arguments."""
    op = value.owner
    match op:
        case Constant(value=number):
            return number > 0
        case BlockCount():
            return True
        case Cast(value=inner, dtype=dtype):
            source = dtype_of(inner)
            wider = source is not None and dtype.is_integer and source.is_integer
            return wider and dtype.bits >= source.bits and known_positive(inner)  # type: ignore[union-attr]
        case Binary(kind="max", lhs=lhs, rhs=rhs):
            return known_positive(lhs) or known_positive(rhs)
        case Binary(kind="min" | "mul", lhs=lhs, rhs=rhs):
            return known_positive(lhs) and known_positive(rhs)
        case Binary(kind="add", lhs=lhs, rhs=rhs):
            return (known_positive(lhs) and _not_negative(rhs)) or (
                _not_negative(lhs) and known_positive(rhs)
            )
    return False


def _not_negative(value: Value) -> bool:
    op = value.owner
    if isinstance(op, Constant):
        return op.value >= 0
    return isinstance(op, TensorDim) or known_positive(value)


def elements(cx: Context, x: Any, purpose: str) -> list[Any]:
    """The items of a compile-time iterable."""
    if isinstance(x, Value | FormatString) or python_number(x) is not None or x is None:
        raise cx.type_error(f"expected a sequence {purpose}, got {cx.describe(x)}")
    if isinstance(x, TracedObject):
        raise cx.type_error(
            f"expected a compile-time sequence {purpose}, got {cx.describe(x)}",
            hint="loop over it with a for statement" if isinstance(x, RuntimeRange) else None,
        )
    try:
        iterator = iter(x)
    except TypeError:
        raise cx.type_error(f"expected a sequence {purpose}, got {cx.describe(x)}") from None
    found: list[Any] = []
    for item in iterator:
        found.append(item)
        if len(found) > MOST_UNROLLED:
            raise cx.value_error(
                f"more than {MOST_UNROLLED} compile-time items {purpose}",
                hint="loop over range(...), which runs at run time",
            )
    return found


def comprehension(frame: Frame, node: Any, evaluate: Evaluate) -> Any:
    """A list, set, dict or generator expression over compile-time iterables: unrolled."""
    cx = frame.cx
    inner = Frame(cx, frame.source, kind="comprehension", parent=frame, call_site=frame.call_site)
    found: list[Any] = []

    def run(generators: list[ast.comprehension]) -> None:
        if not generators:
            if isinstance(node, ast.DictComp):
                found.append((evaluate(inner, node.key), evaluate(inner, node.value)))
            else:
                found.append(evaluate(inner, node.elt))
            return
        generator, *rest = generators
        if generator.is_async:
            raise cx.syntax_error("async is not supported in a kernel")
        # The first iterable is evaluated outside of the comprehension, as in Python.
        where = frame if generator is node.generators[0] else inner
        iterable = evaluate(where, generator.iter)
        for item in elements(cx, iterable, "for a comprehension"):
            assign_names(inner, generator.target, item)
            if all(_holds(inner, test, evaluate) for test in generator.ifs):
                run(rest)

    run(node.generators)
    if isinstance(node, ast.DictComp):
        if any(isinstance(key, Value) for key, _ in found):
            raise cx.type_error("a dict key must be known at compile time")
        return cx.made(dict(found))
    if isinstance(node, ast.ListComp):
        return cx.made(found)
    if isinstance(node, ast.SetComp):
        if any(isinstance(x, Value) for x in found):
            raise cx.type_error("a set of run-time values", hint="use a list")
        return frozenset(found)
    return tuple(found)


def _holds(frame: Frame, test: ast.expr, evaluate: Evaluate) -> bool:
    truth = frame.cx.truth(evaluate(frame, test))
    if isinstance(truth, bool):
        return truth
    with frame.at(frame.source.loc(test, frame.call_site)):
        raise frame.cx.syntax_error(
            "the condition of a comprehension must be known at compile time"
        )


def assign_names(frame: Frame, target: ast.expr, value: Any) -> None:
    """Bind the names of a target (also nested and starred) to a value."""
    cx = frame.cx
    if isinstance(target, ast.Name):
        if isinstance(value, Value) and not value.name:
            value.name = target.id
        with frame.at(frame.source.loc(target, frame.call_site)):
            frame.assign(target.id, value)
        return
    if not isinstance(target, ast.Tuple | ast.List):
        raise cx.syntax_error("this target is not supported here", hint="use a name")
    for inner, item in unpack(frame, target, value):
        assign_names(frame, inner, item)


def unpack(frame: Frame, target: ast.Tuple | ast.List, value: Any) -> list[tuple[ast.expr, Any]]:
    """Pair the targets of ``a, *b, c = value`` with their values."""
    cx = frame.cx
    with frame.at(frame.source.loc(target, frame.call_site)):
        given = elements(cx, value, f"of {len(target.elts)} values to unpack")
        stars = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
        wanted = len(target.elts) - len(stars)
        if len(given) < wanted or (not stars and len(given) > wanted):
            least = "at least " if stars else ""
            raise cx.value_error(f"expected {least}{wanted} values to unpack, got {len(given)}")
    if not stars:
        return list(zip(target.elts, given, strict=True))
    star = stars[0]
    after = len(target.elts) - star - 1
    middle = cx.made(given[star : len(given) - after])
    starred = target.elts[star]
    assert isinstance(starred, ast.Starred)
    return [
        *zip(target.elts[:star], given[:star], strict=True),
        (starred.value, middle),
        *zip(target.elts[star + 1 :], given[len(given) - after :], strict=True),
    ]
