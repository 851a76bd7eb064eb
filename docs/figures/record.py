"""A run of the emulator with a clock: when each copy, product and store begins and ends.

The emulator itself has no time. ``Timed`` stands in for its scheduler and gives durations to what
the hardware does: a copy lands ``LATENCY`` ticks after its issue, and ``INTERVAL`` ticks after the
copy before it; the tensor cores work on one product at a time, for ``PRODUCT`` ticks; a store keeps
its role busy for ``STORE`` ticks. What roles do besides takes no time. So the pictures show who
waits for whom, as in the real kernel, and not how fast it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from unittest import mock

from tiledsl.compiled import CompiledKernel
from tiledsl.runtime.emulator import emulate
from tiledsl.runtime.emulator.barriers import Mbarrier
from tiledsl.runtime.emulator.bulk import Store
from tiledsl.runtime.emulator.copies import Load
from tiledsl.runtime.emulator.machine import Agent
from tiledsl.runtime.emulator.scheduler import Task
from tiledsl.runtime.emulator.wgmma import Group

LATENCY, INTERVAL, PRODUCT, STORE = 4, 1, 3, 5


@dataclass(frozen=True, slots=True)
class Span:
    """Something that takes from ``start`` to ``end``.

    Attributes:
        what: ``"copy"``, ``"product"`` or ``"store"``.
        role: who began it.
        stage: the slot that a copy fills, -1 for others.
        nbytes: what a copy brings.
        source, target: ranks in the cluster of the block that began a copy, and of the block into
            whose shared memory it goes.
    """

    what: str
    role: str
    start: int
    end: int
    stage: int = -1
    nbytes: int = 0
    source: int = 0
    target: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """An mbarrier behind a change: what is still outstanding in its current phase."""

    time: int
    name: str  # such as pipeline.full[0]
    phase: int
    arrivals: int
    nbytes: int
    by: tuple[str, ...]  # who has arrived in this phase


@dataclass(slots=True)
class Record:
    """What happened in one block, in order."""

    spans: list[Span] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    end: int = 0

    def of(self, what: str) -> list[Span]:
        return [span for span in self.spans if span.what == what]

    def changes(self, name: str) -> list[State]:
        """The states of one barrier."""
        return [state for state in self.states if state.name == name]


class Timed:
    """A scheduler that keeps a clock. ``record`` gets what happens."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._now = 0
        self._tasks: dict[Task, int] = {}  # when each may go on
        self._running: Task | None = None
        self._landing: list[tuple[int, int, Load]] = []
        self._last_landing = 0
        self._product_ends = 0
        self._groups: list[tuple[Group, int]] = []  # not retired yet, with their ends
        self._seen: dict[Mbarrier, State] = {}

    def start(self, agent: Agent) -> None:
        task = self._running
        assert task is not None
        role, now = task.part.role, self._now
        if isinstance(agent, Load):
            end = max(now + LATENCY, self._last_landing + INTERVAL)
            self._last_landing = end
            self._landing.append((end, len(self.record.spans), agent))
            source, target = task.part.block.rank, agent.block.rank
            span = Span(
                "copy", role, now, end, agent.barrier.stage, agent.target.nbytes, source, target
            )
            self.record.spans.append(span)
        elif isinstance(agent, Group):
            begin = max(now, self._product_ends)
            self._product_ends = begin + PRODUCT
            self._groups.append((agent, self._product_ends))
            self.record.spans.append(Span("product", role, begin, self._product_ends))
        elif isinstance(agent, Store):
            begin = max(now, self._tasks[task])
            self._tasks[task] = begin + STORE
            self.record.spans.append(Span("store", role, begin, begin + STORE))

    def run(self, tasks: list[Task], report: Callable[[list[Task]], Exception]) -> None:
        live = list(tasks)
        while live:
            ready = [task for task in live if task.ready()]
            first = min(ready, key=lambda task: self._tasks.get(task, 0), default=None)
            land = min(self._landing, default=None)
            if land and (first is None or land[0] <= max(self._now, self._tasks.get(first, 0))):
                self._landing.remove(land)
                self._now = max(self._now, land[0])
                land[2].act()
            elif first is not None:
                self._now = max(self._now, self._tasks.setdefault(first, 0))
                self._running = first
                more = first.resume()
                self._retire(first)
                live = [task for task in live if not task.ended] + more
                tasks += more
            else:
                raise report(tasks)
            self._look(tasks)
        self.record.end = max(self._now, *(span.end for span in self.record.spans))

    def drain(self) -> None:
        assert not self._landing

    def _retire(self, task: Task) -> None:
        """A role that has waited for products goes on when they are done."""
        done = [end for group, end in self._groups if group.retired]
        self._groups = [pair for pair in self._groups if not pair[0].retired]
        self._tasks[task] = max(self._tasks[task], *done, 0)

    def _look(self, tasks: list[Task]) -> None:
        block = tasks[0].part.block
        for member in block.cluster or [block]:
            for barrier in member.memory.barriers:
                by = tuple(part.label for part in barrier.arrived)
                name = barrier.name if len(block.cluster) < 2 else f"{barrier.name}@{member.rank}"
                state = State(self._now, name, barrier.phase, barrier.pending, barrier.bytes, by)
                before = self._seen.get(barrier)
                if before is None or _what(before) != _what(state):
                    self._seen[barrier] = state
                    self.record.states.append(state)


def _what(state: State) -> tuple[object, ...]:
    return state.phase, state.arrivals, state.nbytes, state.by


def record(compiled: CompiledKernel, args: Sequence[object], grid: int = 1) -> list[Record]:
    """Run a kernel; what happened in each cluster (or single block), one after the other."""
    records: list[Record] = []

    def timed(_: object) -> Timed:
        records.append(Record())
        return Timed(records[-1])

    module = sys.modules[emulate.__module__]  # its name is that of the function
    with mock.patch.object(module, "RandomScheduler", timed):
        # Any seed: it makes the roles give way before each operation that others may see.
        emulate(compiled.kernel, args, grid=(grid,), seed=0)
    return records
