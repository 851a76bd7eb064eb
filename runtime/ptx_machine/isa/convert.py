"""Forms of the convert family: cvt, and mov between a register and a vector of narrower ones."""

from __future__ import annotations

from tiledsl.runtime.ptx_machine.forms import Match, Table
from tiledsl.runtime.ptx_machine.isa import convert_ops as ops
from tiledsl.runtime.ptx_machine.opcodes import BITS, CONVERT, TYPE_CODES
from tiledsl.runtime.ptx_machine.program import Encoder
from tiledsl.runtime.ptx_machine.syntax import Vector

TABLE = Table(CONVERT)

_INTEGERS = "u8 u16 u32 u64 s8 s16 s32 s64"
_FLOATS = "f16 bf16 f32 f64"
_FRND = {"rn": 0, "rz": 1, "rm": 2, "rp": 3, "rna": 4, "rni": 0, "rzi": 1, "rmi": 2, "rpi": 3}
_BITS = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "tf32": "b32",
         "e4m3x2": "b16", "e5m2x2": "b16"}  # fmt: skip


def _convert(e: Encoder, m: Match, op: int, target: str, source: str, mode: int) -> None:
    a = e.source(m.operands[1], _BITS.get(source, source))
    columns = {"b": e.source(m.operands[2], source)} if len(m.operands) > 2 else {}
    d0 = e.result(m.operands[0], _BITS.get(target, target))
    width = e.width(m.operands[0]) or BITS[TYPE_CODES[target]]
    e.emit(
        op,
        type=TYPE_CODES[target],
        type2=TYPE_CODES[source],
        mode=mode,
        d0=d0,
        a=a,
        nvec=width,
        **columns,
    )


def _mode(m: Match) -> int:
    mode = _FRND[m["rnd"] or "rn"]
    for name, bit in (
        ("ftz", ops.FTZ), ("sat", ops.SAT), ("relu", ops.RELU), ("satfinite", ops.SATFINITE),
    ):  # fmt: skip
        mode |= bit if m[name] else 0
    return mode


@TABLE.form("cvt{.sat}.dtype.atype d, a", dtype=_INTEGERS, atype=_INTEGERS)
def _integers(e: Encoder, m: Match) -> None:
    _convert(e, m, ops.CVT, m["dtype"], m["atype"], _mode(m))


@TABLE.form("cvt.rnd{.ftz}{.sat}.dtype.atype d, a", rnd="rni rzi rmi rpi", dtype=_INTEGERS,
            atype=_FLOATS)  # fmt: skip
def _to_integer(e: Encoder, m: Match) -> None:
    _convert(e, m, ops.CVT, m["dtype"], m["atype"], _mode(m))


@TABLE.form("cvt.rnd{.sat}.dtype.atype d, a", rnd="rn rz rm rp", dtype=_FLOATS, atype=_INTEGERS)
@TABLE.form("cvt.rnd.ftz{.sat}.f32.atype d, a", rnd="rn rz rm rp", atype=_INTEGERS)
def _from_integer(e: Encoder, m: Match) -> None:
    _convert(e, m, ops.CVT, m["dtype"] or "f32", m["atype"], _mode(m))


@TABLE.form("cvt{.rnd}{.ftz}{.sat}.dtype.atype d, a", "cvt{.rnd}{.relu}{.satfinite}.dtype.atype d, a",
            "cvt.rnd.satfinite.relu.dtype.atype d, a",
            rnd="rn rz rm rp rni rzi rmi rpi", dtype=_FLOATS, atype=_FLOATS)  # fmt: skip
def _floats(e: Encoder, m: Match) -> None:
    """Between floats; to an integer of the same type with rni, rzi, rmi, rpi."""
    target, source, rounding = m["dtype"], m["atype"], m["rnd"]
    narrows = BITS[TYPE_CODES[target]] < BITS[TYPE_CODES[source]]
    whole = rounding.endswith("i")
    if whole and target != source:
        raise e.refuse(f".{rounding} rounds to an integer of the same type")
    if narrows and not rounding:
        raise e.refuse("a rounding mode, as the result is narrower")
    if m["ftz"] and "f32" not in (target, source):
        raise e.refuse(".ftz is about f32, which this has not")
    widens_brain = source == "bf16" and target in (
        "f32",
        "f64",
    )  # ptxas takes a mode that does nothing
    rounds = narrows or widens_brain or {target, source} == {"f16", "bf16"}
    if rounding and not whole and not rounds:
        raise e.refuse("no rounding mode: every value fits the result")
    _convert(e, m, ops.CVT, target, source, _mode(m) | (ops.TO_INTEGER if whole else 0))


@TABLE.form("cvt.rnd{.satfinite}{.relu}.tf32.f32 d, a", rnd="rn rz rna")
def _tf32(e: Encoder, m: Match) -> None:
    _convert(e, m, ops.CVT, "tf32", "f32", _mode(m))


@TABLE.form("cvt.rnd{.relu}{.satfinite}.dtype.f32 d, a, b", "cvt.rnd.satfinite.relu.dtype.f32 d, a, b",
            rnd="rn rz", dtype="f16x2 bf16x2")  # fmt: skip
@TABLE.form("cvt.rn.satfinite{.relu}.dtype.f32 d, a, b", "cvt.rn.relu.satfinite.dtype.f32 d, a, b",
            dtype="e4m3x2 e5m2x2")  # fmt: skip
def _pair(e: Encoder, m: Match) -> None:
    """Two numbers into the halves of a register, the first into the upper one."""
    _convert(e, m, ops.CVT_PAIR, m["dtype"], "f32", _mode(m))


@TABLE.form("cvt.rn{.relu}.f16x2.atype d, a", atype="e4m3x2 e5m2x2")
def _unpair(e: Encoder, m: Match) -> None:
    _convert(e, m, ops.CVT_UNPAIR, "f16x2", m["atype"], _mode(m))


@TABLE.form("cvt.rn.satfinite{.relu}.dtype.f16x2 d, a", "cvt.rn.relu.satfinite.dtype.f16x2 d, a",
            dtype="e4m3x2 e5m2x2")  # fmt: skip
def _narrow_pair(e: Encoder, m: Match) -> None:
    _convert(e, m, ops.CVT_UNPAIR, m["dtype"], "f16x2", _mode(m))


@TABLE.form("cvt.pack.sat.dtype.s32 d, a, b", dtype="u16 s16")
@TABLE.form("cvt.pack.sat.dtype.s32.b32 d, a, b, c", dtype="u8 s8")
def _saturated_pair(e: Encoder, m: Match) -> None:
    """Two integers cut to a smaller type, a above b; below the lower part of c, if there is one."""
    a, b = e.source(m.operands[1], "s32"), e.source(m.operands[2], "s32")
    columns = {"c": e.source(m.operands[3], "b32")} if len(m.operands) > 3 else {}
    d0 = e.result(m.operands[0], "b32")
    e.emit(ops.CVT_PACK, type=TYPE_CODES[m["dtype"]], type2=TYPE_CODES["s32"], mode=ops.SAT, d0=d0,
           a=a, b=b, nvec=32, **columns)  # fmt: skip


@TABLE.form("mov.type d, {a}", "mov.type {d}, a", type="b16 b32 b64")
def _packing(e: Encoder, m: Match) -> None:
    into, out = m.operands
    packs = isinstance(out, Vector)
    vector = out if packs else into
    assert isinstance(vector, Vector)
    total, count = BITS[TYPE_CODES[m["type"]]], len(vector.elements)
    if count not in (2, 4) or total // count < 8:
        raise e.refuse(f"2 or 4 parts of at least 8 bits, not {count} of .{m['type']}")
    part = f"b{total // count}"
    place, number = e.vector(vector, part, result=not packs)
    columns = {"d0": e.result(into, m["type"])} if packs else {"a": e.source(out, m["type"])}
    e.emit(
        ops.PACK if packs else ops.UNPACK,
        type=TYPE_CODES[m["type"]],
        vec=place,
        nvec=number,
        **columns,
    )
