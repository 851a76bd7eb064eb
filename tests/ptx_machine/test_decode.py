"""syntax -> rows: the encoder, by a small table of its own, and decode() as a whole."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tiledsl.errors import TileError
from tiledsl.runtime.ptx_machine import opcodes as col
from tiledsl.runtime.ptx_machine.encoder import Encoder
from tiledsl.runtime.ptx_machine.forms import Match, Table
from tiledsl.runtime.ptx_machine.isa import control
from tiledsl.runtime.ptx_machine.isa.control_ops import (
    ASSERT,
    BRA,
    BRX,
    CLOCK,
    EXIT,
    PRINT,
    TRAP,
)
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import DecodeError, Program, decode
from tiledsl.runtime.ptx_machine.syntax import Instruction

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; "
    ".reg .f64 %fd<9>; .reg .s32 %s<9>;"
)
TABLE = Table(col.INTEGER)
MOV, ADD, LD, ST, VOTE, MULTIPLY = range(10, 16)
TYPES = "pred b8 b16 b32 b64 u16 u32 u64 s32 s64 f16 f32 f64"


@TABLE.form("mov.type d, a", type=TYPES)
def _mov(e: Encoder, m: Match) -> None:
    kind, (d, a) = m["type"], m.operands
    e.emit(MOV, type=col.TYPE_CODES[kind], d0=e.result(d, kind), a=e.source(a, kind))


@TABLE.form("add{.rnd}{.sat}.type d, a, b", type=TYPES, rnd="rn rz")
def _add(e: Encoder, m: Match) -> None:
    kind, (d, a, b) = m["type"], m.operands
    e.emit(ADD, d0=e.result(d, kind), a=e.source(a, kind), b=e.source(b, kind), x0=m["sat"] != "")


@TABLE.form("ld.space{.vec}.type d, [a]", space="global shared local param", type=TYPES, vec="v2")
def _ld(e: Encoder, m: Match) -> None:
    base, displacement = e.address(m.operands[1])
    place, number = e.vector(m.operands[0], m["type"], result=True)
    e.emit(LD, a=base, imm=displacement, vec=place, nvec=number)


@TABLE.form("st.space{.vec}.type [a], b", space="global shared local param", type=TYPES, vec="v2")
def _st(e: Encoder, m: Match) -> None:
    base, displacement = e.address(m.operands[0])
    place, number = e.vector(m.operands[1], m["type"])
    e.emit(ST, a=base, imm=displacement, vec=place, nvec=number)


@TABLE.form("vote.ballot d{|p}, a", "vote.narrow d, [a]")
def _vote(e: Encoder, m: Match) -> None:
    if m.instruction.modifiers == ("narrow",):
        e.emit(VOTE, d0=e.result(m.operands[0], "b32"), a=e.address(m.operands[1], bits=32)[0])
        return
    d0, d1 = e.results(m.operands[0], "b32", "pred")
    register, negated = e.predicate(m.operands[1])
    e.emit(VOTE, d0=d0, d1=d1, a=register, x0=negated)


@TABLE.form("wgmma.mma_async {d}, {a}, b", "wgmma.mma_async {d}, a, b")
def _wgmma(e: Encoder, m: Match) -> None:
    place, number = e.vector(m.operands[0], "b32", result=True)
    place2, number2 = e.vector(m.operands[1], "b32")
    e.emit(
        MULTIPLY,
        vec=place,
        nvec=number,
        vec2=place2,
        nvec2=number2,
        b=e.source(m.operands[2], "b64"),
    )


@TABLE.form("fails a")
def _fails(e: Encoder, m: Match) -> None:
    raise KeyError(e.immediate(m.operands[0]))


TABLES = (TABLE, control.TABLE)


def program(text: str, before: str = "", entry: str | None = None) -> Program:
    """The rows of a kernel with this body; line 5 is its first."""
    made = (
        f"{HEADER}{before}.visible .entry k(.param .u32 n, .param .u64 p) {{ {REGISTERS}\n{text}}}"
    )
    return decode(parse(made), entry, TABLES)


def refused(text: str, before: str = "") -> str:
    with pytest.raises(DecodeError) as caught:
        program(text, before)
    assert isinstance(caught.value, TileError)
    return str(caught.value)


def row(made: Program, number: int, *columns: str) -> list[int]:
    return [int(made.rows[number, getattr(col, name)]) for name in columns]


def used(made: Program, number: int) -> set[str]:
    start, count = row(made, number, "USED", "NUSED")
    return {made.names[register] for register in made.vectors[start : start + count]} - {""}


def value(made: Program, register: int) -> int:
    return made.constants[register]


# ------------------------------------------------------------------ rows


def test_a_row() -> None:
    made = program(".loc 1 7 3\n@!%p2 add.rn.f32 %f1, %f2, 1.5;", '.file 1 "a.py"\n')
    assert made.rows.shape == (1, col.COLUMNS) and made.rows.dtype == np.int64
    op, family, guard, negated, d0, a, b, c, line = row(
        made, 0, "OP", "FAMILY", "GUARD", "NEGATED", "D0", "A", "B", "C", "LINE"
    )
    assert (op, family, negated, c, line) == (ADD, col.INTEGER, 1, -1, 7)
    assert [made.names[it] for it in (guard, d0, a, b)] == ["%p2", "%f1", "%f2", ""]
    assert value(made, b) == 0x3FC00000
    assert used(made, 0) == {"%p2", "%f1", "%f2"}
    assert made.texts == ["@!%p2 add.rn.f32 %f1, %f2, 1.5;"]
    assert made.locs[0] is not None and made.locs[0].line == 7
    assert row(made, 0, "RECONVERGE", "NOTED") == [col.END, 0]


def test_registers_are_numbered_as_they_are_used() -> None:
    made = program("mov.b32 %r8, %r7; mov.b32 %r7, %r8;")
    assert made.names == ["%r8", "%r7"] and made.registers == 2
    assert row(made, 1, "D0", "A") == [1, 0]


def test_constants_are_shared() -> None:
    made = program("mov.b32 %r1, 5; mov.u64 %rd1, 5; mov.b32 %r2, -1; mov.s64 %rd2, -1;")
    values = [value(made, row(made, number, "A")[0]) for number in range(4)]
    assert values == [5, 5, 0xFFFFFFFF, (1 << 64) - 1]
    assert len(made.constants) == 3


@pytest.mark.parametrize(
    ("kind", "register", "text", "bits"),
    [
        ("b32", "%r1", "0f3F800000", 0x3F800000),
        ("f32", "%f1", "0f7FC00000", 0x7FC00000),
        ("f32", "%f1", "1e-45", 1),
        ("f32", "%f1", "-1e300", 0xFF800000),
        ("f32", "%f1", "0d3FF0000000000000", 0x3F800000),
        ("f64", "%fd1", "0f3F800000", 0x3FF0000000000000),
        ("f64", "%fd1", "-2.0", 0xC000000000000000),
        ("b64", "%rd1", "0d3FF0000000000000", 0x3FF0000000000000),
        ("b64", "%rd1", "1.5", 0x3FF8000000000000),
        ("u32", "%r1", "0x1FFFFFFFF", 0xFFFFFFFF),  # as ptxas: what does not fit is cut off
        ("b16", "%rs1", "-1", 0xFFFF),
        ("pred", "%p1", "-1", 1),
        ("pred", "%p1", "0", 0),
        ("b16", "%rs1", "0x3C00", 0x3C00),
    ],
)
def test_immediates(kind: str, register: str, text: str, bits: int) -> None:
    made = program(f"mov.{kind} {register}, {text};")
    assert value(made, row(made, 0, "A")[0]) == bits


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mov.f32 %f1, 1;", "an integer constant where a value of type .f32 must be"),
        ("mov.f16 %rs1, 0x3C00;", "an integer constant where a value of type .f16 must be"),
        ("mov.u32 %r1, 0f3F800000;", "a floating-point constant where one of type .u32 must be"),
        ("mov.b32 %r1, 1.5;", "a floating-point constant where one of type .b32 must be"),
        ("mov.b64 %rd1, 0f3F800000;", "a floating-point constant where one of type .b64 must be"),
        ("mov.b32 %r1, %rd1;", "expected a register of 32 bits for .b32, but %rd1 is 64 bits wide"),
        ("mov.b64 %r1, %rd1;", "expected a register of 64 bits for .b64, but %r1 is 32 bits wide"),
        ("mov.b32 %r1, %p1;", "expected a register of 32 bits for .b32, but %p1 is a predicate"),
        ("mov.pred %p1, %r1;", "expected a predicate, but %r1 is 32 bits wide"),
        ("mov.u32 %r1, %f1;", "expected a register for .u32, but %f1 is one of .f32"),
        ("mov.f32 %f1, %s1;", "expected a register for .f32, but %s1 is one of .s32"),
        ("mov.u64 %rd1, %tid.x;", "expected a register of 64 bits for .u64, but %tid.x is 32 bits "
         "wide"),
        ("mov.b32 %tid.x, %r1;", "%tid.x cannot be written"),
        ("mov.b32 3, %r1;", "expected a register for a result, got an integer constant"),
        ("mov.b32 {%r1}, %r1;", "expected a register for a result, got 1 operands in braces"),
        ("mov.b32 %r1, {%r1, %r2};", "expected a register or constant of type .b32, got 2 "
         "operands in braces"),
        ("mov.b32 %r1, _;", "expected a register or constant of type .b32, got `_`"),
        ("mov.b32 %r1, !%r2;", "`!%r2`, where no predicate is"),
        ("mov.b64 %rd1, nowhere;", "there is no variable nowhere"),
        ("mov.b64 %rd1, k;", "the address of function k: indirect calls are not supported"),
        ("ld.global.b32 %r1, [%rs1];", "an address has 32 or 64 bits, but %rs1 has 16"),
        ("vote.narrow %r1, [%rd1];", "an address has 32 bits, but %rd1 has 64"),
        ("ld.global.b32 %r1, [%rd1, {%r1}];", "an address with coordinates, where one without was "
         "expected"),
        ("ld.global.f32 %fd1, [%rd1];", "expected a register of 32 bits for .f32, but %fd1 is "
         "64 bits wide"),
        ("vote.ballot %r1|%p1|%p2, %p1;", None),
        ("fails %r1;", "expected an integer constant, got register %r1"),
        ("fails 3;", "the machine's decoder failed: KeyError: 3"),
        ("bra L;", "there is no label L"),
        ("bra.uni %r1;", "there is no label %r1"),
        ("brx.idx %r1, L; L: exit;", "brx.idx needs the label of a .branchtargets list"),
        ("@%r1 exit;", "expected a predicate, but %r1 is 32 bits wide"),
    ],
)  # fmt: skip
def test_refused_operands(text: str, why: str | None) -> None:
    if why is None:
        assert "PTX line 5: " in refused(text)
        return
    first = text.split("; ", maxsplit=1)[0].rstrip(";") + ";"
    assert refused(text) == f"PTX line 5: {why}\n    {first}"


def test_wider_registers_of_loads_and_stores() -> None:
    made = program(
        "ld.global.u16 %rd1, [%rd2]; st.global.b8 [%rd2], %r1; ld.global.b8 %rs1, [%rd2];"
    )
    assert len(made.rows) == 3
    assert "expected a register of 16 bits" in refused("mov.u16 %r1, 5;")


def test_vectors_and_discards() -> None:
    made = program("ld.global.v2.b32 {%r1, _}, [%rd1+8]; st.global.v2.b32 [%rd1], {%r1, 0};")
    place, number, displacement = row(made, 0, "VEC", "NVEC", "IMM")
    first, second = made.vectors[place : place + number]
    assert made.names[first] == "%r1" and second == -1 and displacement == 8
    place, number = row(made, 1, "VEC", "NVEC")
    assert value(made, int(made.vectors[place + 1])) == 0 and number == 2
    assert used(made, 0) == {"%r1", "%rd1"}


def test_pairs_and_predicates() -> None:
    made = program("vote.ballot %r1|%p1, !%p2; vote.ballot _|%p1, %p2; vote.ballot %r1, %p2;")
    assert [made.names[it] for it in row(made, 0, "D0", "D1", "A")] == ["%r1", "%p1", "%p2"]
    assert row(made, 0, "X0") == [1]
    assert row(made, 1, "D0", "X0") == [-1, 0]
    assert row(made, 2, "D1") == [-1]


def test_special_registers() -> None:
    made = program("mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.y;")
    assert sorted(made.specials.values()) == ["%ctaid.y", "%tid.x"]
    assert row(made, 0, "A") == row(made, 1, "A")


def test_clocks_are_read_when_they_are_asked_for() -> None:
    made = program(
        "mov.u64 %rd1, %clock64; @%p1 mov.u64 %rd2, %clock64; mov.u64 %rd3, %globaltimer;"
    )
    assert [row(made, number, "OP", "FAMILY") for number in range(6)] == [
        [CLOCK, col.CONTROL], [MOV, col.INTEGER], [CLOCK, col.CONTROL], [MOV, col.INTEGER],
        [CLOCK, col.CONTROL], [MOV, col.INTEGER],
    ]  # fmt: skip
    assert row(made, 0, "D0") == row(made, 1, "A")
    assert row(made, 2, "GUARD") == row(made, 3, "GUARD") != [-1]
    assert row(made, 0, "X0") != row(made, 4, "X0")


# ------------------------------------------------------------------ variables


def test_addresses_of_variables() -> None:
    made = program(
        ".local .align 8 .b8 depot[12]; .local .b64 second; .shared .b8 odd[3];"
        "mov.b64 %rd1, p; ld.param.b32 %r1, [n]; ld.param.b64 %rd2, [p+4];"
        "mov.b64 %rd3, second; mov.b64 %rd4, tile; mov.b64 %rd5, dynamic+16; mov.b64 %rd6, table+4;"
        "mov.b64 %rd7, odd; ld.local.b32 %r2, [depot+4]; ld.global.b64 %rd8, [first];",
        ".extern .shared .align 128 .b8 dynamic[];\n.shared .align 16 .b8 tile[40];\n"
        ".shared .b8 unused[1000];\n.global .u32 table[4];\n.global .u64 first = table;\n",
    )
    assert value(made, row(made, 0, "A")[0]) == 8  # of the parameters: n has 4 bytes, p 8
    assert row(made, 2, "IMM") == [4] and value(made, row(made, 2, "A")[0]) == 8
    assert value(made, row(made, 3, "A")[0]) == 16  # of local memory
    assert made.local_size == 24
    assert made.shared == {"tile": 0, "odd": 40, "dynamic": 128}
    assert made.shared_size == 128
    named = {made.symbols[row(made, number, "A")[0]] for number in (4, 5, 6, 7, 9)}
    assert named == {("tile", 0), ("dynamic", 16), ("table", 4), ("odd", 0), ("first", 0)}
    assert set(made.variables) == {"depot", "second", "odd", "tile", "dynamic", "table", "first"}
    assert [it.name for it in made.parameters] == ["n", "p"]


def test_what_initialisers_name_is_a_variable_of_the_program() -> None:
    made = program(
        "ld.global.b64 %rd1, [a];",
        ".global .u32 c;\n.global .u64 b = c;\n.global .u64 a = b;\n.global .u64 d = c;\n",
    )
    assert set(made.variables) == {"a", "b", "c"}


# ------------------------------------------------------------------ the flow of control


def test_branches() -> None:
    made = program(
        "mov.b32 %r1, 0;\nL: add.u32 %r1, %r1, 1; @%p1 bra M; add.u32 %r1, %r1, 2;\n"
        "M: @!%p2 bra.uni L; bra E; trap; E: mov.b32 %r1, 1; exit;"
    )
    assert row(made, 2, "OP", "TARGET", "RECONVERGE") == [BRA, 4, 4]
    assert row(made, 4, "OP", "NEGATED", "TARGET", "RECONVERGE") == [BRA, 1, 1, 5]
    assert row(made, 5, "TARGET", "RECONVERGE") == [7, col.END]
    assert row(made, 6, "OP") == [TRAP] and row(made, 8, "OP") == [EXIT]


def test_a_branch_to_an_exit_is_one() -> None:
    # Otherwise lanes that return early would wait for those that go on, and no barrier of the
    # warp would be whole again; and the outer branch would meet at the exit, not at M.
    made = program(
        "@%p1 bra M; @%p2 bra R; add.u32 %r1, %r1, 1; @!%p3 bra S; M: add.u32 %r1, %r1, 2;"
        "bra S; S: bra R; add.u32 %r1, %r1, 3; R: ret; T: @%p1 bra E; E:"
    )
    assert row(made, 0, "OP", "TARGET", "RECONVERGE") == [BRA, 4, 4]
    assert row(made, 1, "OP", "NEGATED", "TARGET", "RECONVERGE") == [EXIT, 0, -1, col.END]
    assert row(made, 3, "OP", "NEGATED") == [EXIT, 1]
    assert [row(made, number, "OP")[0] for number in (5, 6, 8, 9)] == [EXIT] * 4
    assert made.names[row(made, 9, "GUARD")[0]] == "%p1"


def test_tables_of_branches() -> None:
    made = program(
        "T: .branchtargets A, B, A; brx.idx %r1, T; A: mov.b32 %r1, 1; bra E;"
        "B: mov.b32 %r1, 2; E: mov.b32 %r2, 2; exit;"
    )
    assert row(made, 0, "OP", "FAMILY") == [BRX, col.CONTROL]
    place, number, meeting = row(made, 0, "VEC", "NVEC", "RECONVERGE")
    assert list(made.vectors[place : place + number]) == [1, 3, 1]
    assert meeting == 4


def test_rows_that_write_what_wgmma_takes() -> None:
    made = program(
        "mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0; mov.b32 %r4, %r1;"
        "wgmma.mma_async {%r1, %r2}, {%r3}, %rd1; mov.b64 %rd1, 0;"
        "ld.global.v2.b32 {%r4, %r2}, [%rd1];"
        "wgmma.mma_async {%r1, %r2}, %r5, %rd2; st.global.b32 [%rd1], %r1;"
    )
    assert list(made.rows[:, col.NOTED]) == [1, 1, 1, 0, 0, 0, 1, 0, 0]


# ------------------------------------------------------------------ calls


FUNCTIONS = """
.func (.param .b32 r) twice (.param .b32 x) {
    .reg .b32 %r<4>; .reg .pred %p<2>;
    .loc 1 20 3
    ld.param.b32 %r1, [x];
    @%p1 bra L;
    add.u32 %r2, %r1, %r1;
    st.param.b32 [r+0], %r2;
    @%p1 ret;
L:  trap;
}
.func none () { ret; }
.func loop (.param .b32 x) { { .param .b32 y; call other, (y); } ret; }
.func other (.param .b32 x) { { .param .b32 y; call loop, (y); } ret; }
.func (.reg .b32 r, .reg .pred q) plain (.reg .b32 x) { add.u32 r, x, 1; mov.pred q, 1; ret; }
.func (.param .b32 r) outer (.param .b32 x) {
    .reg .b32 %r<4>; .local .b32 mine; .shared .b32 ours;
    st.local.b32 [mine], %r1; st.shared.b32 [ours], %r1;
    { .param .b32 a; .param .b32 b; ld.param.b32 %r1, [x]; st.param.b32 [a], %r1;
      call (b), twice, (a); ld.param.b32 %r2, [b]; }
    st.param.b32 [r], %r2;
    ret;
}
.extern .func missing (.param .b32 x);
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d,
    .param .b64 e);
.file 1 "a.py"
"""


def called(text: str) -> Program:
    return program(text, FUNCTIONS)


def test_a_call() -> None:
    made = called(
        ".loc 1 7 1\n{ .param .b32 a; st.param.b32 [a+0], %r1; .param .b32 b;"
        " call.uni (b), twice, (a); ld.param.b32 %r1, [b]; } exit;"
    )
    ops = [row(made, number, "OP")[0] for number in range(len(made.rows))]
    assert ops == [ST, LD, BRA, ADD, ST, BRA, TRAP, LD, EXIT]
    # The parameter is the caller's variable; the function's registers are its own.
    assert row(made, 0, "A") == row(made, 1, "A")
    assert row(made, 4, "A") == row(made, 7, "A") != row(made, 0, "A")
    inner = {name for name in used(made, 3) if name.startswith("%r1")}
    assert inner and inner.isdisjoint(used(made, 0))
    assert row(made, 2, "TARGET") == [6] and row(made, 5, "TARGET") == [7]
    assert made.local_size == 8
    loc = made.locs[3]
    assert loc is not None and loc.line == 20
    assert loc.call_site is not None and loc.call_site.line == 7


def test_calls_in_calls() -> None:
    text = (
        "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), outer, (a);"
        " ld.param.b32 %r1, [b]; }"
    )
    made = called(text + text + "exit;")
    assert [it for it in made.variables if "ours" in it] == ["ours@outer"]
    assert len([it for it in made.variables if "mine" in it]) == 2
    assert made.shared_size == 4
    names = [name for name in made.names if name.startswith("%r1@twice")]
    assert len(names) == 2


def test_a_guarded_call() -> None:
    made = called("@!%p1 call none; mov.b32 %r1, 1;")
    assert row(made, 0, "OP", "NEGATED", "TARGET") == [BRA, 0, 2]
    assert row(made, 1, "OP", "GUARD") == [BRA, -1]


def test_parameters_in_registers() -> None:
    made = called("call (%r1, %p1), plain, (5); call (%r2, %p2), plain, (%r1); exit;")
    ops = [row(made, number, "OP")[0] for number in range(5)]
    assert ops == [MOV, ADD, MOV, BRA, MOV]


def test_arguments_in_registers() -> None:
    made = called("call (%r1), twice, (%r2); exit;")
    ops = [row(made, number, "OP")[0] for number in range(len(made.rows))]
    assert ops == [ST, LD, BRA, ADD, ST, BRA, TRAP, LD, EXIT]


def test_printing_and_assertions() -> None:
    made = called(
        "{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd1;"
        " st.param.b64 [b], %rd2; call.uni (r), vprintf, (a, b); ld.param.b32 %r1, [r]; }"
        "{ .param .b64 a; .param .b32 b; call __assertfail, (a, a, b, a, a); }"
    )
    kinds = [tuple(row(made, number, "FAMILY", "OP")) for number in range(len(made.rows))]
    assert (col.CONTROL, PRINT) in kinds and kinds[-1] == (col.CONTROL, ASSERT)
    printing = kinds.index((col.CONTROL, PRINT))
    assert row(made, printing - 2, "A") == row(made, 0, "A")
    assert row(made, printing, "A") == [made.vectors[row(made, printing - 2, "VEC")[0]]]
    assert row(made, len(kinds) - 1, "NVEC") == [5]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "{ .param .b32 y; call loop, (y); }",
            "recursion is not supported: k -> loop -> other -> loop\n    call loop, (y);",
        ),
        ("call nowhere;", "there is no function nowhere\n    call nowhere;"),
        ("call k;", "recursion is not supported: k -> k\n    call k;"),
        (
            "call (%r1), %rd1, (%r2), proto;",
            "an indirect call: the machine inlines calls, and must know what is called\n"
            "    call (%r1), %rd1, (%r2), proto;",
        ),
        ("call missing, (%r1);", "function missing has no body\n    call missing, (%r1);\n"
         "hint: without a body the machine knows vprintf and __assertfail only"),
        ("call twice, (%r1);", "twice has 1 results, but 0 are given\n    call twice, (%r1);"),
        ("call (%r1), twice, (%r1, 2);", "twice has 1 arguments, but 2 are given\n"
         "    call (%r1), twice, (%r1, 2);"),
        ("{ .param .b64 y; call (%r1), twice, (y); }", "x has 4 bytes, but y has 8\n"
         "    call (%r1), twice, (y);"),
        ("call (%r1), twice, (n);", "n is no .param variable of the caller\n"
         "    call (%r1), twice, (n);"),
    ],
)  # fmt: skip
def test_refused_calls(text: str, why: str) -> None:
    found = refused(text, FUNCTIONS)
    assert re.sub(r"PTX line \d+: ", "", found) == why


# ------------------------------------------------------------------ what is refused


def test_an_unknown_instruction() -> None:
    assert refused(".loc 1 7 3\n\nadds.s32 %r1, %r2, %r3;", '.file 1 "a.py"\n') == (
        "PTX line 8: the machine does not know the instruction 'adds'\n"
        "    adds.s32 %r1, %r2, %r3;\n"
        '  File "a.py", line 7\n'
        "hint: similar ones: add"
    )


def test_an_unknown_form() -> None:
    assert refused("add.rn.ftz.f32 %f1, %f2, %f3;") == (
        "PTX line 5: the machine does not know this form of 'add'\n"
        "    add.rn.ftz.f32 %f1, %f2, %f3;\n"
        "note: it knows these forms:\n"
        "    add{.rnd}{.sat}.type d, a, b    (rnd: rn rz; "
        "type: b16 b32 b64 b8 f16 f32 f64 pred s32 s64 u16 u32 u64)"
    )


@pytest.mark.parametrize(
    "text", ["add.f32 %f1, %f2;", "add.f32 %f1, [%rd1], %f2;", "add %f1, %f2;"]
)
def test_other_operands_than_the_form(text: str) -> None:
    assert "the machine does not know this form of 'add'" in refused(text)


def test_the_entry_is_named() -> None:
    text = HEADER + ".entry a() { exit; }\n.entry b() { exit; }\n.func c() { ret; }"
    module = parse(text)
    assert decode(module, "b", TABLES).name == "b"
    with pytest.raises(DecodeError) as caught:
        decode(module, None, TABLES)
    assert str(caught.value) == "which entry? The module has: a, b"
    with pytest.raises(DecodeError) as caught:
        decode(module, "c", TABLES)
    assert str(caught.value) == "the PTX has no entry 'c'; it has: a, b"


# ------------------------------------------------------------------ every statement is kept


def rows_match(text: str, entry: str, **options: Any) -> None:
    """Each instruction of an entry without calls has a row, in order."""
    module = parse(text)
    made = decode(module, entry, **options)
    expected = [it.text for it in module.functions[entry].body if isinstance(it, Instruction)]
    clocks = made.rows[:, col.FAMILY] * 100 + made.rows[:, col.OP] == col.CONTROL * 100 + CLOCK
    assert [text for text, clock in zip(made.texts, clocks, strict=True) if not clock] == expected


def test_rows_stand_for_all_instructions() -> None:
    body = "".join(
        f"L{k}: @%p{k % 9} add.u32 %r{k % 9}, %r{(k * 5) % 9}, {k}; @%p1 bra L{(k * 7) % 50};"
        "{ .reg .b32 t; mov.b32 t, %tid.x; }"
        for k in range(50)
    )
    text = f"{HEADER}.entry k() {{ {REGISTERS} {body} ret; }}"
    rows_match(text, "k", tables=TABLES)
