"""Probes of mbarriers (sequences of one thread), bar.red, clusters: addresses, remote arrivals."""

from __future__ import annotations

from collections.abc import Iterator

from tests.ptx_machine.conformance.probe import Probe
from tests.ptx_machine.conformance.values import random_bits

_MOST = (1 << 20) - 1


class _Sequence:
    """Operations on an mbarrier by thread 0, each of whose answers is a bit or a number kept."""

    def __init__(self, count: int, space: str = ".shared::cta") -> None:
        self.lines = [f"mbarrier.init{space}.b64 [%s], {count};"]
        self.space = space
        self.answers = 0
        self.bits = 0
        self.states = 0
        self.numbers = 0

    def do(self, text: str) -> None:
        self.lines.append(text)

    def arrive(self, how: str = "arrive", count: str = "") -> int:
        state = self.states
        self.states += 1
        more = f", {count}" if count else ""
        self.do(f"mbarrier.{how}{self.space}.b64 %state{state}, [%s]{more};")
        return state

    def _keep(self) -> None:
        word = f"%x{self.bits // 32}"
        self.do(f"selp.b32 %r1, {1 << self.bits % 32}, 0, %p1; or.b32 {word}, {word}, %r1;")
        self.bits += 1

    def test(self, state: int) -> None:
        self.do(f"mbarrier.test_wait{self.space}.b64 %p1, [%s], %state{state};")
        self._keep()

    def parity(self, op: str = "test_wait") -> None:
        for parity in (0, 1):
            self.do(f"mbarrier.{op}.parity{self.space}.b64 %p1, [%s], {parity};")
            self._keep()

    def pending(self, state: int) -> None:
        self.do(f"mbarrier.pending_count.b64 %n{self.numbers}, %state{state};")
        self.numbers += 1

    def probe(self, name: str) -> Probe:
        words = -(-self.bits // 32)
        total = max(words + self.numbers, 7)  # so that they are called %x0, %x1...
        lines = [f"mov.b32 %x{k}, 0;" for k in range(total)]
        lines += ["setp.ne.u32 %p9, %thread, 0; @%p9 bra done;", *self.lines]
        lines += [f"mov.b32 %x{words + k}, %n{k};" for k in range(self.numbers)]
        lines.append("done: bar.sync 0;")
        declare = f".reg .b64 %state<{self.states + 1}>; .reg .b32 %n<{self.numbers + 1}>;"
        return Probe(name, "\n".join(lines), (), ("r",) * total, blocks=1, threads=32, shared=64,
                     declare=declare)  # fmt: skip


def probes() -> Iterator[Probe]:
    yield from _phases()
    yield from _transactions()
    for k in range(12):
        yield _random(k)
    yield from _states()
    yield from _blocks()
    yield from _clusters()


def _phases() -> Iterator[Probe]:
    for space in ("", ".shared", ".shared::cta"):
        s = _Sequence(3, space)
        if not space:
            s.lines[0] = "mbarrier.init.shared::cta.b64 [%s], 3;"
            s.lines.insert(0, "cvt.u64.u32 %d0, %s; cvta.shared.u64 %d0, %d0;")
        s.parity()
        for _ in range(7):
            state = s.arrive()
            s.pending(state)
            s.test(state)
            s.parity()
        s.test(0)
        s.test(3)
        probe = s.probe(f"three arrivals{space}")
        if not space:
            body = probe.body.replace("[%s]", "[%d0]").replace(
                "init.shared::cta.b64 [%d0]", "init.shared::cta.b64 [%s]"
            )
            probe = Probe("three arrivals generic", body, (), probe.results, blocks=1, threads=32,
                          shared=64, declare=probe.declare)  # fmt: skip
        yield probe
    s = _Sequence(1)
    for _ in range(5):
        state = s.arrive()
        s.pending(state)
        s.test(state)
        s.parity("try_wait")
    yield s.probe("one arrival, try_wait")
    s = _Sequence(10)
    for count in (4, 5):
        s.pending(s.arrive("arrive", str(count)))
    s.parity()
    s.pending(s.arrive())
    s.parity()
    s.pending(s.arrive("arrive", "10"))
    s.parity()
    s.pending(s.arrive("arrive.noComplete", "9"))
    s.pending(s.arrive("arrive_drop", "1"))
    s.parity()
    s.pending(s.arrive("arrive_drop", "3"))
    s.pending(s.arrive("arrive_drop.noComplete", "2"))
    s.pending(s.arrive("arrive", "4"))
    s.parity()
    s.pending(s.arrive("arrive", "4"))
    s.parity()
    yield s.probe("counts and drops")
    s = _Sequence(_MOST)
    s.pending(s.arrive("arrive", str(_MOST - 1)))
    s.parity()
    s.pending(s.arrive())
    s.parity()
    s.pending(s.arrive("arrive", str(_MOST)))
    s.parity()
    yield s.probe("the greatest count")
    s = _Sequence(2)
    s.pending(s.arrive("arrive_drop"))
    s.parity()
    s.pending(s.arrive("arrive_drop"))
    s.parity()
    yield s.probe("all drop")


def _transactions() -> Iterator[Probe]:
    s = _Sequence(1)
    s.pending(s.arrive("arrive.expect_tx", "128"))
    s.parity()
    s.do("mbarrier.complete_tx.shared::cta.b64 [%s], 100;")
    s.parity()
    s.do("mbarrier.complete_tx.shared::cta.b64 [%s], 28;")
    s.parity()
    s.do("mbarrier.expect_tx.shared::cta.b64 [%s], 64;")
    s.pending(s.arrive())
    s.parity()
    s.do("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%s], 64;")
    s.parity()
    s.do("mbarrier.complete_tx.shared::cta.b64 [%s], 40;")
    s.parity()
    s.pending(s.arrive("arrive.expect_tx", "40"))
    s.parity()
    yield s.probe("bytes before and after arrivals")
    s = _Sequence(2)
    s.do("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%s], 1048575;")
    s.pending(s.arrive())
    s.pending(s.arrive())
    s.parity()
    s.do("mbarrier.complete_tx.shared::cta.b64 [%s], 1048575;")
    s.parity()
    s.do("mbarrier.complete_tx.shared::cta.b64 [%s], 1048575;")
    s.do("mbarrier.expect_tx.shared::cta.b64 [%s], 1048575;")
    s.parity()
    s.pending(s.arrive("arrive_drop.expect_tx", "16"))
    s.do("mbarrier.complete_tx.shared::cta.b64 [%s], 16;")
    s.parity()
    s.pending(s.arrive())
    s.parity()
    s.pending(s.arrive())
    s.parity()
    yield s.probe("the most bytes, and drops with bytes")


def _random(number: int) -> Probe:
    """A legal sequence: no more arrivals than are pending, bytes in range."""
    draws = iter(random_bits(f"mbarrier {number}", 600).tolist())
    expected = next(draws) % 6 + 1
    s = _Sequence(expected)
    pending, tx = expected, 0
    for _ in range(36):
        kind = next(draws) % 6
        if (kind == 0 and tx == 0) or kind == 5:
            amount = next(draws) % 1000 + 1
            s.do(f"mbarrier.expect_tx.shared::cta.b64 [%s], {amount};")
            tx += amount
        elif kind == 1 and tx:
            amount = abs(tx) if next(draws) % 2 else next(draws) % abs(tx) + 1
            op = "complete_tx" if tx > 0 else "expect_tx"
            s.do(f"mbarrier.{op}.shared::cta.b64 [%s], {amount};")
            tx -= amount if tx > 0 else -amount
        elif pending:
            count = next(draws) % pending + 1
            how = next(draws) % 5
            if how == 0 and count < pending:
                state = s.arrive("arrive.noComplete", str(count))
            elif how == 1 and expected > count:
                state = s.arrive("arrive_drop", str(count))
                expected -= count
            elif how == 2:
                amount, count = next(draws) % 500 + 1, 1
                state = s.arrive("arrive.expect_tx", str(amount))
                tx += amount
            else:
                state = s.arrive("arrive", str(count))
            pending -= count
            s.pending(state)
        if pending == 0 and tx == 0:
            pending = expected
        s.parity()
        if s.states:
            s.test(next(draws) % s.states if next(draws) % 4 == 0 else s.states - 1)
    return s.probe(f"random sequence {number}")


def _states() -> Iterator[Probe]:
    """Raw states, for the record: they are opaque, and the machine's are others."""
    body = (
        "setp.ne.u32 %p9, %thread, 0; mov.b64 %x, 0; mov.b64 %y, 0; mov.b64 %z, 0; mov.b64 %u, 0;"
    )
    body += " @%p9 bra done; mbarrier.init.shared::cta.b64 [%s], 5; ld.shared.b64 %u, [%s];"
    body += " mbarrier.arrive.shared::cta.b64 %x, [%s];"
    body += " mbarrier.arrive.expect_tx.shared::cta.b64 %y, [%s], 48; ld.shared.b64 %z, [%s];"
    body += " done: bar.sync 0;"
    yield Probe(
        "raw states", body, (), ("d",) * 4, blocks=1, threads=32, shared=64, opaque=(0, 1, 2, 3)
    )


def _blocks() -> Iterator[Probe]:
    for kind, into in (("popc.u32", "r"), ("and.pred", "p"), ("or.pred", "p")):
        for values in ("u:3", "u:60"):
            test = "setp.ne.u32 %p0, %a, 0;"
            yield Probe(f"bar.red.{kind} {values}", f"{test} bar.red.{kind} %x, 1, %p0;",
                        (("r", values),), (into,), blocks=4)  # fmt: skip
            yield Probe(f"barrier.red.{kind} of 64, negated {values}",
                        f"{test} shr.u32 %r0, %thread, 6; barrier.cta.red.{kind} %x, %r0, 64,"
                        " !%p0;",
                        (("r", values),), (into,), blocks=4)  # fmt: skip


def _clusters() -> Iterator[Probe]:
    sync = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    for size in (2, 4):
        yield Probe(
            f"addresses in clusters of {size}",
            "and.b32 %r0, %thread, " + str(size - 1) + ";"
            " mapa.shared::cluster.u32 %x, %s, %r0;"
            " getctarank.shared::cluster.u32 %y, %x;"
            " getctarank.shared::cluster.u32 %z, %s;"
            " cvt.u64.u32 %d0, %s; cvta.shared.u64 %d0, %d0; mapa.u64 %d1, %d0, %r0;"
            " getctarank.u64 %u, %d1; getctarank.u64 %v, %d0; mov.b32 %w, %s;",
            (), ("r",) * 6, blocks=8, cluster=size, shared=64,
        )  # fmt: skip
        yield Probe(
            f"generic addresses in clusters of {size}",
            "and.b32 %r0, %thread, " + str(size - 1) + ";"
            " mapa.shared::cluster.u32 %r1, %s, %r0; cvt.u64.u32 %d0, %s; cvta.shared.u64 %d0, %d0;"
            " mapa.u64 %d1, %d0, %r0; cvt.u64.u32 %d2, %r1; cvta.shared::cluster.u64 %d2, %d2;"
            " sub.u64 %x, %d1, %d0; sub.u64 %y, %d2, %d0; sub.u64 %z, %d2, %d1;"
            " cvta.to.shared::cluster.u64 %d3, %d1; cvta.to.shared.u64 %d4, %d1; cvt.u32.u64 %u,"
            " %d3; cvt.u32.u64 %v, %d4;"
            " isspacep.shared::cta %p1, %d1; isspacep.shared::cluster %p2, %d1; isspacep.shared"
            " %p3, %d1;"
            " selp.b32 %w, 1, 0, %p1; selp.b32 %r2, 2, 0, %p2; selp.b32 %r3, 4, 0, %p3; or.b32"
            " %w, %w, %r2;"
            " or.b32 %w, %w, %r3; isspacep.global %p1, %d1; selp.b32 %r2, 8, 0, %p1; or.b32 %w,"
            " %w, %r2;"
            " isspacep.shared::cta %p1, %d0; isspacep.shared::cluster %p2, %d0;"
            " selp.b32 %r2, 16, 0, %p1; selp.b32 %r3, 32, 0, %p2; or.b32 %w, %w, %r2; or.b32 %w,"
            " %w, %r3;",
            (), ("d", "d", "d", "r", "r", "r"), blocks=size, cluster=size, shared=64,
        )  # fmt: skip
        yield Probe(
            f"special registers in clusters of {size}",
            "mov.u32 %x, %cluster_ctarank; mov.u32 %y, %cluster_nctarank; mov.u32 %z, %clusterid.x;"
            " mov.u32 %u, %nclusterid.x; mov.u32 %v, %cluster_ctaid.x; mov.u32 %w,"
            " %cluster_nctaid.x;",
            (), ("r",) * 6, blocks=2 * size, cluster=size, shared=64,
        )  # fmt: skip
        # Each block writes into the next one's memory, and adds to it; then all read their own.
        yield Probe(
            f"remote stores and atomics in clusters of {size}",
            f"st.shared.b32 [%mine + 8], %b; add.u32 %r0, %rank, 1; and.b32 %r0, %r0, {size - 1};"
            f" mapa.shared::cluster.u32 %r1, %mine, %r0; {sync} st.shared::cluster.b32 [%r1], %a;"
            " atom.shared::cluster.add.u32 %x, [%r1 + 8], %a;"
            f" ld.shared::cluster.b32 %y, [%r1]; {sync} ld.shared.b32 %z, [%mine];"
            f" ld.shared.b32 %u, [%mine + 8]; {sync}",
            (("r", "i32"), ("r", "i32")), ("r",) * 4, blocks=2 * size, cluster=size, shared=2048,
        )  # fmt: skip
        yield Probe(
            f"remote arrivals in clusters of {size}",
            "setp.ne.u32 %p9, %thread, 0; @%p9 bra made;"
            f" mbarrier.init.shared::cta.b64 [%s], {32 * size};"
            " fence.mbarrier_init.release.cluster;"
            f" made: {sync} rem.u32 %r0, %lane, {size}; mapa.shared::cluster.u32 %r1, %s, %r0;"
            " setp.ge.u32 %p8, %thread, 32; @%p8 bra wait;"
            f" mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1], {size};"
            " wait: mov.b32 %r21, 0; again: add.u32 %r21, %r21, 1;"
            " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%s], 0;"
            " setp.gt.or.u32 %p1, %r21, 20000, %p1; @!%p1 bra again;"
            " mbarrier.test_wait.parity.shared::cta.b64 %x, [%s], 0;"
            f" mbarrier.test_wait.parity.shared::cta.b64 %y, [%s], 1; {sync}",
            (), ("p", "p"), blocks=2 * size, cluster=size, shared=64,
        )  # fmt: skip
