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
from tiledsl.runtime.emulator.bulk import Load
from tiledsl.runtime.emulator.compile import Coroutine, Signal
from tiledsl.runtime.emulator.machine import Agent, Part, Wait

# How often an asynchronous operation is preferred to a part, drawn once a block: from hardware
# that is always late to hardware that is always fast.
_EAGERNESS = (0.0, 0.05, 0.3, 0.7, 0.95)


@dataclass(eq=False, slots=True)
class Task:
    """A part with the coroutine that runs it."""

    part: Part
    code: Coroutine
    waits_for: Wait | None = None
    ended: bool = False
    signal: Signal = None  # how the code ended

    def ready(self) -> bool:
        return self.waits_for is None or self.waits_for.ready()

    def resume(self) -> None:
        """Run until the next point where another may run."""
        try:
            self.waits_for = next(self.code)
        except StopIteration as stop:
            self.ended = True
            self.signal = stop.value
            self.part.bulk.finish(self.part)


Report = Callable[[list[Task]], Deadlock]


class LateScheduler:
    """Parts in turn, each as far as it gets; loads as late as can be."""

    def __init__(self) -> None:
        self._loads: deque[Load] = deque()

    def start(self, agent: Agent) -> None:
        # Groups and stores are forced by the waits of the part that started them.
        if isinstance(agent, Load):
            self._loads.append(agent)

    def run(self, tasks: list[Task], report: Report) -> None:
        """Run all tasks to their end, or raise what ``report`` says of a deadlock."""
        live = list(tasks)
        while live:
            went_on = False
            for task in live:
                if task.ready():
                    task.resume()
                    went_on = True
            live = [task for task in live if not task.ended]
            if went_on:
                continue
            if not self._loads:
                raise report(tasks)
            self._loads.popleft().act()

    def drain(self) -> None:
        """Let what is still in flight land."""
        while self._loads:
            self._loads.popleft().act()


class RandomScheduler:
    """Any order that the hardware may choose, drawn from ``source``."""

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._agents: list[Agent] = []
        self._eagerness = source.choice(_EAGERNESS)

    def start(self, agent: Agent) -> None:
        self._agents.append(agent)

    def run(self, tasks: list[Task], report: Report) -> None:
        """Run all tasks to their end, or raise what ``report`` says of a deadlock."""
        live = list(tasks)
        draw = self._random.random
        while live:
            ready = [task for task in live if task.ready()]
            if self._agents and (not ready or draw() < self._eagerness):
                self._one_agent()
            elif ready:
                task = ready[int(draw() * len(ready))]
                task.resume()
                if task.ended:
                    live.remove(task)
            else:
                raise report(tasks)

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
