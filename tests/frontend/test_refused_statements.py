"""Statements that a kernel cannot contain, each with the whole report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiledsl as td
from tests.language.traced import Refused, one_line, report
from tiledsl.frontend.build import TensorSpec

OUT = TensorSpec(td.int32, 1)
INT = td.int32
FLOAT = td.float32
TABLE = [1, 2, 3]

cases: list[Any] = []
refused = Refused(cases)


@refused(n=INT)
def global_statement(n):
    """SyntaxNotSupported: global is not supported in a kernel
    at: global TABLE
    hint: return the value, or pass it as an argument"""
    global TABLE
    TABLE = n


@refused(n=INT)
def nonlocal_statement(n):
    """SyntaxNotSupported: nonlocal is not supported in a kernel
    at: nonlocal x
    hint: return the value and assign it where the function is called"""
    x = n

    def f():
        nonlocal x
        x = 2

    f()


@refused(n=INT)
def import_statement(n):
    """SyntaxNotSupported: import is not supported in a kernel
    at: import os
    hint: import at the top of the module"""
    import os  # noqa: F401


@refused(n=INT)
def import_from_statement(n):
    """SyntaxNotSupported: import is not supported in a kernel
    at: from os import path
    hint: import at the top of the module"""
    from os import path  # noqa: F401


@refused(n=INT)
def class_statement(n):
    """SyntaxNotSupported: class is not supported in a kernel
    at: class A:
    hint: define the class outside of the kernel"""

    class A:
        pass


@refused(n=INT)
def try_statement(n):
    """SyntaxNotSupported: try is not supported in a kernel
    at: try:
    hint: a GPU has no exceptions: test the condition with if"""
    try:
        x = n
    except ValueError:
        pass


@refused(n=INT)
def match_statement(n):
    """SyntaxNotSupported: match is not supported in a kernel
    at: match n:
    hint: write if / elif"""
    match n:
        case 1:
            pass


@refused(n=INT)
def del_statement(n):
    """SyntaxNotSupported: del is not supported in a kernel
    at: del x
    hint: leave the variable alone, or assign None"""
    x = n
    del x


@refused(out=OUT)
def yield_expression(out):
    """SyntaxNotSupported: yield is not supported in a kernel
    at: yield 1
    hint: build a tuple or list instead"""

    def f():
        yield 1

    f()


@refused(out=OUT)
def await_expression(out):
    """SyntaxNotSupported: async def is not supported in a kernel
    at: async def f():
    hint: write def"""

    async def f():
        await out


@refused(n=INT)
def else_of_for(n):
    """SyntaxNotSupported: else of a for loop is not supported in a kernel
    at: x = 1
    hint: set a variable before `break` and test it after the loop"""
    for i in range(n):
        pass
    else:
        x = 1


@refused(n=INT)
def else_of_while(n):
    """SyntaxNotSupported: else of a while loop is not supported in a kernel
    at: x = 1
    hint: set a variable before `break` and test it after the loop"""
    while n > 0:
        n -= 1
    else:
        x = 1


@refused(n=INT)
def assert_in_a_loop(n):
    """SyntaxNotSupported: an assert on run-time values is checked before the launch: expected it
    at the top of the kernel, outside of roles, loops and branches
    at: assert n > i, "n must be greater"
    hint: assert on shapes before the first td.role, or td.print what is wrong under an if"""
    for i in range(n):
        assert n > i, "n must be greater"


@refused(n=INT)
def assert_that_fails(n):
    """InvalidValue: assertion failed: expected 2 items, got 3
    at: assert len(TABLE) == 2, f"expected 2 items, got {len(TABLE)}"
    """
    assert len(TABLE) == 2, f"expected 2 items, got {len(TABLE)}"


@refused(n=INT)
def raise_under_run_time_condition(n):
    """SyntaxNotSupported: raise under a run-time condition is not supported in a kernel
    at: raise ValueError("negative")
    note: the condition is here
    at: n < 0
    hint: a GPU has no exceptions: return early, or td.print what is wrong"""
    if n < 0:
        raise ValueError("negative")


@refused(n=INT)
def raise_at_compile_time(n):
    """InvalidValue: ValueError: three items
    at: raise ValueError("three items")"""
    if len(TABLE) == 3:
        raise ValueError("three items")


@refused(n=INT)
def return_of_a_value(n):
    """SyntaxNotSupported: a kernel returns nothing, got a run-time int32
    at: return n
    hint: store the result in a tensor: out[i] = x, or td.tma_store"""
    return n


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
