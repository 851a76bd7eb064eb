"""What each role does with rings and with mbarriers of the user's own.

Read off the program while acquires and releases still stand in it: who uses which side of a ring,
what a producer fills its stages with, who reads them how, and which arrivals come by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiledsl.codegen.checks.stages import ARRIVALS, BULK_LOADS, Guards, ring_and_side
from tiledsl.codegen.checks.turns import Side, turns_of_rings
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import control, copy, memory, protocol, ring, sync, tile
from tiledsl.codegen.ir.types import RingType

PRODUCER, CONSUMER = "producer", "consumer"
SIGNALS_ON = {PRODUCER: "full", CONSUMER: "empty"}  # the barriers on which a side arrives
WAITS_ON = {PRODUCER: "empty", CONSUMER: "full"}

# What fills the stages of a producer.
LOADS = "loads"  # bulk copies: the barrier counts their bytes
STORES = "stores"  # generic stores by all threads
COPIES = "copies"  # cp.async by all threads


@dataclass(slots=True)
class RingUse:
    """How one role uses one side of a ring.

    Attributes:
        kinds: what a producer fills stages with, of ``LOADS``, ``STORES``, ``COPIES``. Every
            stage sees the arrivals of all of them, whatever it was filled with itself.
        turn: the turn that hands the cursor on between the replicas of the role, or None.
        signals: where the role arrives, as far as the compiler places the arrival.
        early: arrivals of those that do not come with a release.
        silent: where it gives a stage up and arrives nowhere.
    """

    ring: Value
    side: str
    first: Op
    kinds: set[str] = field(default_factory=set)
    turn: str | None = None
    signals: list[Op] = field(default_factory=list)
    early: list[Op] = field(default_factory=list)
    silent: list[Op] = field(default_factory=list)


@dataclass(slots=True)
class Touched:
    """Rings whose tiles a role touches in one way; ``own``: tiles of no ring as well."""

    rings: set[Value] = field(default_factory=set)
    own: bool = False

    def may_be_of(self, ring: Value) -> bool:
        """Whether a tile that the ring guards is among them; a bare ring may guard any own tile."""
        return ring in self.rings or (self.own and is_bare(ring))

    def __or__(self, other: Touched) -> Touched:
        return Touched(self.rings | other.rings, self.own or other.own)

    def __and__(self, other: Touched) -> Touched:
        """What may be touched in both ways."""
        return Touched(self.rings & other.rings, self.own and other.own)

    def __bool__(self) -> bool:
        return self.own or bool(self.rings)


def is_bare(ring: Value) -> bool:
    """A ring without tiles guards what the user says."""
    return isinstance(ring.type, RingType) and not ring.type.arrays


class RoleUse:
    """What one role does.

    Attributes:
        name: of the role.
        group: the role that this one is a replica of, or empty.
        index: its number among the replicas.
        guards: what its values stand for.
        rings: each side of a ring that it uses.
        by_hand: the arrivals on mbarriers that the user wrote.
        written: shared tiles that it writes by generic stores.
        read: shared tiles that it reads by generic loads.
        read_async: shared tiles that wgmma or TMA reads for it.
        filled_async: shared tiles that bulk copies write for it.
    """

    def __init__(self, name: str, body: Block, role: control.Role | None) -> None:
        self.name = name
        self.group = role.group if role is not None else ""
        self.index = role.index if role is not None else 0
        self.body = body
        self.guards = Guards(body)
        self.rings: dict[Side, RingUse] = {}
        self.by_hand: list[Op] = []
        self.written, self.read = Touched(), Touched()
        self.read_async, self.filled_async = Touched(), Touched()
        self._copied = Touched()
        self._arrived: set[Value] = set()  # handles of stages for which `arrive` was called
        ops = list(body.walk())
        for op in ops:
            self._visit(op)
        for op in ops:
            self._find_silent(op)
        for use in self.rings.values():
            if use.side == PRODUCER:
                self._fill(use)
        if self.group:
            for side, turn in turns_of_rings(body).items():
                self.rings[side].turn = turn

    def copies_onto(self, barriers: Value) -> list[Op]:
        """The ``cp.async`` copies that complete on a row of the user's own mbarriers."""
        return [
            op
            for op in self.body.walk()
            if isinstance(op, copy.AsyncCopy) and barriers in self.rows(op.barrier)
        ]

    def rows(self, barrier: Value) -> set[Value]:
        """The rows of the user's own mbarriers that a barrier may be of."""
        origins = self.guards.origins(barrier)
        return {op.barriers for op in origins if isinstance(op, sync.MbarrierAt)}

    def ring_barriers(self, op: Op) -> set[tuple[Value, str]]:
        """The barriers of rings on which an arrival may be: ring, and full or empty."""
        assert isinstance(op, ARRIVALS)
        found = set()
        for origin in self.guards.origins(op.barrier):
            if isinstance(origin, protocol.RingBarrier):
                found.add((origin.ring, origin.which))
            elif isinstance(origin, tile.StageBarrier):
                uses = [self._use_of(stage) for stage in self.stages(origin.stage)]
                found |= {(use.ring, SIGNALS_ON[use.side]) for use in uses}
        return found

    def stages(self, value: Value) -> set[Value]:
        """The acquired handles of which ``value`` may be any."""
        acquires = (tile.AcquireProducer, tile.AcquireConsumer)
        roots = self.guards.merges.roots(value)
        return {root for root in roots if isinstance(root.owner, acquires)}

    def _visit(self, op: Op) -> None:
        on = ring_and_side(op)
        if on is not None:
            use = self.rings.setdefault(on, RingUse(*on, op))
            if isinstance(op, ring.Signal) or (isinstance(op, tile.AcquireProducer) and op.nbytes):
                use.signals.append(op)
        if isinstance(op, BULK_LOADS):
            self._touch(self.filled_async, op.tile)
        match op:
            case ring.StageArrive():
                self._arrived |= self.stages(op.stage)
                for use in self._signal(op, op.stage):
                    use.early.append(op)
            case tile.Release() if op.signal:
                self._signal(op, op.stage)
            case memory.SharedStore():
                self._touch(self.written, op.tile)
            case memory.SharedLoad():
                self._touch(self.read, op.tile)
            case tile.Mma():
                self._touch(self.read_async, op.a)
                self._touch(self.read_async, op.b)
            case tile.TmaStore():
                self._touch(self.read_async, op.value)
            case protocol.TmaStoreShared():
                self._touch(self.read_async, op.tile)
            case copy.AsyncCopy():
                self._touch(self._copied, op.barrier)
            case protocol.MbarrierArrive() | protocol.MbarrierArriveExpectTx():
                self.by_hand.append(op)

    def _touch(self, touched: Touched, value: Value) -> None:
        rings = self.guards.rings(value)
        touched.rings |= rings
        touched.own |= not rings

    def _signal(self, op: Op, handle: Value) -> list[RingUse]:
        found = []
        for stage in self.stages(handle):
            use = self._use_of(stage)
            use.signals.append(op)
            found.append(use)
        return found

    def _use_of(self, stage: Value) -> RingUse:
        """The use of the side from which a handle was acquired."""
        assert isinstance(stage.owner, tile.AcquireProducer | tile.AcquireConsumer)
        side = ring_and_side(stage.owner)
        assert side is not None
        return self.rings.setdefault(side, RingUse(*side, stage.owner))

    def _find_silent(self, op: Op) -> None:
        if isinstance(op, ring.Step):
            use = self.rings[op.ring, op.side]
            if not any(isinstance(signal, ring.Signal) for signal in use.signals):
                use.silent.append(op)
        if not isinstance(op, tile.Release) or op.signal:
            return
        for stage in self.stages(op.stage) - self._arrived:
            use = self._use_of(stage)
            if isinstance(stage.owner, tile.AcquireProducer) and stage.owner.nbytes:
                self._fill(use)
                if use.kinds == {LOADS}:
                    continue  # the bytes complete the phase
            use.silent.append(op)

    def _fill(self, use: RingUse) -> None:
        if any(isinstance(signal, tile.AcquireProducer) for signal in use.signals):
            use.kinds.add(LOADS)
        if self.written.may_be_of(use.ring):
            use.kinds.add(STORES)
        if use.ring in self._copied.rings:
            use.kinds.add(COPIES)


def role_uses(kernel: Kernel) -> list[RoleUse]:
    """What each role of a kernel does, in their order."""
    roles = {op.name: op for op in kernel.body.ops if isinstance(op, control.Role)}
    return [RoleUse(name, body, roles.get(name)) for name, body in roles_of(kernel)]


def arrivals_by_hand(roles: list[RoleUse]) -> dict[tuple[Value, str], list[tuple[str, Op]]]:
    """Arrivals that the user wrote on barriers of a ring: by ring and which, role and operation."""
    found: dict[tuple[Value, str], list[tuple[str, Op]]] = {}
    for role in roles:
        for op in role.by_hand:
            for key in role.ring_barriers(op):
                found.setdefault(key, []).append((role.name, op))
    return found
