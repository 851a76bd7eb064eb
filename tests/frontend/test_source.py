"""Where functions come from, and where messages point."""

from __future__ import annotations

import ast
import linecache
from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tests.frontend.evaluate import run, trace
from tests.frontend.programs import define
from tiledsl.errors import Loc, SyntaxNotSupported, TypeMismatch
from tiledsl.frontend.source import source_of

OUT = np.zeros(4, np.int32)


def text_at(loc: Loc) -> str:
    return linecache.getline(loc.file, loc.line)[loc.col : loc.end_col]


def test_operations_have_the_lines_of_their_expressions() -> None:
    def kernel(out, a):
        b = a * 3
        if b > 5:
            out[0] = (a
                      + b)  # fmt: skip

    ops = list(trace(kernel, out=OUT, a=1).body.walk())
    texts = {op.opcode: text_at(op.loc) for op in ops}
    assert texts["arith"].strip() in ("a * 3", "(a", "a")
    assert texts["compare"] == "b > 5"
    first = kernel.__code__.co_firstlineno
    assert [op.loc.line - first for op in ops if op.opcode == "arith"] == [1, 3]
    assert all(op.loc.function == "kernel" for op in ops)


def test_inlined_operations_know_where_they_were_called_from() -> None:
    @td.function
    def inner(x):
        return x * 7

    def outer(x):
        return inner(x + 1)

    def kernel(out, a):
        out[0] = outer(a)

    product = next(
        op for op in trace(kernel, out=OUT, a=1).body.walk() if getattr(op, "kind", "") == "mul"
    )
    chain = []
    loc: Loc | None = product.loc
    while loc is not None:
        chain.append((loc.function, text_at(loc)))
        loc = loc.call_site
    assert chain == [("inner", "x * 7"), ("outer", "inner(x + 1)"), ("kernel", "outer(a)")]


def test_columns_are_characters() -> None:
    def kernel(out, a):
        out[0] = (len("äöü"), a + "é")[1]

    with pytest.raises(TypeMismatch) as caught:
        trace(kernel, out=OUT, a=1)
    assert caught.value.loc is not None
    assert text_at(caught.value.loc) == 'a + "é"'


def test_nested_and_decorated_functions_and_methods_are_found() -> None:
    def keep(function: Any) -> Any:
        return function

    class Box:
        @keep
        @keep
        def method(self, x):
            text = """
not indented
"""
            return x + len(text)

    box = Box()

    def kernel(out, a):
        out[0] = box.method(a)

    out = np.zeros(1, np.int32)
    run(kernel, out=out, a=5)
    assert out[0] == 5 + 14


def test_lambdas_of_one_line_are_told_apart() -> None:
    first, second = (lambda x: x + 1), (lambda x: x * 2)
    nested = lambda x: (lambda y: y - x)(3)  # noqa: E731, PLC3002
    table = {"a": lambda x, y=2: x - y, "b": lambda *xs: xs[0] * 5}

    def kernel(out, a):
        out[0] = first(a)
        out[1] = second(a)
        out[2] = nested(a)
        out[3] = table["a"](a)
        out[4] = table["b"](a)

    expected, got = np.zeros(5, np.int32), np.zeros(5, np.int32)
    kernel(expected, 9)
    run(kernel, out=got, a=9)
    np.testing.assert_array_equal(got, expected)


def test_functions_without_source_are_refused() -> None:
    namespace: dict[str, Any] = {}
    exec(compile("def helper(x):\n    return x\n", "<typed in>", "exec"), namespace)
    helper = namespace["helper"]

    def kernel(out, a):
        out[0] = helper(a)

    with pytest.raises(SyntaxNotSupported) as caught:
        trace(kernel, out=OUT, a=1)
    assert caught.value.message == (
        "the source of helper is not available, so it cannot be compiled"
    )
    assert caught.value.hint == (
        "define it in a file or in a notebook cell without a magic such as %%time, not"
        " through exec or at the prompt"
    )


def test_changed_source_is_refused() -> None:
    kernel = define("def kernel(out, a):\n    out[0] = a\n")
    file = kernel.__code__.co_filename
    linecache.cache[file] = (9, None, ["def other(out, a):\n", "    pass\n"], file)
    with pytest.raises(SyntaxNotSupported, match="has changed since it was loaded"):
        trace(kernel, out=OUT, a=1)


def test_a_source_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = define("def kernel(out, a):\n    out[0] = a\n")
    source_of(kernel)
    monkeypatch.setattr(ast, "parse", None)
    assert source_of(kernel) is source_of(kernel)


def test_function_runs_as_python_outside_of_kernels() -> None:
    class Box:
        scale = 3

        @td.function
        def scaled(self, x: int) -> int:
            """The docstring."""
            return x * self.scale

    assert Box().scaled(5) == 15
    assert Box.scaled(Box(), 4) == 12
    assert Box.scaled.__doc__ == "The docstring."
    assert Box.scaled.__name__ == "scaled"

    box = Box()

    def kernel(out, a):
        out[0] = box.scaled(a)

    out = np.zeros(1, np.int32)
    run(kernel, out=out, a=7)
    assert out[0] == 21
