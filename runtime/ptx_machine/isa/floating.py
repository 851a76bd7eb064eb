"""Forms of the floating family: f16, bf16, f32, f64 and packed arithmetic, comparisons."""

from __future__ import annotations

from tiledsl.runtime.ptx_machine.forms import Match, Table
from tiledsl.runtime.ptx_machine.isa import floating_ops as ops
from tiledsl.runtime.ptx_machine.opcodes import FLOATING, TYPE_CODES
from tiledsl.runtime.ptx_machine.program import Encoder

TABLE = Table(FLOATING)

_RND = "rn rz rm rp"
_HALF = "f16 f16x2"
_BRAIN = "bf16 bf16x2"
_OPS = {
    "add": ops.ADD, "sub": ops.SUB, "mul": ops.MUL, "fma": ops.FMA, "mad": ops.FMA, "div": ops.DIV,
    "min": ops.MIN, "max": ops.MAX, "abs": ops.ABS, "neg": ops.NEG, "sqrt": ops.SQRT, "rcp": ops.RCP,
    "rsqrt": ops.RSQRT, "ex2": ops.EX2, "lg2": ops.LG2, "sin": ops.SIN, "cos": ops.COS,
    "tanh": ops.TANH, "copysign": ops.COPYSIGN,
}  # fmt: skip
# Packed and 16-bit registers hold bits: their operands are named so.
_BITS = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}


def mode_of(m: Match) -> int:
    """The modifiers that MODE holds."""
    mode = ops.ROUNDINGS.index(m["rnd"] or "rn")
    for name, bit in (
        ("ftz", ops.FTZ), ("sat", ops.SAT), ("relu", ops.RELU), ("NaN", ops.NAN),
        ("xorsign", ops.XORSIGN), ("approx", ops.APPROX), ("full", ops.FULL),
    ):  # fmt: skip
        mode |= bit if m[name] else 0
    return mode


_F32 = "{.ftz}{.sat}.f32"


@TABLE.form("add{.rnd}{.ftz}{.sat}.f32 d, a, b", "sub{.rnd}{.ftz}{.sat}.f32 d, a, b",
            "mul{.rnd}{.ftz}{.sat}.f32 d, a, b", "fma.rnd{.ftz}{.sat}.f32 d, a, b, c",
            "mad{.rnd}{.ftz}{.sat}.f32 d, a, b, c", rnd=_RND)  # fmt: skip
@TABLE.form("add{.rnd}.f64 d, a, b", "sub{.rnd}.f64 d, a, b", "mul{.rnd}.f64 d, a, b",
            "fma.rnd.f64 d, a, b, c", "mad.rnd.f64 d, a, b, c", rnd=_RND)  # fmt: skip
@TABLE.form("add{.rnd}{.ftz}{.sat}.half d, a, b", "sub{.rnd}{.ftz}{.sat}.half d, a, b",
            "mul{.rnd}{.ftz}{.sat}.half d, a, b", "fma.rnd{.ftz}{.sat}.half d, a, b, c",
            "fma.rnd{.ftz}.relu.half d, a, b, c", rnd="rn", half=_HALF)  # fmt: skip
@TABLE.form("add{.rnd}.half d, a, b", "sub{.rnd}.half d, a, b", "mul{.rnd}.half d, a, b",
            "fma.rnd{.relu}.half d, a, b, c", rnd="rn", half=_BRAIN)  # fmt: skip
@TABLE.form("div.rnd{.ftz}.f32 d, a, b", "div.approx{.ftz}.f32 d, a, b", "div.full{.ftz}.f32 d, a, b",
            "div.rnd.f64 d, a, b", rnd=_RND)  # fmt: skip
@TABLE.form("min{.ftz}{.NaN}.f32 d, a, b", "max{.ftz}{.NaN}.f32 d, a, b",
            "min.f64 d, a, b", "max.f64 d, a, b")  # fmt: skip
@TABLE.form("min{.ftz}{.NaN}.xorsign.abs.kind d, a, b", "max{.ftz}{.NaN}.xorsign.abs.kind d, a, b",
            kind="f32 f16 f16x2")  # fmt: skip
@TABLE.form("min{.NaN}.xorsign.abs.half d, a, b", "max{.NaN}.xorsign.abs.half d, a, b", half=_BRAIN)
@TABLE.form("min{.ftz}{.NaN}.half d, a, b", "max{.ftz}{.NaN}.half d, a, b", half=_HALF)
@TABLE.form("min{.NaN}.half d, a, b", "max{.NaN}.half d, a, b", half=_BRAIN)
@TABLE.form("abs{.ftz}.kind d, a", "neg{.ftz}.kind d, a", kind="f32 f16 f16x2")
@TABLE.form("abs.kind d, a", "neg.kind d, a", kind="f64 bf16 bf16x2")
@TABLE.form("rcp.approx{.ftz}.f32 d, a", "rcp.rnd{.ftz}.f32 d, a", "rcp.rnd.f64 d, a",
            "sqrt.approx{.ftz}.f32 d, a", "sqrt.rnd{.ftz}.f32 d, a", "sqrt.rnd.f64 d, a",
            "rsqrt.approx{.ftz}.f32 d, a", "rsqrt.approx{.ftz}.f64 d, a", "rcp.approx.ftz.f64 d, a", "sin.approx{.ftz}.f32 d, a",
            "cos.approx{.ftz}.f32 d, a", "lg2.approx{.ftz}.f32 d, a", "ex2.approx{.ftz}.f32 d, a",
            "tanh.approx.f32 d, a", rnd=_RND)  # fmt: skip
@TABLE.form("ex2.approx.kind d, a", "tanh.approx.kind d, a", kind=_HALF)
@TABLE.form("ex2.approx.ftz.kind d, a", kind=_BRAIN)
@TABLE.form("tanh.approx.kind d, a", kind=_BRAIN)
@TABLE.form("copysign.kind d, a, b", kind="f32 f64")
def _arithmetic(e: Encoder, m: Match) -> None:
    kind = m.instruction.modifiers[-1]
    bits = _BITS.get(kind, kind)
    sources = [e.source(o, bits) for o in m.operands[1:]]
    e.emit(
        _OPS[m.instruction.opcode],
        type=TYPE_CODES[kind],
        mode=mode_of(m),
        d0=e.result(m.operands[0], bits),
        **dict(zip("abc", sources, strict=False)),
    )


_CMP = " ".join(ops.COMPARISONS)
_BOOL = "and or xor"


@TABLE.form("setp.cmp{.ftz}.kind p, a, b", "setp.cmp.bool{.ftz}.kind p, a, b, c", cmp=_CMP,
            bool=_BOOL, kind="f32 f16 f16x2")  # fmt: skip
@TABLE.form("setp.cmp.kind p, a, b", "setp.cmp.bool.kind p, a, b, c", cmp=_CMP, bool=_BOOL,
            kind="f64 bf16 bf16x2")  # fmt: skip
def _setp(e: Encoder, m: Match) -> None:
    _compared(e, m, ops.SETP, "pred")


@TABLE.form("set.cmp{.ftz}.dtype.kind d, a, b", "set.cmp.bool{.ftz}.dtype.kind d, a, b, c", cmp=_CMP,
            bool=_BOOL, dtype="u32 s32 f32 f16 bf16 u16 s16 f16x2 bf16x2",
            kind="f32 f64 f16 bf16 f16x2 bf16x2")  # fmt: skip
def _set(e: Encoder, m: Match) -> None:
    _compared(e, m, ops.SET, _BITS.get(m["dtype"], m["dtype"]))


def _compared(e: Encoder, m: Match, op: int, result: str) -> None:
    kind = m["kind"]
    bits = _BITS.get(kind, kind)
    a, b = e.source(m.operands[1], bits), e.source(m.operands[2], bits)
    d0, d1 = e.results(m.operands[0], result, result)
    extra = {}
    if m["bool"]:
        extra["x0"], extra["x1"] = e.predicate(m.operands[3])
    e.emit(
        op,
        type=TYPE_CODES[kind],
        type2=TYPE_CODES[m["dtype"]] if m["dtype"] else 0,
        mode=mode_of(m),
        mode2=ops.COMPARISONS.index(m["cmp"]) + 32 * ops.COMBINE.index(m["bool"]),
        d0=d0,
        d1=d1,
        a=a,
        b=b,
        **extra,
    )


@TABLE.form("testp.test.kind p, a", test=" ".join(ops.TESTS), kind="f32 f64")
def _testp(e: Encoder, m: Match) -> None:
    a, d0 = e.source(m.operands[1], m["kind"]), e.result(m.operands[0], "pred")
    e.emit(ops.TESTP, type=TYPE_CODES[m["kind"]], mode2=ops.TESTS.index(m["test"]), d0=d0, a=a)
