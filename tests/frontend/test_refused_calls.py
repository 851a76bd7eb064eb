"""Calls that a kernel cannot make, each with the whole report."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

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


@td.function
def clamp(x, low=-3, *, high=5):
    return low if x < low else high if x > high else x


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class Vec:
    x: Any
    y: Any = 1


class Mode(enum.Enum):
    SLOW = 1
    FAST = 2


@refused(n=INT)
def print_builtin(n):
    """TypeMismatch: print is not supported in a kernel
    at: print(n)
    hint: write td.print(...), which prints from the GPU"""
    print(n)


@refused(n=INT)
def math_of_run_time(n):
    """TypeMismatch: sqrt is run by Python while the kernel is compiled: expected compile-time
    arguments, got a run-time int32
    at: math.sqrt(n)
    hint: td.sqrt works on run-time floats and on tiles"""
    x = math.sqrt(n)


@refused(n=INT)
def factorial_of_run_time(n):
    """TypeMismatch: factorial is run by Python while the kernel is compiled: expected
    compile-time arguments, got a run-time int32
    at: math.factorial(n)
    hint: call factorial outside of the kernel, or write it as a td.function"""
    x = math.factorial(n)


@refused(n=INT)
def missing_argument(n):
    """TypeMismatch: clamp: missing a required argument: 'x'
    at: clamp()
    hint: its signature is clamp(x, low=-3, *, high=5)"""
    x = clamp()


@refused(n=INT)
def unexpected_keyword(n):
    """TypeMismatch: clamp: got an unexpected keyword argument 'hihg'
    at: clamp(n, hihg=3)
    hint: its signature is clamp(x, low=-3, *, high=5)"""
    x = clamp(n, hihg=3)


@refused(n=INT)
def endless_recursion(n):
    """SyntaxNotSupported: f: calls are nested deeper than 48
    at: f(x + 1)
    hint: end a recursion by a condition that is known at compile time, or write a loop"""

    def f(x):
        return f(x + 1)

    f(n)


@refused(n=INT)
def recursion_on_run_time(n):
    """SyntaxNotSupported: fac: calls are nested deeper than 48
    at: fac(x - 1)
    hint: end a recursion by a condition that is known at compile time, or write a loop"""

    def fac(x):
        return 1 if x == 0 else x * fac(x - 1)

    fac(n)


@refused(n=INT)
def call_of_a_number(n):
    """TypeMismatch: a run-time int32 cannot be called
    at: n(3)"""
    n(3)


@refused(n=INT)
def dataclass_without_field(n):
    """TypeMismatch: Vec: missing a required argument: 'x'
    at: Vec()"""
    v = Vec()


@refused(n=INT)
def frozen_dataclass(n):
    """TypeMismatch: cannot assign attribute 'x' of a Vec object: its dataclass is frozen
    at: v.x"""
    v = Vec(n)
    v.x = 3


@refused(n=INT)
def error_inside_of_a_function(n):
    """TypeMismatch: `+` does not exist for a run-time int32 and the compile-time str 'text'
    at: x + "text"
    """

    def f(x):
        return x + "text"

    y = f(n)


@refused(n=INT)
def native_that_raises(n):
    """InvalidValue: sqrt: ValueError: math domain error
    at: math.sqrt(-1)"""
    x = math.sqrt(-1)


@td.kernel
def other(n):
    pass


@refused(n=INT)
def kernel_in_a_kernel(n):
    """TypeMismatch: other cannot be called in a kernel
    at: other(n)
    hint: a kernel calls functions, not kernels"""
    other(n)


@refused(n=INT)
def what_is_for_the_host(n):
    """TypeMismatch: spec cannot be called in a kernel
    at: td.spec((n, 1), td.float32)"""
    td.spec((n, 1), td.float32)


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
