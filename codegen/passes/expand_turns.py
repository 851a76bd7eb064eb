"""Turns of replicas become mbarriers, and cursors in shared memory.

Replica r waits for its turn on mbarrier r of the turn's row, where replica r - 1 arrives when it
hands the turn on; replica 0 starts with parity 1, so that its first turn comes at once. The cursors
of the rings that the turn uses go with it: the elected thread writes them to shared memory before
it arrives, every thread reads them behind its wait. All threads meet before the turn is handed on:
none may still wait for it, or read the cursors that the next replica writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiledsl.codegen.checks.stages import ring_name
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, protocol, sync
from tiledsl.codegen.ir.types import BarriersType
from tiledsl.codegen.passes.replicate_roles import turn_barrier_name
from tiledsl.codegen.passes.rewrite import Emitter
from tiledsl.codegen.passes.ring_cursor import PARITY_SHIFT, Cursors, first_parity
from tiledsl.codegen.passes.ring_use import RoleUse

Handed = tuple[str, str, Value, str]  # group of replicas, turn, ring, side


@dataclass(slots=True)
class Handover:
    """What passes between replicas in shared memory: mbarriers by their name, cursors in words."""

    rows: dict[str, Value] = field(default_factory=dict)
    words: dict[Handed, Value] = field(default_factory=dict)


def make_handover(kernel: Kernel, roles: list[RoleUse]) -> Handover:
    """Make the words for the cursors that turns hand on, in front of the roles."""
    found = Handover()
    out = Emitter(Block(), kernel.loc)
    for role in roles:
        for (ring, side), use in role.rings.items():
            if use.turn is None or (role.group, use.turn, ring, side) in found.words:
                continue
            name = f"{turn_barrier_name(role.group, use.turn)}.{ring_name(ring)}.{side}"
            out.loc = use.first.loc
            word = out.value(sync.WordCreate(name, first_parity(side) << PARITY_SHIFT), name)
            found.words[role.group, use.turn, ring, side] = word
    at = next((n for n, op in enumerate(kernel.body.ops) if isinstance(op, control.Role)), 0)
    kernel.body.ops[at:at] = out.block.ops
    for op in kernel.body.ops:
        if isinstance(op, sync.MbarrierCreate) and op.turns:
            found.rows[op.name] = op.result
    return found


class Turns:
    """Expands the turns of one replica. ``header`` makes the variables that this needs."""

    def __init__(self, role: RoleUse, handover: Handover, cursors: Cursors, *, many: bool) -> None:
        self.role = role
        self.handover = handover
        self.cursors = cursors
        self.many = many
        self.header: list[Op] = []
        self._parities: dict[str, Value] = {}

    def begin(self, out: Emitter, op: sync.TurnBegin) -> None:
        local = self._parity(op)
        parity = out.value(protocol.LocalGet(local), "turn_parity")
        out.add(protocol.MbarrierWait(self._barrier(out, op.name, self.role.index), parity))
        out.add(protocol.LocalSet(local, out.binary("xor", parity, 1)))
        for ring, side, word in self._handed(op.name):
            cursor = out.value(sync.WordGet(word), "cursor")
            self.cursors.of(ring, side).unpack(out, cursor)

    def end(self, out: Emitter, op: sync.TurnEnd) -> None:
        if self.many:
            out.add(protocol.RoleSync())
        for ring, side, word in self._handed(op.name):
            out.add(sync.WordSet(word, self.cursors.of(ring, side).pack(out)))
        row = self._row(op.name)
        assert isinstance(row.type, BarriersType)
        following = (self.role.index + 1) % row.type.number
        out.add(protocol.MbarrierArrive(self._barrier(out, op.name, following), (), "role"))

    def _handed(self, turn: str) -> list[tuple[Value, str, Value]]:
        """The sides whose cursors this turn hands on, with their words."""
        return [
            (ring, side, self.handover.words[self.role.group, turn, ring, side])
            for (ring, side), use in self.role.rings.items()
            if use.turn == turn
        ]

    def _row(self, turn: str) -> Value:
        return self.handover.rows[turn_barrier_name(self.role.group, turn)]

    def _barrier(self, out: Emitter, turn: str, replica: int) -> Value:
        at = sync.MbarrierAt(self._row(turn), out.const(replica))
        return out.value(at, "turn")

    def _parity(self, op: sync.TurnBegin) -> Value:
        if op.name not in self._parities:
            out = Emitter(Block(), op.loc)
            name = f"{op.name}.parity"
            first = out.const(1 if self.role.index == 0 else 0)
            self._parities[op.name] = out.value(protocol.LocalNew(first, name), name)
            self.header += out.block.ops
        return self._parities[op.name]
