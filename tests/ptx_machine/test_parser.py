"""PTX text -> syntax."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.syntax import (
    Address,
    Discard,
    Function,
    Immediate,
    Instruction,
    Label,
    Loc,
    Module,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;"


def body(text: str, before: str = "") -> Function:
    """The kernel with this body; line 4 is the first behind the header."""
    made = f"{HEADER}{before}.visible .entry k(.param .u64 p) {{ {REGISTERS}\n{text}\n}}\n"
    return parse(made).functions["k"]


def instructions(text: str, before: str = "") -> list[Instruction]:
    return [it for it in body(text, before).body if isinstance(it, Instruction)]


def operands(text: str) -> tuple[Operand, ...]:
    (found,) = instructions(text)
    return found.operands


# ------------------------------------------------------------------ instructions and operands


def test_an_instruction() -> None:
    (found,) = instructions("  @!%p1   add.rn.f32\t%f1, %f2,\n %f3 ;")
    assert found == Instruction(
        "add",
        ("rn", "f32"),
        (Register("%f1"), Register("%f2"), Register("%f3")),
        Register("%p1", negated=True),
        5,
        "@!%p1 add.rn.f32 %f1, %f2, %f3 ;",
    )


def test_words_with_double_colons_are_modifiers() -> None:
    (found,) = instructions(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint [%r1+128], [%rd1, {%r2, -4}], [%r3], %r4, %rd2;"
    )
    assert found.modifiers == (
        "async", "bulk", "tensor", "2d", "shared::cluster", "global", "tile",
        "mbarrier::complete_tx::bytes", "multicast::cluster", "L2::cache_hint",
    )  # fmt: skip
    assert found.operands == (
        Address(Register("%r1"), 128),
        Address(Register("%rd1"), 0, (Register("%r2"), Immediate(-4 & (1 << 64) - 1))),
        Address(Register("%r3")),
        Register("%r4"),
        Register("%rd2"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%r1", Register("%r1")),
        ("%tid.x", Register("%tid.x")),
        ("!%p1", Register("%p1", True)),
        ("_", Discard()),
        ("%p1|%p2", Pair(Register("%p1"), Register("%p2"))),
        ("%p1 | _", Pair(Register("%p1"), Discard())),
        ("%r1|!%p2", Pair(Register("%r1"), Register("%p2", True))),
        ("{%r1, %r2}", Vector((Register("%r1"), Register("%r2")))),
        ("{%r1}", Vector((Register("%r1"),))),
        ("{ 0 , _ }", Vector((Immediate(0), Discard()))),
        ("p", Symbol("p")),
        ("table+4", Symbol("table", 4)),
        ("table + -4", Symbol("table", -4)),
        ("[%rd1]", Address(Register("%rd1"))),
        ("[ %rd1 + 8 ]", Address(Register("%rd1"), 8)),
        ("[%rd1+-8]", Address(Register("%rd1"), -8)),
        ("[%rd1-8]", Address(Register("%rd1"), -8)),
        ("[%rd1+0x10]", Address(Register("%rd1"), 16)),
        ("[%rd1+4*8]", Address(Register("%rd1"), 32)),
        ("[p+12]", Address(Symbol("p"), 12)),
        ("[p]", Address(Symbol("p"))),
        ("[1024]", Address(Immediate(1024))),
        ("[%rd1, {%r1, 7}]", Address(Register("%rd1"), 0, (Register("%r1"), Immediate(7)))),
        ("[p+4, {%r1}]", Address(Symbol("p"), 4, (Register("%r1"),))),
    ],
)
def test_operands(text: str, expected: Operand) -> None:
    assert operands(f"op {text};") == (expected,)


MASK = (1 << 64) - 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("42", 42),
        ("-1", -1),
        ("42U", 42),
        ("0x1fU", 31),
        ("0XFF", 255),
        ("017", 15),
        ("0b101", 5),
        ("0B11U", 3),
        ("18446744073709551615", -1),
        ("-9223372036854775808", -(1 << 63)),
        ("WARP_SZ", 32),
        ("1<<4", 16),
        ("(3+4)*2", 14),
        ("-5/2", -2),
        ("-5 % 3", -2),
        ("3 > 2", 1),
        ("3 == 2", 0),
        ("0 ? 5 : 6", 6),
        ("!3", 0),
        ("~0", -1),
        ("0xF0 & 0x3C | 1 ^ 3", 0xF0 & 0x3C | 1 ^ 3),
        ("(.u64)7", 7),
        ("1 || 0 && 0", 1),
        ("- ( 3 )", -3),
        ("2+3*4-1", 13),
    ],
)
def test_integer_constants(text: str, value: int) -> None:
    assert operands(f"mov.u64 %rd1, {text};")[1] == Immediate(value & MASK)


@given(st.integers(-(1 << 63), (1 << 64) - 1), st.sampled_from("dxobU"))
@settings(max_examples=60, deadline=None)
def test_any_integer(value: int, how: str) -> None:
    sign, size = "-" if value < 0 else "", abs(value)
    text = {
        "d": f"{size}",
        "x": f"{size:#x}",
        "o": f"0{size:o}",
        "b": f"{size:#b}",
        "U": f"{size}U",
    }
    assert operands(f"mov.u64 %rd1, {sign}{text[how]};")[1] == Immediate(value & MASK)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0f3F800000", "f32", 1.0),
        ("0FC0490FDB", "f32", struct.unpack(">f", bytes.fromhex("C0490FDB"))[0]),
        ("0d4000000000000000", "f64", 2.0),
        ("0DBFF8000000000000", "f64", -1.5),
        ("1.5", "f64", 1.5),
        ("-1.5", "f64", -1.5),
        ("1e3", "f64", 1000.0),
        ("2.5e-3", "f64", 2.5e-3),
        (".5", "f64", 0.5),
        ("5.", "f64", 5.0),
    ],
)
def test_floating_point_constants(text: str, kind: str, value: float) -> None:
    found = operands(f"mov.f64 %rd1, {text};")[1]
    packed = struct.pack("<f" if kind == "f32" else "<d", value)
    assert found == Immediate(int.from_bytes(packed, "little"), kind)


def test_guards_with_spaces() -> None:
    found = instructions("@ %p1 ret; @! %p2 exit; @!%p3 bra L; L: ret;")
    guards = [it.guard for it in found]
    assert guards == [Register("%p1"), Register("%p2", True), Register("%p3", True), None]


def test_opcode_and_modifiers_apart() -> None:
    (found,) = instructions("mov .u32 %r1, 3;")
    assert (found.opcode, found.modifiers) == ("mov", ("u32",))


def test_many_statements_on_a_line_and_one_on_many() -> None:
    found = instructions("mov.b32 %r1, 1; mov.b32 %r2, 2;mov.b32 %r3,3;\n\nmov.b32\n%r4,\n4\n;")
    assert [it.line for it in found] == [5, 5, 5, 7]
    assert found[3].text == "mov.b32 %r4, 4 ;"


def test_comments() -> None:
    found = instructions(
        "// begin inline asm; ret;\nmov.b32 %r1, /* 5 */ 1; // x\n/* a\n b; */ mov.b32 %r2, 2;"
    )
    assert [(it.line, it.operands[1]) for it in found] == [(6, Immediate(1)), (8, Immediate(2))]


def test_slashes_in_a_string_are_no_comment() -> None:
    module = parse(f'{HEADER}.file 1 "/a//b/*.py"\n.entry k() {{\n.loc 1 2 3\nret;\n}} // end')
    (found,) = module.functions["k"].body
    assert isinstance(found, Instruction)
    assert found.loc == Loc("/a//b/*.py", 2, 3)


# ------------------------------------------------------------------ registers and scopes


def test_registers() -> None:
    made = body(".reg .b32 a, %x<3>, b; .reg .f64 c;")
    kinds = {name: made.registers[name] for name in ("a", "%x0", "%x2", "b", "c")}
    assert kinds == {"a": "b32", "%x0": "b32", "%x2": "b32", "b": "b32", "c": "f64"}
    assert "%x3" not in made.registers


def test_registers_of_braces_have_names_of_their_own() -> None:
    made = body(
        "{ .reg .b32 t; mov.b32 t, %r1; mov.b32 %r2, t; }"
        "{ .reg .b64 t; mov.b64 t, %rd1; { .reg .pred t; @t exit; } mov.b64 %rd2, t; }"
        "{ .reg .b32 %r1; mov.b32 %r1, 1; } mov.b32 %r1, 2;"
    )
    found = [it for it in made.body if isinstance(it, Instruction)]
    first, second, inner = found[0].operands[0], found[2].operands[0], found[3].guard
    assert isinstance(first, Register) and isinstance(second, Register)
    assert inner is not None
    names = [first.name, second.name, inner.name]
    assert [made.registers[name] for name in names] == ["b32", "b64", "pred"]
    assert len(set(names)) == 3
    assert found[1].operands[1] == first and found[4].operands[0] == Register("%rd2")
    assert found[4].operands[1] == second
    assert found[5].operands[0] != Register("%r1") == found[6].operands[0]


def test_vector_registers() -> None:
    made = body(".reg .v4 .f32 acc; mov.f32 acc.y, %f1; st.v4.f32 [%rd1], acc; mov.f32 %f1, acc.w;")
    found = [it for it in made.body if isinstance(it, Instruction)]
    lanes = tuple(Register(f"acc.{lane}") for lane in "xyzw")
    assert found[0].operands[0] == lanes[1]
    assert found[1].operands[1] == Vector(lanes)
    assert found[2].operands[1] == lanes[3]
    assert made.registers["acc.z"] == "f32"


def test_labels_of_braces() -> None:
    made = body("{ W: @%p1 bra W; @%p2 bra D; } { W: @%p1 bra W; { @%p3 bra W; W: ret; } } D: ret;")
    labels = [it.name for it in made.body if isinstance(it, Label)]
    targets = [
        it.operands[0].name
        for it in made.body
        if isinstance(it, Instruction) and it.opcode == "bra" and isinstance(it.operands[0], Symbol)
    ]
    first, second, inner, last = labels
    assert len(set(labels)) == 4 and last == "D"
    assert targets == [first, "D", second, inner]


def test_labels_before_anything() -> None:
    made = body("$L__a: L1: L2: ret; _b: %c: bra %c;")
    names = [it.name for it in made.body if isinstance(it, Label)]
    assert names == ["$L__a", "L1", "L2", "_b", "%c"]


def test_a_label_is_not_a_double_colon() -> None:
    (found,) = instructions("fence.proxy.async.shared::cta;")
    assert found.modifiers == ("proxy", "async", "shared::cta")


def test_branch_targets() -> None:
    found = instructions(
        "T: .branchtargets A, B , A; brx.idx %r1, T; A: ret; B: ret;"
        "{ U: .branchtargets C<2>; @%p1 brx.idx.uni %r2, U; C0: ret; C1: ret; }"
    )
    assert found[0].labels == ("A", "B", "A")
    inner = found[3]
    assert len(inner.labels) == 2 and inner.labels[0] != "C0"  # renamed, as their labels
    made = body("{ U: .branchtargets C; brx.idx %r2, U; C: ret; }").body
    assert isinstance(made[0], Instruction) and isinstance(made[1], Label)
    assert made[0].labels == (made[1].name,)


# ------------------------------------------------------------------ functions and variables


def test_an_entry() -> None:
    module = parse(
        HEADER
        + """
.weak .entry k(
    .param .align 64 .b8 k_param_0[128],
    .param .u32 k_param_1,
    .param .u64 .ptr .global .align 16 k_param_2,
    .param .u8 k_param_3, .param .f64 .ptr .align 1 k_param_4
)
.reqntid 128, 2, 1
.minnctapersm 1
.maxnreg 168
.explicitcluster .reqnctapercluster 2
.pragma "nounroll";
{ ret; }
"""
    )
    assert (module.version, module.target) == ((8, 6), "sm_90a")
    made = module.functions["k"]
    assert made.entry and made.defined
    shape = [(it.name, it.size, it.align, it.offset) for it in made.parameters]
    assert shape == [
        ("k_param_0", 128, 64, 0),
        ("k_param_1", 4, 4, 128),
        ("k_param_2", 8, 8, 136),
        ("k_param_3", 1, 1, 144),
        ("k_param_4", 8, 8, 152),
    ]
    assert made.directives == {
        "reqntid": (128, 2, 1),
        "minnctapersm": (1,),
        "maxnreg": (168,),
        "explicitcluster": (),
        "reqnctapercluster": (2,),
    }


def test_functions() -> None:
    module = parse(
        HEADER
        + """
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b) ;
.func g ;
.func (.param .align 8 .b8 r[16]) f (.param .b32 x) .noreturn ;
.func (.param .align 8 .b8 r[16]) f (.param .b32 x) .noreturn { ret; }
.func (.reg .u32 s) h (.reg .u32 t, .reg .pred q) { mov.u32 s, t; ret; }
.alias same, f;
"""
    )
    assert not module.functions["vprintf"].defined
    assert module.functions["f"].defined
    assert module.functions["f"].results[0].size == 16
    assert module.functions["same"] is module.functions["f"]
    assert module.functions["h"].registers == {"s": "u32", "t": "u32", "q": "pred"}


def variables(text: str) -> Module:
    return parse(HEADER + text)


def test_variables() -> None:
    found = variables(
        """
.extern .shared .align 1024 .b8 dynamic[];
.visible .shared .align 16 .v4 .f32 staged[8];
.global .u32 a, b = 7;
.const .f32 weights[] = { 1.0, -0.5, 0f40000000 };
.weak .global .align 8 .b16 grid[2][3] = {{1, 2, 3}, {4, -1}};
.global .attribute(.managed) .u64 managed;
.global .texref picture;
"""
    ).variables
    assert (found["dynamic"].size, found["dynamic"].align, found["dynamic"].extern) == (
        0,
        1024,
        True,
    )
    assert (found["staged"].size, found["staged"].align) == (128, 16)
    assert found["a"].initial is None and found["b"].initial == (7).to_bytes(4, "little")
    assert found["weights"].initial == struct.pack("<3f", 1.0, -0.5, 2.0)
    assert found["weights"].space == "const"
    assert found["grid"].initial == struct.pack("<6h", 1, 2, 3, 4, -1, 0)
    assert found["managed"].size == 8


def test_initialisers_with_addresses() -> None:
    found = variables(
        """
.global .align 8 .b8 table[16];
.global .align 8 .u64 pointers[4] = {table, generic(table)+8, table-4, 0};
.global .align 1 .b8 packed[10] = {1, 0xFF(table), 0xFF00(table), 0xFF0000(table),
    0xFF000000(table), 0xFF00000000(table), 0xFF0000000000(table), 0xFF000000000000(table),
    0xFF00000000000000(table), 9};
"""
    ).variables
    assert found["pointers"].pointers == (
        (0, Symbol("table")),
        (8, Symbol("table", 8)),
        (16, Symbol("table", -4)),
    )
    assert found["packed"].pointers == ((1, Symbol("table")),)
    assert found["packed"].initial == b"\1" + bytes(8) + b"\x09"


def test_variables_of_a_function() -> None:
    made = body(
        ".shared .align 128 .b8 tile[256]; .local .align 8 .b8 depot[16];"
        "{ .param .b64 a; st.param.b64 [a+0], %rd1; } { .param .b32 a; st.param.b32 [a], %r1; }"
    )
    kinds = {name: (it.space, it.size) for name, it in made.variables.items()}
    assert kinds["tile"] == ("shared", 256)
    assert kinds["depot"] == ("local", 16)
    params = [it for it in kinds.values() if it[0] == "param"]
    assert params == [("param", 8), ("param", 4)]
    stores = [it.operands[0] for it in made.body if isinstance(it, Instruction)]
    bases = [
        it.base.name for it in stores if isinstance(it, Address) and isinstance(it.base, Symbol)
    ]
    assert [made.variables[name].size for name in bases] == [8, 4]


def test_elements_of_an_array() -> None:
    found = instructions(
        "mov.u64 %rd1, table[3]; ld.global.u16 %r1, [table+2];", ".global .u16 table[8];\n"
    )
    assert found[0].operands[1] == Symbol("table", 6)
    assert found[1].operands[1] == Address(Symbol("table"), 2)


# ------------------------------------------------------------------ source lines


def test_source_lines() -> None:
    module = parse(
        HEADER
        + """
.entry k() {
    ret;
    .loc 1 10 5
    ret; ret;
    .loc 2 3 9, function_name $L__info_string1, inlined_at 1 10 5
    ret;
    .loc 1 7 1, function_name $L__info_string0+2, inlined_at 2 3 9
    ret;
    .loc 1 0 0 ret;
}
.file 1 "/home/u/a.py"
.file 2 "/home/u/b.py", 123, 456
.section .debug_str
{
$L__info_string0:
.b8 120, 121
.b8 122, 0
$L__info_string1:
.b8 104
.b8 105
.b8 0
}
"""
    )
    found = [it.loc for it in module.functions["k"].body if isinstance(it, Instruction)]
    outer = Loc("/home/u/a.py", 10, 5)
    inner = Loc("/home/u/b.py", 3, 9, "hi", outer)
    assert found[:4] == [None, outer, outer, inner]
    assert found[4] is not None and found[4].call_site == inner
    assert found[5] == Loc("/home/u/a.py", 0, 0)


def test_debug_sections_are_passed_over() -> None:
    module = parse(
        f"{HEADER}.entry k() {{ ret; }}\n.section .debug_abbrev {{ .b8 1\n.b32 .debug_str\n}}\n"
        ".section .debug_loc { }\n.visible .global .b32 last;\n@@DWARF .byte 1\n"
    )
    assert list(module.variables) == ["last"]


# ------------------------------------------------------------------ every statement is kept


OPERAND = st.sampled_from(
    [
        *("%r1", "%rd2", "0x10", "-3", "1.5", "0f3F800000", "p", "[%rd1+8]", "[p]", "_", "!%p1"),
        *("{%r1, %r2}", "{%r1, _}", "%p1|%p2", "[%rd1, {%r1, %r2}]", "table+4", "%tid.x"),
    ]
)
OPCODES = st.sampled_from(["add.s32", "mov", "ld.global.v2.b32", "fence.proxy.async", "a.b::c.d"])
SPACE = st.sampled_from([" ", "\n", "\t", " // c ; { }\n", " /* ; \n */ ", "  "])


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, list[tuple[str, int, str, int]]]:
    """A body, and for each instruction: opcode with modifiers, operands, guard, line."""
    text, line = "", 5
    expected = []
    for number in range(draw(st.integers(0, 12))):
        braces = draw(st.sampled_from(["", "", "{", "X"]))
        lead = draw(SPACE)
        text += lead
        line += lead.count("\n")
        if braces == "X":
            text += f"label{number}:" + draw(st.sampled_from(["", " "]))
        elif braces:
            text += "{ "
        opcode, guard = draw(OPCODES), draw(st.sampled_from(["", "@%p1 ", "@!%p2 "]))
        listed = draw(st.lists(OPERAND, max_size=4))
        expected.append((opcode, len(listed), guard.strip(), line))
        separator = draw(st.sampled_from([", ", ",", " , ", ",\n"]))
        statement = f"{guard}{opcode} {separator.join(listed)};"
        text += statement + (" }" if braces == "{" else "")
        line += statement.count("\n")
    return text, expected


@given(programs())
@settings(max_examples=150, deadline=None)
def test_every_statement_is_kept(made: tuple[str, list[tuple[str, int, str, int]]]) -> None:
    text, expected = made
    found = []
    for it in instructions(text):
        guard = ""
        if it.guard is not None:
            guard = f"@{'!' if it.guard.negated else ''}{it.guard.name}"
        found.append((".".join((it.opcode, *it.modifiers)), len(it.operands), guard, it.line))
    assert found == expected
