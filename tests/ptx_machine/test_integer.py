"""The integer family against a model in Python's own integers, by the text of the PTX manual."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.ptx_machine.conformance.values import column
from tests.ptx_machine.straight import run

COUNT = 480
CLASS = {8: "h", 16: "h", 32: "r", 64: "d"}
TYPES = ("u16", "u32", "u64", "s16", "s32", "s64")

Model = Callable[..., "int | tuple[int, ...]"]


def signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def value(x: int, kind: str) -> int:
    return signed(x, int(kind[1:])) if kind[0] == "s" else x


def clamp(x: int, low: int, high: int) -> int:
    return max(low, min(high, x))


def quotient(x: int, y: int) -> int:
    """Towards zero."""
    q = abs(x) // abs(y)
    return -q if (x < 0) != (y < 0) else q


def saturated(x: int) -> int:
    return clamp(x, -(1 << 31), (1 << 31) - 1)


# (PTX, classes and kinds of operands, classes of results, model)
Case = tuple[str, str, str, Model]


def arithmetic() -> Iterator[Case]:
    for t in TYPES:
        bits = int(t[1:])
        c, v = CLASS[bits], f"{CLASS[bits]}:i{bits}"
        two, three = f"{v} {v}", f"{v} {v} {v}"

        def numbers(f: Callable[..., int], t: str = t) -> Model:
            return lambda *xs: f(*(value(x, t) for x in xs))

        yield f"add.{t} %x, %a, %b;", two, c, numbers(lambda a, b: a + b)
        yield f"sub.{t} %x, %a, %b;", two, c, numbers(lambda a, b: a - b)
        yield f"mul.lo.{t} %x, %a, %b;", two, c, numbers(lambda a, b: a * b)
        yield f"mul.hi.{t} %x, %a, %b;", two, c, numbers(lambda a, b, n=bits: a * b >> n)
        yield f"mad.lo.{t} %x, %a, %b, %c;", three, c, numbers(lambda a, b, d: a * b + d)
        yield (
            f"mad.hi.{t} %x, %a, %b, %c;",
            three,
            c,
            numbers(lambda a, b, d, n=bits: (a * b >> n) + d),
        )
        yield f"sad.{t} %x, %a, %b, %c;", three, c, numbers(lambda a, b, d: abs(a - b) + d)
        yield f"min.{t} %x, %a, %b;", two, c, numbers(lambda a, b: min(a, b))
        yield f"max.{t} %x, %a, %b;", two, c, numbers(lambda a, b: max(a, b))
        # What a division by zero gives is not in the manual: the recorded probes have it.
        yield (f"div.{t} %x, %a, %b;", two, c,
               numbers(lambda a, b: quotient(a, b) if b else -1))  # fmt: skip
        yield (f"rem.{t} %x, %a, %b;", two, c,
               numbers(lambda a, b: a - quotient(a, b) * b if b else -1))  # fmt: skip
        if t[0] == "s":
            yield f"abs.{t} %x, %a;", v, c, numbers(abs)
            yield f"neg.{t} %x, %a;", v, c, numbers(lambda a: -a)
        if bits < 64:
            wide = CLASS[2 * bits]
            yield f"mul.wide.{t} %x, %a, %b;", two, wide, numbers(lambda a, b: a * b)
            yield (f"mad.wide.{t} %x, %a, %b, %c;", f"{two} {wide}:i{2 * bits}", wide,
                   lambda a, b, d, t=t: value(a, t) * value(b, t) + d)  # fmt: skip
    s = signed
    r2, r3 = "r:i32 r:i32", "r:i32 r:i32 r:i32"
    yield "add.sat.s32 %x, %a, %b;", r2, "r", lambda a, b: saturated(s(a, 32) + s(b, 32))
    yield "sub.sat.s32 %x, %a, %b;", r2, "r", lambda a, b: saturated(s(a, 32) - s(b, 32))
    yield ("mad.hi.sat.s32 %x, %a, %b, %c;", r3, "r",
           lambda a, b, c: saturated((s(a, 32) * s(b, 32) >> 32) + s(c, 32)))  # fmt: skip
    yield "min.relu.s32 %x, %a, %b;", r2, "r", lambda a, b: max(0, min(s(a, 32), s(b, 32)))
    yield "max.relu.s32 %x, %a, %b;", r2, "r", lambda a, b: max(0, s(a, 32), s(b, 32))
    for t in ("u32", "s32"):

        def of24(x: int, t: str = t) -> int:
            return signed(x, 24) if t == "s32" else x & 0xFFFFFF

        yield f"mul24.lo.{t} %x, %a, %b;", r2, "r", lambda a, b, f=of24: f(a) * f(b)
        yield f"mul24.hi.{t} %x, %a, %b;", r2, "r", lambda a, b, f=of24: f(a) * f(b) >> 16
        yield f"mad24.lo.{t} %x, %a, %b, %c;", r3, "r", lambda a, b, c, f=of24: f(a) * f(b) + c
        yield (
            f"mad24.hi.{t} %x, %a, %b, %c;",
            r3,
            "r",
            lambda a, b, c, f=of24: (f(a) * f(b) >> 16) + c,
        )
    yield ("mad24.hi.sat.s32 %x, %a, %b, %c;", r3, "r",
           lambda a, b, c: saturated((s(a, 24) * s(b, 24) >> 16) + s(c, 32)))  # fmt: skip
    for ta in ("u32", "s32"):
        for tb in ("u32", "s32"):

            def parts(x: int, bits: int, t: str) -> list[int]:
                return [
                    value(x >> bits * k & ((1 << bits) - 1), t[0] + str(bits))
                    for k in range(32 // bits)
                ]

            yield (
                f"dp4a.{ta}.{tb} %x, %a, %b, %c;",
                r3,
                "r",
                lambda a, b, c, ta=ta, tb=tb: (
                    c + sum(x * y for x, y in zip(parts(a, 8, ta), parts(b, 8, tb), strict=True))
                ),
            )
            for half in (0, 1):
                yield (
                    f"dp2a.{('lo', 'hi')[half]}.{ta}.{tb} %x, %a, %b, %c;",
                    r3,
                    "r",
                    lambda a, b, c, ta=ta, tb=tb, half=half: (
                        c
                        + sum(
                            x * y
                            for x, y in zip(
                                parts(a, 16, ta),
                                parts(b, 8, tb)[2 * half : 2 * half + 2],
                                strict=True,
                            )
                        )
                    ),
                )


def carries() -> Iterator[Case]:
    for t in ("u32", "s32", "u64", "s64"):
        n = int(t[1:])
        v, c = f"{CLASS[n]}:i{n}", CLASS[n]
        top = 1 << n

        def added(a: int, b: int, c: int, d: int, top: int = top) -> tuple[int, ...]:
            whole = (a + c * top) + (b + d * top)
            return whole, whole // top, a + d + whole // top // top

        def subtracted(a: int, b: int, c: int, d: int, top: int = top) -> tuple[int, ...]:
            whole = (a + c * top) - (b + d * top)
            return whole, whole // top, a - d - (1 if whole < 0 else 0)

        def multiplied(a: int, b: int, c: int, d: int, t: str = t, n: int = n) -> tuple[int, ...]:
            """The product of two numbers plus one of twice the width."""
            top = 1 << n
            product = value(a, t) * value(b, t)
            whole = product % (top * top) + c + d * top
            carry = whole // top // top
            return whole, whole // top, (value(a, t) * value(b, t) >> n) + carry

        yield (f"add.cc.{t} %x, %a, %b; addc.cc.{t} %y, %c, %d; addc.{t} %z, %a, %d;",
               " ".join([v] * 4), c * 3, added)  # fmt: skip
        yield (f"sub.cc.{t} %x, %a, %b; subc.cc.{t} %y, %c, %d; subc.{t} %z, %a, %d;",
               " ".join([v] * 4), c * 3, subtracted)  # fmt: skip
        yield (
            f"mad.lo.cc.{t} %x, %a, %b, %c; madc.hi.cc.{t} %y, %a, %b, %d;"
            f" madc.hi.{t} %z, %a, %b, 0;",
            " ".join([v] * 4),
            c * 3,
            multiplied,
        )


def bits() -> Iterator[Case]:
    for n in (16, 32, 64):
        c, v = CLASS[n], f"{CLASS[n]}:i{n}"
        yield f"and.b{n} %x, %a, %b;", f"{v} {v}", c, lambda a, b: a & b
        yield f"or.b{n} %x, %a, %b;", f"{v} {v}", c, lambda a, b: a | b
        yield f"xor.b{n} %x, %a, %b;", f"{v} {v}", c, lambda a, b: a ^ b
        yield f"not.b{n} %x, %a;", v, c, lambda a: ~a
        yield f"cnot.b{n} %x, %a;", f"{c}:u:3", c, lambda a: int(a == 0)
        for amount in ("u:80", "i32"):
            two = f"{v} r:{amount}"
            yield f"shl.b{n} %x, %a, %b;", two, c, lambda a, b: a << min(b, 64)
            for kind in ("b", "u"):
                yield f"shr.{kind}{n} %x, %a, %b;", two, c, lambda a, b: a >> min(b, 64)
            yield f"shr.s{n} %x, %a, %b;", two, c, lambda a, b, n=n: signed(a, n) >> min(b, 64)
        yield f"selp.b{n} %x, %a, %b, %c;", f"{v} {v} p:p", c, lambda a, b, p: a if p else b
        yield f"selp.b{n} %x, %a, %b, !%c;", f"{v} {v} p:p", c, lambda a, b, p: b if p else a
        yield (f"slct.b{n}.s32 %x, %a, %b, %c;", f"{v} {v} r:i32", c,
               lambda a, b, k: a if signed(k, 32) >= 0 else b)  # fmt: skip
        yield f"mov.b{n} %x, %a;", v, c, lambda a: a
    for n in (32, 64):
        c, v = CLASS[n], f"{CLASS[n]}:i{n}"
        yield f"popc.b{n} %x, %a;", v, "r", lambda a: a.bit_count()
        yield f"clz.b{n} %x, %a;", v, "r", lambda a, n=n: n - a.bit_length()
        yield f"brev.b{n} %x, %a;", v, c, lambda a, n=n: int(f"{a:0{n}b}"[::-1], 2)
        for k in ("u:70", "i32"):
            yield (
                f"bfi.b{n} %x, %a, %b, %c, %d;",
                f"{v} {v} r:{k} r:{k}",
                c,
                lambda a, b, c, d, n=n: inserted(
                    a, b, c & 255 if n == 32 else c, d & 255 if n == 32 else d, n
                ),
            )
            for s in ("u", "s"):
                yield (
                    f"bfe.{s}{n} %x, %a, %b, %c;",
                    f"{v} r:{k} r:{k}",
                    c,
                    lambda a, b, c, n=n, s=s: extracted(
                        a, b & 255 if n == 32 else b, c & 255 if n == 32 else c, n, s
                    ),
                )
        for s in ("u", "s"):
            yield (f"bfind.{s}{n} %x, %a;", v, "r",
                   lambda a, n=n, s=s: highest(value(a, f"{s}{n}")))  # fmt: skip
            yield (
                f"bfind.shiftamt.{s}{n} %x, %a;",
                v,
                "r",
                lambda a, n=n, s=s: (
                    -1 if highest(value(a, f"{s}{n}")) < 0 else n - 1 - highest(value(a, f"{s}{n}"))
                ),
            )
    r3 = "r:i32 r:i32 r:i32"
    for table in range(0, 256, 7):
        yield (
            f"lop3.b32 %x, %a, %b, %c, {table};",
            r3,
            "r",
            lambda a, b, c, table=table: sum(
                (table >> (4 * (a >> k & 1) + 2 * (b >> k & 1) + (c >> k & 1)) & 1) << k
                for k in range(32)
            ),
        )
    for op, f in (
        ("and", lambda p, q: p & q),
        ("or", lambda p, q: p | q),
        ("xor", lambda p, q: p ^ q),
    ):
        if op != "xor":
            yield (f"lop3.{op}.b32 %x|%y, %a, %b, %c, 0x80, %d;", "r:u:9 r:u:9 r:u:9 p:p", "rp",
                   lambda a, b, c, q, f=f: (a & b & c, f(int(a & b & c != 0), q)))  # fmt: skip
        yield f"{op}.pred %x, %a, %b;", "p:p p:p", "p", lambda a, b, f=f: f(a, b)
    yield "not.pred %x, %a;", "p:p", "p", lambda a: 1 - a
    for amount in ("u:70", "i32"):
        for how in ("clamp", "wrap"):

            def by(c: int, how: str = how) -> int:
                return min(c, 32) if how == "clamp" else c & 31

            yield (f"shf.l.{how}.b32 %x, %a, %b, %c;", f"r:i32 r:i32 r:{amount}", "r",
                   lambda a, b, c, by=by: (b << 32 | a) << by(c) >> 32)  # fmt: skip
            yield (f"shf.r.{how}.b32 %x, %a, %b, %c;", f"r:i32 r:i32 r:{amount}", "r",
                   lambda a, b, c, by=by: (b << 32 | a) >> by(c))  # fmt: skip
    for kind in ("u:40", "i32"):
        yield ("bmsk.clamp.b32 %x, %a, %b;", f"r:{kind} r:{kind}", "r",
               lambda a, b: ((1 << min(b, 32)) - 1) << a if a < 32 else 0)  # fmt: skip
        yield ("bmsk.wrap.b32 %x, %a, %b;", f"r:{kind} r:{kind}", "r",
               lambda a, b: ((1 << (b & 31)) - 1) << (a & 31))  # fmt: skip
        for s in ("u32", "s32"):
            for how in ("clamp", "wrap"):
                yield (
                    f"szext.{how}.{s} %x, %a, %b;",
                    f"r:i32 r:{kind}",
                    "r",
                    lambda a, b, s=s, how=how: cut(a, min(b, 32) if how == "clamp" else b & 31, s),
                )
    yield "prmt.b32 %x, %a, %b, %c;", r3, "r", permuted
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield (f"prmt.b32.{mode} %x, %a, %b, %c;", r3, "r",
               lambda a, b, c, mode=mode: chosen(a, b, PLACES[mode][c & 3]))  # fmt: skip
    yield ("sub.s32 %c, %c, 10; fns.b32 %x, %a, %b, %c;", "r:i32 r:u:32 r:u:20", "r",
           lambda a, b, c: nth(a, b, c - 10))  # fmt: skip
    yield ("mov.b64 %x, {%a, %b}; mov.b64 {%y, %z}, %c;", "r:i32 r:i32 d:i64", "drr",
           lambda a, b, c: (b << 32 | a, c, c >> 32))  # fmt: skip
    yield ("mov.b32 %x, {%a, %b}; mov.b32 {%y, %z}, %c;", "h:i16 h:i16 r:i32", "rhh",
           lambda a, b, c: (b << 16 | a, c, c >> 16))  # fmt: skip


def inserted(a: int, b: int, at: int, length: int, n: int) -> int:
    """Bit by bit, as the manual's pseudo code does. Eight bits of place and length count; but the
    H200 takes all of them for 64-bit fields."""
    for k in range(min(length, n)):
        if at + k >= n or k >= n:
            break
        b = b & ~(1 << (at + k)) | (a >> k & 1) << (at + k)
    return b


def extracted(a: int, at: int, length: int, n: int, s: str) -> int:
    if s == "u" or length == 0:
        sign = 0
    else:
        sign = a >> min(at + length - 1, n - 1) & 1
    result = 0
    for k in range(n):
        bit = a >> (at + k) & 1 if k < length and at + k < n else sign
        result |= bit << k
    return result


def highest(x: int) -> int:
    """The place of the highest bit that is not the sign, or -1."""
    return (~x if x < 0 else x).bit_length() - 1


def cut(a: int, length: int, s: str) -> int:
    return 0 if length == 0 else value(a & ((1 << length) - 1), f"{s[0]}{length}")


def permuted(a: int, b: int, c: int) -> int:
    pool = (b << 32 | a).to_bytes(8, "little")
    result = 0
    for k in range(4):
        selector = c >> 4 * k & 15
        byte = pool[selector & 7]
        result |= (
            (0xFF if byte >> 7 else 0 if selector & 8 else byte) << 8 * k
            if selector & 8
            else byte << 8 * k
        )
    return result


# The table of the manual: bytes of the result from the highest to the lowest.
PLACES = {
    "f4e": ("3210", "4321", "5432", "6543"), "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"), "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"), "rc16": ("1010", "3232", "1010", "3232"),
}  # fmt: skip


def chosen(a: int, b: int, places: str) -> int:
    pool = (b << 32 | a).to_bytes(8, "little")
    return int.from_bytes(bytes(pool[int(p)] for p in reversed(places)), "little")


def nth(mask: int, base: int, offset: int) -> int:
    """The manual's pseudo code."""
    if offset == 0:
        return base if mask >> base & 1 else -1
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [p for p in places if mask >> p & 1]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else -1


def halves() -> Iterator[Case]:
    def both(f: Callable[[int, int], int], t: str) -> Model:
        def model(a: int, b: int) -> int:
            low, high = (
                f(value(a >> k & 0xFFFF, t), value(b >> k & 0xFFFF, t)) & 0xFFFF for k in (0, 16)
            )
            return high << 16 | low

        return model

    two = "r:i16x2 r:i16x2"
    for t in ("u16", "s16"):
        yield f"add.{t}x2 %x, %a, %b;", two, "r", both(lambda a, b: a + b, t)
        yield f"min.{t}x2 %x, %a, %b;", two, "r", both(min, t)
        yield f"max.{t}x2 %x, %a, %b;", two, "r", both(max, t)
    yield "min.relu.s16x2 %x, %a, %b;", two, "r", both(lambda a, b: max(0, min(a, b)), "s16")
    yield "max.relu.s16x2 %x, %a, %b;", two, "r", both(lambda a, b: max(0, a, b), "s16")


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
COMPARE |= dict(
    zip(("lo", "ls", "hi", "hs"), [COMPARE[k] for k in ("lt", "le", "gt", "ge")], strict=True)
)
COMBINE: dict[str, Callable[[int, int], int]] = {
    "and": lambda p, q: p & q, "or": lambda p, q: p | q, "xor": lambda p, q: p ^ q,
}  # fmt: skip


def comparisons() -> Iterator[Case]:
    for t in (*TYPES, "b16", "b32", "b64"):
        n = int(t[1:])
        names = {"b": ("eq", "ne"), "s": tuple(COMPARE)[:6], "u": tuple(COMPARE)}[t[0]]
        for values in (f"i{n}", "u:3"):
            for name in names:
                v = f"{CLASS[n]}:{values}"

                def holds(a: int, b: int, name: str = name, t: str = t) -> int:
                    return int(COMPARE[name](value(a, t), value(b, t)))

                yield (f"setp.{name}.{t} %x|%y, %a, %b;", f"{v} {v}", "pp",
                       lambda a, b, f=holds: (f(a, b), 1 - f(a, b)))  # fmt: skip
                for how, g in COMBINE.items():
                    yield (
                        f"setp.{name}.{how}.{t} %x|%y, %a, %b, !%c;",
                        f"{v} {v} p:p",
                        "pp",
                        lambda a, b, c, f=holds, g=g: (g(f(a, b), 1 - c), g(1 - f(a, b), 1 - c)),
                    )
                yield (f"set.{name}.u32.{t} %x, %a, %b;", f"{v} {v}", "r",
                       lambda a, b, f=holds: -f(a, b))  # fmt: skip
                yield (f"set.{name}.f32.{t} %x, %a, %b;", f"{v} {v}", "r",
                       lambda a, b, f=holds: f(a, b) * 0x3F800000)  # fmt: skip


CASES = [*arithmetic(), *carries(), *bits(), *halves(), *comparisons()]


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_against_integers(case: Case) -> None:
    body, operands, results, model = case
    pairs = [(w.partition(":")[0], w.partition(":")[2]) for w in operands.split()]
    given: list[np.ndarray[tuple[int], np.dtype[np.uint64]]] = []
    for k, (_, kind) in enumerate(pairs):
        given.append(column(kind, f"test {body}#{k}", COUNT, given))
    found = run(body, "".join(c for c, _ in pairs), results, given)
    widths = {"p": 1, "h": 16, "r": 32, "d": 64}
    for lane in range(COUNT):
        operands_here = [int(values[lane]) for values in given]
        wanted = model(*operands_here)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for k, one in enumerate(wanted):
            want = one & ((1 << widths[results[k]]) - 1)
            got = int(found[k][lane])
            listed = ", ".join(map(hex, operands_here))
            assert got == want, f"{body} of {listed}: {got:#x}, not {want:#x}"
