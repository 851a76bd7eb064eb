"""Where a role stands in a ring: the next slot of each side and the parity to wait for there.

The cursor of a side is two variables of the role. The producer waits on ``empty`` and starts with
parity 1, so that its first lap falls through; the consumer waits on ``full`` and starts with parity
0. The parity flips when the slot wraps. Cursors live as long as the role: they go on counting from
tile to tile. Between replicas that take turns a cursor is handed on as one word,
``slot | parity << 16``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.codegen.checks.stages import ring_name
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.ops import protocol
from tiledsl.codegen.ir.types import RingType
from tiledsl.codegen.passes.rewrite import Emitter
from tiledsl.codegen.passes.ring_use import PRODUCER

PARITY_SHIFT = 16  # a ring has far fewer slots


def first_parity(side: str) -> int:
    """The parity for which a side waits first."""
    return 1 if side == PRODUCER else 0


@dataclass(slots=True)
class Cursor:
    """The variables of one side of a ring in a role."""

    ring: Value
    slot: Value
    parity: Value

    def get(self, out: Emitter) -> tuple[Value, Value]:
        """The slot where the side stands, and the parity."""
        slot = out.value(protocol.LocalGet(self.slot), "slot")
        return slot, out.value(protocol.LocalGet(self.parity), "parity")

    def set(self, out: Emitter, slot: Value, parity: Value) -> None:
        out.add(protocol.LocalSet(self.slot, slot))
        out.add(protocol.LocalSet(self.parity, parity))

    def step(self, out: Emitter, slot: Value, parity: Value) -> None:
        """Go on to the slot behind ``slot``."""
        self.set(out, *following(out, self.ring, slot, parity))

    def pack(self, out: Emitter) -> Value:
        """The cursor as one word."""
        slot, parity = self.get(out)
        return out.binary("or", slot, out.binary("shl", parity, PARITY_SHIFT), "cursor")

    def unpack(self, out: Emitter, word: Value) -> None:
        slot = out.binary("and", word, (1 << PARITY_SHIFT) - 1, "slot")
        self.set(out, slot, out.binary("shr", word, PARITY_SHIFT, "parity"))


def following(out: Emitter, ring: Value, slot: Value, parity: Value) -> tuple[Value, Value]:
    """The next slot, and the parity to wait for there."""
    assert isinstance(ring.type, RingType)
    after = out.binary("add", slot, 1)
    wrapped = out.equal(after, ring.type.stages)
    flipped = out.binary("xor", parity, 1)
    next_slot = out.select(wrapped, out.const(0), after, "next_slot")
    return next_slot, out.select(wrapped, flipped, parity, "next_parity")


class Cursors:
    """The cursors of one role, made on first use. ``header`` makes their variables."""

    def __init__(self) -> None:
        self._made: dict[tuple[Value, str], Cursor] = {}
        self.header: list[Op] = []

    def of(self, ring: Value, side: str) -> Cursor:
        key = (ring, side)
        if key not in self._made:
            out = Emitter(Block(), ring.loc)
            label = f"{ring_name(ring)}.{side}"
            slot = self._variable(out, 0, f"{label}.slot")
            parity = self._variable(out, first_parity(side), f"{label}.parity")
            self.header += out.block.ops
            self._made[key] = Cursor(ring, slot, parity)
        return self._made[key]

    @staticmethod
    def _variable(out: Emitter, init: int, name: str) -> Value:
        return out.value(protocol.LocalNew(out.const(init), name), name)
