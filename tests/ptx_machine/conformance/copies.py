"""Probes of asynchronous copies: cp.async, bulk copies and reductions, TMA tiled and im2col."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tests.ptx_machine.conformance.probe import Map, Probe

_SIZES = {"u8": 1, "u16": 2, "f16": 2, "bf16": 2, "u32": 4, "s32": 4, "f32": 4, "u64": 8, "s64": 8,
          "f64": 8}  # fmt: skip
_BAR = "add.u32 %r20, %s, {at};"
# Not for ever: a probe that is wrong must not hang the GPU.
_WAIT = (
    "mov.b32 %r21, 0; again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r20], 0;"
    " add.u32 %r21, %r21, 1; setp.gt.or.u32 %p1, %r21, 20000, %p1; @!%p1 bra again;"
)


def probes() -> Iterator[Probe]:
    yield from _by_threads()
    yield from _bulk()
    yield from _bulk_reductions()
    yield from _shared_reductions()
    yield from _tiled()
    yield from _stores()
    yield from _im2col()


def _by_threads() -> Iterator[Probe]:
    proxy = "cp.async.wait_all; bar.sync 0;"
    for cache, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        yield Probe(
            f"cp.async.{cache} {size}", f"cp.async.{cache}.shared.global [%mine], [%own], {size};"
                                        f" {proxy}",
            (), (), blocks=1, shared=2048, fill=2048, dump=2048, image=("i64", 2048),
        )  # fmt: skip
        yield Probe(
            f"cp.async.{cache} {size} of fewer bytes",
            f"rem.u32 %r0, %thread, {size + 1};"
            f" cp.async.{cache}.shared.global [%mine], [%own], {size}, %r0; {proxy}",
            (), (), blocks=1, shared=2048, fill=2048, dump=2048, image=("i64", 2048),
        )  # fmt: skip
        yield Probe(
            f"cp.async.{cache} {size} ignored",
            "and.b32 %r0, %thread, 1; setp.eq.u32 %p1, %r0, 1;"
            f" cp.async.{cache}.shared.global [%mine], [%own], {size}, %p1; {proxy}",
            (), (), blocks=1, shared=2048, fill=2048, dump=2048, image=("i64", 2048),
        )  # fmt: skip
    yield Probe(
        "cp.async.mbarrier.arrive.noinc",
        "setp.ne.u32 %p9, %thread, 0; add.u32 %r20, %s, 2048; @%p9 bra made;"
        " mbarrier.init.shared::cta.b64 [%r20], 128; made: bar.sync 0;"
        " cp.async.ca.shared.global [%mine], [%own], 16;"
        f" cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r20]; {_WAIT}",
        (), (), blocks=1, shared=2064, dump=2048, image=("i64", 2048),
    )  # fmt: skip


def _loads(body: str, nbytes: int, bar: int, more: str = "") -> str:
    """A barrier at offset ``bar``; thread 0 starts ``body``; all wait."""
    return (
        f"{_BAR.format(at=bar)} setp.ne.u32 %p9, %thread, 0; @%p9 bra started;\n"
        "mbarrier.init.shared::cta.b64 [%r20], 1; fence.mbarrier_init.release.cluster;\n"
        f"mbarrier.arrive.expect_tx.shared::cta.b64 %d10, [%r20], {nbytes};\n{body}\n"
        f"started: bar.sync 0; {_WAIT}{more}"
    )


def _bulk() -> Iterator[Probe]:
    for size in (16, 48, 1024, 4080):
        body = (
            "add.u64 %d1, %image, 64;"
            " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            f" [%s], [%d1], {size}, [%r20];"
        )
        yield Probe(f"bulk load of {size}", _loads(body, size, 4096), (), (), blocks=1, shared=4112,
                    dump=size, image=("i64", 4400))  # fmt: skip
        yield Probe(
            f"bulk store of {size}",
            "fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p9, %thread, 0; @%p9 bra done;"
            " add.u64 %d1, %image, 8192; cp.async.bulk.global.shared::cta.bulk_group [%d1],"
            f" [%s], {size};"
            " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; done: bar.sync 0;",
            (), (), blocks=1, shared=4096, fill=4096, keep=True, image=("i64", 8192 + size + 64),
        )  # fmt: skip
    # To the next block of a cluster, with its barrier.
    yield Probe(
        "bulk copy to a peer",
        f"{_BAR.format(at=1024)} setp.ne.u32 %p9, %thread, 0; @%p9 bra made;"
        " mbarrier.init.shared::cta.b64 [%r20], 1; fence.mbarrier_init.release.cluster;"
        " mbarrier.arrive.expect_tx.shared::cta.b64 %d10, [%r20], 512;\n"
        "made: fence.proxy.async.shared::cta; barrier.cluster.arrive.aligned;"
        " barrier.cluster.wait.aligned;"
        " @%p9 bra copied; xor.b32 %r1, %rank, 1; add.u32 %r2, %s, 512; mapa.shared::cluster.u32"
        " %r3, %r2, %r1;"
        " mapa.shared::cluster.u32 %r4, %r20, %r1;"
        " cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [%s],"
        " 512, [%r4];\n"
        f"copied: {_WAIT} barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        (), (), blocks=2, cluster=2, shared=1040, fill=1024, dump=1024, image=("i64", 2048),
    )  # fmt: skip


def _bulk_reductions() -> Iterator[Probe]:
    forms = [(op, kind) for op in ("add", "min", "max") for kind in ("u32", "s32", "u64")]
    forms += [("min", "s64"), ("max", "s64"), ("inc", "u32"), ("dec", "u32")]
    forms += [(op, kind) for op in ("and", "or", "xor") for kind in ("b32", "b64")]
    forms += [("add", "f32"), ("add", "f64"), ("add.noftz", "f16"), ("add.noftz", "bf16")]
    forms += [(op, kind) for op in ("min", "max") for kind in ("f16", "bf16")]
    for op, kind in forms:
        values = kind if kind[0] == "f" or kind == "bf16" else f"i{kind[1:]}"
        yield Probe(
            f"bulk reduction {op}.{kind}",
            "fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p9, %thread, 0; @%p9 bra done;"
            " add.u64 %d1, %image, 2048;"
            f" cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind} [%d1], [%s], 2048;"
            " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; done: bar.sync 0;",
            (), (), blocks=1, shared=2048, fill=2048, keep=True, image=(values, 4096),
        )  # fmt: skip


def _tensor(dtype: str, extents: tuple[int, ...], box: tuple[int, ...], **options: object) -> Map:
    """A dense map, rows padded to 16 bytes, one more row between planes."""
    size = _SIZES[dtype]
    strides = []
    pitch = -(-extents[0] * size // 16) * 16
    for extent in extents[1:]:
        strides.append(pitch)
        pitch = -(-(pitch * extent + 16) // 16) * 16
    return Map(dtype, extents, tuple(strides), box, **options)  # type: ignore[arg-type]


def _bytes(tensor: Map) -> int:
    size = _SIZES[tensor.dtype]
    last = sum((e - 1) * s for e, s in zip(tensor.extents[1:], tensor.strides, strict=True))
    return tensor.start + last + tensor.extents[0] * size


def _arrives(tensor: Map) -> int:
    # The driver ignores the step of the innermost dimension.
    steps = (1, *tensor.steps[1:]) if tensor.steps else (1,) * len(tensor.box)
    counts = [-(-b // s) for b, s in zip(tensor.box, steps, strict=True)]
    return prod(counts) * _SIZES[tensor.dtype]


def _load(label: str, tensor: Map, at: tuple[int, ...], cta: bool = False) -> Probe:
    rank = len(tensor.extents)
    nbytes = _arrives(tensor)
    coords = ", ".join(map(str, at))
    to = "shared::cta" if cta else "shared::cluster"
    body = (
        f"cp.async.bulk.tensor.{rank}d.{to}.global.tile.mbarrier::complete_tx::bytes"
        f" [%s], [%map, {{{coords}}}], [%r20];"
    )
    bar = -(-nbytes // 16) * 16
    name = f"TMA load {label} at {', '.join(map(str, at))}"
    return Probe(name, _loads(body, nbytes, bar), (), (), blocks=1, shared=bar + 16, dump=nbytes,
                 image=("u:16", _bytes(tensor)), tensor=tensor)  # fmt: skip


def _shared_reductions() -> Iterator[Probe]:
    """Into the block's own shared memory; a barrier counts the bytes."""
    forms = [(op, kind) for op in ("min", "max") for kind in ("u32", "s32")]
    forms += [("add", kind) for kind in ("u32", "s32", "u64")]
    forms += [("inc", "u32"), ("dec", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32")]
    done = "shared::cluster.mbarrier::complete_tx::bytes"
    for op, kind in forms:
        size = int(kind[1:]) // 8
        value = "%d11" if size == 8 else "%r11"
        yield Probe(
            f"red.async {op}.{kind}",
            "fence.proxy.async.shared::cta; bar.sync 0;"
            + _loads(f"ld.shared.b{8 * size} {value}, [%s + 64];"
                     f" red.async.relaxed.cluster.{done}.{op}.{kind} [%s], {value}, [%r20];",
                     size, 1024),
            (), (), blocks=1, shared=1040, fill=1024, dump=1024, image=(f"i{8 * size}", 1024),
        )  # fmt: skip
        yield Probe(
            f"bulk reduction in shared memory {op}.{kind}",
            "fence.proxy.async.shared::cta; bar.sync 0;"
            + _loads("add.u32 %r22, %s, 512; cp.reduce.async.bulk.shared::cluster.shared::cta"
                     f".mbarrier::complete_tx::bytes.{op}.{kind} [%s], [%r22], 512, [%r20];", 512,
                     1024),
            (), (), blocks=1, shared=1040, fill=1024, dump=1024, image=(f"i{8 * size}", 1024),
        )  # fmt: skip


def _tiled() -> Iterator[Probe]:
    at: tuple[int, ...]
    for swizzle in (0, 32, 64, 128):
        inner = swizzle or 48
        for dtype in ("u8", "f16", "f32", "f64"):
            size = _SIZES[dtype]
            tensor = _tensor(
                dtype, (100 if size < 8 else 40, 21), (inner // size, 16), swizzle=swizzle
            )
            for at in ((0, 0), (16 // size * 2, 3), (-3, -2), (90 if size < 8 else 38, 15)):
                yield _load(f"{dtype} swizzle {swizzle}", tensor, at)
    yield from _aligned()
    yield from _multicasts()
    yield _load(
        "into shared::cta", _tensor("u32", (64, 32), (32, 8), swizzle=128), (5, 7), cta=True
    )
    yield _load("1d", _tensor("u32", (100,), (64,)), (50,))
    yield _load("1d below", _tensor("u8", (100,), (64,)), (-20,))
    yield _load(
        "far outside", _tensor("u32", (64, 32), (32, 8), swizzle=128), (1 << 20, -(1 << 20))
    )
    for at in ((0, 0, 0), (-1, 3, 1), (12, -2, 4)):
        yield _load("3d", _tensor("bf16", (24, 7, 5), (16, 4, 3), swizzle=32), at)
    for at in ((0, 0, 0, 0), (5, -1, 2, 2), (-4, 4, -1, 1)):
        yield _load("4d", _tensor("f32", (20, 6, 5, 3), (8, 3, 2, 2), swizzle=0), at)
    for at in ((0, 0, 0, 0, 0), (3, -1, 2, 1, -1), (10, 2, 1, 3, 1)):
        yield _load("5d", _tensor("u16", (18, 4, 4, 4, 3), (16, 2, 3, 2, 2), swizzle=32), at)
    for steps in ((1, 2), (1, 3), (2, 1), (2, 2), (4, 1)):
        ignored = " (the first is ignored)" if steps[0] > 1 else ""
        for at in ((0, 0), (3, 1), (-2, -1), (60, 25)):
            tensor = _tensor("f32", (70, 32), (16 * steps[0], 7 * steps[1]), steps=steps)
            yield _load(f"steps {steps}{ignored}", tensor, at)
    yield _load(
        "steps 2, swizzle", _tensor("bf16", (64, 32), (64, 15), steps=(1, 2), swizzle=128), (4, 3)
    )
    yield _load("steps 3d", _tensor("u8", (64, 9, 9), (32, 5, 7), steps=(1, 2, 3)), (4, 3, -1))
    # A box whose extent the step does not divide.
    yield _load("steps 3 of 8", _tensor("f32", (64, 32), (16, 8), steps=(1, 3)), (4, 3))


def _aligned() -> Iterator[Probe]:
    """Starts at multiples of 16 bytes along the innermost dimension, as the hardware wants them."""
    at: tuple[int, ...]
    for swizzle in (0, 32, 64, 128):
        for dtype in ("u8", "f16", "f32"):
            unit = 16 // _SIZES[dtype]
            box = ((swizzle or 48) // _SIZES[dtype], 16)
            tensor = _tensor(dtype, (100, 21), box, swizzle=swizzle)
            for at in ((-unit, -2), (-3 * unit, 17), (100 // unit * unit, 15)):
                yield _load(f"{dtype} swizzle {swizzle}", tensor, at)
    for dtype, inner, swizzle in (
        ("bf16", 24, 128), ("u16", 8, 64), ("u8", 16, 32), ("f32", 16, 128),
    ):  # fmt: skip
        yield _narrow(_tensor(dtype, (64, 32), (inner, 12), swizzle=swizzle), (16, 4))
    whole = _tensor("u32", (64, 32), (32, 8), swizzle=128)
    yield _load("into shared::cta", whole, (8, 7), cta=True)
    yield _load("1d", _tensor("u32", (100,), (64,)), (52,))
    yield _load("1d below", _tensor("u8", (100,), (64,)), (-16,))
    for at in ((-8, 3, 1), (16, -2, 4)):
        yield _load("3d", _tensor("bf16", (24, 7, 5), (16, 4, 3), swizzle=32), at)
    yield _load("4d", _tensor("f32", (20, 6, 5, 3), (8, 3, 2, 2)), (8, -1, 2, 2))
    for at in ((8, -1, 2, 1, -1), (16, 2, 1, 3, 1)):
        yield _load("5d", _tensor("u16", (18, 4, 4, 4, 3), (16, 2, 3, 2, 2), swizzle=32), at)
    for steps in ((1, 2), (1, 3), (2, 2), (1, 4)):
        for at in ((4, 1), (-4, -1), (64, 23)):
            tensor = _tensor("f32", (70, 32), (16, 7 * steps[1]), steps=steps)
            yield _load(f"steps {steps}", tensor, at)
    tensor = _tensor("bf16", (64, 32), (64, 15), steps=(1, 2), swizzle=128)
    yield _load("steps 2, swizzle", tensor, (8, 3))
    yield _load("steps 3d", _tensor("u8", (64, 9, 9), (32, 5, 7), steps=(1, 2, 3)), (16, 3, -1))


def _narrow(tensor: Map, at: tuple[int, int]) -> Probe:
    """A box narrower than its swizzle, into memory of which all bytes are known."""
    nbytes = _arrives(tensor)
    body = (
        "fence.proxy.async.shared::cta; bar.sync 0;"
        + _loads(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            f" [%s], [%map, {{{at[0]}, {at[1]}}}], [%r20];",
            nbytes, 4096,
        )
    )  # fmt: skip
    return Probe(
        f"TMA load {tensor.dtype} of {tensor.box} swizzle {tensor.swizzle}",
        body,
        (),
        (),
        blocks=1,
        shared=4112,
        fill=4096,
        dump=4096,
        image=("u:16", max(_bytes(tensor), 4096)),
        tensor=tensor,
    )


def _multicasts() -> Iterator[Probe]:
    """Each block of a cluster loads a part for all, at the same place in each."""
    tensor = _tensor("u32", (64, 32), (32, 8), swizzle=128)
    for size, masks in ((2, (3, 3)), (2, (2, 1)), (4, (15, 5, 10, 9))):
        expected = [sum(mask >> rank & 1 for mask in masks) * 1024 for rank in range(size)]
        choose = " ".join(
            f"setp.eq.u32 %p2, %rank, {r}; @%p2 mov.b16 %h0, {masks[r]}; @%p2 mov.b32 %r8,"
            f" {expected[r]};"
            for r in range(size)
        )
        body = (
            f"fence.proxy.async.shared::cta; {choose} {_BAR.format(at=4096)}"
            " setp.ne.u32 %p9, %thread, 0; @%p9 bra made;"
            " mbarrier.init.shared::cta.b64 [%r20], 1; fence.mbarrier_init.release.cluster;"
            " mbarrier.arrive.expect_tx.shared::cta.b64 %d10, [%r20], %r8;"
            " made: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p9 bra sent;"
            " mad.lo.u32 %r9, %rank, 1024, %s; shl.b32 %r10, %rank, 3;"
            " cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            ".multicast::cluster [%r9], [%map, {0, %r10}], [%r20], %h0;\n"
            f"sent: {_WAIT} barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        )
        yield Probe(
            f"multicast by masks {masks}",
            body,
            (),
            (),
            blocks=size,
            cluster=size,
            shared=4112,
            fill=4096,
            dump=4096,
            image=("u:16", 16384),
            tensor=tensor,
        )
    for vec, kind, c, nbytes in (("", "b32", "r", 4), ("", "b64", "d", 8), (".v2", "b32", "r", 8),
                                 (".v4", "b32", "r", 16), (".v2", "b64", "d", 16)):  # fmt: skip
        count = int(vec[2:] or 1)
        names = ", ".join(f"%{'abcd'[k]}" for k in range(count))
        given = f"{{{names}}}" if vec else names
        body = (
            f"fence.proxy.async.shared::cta; {_BAR.format(at=2048)} setp.ne.u32 %p9, %thread, 0;"
            " @%p9 bra made; mbarrier.init.shared::cta.b64 [%r20], 1;"
            " fence.mbarrier_init.release.cluster;"
            f" mbarrier.arrive.expect_tx.shared::cta.b64 %d10, [%r20], {128 * nbytes};"
            " made: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; xor.b32 %r1,"
            " %rank, 1;"
            " mapa.shared::cluster.u32 %r2, %mine, %r1; mapa.shared::cluster.u32 %r3, %r20, %r1;"
            f" st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{vec}.{kind} [%r2],"
            f" {given}, [%r3];"
            f" {_WAIT} barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        )
        yield Probe(f"st.async{vec}.{kind}", body, ((c, "i64" if c == "d" else "i32"),) * count, (),
                    blocks=2, cluster=2, shared=2064, fill=2048, dump=2048)  # fmt: skip


_REDUCTIONS = (
    ("add", "u32"), ("add", "s32"), ("add", "u64"), ("add", "f32"), ("add", "f64"), ("add", "f16"),
    ("add", "bf16"), ("min", "u32"), ("min", "s32"), ("min", "u64"), ("min", "s64"), ("min", "f16"),
    ("max", "bf16"), ("max", "s32"), ("max", "s64"), ("inc", "u32"), ("dec", "u32"), ("and", "u32"),
    ("or", "u64"), ("xor", "u32"),
)  # fmt: skip


def _stores() -> Iterator[Probe]:
    def store(label: str, tensor: Map, at: tuple[int, ...], op: str = "") -> Probe:
        rank, nbytes = len(tensor.extents), _arrives(tensor)
        coords = ", ".join(map(str, at))
        head = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}.tile" if op else (
            f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile")  # fmt: skip
        body = (
            "fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p9, %thread, 0; @%p9 bra"
            " done;\n"
            f"{head}.bulk_group [%map, {{{coords}}}], [%s];\n"
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; done: bar.sync 0;"
        )
        dtype = tensor.dtype
        values = dtype if dtype[0] in "fb" else f"i{dtype[1:]}"
        fill = -(-nbytes // 16) * 16
        return Probe(
            f"TMA {op or 'store'} {label} at {coords}",
            body,
            (),
            (),
            blocks=1,
            shared=fill,
            fill=fill,
            keep=True,
            image=(values, _bytes(tensor)),
            tensor=tensor,
        )

    for swizzle in (0, 32, 64, 128):
        tensor = _tensor("f16", (100, 21), ((swizzle or 48) // 2, 16), swizzle=swizzle, start=4096)
        for at in ((0, 0), (16, 3), (90, 15)):
            yield store(f"swizzle {swizzle}", tensor, at)
        for at in ((-16, -2), (96, 15), (40, -3)):
            yield store(f"swizzle {swizzle}", tensor, at)
    yield store("1d aligned", _tensor("u8", (100,), (64,), start=1024), (48,))
    yield store("3d", _tensor("bf16", (24, 7, 5), (16, 4, 3), swizzle=32, start=1024), (16, 5, 3))
    yield store(
        "5d", _tensor("u32", (18, 4, 4, 4, 3), (8, 2, 3, 2, 2), start=2048), (12, 3, 2, 1, 2)
    )
    yield store("steps", _tensor("f32", (70, 32), (16, 14), steps=(1, 2), start=2048), (4, 23))
    yield store("1d", _tensor("u8", (100,), (64,), start=1024), (50,))
    yield store("3d", _tensor("bf16", (24, 7, 5), (16, 4, 3), swizzle=32, start=1024), (12, 5, 3))
    yield store(
        "5d", _tensor("u32", (18, 4, 4, 4, 3), (8, 2, 3, 2, 2), start=2048), (13, 3, 2, 1, 2)
    )
    yield store("steps", _tensor("f32", (70, 32), (16, 14), steps=(1, 2), start=2048), (3, 25))
    for op, dtype in _REDUCTIONS:
        tensor = _tensor(dtype, (50, 20), (16, 12), start=2048)
        yield store(dtype, tensor, (40, 12), op)


def _im2col() -> Iterator[Probe]:
    """Windows over NHWC images: corners, offsets, steps, lines that wrap to the next image."""

    def load(label: str, tensor: Map, at: tuple[int, ...], offsets: tuple[int, ...]) -> Probe:
        rank = len(tensor.extents)
        channels, pixels = tensor.box
        nbytes = channels * pixels * _SIZES[tensor.dtype]
        coords, shifts = ", ".join(map(str, at)), ", ".join(map(str, offsets))
        regs = " ".join(f"mov.b16 %h{k}, {value};" for k, value in enumerate(offsets))
        names = ", ".join(f"%h{k}" for k in range(len(offsets)))
        body = (
            f"{regs} cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col"
            f".mbarrier::complete_tx::bytes [%s], [%map, {{{coords}}}], [%r20], {{{names}}};"
        )
        bar = -(-nbytes // 16) * 16
        return Probe(f"im2col {label} at {coords} offsets"
                     f" {shifts}", _loads(body, nbytes, bar), (), (),
                     blocks=1, shared=bar + 16, dump=nbytes, image=("u:16", _bytes(tensor)),
                     tensor=tensor)  # fmt: skip

    def windows(
        extents: tuple[int, ...],
        lower: tuple[int, ...],
        upper: tuple[int, ...],
        box: tuple[int, int],
        steps: tuple[int, ...] = (),
        swizzle: int = 0,
    ) -> Map:
        return _tensor("bf16", extents, box, lower=lower, upper=upper, steps=steps, swizzle=swizzle)

    at: tuple[int, ...]
    offsets: tuple[int, ...]
    for lower, upper in (
        ((0, 0), (0, 0)),
        ((-1, -1), (-1, -1)),
        ((-1, -2), (-2, -1)),
        ((0, -1), (-2, 1)),
    ):
        tensor = windows((16, 9, 7, 3), lower, upper, (16, 40))
        for at, offsets in (
            ((0, lower[0], lower[1], 0), (0, 0)), ((0, lower[0], lower[1], 0), (2, 1)),
            ((0, lower[0] + 3, lower[1] + 2, 1), (1, 2)), ((8, lower[0] + 1, lower[1], 2), (0, 1)),
        ):  # fmt: skip
            yield load(f"{lower} {upper}", tensor, at, offsets)
    stepped = windows((16, 9, 7, 3), (-1, -1), (-1, -1), (16, 30), steps=(1, 2, 2, 1))
    for at in ((0, -1, -1, 0), (0, 1, -1, 0), (0, 3, 1, 1)):
        for offsets in ((0, 0), (2, 2), (1, 0)):
            yield load("steps 2", stepped, at, offsets)
    wide = windows((16, 9, 7, 3), (-1, -1), (-1, -1), (16, 30), steps=(1, 3, 2, 1))
    yield load("steps 3 and 2", wide, (0, -1, -1, 0), (1, 2))
    yield load("swizzle", windows((32, 9, 7, 3), (-1, -1), (-1, -1), (32, 33), swizzle=64),
               (0, -1, 2, 1), (1, 1))  # fmt: skip
    yield load("swizzle 128", windows((64, 9, 7, 3), (-1, -1), (-1, -1), (64, 33), swizzle=128),
               (0, 2, -1, 0), (2, 0))  # fmt: skip
    line = windows((16, 30, 4), (-1,), (-1,), (16, 50))
    for at, offsets in (((0, -1, 0), (0,)), ((0, 5, 1), (2,)), ((0, 28, 2), (1,))):
        yield load("3d", line, at, offsets)
    solid = windows((16, 6, 5, 4, 3), (-1, -1, 0), (-1, 0, -1), (16, 60))
    for at, offsets in (((0, -1, -1, 0, 0), (0, 0, 0)), ((0, 2, 1, 1, 1), (2, 1, 1)),
                        ((0, -1, -1, 0, 2), (1, 2, 0))):  # fmt: skip
        yield load("5d", solid, at, offsets)
