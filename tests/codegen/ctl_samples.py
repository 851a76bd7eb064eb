"""Kernels of one thread that exercise control flow, each with a Python function that says the same.

A kernel reads three int32 scalars and writes what it computes to ``out``, an int64 vector, one
element at a time through ``emit``; the Python function returns the list of these elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.codegen.ir_samples import I32, Sketch
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Block, Level, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, control, protocol, tile

Arguments = tuple[int, int, int]

END = -77777  # written behind the last element


@dataclass(frozen=True)
class Sample:
    """A kernel, what it means in Python, and arguments to try."""

    kernel: Kernel
    python: Callable[[int, int, int], list[int]]
    arguments: list[Arguments]


class Program(Sketch):
    """A sketch with parameters p, q, r and an output position kept in a variable."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.p, self.q, self.r = (self.scalar(n, I32) for n in "pqr")
        self.out = self.tensor("out", dtypes.int64, 1)
        self.zero = self.const(0)
        self.count = self.value(protocol.LocalNew(self.zero, "count"))

    def emit(self, value: Value) -> None:
        at = self.value(protocol.LocalGet(self.count))
        wide = self.value(arith.Cast(value, dtypes.int64))
        self.add(tile.TensorStore(wide, self.out, (at,)))
        self.add(protocol.LocalSet(self.count, self.op("add", at, 1)))

    def variable(self, init: Value) -> Value:
        return self.value(protocol.LocalNew(init, "v"))

    def done(self) -> Kernel:
        self.emit(self.const(END))
        # Variables belong to the protocol level, the rest to the tile level.
        return self.kernel(warps=1, level=Level.MIXED)


def _range_kernel(dtype: dtypes.DType, step: int | None) -> Kernel:
    """for i in range(p, q, r or a constant): emit(i), at most 50 times."""
    s = Program(f"range_{dtype.name}_{'r' if step is None else step % 1000}")
    to = lambda v: v if dtype == I32 else s.value(arith.Cast(v, dtype))  # noqa: E731
    p, q = to(s.p), to(s.q)
    r = to(s.r) if step is None else s.const(step, dtype)
    body = Block()
    i = body.add_arg(p.type, s.loc, "i")
    with s.inside(body):
        s.emit(i)
        full = s.compare("ge", s.value(protocol.LocalGet(s.count)), 50)
        s.branch(full, lambda: s.add(control.Break(())))
        s.add(control.Continue(()))
    s.add(control.For(p, q, r, (), body))
    return s.done()


def _nested() -> Kernel:
    """Carried values, break and continue from inner ifs, a scope left from inside two loops."""
    s = Program("nested")

    def outer(i: Value, total: Value) -> tuple[Value]:
        scope = Block()
        with s.inside(scope):

            def inner(j: Value, acc: Value) -> tuple[Value]:
                product = s.op("mul", i, j)
                small = s.compare("eq", s.op("mod", product, 7), 3)
                s.branch(small, lambda: s.add(control.Continue((s.op("add", acc, 1000),))))
                big = s.compare("gt", product, s.r)
                s.branch(big, lambda: s.add(control.Leave((s.op("sub", acc, product),))))
                late = s.compare("gt", j, 8)
                s.branch(late, lambda: s.add(control.Break((s.op("mul", acc, 2),))))
                return (s.op("add", acc, product),)

            (acc,) = s.loop(0, s.q, 1, inner, [total], name="j")
            s.emit(acc)
            s.add(control.Leave((s.op("add", acc, 5),)))
        left = s.add(control.Scope((total.type,), scope)).results[0]
        s.emit(left)
        return (left,)

    (total,) = s.loop(0, s.p, 1, outer, [s.r], name="i")
    s.emit(total)
    return s.done()


def _nested_python(p: int, q: int, r: int) -> list[int]:
    out: list[int] = []
    total = r

    def scope(i: int, acc: int) -> int:
        for j in range(q):
            product = i * j
            if product % 7 == 3:
                acc += 1000
                continue
            if product > r:
                return acc - product
            if j > 8:
                acc *= 2
                break
            acc += product
        out.append(acc)
        return acc + 5

    for i in range(p):
        total = scope(i, total)
        out.append(total)
    return [*out, total]


def _while() -> Kernel:
    """Collatz from p: a loop whose if yields a value, ended by break, with two carried values."""
    s = Program("collatz")
    body = Block()
    n = body.add_arg(s.p.type, s.loc, "n")
    steps = body.add_arg(s.p.type, s.loc, "steps")
    with s.inside(body):
        stop = s.op("or", s.value(arith.Cast(s.compare("le", n, 1), I32)),
                    s.value(arith.Cast(s.compare("ge", steps, 200), I32)))  # fmt: skip
        s.branch(s.compare("ne", stop, 0), lambda: s.add(control.Break((n, steps))))
        s.emit(n)
        then, orelse = Block(), Block()
        with s.inside(then):
            s.add(control.Yield((s.op("floordiv", n, 2),)))
        with s.inside(orelse):
            s.add(control.Yield((s.op("add", s.op("mul", n, 3), 1),)))
        even = s.compare("eq", s.op("mod", n, 2), 0)
        (following,) = s.add(control.If(even, (n.type,), then, orelse)).results
        s.add(control.Continue((following, s.op("add", steps, 1))))
    n_end, steps_end = s.add(control.Loop((s.p, s.zero), body)).results
    s.emit(n_end)
    s.emit(steps_end)
    return s.done()


def _collatz_python(p: int, q: int, r: int) -> list[int]:
    out, n, steps = [], p, 0
    while not (n <= 1 or steps >= 200):
        out.append(n)
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return [*out, n, steps]


def _returns() -> Kernel:
    """Return from inside an if inside a loop; both sides of another if end on their own."""
    s = Program("returns")

    def body(i: Value) -> tuple[()]:
        s.emit(i)

        def stop() -> None:
            s.emit(s.const(-1))
            s.add(control.Return())

        s.branch(s.compare("eq", i, s.q), stop)
        s.branch(
            s.compare("gt", i, s.r),
            lambda: s.add(control.Break(())),
            lambda: s.add(control.Continue(())),
        )
        return ()

    s.loop(0, s.p, 1, body)
    s.emit(s.const(-2))
    return s.done()


def _returns_python(p: int, q: int, r: int) -> list[int]:
    out = []
    for i in range(p):
        out.append(i)
        if i == q:
            return [*out, -1]
        if i > r:
            break
    return [*out, -2]


def _range_python(step: int | None) -> Callable[[int, int, int], list[int]]:
    def run(p: int, q: int, r: int) -> list[int]:
        by = r if step is None else step
        return list(range(p, q, by)[:50]) if by else []

    return run


BIG = 2**31 - 1


def samples() -> dict[str, Sample]:
    """Kernels by name, with their Python function and the arguments to try."""
    ranges = [
        (0, 5, 2), (5, 0, 2), (0, 0, 1), (5, -6, -3), (-6, 5, -3), (3, 40, 7), (10, 3, -1),
        (BIG - 5, BIG, 3), (-BIG, -BIG - 1, -1), (-BIG + 2, -BIG - 1, -2), (0, BIG, BIG),
        (-BIG - 1, BIG, BIG), (0, 9, 0), (BIG - 3, BIG, 100), (-5, 5, 1),
    ]  # fmt: skip
    unsigned = [(0, 5, 2), (5, 0, 2), (BIG - 5, BIG, 3), (0, BIG, BIG), (4, 9, 0), (3, 4, BIG)]
    small = [(0, 0, 0), (1, 5, 9), (4, 12, 30), (7, 20, 1000), (9, 3, -5), (12, 30, 17)]
    found: dict[str, Sample] = {}

    def add(kernel: Kernel, python: Any, arguments: list[Arguments]) -> None:
        found[kernel.name] = Sample(kernel, python, arguments)

    for step in (None, 1, -1, 2, -3, BIG, -BIG, 0):
        add(_range_kernel(I32, step), _range_python(step), ranges)
    add(_range_kernel(dtypes.int64, None), _range_python(None), ranges)
    for dtype in (dtypes.uint32, dtypes.uint64):
        add(_range_kernel(dtype, None), _range_python(None), unsigned)
        add(_range_kernel(dtype, 3), _range_python(3), unsigned)
    add(_nested(), _nested_python, small)
    add(_while(), _collatz_python, [(27, 0, 0), (1, 0, 0), (97, 0, 0), (0, 0, 0), (6, 0, 0)])
    add(_returns(), _returns_python, [(0, 0, 0), (9, 3, 5), (9, 20, 5), (9, 20, 20), (9, 6, 5)])
    return found
