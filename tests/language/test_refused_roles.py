"""Misuse of replicas and turns, each with its whole report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiledsl as td
from tests.language.traced import Refused, one_line, report

cases: list[Any] = []
refused = Refused(cases)

INT = td.int32


# ------------------------------------------------------------------------------------ roles


@refused()
def no_replicas():
    """InvalidValue: td.role: replicas: expected at least 1, got 0
    at: td.role("one", warps=1, replicas=0)"""
    with td.role("one", warps=1, replicas=0):
        pass


@refused(n=INT)
def replicas_of_run_time(n):
    """TypeMismatch: td.role: replicas: expected an int known at compile time, got a run-time int32
    at: td.role("one", warps=1, replicas=n)
    hint: use a literal, or a kernel parameter annotated td.Constant[int]"""
    with td.role("one", warps=1, replicas=n):
        pass


@refused()
def replicas_beyond_a_block():
    """InvalidValue: td.role: 3 replicas of 12 warps are 36 warps: expected at most 32, the warps
    of a block
    at: td.role("one", warps=12, replicas=3)
    hint: use at most 2 replicas of 12 warps"""
    with td.role("one", warps=12, replicas=3):
        pass


@refused()
def role_named_as_a_replica():
    """InvalidValue: td.role: expected a name of its own for each role, got 'mma.1' twice
    at: td.role("mma.1", warps=4)
    note: the first role of this name at: td.role("mma", warps=4, replicas=2)
    hint: give one of the two another name"""
    with td.role("mma", warps=4, replicas=2):
        pass
    with td.role("mma.1", warps=4):
        pass


@refused()
def unknown_attribute_of_me():
    """TypeMismatch: a role has no attribute 'number'
    at: me.number
    hint: it has: count, index, name, threads, turn, warps"""
    with td.role("one", warps=1) as me:
        me.number


@refused()
def turn_of_the_role_itself():
    """TypeMismatch: turn: expected the role seen from inside
    at: role.turn
    hint: write `with td.role(...) as me:` and me.turn"""
    role = td.role("one", warps=1)
    with role, role.turn():
        pass


@refused()
def me_behind_the_role():
    """NameNotFound: 'me' was assigned in role 'one': what a role assigns is its own
    at: me
    note: the role assigns it here at: me
    hint: compute it before the roles; roles hand data to each other through pipelines"""
    with td.role("one", warps=1) as me:
        pass
    with td.role("two", warps=1):
        me.index


@td.function
def takes_a_turn(me):
    with me.turn():
        pass


@refused()
def turn_in_a_turn():
    """SyntaxNotSupported: turn 'turn' inside of turn 'turn': a replica would wait for itself
    at: me.turn()
    note: the outer turn begins here at: me.turn()
    hint: leave the inner one out, or give it another name"""
    with td.role("one", warps=4, replicas=2) as me:
        with me.turn():
            takes_a_turn(me)


@refused()
def turn_in_itself_by_one_statement():
    """SyntaxNotSupported: turn 'a' inside of turn 'a': a replica would wait for itself
    at: me.turn("a")
    note: the outer turn begins here at: me.turn("a")
    hint: leave the inner one out, or give it another name"""
    with td.role("one", warps=4) as me:
        with me.turn("a"), me.turn("b"), me.turn("a"):
            pass


@refused()
def turn_without_with():
    """SyntaxNotSupported: a turn does nothing by itself: expected a with statement
    at: me.turn()
    hint: write `with me.turn():`"""
    with td.role("one", warps=4, replicas=2) as me:
        me.turn()


@refused()
def turn_of_no_name():
    """InvalidValue: turn: name: expected a name, got an empty string
    at: me.turn("")"""
    with td.role("one", warps=4, replicas=2) as me:
        with me.turn(""):
            pass


@refused(n=INT)
def turn_of_a_run_time_name(n):
    """TypeMismatch: turn: name: expected a str known at compile time, got a run-time int32
    at: me.turn(n)"""
    with td.role("one", warps=4, replicas=2) as me:
        with me.turn(n):
            pass


@refused()
def role_without_with():
    """SyntaxNotSupported: a role does nothing by itself: expected a with statement
    at: td.role("one", warps=4)
    hint: write `with td.role(...):`"""
    td.role("one", warps=4)


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
