"""Probes of cvt: every pair of types that there is, in every rounding mode."""

from __future__ import annotations

from collections.abc import Iterator

from tests.ptx_machine.conformance.probe import Probe
from tests.ptx_machine.conformance.table import one

_CLASS = {
    "u8": "h", "s8": "h", "u16": "h", "s16": "h", "u32": "r", "s32": "r", "u64": "d", "s64": "d",
    "f16": "h", "bf16": "h", "f32": "r", "f64": "d", "tf32": "r", "e4m3x2": "h", "e5m2x2": "h",
    "f16x2": "r", "bf16x2": "r",
}  # fmt: skip
_INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def _source(kind: str) -> str:
    values = f"i{kind[1:]}" if kind[0] in "us" and kind[1:].isdigit() else kind
    return f"{_CLASS[kind]}:{values}"


def _holds(target: str, source: str) -> bool:
    """Every value of one integer type fits another: then there is no .sat."""
    more = int(target[1:]) - int(source[1:])
    return more >= 0 if target[0] == source[0] else target[0] == "s" and more > 0


def probes() -> Iterator[Probe]:
    for source in _INTEGERS:
        for target in _INTEGERS:
            for sat in ("",) if _holds(target, source) else ("", ".sat"):
                # A wide register of the result, too: it is extended.
                yield one(f"cvt{sat}.{target}.{source} x,a | {_source(source)} | {_CLASS[target]}",
                          blocks=1)  # fmt: skip
        for target in ("f16", "bf16", "f32", "f64"):
            if target == "bf16" and source[1:] == "8":
                continue
            for rnd in ("rn", "rz", "rm", "rp"):
                yield one(f"cvt.{rnd}.{target}.{source} x,a | {_source(source)} | {_CLASS[target]}")
            if target != "bf16":
                yield one(
                    f"cvt.rn.sat.{target}.{source} x,a | {_source(source)} | {_CLASS[target]}"
                )
    for kind in ("u8", "s8", "u16", "s16"):
        yield one(
            f"cvt.{kind}.s32 x,a | r:i32 | r", name=f"cvt.{kind}.s32 to a wide register", blocks=1
        )
        yield one(
            f"cvt.rzi.{kind}.f32 x,a | r:f32 | r",
            name=f"cvt.rzi.{kind}.f32 to a wide register",
            blocks=1,
        )
    for source in _BITS:
        for target in _INTEGERS:
            if source == "bf16" and target[1:] == "8":
                continue
            for rnd in ("rni", "rzi", "rmi", "rpi"):
                end = f"{target}.{source} x,a | {_source(source)} | {_CLASS[target]}"
                yield one(f"cvt.{rnd}.{end}")
                if source == "f32":
                    yield one(f"cvt.{rnd}.ftz.{end}")
            if source != "bf16":
                yield one(f"cvt.rni.sat.{end}")
        yield from _to_floats(source)
    yield from _small_floats()


def _to_floats(source: str) -> Iterator[Probe]:
    for target, bits in _BITS.items():
        line = f"{target}.{source} x,a | {_source(source)} | {_CLASS[target]}"
        if target == source:
            for rnd in ("rni", "rzi", "rmi", "rpi"):
                yield one(f"cvt.{rnd}.{line}")
                if source == "f32":
                    yield one(f"cvt.{rnd}.ftz.{line}")
                    yield one(f"cvt.{rnd}.ftz.sat.{line}")
                if source != "bf16":
                    yield one(f"cvt.{rnd}.sat.{line}")
            continue
        flushes = ("", ".ftz") if "f32" in (source, target) else ("",)
        if bits > _BITS[source]:
            for ftz in flushes if source != "bf16" else ("",):
                yield one(f"cvt{ftz}.{line}")
                if source != "bf16":
                    yield one(f"cvt{ftz}.sat.{line}")
            if source == "bf16" and target == "f32":
                continue
            continue
        for rnd in ("rn", "rz", "rm", "rp"):
            for ftz in flushes if target != "bf16" else ("",):
                yield one(f"cvt.{rnd}{ftz}.{line}", blocks=3)
            if "bf16" not in (source, target):
                yield one(f"cvt.{rnd}.sat.{line}")
    for target in ("f16", "bf16"):
        if source == "f32":
            for rnd in ("rn", "rz"):
                end = f"{target}.f32 x,a | r:f32 | h"
                for word in (".relu", ".satfinite", ".relu.satfinite", ".satfinite.relu"):
                    yield one(f"cvt.{rnd}{word}.{end}")
                end = f"{target}x2.f32 x,a,b | r:f32 r:f32 | r"
                for word in ("", ".relu", ".satfinite", ".relu.satfinite", ".satfinite.relu"):
                    yield one(f"cvt.{rnd}{word}.{end}", blocks=3)


def _small_floats() -> Iterator[Probe]:
    for rnd in ("rn", "rz", "rna"):
        yield one(f"cvt.{rnd}.tf32.f32 x,a | r:f32 | r", blocks=3)
        if rnd == "rna":
            yield one("cvt.rna.satfinite.tf32.f32 x,a | r:f32 | r", blocks=3)
        else:
            yield one(f"cvt.{rnd}.relu.tf32.f32 x,a | r:f32 | r", blocks=3)
    for kind in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            yield one(f"cvt.rn.satfinite{relu}.{kind}.f32 x,a,b | r:f32 r:f32 | h", blocks=6)
            yield one(f"cvt.rn.satfinite{relu}.{kind}.f16x2 x,a | r:f16x2 | h", blocks=6)
            yield one(f"cvt.rn{relu}.f16x2.{kind} x,a | h:i16 | r", blocks=3)
    for pair in ("u16", "s16", "u8", "s8"):
        yield one(f"cvt.pack.sat.{pair}.s32{'.b32' if pair[1:] == '8' else ''} "
                  f"x,a,b{',c' if pair[1:] == '8' else ''} | r:i32 r:i32 r:i32 | r")  # fmt: skip
