"""Pipelines become mbarriers: waits, arrivals, byte counts and ring cursors.

An acquire waits for the slot where its side stands and steps the cursor (``ring_cursor``). Who
arrives how often is what ``derive_counts`` counts, and this pass places it. A producer arrives

* at its acquire, and announces the bytes of the loads that complete the phase;
* at its release: each part behind its stores, fenced for TMA and wgmma; every thread when its
  ``cp.async`` copies have landed; or once, when all threads of the role have got there.

Every stage of a producer sees the arrivals of all the kinds of fillings that its stages have. A
consumer's release arrives on ``empty``, once for each part, when all threads of the part are done.
Where its ordinary loads read what bulk copies fill, each thread fences before: a load may still be
on its way when its thread arrives, and the next copy overtake it (decision 0014).

Who waits: all threads of a role, since all of them must get somewhere before the next phase; but of
a producer of nothing but loads the one that loads, for the others may be so late that the phase
they wait for and the next one have gone by (decision 0007).
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.codegen.ir.core import Block, Op, Value, users
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import copy, protocol, ring, sync, tile
from tiledsl.codegen.ir.types import RingType
from tiledsl.codegen.passes.expand_turns import Handover, Turns, make_handover
from tiledsl.codegen.passes.probes import decides_waits_only
from tiledsl.codegen.passes.rewrite import Emitter, blocks_of, emitter
from tiledsl.codegen.passes.ring_cursor import Cursors, following
from tiledsl.codegen.passes.ring_use import (
    CONSUMER,
    COPIES,
    LOADS,
    PRODUCER,
    SIGNALS_ON,
    STORES,
    WAITS_ON,
    RoleUse,
    Touched,
    role_uses,
)
from tiledsl.errors import InternalError

# What makes objects in shared memory: in a kernel without roles, in the body that uses them.
CREATES = (tile.PipelineCreate, sync.MbarrierCreate)


@dataclass(frozen=True, slots=True)
class _Held:
    """A stage after expansion. ``nbytes`` were announced when it was acquired."""

    ring: Value
    side: str
    slot: Value
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class _Copied:
    """What ``cp.async`` writes, in any role: stages of rings, and tiles behind own mbarriers."""

    rings: frozenset[Value]
    rows: frozenset[Value]


def _overtaken(role: RoleUse, roles: list[RoleUse]) -> Touched:
    """What a role reads or writes by ordinary instructions, and bulk copies of any role fill."""
    filled = Touched()
    for other in roles:
        filled |= other.filled_async
    return (role.read | role.written) & filled


def expand_pipelines(kernel: Kernel) -> None:
    """Replace every ``pipeline.*``, ``stage.*`` and ``turn.*`` but ``pipeline.create``."""
    assert kernel.plan is not None
    roles = role_uses(kernel)
    handover = make_handover(kernel, roles)
    copied = _Copied(
        frozenset(r for role in roles for (r, _), use in role.rings.items() if COPIES in use.kinds),
        frozenset(
            row
            for role in roles
            for op in role.body.walk()
            if isinstance(op, copy.AsyncCopy)
            for row in role.rows(op.barrier)
        ),
    )
    for role in roles:
        many = kernel.plan.role(role.name).mode != "thread"
        overtaken = _overtaken(role, roles)
        _RoleExpander(role, handover, copied, overtaken, many=many).run()


class _RoleExpander:
    def __init__(
        self, role: RoleUse, handover: Handover, copied: _Copied, overtaken: Touched, *, many: bool
    ) -> None:
        self.role = role
        self.body = role.body
        self.many = many
        self.copied = copied
        self.overtaken = overtaken
        self.cursors = Cursors()
        self.turns = Turns(role, handover, self.cursors, many=many)
        # Stages behind whose acquire the threads of a part have met: a wgmma needs all of them.
        self.met: set[Value] = set()
        self.stages: dict[Value, _Held] = {}
        self.values: dict[Value, Value] = {}
        self.by_hand = frozenset(role.by_hand)
        self.used = users(role.body) if _probes(role.body) else {}

    def run(self) -> None:
        for block in blocks_of(self.body):
            ops: list[Op] = []
            acquired: set[Value] = set()
            for op in block.ops:
                if isinstance(op, tile.AcquireConsumer):
                    acquired.add(op.result)
                elif isinstance(op, tile.Mma):
                    self.met |= acquired
                ops += self._expand(op)
            block.ops = ops
        if self.values:
            for op in self.body.walk():
                op.replace_operands(self.values)
        # In a kernel without roles the rings are created in this very block: stay behind them.
        creates = [i for i, op in enumerate(self.body.ops) if isinstance(op, CREATES)]
        at = creates[-1] + 1 if creates else 0
        self.body.ops[at:at] = self.cursors.header + self.turns.header

    def _expand(self, op: Op) -> list[Op]:
        out = emitter(op.loc)
        match op:
            case tile.AcquireProducer():
                self._acquire(out, op, op.ring, PRODUCER, op.ready)
            case tile.AcquireConsumer():
                self._acquire(out, op, op.ring, CONSUMER, op.ready)
            case tile.StageIndex():
                self.values[op.result] = self._held(op.stage, op).slot
            case tile.StageBarrier():
                held = self._held(op.stage, op)
                barrier = _barrier(out, held.ring, held.slot, SIGNALS_ON[held.side])
                self.values[op.result] = barrier
            case tile.Release():
                if op.signal:
                    self._release(out, op)
            case ring.StageArrive():
                self._arrive_early(out, op)
            case tile.Drain():
                self._drain(out, op.ring)
            case tile.ExpectBytes():
                pass  # checked and told to the barrier by the acquire
            case ring.TryAcquire():
                self._try(out, op)
            case ring.Position():
                slot, _ = self.cursors.of(op.ring, op.side).get(out)
                self.values[op.result] = slot
            case ring.Wait():
                slot, parity = self.cursors.of(op.ring, op.side).get(out)
                self._wait(out, op.ring, op.side, slot, parity, op.ready)
            case ring.Signal():
                slot, _ = self.cursors.of(op.ring, op.side).get(out)
                self._arrive(out, op.ring, op.side, slot)
            case ring.Step():
                cursor = self.cursors.of(op.ring, op.side)
                cursor.step(out, *cursor.get(out))
            case sync.TurnBegin():
                self.turns.begin(out, op)
            case sync.TurnEnd():
                self._publish(out)
                self.turns.end(out, op)
            case _:
                return self._keep(out, op)
        return out.block.ops

    def _held(self, stage: Value, op: Op) -> _Held:
        held = self.stages.get(stage)
        if held is None:
            raise InternalError(f"{op.opcode} on a stage that is not acquired before it", op.loc)
        return held

    # ------------------------------------------------------------------------ waits

    def _acquire(
        self, out: Emitter, op: Op, on: Value, side: str, ready: tuple[Value, ...]
    ) -> None:
        cursor = self.cursors.of(on, side)
        slot, parity = cursor.get(out)
        self._wait(out, on, side, slot, parity, ready)
        nbytes = op.nbytes or 0 if isinstance(op, tile.AcquireProducer) else 0
        self.stages[op.results[0]] = _Held(on, side, slot, nbytes)
        if nbytes:
            full = _barrier(out, on, slot, "full")
            out.add(protocol.MbarrierArriveExpectTx(full, nbytes))
        cursor.step(out, slot, parity)

    def _wait(
        self, out: Emitter, on: Value, side: str, slot: Value, parity: Value,
        ready: tuple[Value, ...],
    ) -> None:  # fmt: skip
        elect = "role" if side == PRODUCER and self._one_waits(on) else "all"
        barrier = _barrier(out, on, slot, WAITS_ON[side])
        out.add(protocol.MbarrierWait(barrier, parity, elect, unless=ready))
        if side == CONSUMER and on in self.copied.rings and self.role.read_async.may_be_of(on):
            out.add(protocol.FenceProxyAsync())  # the copies' writer cannot fence them

    def _one_waits(self, on: Value) -> bool:
        return self.many and self.role.rings[on, PRODUCER].kinds == {LOADS}

    def _try(self, out: Emitter, op: ring.TryAcquire) -> None:
        slot, parity = self.cursors.of(op.ring, op.side).get(out)
        barrier = _barrier(out, op.ring, slot, WAITS_ON[op.side])
        own = decides_waits_only(op.result, self.used, self.role.guards.merges)
        ready = out.value(sync.MbarrierTryWait(barrier, parity, not own), op.result.name)
        self.values[op.result] = ready

    def _drain(self, out: Emitter, on: Value) -> None:
        """Wait for each slot as the next lap would, without moving the cursor."""
        slot, parity = self.cursors.of(on, PRODUCER).get(out)
        assert isinstance(on.type, RingType)
        elect = "role" if self.many else "all"
        for _ in range(on.type.stages):
            out.add(protocol.MbarrierWait(_barrier(out, on, slot, "empty"), parity, elect))
            slot, parity = following(out, on, slot, parity)
        if self.many:
            out.add(protocol.RoleSync())  # nobody goes on before the ring is empty

    # --------------------------------------------------------------------- arrivals

    def _release(self, out: Emitter, op: tile.Release) -> None:
        held = self._held(op.stage, op)
        met = op.stage in self.met
        self._arrive(out, held.ring, held.side, held.slot, announced=held.nbytes > 0, met=met)

    def _arrive_early(self, out: Emitter, op: ring.StageArrive) -> None:
        held = self._held(op.stage, op)
        kinds = self.role.rings[held.ring, held.side].kinds
        # Beside loads alone it is one more arrival, which the user must have counted.
        announced = held.nbytes > 0 and kinds != {LOADS}
        met = op.stage in self.met
        self._arrive(out, held.ring, held.side, held.slot, announced=announced, met=met)

    def _arrive(
        self, out: Emitter, on: Value, side: str, slot: Value, *, announced: bool = False,
        met: bool = False,
    ) -> None:  # fmt: skip
        if side == PRODUCER:
            self._fill(out, on, slot, announced)
            return
        if self.overtaken.may_be_of(on):
            out.add(protocol.FenceProxyAsync())
        if self.many and (not met or self.role.read.may_be_of(on)):
            # One thread arrives for its part: none may still wait for this phase or read the
            # slot, or the producer could fill it again too early.
            out.add(protocol.PartSync())
        create = on.owner
        assert isinstance(create, tile.PipelineCreate)
        empty = _barrier(out, on, slot, "empty")
        out.add(protocol.MbarrierArrive(empty, (), "part", create.axes, create.spans))

    def _fill(self, out: Emitter, on: Value, slot: Value, announced: bool) -> None:
        """The arrivals of a producer that it has not made at its acquire."""
        kinds = self.role.rings[on, PRODUCER].kinds
        if announced and kinds == {LOADS}:
            return
        full = _barrier(out, on, slot, "full")
        if STORES in kinds:
            if on in self.role.written.rings:
                out.add(protocol.FenceProxyAsync())
            if self.many:
                out.add(protocol.PartSync())
            out.add(protocol.MbarrierArrive(full, (), "part"))
        if COPIES in kinds:
            out.add(copy.AsyncArrive(full))
        if not kinds or (LOADS in kinds and not announced):
            if self.many and kinds <= {LOADS}:
                self._publish(out)
                out.add(protocol.RoleSync())
            out.add(protocol.MbarrierArrive(full, (), "role"))

    def _publish(self, out: Emitter) -> None:
        """Let TMA and wgmma of others see what this role has stored to tiles of rings, and bulk
        copies of others wait for what it has read.
        """
        if self.role.written.rings or self.overtaken:
            out.add(protocol.FenceProxyAsync())

    # --------------------------------------------------------------- what the user wrote

    def _keep(self, out: Emitter, op: Op) -> list[Op]:
        """Barriers of the user's own: all threads meet before one arrives for the role."""
        if op in self.by_hand:
            assert isinstance(op, protocol.MbarrierArrive | protocol.MbarrierArriveExpectTx)
            if isinstance(op, protocol.MbarrierArrive) and self._lands_on(op.barrier):
                return [copy.AsyncArrive(op.barrier).at(op.loc)]
            self._publish(out)
            if self.many:
                out.add(protocol.RoleSync())
        elif isinstance(op, sync.NamedSync | sync.NamedArrive | sync.ClusterSync):
            self._publish(out)
        elif isinstance(op, protocol.MbarrierWait) and self._copies_behind(op.barrier):
            return [op, protocol.FenceProxyAsync().at(op.loc)]
        out.block.ops.append(op)
        return out.block.ops

    def _copies_behind(self, barrier: Value) -> bool:
        """Whether wgmma or TMA may read what ``cp.async`` brings to a barrier of the user's own."""
        return self.role.read_async.own and bool(self.copied.rows & self.role.rows(barrier))

    def _lands_on(self, barrier: Value) -> bool:
        """Whether ``cp.async`` copies of this role complete on a barrier."""
        if any(self.role.copies_onto(row) for row in self.role.rows(barrier)):
            return True
        rings = self.role.guards.rings(barrier)
        return any(COPIES in use.kinds for (on, _), use in self.role.rings.items() if on in rings)


def _probes(body: Block) -> bool:
    return any(isinstance(op, ring.TryAcquire) for op in body.walk())


def _barrier(out: Emitter, on: Value, slot: Value, which: str) -> Value:
    return out.value(protocol.RingBarrier(on, slot, which), which)
