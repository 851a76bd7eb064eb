"""Probes of the integer family: every form, on integers of all sizes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.ptx_machine.conformance.probe import Probe
from tests.ptx_machine.conformance.table import one

_CLASS = {8: "h", 16: "h", 32: "r", 64: "d"}
TYPES = ("u16", "u32", "u64", "s16", "s32", "s64")
COMPARISONS = {
    "b": ("eq", "ne"),
    "s": ("eq", "ne", "lt", "le", "gt", "ge"),
    "u": ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"),
}


def _of(kind: str) -> tuple[str, str]:
    """Register class, and class with values."""
    bits = int(kind[1:])
    return _CLASS[bits], f"{_CLASS[bits]}:i{bits}"


def probes() -> Iterator[Probe]:
    yield from _arithmetic()
    yield from _carries()
    yield from _video()
    yield from _bits()
    yield from _choices()


def _arithmetic() -> Iterator[Probe]:
    for kind in TYPES:
        c, v = _of(kind)
        for op in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            yield one(f"{op}.{kind} x,a,b | {v} {v} | {c}")
        for op in ("mad.lo", "mad.hi", "sad"):
            yield one(f"{op}.{kind} x,a,b,c | {v} {v} {v} | {c}")
        if kind[0] == "s":
            yield one(f"abs.{kind} x,a | {v} | {c}")
            yield one(f"neg.{kind} x,a | {v} | {c}")
        if kind[1:] != "64":
            wide, wider = _of(f"{kind[0]}{2 * int(kind[1:])}")
            yield one(f"mul.wide.{kind} x,a,b | {v} {v} | {wide}")
            yield one(f"mad.wide.{kind} x,a,b,c | {v} {v} {wider} | {wide}")
    r = "r:i32"
    for op in ("add.sat.s32", "sub.sat.s32", "min.relu.s32", "max.relu.s32"):
        yield one(f"{op} x,a,b | {r} {r} | r")
    yield one(f"mad.hi.sat.s32 x,a,b,c | {r} {r} {r} | r")
    for kind in ("u32", "s32"):
        for part in ("lo", "hi"):
            yield one(f"mul24.{part}.{kind} x,a,b | {r} {r} | r")
            yield one(f"mad24.{part}.{kind} x,a,b,c | {r} {r} {r} | r")
    yield one(f"mad24.hi.sat.s32 x,a,b,c | {r} {r} {r} | r")
    for first in ("u32", "s32"):
        for second in ("u32", "s32"):
            yield one(f"dp4a.{first}.{second} x,a,b,c | {r} {r} {r} | r")
            for part in ("lo", "hi"):
                yield one(f"dp2a.{part}.{first}.{second} x,a,b,c | {r} {r} {r} | r")
    for kind in ("u16x2", "s16x2"):
        for op in ("add", "min", "max"):
            yield one(f"{op}.{kind} x,a,b | {r} {r} | r")
    for op in ("min", "max"):
        yield one(f"{op}.relu.s16x2 x,a,b | {r} {r} | r")


def _carries() -> Iterator[Probe]:
    for kind in ("u32", "s32", "u64", "s64"):
        c, v = _of(kind)
        for op, then in (("add", "addc"), ("sub", "subc")):
            yield one(
                f"{op}.cc.{kind} %x, %a, %b; {then}.cc.{kind} %y, %c, %d; {then}.{kind} %z, %a, %d;"
                f"| {v} {v} {v} {v} | {c} {c} {c}"
            )
        for op in ("add", "sub"):  # a carry of one sort that the other takes
            for then in ("addc", "subc"):
                yield one(
                    f"{op}.cc.{kind} %x, %a, %b; {then}.cc.{kind} %y, %c, %d; addc.{kind} %z, 0, 0;"
                    f"| {v} {v} {v} {v} | {c} {c} {c}"
                )
        yield one(
            f"mad.lo.cc.{kind} %x, %a, %b, %c; madc.hi.cc.{kind} %y, %a, %b, %d;"
            f" madc.lo.cc.{kind} %z, %b, %c, %d; madc.hi.{kind} %u, %a, %b, %c; | {v} {v} {v} {v}"
            f" | {c} {c} {c} {c}"
        )
        yield one(
            f"mad.hi.cc.{kind} %x, %a, %b, %c; madc.lo.{kind} %y, %a, %b, %d; | {v} {v} {v} {v}"
            f" | {c} {c}"
        )


def _video() -> Iterator[Probe]:
    r = "r:i32 r:i32 r:i32 | r"
    for n in (2, 4):
        for op in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"):
            for kinds in ("u32.u32.u32", "s32.s32.s32", "u32.s32.s32", "s32.u32.s32"):
                for end in ("", ".sat"):
                    yield one(f"{op}{n}.{kinds}{end} x,a,b,c | {r}")
        yield one(f"vabsdiff{n}.u32.u32.u32.add x,a,b,c | {r}")
        for op in ("vavrg", "vmin", "vmax"):
            for kind in ("u32", "s32"):
                yield one(f"{op}{n}.{kind}.{kind}.{kind}.add x,a,b,c | {r}")
        for cmp in ("eq", "ne", "lt", "le", "gt", "ge"):
            for kinds in ("u32.u32", "s32.s32", "u32.s32"):
                for end in ("", ".add"):
                    yield one(f"vset{n}.{kinds}.{cmp}{end} x,a,b,c | {r}")


def _bits() -> Iterator[Probe]:
    for bits in (16, 32, 64):
        c, v = _of(f"b{bits}")
        for op in ("and", "or", "xor"):
            yield one(f"{op}.b{bits} x,a,b | {v} {v} | {c}")
        yield one(f"not.b{bits} x,a | {v} | {c}")
        yield one(f"cnot.b{bits} x,a | {c}:u:3 | {c}")
        for op in (f"shl.b{bits}", f"shr.b{bits}", f"shr.u{bits}", f"shr.s{bits}"):
            yield one(f"{op} x,a,b | {v} r:u:80 | {c}")
            yield one(f"{op} x,a,b | {v} r:i32 | {c}", name=f"{op} x,a,b far")
    for op in ("and", "or", "xor"):
        yield one(f"{op}.pred x,a,b | p:p p:p | p")
    yield one("not.pred x,a | p:p | p")
    r, d = "r:i32", "d:i64"
    for table in (0x80, 0x1E, 0x96, 0xE8, 0xCA, 0x00, 0xFF, 0x5A, 0x2D):
        yield one(f"lop3.b32 x,a,b,c,{table:#x} | {r} {r} {r} | r")
    for op in ("or", "and"):
        yield one(f"lop3.{op}.b32 x|y,a,b,c,0x96,d | {r} {r} {r} p:p | r p")
    for side in "lr":
        for how in ("clamp", "wrap"):
            yield one(f"shf.{side}.{how}.b32 x,a,b,c | {r} {r} r:u:70 | r")
            yield one(
                f"shf.{side}.{how}.b32 x,a,b,c | {r} {r} r:i32 | r", name=f"shf.{side}.{how} far"
            )
    for kind in ("b32", "b64"):
        c, v = _of(kind)
        yield one(f"popc.{kind} x,a | {v} | r")
        yield one(f"clz.{kind} x,a | {v} | r")
        yield one(f"brev.{kind} x,a | {v} | {c}")
        yield one(f"bfi.{kind} x,a,b,c,d | {v} {v} r:u:70 r:u:70 | {c}")
        yield one(f"bfi.{kind} x,a,b,c,d | {v} {v} r:i32 r:i32 | {c}", name=f"bfi.{kind} far")
    for kind in ("u32", "s32", "u64", "s64"):
        c, v = _of(kind)
        yield one(f"bfind.{kind} x,a | {v} | r")
        yield one(f"bfind.shiftamt.{kind} x,a | {v} | r")
        yield one(f"bfe.{kind} x,a,b,c | {v} r:u:70 r:u:70 | {c}")
        yield one(f"bfe.{kind} x,a,b,c | {v} r:i32 r:i32 | {c}", name=f"bfe.{kind} far")
    for how in ("clamp", "wrap"):
        yield one(f"bmsk.{how}.b32 x,a,b | r:u:40 r:u:40 | r")
        yield one(f"bmsk.{how}.b32 x,a,b | {r} {r} | r", name=f"bmsk.{how}.b32 far")
        for kind in ("u32", "s32"):
            yield one(f"szext.{how}.{kind} x,a,b | {r} r:u:40 | r")
            yield one(f"szext.{how}.{kind} x,a,b | {r} {r} | r", name=f"szext.{how}.{kind} far")
    yield one(f"sub.s32 %c, %c, 10; fns.b32 %x, %a, %b, %c; | {r} r:u:32 r:u:20 | r", name="fns")
    yield one(f"prmt.b32 x,a,b,c | {r} {r} {r} | r")
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield one(f"prmt.b32.{mode} x,a,b,c | {r} {r} {r} | r")
    yield one(f"mov.b32 %x, {{%a, %b}}; mov.b32 {{%y, %z}}, %c; | h:i16 h:i16 {r} | r h h")
    yield one(f"mov.b64 %x, {{%a, %b}}; mov.b64 {{%y, %z}}, %c; | {r} {r} {d} | d r r")
    yield one(
        f"mov.b64 %x, {{%a, %b, %a, %b}}; mov.b64 {{%h0, %y, _, %z}}, %c; | h:i16 h:i16 {d} | d h h"
    )


def _choices() -> Iterator[Probe]:
    for bits in (16, 32, 64):
        c, v = _of(f"b{bits}")
        yield one(f"selp.b{bits} x,a,b,c | {v} {v} p:p | {c}")
        yield one(f"slct.b{bits}.s32 x,a,b,c | {v} {v} r:i32 | {c}")
        yield one(f"slct.b{bits}.f32 x,a,b,c | {v} {v} r:f32 | {c}")
    yield one("slct.ftz.b32.f32 x,a,b,c | r:i32 r:i32 r:f32 | r")
    for kind in (*TYPES, "b16", "b32", "b64"):
        c, v = _of(kind)
        small = f"{c}:u:3"
        names = COMPARISONS[kind[0]]
        # All comparisons of a type in one kernel, the results in the bits of one register.
        lines = ["mov.b32 %x, 0;"]
        for k, name in enumerate(names):
            lines.append(
                f"setp.{name}.{kind} %p1, %a, %b; selp.b32 %r1, {1 << k}, 0, %p1; or.b32 %x, %x,"
                " %r1;"
            )
        for values in (v, small):
            yield Probe(
                f"setp.*.{kind} {values}",
                "\n".join(lines),
                ((c, v.partition(":")[2]), (c, values.partition(":")[2]))
                if values == v
                else ((c, "u:3"), (c, "u:3")),
            )
        first = names[-1]
        for how in ("and", "or", "xor"):
            yield one(f"setp.{first}.{how}.{kind} x|y,a,b,c | {small} {small} p:p | p p")
            yield one(f"setp.{first}.{how}.{kind} x|y,a,b,!c | {small} {small} p:p | p p")
        for dtype in ("u32", "s32", "f32"):
            yield one(f"set.{first}.{dtype}.{kind} x,a,b | {small} {small} | r")
            yield one(f"set.{first}.xor.{dtype}.{kind} x,a,b,c | {small} {small} p:p | r")
    yield one("setp.lt.s32 x|y,a,b | r:i32 r:i32 | p p")
