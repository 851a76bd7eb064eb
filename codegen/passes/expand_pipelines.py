"""Pipelines become mbarriers: waits, arrivals, byte counts and ring cursors.

Each side of a ring that a role uses gets two variables of that role: ``slot``, the next slot to
acquire, and ``parity``, the phase parity to wait for there. The producer waits on ``empty`` and
starts with parity 1, so that its first lap falls through; the consumer waits on ``full`` and
starts with parity 0. An acquire waits and steps the cursor; the parity flips when it wraps. The
cursors live as long as the role, so they go on counting from tile to tile.

A producer whose stage receives loads arrives at once and announces their bytes: the bytes then
complete the phase, and its release has nothing left to do. A producer without loads arrives at its
release. A consumer's release arrives on ``empty``, once for each part of the role.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import protocol, tile
from tiledsl.codegen.ir.types import RingType
from tiledsl.codegen.passes.rewrite import Emitter, blocks_of, emitter
from tiledsl.errors import StageError

PRODUCER, CONSUMER = "producer", "consumer"


@dataclass(slots=True)
class _Cursor:
    """Where one side of a ring stands in a role."""

    slot: Value
    parity: Value


@dataclass(slots=True)
class _Held:
    """A stage after expansion: its slot, and whether the full barrier was already signalled."""

    ring: Value
    side: str
    slot: Value
    signalled: bool = False


def expand_pipelines(kernel: Kernel) -> None:
    """Replace every ``pipeline.*`` and ``stage.*`` operation but ``pipeline.create``."""
    assert kernel.plan is not None
    sides: dict[Value, dict[str, list[str]]] = {}
    for name, body in roles_of(kernel):
        many = kernel.plan.role(name).mode != "thread"
        _RoleExpander(name, body, sides, many).run()
    for ring, by_side in sides.items():
        _count_arrivals(kernel, ring, by_side)


def _count_arrivals(kernel: Kernel, ring: Value, by_side: dict[str, list[str]]) -> None:
    """Arrivals that complete a phase, from the roles that use each side of the ring."""
    assert kernel.plan is not None and isinstance(ring.owner, tile.PipelineCreate)
    name = ring.owner.name
    for side, other in ((PRODUCER, CONSUMER), (CONSUMER, PRODUCER)):
        if not by_side.get(side):
            raise StageError(
                f"pipeline {name!r} has a {other} but no {side}: its {other} would wait for ever",
                ring.loc,
                notes=tuple((f"role {role!r} is a {other}", None) for role in by_side[other]),
                hint=f"let a role acquire stages from {name}.{side}()",
            )
    if len(by_side[PRODUCER]) > 1:
        roles = " and ".join(repr(role) for role in by_side[PRODUCER])
        raise StageError(
            f"pipeline {name!r} has {len(by_side[PRODUCER])} producers, roles {roles}: expected"
            " one, because every stage is filled by one role",
            ring.loc,
            hint="give each loading role a pipeline of its own",
        )
    kernel.plan.counts[name, "full"] = 1
    kernel.plan.counts[name, "empty"] = sum(
        kernel.plan.role(role).parts for role in by_side[CONSUMER]
    )


class _RoleExpander:
    def __init__(
        self, name: str, body: Block, sides: dict[Value, dict[str, list[str]]], many: bool
    ) -> None:
        self.name = name
        # Of many threads one starts the loads, and it alone waits for empty slots: the others
        # may be so late that the phase they wait for and the next one have gone by.
        self.producer_elect = "role" if many else "all"
        self.many = many
        # Stages behind whose acquire the threads of a part have met: a wgmma needs all of them.
        self.met: set[Value] = set()
        self.body = body
        self.sides = sides
        self.cursors: dict[tuple[Value, str], _Cursor] = {}
        self.stages: dict[Value, _Held] = {}
        self.values: dict[Value, Value] = {}
        self.header: list[Op] = []

    def run(self) -> None:
        for block in blocks_of(self.body):
            ops: list[Op] = []
            acquired: set[Value] = set()
            for op in block.ops:
                op.replace_operands(self.values)
                if isinstance(op, tile.AcquireConsumer):
                    acquired.add(op.result)
                elif isinstance(op, tile.Mma):
                    self.met |= acquired
                ops += self._expand(op)
            block.ops = ops
        for op in self.body.walk():
            op.replace_operands(self.values)
        # In a kernel without roles the rings are created in this very block: stay behind them.
        creates = [i for i, op in enumerate(self.body.ops) if isinstance(op, tile.PipelineCreate)]
        at = creates[-1] + 1 if creates else 0
        self.body.ops[at:at] = self.header

    def _expand(self, op: Op) -> list[Op]:
        out = emitter(op.loc)
        match op:
            case tile.AcquireProducer():
                self._acquire(out, op, op.ring, PRODUCER, op.nbytes or 0)
            case tile.AcquireConsumer():
                self._acquire(out, op, op.ring, CONSUMER, 0)
            case tile.StageIndex():
                self.values[op.result] = self.stages[op.stage].slot
            case tile.StageBarrier():
                held = self.stages[op.stage]
                which = "full" if held.side == PRODUCER else "empty"
                self.values[op.result] = _barrier(out, held, which)
            case tile.Release():
                held = self.stages[op.stage]
                if held.side == CONSUMER:
                    if self.many and op.stage not in self.met:
                        # One thread arrives for its part: none may still wait for this phase, or
                        # the producer could fill the slot again before it has looked.
                        out.add(protocol.PartSync())
                    empty = _barrier(out, held, "empty")
                    out.add(protocol.MbarrierArrive(empty, (), "part"))
                elif not held.signalled:
                    out.add(protocol.MbarrierArrive(_barrier(out, held, "full"), (), "role"))
            case tile.Drain():
                self._drain(out, op.ring)
            case tile.ExpectBytes():
                pass  # checked and told to the barrier by the acquire
            case _:
                return [op]
        return out.block.ops

    def _cursor(self, ring: Value, side: str) -> _Cursor:
        key = (ring, side)
        if key not in self.cursors:
            assert isinstance(ring.owner, tile.PipelineCreate)
            users = self.sides.setdefault(ring, {}).setdefault(side, [])
            users.append(self.name)
            out = Emitter(Block(), ring.loc)
            first = 1 if side == PRODUCER else 0
            label = f"{ring.owner.name}.{side}"
            slot = out.value(protocol.LocalNew(out.const(0), f"{label}.slot"), f"{label}.slot")
            parity = out.value(
                protocol.LocalNew(out.const(first), f"{label}.parity"), f"{label}.parity"
            )
            self.header += out.block.ops
            self.cursors[key] = _Cursor(slot, parity)
        return self.cursors[key]

    def _acquire(self, out: Emitter, op: Op, ring: Value, side: str, nbytes: int) -> None:
        cursor = self._cursor(ring, side)
        slot = out.value(protocol.LocalGet(cursor.slot), "slot")
        parity = out.value(protocol.LocalGet(cursor.parity), "parity")
        held = _Held(ring, side, slot)
        self.stages[op.result] = held
        waits_on = "empty" if side == PRODUCER else "full"
        elect = self.producer_elect if side == PRODUCER else "all"
        out.add(protocol.MbarrierWait(_barrier(out, held, waits_on), parity, elect))
        if nbytes:
            held.signalled = True
            out.add(protocol.MbarrierArriveExpectTx(_barrier(out, held, "full"), nbytes))
        next_slot, next_parity = _step(out, ring, slot, parity)
        out.add(protocol.LocalSet(cursor.slot, next_slot))
        out.add(protocol.LocalSet(cursor.parity, next_parity))

    def _drain(self, out: Emitter, ring: Value) -> None:
        """Wait for each slot as the next lap would, without moving the cursor."""
        cursor = self._cursor(ring, PRODUCER)
        slot = out.value(protocol.LocalGet(cursor.slot), "slot")
        parity = out.value(protocol.LocalGet(cursor.parity), "parity")
        assert isinstance(ring.type, RingType)
        for _ in range(ring.type.stages):
            empty = _barrier(out, _Held(ring, PRODUCER, slot), "empty")
            out.add(protocol.MbarrierWait(empty, parity, self.producer_elect))
            slot, parity = _step(out, ring, slot, parity)
        if self.producer_elect == "role":
            out.add(protocol.RoleSync())  # nobody goes on before the ring is empty


def _barrier(out: Emitter, held: _Held, which: str) -> Value:
    return out.value(protocol.RingBarrier(held.ring, held.slot, which), which)


def _step(out: Emitter, ring: Value, slot: Value, parity: Value) -> tuple[Value, Value]:
    """The next slot, and the parity to wait for there."""
    assert isinstance(ring.type, RingType)
    following = out.binary("add", slot, 1)
    wrapped = out.equal(following, ring.type.stages)
    flipped = out.binary("xor", parity, 1)
    next_slot = out.select(wrapped, out.const(0), following, "next_slot")
    return next_slot, out.select(wrapped, flipped, parity, "next_parity")
