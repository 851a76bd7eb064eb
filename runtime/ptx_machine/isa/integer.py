"""Forms of the integer family: arithmetic, logic, shifts, bit fields, comparisons, mov, selp."""

from __future__ import annotations

from tiledsl.runtime.ptx_machine.forms import Match, Table
from tiledsl.runtime.ptx_machine.isa import integer_ops as ops
from tiledsl.runtime.ptx_machine.opcodes import INTEGER, TYPE_CODES
from tiledsl.runtime.ptx_machine.program import Encoder
from tiledsl.runtime.ptx_machine.syntax import Vector

TABLE = Table(INTEGER)

_NUMBERS = "u16 u32 u64 s16 s32 s64"
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_COUNTS = "u32"


def _emit(
    e: Encoder, op: int, match: Match, type: str, *, result: str = "", mode: int = 0, of: str = ""
) -> None:
    """d and one to four sources, all of one type but for those that ``of`` gives, one each."""
    kinds = of.split() or [type] * (len(match.operands) - 1)
    registers = [e.source(o, kind) for o, kind in zip(match.operands[1:], kinds, strict=True)]
    columns = dict(zip("abcd", registers, strict=False))
    d0 = e.result(match.operands[0], result or type)
    e.emit(op, type=TYPE_CODES[type], type2=TYPE_CODES[result or type], mode=mode, d0=d0, **columns)


# ------------------------------------------------------------------ arithmetic


@TABLE.form("add.type d, a, b", "add{.sat}.s32 d, a, b", type=_NUMBERS)
@TABLE.form("sub.type d, a, b", "sub{.sat}.s32 d, a, b", type=_NUMBERS)
def _add(e: Encoder, m: Match) -> None:
    op = ops.ADD if m.instruction.opcode == "add" else ops.SUB
    _emit(e, op, m, m["type"] or "s32", mode=ops.SAT if m["sat"] else 0)


@TABLE.form("add.x2 d, a, b", "sub.x2 d, a, b", "neg.x2 d, a", x2="u16x2 s16x2")
@TABLE.form("min{.relu}.s16x2 d, a, b", "max{.relu}.s16x2 d, a, b")
@TABLE.form("min.u16x2 d, a, b", "max.u16x2 d, a, b")
def _halves(e: Encoder, m: Match) -> None:
    op = {
        "add": ops.ADD_X2,
        "sub": ops.SUB_X2,
        "neg": ops.NEG_X2,
        "min": ops.MIN_X2,
        "max": ops.MAX_X2,
    }[m.instruction.opcode]
    kind = "s16" if m.instruction.modifiers[-1] == "s16x2" else "u16"
    registers = [e.source(o, "b32") for o in m.operands[1:]]
    mode = ops.RELU if m["relu"] else 0
    d0 = e.result(m.operands[0], "b32")
    columns = dict(zip("ab", registers, strict=False))
    e.emit(op, type=TYPE_CODES[kind], type2=TYPE_CODES["b32"], mode=mode, d0=d0, **columns)


@TABLE.form("mul.part.type d, a, b", part="lo hi", type=_NUMBERS)
@TABLE.form("mul.part.type d, a, b", part="wide", type="u16 u32 s16 s32")
def _mul(e: Encoder, m: Match) -> None:
    part, kind = m["part"], m["type"]
    op = {"lo": ops.MUL_LO, "hi": ops.MUL_HI, "wide": ops.MUL_WIDE}[part]
    _emit(e, op, m, kind, result=_WIDER[kind] if part == "wide" else "")


@TABLE.form("mad.part.type d, a, b, c", part="lo hi", type=_NUMBERS)
@TABLE.form("mad.part.type d, a, b, c", part="wide", type="u16 u32 s16 s32")
@TABLE.form("mad.hi.sat.s32 d, a, b, c")
def _mad(e: Encoder, m: Match) -> None:
    part, kind = m["part"] or "hi", m["type"] or "s32"
    op = {"lo": ops.MAD_LO, "hi": ops.MAD_HI, "wide": ops.MAD_WIDE}[part]
    wide = _WIDER[kind] if part == "wide" else kind
    _emit(e, op, m, kind, result=wide, mode=ops.SAT if m["sat"] else 0, of=f"{kind} {kind} {wide}")


@TABLE.form("mul24.part.type d, a, b", "mad24.part.type d, a, b, c", part="lo hi", type="u32 s32")
@TABLE.form("mad24.hi.sat.s32 d, a, b, c")
def _mul24(e: Encoder, m: Match) -> None:
    low = m["part"] == "lo"
    op = ops.MUL24_LO if low else ops.MUL24_HI
    if m.instruction.opcode == "mad24":
        op = ops.MAD24_LO if low else ops.MAD24_HI
    _emit(e, op, m, m["type"] or "s32", mode=ops.SAT if m["sat"] else 0)


@TABLE.form("div.type d, a, b", "rem.type d, a, b", type=_NUMBERS)
@TABLE.form("min.type d, a, b", "max.type d, a, b", type=_NUMBERS)
@TABLE.form("min.relu.s32 d, a, b", "max.relu.s32 d, a, b")
@TABLE.form("abs.type d, a", "neg.type d, a", type="s16 s32 s64")
def _plain(e: Encoder, m: Match) -> None:
    op = {
        "div": ops.DIV,
        "rem": ops.REM,
        "min": ops.MIN,
        "max": ops.MAX,
        "abs": ops.ABS,
        "neg": ops.NEG,
    }[m.instruction.opcode]
    _emit(e, op, m, m["type"] or "s32", mode=ops.RELU if m["relu"] else 0)


@TABLE.form("sad.type d, a, b, c", type=_NUMBERS)
def _sad(e: Encoder, m: Match) -> None:
    kind = m["type"]
    _emit(e, ops.SAD, m, kind, of=f"{kind} {kind} u{kind[1:]}")


@TABLE.form("dp4a.ta.tb d, a, b, c", "dp2a.half.ta.tb d, a, b, c", ta="u32 s32", tb="u32 s32",
            half="lo hi")  # fmt: skip
def _dot(e: Encoder, m: Match) -> None:
    op = ops.DP4A if m.instruction.opcode == "dp4a" else ops.DP2A
    mode = (m["ta"] == "s32") + 2 * (m["tb"] == "s32") + 4 * (m["half"] == "hi")
    _emit(e, op, m, "b32", mode=mode)


# ------------------------------------------------------------------ video: bytes and halves

_OPCODES = [f"{which}{count}" for which in ops.VIDEOS[:-1] for count in (2, 4)]


@TABLE.form(*(f"{op}.dtype.atype.btype{{.sat}} d, a, b, c" for op in _OPCODES),
            *(f"{op}.dtype.atype.btype.add d, a, b, c" for op in _OPCODES),
            *(f"vset{n}.atype.btype.cmp{{.add}} d, a, b, c" for n in (2, 4)),
            dtype="u32 s32", atype="u32 s32", btype="u32 s32", cmp="eq ne lt le gt ge")  # fmt: skip
def _video(e: Encoder, m: Match) -> None:
    """Elements in their places; all of the result's, so that c only counts where they add up."""
    which = ops.VIDEOS.index(m.instruction.opcode[:-1])
    adds, sets = m.instruction.modifiers[-1] == "add", m["cmp"] != ""
    same = {m["atype"], m["btype"], m["dtype"] or m["atype"]}
    if adds and not sets and (len(same) > 1 or which < 2 or (which == 3 and same != {"u32"})):
        raise e.refuse(".add of elements that fit their place: what else adds up is not documented")
    mode = which | (m.instruction.opcode[-1] == "4") * ops.V_BYTES
    for name, bit in (("atype", ops.V_SIGNED_A), ("btype", ops.V_SIGNED_B),
                      ("dtype", ops.V_SIGNED_D)):  # fmt: skip
        mode |= (m[name] == "s32") * bit
    mode |= (m["sat"] != "") * ops.V_SAT | adds * ops.V_ADD
    mode |= ops.COMPARISONS.index(m["cmp"] or "eq") << ops.V_COMPARISON
    _emit(e, ops.VIDEO, m, "b32", mode=mode)


# ------------------------------------------------------------------ with a carry


@TABLE.form("add.cc.type d, a, b", "addc{.cc}.type d, a, b", type="u32 s32 u64 s64")
@TABLE.form("sub.cc.type d, a, b", "subc{.cc}.type d, a, b", type="u32 s32 u64 s64")
@TABLE.form("mad.part.cc.type d, a, b, c", "madc.part{.cc}.type d, a, b, c", part="lo hi",
            type="u32 s32 u64 s64")  # fmt: skip
def _carry(e: Encoder, m: Match) -> None:
    opcode = m.instruction.opcode
    which = {"add": ops.CARRY_ADD, "sub": ops.CARRY_SUB}.get(opcode[:3])
    if which is None:
        which = ops.CARRY_MAD_HI if m["part"] == "hi" else ops.CARRY_MAD_LO
    takes, leaves = opcode.endswith("c"), bool(m["cc"])
    registers = [e.source(o, m["type"]) for o in m.operands[1:]]
    e.emit(
        ops.CARRY,
        type=TYPE_CODES[m["type"]],
        mode=which,
        mode2=takes + 2 * leaves,
        d0=e.result(m.operands[0], m["type"]),
        x0=e.hidden("cc"),
        **dict(zip("abc", registers, strict=False)),
    )


# ------------------------------------------------------------------ bits


@TABLE.form("and.type d, a, b", "or.type d, a, b", "xor.type d, a, b", "not.type d, a",
            type="pred b16 b32 b64")  # fmt: skip
@TABLE.form("cnot.type d, a", type="b16 b32 b64")
def _logic(e: Encoder, m: Match) -> None:
    op = {"and": ops.AND, "or": ops.OR, "xor": ops.XOR, "not": ops.NOT, "cnot": ops.CNOT}
    _emit(e, op[m.instruction.opcode], m, m["type"])


@TABLE.form("lop3.b32 d, a, b, c, table")
@TABLE.form("lop3.bool.b32 d{|p}, a, b, c, table, q", bool="or and")
def _lop3(e: Encoder, m: Match) -> None:
    registers = [e.source(o, "b32") for o in m.operands[1:4]]
    table = e.immediate(m.operands[4])
    if not 0 <= table < 256:
        raise e.refuse(f"a truth table of 8 bits, not {table}")
    b32 = TYPE_CODES["b32"]
    columns = dict(zip("abc", registers, strict=True))
    d0, columns["d1"] = e.results(m.operands[0], "b32", "pred")
    if m["bool"]:
        columns["x0"], columns["x1"] = e.predicate(m.operands[5])
        columns["mode2"] = ops.COMBINE.index(m["bool"])
    e.emit(ops.LOP3, type=b32, type2=b32, mode=table, d0=d0, **columns)


@TABLE.form("shl.type d, a, b", type="b16 b32 b64")
@TABLE.form("shr.type d, a, b", type="b16 b32 b64 u16 u32 u64 s16 s32 s64")
def _shift(e: Encoder, m: Match) -> None:
    op = ops.SHL if m.instruction.opcode == "shl" else ops.SHR
    _emit(e, op, m, m["type"], of=f"{m['type']} u32")


@TABLE.form("shf.side.how.b32 d, a, b, c", side="l r", how="clamp wrap")
def _funnel(e: Encoder, m: Match) -> None:
    mode = (m["side"] == "l") * ops.SHF_LEFT + (m["how"] == "wrap") * ops.SHF_WRAP
    _emit(e, ops.SHF, m, "b32", mode=mode, of="b32 b32 u32")


@TABLE.form("popc.type d, a", "clz.type d, a", type="b32 b64")
@TABLE.form("brev.type d, a", type="b32 b64")
def _count(e: Encoder, m: Match) -> None:
    op = {"popc": ops.POPC, "clz": ops.CLZ, "brev": ops.BREV}[m.instruction.opcode]
    _emit(e, op, m, m["type"], result="" if op == ops.BREV else _COUNTS)


@TABLE.form("bfind{.shiftamt}.type d, a", type="u32 u64 s32 s64")
def _find(e: Encoder, m: Match) -> None:
    mode = ops.SHIFT_AMOUNT if m["shiftamt"] else 0
    _emit(e, ops.BFIND, m, m["type"], result=_COUNTS, mode=mode)


@TABLE.form("bfe.type d, a, b, c", type="u32 u64 s32 s64")
def _extract(e: Encoder, m: Match) -> None:
    _emit(e, ops.BFE, m, m["type"], of=f"{m['type']} u32 u32")


@TABLE.form("bfi.type d, a, b, c, n", type="b32 b64")
def _insert(e: Encoder, m: Match) -> None:
    _emit(e, ops.BFI, m, m["type"], of=f"{m['type']} {m['type']} u32 u32")


@TABLE.form("fns.b32 d, a, base, offset")
def _nth(e: Encoder, m: Match) -> None:
    _emit(e, ops.FNS, m, "b32", of="b32 b32 s32")


@TABLE.form("bmsk.how.b32 d, a, b", how="clamp wrap")
@TABLE.form("szext.how.type d, a, b", how="clamp wrap", type="u32 s32")
def _mask(e: Encoder, m: Match) -> None:
    op = ops.BMSK if m.instruction.opcode == "bmsk" else ops.SZEXT
    mode = ops.CLAMP if m["how"] == "clamp" else 0
    _emit(e, op, m, m["type"] or "b32", mode=mode, of=f"{m['type'] or 'b32'} u32")


@TABLE.form("prmt.b32{.mode} d, a, b, c", mode=" ".join(ops.PRMT_MODES[1:]))
def _permute(e: Encoder, m: Match) -> None:
    _emit(e, ops.PRMT, m, "b32", mode=ops.PRMT_MODES.index(m["mode"]))


# ------------------------------------------------------------------ choice, comparison, mov


@TABLE.form("selp.type d, a, b, c", type=f"b16 b32 b64 {_NUMBERS} f32 f64")
def _select(e: Encoder, m: Match) -> None:
    kind = m["type"]
    a, b = e.source(m.operands[1], kind), e.source(m.operands[2], kind)
    c, negated = e.predicate(m.operands[3])
    code = TYPE_CODES[kind]
    d0 = e.result(m.operands[0], kind)
    e.emit(ops.SELP, type=code, type2=code, d0=d0, a=a, b=b, c=c, x1=negated)


@TABLE.form("slct{.ftz}.type.f32 d, a, b, c", "slct.type.s32 d, a, b, c",
            type=f"b16 b32 b64 {_NUMBERS} f32 f64")  # fmt: skip
def _select_by_sign(e: Encoder, m: Match) -> None:
    kind = m["type"]
    by = m.instruction.modifiers[-1]
    a, b, c = (
        e.source(m.operands[1], kind),
        e.source(m.operands[2], kind),
        e.source(m.operands[3], by),
    )
    d0 = e.result(m.operands[0], kind)
    e.emit(ops.SLCT, type=TYPE_CODES[by], type2=TYPE_CODES[kind], mode=m["ftz"] != "", d0=d0, a=a, b=b,
           c=c)  # fmt: skip


_COMPARED = "b16 b32 b64 " + _NUMBERS


def _compared(e: Encoder, m: Match, op: int, first: str, second: str, type2: int) -> None:
    kind, comparison = m["type"], m["cmp"]
    if kind.startswith("b") and comparison not in ("eq", "ne"):
        raise e.refuse("bits are equal or not: .eq or .ne")
    if kind.startswith("s") and comparison in ("lo", "ls", "hi", "hs"):
        raise e.refuse(f".{comparison} compares unsigned numbers")
    a, b = e.source(m.operands[1], kind), e.source(m.operands[2], kind)
    d0, d1 = e.results(m.operands[0], first, second)
    extra = {}
    if m["bool"]:
        extra["x0"], extra["x1"] = e.predicate(m.operands[3])
    e.emit(
        op,
        type=TYPE_CODES[kind],
        type2=type2,
        mode=ops.COMPARISONS.index(comparison),
        mode2=ops.COMBINE.index(m["bool"]),
        d0=d0,
        d1=d1,
        a=a,
        b=b,
        **extra,
    )


_CMP = " ".join(ops.COMPARISONS)


@TABLE.form("setp.cmp.type p, a, b", "setp.cmp.bool.type p, a, b, c", cmp=_CMP, bool="and or xor",
            type=_COMPARED)  # fmt: skip
def _setp(e: Encoder, m: Match) -> None:
    _compared(e, m, ops.SETP, "pred", "pred", 0)


@TABLE.form("set.cmp.dtype.type d, a, b", "set.cmp.bool.dtype.type d, a, b, c", cmp=_CMP,
            bool="and or xor", dtype="u32 s32 f32 f16 bf16", type=_COMPARED)  # fmt: skip
def _set(e: Encoder, m: Match) -> None:
    dtype = m["dtype"]
    result = "b16" if dtype.endswith("f16") else dtype
    _compared(e, m, ops.SET, result, result, TYPE_CODES[dtype])


@TABLE.form("mov.vec.type {d}, {a}", vec="v2 v4", type="u16 u32 b16 b32 f32 s32")
def _mov_vector(e: Encoder, m: Match) -> None:
    """Vectors of registers, and special registers of four parts such as ``%tid``."""
    into, out = m.operands
    assert isinstance(into, Vector) and isinstance(out, Vector)
    if not len(into.elements) == len(out.elements) == int(m["vec"][1:]):
        raise e.refuse(f"as many registers as .{m['vec']} says on both sides")
    sources = [e.source(element, m["type"]) for element in out.elements]
    results = [e.result(element, m["type"]) for element in into.elements]
    if set(results) & set(sources):
        raise e.refuse("results that are sources, too, are not supported")
    code = TYPE_CODES[m["type"]]
    for d0, a in zip(results, sources, strict=True):
        e.emit(ops.MOV, type=code, type2=code, d0=d0, a=a)


@TABLE.form("mov.b128 d, a", "mov.b128 d, {a}", "mov.b128 {d}, a")
def _mov_wide(e: Encoder, m: Match) -> None:
    """Registers of 128 bits are two of 64 here."""
    sources, results = e.halves(m.operands[1]), e.halves(m.operands[0], result=True)
    if results[0] in sources[1:]:
        raise e.refuse("results that are sources, too, are not supported")
    b64 = TYPE_CODES["b64"]
    for d0, a in zip(results, sources, strict=True):
        if d0 >= 0:
            e.emit(ops.MOV, type=b64, type2=b64, d0=d0, a=a)


@TABLE.form("mov.type d, a", type=f"pred b16 b32 b64 {_NUMBERS} f32 f64 f16 bf16 f16x2 bf16x2")
def _mov(e: Encoder, m: Match) -> None:
    _emit(e, ops.MOV, m, m["type"])
