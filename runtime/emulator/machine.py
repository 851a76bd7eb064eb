"""The state of one block under emulation, and of each part of its roles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import IO, TYPE_CHECKING, Any, Protocol

from tiledsl.errors import Loc

if TYPE_CHECKING:
    from tiledsl.runtime.emulator.async_copies import Copy
    from tiledsl.runtime.emulator.barriers import Mbarrier, Named, Rendezvous
    from tiledsl.runtime.emulator.bulk import BulkQueue
    from tiledsl.runtime.emulator.memory import Buffer, Ring, SharedArray, SharedMemory, Word
    from tiledsl.runtime.emulator.wgmma import Group


@dataclass(slots=True)
class EmulationResult:
    """What happened during an emulation, summed over blocks.

    Attributes:
        blocks: blocks of the grid.
        waits: waits on mbarriers, of all role parts.
        stalls: those of them that did not pass at once.
        polls: questions whether a phase of an mbarrier has completed.
        arrivals: arrivals on mbarriers, with or without bytes; an arrival in several blocks of a
            cluster counts for each, one of many threads at a time counts once.
        tma_loads, tma_load_bytes: bulk copies to shared memory and their bytes, with what was
            filled with zeros; a multicast counts once, whatever the number of blocks it reaches.
        prefetches: bulk tensor prefetches.
        copies: tiles copied by ``cp.async``.
        tma_stores, tma_store_bytes: bulk tensor copies from shared memory, and their bytes with
            what lies outside of the tensor.
        wgmma_groups: groups, one a ``wgmma.mma`` and part.
        most_groups_in_flight: the largest number of groups that one part had not waited for.
        prints: lines printed.
    """

    blocks: int = 0
    waits: int = 0
    stalls: int = 0
    polls: int = 0
    arrivals: int = 0
    tma_loads: int = 0
    tma_load_bytes: int = 0
    prefetches: int = 0
    copies: int = 0
    tma_stores: int = 0
    tma_store_bytes: int = 0
    wgmma_groups: int = 0
    most_groups_in_flight: int = 0
    prints: int = 0

    def events(self) -> tuple[int, ...]:
        """All that has happened, but for questions that changed nothing."""
        return tuple(getattr(self, field.name) for field in fields(self) if field.name != "polls")


class Wait(Protocol):
    """What a blocked part waits for."""

    @property
    def loc(self) -> Loc: ...

    def ready(self) -> bool:
        """Whether the part can go on."""
        ...


class Agent(Protocol):
    """An asynchronous operation that the hardware carries out at a moment of its own choosing.

    ``forced``: the part that started it makes it happen, at the latest when it waits for it.
    """

    @property
    def done(self) -> bool: ...

    @property
    def forced(self) -> bool: ...

    def act(self) -> None:
        """Take the next step."""
        ...


@dataclass(eq=False, slots=True, repr=False)
class Part:
    """One part of a role: a coroutine with registers of its own.

    Attributes:
        role: the role's name.
        index: which part, 0 ... ``parts`` - 1.
        threads: threads of this part.
        registers: the value of every IR value, by slot number.
        groups: wgmma groups that were issued and not waited for, oldest first.
        bulk: TMA stores that its elected thread has started.
        copies: ``cp.async`` copies for which no arrival has been asked yet.
        rendezvous: where the parts of the role meet.
    """

    role: str
    index: int
    parts: int
    threads: int
    registers: list[Any]
    block: BlockState
    rendezvous: Rendezvous
    bulk: BulkQueue
    groups: deque[Group] = field(default_factory=deque)
    copies: list[Copy] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How messages call it: ``role 'mma' part 1 of 2 in block 0 of its cluster``."""
        part = f" part {self.index} of {self.parts}" if self.parts > 1 else ""
        block = f" in block {self.block.rank} of its cluster" if len(self.block.cluster) > 1 else ""
        return f"role {self.role!r}{part}{block}"

    def __repr__(self) -> str:
        # Not its fields: blocks and parts know each other, and tools print the locals of frames.
        return f"<{self.label}>"

    def elected(self, elect: str) -> bool:
        """Whether one of this part's threads is chosen: ``"part"`` always, ``"role"`` part 0."""
        return elect == "part" or self.index == 0


@dataclass(eq=False, slots=True, repr=False)
class BlockState:
    """What the parts of one block share.

    Attributes:
        id, grid: the block's index and the grid's extents along x, y, z.
        rings, mbarriers, shared, named, words: pipelines, the kernel's own mbarriers and shared
            tiles, named barriers, and words in shared memory, by the names that create them.
        cluster: the blocks of its cluster by rank, itself included.
        rank: its own.
        meeting: where all parts of the cluster meet.
        start: hands an asynchronous operation to the scheduler.
        result: counters.
    """

    id: tuple[int, int, int]
    grid: tuple[int, ...]
    memory: SharedMemory
    rings: dict[str, Ring]
    mbarriers: dict[str, list[Mbarrier]]
    shared: dict[str, list[SharedArray]]
    named: dict[str, Named]
    words: dict[str, Word]
    start: Callable[[Agent], None]
    result: EmulationResult
    stdout: IO[str]
    cluster: list[BlockState]
    rank: int
    meeting: Rendezvous

    def __repr__(self) -> str:
        return f"<block {self.id} of {self.grid}>"
