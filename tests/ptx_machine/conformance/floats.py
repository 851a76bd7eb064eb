"""Probes of the floating family, in every rounding mode, with and without .ftz, .sat, .relu."""

from __future__ import annotations

from collections.abc import Iterator

from tests.ptx_machine.conformance.probe import Probe, Tolerance
from tests.ptx_machine.conformance.table import one

_CLASS = {"f16": "h", "bf16": "h", "f32": "r", "f64": "d", "f16x2": "r", "bf16x2": "r"}
_COMPARISONS = (
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
)  # fmt: skip
_ROUNDINGS = ("rn", "rz", "rm", "rp")


def probes() -> Iterator[Probe]:
    yield from _single()
    yield from _double()
    yield from _halves()
    yield from _signs_and_ends()
    yield from _comparisons()
    yield from _approximations()
    yield from _edges()


def _value(kind: str) -> str:
    return f"{_CLASS[kind]}:{kind}"


def _ops(
    ops: tuple[str, ...], suffix: str, kind: str, count: int, near: bool = False
) -> Iterator[Probe]:
    c = _CLASS[kind]
    values = [f"{c}:near:{kind}" if near else _value(kind)] * count
    for op in ops:
        if op.startswith(("fma", "mad")):
            values[2] = f"{c}:fma:{kind}"
        registers = ",".join("abc"[:count])
        yield one(f"{op}{suffix} x,{registers} | {' '.join(values)} | {c}", blocks=3)


def _single() -> Iterator[Probe]:
    for ftz in ("", ".ftz"):
        for rnd in _ROUNDINGS:
            for sat in ("", ".sat"):
                end = f".{rnd}{ftz}{sat}.f32"
                yield from _ops(("add", "sub", "mul"), end, "f32", 2)
                yield from _ops(("fma",), end, "f32", 3)
            yield from _ops(("div",), f".{rnd}{ftz}.f32", "f32", 2)
            yield from _ops(("rcp", "sqrt"), f".{rnd}{ftz}.f32", "f32", 1)
        yield from _ops(("add", "sub", "mul"), f"{ftz}.f32", "f32", 2)
        yield from _ops(("add", "sub", "mul"), f"{ftz}.sat.f32", "f32", 2)
        yield from _ops(("mad",), f".rn{ftz}.f32", "f32", 3)


def _double() -> Iterator[Probe]:
    for rnd in _ROUNDINGS:
        yield from _ops(("add", "sub", "mul", "div"), f".{rnd}.f64", "f64", 2)
        yield from _ops(("fma", "mad"), f".{rnd}.f64", "f64", 3)
        yield from _ops(("rcp", "sqrt"), f".{rnd}.f64", "f64", 1)
    yield from _ops(("add", "sub", "mul"), ".f64", "f64", 2)


def _halves() -> Iterator[Probe]:
    for kind in ("f16", "f16x2"):
        for ftz in ("", ".ftz"):
            for sat in ("", ".sat"):
                for rnd in ("", ".rn"):
                    yield from _ops(("add", "sub", "mul"), f"{rnd}{ftz}{sat}.{kind}", kind, 2)
                yield from _ops(("fma",), f".rn{ftz}{sat}.{kind}", kind, 3)
            yield from _ops(("fma",), f".rn{ftz}.relu.{kind}", kind, 3)
    for kind in ("bf16", "bf16x2"):
        for rnd in ("", ".rn"):
            yield from _ops(("add", "sub", "mul"), f"{rnd}.{kind}", kind, 2)
        for relu in ("", ".relu"):
            yield from _ops(("fma",), f".rn{relu}.{kind}", kind, 3)


def _signs_and_ends() -> Iterator[Probe]:
    for kind in _CLASS:
        single = kind == "f32"
        half = "f16" in kind
        flushes = ("", ".ftz") if kind in ("f32", "f16", "f16x2") else ("",)
        for ftz in flushes:
            yield from _ops(("abs", "neg"), f"{ftz}.{kind}", kind, 1)
            for nan in ("", ".NaN") if kind != "f64" else ("",):
                yield from _ops(("min", "max"), f"{ftz}{nan}.{kind}", kind, 2)
                if single or half:
                    yield from _ops(("min", "max"), f"{ftz}{nan}.xorsign.abs.{kind}", kind, 2)
    yield from _ops(("copysign",), ".f32", "f32", 2)
    yield from _ops(("copysign",), ".f64", "f64", 2)
    for kind in ("f32", "f64"):
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield one(f"testp.{test}.{kind} x,a | {_value(kind)} | p", threads=64)


def _comparisons() -> Iterator[Probe]:
    for kind, c in _CLASS.items():
        flushes = ("", ".ftz") if kind in ("f32", "f16", "f16x2") else ("",)
        v = _value(kind)
        packed = kind.endswith("x2")
        for ftz in flushes:
            body = ["mov.b32 %x, 0; mov.b32 %y, 0;"]
            # Equal operands in every fourth thread.
            body.append(
                f"and.b32 %r0, %lane, 3; setp.eq.u32 %p0, %r0, 0; @%p0 mov.b{_width(kind)} %b, %a;"
            )
            for k, name in enumerate(_COMPARISONS):
                target = "%p1|%p2" if packed else "%p1"
                body.append(f"setp.{name}{ftz}.{kind} {target}, %a, %b;")
                body.append(f"selp.b32 %r1, {1 << k}, 0, %p1; or.b32 %x, %x, %r1;")
                if packed:
                    body.append(f"selp.b32 %r1, {1 << k}, 0, %p2; or.b32 %y, %y, %r1;")
            pair = (c, v.partition(":")[2])
            yield Probe(f"setp.*{ftz}.{kind}", "\n".join(body), (pair, pair), ("r", "r"), blocks=3)
            for how in ("and", "or", "xor"):
                into, results = ("x", "p") if kind in ("f16", "bf16") else ("x|y", "p p")
                yield one(f"setp.leu.{how}{ftz}.{kind} {into},a,b,!c | {v} {v} p:p | {results}")
        for dtype in _SET[kind]:
            result = {"f32": "r", "u32": "r", "s32": "r"}.get(dtype, _CLASS.get(dtype, "h"))
            for ftz in flushes:
                yield one(f"set.gt{ftz}.{dtype}.{kind} x,a,b | {v} {v} | {result}")
                yield one(f"set.ltu.xor{ftz}.{dtype}.{kind} x,a,b,c | {v} {v} p:p | {result}")


_SET = {
    "f32": ("u32", "s32", "f32"),
    "f64": ("u32", "s32", "f32"),
    "f16": ("f16", "u16", "s16", "u32", "s32"),
    "bf16": ("bf16", "u16", "s16", "u32", "s32"),
    "f16x2": ("f16x2",),
    "bf16x2": ("bf16x2",),
}


def _width(kind: str) -> int:
    return {"h": 16, "r": 32, "d": 64}[_CLASS[kind]]


def _approximations() -> Iterator[Probe]:
    """The errors are those that the manual gives, and a unit for the rounding of the machine's."""

    def about(line: str, relative: float, absolute: float = 0.0) -> Probe:
        kind = line.split(maxsplit=1)[0].rpartition(".")[2]
        # Subnormal results are a unit off now and then.
        units = {"f32": 2.0**-149, "f16": 2.0**-24, "f16x2": 2.0**-24}
        absolute = absolute or units.get(kind, 0.0)
        return one(line, blocks=3, tolerance=Tolerance(kind, relative, absolute))

    for ftz in ("", ".ftz"):
        two, v = "r:f32 r:f32", "r:f32"
        yield about(f"div.approx{ftz}.f32 x,a,b | {two} | r", 2.0**-21)
        yield about(f"div.full{ftz}.f32 x,a,b | {two} | r", 2.0**-21)
        yield about(f"rcp.approx{ftz}.f32 x,a | {v} | r", 2.0**-22)
        yield about(f"sqrt.approx{ftz}.f32 x,a | {v} | r", 2.0**-22)
        yield about(f"rsqrt.approx{ftz}.f32 x,a | {v} | r", 2.0**-21)
        yield about(f"sin.approx{ftz}.f32 x,a | r:near:f32 | r", 0.0, 2.0**-20)
        yield about(f"cos.approx{ftz}.f32 x,a | r:near:f32 | r", 0.0, 2.0**-20)
        yield about(f"lg2.approx{ftz}.f32 x,a | {v} | r", 2.0**-21, 2.0**-21)
        yield about(f"ex2.approx{ftz}.f32 x,a | {v} | r", 2.0**-21)
        yield about(f"ex2.approx{ftz}.f32 x,a | r:near:f32 | r".replace("x,a", "x, a"), 2.0**-21)
    yield about("rcp.approx.ftz.f64 x,a | d:f64 | d", 2.0**-20)
    yield about("rsqrt.approx.f64 x,a | d:f64 | d", 2.0**-20)
    yield about("rsqrt.approx.ftz.f64 x,a | d:f64 | d", 2.0**-20)
    yield about("tanh.approx.f32 x,a | r:f32 | r", 2.0**-10)
    for kind in ("f16", "f16x2"):
        v, c = _value(kind), _CLASS[kind]
        yield about(f"ex2.approx.{kind} x,a | {v} | {c}", 2.0**-9.5)
        yield about(f"tanh.approx.{kind} x,a | {v} | {c}", 2.0**-9.5, 2.0**-10.9)
    for kind in ("bf16", "bf16x2"):
        v, c = _value(kind), _CLASS[kind]
        yield about(f"ex2.approx.ftz.{kind} x,a | {v} | {c}", 2.0**-6.5)
        yield about(f"tanh.approx.{kind} x,a | {v} | {c}", 2.0**-6.5)


def _edges() -> Iterator[Probe]:
    """Results just below the smallest normal number: flushed before or after they are rounded?"""
    near = "sub.u32 %a, 0x3f800000, %a; add.u32 %b, 0x00800000, %b;"
    for rnd in _ROUNDINGS:
        for ftz in ("", ".ftz"):
            two = "r:u:40 r:u:20 | r"
            end = f"{rnd}{ftz}.f32"
            yield one(f"{near} mul.{end} %x, %a, %b; | {two}", blocks=1, name=f"edge mul.{end}")
            yield one(
                f"{near} fma.{end} %x, %a, %b, 0f00000000; | {two}",
                blocks=1,
                name=f"edge fma.{end}",
            )
            yield one(
                f"{near} fma.{end} %x, %a, %b, 0f80800000; | {two}",
                blocks=1,
                name=f"edge fma- {end}",
            )
            over = "add.u32 %a, 0x00800000, %a; add.u32 %b, 0x3f800000, %b;"
            yield one(f"{over} div.{end} %x, %a, %b; | {two}", blocks=1, name=f"edge div.{end}")
            yield one(f"add.u32 %a, 0x7e800000, %a; rcp.{end} %x, %a; | r:u:20 | r", blocks=1,
                      name=f"edge rcp.{end}")  # fmt: skip
        wide = "mov.b64 %d0, 0x3810000000000000; shl.b64 %a, %a, 27; sub.u64 %a, %d0, %a;"
        yield one(f"{wide} cvt.{rnd}.ftz.f32.f64 %x, %a; | d:u:9 | r", blocks=1,
                  name=f"edge cvt.{rnd}.ftz.f32.f64")  # fmt: skip
    small = "sub.u16 %a, 0x3c00, %a; add.u16 %b, 0x0400, %b;"
    for ftz in ("", ".ftz"):
        two = "h:u:20 h:u:12 | h"
        yield one(
            f"{small} mul.rn{ftz}.f16 %x, %a, %b; | {two}", blocks=1, name=f"edge mul.rn{ftz}.f16"
        )
        yield one(f"{small} mov.b16 %h0, 0; fma.rn{ftz}.f16 %x, %a, %b, %h0; | {two}", blocks=1,
                  name=f"edge fma.rn{ftz}.f16")  # fmt: skip
        yield one(f"{small} mov.b16 %h0, 0x8400; fma.rn{ftz}.f16 %x, %a, %b, %h0; |"
                  f" {two}", blocks=1,
                  name=f"edge fma- rn{ftz}.f16")  # fmt: skip
    # Where div.approx flushes the reciprocal, and where sin and cos go wrong.
    for line in ("div.approx.f32", "div.approx.ftz.f32", "div.full.f32"):
        yield one(f"add.u32 %b, %b, 0x7e7fffff; {line} %x, %a, %b; | r:f32 r:u:3 | r", blocks=1,
                  name=f"edge {line}", tolerance=Tolerance("f32", 2.0**-21, 2.0**-149))  # fmt: skip
