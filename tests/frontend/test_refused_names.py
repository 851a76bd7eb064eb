"""Variables without a value or with two types, and roles, each with the whole report."""

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
def unknown_name(n):
    """NameNotFound: name 'number_of_row' is not defined
    at: number_of_row
    hint: did you mean number_of_rows?"""
    number_of_rows = n
    x = number_of_row + 1  # noqa: F821


@refused(n=INT)
def read_before_assignment(n):
    """NameNotFound: 'y' is read before it is assigned
    at: y
    note: it is assigned here
    at: y"""
    x = y + 1  # noqa: F821
    y = n


@refused(n=INT, out=OUT)
def assigned_on_one_path(n, out):
    """NameNotFound: 'x' may have no value here: it is assigned on one path only
    at: x
    note: it is assigned here
    at: x
    note: only if this condition is true
    at: n > 0
    hint: assign 'x' before the branch, or on both paths"""
    if n > 0:
        x = 1
    out[0] = x


@refused(n=INT, out=OUT)
def assigned_in_a_loop(n, out):
    """NameNotFound: 'x' may have no value here: it is assigned in a loop only
    at: x
    note: it is assigned here
    at: x
    note: in this loop, which may run zero times
    at: i
    hint: assign 'x' before the loop"""
    for i in range(n):
        x = i
    out[0] = x


@refused(n=INT, out=OUT)
def loop_variable_after_the_loop(n, out):
    """NameNotFound: 'i' may have no value here: it is assigned in a loop only
    at: i
    note: it is assigned here
    at: i
    note: in this loop, which may run zero times
    at: i
    hint: assign 'i' before the loop"""
    for i in range(n):
        pass
    out[0] = i


@refused(n=INT, out=OUT)
def two_types_on_two_paths(n, out):
    """TypeMismatch: 'x' is the compile-time str 'text' on one path and a run-time int32 on the
    other
    at: x
    note: the compile-time str 'text' from here
    at: x
    note: a run-time int32 from here
    at: x
    hint: make them one type, or use two variables"""
    if n > 0:
        x = "text"
    else:
        x = n
    out[0] = x


@refused(n=INT, x=FLOAT, out=OUT)
def two_dtypes_on_two_paths(n, x, out):
    """TypeMismatch: 'y' is a run-time float32 on one path and a run-time int32 on the other
    at: y
    note: a run-time float32 from here
    at: y
    note: a run-time int32 from here
    at: y
    hint: make them one type, or use two variables"""
    if n > 0:
        y = x
    else:
        y = n
    out[0] = y


@refused(n=INT, out=OUT)
def loop_changes_the_dtype(n, out):
    """TypeMismatch: 'x' is a run-time int32 before the loop and a run-time float32 after an
    iteration
    at: x += 1.5
    note: a run-time int32 from here
    at: x
    note: a run-time float32 from here
    at: x
    hint: make them one type, or use two variables"""
    x = n
    for i in range(n):
        x += 1.5
    out[0] = x


@refused(n=INT, out=OUT)
def string_changes_in_a_loop(n, out):
    """TypeMismatch: 'mode' is the compile-time str 'a' before the loop and the compile-time str
    'ab' after an iteration
    at: mode
    note: the compile-time str 'a' from here
    at: mode
    note: the compile-time str 'ab' from here
    at: mode
    hint: make them one type, or use two variables"""
    mode = "a"
    for i in range(n):
        out[i] = len(mode)
        mode = mode + "b"


@refused(n=INT, out=OUT)
def list_grows_in_a_loop(n, out):
    """TypeMismatch: the list 'xs' is a list of length 0 before the loop and a list of length 1
    after an iteration
    at: i
    hint: a list or dict can grow where the code is unrolled, such as td.static_range"""
    xs = []
    for i in range(n):
        xs.append(i)
    out[0] = xs[0]


@refused(out=OUT)
def variable_of_a_role(out):
    """NameNotFound: 'x' was assigned in role 'one': what a role assigns is its own
    at: x
    note: the role assigns it here
    at: x
    hint: compute it before the roles; roles hand data to each other through pipelines"""
    with td.role("one", warps=1):
        x = 1
    with td.role("two", warps=1):
        out[0] = x


@refused(n=INT, out=OUT)
def role_in_a_branch(n, out):
    """SyntaxNotSupported: a role must stand at the top of the kernel, in no run-time loop,
    branch or function
    at: td.role("one", warps=1)
    hint: write the loop or the condition inside of the role"""
    if n > 0:
        with td.role("one", warps=1):
            out[0] = 1


@refused(n=INT, out=OUT)
def role_in_a_role(n, out):
    """SyntaxNotSupported: a role inside of role 'one'
    at: td.role("two", warps=1)
    note: the outer role begins here
    at: td.role("one", warps=1)
    hint: write the roles one behind the other"""
    with td.role("one", warps=1):
        with td.role("two", warps=1):
            out[0] = 1


@refused(n=INT, out=OUT)
def store_after_a_role(n, out):
    """SyntaxNotSupported: tensor.store after a role: code outside of roles must come before the
    first role
    at: out[1]
    hint: move it before the roles, or into the role that needs it"""
    with td.role("one", warps=1):
        out[0] = 1
    out[1] = 2


@refused(n=INT)
def with_of_a_number(n):
    """TypeMismatch: a run-time int32 cannot be used in a with statement
    at: n
    hint: with takes roles, views of pipelines and their stages"""
    with n as x:
        pass


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
