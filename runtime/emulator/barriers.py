"""mbarriers as PTX defines them, waits on them, and the rendezvous of a role's parts."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiledsl.codegen.ir.ops import protocol
from tiledsl.errors import InternalError, Loc, StageError
from tiledsl.runtime.emulator.compile import Blocking, Compiler, Coroutine, Signal, Step, step
from tiledsl.runtime.emulator.machine import Part

MAX_BYTES = (1 << 20) - 1  # what the transaction count of an mbarrier can hold


@dataclass(eq=False, slots=True)
class Mbarrier:
    """One mbarrier.

    Phases are numbered from 0; the parity of a phase is its number modulo 2. The current phase is
    complete when all arrivals have come and the announced bytes have: ``pending`` and ``bytes``
    are 0. Then the next phase begins with ``count`` arrivals pending. Bytes may come before they
    are announced, so ``bytes`` may be negative for a while.

    Attributes:
        ring, which, stage: ``"pipeline"``, ``"full"`` or ``"empty"``, and the slot it guards.
        count: arrivals that each phase needs.
        arrived: the parts that have arrived in this phase, for reports.
    """

    ring: str
    which: str
    stage: int
    count: int
    phase: int = 0
    pending: int = 0
    bytes: int = 0
    arrived: list[Part] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pending = self.count

    @property
    def name(self) -> str:
        """``pipeline.full[2]``"""
        return f"{self.ring}.{self.which}[{self.stage}]"

    def passed(self, parity: int) -> bool:
        """``mbarrier.test_wait.parity``: whether the phase of this parity has completed.

        Only the current phase and the one before it can be told apart: before the first phase
        completes, parity 1 passes, as if a phase before it had completed.
        """
        return self.phase & 1 != parity

    def arrive(self, part: Part, loc: Loc, nbytes: int = 0) -> None:
        """One arrival, announcing ``nbytes`` bytes first.

        Raises:
            StageError: when all arrivals of the phase have come already.
        """
        if self.pending == 0:
            seen = ", ".join(one.label for one in self.arrived) or "nobody"
            raise StageError(
                f"{part.label} arrives on {self.name} once too often in phase {self.phase}:"
                f" expected {self.count} arrival(s), which came from {seen};"
                f" {self.bytes} bytes are still missing",
                loc,
            )
        self.bytes += nbytes
        if self.bytes > MAX_BYTES:
            raise StageError(
                f"{self.name} expects {self.bytes} bytes in phase {self.phase}: an mbarrier counts"
                f" at most {MAX_BYTES}",
                loc,
            )
        self.pending -= 1
        self.arrived.append(part)
        self._settle()

    def complete_bytes(self, nbytes: int) -> None:
        """``complete_tx``: that many bytes have come."""
        self.bytes -= nbytes
        self._settle()

    def _settle(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.count
            self.arrived = []


@dataclass(frozen=True, slots=True)
class BarrierWait:
    """A part waits for the phase of parity ``parity``."""

    barrier: Mbarrier
    parity: int
    loc: Loc

    def ready(self) -> bool:
        return self.barrier.passed(self.parity)


@dataclass(eq=False, slots=True)
class Rendezvous:
    """The named barrier of a role, over its parts."""

    parts: int
    meetings: int = 0
    waiting: int = 0

    def arrive(self) -> None:
        self.waiting += 1
        if self.waiting == self.parts:
            self.waiting = 0
            self.meetings += 1


@dataclass(frozen=True, slots=True)
class RendezvousWait:
    """A part waits for the other parts of its role."""

    rendezvous: Rendezvous
    meeting: int
    loc: Loc

    def ready(self) -> bool:
        return self.rendezvous.meetings > self.meeting


# ------------------------------------------------------------------------- operations


@step(protocol.RingBarrier)
def _ring_barrier(cx: Compiler, op: protocol.RingBarrier) -> Step:
    out, ring, index = cx.slot(op.result), cx.slot(op.ring), cx.slot(op.index)
    which, loc = op.which, op.loc

    def run(part: Part) -> Signal:
        registers = part.registers
        barriers = registers[ring].barriers[which]
        stage = registers[index]
        if not 0 <= stage < len(barriers):
            raise InternalError(
                f"stage {stage} of pipeline {registers[ring].name!r}: expected 0 to"
                f" {len(barriers) - 1}",
                loc,
            )
        registers[out] = barriers[stage]
        return None

    return run


@step(protocol.MbarrierWait)
def _wait(cx: Compiler, op: protocol.MbarrierWait) -> Blocking:
    slot, parity_slot, loc = cx.slot(op.barrier), cx.slot(op.parity), op.loc
    elect = "part" if op.elect == "all" else op.elect

    def start(part: Part) -> Coroutine:
        if not part.elected(elect):
            return None
        barrier: Mbarrier = part.registers[slot]
        parity: int = part.registers[parity_slot]
        if parity not in (0, 1):
            raise InternalError(f"{barrier.name}: parity {parity}, expected 0 or 1", loc)
        result = part.block.result
        result.waits += 1
        if not barrier.passed(parity):
            result.stalls += 1
            wait = BarrierWait(barrier, parity, loc)
            # Asked again when it is this part's turn: as on the hardware, a waiter that comes late
            # may find that the phase after the one it waits for has completed too.
            while not barrier.passed(parity):
                yield wait
        return None

    return Blocking(start)


@step(protocol.MbarrierArrive)
def _arrive(cx: Compiler, op: protocol.MbarrierArrive) -> Step:
    slot, loc, elect = cx.slot(op.barrier), op.loc, op.elect
    predicate = cx.slot(op.predicate[0]) if op.predicate else None

    def run(part: Part) -> Signal:
        registers = part.registers
        if part.elected(elect) and (predicate is None or registers[predicate]):
            registers[slot].arrive(part, loc)
            part.block.result.arrivals += 1
        return None

    return run


@step(protocol.MbarrierArriveExpectTx)
def _arrive_expect(cx: Compiler, op: protocol.MbarrierArriveExpectTx) -> Step:
    slot, loc, nbytes = cx.slot(op.barrier), op.loc, op.nbytes

    def run(part: Part) -> Signal:
        if part.elected("role"):
            part.registers[slot].arrive(part, loc, nbytes)
            part.block.result.arrivals += 1
        return None

    return run


def _threads_met(part: Part) -> None:
    """What all threads of the part know now that one of them, or each for itself, knew before."""
    for buffer in part.buffers.values():
        buffer.advance("fenced", "visible")
    part.bulk.announce()


@step(protocol.PartSync)
def _part_sync(cx: Compiler, op: protocol.PartSync) -> Step:
    return _threads_met  # the threads of a part are one coroutine


@step(protocol.RoleSync)
def _role_sync(cx: Compiler, op: protocol.RoleSync) -> Blocking:
    loc = op.loc

    def start(part: Part) -> Coroutine:
        meeting = part.rendezvous.meetings
        part.rendezvous.arrive()
        wait = RendezvousWait(part.rendezvous, meeting, loc)
        while not wait.ready():
            yield wait
        _threads_met(part)
        return None

    return Blocking(start)


@step(protocol.FenceProxyAsync)
def _fence(cx: Compiler, op: protocol.FenceProxyAsync) -> Step:
    def run(part: Part) -> Signal:
        for buffer in part.buffers.values():
            buffer.advance("written", "fenced")
        return None

    return run
