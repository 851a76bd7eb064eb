"""Who runs next: the parts of a block's roles, and the asynchronous operations they started.

Without a seed the schedule is fixed and late: each part runs until it waits, and a load arrives
only when every part waits. wgmma groups and stores run when a wait demands it, so that a missing
wait shows. With a seed, any runnable part or any pending operation may be next.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tiledsl.errors import Deadlock
from tiledsl.runtime.emulator.async_copies import check_copies
from tiledsl.runtime.emulator.barriers import BarrierPoll, RendezvousWait
from tiledsl.runtime.emulator.compile import Coroutine, Signal
from tiledsl.runtime.emulator.machine import Agent, Part, Wait

# How often an asynchronous operation is preferred to a part, drawn once a block: from hardware
# that is always late to hardware that is always fast.
_EAGERNESS = (0.0, 0.05, 0.3, 0.7, 0.95)


# Of all parts that could go on only some ask whether a barrier has completed, in vain and in turn.
# After this many questions without any other event no answer will ever change.
_PATIENCE = 50_000


@dataclass(eq=False, slots=True)
class Task:
    """A part with the coroutine that runs it, and what follows when it has ended."""

    part: Part
    code: Coroutine
    then: Callable[[Task], list[Task]] | None = None
    waits_for: Wait | None = None
    ended: bool = False
    signal: Signal = None  # how the code ended

    def ready(self) -> bool:
        return self.waits_for is None or self.waits_for.ready()

    @property
    def polls(self) -> bool:
        """Whether it can go on, but has nothing to do if the barrier that it asks for does not."""
        wait = self.waits_for
        return type(wait) is BarrierPoll or (type(wait) is RendezvousWait and wait.asks)

    def resume(self) -> list[Task]:
        """Run until the next point where another may run; the tasks that follow on its end."""
        try:
            self.waits_for = next(self.code)
            return []
        except StopIteration as stop:
            self.ended = True
            self.signal = stop.value
            self.part.bulk.finish(self.part)
            check_copies(self.part)
            return [] if self.then is None else self.then(self)


Report = Callable[[list[Task]], Deadlock]


class _Patience:
    """Notices when nothing happens any more but questions."""

    def __init__(self) -> None:
        self._asked = 0
        self._before: object = None

    def lost(self, tasks: list[Task]) -> bool:
        """To be called where all that can go on only poll; whether they do so in vain."""
        self._asked += 1
        if self._asked < _PATIENCE:
            return False
        self._asked = 0
        result = tasks[0].part.block.result
        events = result.events()
        lost, self._before = events == self._before, events
        return lost


class LateScheduler:
    """Parts in turn, each as far as it gets; loads as late as can be."""

    def __init__(self) -> None:
        self._loads: deque[Agent] = deque()

    def start(self, agent: Agent) -> None:
        # Groups and stores are forced by the waits of the part that started them.
        if not agent.forced:
            self._loads.append(agent)

    def run(self, tasks: list[Task], report: Report) -> None:
        """Run all tasks and what follows them to their end, or raise what ``report`` says."""
        live, patience = list(tasks), _Patience()
        while live:
            went_on = polling = False
            for task in live:
                if task.ready():
                    more = task.resume()
                    if task.polls:
                        polling = True
                    else:
                        went_on = True
                    if more:
                        tasks += more
                        live = live + more
            live = [task for task in live if not task.ended]
            if went_on:
                continue
            if self._loads:
                self._act()
            elif not polling or patience.lost(tasks):
                raise report(tasks)

    def _act(self) -> None:
        agent = self._loads.popleft()
        if not agent.done:
            agent.act()

    def drain(self) -> None:
        """Let what is still in flight land."""
        while self._loads:
            self._act()


class RandomScheduler:
    """Any order that the hardware may choose, drawn from ``source``."""

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._agents: list[Agent] = []
        self._eagerness = source.choice(_EAGERNESS)

    def start(self, agent: Agent) -> None:
        self._agents.append(agent)

    def run(self, tasks: list[Task], report: Report) -> None:
        """Run all tasks and what follows them to their end, or raise what ``report`` says."""
        live, patience = list(tasks), _Patience()
        draw = self._random.random
        while live:
            ready = [task for task in live if task.ready()]
            if all(task.polls for task in ready):  # or nobody is ready
                if self._agents and (not ready or draw() < 0.5):
                    self._one_agent()
                    continue
                if not ready or (not self._agents and patience.lost(tasks)):
                    raise report(tasks)
            elif self._agents and draw() < self._eagerness:
                self._one_agent()
                continue
            task = ready[int(draw() * len(ready))]
            more = task.resume()
            if task.ended:
                live.remove(task)
            if more:
                tasks += more
                live += more

    def _one_agent(self) -> None:
        agents = self._agents
        index = int(self._random.random() * len(agents))
        agent = agents[index]
        if not agent.done:
            agent.act()
        if agent.done:
            agents[index] = agents[-1]
            agents.pop()

    def drain(self) -> None:
        """Let what is still in flight land."""
        while self._agents:
            self._one_agent()


Scheduler = LateScheduler | RandomScheduler
