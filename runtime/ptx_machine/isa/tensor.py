"""Forms of the tensor family: wgmma, mma, ldmatrix, stmatrix."""

from __future__ import annotations

from tiledsl.runtime.ptx_machine.forms import Match, Table
from tiledsl.runtime.ptx_machine.isa import tensor_ops as ops
from tiledsl.runtime.ptx_machine.opcodes import GENERIC, SHARED, TENSOR, TYPE_CODES
from tiledsl.runtime.ptx_machine.program import Encoder
from tiledsl.runtime.ptx_machine.syntax import Operand, Vector

TABLE = Table(TENSOR)

_INTEGER_N = (8, 16, 24, *range(32, 257, 16))


def _shapes(k: int, numbers: tuple[int, ...] = tuple(range(8, 257, 8))) -> str:
    return " ".join(f"m64n{n}k{k}" for n in numbers)


_A = "wgmma.mma_async.sync.aligned"


@TABLE.form(f"{_A}.shape.dtype.f16.f16 d, a, b, p, sa, sb, ta, tb",
            f"{_A}.shape.dtype.f16.f16 d, {{a}}, b, p, sa, sb, tb",
            shape=_shapes(16), dtype="f16 f32")  # fmt: skip
@TABLE.form(f"{_A}.shape.f32.bf16.bf16 d, a, b, p, sa, sb, ta, tb",
            f"{_A}.shape.f32.bf16.bf16 d, {{a}}, b, p, sa, sb, tb", shape=_shapes(16))  # fmt: skip
@TABLE.form(f"{_A}.shape.f32.tf32.tf32 d, a, b, p, sa, sb",
            f"{_A}.shape.f32.tf32.tf32 d, {{a}}, b, p, sa, sb", shape=_shapes(8))  # fmt: skip
@TABLE.form(f"{_A}.shape.dtype.atype.btype d, a, b, p, sa, sb",
            f"{_A}.shape.dtype.atype.btype d, {{a}}, b, p, sa, sb", shape=_shapes(32),
            dtype="f16 f32", atype="e4m3 e5m2", btype="e4m3 e5m2")  # fmt: skip
@TABLE.form(f"{_A}.shape{{.satfinite}}.s32.atype.btype d, a, b, p",
            f"{_A}.shape{{.satfinite}}.s32.atype.btype d, {{a}}, b, p",
            shape=_shapes(32, _INTEGER_N), atype="s8 u8", btype="s8 u8")  # fmt: skip
def _wgmma(e: Encoder, m: Match) -> None:
    shape = m["shape"]
    n = int(shape[4:].partition("k")[0])
    words = m.instruction.modifiers
    dtype, atype, btype = words[-3:]
    operands = list(m.operands)
    in_registers = isinstance(operands[1], Vector)
    register = "f32" if dtype == "f32" else "b32"
    place, count = e.vector(operands[0], register)
    e.vector(operands[0], register, result=True)
    expected = n // 4 if dtype == "f16" else n // 2
    if count != expected:
        raise e.refuse(f"{expected} accumulators for {shape} in .{dtype}, not {count}")
    columns: dict[str, int] = {}
    mode = 0
    if in_registers:
        mode |= ops.A_REGISTERS
        columns["vec2"], columns["nvec2"] = e.vector(operands[1], "b32")
        if columns["nvec2"] != 4:
            raise e.refuse(f"4 registers of A, not {columns['nvec2']}")
    else:
        columns["a"] = e.source(operands[1], "b64")
    b = e.source(operands[2], "b64")
    scale, negated = e.predicate(operands[3])
    rest = [e.immediate(o) for o in operands[4:]]
    if rest:
        if any(sign not in (-1, 1) for sign in rest[:2]):
            raise e.refuse(f"scales of 1 or -1, not {rest[0]} and {rest[1]}")
        mode |= (rest[0] < 0) * ops.A_NEGATED | (rest[1] < 0) * ops.B_NEGATED
        turned = rest[2:]
        if any(flag not in (0, 1) for flag in turned):
            raise e.refuse("transposes of 0 or 1")
        if turned:
            mode |= turned[-1] * ops.B_TRANSPOSED
        if len(turned) == 2:
            mode |= turned[0] * ops.A_TRANSPOSED
    mode |= ops.SATURATE if m["satfinite"] else 0
    e.emit(ops.WGMMA, type=TYPE_CODES[atype], type2=TYPE_CODES[btype], mode=mode, vec=place,
           nvec=count, b=b, c=scale, x0=TYPE_CODES[dtype], x1=n, x2=negated, **columns)  # fmt: skip


@TABLE.form("wgmma.what.sync.aligned", what="fence commit_group")
@TABLE.form("wgmma.wait_group.sync.aligned n")
def _wg_sync(e: Encoder, m: Match) -> None:
    if m.operands:
        e.emit(ops.WG_WAIT, x0=e.immediate(m.operands[0]))
    else:
        e.emit(ops.WG_FENCE if m["what"] == "fence" else ops.WG_COMMIT)


# ------------------------------------------------------------------ mma.sync

# shape: (A's type, registers of A, of B; of C and D as float32 or int32)
_MMA = {
    "m16n8k8": {"f16": (2, 1), "bf16": (2, 1), "tf32": (4, 2), "f64": (4, 2)},
    "m16n8k16": {
        "f16": (4, 2),
        "bf16": (4, 2),
        "s8": (2, 1),
        "u8": (2, 1),
        "f64": (8, 4),
        "e4m3": (2, 1),
        "e5m2": (2, 1),
    },
    "m16n8k4": {"tf32": (2, 1), "f64": (2, 1)},
    "m16n8k32": {"s8": (4, 2), "u8": (4, 2), "e4m3": (4, 2), "e5m2": (4, 2)},
    "m8n8k4": {"f64": (1, 1)},
    "m8n8k16": {"s8": (1, 1), "u8": (1, 1)},
}


@TABLE.form("mma.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype d, a, b, c",
            shape=" ".join(_MMA), dtype="f16 f32 s32 f64", atype="f16 bf16 tf32 s8 u8 e4m3 e5m2 f64",
            btype="f16 bf16 tf32 s8 u8 e4m3 e5m2 f64", ctype="f16 f32 s32 f64")  # fmt: skip
def _mma(e: Encoder, m: Match) -> None:
    shape, dtype, atype = m["shape"], m["dtype"], m["atype"]
    if atype not in _MMA[shape]:
        raise e.refuse(f"{shape} takes A of {', '.join(_MMA[shape])}, not .{atype}")
    a, b = _MMA[shape][atype]
    if m["btype"] != atype and {m["btype"], atype} not in ({"s8", "u8"}, {"e4m3", "e5m2"}):
        raise e.refuse(f"B of .{atype}, not .{m['btype']}")
    wanted = {"s8": "s32", "u8": "s32", "f64": "f64", "bf16": "f32", "tf32": "f32"}.get(atype)
    if m["ctype"] != dtype or (wanted and dtype != wanted):
        raise e.refuse(f"C and D of .{wanted or dtype}")
    if m["satfinite"] and dtype != "s32":
        raise e.refuse(".satfinite is for integers")
    c = 2 if dtype == "f16" or shape.startswith("m8") else 4
    width = "f64" if atype == "f64" else "b32"
    accumulator = {"f64": "f64", "f32": "f32"}.get(dtype, "b32")
    lists = []
    for operand, count, kind, result in (
        (m.operands[0], c, accumulator, True), (m.operands[1], a, width, False),
        (m.operands[2], b, width, False), (m.operands[3], c, accumulator, False),
    ):  # fmt: skip
        place, number = e.vector(operand, kind, result=result)
        if number != count:
            raise e.refuse(f"{count} registers, not {number}")
        lists.append(place)
    vec2, nvec2 = e.words(lists)
    e.emit(ops.MMA, type=TYPE_CODES[atype], type2=TYPE_CODES[m["btype"]], x0=TYPE_CODES[dtype],
           x1=int(shape[1:].partition("n")[0]), x2=int(shape.partition("k")[2]), vec=lists[0], nvec=c,
           vec2=vec2, nvec2=nvec2, mode=ops.SATURATE if m["satfinite"] else 0)  # fmt: skip


# ------------------------------------------------------------------ matrices of 8 x 8


def _matrices(e: Encoder, m: Match, op: int, address: Operand, data: Operand, result: bool) -> None:
    count = int(m["num"][1:])
    place, number = e.vector(data, "b32", result=result)
    if number != count:
        raise e.refuse(f"{count} registers, not {number}")
    base, displacement = e.address(address)
    e.emit(op, mode=ops.TRANSPOSED if m["trans"] else 0, vec=place, nvec=count, a=base,
           imm=displacement, space=SHARED if m["ss"] else GENERIC)  # fmt: skip


@TABLE.form("ldmatrix.sync.aligned.m8n8.num{.trans}{.ss}.b16 d, [a]",
            "ldmatrix.sync.aligned.num.m8n8{.trans}{.ss}.b16 d, [a]", num="x1 x2 x4",
            ss="shared shared::cta")  # fmt: skip
def _ldmatrix(e: Encoder, m: Match) -> None:
    _matrices(e, m, ops.LDMATRIX, m.operands[1], m.operands[0], True)


@TABLE.form("stmatrix.sync.aligned.m8n8.num{.trans}{.ss}.b16 [a], b",
            "stmatrix.sync.aligned.num.m8n8{.trans}{.ss}.b16 [a], b", num="x1 x2 x4",
            ss="shared shared::cta")  # fmt: skip
def _stmatrix(e: Encoder, m: Match) -> None:
    _matrices(e, m, ops.STMATRIX, m.operands[0], m.operands[1], False)


@TABLE.form("movmatrix.sync.aligned.m8n8.trans.b16 d, a")
def _movmatrix(e: Encoder, m: Match) -> None:
    a, d0 = e.source(m.operands[1], "b32"), e.result(m.operands[0], "b32")
    e.emit(ops.MOVMATRIX, mode=ops.TRANSPOSED, d0=d0, a=a)
