"""The state of one block under emulation, and of each part of its roles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Protocol

from tiledsl.errors import Loc

if TYPE_CHECKING:
    from tiledsl.runtime.emulator.barriers import Rendezvous
    from tiledsl.runtime.emulator.bulk import BulkQueue
    from tiledsl.runtime.emulator.memory import Buffer, Ring, SharedMemory
    from tiledsl.runtime.emulator.wgmma import Group


@dataclass(slots=True)
class EmulationResult:
    """What happened during an emulation, summed over blocks.

    Attributes:
        blocks: blocks of the grid.
        waits: waits on mbarriers, of all role parts.
        stalls: those of them that did not pass at once.
        arrivals: arrivals on mbarriers, with or without bytes.
        tma_loads, tma_load_bytes: bulk tensor copies to shared memory and their bytes, with what
            was filled with zeros.
        tma_stores, tma_store_bytes: bulk tensor copies from shared memory, and their bytes with
            what lies outside of the tensor.
        wgmma_groups: groups, one a ``wgmma.mma`` and part.
        most_groups_in_flight: the largest number of groups that one part had not waited for.
        prints: lines printed.
    """

    blocks: int = 0
    waits: int = 0
    stalls: int = 0
    arrivals: int = 0
    tma_loads: int = 0
    tma_load_bytes: int = 0
    tma_stores: int = 0
    tma_store_bytes: int = 0
    wgmma_groups: int = 0
    most_groups_in_flight: int = 0
    prints: int = 0


class Wait(Protocol):
    """What a blocked part waits for."""

    @property
    def loc(self) -> Loc: ...

    def ready(self) -> bool:
        """Whether the part can go on."""
        ...


class Agent(Protocol):
    """An asynchronous operation that the hardware carries out at a moment of its own choosing."""

    @property
    def done(self) -> bool: ...

    def act(self) -> None:
        """Take the next step."""
        ...


@dataclass(eq=False, slots=True)
class Part:
    """One part of a role: a coroutine with registers of its own.

    Attributes:
        role: the role's name.
        index: which part, 0 ... ``parts`` - 1.
        registers: the value of every IR value, by slot number.
        groups: wgmma groups that were issued and not waited for, oldest first.
        bulk: TMA stores that its elected thread has started.
        rendezvous: where the parts of the role meet.
    """

    role: str
    index: int
    parts: int
    registers: list[Any]
    block: BlockState
    rendezvous: Rendezvous
    bulk: BulkQueue
    groups: deque[Group] = field(default_factory=deque)
    buffers: dict[str, Buffer] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How messages call it: ``role 'mma' part 1 of 2``."""
        part = f" part {self.index} of {self.parts}" if self.parts > 1 else ""
        return f"role {self.role!r}{part}"

    def elected(self, elect: str) -> bool:
        """Whether one of this part's threads is chosen: ``"part"`` always, ``"role"`` part 0."""
        return elect == "part" or self.index == 0


@dataclass(eq=False, slots=True)
class BlockState:
    """What the parts of one block share.

    Attributes:
        id, grid: the block's index and the grid's extents along x, y, z.
        rings: by ``PipelineCreate.name``.
        start: hands an asynchronous operation to the scheduler.
        result: counters.
    """

    id: tuple[int, int, int]
    grid: tuple[int, ...]
    memory: SharedMemory
    rings: dict[str, Ring]
    start: Callable[[Agent], None]
    result: EmulationResult
    stdout: IO[str]
