"""One probe: instructions, what goes in, and the kernel around them.

The kernel gives each thread its operands in registers ``%a %b ...`` and keeps what it leaves in
``%x %y ...`` (or ``%x0 %x1 ...``). It takes four parameters: operands (u64 [operand][thread]),
results (u64 [result][thread]), an image in global memory, and a tensor map.

Registers of the kernel: ``%thread`` in the block, ``%lane``, ``%warp``, ``%rank`` in the cluster,
``%s`` the address of shared memory, ``%mine`` 16 bytes of shared memory of the thread's own and
``%own`` 16 bytes of the image; ``%image``; ``%map``; scratch ``%p0-%p9 %h0-%h9 %r0-%r31 %d0-%d19``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.ptx_machine.conformance.values import column

__all__ = ["HEADER", "Map", "Probe", "Tolerance", "module_text"]

Array = np.ndarray[Any, Any]

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
_CLASS = {"p": "pred", "h": "b16", "r": "b32", "d": "b64"}
_WIDTHS = {"e4m3": "8", "e5m2": "8"}
_BYTES = {"p": 1, "h": 2, "r": 4, "d": 8}


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be from the GPU's: of format ``kind``, relative, or absolute.

    ``overflows``: sums of products may overflow on the way: all that is not finite is alike.
    """

    kind: str
    relative: float = 0.0
    absolute: float = 0.0
    overflows: bool = False


@dataclass(frozen=True)
class Map:
    """A tensor map of the image; all lists innermost first.

    Attributes:
        dtype: "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64" or "bf16".
        strides: in bytes, of all dimensions but the innermost.
        box: as the driver takes it; with im2col: channels and pixels.
        swizzle: 0, 32, 64 or 128 bytes.
        steps: element strides.
        lower, upper: corners, with im2col.
    """

    dtype: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    steps: tuple[int, ...] = ()
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    start: int = 0

    @property
    def im2col(self) -> bool:
        return bool(self.lower)


@dataclass(frozen=True)
class Probe:
    """One kernel.

    Attributes:
        operands: (register class, kind of values) of %a, %b, ...; classes p h r d.
        results: register classes of %x, %y, ...; ``names`` where they have others.
        blocks, threads, cluster: the launch.
        shared: bytes of dynamic shared memory.
        fill, dump: bytes of the image of each block that go into shared memory before, and come
            back after.
        image: kind of values of the image, and its bytes; or ``image_columns``: kinds of values of
            columns of one value a thread.
        keep: it is a result, too.
        tolerance: None: the same bits.
        opaque: results that are recorded but may be others on another machine (barrier states).
    """

    name: str
    body: str
    operands: tuple[tuple[str, str], ...] = ()
    results: tuple[str, ...] = ("r",)
    blocks: int = 2
    threads: int = 128
    cluster: int = 1
    shared: int = 0
    fill: int = 0
    dump: int = 0
    image: tuple[str, int] = ("", 0)
    keep: bool = False
    declare: str = ""
    tensor: Map | None = None
    tolerance: Tolerance | None = None
    opaque: tuple[int, ...] = ()
    image_columns: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return self.blocks * self.threads

    @property
    def image_bytes(self) -> int:
        return max(self.image[1], self.blocks * max(self.fill, self.dump), 16 * self.count)

    @property
    def keeps_image(self) -> bool:
        return self.keep or self.dump > 0

    def columns(self) -> list[Array]:
        """The operands, u64 [count] each."""
        made: list[Array] = []
        for k, (_, kind) in enumerate(self.operands):
            made.append(column(kind, f"{self.name}#{k}", self.count, made))
        return made

    def image_data(self) -> Array:
        """The image before, uint8."""
        if self.image_columns:
            unit = self.image[1] // len(self.image_columns) // self.threads
            made = [
                column(kind, f"{self.name}#{k}", self.threads)
                for k, kind in enumerate(self.image_columns)
            ]
            data = np.concatenate(made).astype(np.uint64 if unit == 8 else np.uint32).view(np.uint8)
            return np.pad(data, (0, self.image_bytes - data.size))
        kind = self.image[0] or "i64"
        word = kind.rpartition(":")[2]
        unit = (
            1
            if word.isdigit()
            else max(1, int(re.sub(r".*?(\d+)$", r"\1", _WIDTHS.get(word, word))) // 8)
        )
        values = column(kind, f"{self.name}#image", -(-self.image_bytes // unit))
        code = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[unit]
        return values.astype(code).view(np.uint8)[: self.image_bytes].copy()

    def result_bytes(self) -> int:
        """Of the results as recorded, narrowed to their registers, and of the image if kept."""
        size = sum(_BYTES[c] for c in self.results) * self.count
        return size + (self.image_bytes if self.keeps_image else 0)

    def packed(self, results: Array, image: Array) -> Array:
        """The recorded bytes of results (u64 [result][thread]) and of the image."""
        types = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
        parts = [
            row.astype(types[_BYTES[c]]).view(np.uint8)
            for row, c in zip(results, self.results, strict=True)
        ]
        if self.keeps_image:
            parts.append(image ^ self.image_data())  # what changed, as it packs better
        return np.concatenate(parts) if parts else np.zeros(0, np.uint8)

    def unpacked(self, data: Array) -> tuple[list[Array], Array]:
        """Results and image from the recorded bytes."""
        types = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
        rows, at = [], 0
        for c in self.results:
            size = _BYTES[c] * self.count
            rows.append(data[at : at + size].view(types[_BYTES[c]]))
            at += size
        return rows, data[at:] ^ self.image_data() if self.keeps_image else data[at:]

    def digest(self) -> str:
        """Of all that goes in."""
        sha = hashlib.sha256(self.entry("k").encode())
        for values in self.columns():
            sha.update(values.tobytes())
        sha.update(self.image_data().tobytes())
        sha.update(repr((self.tensor, self.blocks, self.threads, self.shared)).encode())
        return sha.hexdigest()[:16]

    # ------------------------------------------------------------------ the kernel
    def entry(self, kernel: str) -> str:
        """The entry's PTX."""
        inputs = [(f"%{'abcdefgh'[k]}", c) for k, (c, _) in enumerate(self.operands)]
        if len(self.results) <= 6:
            outputs = [(f"%{'xyzuvw'[k]}", c) for k, c in enumerate(self.results)]
        else:
            outputs = [(f"%x{k}", c) for k, c in enumerate(self.results)]
        n = self.count
        lines = [
            f".visible .entry {kernel}(.param .u64 input, .param .u64 output, .param .u64 image,",
            "  .param .align 64 .b8 tensormap[128])",
            *([f".reqnctapercluster {self.cluster}, 1, 1"] if self.cluster > 1 else []),
            f".reqntid {self.threads}, 1, 1",
            "{",
            "  .reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<32>; .reg .b64 %d<20>;",
            "  .reg .b32 %thread, %lane, %warp, %rank, %s, %mine, %t0, %t1, %t2;",
            "  .reg .b64 %in, %out, %image, %own, %map, %wide; .reg .pred %done;",
            *(f"  .reg .{_CLASS[c]} {name};" for name, c in inputs + outputs),
            f"  {self.declare}",
            "  ld.param.u64 %in, [input]; ld.param.u64 %out, [output]; ld.param.u64 %image,"
            " [image];",
            "  mov.b64 %map, tensormap; cvta.param.u64 %map, %map;",
            "  mov.u32 %thread, %tid.x; and.b32 %lane, %thread, 31; shr.u32 %warp, %thread, 5;",
            "  mov.u32 %rank, %cluster_ctarank; mov.u32 %s, smem; mad.lo.u32 %mine, %thread, 16,"
            " %s;",
            "  mov.u32 %t0, %ctaid.x; mov.u32 %t1, %ntid.x; mad.lo.u32 %t0, %t0, %t1, %thread;",
            "  mad.wide.u32 %in, %t0, 8, %in; mad.wide.u32 %out, %t0, 8, %out;",
            "  mad.wide.u32 %own, %t0, 16, %image;",
        ]
        if self.fill:
            lines += self._copy(
                "fill", self.fill, "ld.global.b32 %t2, [%wide]; st.shared.b32 [%t1], %t2;"
            )
            lines.append("  bar.sync 0;")
        for k, (name, c) in enumerate(inputs):
            at = f"[%in + {8 * n * k}]"
            if c == "d":
                lines.append(f"  ld.global.b64 {name}, {at};")
            elif c == "p":
                lines.append(f"  ld.global.b64 %wide, {at}; setp.ne.b64 {name}, %wide, 0;")
            else:
                width = {"r": 32, "h": 16}[c]
                lines.append(f"  ld.global.b64 %wide, {at}; cvt.u{width}.u64 {name}, %wide;")
        lines += ["  " + line for line in self.body.strip().splitlines()]
        for k, (name, c) in enumerate(outputs):
            at = f"[%out + {8 * n * k}]"
            if c == "d":
                lines.append(f"  st.global.b64 {at}, {name};")
            elif c == "p":
                lines.append(f"  selp.b64 %wide, 1, 0, {name}; st.global.b64 {at}, %wide;")
            else:
                width = {"r": 32, "h": 16}[c]
                lines.append(f"  cvt.u64.u{width} %wide, {name}; st.global.b64 {at}, %wide;")
        if self.dump:
            lines.append("  bar.sync 0;")
            lines += self._copy(
                "dump", self.dump, "ld.shared.b32 %t2, [%t1]; st.global.b32 [%wide], %t2;"
            )
        return "\n".join([*lines, "  ret;", "}", ""])

    def _copy(self, label: str, nbytes: int, move: str) -> list[str]:
        return [
            f"  mov.u32 %t0, %ctaid.x; mul.lo.u32 %t0, %t0, {nbytes}; cvt.u64.u32 %wide, %t0;",
            "  add.u64 %wide, %wide, %image; shl.b32 %t0, %thread, 2;",
            "  mad.wide.u32 %wide, %thread, 4, %wide; add.u32 %t1, %s, %t0;",
            f"{label}: setp.ge.u32 %done, %t0, {nbytes}; @%done bra {label}_end;",
            f"  {move}",
            f"  add.u32 %t0, %t0, {4 * self.threads}; add.u32 %t1, %t1, {4 * self.threads};",
            f"  add.u64 %wide, %wide, {4 * self.threads}; bra {label};",
            f"{label}_end:",
        ]


def module_text(probes: list[Probe]) -> str:
    """A module with the kernels k0, k1, ... of the probes."""
    return HEADER + "\n".join(probe.entry(f"k{i}") for i, probe in enumerate(probes))
