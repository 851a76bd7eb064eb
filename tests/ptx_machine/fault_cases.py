"""For each class of fault a kernel that has it, and its clean twin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["CASES", "Case"]


@dataclass(frozen=True)
class Case:
    """A body for faulty.start.

    Attributes:
        kind: of the fault: opcodes.FAULTS.
        faulty, clean: the bodies; ``clean`` may be left out where only the options differ.
        options: of both.
        more: options of the faulty one alone.
    """

    kind: str
    faulty: str
    clean: str
    options: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


def _both(kind: str, body: str, wrong: str, right: str, **options: Any) -> Case:
    """A body with a hole for what is wrong or right."""
    return Case(kind, body.replace("HOLE", wrong), body.replace("HOLE", right), options)


_INIT = """.loc 1 2 5
mov.u32 %r1, bar;
setp.eq.u32 %p1, %r0, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
bar.sync 0;
"""
_WGMMA = """mov.u32 %r1, buf;
shr.u32 %r2, %r1, 4;
cvt.u64.u32 %d1, %r2;
or.b64 %d1, %d1, 0x4000004000010000;
mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
mov.pred %p2, 1;
HOLE
wgmma.commit_group.sync.aligned;
"""
_PRODUCT = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d1, %d1, %p2,"
    " 1, 1, 0, 0;"
)
_FENCED = f"wgmma.fence.sync.aligned;\n.loc 1 5 5\n{_PRODUCT}"
_WAIT = "wgmma.wait_group.sync.aligned 0;\n"
_ZERO_BUF = """mov.u32 %r1, buf;
shl.b32 %r3, %r0, 4;
add.u32 %r3, %r1, %r3;
mov.u32 %r4, 0;
st.shared.v4.b32 [%r3], {%r4, %r4, %r4, %r4};
st.shared.v4.b32 [%r3+2048], {%r4, %r4, %r4, %r4};
"""
_BULK = """.loc 1 3 5
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d0], HOLE, [%r1];
.loc 1 4 5
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0;
@!%p3 bra WAIT;
"""
_SPIN = """.loc 1 6 5
AGAIN: ld.relaxed.gpu.global.u32 %r1, [%d0];
setp.eq.u32 %p1, %r1, 0;
@%p1 bra AGAIN;"""

CASES: dict[str, Case] = {
    "deadlock": _both(
        "deadlock",
        _INIT + "mov.u32 %r2, buf;\n" + _BULK.replace("HOLE", "64").replace(", 64;", ", HOLE;", 1),
        "80",
        "64",
    ),
    "polls for ever": Case("deadlock", _SPIN, _SPIN.replace("eq", "ne")),
    "budget": Case(
        "budget",
        ".loc 1 4 5\nAGAIN: st.global.u32 [%d0], %r0;\nbra AGAIN;",
        "st.global.u32 [%d0], %r0;",
        {"budget": 10_000},
    ),
    "trap": _both(
        "trap", ".loc 1 4 5\nsetp.HOLE.u32 %p1, %r0, 5;\n@%p1 trap;", "eq", "gt", threads=6
    ),
    "brx": _both(
        "trap",
        "LIST: .branchtargets L0, L1;\n.loc 1 4 5\nHOLE\nbrx.idx %r1, LIST;\nL0:\nL1:",
        "mov.u32 %r1, 2;",
        "mov.u32 %r1, 1;",
    ),
    "diverged barrier": _both(
        "diverged",
        "setp.lt.u32 %p1, %r0, 8;\n.loc 1 4 5\nHOLE bar.sync 0;",
        "@%p1",
        "",
    ),
    "diverged shfl": _both(
        "diverged",
        "setp.lt.u32 %p1, %r0, 8;\n@!%p1 bra END;\n.loc 1 4 5\n"
        "shfl.sync.idx.b32 %r1, %r0, HOLE, 31, 0xff;\nEND:",
        "9",
        "7",
    ),
    "mask of vote": _both(
        "diverged",
        "setp.lt.u32 %p1, %r0, 8;\n@!%p1 bra END;\n.loc 1 4 5\n"
        "vote.sync.ballot.b32 %r1, %p1, HOLE;\nEND:",
        "0xfe",
        "0xff",
    ),
    "bounds of global": _both(
        "out of bounds",
        "mul.wide.u32 %d1, %r0, 8;\nadd.u64 %d1, %d0, %d1;\n.loc 1 4 5\n"
        "ld.global.u32 %r1, [%d1+HOLE];",
        "16",
        "4",
    ),
    "null": _both(
        "out of bounds", "mov.u64 %d1, HOLE;\n.loc 1 4 5\nld.global.u32 %r1, [%d1];", "8", "%d0"
    ),
    "bounds of shared": _both(
        "out of bounds",
        "mov.u32 %r1, buf;\n.loc 1 4 5\nst.shared.u32 [%r1+HOLE], %r0;",
        "8200",
        "8188",
        threads=1,
    ),
    "bounds of parameters": _both(
        "out of bounds", ".loc 1 4 5\nld.param.u32 %r1, [x+HOLE];", "8", "4"
    ),
    "misaligned": _both(
        "misaligned",
        "mov.u32 %r1, buf;\n.loc 1 4 5\nst.shared.v2.u32 [%r1+HOLE], {%r0, %r0};",
        "20",
        "24",
        threads=1,
    ),
    "size of a copy": _both("misaligned", _INIT + "mov.u32 %r2, buf;\n" + _BULK, "72", "64"),
    "read only": Case(
        "read only",
        ".loc 1 4 5\nst.global.u32 [%d0], %r0;",
        ".loc 1 4 5\nst.global.u32 [%d0], %r0;",
        {},
        {"readonly": True},
    ),
    "exited block": _both(
        "exited block",
        "mov.u32 %r2, %cluster_ctarank;\nsetp.eq.u32 %p1, %r2, 1;\nmov.u32 %r1, buf;\n"
        "mapa.shared::cluster.u32 %r3, %r1, 1;\n@%p1 bra END;\nmov.u32 %r5, 0;\n"
        "AGAIN: add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 9000;\n@%p2 bra AGAIN;\n.loc 1 4 5\n"
        "ld.shared::cluster.u32 %r4, [%r3];\nEND:\nHOLE",
        "",
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
        blocks=2,
        cluster=2,
    ),
    "mbarrier not initialised": _both(
        "mbarrier",
        "mov.u32 %r1, bar;\nHOLE\n.loc 1 4 5\nmbarrier.arrive.shared::cta.b64 %d1, [%r1];",
        "",
        "mbarrier.init.shared::cta.b64 [%r1], 2;",
        threads=1,
    ),
    "too many arrivals": _both(
        "mbarrier",
        "mov.u32 %r1, bar;\nmbarrier.init.shared::cta.b64 [%r1], 2;\n.loc 1 4 5\n"
        "mbarrier.arrive.shared::cta.b64 %d1, [%r1], HOLE;",
        "3",
        "2",
        threads=1,
    ),
    "count of init": _both(
        "mbarrier",
        "mov.u32 %r1, bar;\nmov.u32 %r2, HOLE;\n.loc 1 4 5\n"
        "mbarrier.init.shared::cta.b64 [%r1], %r2;",
        "0",
        "1",
        threads=1,
    ),
    "tx-count": _both(
        "mbarrier",
        "mov.u32 %r1, bar;\nmbarrier.init.shared::cta.b64 [%r1], 2;\nmov.u32 %r2, HOLE;\n"
        ".loc 1 4 5\nmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], %r2;",
        "1048576",
        "1048575",
        threads=1,
    ),
    "threads of a barrier": _both(
        "barrier",
        "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra FIRST;\n.loc 1 5 5\nbar.sync 3, HOLE;\nbra END;\n"
        "FIRST: bar.arrive 3, 96;\nEND:",
        "64",
        "96",
        threads=96,
    ),
    "number of a barrier": _both(
        "barrier", "mov.u32 %r1, HOLE;\n.loc 1 5 5\nbar.sync %r1;", "16", "15"
    ),
    "odd threads": _both("barrier", ".loc 1 5 5\nbar.sync 1, HOLE;", "40", "32"),
    "cluster arrive twice": _both(
        "barrier",
        "barrier.cluster.arrive.aligned;\n.loc 1 5 5\nHOLE\nbarrier.cluster.wait.aligned;",
        "barrier.cluster.arrive.aligned;",
        "",
        blocks=2,
        cluster=2,
    ),
    "cluster wait alone": _both(
        "barrier",
        "HOLE\n.loc 1 5 5\nbarrier.cluster.wait.aligned;",
        "",
        "barrier.cluster.arrive.aligned;",
    ),
    "race": _both(
        "race",
        "mov.u32 %r1, buf;\nsetp.lt.u32 %p1, %r0, 32;\n.loc 1 3 5\n@%p1 st.shared.u32 [%r1+64],"
        " %r0;\nHOLE\n.loc 1 5 5\n@!%p1 ld.shared.u32 %r2, [%r1+64];",
        "",
        "bar.sync 0;",
        threads=64,
    ),
    "in flight": _both(
        "in flight",
        _INIT
        + "mov.u32 %r2, buf;\n"
        + _BULK.replace("HOLE", "64").replace(".loc 1 4 5", "HOLE")
        + "ld.shared.u32 %r5, [%r2];",
        ".loc 1 5 5\nld.shared.u32 %r6, [%r2+4];",
        ".loc 1 5 5",
    ),
    "register in flight": _both(
        "register in flight",
        _ZERO_BUF
        + "fence.proxy.async;\nbar.sync 0;\n"
        + _WGMMA.replace("HOLE", _FENCED)
        + "HOLE.loc 1 6 5\nadd.f32 %f5, %f0, %f1;\n"
        + _WAIT,
        "",
        _WAIT,
        threads=128,
    ),
    "missing wgmma.fence": _both(
        "missing wgmma.fence",
        _ZERO_BUF + "fence.proxy.async;\nbar.sync 0;\n" + _WGMMA + _WAIT,
        f".loc 1 5 5\n{_PRODUCT}",
        _FENCED,
        threads=128,
    ),
    "missing proxy fence": _both(
        "missing proxy fence",
        ".loc 1 3 5\n"
        + _ZERO_BUF
        + "HOLE\nbar.sync 0;\n"
        + _WGMMA.replace("HOLE", _FENCED)
        + _WAIT,
        "",
        "fence.proxy.async;",
        threads=128,
    ),
    "cp.async and wgmma": _both(
        "missing proxy fence",
        _ZERO_BUF
        + "fence.proxy.async;\nbar.sync 0;\n.loc 1 3 5\n"
        "setp.lt.u32 %p1, %r0, 16;\n"
        "@%p1 cp.async.ca.shared.global [%r1], [%d0], 16;\n".replace("%p1", "%p5").replace(
            "setp.lt.u32 %p5, %r0, 16", "setp.eq.u32 %p5, %r0, 0"
        )
        + "cp.async.wait_all;\nHOLE\nbar.sync 0;\n"
        + _WGMMA.replace("HOLE", _FENCED)
        + _WAIT,
        "",
        "fence.proxy.async;",
        threads=128,
    ),
    # The clean twin is a test of its own, for it needs a tensor map.
    "missing tensor map": _both(
        "missing tensor map",
        "add.u64 %d1, %d0, 63;\nand.b64 %d1, %d1, 0xFFFFFFFFFFFFFFC0;\nmov.u32 %r1, buf;\n"
        "mov.u32 %r2, 0;\nmov.u32 %r3, bar;\nHOLE\n.loc 1 4 5\n"
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%r1], [%d1, {%r2}], [%r3];\nEND:",
        "",
        "bra END;",
        threads=1,
    ),
    "wgmma": _both(
        "wgmma",
        _ZERO_BUF
        + "fence.proxy.async;\nbar.sync 0;\n"
        + _WGMMA.replace("HOLE", "HOLE\n" + _FENCED)
        + _WAIT,
        "or.b64 %d1, %d1, 0x0002000000000000;",
        "",
        threads=128,
    ),
    "registers": _both(
        "registers",
        ".loc 1 4 5\nsetmaxnreg.dec.sync.aligned.u32 HOLE;",
        "64",
        "48",
        threads=128,
        registers=56,
    ),
    "pending at exit": _both(
        "pending at exit",
        "mov.u32 %r1, buf;\nst.shared.u32 [%r1], %r0;\nst.shared.u32 [%r1+4], %r0;\n"
        "st.shared.v2.u32 [%r1+8], {%r0, %r0};\nfence.proxy.async;\n.loc 1 4 5\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1], 16;\n"
        "cp.async.bulk.commit_group;\nHOLE",
        "",
        "cp.async.bulk.wait_group.read 0;",
        threads=1,
    ),
    "unsupported": _both(
        "unsupported",
        "{ .reg .b64 t; .local .align 8 .b8 depot[16]; mov.u64 t, depot; cvta.local.u64 t, t;\n"
        "st.u32 [t], 7; mov.u64 %d1, text; cvta.global.u64 %d1, %d1;\n"
        ".param .b64 p0; .param .b64 p1; .param .b32 r;\nst.param.b64 [p0], %d1;\n"
        "st.param.b64 [p1], HOLE;\n.loc 1 4 5\ncall.uni (r), vprintf, (p0, p1);\n}",
        "%d0",
        "t",
        threads=1,
        module=".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
        ".global .align 1 .b8 text[4] = {37, 100, 10, 0};",
    ),
    "assertion": _both(
        "trap",
        "{ .reg .b64 t; mov.u64 t, text; cvta.global.u64 t, t;\nsetp.HOLE.u32 %p1, %r0, 3;\n"
        "@!%p1 bra END;\n"
        ".param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;\n"
        "st.param.b64 [p0], t; st.param.b64 [p1], t; st.param.b32 [p2], 12;\n"
        "st.param.b64 [p3], t; st.param.b64 [p4], 1;\n.loc 1 4 5\n"
        "call.uni __assertfail, (p0, p1, p2, p3, p4);\nEND: }",
        "eq",
        "gt",
        threads=4,
        module=".extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c,"
        " .param .b64 d, .param .b64 e);\n.global .align 1 .b8 text[4] = {97, 60, 98, 0};",
    ),
    "initialised twice": _both(
        "mbarrier",
        "mov.u32 %r1, bar;\nmbarrier.init.shared::cta.b64 [%r1], 1;\n.loc 1 4 5\n"
        "HOLE\nmbarrier.init.shared::cta.b64 [%r1], 1;",
        "",
        "mbarrier.inval.shared::cta.b64 [%r1];",
        threads=1,
    ),
    "overflow": _both(
        "overflow",
        "mov.u32 %r1, many;\nmov.u32 %r2, 0;\n.loc 1 4 5\n"
        "AGAIN: shl.b32 %r3, %r2, 3;\nadd.u32 %r3, %r1, %r3;\n"
        "mbarrier.init.shared::cta.b64 [%r3], 1;\nmbarrier.arrive.shared::cta.b64 _, [%r3];\n"
        "add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, HOLE;\n@%p1 bra AGAIN;",
        "1025",
        "16",
        threads=1,
        module=".shared .align 8 .b8 many[16384];",
    ),
}
