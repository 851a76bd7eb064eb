"""PTX that the parser refuses: what it says, and that it says so."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ptx_machine.test_parser import HEADER, body
from tiledsl.runtime.ptx_machine.errors import DecodeError
from tiledsl.runtime.ptx_machine.parser import parse


def refused(text: str) -> str:
    with pytest.raises(DecodeError) as caught:
        body(text)
    return str(caught.value)


def refused_module(text: str) -> str:
    with pytest.raises(DecodeError) as caught:
        parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "add.s32 %r1, %r2, %r99;",
            "PTX line 5: there is no register %r99\n    add.s32 %r1, %r2, %r99;",
        ),
        ("\n@%q1 ret;", "PTX line 6: there is no register %q1\n    @%q1 ret;"),
        ("add.s32 %r1,, %r2;", "PTX line 5: an operand is missing\n    add.s32 %r1,, %r2;"),
        ("add.s32 %r1, %r2,;", "PTX line 5: an operand is missing\n    add.s32 %r1, %r2,;"),
        (
            "ld.b32 %r1, [%rd1;",
            "PTX line 5: brackets do not match\n    ld.b32 %r1, [%rd1;",
        ),
        (
            "mov.b32 %r1, 08;",
            "PTX line 5: 08 is no octal number\n    mov.b32 %r1, 08;",
        ),
        (
            "mov.b32 %r1, %r2+4;",
            "PTX line 5: '%r2+4' is no operand: displacements stand in brackets\n"
            "    mov.b32 %r1, %r2+4;",
        ),
        (
            "mov.b32 %r1, 1/0;",
            "PTX line 5: '1/0' is no operand: a constant expression divides by zero\n"
            "    mov.b32 %r1, 1/0;",
        ),
        ("L: ret;\nL: ret;", "PTX line 6: label L is there twice"),
        (".reg .b32 %r1;", "PTX line 5: register %r1 is there twice"),
        (".reg .b33 a;", "PTX line 5: expected .reg with a type and names"),
        (".local .b32 x; .local .b32 x;", "PTX line 5: variable x is there twice"),
        (".wobble 3;", "PTX line 5: the machine does not know the directive .wobble"),
        ("=;", "PTX line 5: no statement: '=;'"),
        (
            "mov.b32 %r1, 1\nadd.s32 %r1, %r1, 1;",
            "PTX line 5: '1\\nadd.s32 %r1' is no operand: 'add' is not understood\n"
            "    mov.b32 %r1, 1 add.s32 %r1, %r1, 1;\nhint: a `;` may be missing",
        ),
    ],
)
def test_refused(text: str, message: str) -> None:
    assert refused(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this is no PTX: it has no .version"),
        ("ret;", "PTX line 1: expected a declaration, got 'ret'"),
        (HEADER + ".address_size 32\n", "PTX line 5: the machine has addresses of 64 bits, not 32"),
        (HEADER + ".entry k() { ret;", "PTX line 4: the body of k does not end"),
        (HEADER + ".entry k( ret;", "PTX line 4: expected .param or .reg, got 'ret'"),
        (HEADER + "/* ... \n", "PTX line 4: the comment that begins here does not end"),
        (
            HEADER + ".global .b32 x[2] = {1, 2, 3};",
            "PTX line 4: more than 2 values for an array of 2",
        ),
        (HEADER + ".global .b99 x;", "PTX line 4: expected a type, got '.b99'"),
        (HEADER + ".global .align 3 .b32 x;", "PTX line 4: an alignment is a power of two, got 3"),
        (HEADER + ".global .b32 x;\n.global .b32 x;", "PTX line 5: variable x is there twice"),
        (
            HEADER + ".entry k() { ret; }\n.entry k() { ret; }",
            "PTX line 5: function k is there twice",
        ),
        (HEADER + ".alias a, b;", "PTX line 4: there is no function b"),
        (HEADER + ".entry k() .wobble { }", "PTX line 4: expected a directive of a function or its "
         "body, got '.wobble'"),
    ],
)  # fmt: skip
def test_refused_modules(text: str, message: str) -> None:
    assert refused_module(text) == message


@given(st.text(alphabet='ab%r1.;:{}[](),|!_@"/*<>=+-0x f\n', max_size=60))
@settings(max_examples=400, deadline=None)
def test_nonsense_is_refused_or_read(text: str) -> None:
    for whole in (text, HEADER + text):
        with contextlib.suppress(DecodeError):
            parse(whole)
    with contextlib.suppress(DecodeError):
        body(text)
