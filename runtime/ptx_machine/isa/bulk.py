"""Forms of the bulk family: cp.async, bulk copies, TMA, their groups, st.async."""

from __future__ import annotations

from tiledsl.runtime.ptx_machine.forms import Match, Table
from tiledsl.runtime.ptx_machine.isa import bulk_ops as ops
from tiledsl.runtime.ptx_machine.isa.memory_ops import ATOMS
from tiledsl.runtime.ptx_machine.opcodes import (
    BITS,
    BULK,
    GENERIC,
    GLOBAL,
    SHARED,
    TYPE_CODES,
)
from tiledsl.runtime.ptx_machine.program import Encoder
from tiledsl.runtime.ptx_machine.syntax import Address, Immediate, Operand

TABLE = Table(BULK)

_DIM = "1d 2d 3d 4d 5d"
_DONE = "mbarrier::complete_tx::bytes"
_HINT = {"l2::cache_hint": "L2::cache_hint"}


def _map(e: Encoder, m: Match, operand: Operand) -> dict[str, int]:
    """The tensor map and the coordinates of ``[map, {x, y}]``: A, VEC, NVEC."""
    assert isinstance(operand, Address)
    coordinates = operand.coordinates or ()
    rank = int(m["dim"][0])
    if len(coordinates) != rank:
        raise e.refuse(f"{rank} coordinates for .{m['dim']}, not {len(coordinates)}")
    base, displacement = e.address(operand)
    registers = [e.source(c, "s32") for c in coordinates]
    place, number = e.words(registers)
    return {"a": base, "x3": displacement, "vec": place, "nvec": number}


def _extras(e: Encoder, m: Match, operands: list[Operand]) -> dict[str, int]:
    """What may follow: im2col offsets, a multicast mask, a cache policy."""
    columns = {}
    mode = 0
    if m["mode"] == "im2col":
        mode |= ops.IM2COL
        wanted = int(m["dim"][0]) - 2
        if wanted < 1:
            raise e.refuse("im2col takes 3-d to 5-d maps")
        if (m.instruction.opcode == "cp" and "prefetch" in m.instruction.modifiers) or operands:
            offsets = operands.pop(0)
            values = getattr(offsets, "elements", (offsets,))
            if len(values) != wanted:
                raise e.refuse(f"{wanted} im2col offsets, not {len(values)}")
            columns["vec2"], columns["nvec2"] = e.words([e.source(v, "u16") for v in values])
    if m["multicast::cluster"]:
        mode |= ops.MULTICAST
        if not operands:
            raise e.refuse("a mask of blocks behind .multicast::cluster")
        columns["d"] = e.source(operands.pop(0), "b16")
    hinted = m["l2::cache_hint"] != ""
    if len(operands) != hinted:
        raise e.refuse("a cache policy as last operand with .L2::cache_hint, and only then")
    if hinted:
        e.source(operands[0], "b64")
    return {"mode": mode, **columns}


@TABLE.form(
    f"cp.async.bulk.tensor.dim.dst.global{{.mode}}.{_DONE}{{.multicast::cluster}}{{.l2::cache_hint}}"
    " [d], [a], [bar]{, x}{, y}{, z}",
    dim=_DIM, dst="shared::cluster shared::cta", mode="tile im2col", **_HINT,
)  # fmt: skip
def _load(e: Encoder, m: Match) -> None:
    columns = _map(e, m, m.operands[1])
    b, displacement = e.address(m.operands[0])
    c, bar = e.address(m.operands[2])
    columns |= _extras(e, m, list(m.operands[3:]))
    if m["dst"] == "shared::cta" and m["multicast::cluster"]:
        raise e.refuse(".shared::cluster as destination of a multicast")
    e.emit(ops.TMA_LOAD, b=b, imm=displacement, c=c, x4=bar, **columns)


@TABLE.form("cp.async.bulk.tensor.dim.global.shared::cta{.mode}.bulk_group{.l2::cache_hint}"
            " [a], [s]{, policy}", dim=_DIM, mode="tile", **_HINT)  # fmt: skip
@TABLE.form("cp.reduce.async.bulk.tensor.dim.global.shared::cta.op{.mode}.bulk_group"
            "{.l2::cache_hint} [a], [s]{, policy}", dim=_DIM, mode="tile",
            op=" ".join(ops.REDUCTIONS), **_HINT)  # fmt: skip
def _store(e: Encoder, m: Match) -> None:
    columns = _map(e, m, m.operands[0])
    b, displacement = e.address(m.operands[1])
    columns |= _extras(e, m, list(m.operands[2:]))
    if m["op"]:
        columns["mode2"] = ATOMS.index(m["op"])
    op = ops.TMA_REDUCE if m["op"] else ops.TMA_STORE
    e.emit(op, b=b, imm=displacement, **columns)


@TABLE.form("cp.async.bulk.prefetch.tensor.dim.L2.global{.mode}{.l2::cache_hint} [a]{, x}{, y}",
            dim=_DIM, mode="tile im2col", **_HINT)  # fmt: skip
def _prefetch_tensor(e: Encoder, m: Match) -> None:
    columns = _map(e, m, m.operands[0])
    columns |= _extras(e, m, list(m.operands[1:]))
    e.emit(ops.TMA_PREFETCH, **columns)


@TABLE.form(f"cp.async.bulk.dst.global.{_DONE}{{.multicast::cluster}}{{.l2::cache_hint}}"
            " [d], [s], size, [bar]{, x}{, y}", dst="shared::cluster shared::cta",
            **_HINT)  # fmt: skip
@TABLE.form(f"cp.async.bulk.shared::cluster.shared::cta.{_DONE} [d], [s], size, [bar]")
def _bulk_load(e: Encoder, m: Match) -> None:
    from_shared = "global" not in m.instruction.modifiers
    b, displacement = e.address(m.operands[0])
    a, source = e.address(m.operands[1])
    c, bar = e.address(m.operands[3])
    size = e.source(m.operands[2], "u32")
    columns = _extras(e, m, list(m.operands[4:]))
    op = ops.BULK_COPY if from_shared else ops.BULK_LOAD
    e.emit(op, a=a, x3=source, b=b, imm=displacement, c=c, x4=bar, x0=size, **columns)


@TABLE.form("cp.async.bulk.global.shared::cta.bulk_group{.l2::cache_hint} [d], [s], size{, policy}",
            **_HINT)  # fmt: skip
@TABLE.form("cp.reduce.async.bulk.global.shared::cta.bulk_group{.l2::cache_hint}.op{.noftz}.type"
            " [d], [s], size{, policy}", op=" ".join(ops.REDUCTIONS),
            type="u32 s32 u64 s64 b32 b64 f16 bf16 f32 f64", **_HINT)  # fmt: skip
def _bulk_store(e: Encoder, m: Match) -> None:
    a, target = e.address(m.operands[0])
    b, displacement = e.address(m.operands[1])
    size = e.source(m.operands[2], "u32")
    columns = _extras(e, m, list(m.operands[3:]))
    if m["op"]:
        columns["mode2"] = ATOMS.index(m["op"])
        columns["type"] = TYPE_CODES[m["type"]]
    op = ops.BULK_REDUCE if m["op"] else ops.BULK_STORE
    e.emit(op, a=a, x3=target, b=b, imm=displacement, x0=size, **columns)


@TABLE.form("cp.async.bulk.prefetch.L2.global{.l2::cache_hint} [s], size{, policy}", **_HINT)
def _bulk_prefetch(e: Encoder, m: Match) -> None:
    e.address(m.operands[0])
    e.source(m.operands[1], "u32")
    e.emit(ops.BULK_PREFETCH)


@TABLE.form("cp.async.bulk.commit_group", "cp.async.bulk.wait_group{.read} n")
def _group(e: Encoder, m: Match) -> None:
    if not m.operands:
        e.emit(ops.BULK_COMMIT)
        return
    e.emit(ops.BULK_WAIT, mode=ops.READ_ONLY if m["read"] else 0, x0=e.immediate(m.operands[0]))


# ------------------------------------------------------------------ reductions in shared memory

_SHARED_REDUCED = {
    "add": "u32 s32 u64 s64", "min": "u32 s32", "max": "u32 s32", "inc": "u32", "dec": "u32",
    "and": "b32", "or": "b32", "xor": "b32",
}  # fmt: skip
_REDUCED = {
    "op": " ".join(_SHARED_REDUCED),
    "type": "u32 s32 u64 s64 b32",
    "sem": "relaxed",
    "scope": "cluster",
    "ss": "shared::cluster",
}


@TABLE.form(f"cp.reduce.async.bulk.shared::cluster.shared::cta.{_DONE}.op.type [d], [s], size, [bar]",
            **_REDUCED)  # fmt: skip
@TABLE.form(f"red.async{{.sem}}{{.scope}}{{.ss}}.{_DONE}.op.type [d], b, [bar]",
            **_REDUCED)  # fmt: skip
def _shared_reduction(e: Encoder, m: Match) -> None:
    kind = m["type"]
    if kind not in _SHARED_REDUCED[m["op"]].split():
        raise e.refuse(f".{m['op']} takes one of {_SHARED_REDUCED[m['op']]}, not .{kind}")
    b, displacement = e.address(m.operands[0])
    c, bar = e.address(m.operands[-1])
    columns = {"b": b, "imm": displacement, "c": c, "x4": bar, "type": TYPE_CODES[kind],
               "mode": ops.REDUCES, "mode2": ATOMS.index(m["op"])}  # fmt: skip
    if m.instruction.opcode == "red":
        place, count = e.vector(m.operands[1], kind)
        e.emit(ops.ST_ASYNC, vec=place, nvec=count, **columns)
        return
    a, source = e.address(m.operands[1])
    size = e.source(m.operands[2], "u32")
    e.emit(ops.BULK_COPY, a=a, x3=source, x0=size, **columns)


# ------------------------------------------------------------------ tensor maps that change

_FIELDS = {  # field: its first column, how many of them, type of the value
    "global_address": (ops.MAP_ADDRESS, 1, "b64"), "rank": (ops.MAP_RANK, 1, "b32"),
    "box_dim": (ops.MAP_BOX, 5, "b32"), "global_dim": (ops.MAP_EXTENT, 5, "b32"),
    "global_stride": (ops.MAP_STRIDE + 1, 4, "b64"), "element_stride": (ops.MAP_STEP, 5, "b32"),
}  # fmt: skip
_CHOICES = {"swizzle_mode": (0, 32, 64, 128), "interleave_layout": (0,), "fill_mode": (0,)}
_ELEMENTS = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "", "f64", "bf16")
_REPLACE = "tensormap.replace.tile.field{.ss}.b1024"


@TABLE.form(f"{_REPLACE}.type [a], value", f"{_REPLACE}.type [a], k, value",
            field=" ".join(_FIELDS), ss="global shared::cta", type="b32 b64")  # fmt: skip
def _replace(e: Encoder, m: Match) -> None:
    column, count, kind = _FIELDS[m["field"]]
    if kind != m["type"]:
        raise e.refuse(f".{kind} for .{m['field']}, not .{m['type']}")
    which = e.immediate(m.operands[1]) if len(m.operands) > 2 else 0
    if (count > 1) != (len(m.operands) > 2) or not 0 <= which < count:
        raise e.refuse(f"which of {count} as second operand" if count > 1 else "two operands")
    b = e.source(m.operands[-1], kind)
    # The rank counts from zero.
    _emit_replace(e, m, column + which, b, x0=int(m["field"] == "rank"))


@TABLE.form(f"{_REPLACE}.b32 [a], value", field=" ".join([*_CHOICES, "elemtype"]),
            ss="global shared::cta")  # fmt: skip
def _replace_choice(e: Encoder, m: Match) -> None:
    value, zero = e.immediate(m.operands[1]), e.source(Immediate(0), "b32")
    if m["field"] == "elemtype":
        if not 0 <= value < len(_ELEMENTS) or not _ELEMENTS[value]:
            raise e.refuse(f"elements of type {value} are not supported")
        code = TYPE_CODES[_ELEMENTS[value]]
        _emit_replace(e, m, ops.MAP_BYTES, zero, x0=BITS[code] // 8, x1=code)
        return
    choices = _CHOICES[m["field"]]
    if not 0 <= value < len(choices):
        raise e.refuse(f".{m['field']} {value} is not supported: 0 to {len(choices) - 1}")
    if m["field"] == "swizzle_mode":
        _emit_replace(e, m, ops.MAP_SWIZZLE, zero, x0=choices[value])
    else:  # the only choice there is
        e.address(m.operands[0])
        e.emit(ops.BULK_PREFETCH)


def _emit_replace(e: Encoder, m: Match, column: int, value: int, **columns: int) -> None:
    a, displacement = e.address(m.operands[0])
    space = {"": GENERIC, "global": GLOBAL, "shared::cta": SHARED}[m["ss"]]
    e.emit(ops.MAP_REPLACE, mode=column, a=a, x3=displacement, b=value, space=space, **columns)


@TABLE.form("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned"
            " [d], [s], n", scope="cta cluster gpu sys")  # fmt: skip
def _copy_map(e: Encoder, m: Match) -> None:
    if e.immediate(m.operands[2]) != 128:
        raise e.refuse("128 bytes")
    a, target = e.address(m.operands[0])
    b, source = e.address(m.operands[1])
    e.emit(ops.MAP_COPY, a=a, x3=target, b=b, imm=source, space=GLOBAL)


# ------------------------------------------------------------------ copies by threads


@TABLE.form("cp.async.cache.shared.global{.l2::cache_hint}{.prefetch} [d], [s], size{, n}{, policy}",
            cache="ca cg", shared="shared shared::cta", prefetch="L2::64B L2::128B L2::256B",
            **_HINT)  # fmt: skip
def _cp_async(e: Encoder, m: Match) -> None:
    b, displacement = e.address(m.operands[0])
    a, source = e.address(m.operands[1])
    size = e.immediate(m.operands[2])
    if size not in ((16,) if m["cache"] == "cg" else (4, 8, 16)):
        raise e.refuse("16 bytes with .cg; 4, 8 or 16 with .ca")
    operands = list(m.operands[3:])
    if m["l2::cache_hint"]:
        e.source(operands.pop(), "b64")
    columns = {}
    if operands and (e.width(operands[0]) == 1 or getattr(operands[0], "negated", False)):
        columns["c"], columns["x1"] = e.predicate(operands[0])
        columns["mode"] = ops.IGNORE
    elif operands:
        columns["c"] = e.source(operands[0], "u32")
    e.emit(ops.CP_ASYNC, a=a, x3=source, b=b, imm=displacement, x0=size, **columns)


@TABLE.form("cp.async.commit_group", "cp.async.wait_all", "cp.async.wait_group n")
def _cp_group(e: Encoder, m: Match) -> None:
    if m["commit_group"]:
        e.emit(ops.CP_COMMIT)
    else:
        # wait_all also waits for what has not been committed.
        count = e.immediate(m.operands[0]) if m.operands else -1
        e.emit(ops.CP_WAIT, x0=count)


@TABLE.form("cp.async.mbarrier.arrive{.noinc}{.ss}.b64 [a]", ss="shared shared::cta")
def _cp_arrive(e: Encoder, m: Match) -> None:
    b, displacement = e.address(m.operands[0])
    e.emit(ops.CP_ARRIVE, mode=ops.NOINC if m["noinc"] else 0, b=b, imm=displacement)


@TABLE.form(f"st.async{{.weak}}.shared::cluster.{_DONE}{{.vec}}.type [a], b, [bar]", vec="v2 v4",
            type="b32 b64 u32 u64 s32 s64 f32 f64")  # fmt: skip
def _st_async(e: Encoder, m: Match) -> None:
    b, displacement = e.address(m.operands[0])
    c, bar = e.address(m.operands[2])
    place, count = e.vector(m.operands[1], m["type"])
    if count != (int(m["vec"][1:]) if m["vec"] else 1):
        raise e.refuse(f"as many registers as .{m['vec'] or 'v1'} says")
    e.emit(ops.ST_ASYNC, type=TYPE_CODES[m["type"]], b=b, imm=displacement, c=c, x4=bar, vec=place,
           nvec=count)  # fmt: skip
