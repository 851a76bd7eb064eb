"""Probes of atom and red: each thread has its own place, so that the order does not matter."""

from __future__ import annotations

from collections.abc import Iterator

from tests.ptx_machine.conformance.probe import Probe

_FORMS = {
    "exch": "b32 b64", "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64",
    "add": "u32 s32 u64 f32 f64", "inc": "u32", "dec": "u32",
    "min": "u32 s32 u64 s64", "max": "u32 s32 u64 s64",
    "cas": "b16 b32 b64",
    "add.noftz": "f16 bf16 f16x2 bf16x2",
}  # fmt: skip
_BITS = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32}
_PLACES = {
    "global": ".global", "shared": ".shared", "shared::cta": ".shared::cta", "generic": "",
    "generic shared": "",
}  # fmt: skip


def probes() -> Iterator[Probe]:
    for place, dot in _PLACES.items():
        for op, kinds in _FORMS.items():
            for kind in kinds.split():
                yield from _one(place, dot, op, kind)
    for op in ("min", "max"):
        for kind in ("f16x2", "bf16x2"):
            for name, result in (("red", ""), ("atom", "{%z, %u}, ")):
                yield Probe(
                    f"{name} global {op}.noftz.v2.{kind}",
                    f"st.global.v2.b32 [%own], {{%a, %b}}; mov.b64 {{%z, %u}}, 7;"
                    f" {name}.global.{op}.noftz.v2.{kind} {result}[%own], {{%c, %d}};"
                    " ld.global.v2.b32 {%x, %y}, [%own];",
                    (("r", kind),) * 4, ("r",) * 4, blocks=1, threads=64,
                )  # fmt: skip
    yield Probe(
        "atom global exch.b128, cas.b128",
        "st.global.v2.b64 [%own], {%a, %b}; mov.b128 %q0, {%a, %c}; mov.b128 %q1, {%b, %d};"
        " atom.global.exch.b128 %q2, [%own], %q0; atom.global.cas.b128 %q3, [%own], %q1, %q2;"
        " mov.b128 {%x, %y}, %q2; mov.b128 {%z, %u}, %q3; ld.global.b128 %q0, [%own];"
        " mov.b128 {%v, %w}, %q0;",
        (("d", "u:2"),) * 4, ("d",) * 6, blocks=1, threads=64, declare=".reg .b128 %q<4>;",
    )  # fmt: skip
    for words in (
        "relaxed.gpu.global.add.u32",
        "acquire.gpu.global.add.u32",
        "acq_rel.sys.global.add.u32",
        "release.cta.shared.add.u32",
        "global.relaxed.gpu.add.u32",
        "add.release.gpu.u32",
        "add.relaxed.sys.global.u32",
        "relaxed.cluster.shared::cluster.add.u32",
    ):
        at = "%mine" if "shared" in words else "%own"
        space = ".shared" if "shared" in words else ".global"
        yield Probe(
            f"atom.{words}",
            f"st{space}.b32 [{at}], %a; atom.{words} %x, [{at}], %b; ld{space}.b32 %y, [{at}];",
            (("r", "i32"), ("r", "i32")), ("r", "r"), shared=2048, blocks=1, threads=64,
        )  # fmt: skip


def _one(place: str, dot: str, op: str, kind: str) -> Iterator[Probe]:
    bits = _BITS.get(kind) or int(kind[1:])
    c = {16: "h", 32: "r", 64: "d"}[bits]
    values = kind if kind[0] not in "usb" or kind in _BITS else f"i{bits}"
    few = op in ("inc", "dec", "cas")
    before = "%mine" if "shared" in place else "%own"
    space = ".shared" if "shared" in place else ".global"
    at, turn = before, ""
    if place == "generic shared":
        at, turn = "%d0", "cvt.u64.u32 %d0, %mine; cvta.shared.u64 %d0, %d0;"
    if kind.endswith("x2") and "shared" in place:
        # ptxas 13.0 takes the upper half of an operand that was cut from 64 bits from its upper
        # word (which is wrong): it is read again, as 32 bits.
        turn += " ld.global.b32 %b, [%in + 512];"
    start = f"{turn} st{space}.b{bits} [{before}], %a;"
    end = f"ld{space}.b{bits} %y, [{before}];"
    operands = [(c, values), (c, values)]
    third = ""
    if op == "cas":
        operands = [(c, "u:3"), (c, "u:3"), (c, values)]
        third = ", %c"
    rounds = [operands] if op == "cas" or not few else [operands, [(c, "u:6"), (c, "u:4")]]
    for k, chosen in enumerate(rounds):
        name = f"atom {place} {op}.{kind}" + (" small" if k else "")
        yield Probe(
            name, f"{start} atom{dot}.{op}.{kind} %x, [{at}], %b{third};"
                  f" {end}", tuple(chosen), (c, c),
            shared=2048, blocks=1, threads=64,
        )  # fmt: skip
    if op not in ("exch", "cas"):
        yield Probe(
            f"red {place} {op}.{kind}",
            f"{start} red{dot}.{op}.{kind} [{at}], %b; {end.replace('%y', '%x')}",
            tuple(operands), (c,), shared=2048, blocks=1, threads=64,
        )  # fmt: skip
