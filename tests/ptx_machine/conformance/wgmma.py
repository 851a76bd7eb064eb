"""Probes of wgmma: every type, descriptor mode and transposition, fragments, signs, depths of K.

Shared memory is full of small whole numbers, so that results are exact, and tell which elements
were multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.ptx_machine.conformance.probe import Probe, Tolerance

_SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}
_K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_IMAGE = {"s8": "tiny:i8", "u8": "u:8", "tf32": "tiny:f32"}
_PACKED = {"f16": "f16x2", "bf16": "bf16x2", "tf32": "tf32", "e4m3": "e4m3x4", "e5m2": "e5m2x4",
           "s8": "i8x4", "u8": "i8x4"}  # fmt: skip
BYTES = 49152
B_START = 24576


def probes() -> Iterator[Probe]:
    for kind in ("bf16", "f16"):
        for a_mn in (0, 1):
            for b_mn in (0, 1):
                for swizzle in _SWIZZLES:
                    n = 64 if not b_mn else 128
                    yield _product(kind, n, swizzle, swizzle, a_mn, b_mn)
                    if b_mn and swizzle < 64:
                        yield _product(kind, 64, swizzle, swizzle, a_mn, b_mn)
                yield _product(kind, 32, 128, 32, a_mn, b_mn)
                yield _product(kind, 48, 0, 64, a_mn, b_mn)
    for kind in ("tf32", "e4m3", "e5m2", "s8", "u8"):
        for swizzle in _SWIZZLES:
            yield _product(kind, 32, swizzle, swizzle)
    for a, b in (("e4m3", "e5m2"), ("e5m2", "e4m3"), ("s8", "u8"), ("u8", "s8")):
        yield _product(a, 32, 128, 128, btype=b)
    for kind in _K:
        yield _product(kind, 24, 128, 128, registers=True)
        yield _product(kind, 8, 32, 32, registers=True)
    yield _product("bf16", 128, 128, 128, 0, 1, registers=True)
    for dtype in ("f16", "f32"):
        yield _product("f16", 40 if dtype == "f16" else 72, 128, 128, dtype=dtype)
        yield _product("e4m3", 40, 64, 64, dtype=dtype)
    yield _product("f16", 16, 128, 128, dtype="f16", registers=True)
    # Start addresses within a swizzle pattern, odd strides, ignored leading offsets, 256 columns.
    for step in (32, 64, 96):
        yield _product("bf16", 16, 128, 128, step=step)
    yield _product("bf16", 16, 64, 64, step=32)
    for step in (2048, 4096):
        yield _product("bf16", 64, 128, 128, 1, 1, step=step)
        yield _product("bf16", 64, 64, 64, 1, 1, step=step // 2)
    yield _product("bf16", 16, 128, 128, step=128)
    yield _product("bf16", 16, 128, 128, leading=4096)
    yield _product("bf16", 16, 128, 128, stride=2048)
    yield _product("bf16", 16, 128, 128, stride=1280)
    yield _product("bf16", 16, 32, 32, stride=512)
    yield _product("bf16", 256, 128, 128, b_mn=1, rows=True)
    for a_sign, b_sign, scale in ((-1, 1, 1), (1, -1, 1), (-1, -1, 1), (1, 1, 0), (-1, 1, 0)):
        yield _product("bf16", 8, 128, 128, signs=(a_sign, b_sign), scale=scale)
        yield _product("f16", 8, 128, 128, dtype="f16", signs=(a_sign, b_sign), scale=scale)
        yield _product("tf32", 8, 128, 128, signs=(a_sign, b_sign), scale=scale)
    yield _product("s8", 8, 128, 128, scale=0)
    yield _product("s8", 16, 128, 128, saturate=True, image="i8")
    yield _product("u8", 16, 128, 128, saturate=True, image="i8")
    for kind in ("bf16", "f16", "tf32", "e4m3", "e5m2"):
        # fp8 products are added up with about 13 bits of the greatest of them.
        tolerance = Tolerance("f32", 0.0, 2.0**6 if kind[0] == "e" else 2.0**-5)
        yield _product(kind, 16, 128, 128, image=f"near:{'f32' if kind == 'tf32' else kind}",
                       tolerance=tolerance)  # fmt: skip
    yield _product(
        "f16", 16, 128, 128, dtype="f16", image="near:f16", tolerance=Tolerance("f16", 0, 32.0)
    )
    yield _product(
        "bf16", 16, 128, 128, image="bf16", tolerance=Tolerance("f32", 2.0**-7, 2.0**-40, True)
    )
    yield _product("f16", 16, 128, 128, image="f16", tolerance=Tolerance("f32", 2.0**-7, 2.0**-10))
    yield _product("e4m3", 16, 128, 128, image="e4m3", tolerance=Tolerance("f32", 2.0**-7, 2.0))
    yield _product("e5m2", 16, 128, 128, image="e5m2", tolerance=Tolerance("f32", 2.0**-7, 64.0))


def _descriptor(name: str, start: int, leading: int, stride: int, swizzle: int) -> str:
    """PTX that makes a descriptor in a register."""
    high = leading >> 4 << 16 | stride >> 4 << 32 | _SWIZZLES[swizzle] << 62
    return (
        f"add.u32 %r0, %s, {start}; shr.u32 %r0, %r0, 4; cvt.u64.u32 {name}, %r0;"
        f" or.b64 {name}, {name}, {high:#x};"
    )


def _strides(swizzle: int, mn: int, kind: str) -> tuple[int, int]:
    """Leading and stride byte offsets: all different, where the mode leaves a choice."""
    if swizzle == 0:
        return (256, 640) if not mn else (384, 2304)
    if not mn:
        return 16, 8 * swizzle
    return 4096, 8 * swizzle


def _product(
    kind: str, n: int, a_swizzle: int, b_swizzle: int, a_mn: int = 0, b_mn: int = 0, *,
    btype: str = "", dtype: str = "", registers: bool = False, step: int = 0, leading: int = 0,
    stride: int = 0, signs: tuple[int, int] = (1, 1), scale: int = 1, saturate: bool = False,
    image: str = "", tolerance: Tolerance | None = None, rows: bool = False,
) -> Probe:  # fmt: skip
    btype = btype or kind
    dtype = dtype or ("s32" if kind in ("s8", "u8") else "f32")
    count = n // 4 if dtype == "f16" else n // 2
    a_lead, a_stride = _strides(a_swizzle, a_mn, kind)
    b_lead, b_stride = _strides(b_swizzle, b_mn, kind)
    a_lead, a_stride, b_lead, b_stride = (
        leading or a_lead, stride or a_stride, leading or b_lead, stride or b_stride,
    )  # fmt: skip
    names = ", ".join(f"%x{k}" for k in range(count)) if count > 6 else ", ".join(
        f"%{'xyzuvw'[k]}" for k in range(count)
    )  # fmt: skip
    body = ["fence.proxy.async.shared::cta; bar.sync 0;"]
    unit = {"f32": "0f40400000", "f16": "0x42004200", "s32": "3"}[dtype]
    listed = names.split(", ")
    for k, name in enumerate(listed):
        first_value = unit if dtype != "s32" else str(3 + k)
        body.append(f"mov.b32 {name}, {first_value if k % 2 else 0};")
    if saturate:
        body += [
            f"mov.b32 {name}, {0x7FFFFF00 if k % 2 else 0x80000100};"
            for k, name in enumerate(listed)
        ]
    operands: tuple[tuple[str, str], ...] = ()
    if registers:
        first = "{%a, %b, %c, %d}"
        operands = tuple(
            ("r", f"tiny:{_PACKED[kind]}" if kind != "u8" else "i8x4") for _ in range(4)
        )
    else:
        first = "%d0"
        body.append(_descriptor("%d0", step, a_lead, a_stride, a_swizzle))
    body.append(_descriptor("%d1", B_START + step, b_lead, b_stride, b_swizzle))
    body.append(f"setp.ne.u32 %p0, {scale}, 0;")
    shape = f"m64n{n}k{_K[kind]}"
    tail = "" if dtype == "s32" else f", {signs[0]}, {signs[1]}"
    if kind in ("f16", "bf16"):
        tail += f", {b_mn}" if registers else f", {a_mn}, {b_mn}"
    sat = ".satfinite" if saturate else ""
    end = f"{sat}.{dtype}.{kind}.{btype}"
    body.append("wgmma.fence.sync.aligned;")
    body.append(f"wgmma.mma_async.sync.aligned.{shape}{end} {{{names}}}, {first}, %d1, %p0{tail};")
    body.append("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;")
    label = (
        f"wgmma {shape}{end} A {'registers' if registers else f'{a_swizzle} mn {a_mn}'}"
        f" B {b_swizzle} mn {b_mn}"
    )
    options: tuple[tuple[str, object, object], ...] = (
        ("step", step, 0), ("leading", leading, 0), ("stride", stride, 0), ("signs", signs, (1, 1)),
        ("scale", scale, 1), ("image", image, ""),
    )  # fmt: skip
    for word, value, usual in options:
        label += f" {word} {value}" if value != usual else ""
    kept = _IMAGE.get(kind, f"tiny:{kind}")
    if btype != kind and kind in ("s8", "u8"):
        kept = "u:8"
    return Probe(
        label, "\n".join(body), operands, ("r",) * count, blocks=1, shared=BYTES, fill=BYTES,
        image=(image or kept, BYTES), tolerance=tolerance,
    )  # fmt: skip
