"""Raw mbarriers, named barriers, clusters, and the turns of a role's replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import PROTOCOL, TILE, Effect, Op, Value, attribute, define, operand
from tiledsl.codegen.ir.ops.tile import I32
from tiledsl.codegen.ir.types import (
    BarriersType,
    BarrierType,
    NamedBarrierType,
    Scalar,
    Type,
    WordType,
)

Namer = Callable[[Value], str]


# ----------------------------------------------------------------------------- raw mbarriers


@define("mbarrier.create")
class MbarrierCreate(Op):
    """``number`` mbarriers of the user's own, each completed by ``count`` arrivals a phase.

    Initialised before the roles begin. ``count`` None: derived from the roles that arrive.
    ``name`` is unique in the kernel; ``plan.counts[name, "raw"]`` holds the count that is used.
    ``turns``: made by the compiler to hand turns on from replica to replica. An arrival on it says
    that wgmma groups have been issued, not that they are done, as any other arrival does.
    """

    name: str = attribute()
    number: int = attribute()
    count: int | None = attribute(default=None)
    turns: bool = attribute(default=False)

    def result_types(self) -> Sequence[Type]:
        return (BarriersType(self.number),)

    def print_head(self, name: Namer) -> str:
        count = f", {self.count} arrivals" if self.count is not None else ""
        return f"mbarrier.create {self.number}{count}"


@define("mbarrier.at")
class MbarrierAt(Op):
    """Number ``index`` of a row of raw mbarriers."""

    barriers: Value = operand()
    index: Value = operand()

    def result_types(self) -> Sequence[Type]:
        return (BarrierType(),)

    def print_head(self, name: Namer) -> str:
        return f"mbarrier.at {name(self.barriers)}[{name(self.index)}]"

    def verify(self) -> None:
        if not isinstance(self.barriers.type, BarriersType):
            raise ValueError(f"expected mbarriers, got {self.barriers.type}")
        if self.index.type != I32:
            raise ValueError(f"the index must be int32, got {self.index.type}")


@define("mbarrier.try_wait", effect=Effect.SYNC, needs="mbarrier")
class MbarrierTryWait(Op):
    """Whether the phase of parity ``parity`` has completed. Never waits.

    ``uniform``: all threads of the role get one answer (they meet at a named barrier for it);
    else each thread has its own, which may only decide whether that thread waits.
    """

    barrier: Value = operand()
    parity: Value = operand()
    uniform: bool = attribute(default=True)

    def result_types(self) -> Sequence[Type]:
        return (Scalar(dtypes.bool_),)

    def print_head(self, name: Namer) -> str:
        own = "" if self.uniform else " {each thread}"
        return f"mbarrier.try_wait {name(self.barrier)}, parity {name(self.parity)}{own}"


# ----------------------------------------------------------------------------- named barriers


@define("named.create")
class NamedCreate(Op):
    """A named barrier (``bar.sync``) between roles; ``name`` is unique in the kernel.

    Its threads are those of the roles that sync or arrive: ``plan.named[name]`` holds the id and
    the number of threads.
    """

    name: str = attribute()

    def result_types(self) -> Sequence[Type]:
        return (NamedBarrierType(),)

    def print_head(self, name: Namer) -> str:
        return "named.create"


class _OnNamed(Op):
    barrier: Value

    def verify(self) -> None:
        if not isinstance(self.barrier.type, NamedBarrierType):
            raise ValueError(f"expected a named barrier, got {self.barrier.type}")


@define("named.sync", effect=Effect.SYNC)
class NamedSync(_OnNamed):
    """All threads of the role arrive and wait until every thread of the barrier has arrived."""

    barrier: Value = operand()


@define("named.arrive", effect=Effect.SYNC)
class NamedArrive(_OnNamed):
    """All threads of the role arrive, without waiting."""

    barrier: Value = operand()


# ----------------------------------------------------------------------------------- clusters


@define("cluster.rank")
class ClusterRank(Op):
    """This block's rank in its cluster: 0 ... size - 1, the first axis fastest."""

    def result_types(self) -> Sequence[Type]:
        return (I32,)


@define("cluster.sync", effect=Effect.SYNC, needs="cluster")
class ClusterSync(Op):
    """All threads of the cluster's blocks meet. Legal outside of roles only."""


# -------------------------------------------------------------------------- replicas of a role


@define("role.replica", levels=TILE)
class Replica(Op):
    """Which replica of its role this is, 0 ... replicas - 1. A constant behind the replication."""

    def result_types(self) -> Sequence[Type]:
        return (I32,)


@define("turn.begin", levels=TILE, effect=Effect.SYNC)
class TurnBegin(Op):
    """Wait for this replica's turn in the section ``name`` of its role.

    The replicas run the section in the order 0, 1, ... 0, 1 ...; the cursors of the rings that
    the section consumes are handed on with the turn.
    """

    name: str = attribute()

    def print_head(self, name: Namer) -> str:
        return f'turn.begin "{self.name}"'


@define("turn.end", levels=TILE, effect=Effect.SYNC)
class TurnEnd(Op):
    """Hand the turn on. What wgmma still computes goes on beside the next replica's turn."""

    name: str = attribute()

    def print_head(self, name: Namer) -> str:
        return f'turn.end "{self.name}"'


@define("word.create", levels=PROTOCOL)
class WordCreate(Op):
    """One int32 in shared memory that replicas hand on with a turn: a ring cursor.

    Set to ``init`` before the roles begin. ``name`` is unique in the kernel, and names the object
    in ``plan.shared`` (4 bytes).
    """

    name: str = attribute()
    init: int = attribute()

    def result_types(self) -> Sequence[Type]:
        return (WordType(),)

    def print_head(self, name: Namer) -> str:
        return f"word.create {self.init}"


class _OnWord(Op):
    word: Value

    def verify(self) -> None:
        if not isinstance(self.word.type, WordType):
            raise ValueError(f"expected a word of shared memory, got {self.word.type}")


@define("word.get", levels=PROTOCOL, effect=Effect.READ)
class WordGet(_OnWord):
    """Read a word, by every thread of the role. A wait on an mbarrier orders it behind the set."""

    word: Value = operand()

    def result_types(self) -> Sequence[Type]:
        return (I32,)


@define("word.set", levels=PROTOCOL, effect=Effect.SYNC)
class WordSet(_OnWord):
    """Write a word, by the elected thread of the role: the one that then arrives for the role."""

    word: Value = operand()
    value: Value = operand()

    def verify(self) -> None:
        super().verify()
        if self.value.type != I32:
            raise ValueError(f"a word holds an int32, got {self.value.type}")
