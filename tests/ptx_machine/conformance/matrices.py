"""Probes of ldmatrix, stmatrix, movmatrix and mma.sync."""

from __future__ import annotations

from collections.abc import Iterator

from tests.ptx_machine.conformance.probe import Probe, Tolerance
from tests.ptx_machine.conformance.table import one

# shape: type of A: registers of A, of B
SHAPES = {
    "m16n8k8": {"f16": (2, 1), "bf16": (2, 1), "tf32": (4, 2)},
    "m16n8k16": {"f16": (4, 2), "bf16": (4, 2), "s8": (2, 1), "u8": (2, 1)},
    "m8n8k16": {"s8": (1, 1), "u8": (1, 1)},
    "m16n8k4": {"tf32": (2, 1)},
    "m16n8k32": {"s8": (4, 2), "u8": (4, 2), "e4m3": (4, 2), "e5m2": (4, 2)},
    "m8n8k4": {"f64": (1, 1)},
    "m16n8k8 ": {"f64": (4, 2)},
    "m16n8k4 ": {"f64": (2, 1)},
    "m16n8k16 ": {"f64": (8, 4)},
}
_WORDS = {
    "f16": "f16x2", "bf16": "bf16x2", "tf32": "tf32", "s8": "i8x4", "u8": "i8x4", "e4m3": "e4m3x4",
    "e5m2": "e5m2x4", "f64": "f64",
}  # fmt: skip


def probes() -> Iterator[Probe]:
    yield from _matrices()
    yield from _products()


def _matrices() -> Iterator[Probe]:
    # Rows in an order of their own: lane l gives row 5 l + 3 (of 32), or of 64.
    place = "mad.lo.u32 %r0, %lane, 5, 3; and.b32 %r0, %r0, 31; mad.lo.u32 %r1, %r0, 16, %s;"
    for count in (1, 2, 4):
        names = ", ".join(f"%{'xyzu'[k]}" for k in range(count))
        given = ", ".join(f"%{'abcd'[k]}" for k in range(count))
        for trans in ("", ".trans"):
            yield Probe(
                f"ldmatrix.x{count}{trans}",
                f"{place} ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{names}}},"
                f" [%r1];",
                (), ("r",) * count, blocks=1, threads=32, shared=512, fill=512, image=("i16", 512),
            )  # fmt: skip
            yield Probe(
                f"stmatrix.x{count}{trans}",
                f"{place} stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r1],"
                f" {{{given}}};",
                (("r", "i32"),) * 4, (), blocks=1, threads=32, shared=512, fill=512, dump=512,
                image=("i16", 512),
            )  # fmt: skip
    yield one("movmatrix.sync.aligned.m8n8.trans.b16 x,a | r:i32 | r")


def _products() -> Iterator[Probe]:
    for shape, kinds in SHAPES.items():
        for kind, (a, b) in kinds.items():
            others = {"s8": ("s8", "u8"), "u8": ("u8", "s8"), "e4m3": ("e4m3", "e5m2"),
                      "e5m2": ("e5m2", "e4m3")}.get(kind, (kind,))  # fmt: skip
            sums = {"f16": ("f16", "f32"), "s8": ("s32",), "u8": ("s32",), "f64": ("f64",),
                    "e4m3": ("f32",), "e5m2": ("f32",)}.get(kind, ("f32",))  # fmt: skip
            for other in others:
                for dtype in sums:
                    for sat in ("", ".satfinite") if dtype == "s32" else ("",):
                        yield from _product(shape.strip(), kind, other, dtype, sat, a, b)


def _product(
    shape: str, kind: str, other: str, dtype: str, sat: str, a: int, b: int
) -> Iterator[Probe]:
    c = "d" if kind == "f64" else "r"
    # Those of 8 rows have 2 accumulators, those of 16 rows 4.
    count = 2 if dtype == "f16" or shape.startswith("m8") else 4
    word = {"f16": "f16x2", "f32": "f32", "s32": "i32", "f64": "f64"}[dtype]
    end = f"row.col{sat}.{dtype}.{kind}.{other}.{dtype}"
    text = f"mma.sync.aligned.{shape}.{end}"
    total = a + b + count
    load = [f"  .reg .b{64 if c == 'd' else 32} %m<{total}>;"]
    names = [f"%m{k}" for k in range(total)]
    parts = (names[:a], names[a : a + b], names[a + b :])
    lists = ", ".join("{" + ", ".join(part) + "}" for part in parts)
    results = ", ".join(f"%{'xyzu'[k]}" for k in range(count))
    variants: list[tuple[str, str, Tolerance | None]] = [("small", "tiny:", None)]
    if dtype in ("f32", "f16"):
        variants.append(
            ("near", "near:", Tolerance(dtype, 2.0**-14, 2.0**-7 if dtype == "f32" else 4.0))
        )
    if dtype in ("s32", "f64"):
        variants = [("any", "" if dtype == "s32" else "near:", None if dtype == "s32" else
                     Tolerance("f64", 2.0**-40, 2.0**-30))]  # fmt: skip
    for label, prefix, tolerance in variants:
        kinds = [_WORDS[kind]] * a + [_WORDS[other]] * b + [word] * count
        values = tuple((c, prefix + k) for k in kinds)
        # More operands than names: they are read from the image.
        body = []
        unit = 8 if c == "d" else 4
        del load[1:]
        body.append(f"mad.wide.u32 %d0, %lane, {unit}, %image;")
        body += [f"ld.global.b{8 * unit} %m{k}, [%d0 + {32 * unit * k}];" for k in range(total)]
        body.append(f"{text} {{{results}}}, {lists};")
        yield Probe(
            f"{text} {label}", "\n".join(body), (), (c,) * count, blocks=1, threads=32,
            declare=load[0], tolerance=tolerance, image=("columns", 32 * unit * total),
            image_columns=tuple(k for _, k in values),
        )  # fmt: skip
