"""What parts wait for: mbarriers as PTX defines them, named barriers, and meetings of parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tiledsl.errors import Loc, StageError

if TYPE_CHECKING:
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
        ring, which, stage: ``"pipeline"``, ``"full"`` or ``"empty"``, and the slot it guards; of
            the user's own barriers the name, ``"raw"`` and the number.
        count: arrivals that each phase needs.
        number: which of the block's barriers it is: the same in every block of a cluster.
        rank: of its block in the cluster.
        arrived: the parts that have arrived in this phase, for reports.
        loaded: the last phase in which a copy brought bytes, -1 before.
        seen: phases that some wait has found complete.
    """

    ring: str
    which: str
    stage: int
    count: int
    number: int = 0
    rank: int = 0
    phase: int = 0
    pending: int = 0
    bytes: int = 0
    arrived: list[Part] = field(default_factory=list)
    loaded: int = -1
    seen: int = 0

    def __post_init__(self) -> None:
        self.pending = self.count

    @property
    def name(self) -> str:
        """``pipeline.full[2]``, or ``bars[2]`` for one of the user's own."""
        which = "" if self.which == "raw" else f".{self.which}"
        return f"{self.ring}{which}[{self.stage}]"

    def passed(self, parity: int) -> bool:
        """``mbarrier.test_wait.parity``: whether the phase of this parity has completed.

        Only the current phase and the one before it can be told apart: before the first phase
        completes, parity 1 passes, as if a phase before it had completed.
        """
        return self.phase & 1 != parity

    def arrive(self, part: Part, loc: Loc, nbytes: int = 0, times: int = 1) -> None:
        """One arrival (or ``times``, of as many threads), announcing ``nbytes`` bytes first.

        Raises:
            StageError: when all arrivals of the phase have come already.
        """
        if self.pending < times:
            seen = ", ".join(one.label for one in self.arrived) or "nobody"
            came = f"{times} times " if times > 1 else ""
            raise StageError(
                f"{part.label} arrives {came}on {self.name} once too often in phase {self.phase}:"
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
        self.pending -= times
        self.arrived.append(part)
        self._settle()

    def complete_bytes(self, nbytes: int) -> None:
        """``complete_tx``: that many bytes have come."""
        self.loaded = self.phase
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


@dataclass(frozen=True, slots=True)
class BarrierPoll:
    """A part has asked whether the phase of parity ``parity`` has completed, and it has not.

    The part may go on at any time. It lets others run first, for it may well ask again.
    """

    barrier: Mbarrier
    parity: int
    loc: Loc

    def ready(self) -> bool:
        return True


@dataclass(eq=False, slots=True)
class Rendezvous:
    """Where several parts meet: those of a role, or of all blocks of a cluster.

    ``answer`` is what those that met last agreed upon; ``agreed`` what those have that came so far.
    """

    parts: int
    meetings: int = 0
    waiting: int = 0
    agreed: bool = True
    answer: bool = True

    def arrive(self) -> None:
        self.waiting += 1
        if self.waiting == self.parts:
            self.waiting = 0
            self.meetings += 1

    def agree(self, answer: bool) -> None:
        """Arrive with an answer; all of them must say yes for the common one to be yes."""
        self.agreed = self.agreed and answer
        if self.waiting + 1 == self.parts:
            self.answer, self.agreed = self.agreed, True
        self.arrive()


@dataclass(frozen=True, slots=True)
class RendezvousWait:
    """A part waits for the other parts: of its role, or with ``cluster`` of all blocks.

    ``asks``: they meet to agree on the answer to a question about a barrier.
    """

    rendezvous: Rendezvous
    meeting: int
    loc: Loc
    cluster: bool = False
    asks: bool = False

    def ready(self) -> bool:
        return self.rendezvous.meetings > self.meeting


@dataclass(eq=False, slots=True)
class Named:
    """A named barrier between roles: complete when ``threads`` threads have arrived.

    ``came`` are the threads that have arrived since it completed last, ``generation`` counts how
    often it has, ``parts`` are those that have arrived, for reports.
    """

    name: str
    threads: int
    came: int = 0
    generation: int = 0
    parts: list[Part] = field(default_factory=list)

    def arrive(self, part: Part, threads: int, loc: Loc) -> None:
        """``threads`` threads of ``part`` arrive.

        Raises:
            StageError: they are more than the barrier still waits for.
        """
        if self.came + threads > self.threads:
            seen = ", ".join(one.label for one in self.parts)
            raise StageError(
                f"{part.label} arrives with {threads} threads at named barrier {self.name!r}, at"
                f" which {self.came} of {self.threads} threads have arrived ({seen}): expected"
                f" {self.threads - self.came} at most",
                loc,
                hint="each role arrives or syncs once before all others have",
            )
        self.came += threads
        self.parts.append(part)
        if self.came == self.threads:
            self.came = 0
            self.generation += 1
            self.parts = []


@dataclass(frozen=True, slots=True)
class NamedWait:
    """A part waits for the threads of other roles at a named barrier."""

    barrier: Named
    generation: int
    loc: Loc

    def ready(self) -> bool:
        return self.barrier.generation > self.generation
