"""Forms of the memory family: loads, stores, atomics, addresses of other spaces, prefetches."""

from __future__ import annotations

from tiledsl.runtime.ptx_machine.forms import Match, Table
from tiledsl.runtime.ptx_machine.isa import memory_ops as ops
from tiledsl.runtime.ptx_machine.opcodes import (
    BITS,
    CONST,
    GENERIC,
    GLOBAL,
    LOCAL,
    MEMORY,
    PARAM,
    SHARED,
    TYPE_CODES,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.program import Encoder
from tiledsl.runtime.ptx_machine.syntax import Address, Operand, Vector

TABLE = Table(MEMORY)

_SPACES = {
    "": GENERIC,
    "param": PARAM, "param::entry": PARAM, "param::func": PARAM,
    "shared": SHARED, "shared::cta": SHARED, "shared::cluster": SHARED,
    "local": LOCAL, "global": GLOBAL, "const": CONST,
}  # fmt: skip
_SS = " ".join(_SPACES)
_TYPES = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
_SCOPE = "cta cluster gpu sys"
_CACHE = "ca cg cs lu cv wb wt"
# Where data stays in the caches: it changes no value.
_L1 = "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"
_L2 = "L2::evict_normal L2::evict_first L2::evict_last"
_PREFETCH = "L2::64B L2::128B L2::256B"


@TABLE.form(
    "ld{.weak}{.ss}{.cop}{.l1}{.l2}{.l2::cache_hint}{.prefetch}{.vec}.type d, [a]{, policy}",
    "ld.volatile{.ss}{.prefetch}{.vec}.type d, [a]",
    "ld.sem.scope{.ss}{.l1}{.l2}{.l2::cache_hint}{.prefetch}{.vec}.type d, [a]{, policy}",
    "ld.mmio.relaxed.sys{.ss}.type d, [a]",
    "ld.global{.cop}{.l1}{.l2}.nc{.l1}{.l2}{.l2::cache_hint}{.prefetch}{.vec}.type d, [a]{, policy}",
    # Orders that the manual does not have, and ptxas takes.
    "ld.global.nc.cop{.l1}{.l2}{.l2::cache_hint}{.prefetch}{.vec}.type d, [a]{, policy}",
    "ld{.cop}.nc{.l1}{.l2::cache_hint}{.prefetch}.global{.vec}.type d, [a]{, policy}",
    "ld{.cop}{.l1}{.l2::cache_hint}{.prefetch}.global{.vec}.type d, [a]{, policy}",
    "ldu{.global}{.vec}.type d, [a]",
    ss=_SS, cop=_CACHE, l1=_L1, l2=_L2, prefetch=_PREFETCH, vec="v2 v4 v8", type=_TYPES,
    sem="relaxed acquire", scope=_SCOPE, **{"l2::cache_hint": "L2::cache_hint"},
)  # fmt: skip
def _ld(e: Encoder, m: Match) -> None:
    _access(e, m, ops.LD)


@TABLE.form(
    "st{.weak}{.ss}{.cop}{.l1}{.l2}{.l2::cache_hint}{.vec}.type [a], b{, policy}",
    "st.volatile{.ss}{.vec}.type [a], b",
    "st.sem.scope{.ss}{.l1}{.l2}{.l2::cache_hint}{.vec}.type [a], b{, policy}",
    "st.mmio.relaxed.sys{.ss}.type [a], b",
    ss=_SS, cop=_CACHE, l1=_L1, l2=_L2, vec="v2 v4 v8", type=_TYPES,
    sem="relaxed release", scope=_SCOPE, **{"l2::cache_hint": "L2::cache_hint"},
)  # fmt: skip
def _st(e: Encoder, m: Match) -> None:
    _access(e, m, ops.ST)


def _access(e: Encoder, m: Match, op: int) -> None:
    """A register may be wider than what is moved: it is extended as the type says."""
    kind, words = m["type"], m.instruction.modifiers
    place, data = (1, 0) if op == ops.LD else (0, 1)
    base, displacement = e.address(m.operands[place])
    vector, count = e.vector(m.operands[data], kind, result=op == ops.LD)
    expected = int(m["vec"][1:]) if m["vec"] else 1
    if count != expected:
        raise e.refuse(f"{expected} registers, not {count}")
    if len(m.operands) > 2:
        e.source(m.operands[2], "b64")
    mode = ops.WEAK
    for name, code in (
        ("volatile", ops.VOLATILE), ("relaxed", ops.RELAXED), ("acquire", ops.ACQUIRE),
        ("release", ops.RELEASE),
    ):  # fmt: skip
        mode = code if name in words else mode
    space = GLOBAL if "nc" in words else _SPACES[m["ss"]]
    if space == CONST and op == ops.ST:
        raise e.refuse("constant memory cannot be written")
    widest = max([e.width(o) for o in _elements(m.operands[data])], default=64)
    e.emit(
        op,
        type=TYPE_CODES[kind],
        type2=TYPE_CODES[f"b{max(widest, 16)}"],
        mode=mode,
        a=base,
        imm=displacement,
        vec=vector,
        nvec=count,
        space=space,
    )


@TABLE.form("ld{.weak}{.ss}{.cop}.b128 d, [a]", "ld.volatile{.ss}.b128 d, [a]",
            "ld.sem.scope{.ss}.b128 d, [a]", "ld.global{.cop}.nc.b128 d, [a]", ss=_SS, cop=_CACHE,
            sem="relaxed acquire", scope=_SCOPE)  # fmt: skip
@TABLE.form("st{.weak}{.ss}{.cop}.b128 [a], b", "st.volatile{.ss}.b128 [a], b",
            "st.sem.scope{.ss}.b128 [a], b", ss=_SS, cop=_CACHE, sem="relaxed release",
            scope=_SCOPE)  # fmt: skip
def _wide_access(e: Encoder, m: Match) -> None:
    """A register of 128 bits is two of 64."""
    loads, words = m.instruction.opcode == "ld", m.instruction.modifiers
    base, displacement = e.address(m.operands[1 if loads else 0])
    vector, count = e.words([*e.halves(m.operands[0 if loads else 1], result=loads)])
    mode = {"relaxed": ops.RELAXED, "acquire": ops.ACQUIRE, "release": ops.RELEASE}.get(m["sem"])
    space = GLOBAL if "nc" in words else _SPACES[m["ss"]]
    if space == CONST and not loads:
        raise e.refuse("constant memory cannot be written")
    e.emit(ops.LD if loads else ops.ST, type=TYPE_CODES["b64"], type2=TYPE_CODES["b64"],
           mode=mode or (ops.VOLATILE if "volatile" in words else ops.WEAK), a=base,
           imm=displacement, vec=vector, nvec=count, space=space)  # fmt: skip


@TABLE.form("atom{.sem}{.scope}{.ss}.exch.b128 d, [a], b", "atom{.sem}{.scope}{.ss}.cas.b128 d, [a], b, c",
            sem="relaxed acquire release acq_rel", scope=_SCOPE,
            ss="global shared shared::cta shared::cluster")  # fmt: skip
def _wide_atom(e: Encoder, m: Match) -> None:
    base, displacement = e.address(m.operands[1])
    sources = [half for operand in m.operands[2:] for half in e.halves(operand)]
    vector, _ = e.words([*e.halves(m.operands[0], result=True), *sources])
    e.emit(ops.ATOM_WIDE, mode2=ops.A_EXCH if len(sources) == 2 else ops.A_CAS, a=base,
           imm=displacement, vec=vector, nvec=2, space=_SPACES[m["ss"]])  # fmt: skip


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


_ATOM_SPACES = "global shared shared::cta shared::cluster"
_SEM = "relaxed acquire release acq_rel"
_TWO = "exch and or xor"
# The manual has the operation behind all others; ptxas takes them in any order, and libcu++ puts it
# first.
_FORMS = tuple(
    order.replace("OP", op)
    for op in (".op", ".add.noftz")
    for order in (
        "{.sem}{.scope}{.ss}OP{.l2::cache_hint}",
        "{.ss}{.sem}{.scope}OP{.l2::cache_hint}",
        "OP{.sem}{.scope}{.ss}{.l2::cache_hint}",
        "OP.ss{.sem}{.scope}{.l2::cache_hint}",
    )
)
_ATOM_TYPES = {
    "exch": "b32 b64", "cas": "b16 b32 b64", "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64",
    "add": "u32 s32 u64 s64 f32 f64", "inc": "u32", "dec": "u32",
    "min": "u32 s32 u64 s64", "max": "u32 s32 u64 s64",
}  # fmt: skip
_WHERE = {
    "sem": _SEM, "scope": _SCOPE, "ss": _ATOM_SPACES, "op": " ".join(ops.ATOMS),
    "type": "b16 b32 b64 u32 s32 u64 s64 f32 f64", "half": "f16 bf16 f16x2 bf16x2",
    "l2::cache_hint": "L2::cache_hint",
}  # fmt: skip


_ENDS = tuple(form + (".half" if "noftz" in form else ".type") for form in _FORMS)
_VECTORS = (
    "{.sem}{.scope}.global.end{.noftz}{.l2::cache_hint}.vec.part",
    "{.sem}{.scope}.global.vec.part.end{.noftz}{.l2::cache_hint}",
)
_PARTS = {"vec": "v2 v4 v8", "part": "f32 f16 bf16 f16x2 bf16x2", "noftz": "noftz",
          "end": "add min max"}  # fmt: skip


@TABLE.form(*(f"atom{form} {{d}}, [a], {{b}}{{, policy}}" for form in _VECTORS), **_WHERE, **_PARTS)
@TABLE.form(*(f"red{form} [a], {{b}}{{, policy}}" for form in _VECTORS), **_WHERE, **_PARTS)
def _atom_vector(e: Encoder, m: Match) -> None:
    """Element by element, each atomic on its own."""
    kind, operands = m["part"], list(m.operands)
    count, code = int(m["vec"][1:]), TYPE_CODES[m["part"]]
    if (kind == "f32") == bool(m["noftz"]) or (kind == "f32" and m["end"] != "add"):
        raise e.refuse(".add of .f32, and .add.noftz, .min.noftz or .max.noftz of the others")
    results = [-1] * count
    if m.instruction.opcode == "atom":
        results = [e.result(o, kind) for o in _elements(operands.pop(0))]
    base, displacement = e.address(operands.pop(0))
    sources = [e.source(o, kind) for o in _elements(operands.pop(0))]
    if not len(results) == len(sources) == count:
        raise e.refuse(f"{count} registers, not {len(sources)}")
    if len(operands) != (m["l2::cache_hint"] != ""):
        raise e.refuse("a cache policy as last operand with .L2::cache_hint, and only then")
    for k in range(count):
        how = ops.ATOMS.index(m["end"])
        e.emit(ops.ATOM, type=code, type2=code, mode2=how, d0=results[k], a=base, b=sources[k],
               imm=displacement + k * BITS[code] // 8, space=GLOBAL)  # fmt: skip


@TABLE.form(*(f"atom{form} d, [a], b{{, c}}{{, policy}}" for form in _ENDS), **_WHERE)
@TABLE.form(*(f"red{form} [a], b{{, policy}}".replace(".sem", ".weaker") for form in _ENDS),
            weaker="relaxed release", **_WHERE)  # fmt: skip
def _atom(e: Encoder, m: Match) -> None:
    how, kind = m["op"] or "add", m["type"] or m["half"]
    if m["op"] and kind not in _ATOM_TYPES[how].split():
        raise e.refuse(f".{how} takes one of {_ATOM_TYPES[how]}, not .{kind}")
    reduces = m.instruction.opcode == "red"
    operands = list(m.operands)
    d0 = -1 if reduces else e.result(operands.pop(0), kind)
    base, displacement = e.address(operands.pop(0))
    b = e.source(operands.pop(0), kind)
    if reduces and how in ("exch", "cas"):
        raise e.refuse(f"red has no .{how}: its result is what they are for")
    columns = {"c": e.source(operands.pop(0), kind)} if how == "cas" else {}
    hinted = m["l2::cache_hint"] != ""
    if len(operands) != hinted:
        raise e.refuse("a cache policy as last operand with .L2::cache_hint, and only then")
    if hinted:
        e.source(operands.pop(0), "b64")
    e.emit(
        ops.ATOM,
        type=TYPE_CODES[kind],
        type2=TYPE_CODES[kind],
        mode2=ops.ATOMS.index(how),
        d0=d0,
        a=base,
        b=b,
        imm=displacement,
        space=_SPACES[m["ss"]],
        **columns,
    )


# ------------------------------------------------------------------ addresses


@TABLE.form("cvta{.to}.ss.type d, a", ss=_SS, type="u32 u64")
def _cvta(e: Encoder, m: Match) -> None:
    op = ops.CVTA_TO if m["to"] else ops.CVTA
    code, space = TYPE_CODES[m["type"]], _SPACES[m["ss"]]
    a, d0 = e.source(m.operands[1], m["type"]), e.result(m.operands[0], m["type"])
    e.emit(op, type=code, type2=code, d0=d0, a=a, space=space)


@TABLE.form("mapa{.ss}.type d, a, b", "getctarank{.ss}.type d, a", ss="shared::cluster",
            type="u32 u64")  # fmt: skip
def _mapa(e: Encoder, m: Match) -> None:
    space = SHARED if m["ss"] else GENERIC
    a = e.source(m.operands[1], m["type"])
    if m.instruction.opcode == "mapa":
        b, d0 = e.source(m.operands[2], "u32"), e.result(m.operands[0], m["type"])
        e.emit(ops.MAPA, type2=TYPE_CODES[m["type"]], d0=d0, a=a, b=b, space=space)
    else:
        d0 = e.result(m.operands[0], "u32")
        e.emit(ops.RANK_OF, type2=TYPE_CODES["u32"], d0=d0, a=a, space=space)


@TABLE.form(
    "isspacep.ss p, a",
    ss="global local shared shared::cta shared::cluster const param param::entry",
)
def _isspacep(e: Encoder, m: Match) -> None:
    a, d0 = e.source(m.operands[1], "u64"), e.result(m.operands[0], "pred")
    own = m["ss"] in ("shared", "shared::cta")
    e.emit(ops.IS_SPACE, type2=TYPE_CODES["pred"], mode=ops.OWN_BLOCK if own else 0, d0=d0, a=a,
           space=_SPACES[m["ss"]])  # fmt: skip


@TABLE.form("prefetch{.ss}.level [a]", ss="global local", level="L1 L2")
@TABLE.form("prefetch.global.level [a]", level=_L2)
@TABLE.form("prefetchu.L1 [a]")
@TABLE.form("prefetch{.ss}.tensormap [a]", ss="const param")
@TABLE.form("discard{.global}.L2 [a], n", "applypriority{.global}.L2::evict_normal [a], n")
def _prefetch(e: Encoder, m: Match) -> None:
    e.address(m.operands[0])
    e.emit(ops.PREFETCH)


@TABLE.form(
    "createpolicy.fractional.primary{.secondary}.b64 d{, fraction}",
    primary="L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged",
    secondary="L2::evict_first L2::evict_unchanged",
)
@TABLE.form(
    "createpolicy.range{.global}.primary{.secondary}.b64 d, [a], primary, total",
    primary="L2::evict_last L2::evict_normal L2::evict_first",
    secondary="L2::evict_first L2::evict_unchanged",
)
@TABLE.form("createpolicy.cvt.L2.b64 d, a")
def _policy(e: Encoder, m: Match) -> None:
    """The value only says where data stays in a cache: its operands do not matter here."""
    for operand in m.operands[1:]:
        if isinstance(operand, Address):
            e.address(operand)
    e.emit(ops.POLICY, d0=e.result(m.operands[0], "b64"))
