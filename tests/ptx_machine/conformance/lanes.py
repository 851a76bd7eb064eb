"""Probes of what lanes do together: shuffles, votes, matches, reductions; loads and stores."""

from __future__ import annotations

from collections.abc import Iterator

from tests.ptx_machine.conformance.probe import Probe
from tests.ptx_machine.conformance.table import one

EVEN = "and.b32 %r0, %lane, 1; setp.eq.u32 %p0, %r0, 0;"
"""%p0: the even lanes, whose mask is 0x55555555."""


def probes() -> Iterator[Probe]:
    yield from _shuffles()
    yield from _votes()
    yield from _accesses()


def _shuffles() -> Iterator[Probe]:
    for mode in ("idx", "up", "down", "bfly"):
        line = f"shfl.sync.{mode}.b32 x|y,a,b,c,0xffffffff | r:i32 r:u:40 r"
        yield one(f"{line}:u:0x2000 | r p", blocks=4)
        yield one(f"shfl.sync.{mode}.b32 x|y,a,b,c,-1 | r:i32 r:i32 r:i32 | r p", blocks=4)
        for c in (0x1F, 0x1C03, 0x100F, 0):
            yield one(f"shfl.sync.{mode}.b32 x|y,a,b,{c:#x},-1 | r:i32 r:u:32 | r p")
        yield one(f"shfl.sync.{mode}.b32 x,a,3,0x1f,-1 | r:i32 | r")
        yield Probe(
            f"shfl.sync.{mode} of the even lanes",
            f"{EVEN} mov.b32 %x, 7; shl.b32 %b, %b, 1; @%p0 shfl.sync.{mode}.b32 %x, %a, %b,"
            " 0x1f, 0x55555555;",
            (("r", "i32"), ("r", "u:16")),
        )


def _votes() -> Iterator[Probe]:
    seldom = "setp.ne.u32 %p1, %a, 0;"
    for mode, kind, into in (
        ("all", "pred", "p"), ("any", "pred", "p"), ("uni", "pred", "p"), ("ballot", "b32", "r"),
    ):  # fmt: skip
        for negated in ("", "!"):
            yield one(
                f"{seldom} vote.sync.{mode}.{kind} %x, {negated}%p1, 0xffffffff; | r:u:40 | {into}",
                blocks=4,
            )
        zero = "setp.ne.u32 %x, 0, 0;" if into == "p" else "mov.b32 %x, 0;"
        yield one(
            f"{seldom} {EVEN} {zero} @%p0 vote.sync.{mode}.{kind} %x, %p1, 0x55555555; | r:u:20 |"
            f" {into}",
            blocks=4,
        )
    for kind, c in (("b32", "r"), ("b64", "d")):
        yield one(f"match.any.sync.{kind} x,a,-1 | {c}:u:4 | r")
        yield one(
            f"rem.u{kind[1:]} %a, %a, 2; match.all.sync.{kind} %x|%y, %a, -1; | {c}:u:2 | r p"
        )
        yield one(
            f"shr.u{kind[1:]} %a, %a, 10; match.all.sync.{kind} %x|%y, %a, -1; | {c}:u:1050 | r p"
        )
        yield one(
            f"{EVEN} mov.b32 %x, 0; @%p0 match.any.sync.{kind} %x, %a, 0x55555555; | {c}:u:4 | r"
        )
    for op in ("add", "min", "max"):
        for kind in ("u32", "s32"):
            yield one(f"redux.sync.{op}.{kind} x,a,-1 | r:i32 | r")
    for op in ("and", "or", "xor"):
        yield one(f"redux.sync.{op}.b32 x,a,-1 | r:i32 | r")
        yield one(f"{EVEN} mov.b32 %x, 5; @%p0 redux.sync.{op}.b32 %x, %a, 0x55555555; | r:i32 | r")
    yield one("elect.sync x|y,-1 | | r p", name="elect.sync")
    yield one("setp.gt.u32 %p0, %lane, 12; setp.ne.u32 %y, 0, 0; mov.b32 %x, 99;"
              " @%p0 elect.sync %x|%y, 0xffffe000; | | r p", name="elect.sync of some")  # fmt: skip
    # Tiles of a warp: lanes with other masks at one instruction.
    for width in (4, 8, 16):
        mask = (
            f"and.b32 %r0, %lane, {32 - width}; mov.b32 %r1, {(1 << width) - 1};"
            " shl.b32 %r1, %r1, %r0;"
        )
        control = (32 - width) << 8 | 0x1F
        yield one(
            f"{mask} shfl.sync.bfly.b32 %x|%y, %a, 3, {control}, %r1; redux.sync.add.u32 %z, %a,"
            " %r1; setp.gt.s32 %p1, %a, 0; vote.sync.ballot.b32 %u, %p1, %r1; | r:i32 | r p r r",
            name=f"tiles of {width}",
        )
        yield one(
            f"{mask} match.any.sync.b32 %x, %a, %r1; elect.sync %y|%z, %r1; | r:u:3 | r r p",
            name=f"tiles of {width}: match, elect",
        )
    yield one("activemask.b32 x | | r")
    yield one(f"{EVEN} mov.b32 %x, 5; @%p0 activemask.b32 %x; | | r")
    yield one(
        "setp.lt.u32 %p0, %lane, 9; @%p0 bra low; activemask.b32 %x; bra end; low: activemask.b32"
        " %x;"
        " end: bar.warp.sync -1; | | r", name="activemask where ways part",
    )  # fmt: skip
    yield one("mov.u32 %x, %lanemask_lt; mov.u32 %y, %lanemask_ge; mov.u32 %z, %laneid; | | r r r")
    yield one(
        "mov.u32 %x, %lanemask_le; mov.u32 %y, %lanemask_gt; mov.u32 %z, %lanemask_eq; | | r r r"
    )


def _accesses() -> Iterator[Probe]:
    """Sign and zero extension, vectors, parts of registers, in each space."""
    local = ".local .align 16 .b8 depot[32];"
    for space, place in (("global", "%own"), ("shared", "%mine"), ("local", "depot"), ("", "%own")):
        dot = f".{space}" if space else ""
        for bits in (8, 16, 32, 64):
            into = "d" if bits == 64 else "r"
            for kind in (f"u{bits}", f"s{bits}", f"b{bits}"):
                yield Probe(
                    f"ld{dot}.{kind} to a {into} register",
                    f"st{dot}.b64 [{place}], %a; ld{dot}.{kind} %x, [{place}];",
                    (("d", "i64"),), (into,), declare=local, shared=2048, blocks=1, threads=64,
                )  # fmt: skip
                if bits < 64:
                    yield Probe(
                        f"ld{dot}.{kind} to a d register",
                        f"st{dot}.b64 [{place}], %a; ld{dot}.{kind} %x, [{place}];",
                        (("d", "i64"),), ("d",), declare=local, shared=2048, blocks=1, threads=64,
                    )  # fmt: skip
            yield Probe(
                f"st{dot}.b{bits} of part of a register",
                f"st{dot}.b64 [{place}], %a; st{dot}.b{bits} [{place}], %b; ld{dot}.b64 %x,"
                f" [{place}];",
                (("d", "i64"), ("d", "i64")),
                ("d",),
                declare=local,
                shared=2048,
                blocks=1,
                threads=64,
            )
        for count, kind, c in ((2, "b32", "r"), (4, "b32", "r"), (2, "b64", "d"), (4, "u8", "r"),
                               (4, "s16", "r"), (2, "s8", "h"), (4, "b16", "h")):  # fmt: skip
            names = ", ".join(f"%{'xyzu'[k]}" for k in range(count))
            yield Probe(
                f"ld{dot}.v{count}.{kind} to {c}",
                f"st{dot}.v2.b64 [{place}], {{%a, %b}}; ld{dot}.v{count}.{kind} {{{names}}},"
                f" [{place}];",
                (("d", "i64"), ("d", "i64")),
                (c,) * count,
                declare=local,
                shared=2048,
                blocks=1,
                threads=64,
            )
            given = ", ".join(f"%{'abcd'[k]}" for k in range(count))
            yield Probe(
                f"st{dot}.v{count}.{kind} of {c}",
                f"st{dot}.v2.b64 [{place}], {{%e, %f}}; st{dot}.v{count}.{kind} [{place}],"
                f" {{{given}}};"
                f" ld{dot}.v2.b64 {{%x, %y}}, [{place}];",
                ((c, "i64" if c == "d" else "i32" if c == "r" else "i16"),) * 4
                + (("d", "i64"),) * 2,
                ("d", "d"),
                declare=local,
                shared=2048,
                blocks=1,
                threads=64,
            )
    words = ("relaxed.cta", "acquire.gpu", "volatile", "weak", "ca", "cg", "cs", "lu", "cv", "nc",
             "L1::evict_last", "L1::no_allocate", "nc.L1::no_allocate.L2::128B")  # fmt: skip
    for word in words:
        head = (
            f"ld.{word}.global" if word[:3] in ("rel", "acq", "vol", "wea") else f"ld.global.{word}"
        )
        yield Probe(head, f"{head}.v2.b32 {{%x, %y}}, [%own];", (), ("r", "r"))
