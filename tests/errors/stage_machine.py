"""What a role does with its stages, run on random inputs: every misuse is a fault.

Interprets tile-level IR. Elements of tensors are random numbers 0 ... 2, drawn anew at each read,
so that each run takes other paths; slots become ready at random times.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tiledsl.codegen.checks.stages import Guards, tile_bytes
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.ops import arith, control, ring, tile
from tiledsl.codegen.ir.types import RingType

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "mod": operator.mod,
    "and": operator.and_, "or": operator.or_,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


class Fault(Exception):
    """A misuse of a stage."""


class TooLong(Exception):
    """A run that does not end soon: nothing follows from it."""


@dataclass
class Held:
    acquire: Op
    nbytes: int = 0
    released: bool = False


@dataclass(frozen=True)
class Jump:
    kind: type[Op]
    values: list[Any]


class StageMachine:
    """One run of a role. ``expected`` keeps the bytes of each acquire, over all runs."""

    def __init__(self, body: Block, seed: int, expected: dict[Op, int]) -> None:
        self.body = body
        self.guards = Guards(body)
        self.rng = random.Random(seed)
        self.expected = expected
        self.env: dict[Value, Any] = {}
        self.held: dict[Value, Held] = {}
        self.live: list[Held] = []
        self.ready = False  # whether the next slot is
        self.steps = 0

    def run(self) -> None:
        """Raises Fault where a stage is misused."""
        self.block(self.body)
        if any(not held.released for held in self.live):
            raise Fault("held at the end")

    def block(self, block: Block) -> Jump | None:
        for op in block.ops:
            jump = self.step(op)
            if jump is not None:
                return jump
        return None

    def values(self, values: Any) -> list[Any]:
        return [self.env.get(value) for value in values]

    def step(self, op: Op) -> Jump | None:
        self.steps += 1
        if self.steps > 400:
            raise TooLong
        match op:
            case control.If():
                jump = self.block(op.then if self.env[op.condition] else op.orelse)
                if jump is not None and jump.kind is control.Yield:
                    self.env.update(zip(op.results, jump.values, strict=True))
                    return None
                return jump
            case control.For() | control.Loop():
                return self.loop(op)
            case control.Scope():
                jump = self.block(op.body)
                assert jump is not None
                if jump.kind is control.Leave:
                    self.env.update(zip(op.results, jump.values, strict=True))
                    return None
                return jump
            case control.Return():
                return Jump(control.Return, [])
        if op.is_terminator:
            return Jump(type(op), self.values(op.operands))
        self.simple(op)
        return None

    def loop(self, op: control.For | control.Loop) -> Jump | None:
        carried = self.values(op.inits)
        args = op.body.args
        counters: Any = iter(int, 1)
        if isinstance(op, control.For):
            counters = range(self.env[op.start], self.env[op.stop], self.env[op.step])
        for number in counters:
            given = [number, *carried] if isinstance(op, control.For) else carried
            self.env.update(zip(args, given, strict=True))
            jump = self.block(op.body)
            assert jump is not None
            if jump.kind in (control.Return, control.Leave):
                return jump
            carried = jump.values
            if jump.kind is control.Break:
                break
        self.env.update(zip(op.results, carried, strict=True))
        return None

    def simple(self, op: Op) -> None:
        env = self.env
        match op:
            case arith.Constant():
                env[op.result] = op.value
            case arith.Binary():
                env[op.result] = _BINARY[op.kind](env[op.lhs], env[op.rhs])
            case arith.Compare():
                env[op.result] = _COMPARE[op.kind](env[op.lhs], env[op.rhs])
            case arith.Unary():
                assert op.kind == "not"
                env[op.result] = not env[op.value]
            case arith.Select():
                env[op.result] = env[op.true if env[op.condition] else op.false]
            case arith.Cast():
                env[op.result] = env[op.value]
            case tile.TensorLoad():
                env[op.result] = self.rng.randrange(3)
            case ring.TryAcquire():
                self.ready = self.ready or self.rng.random() < 0.7
                env[op.result] = self.ready
            case tile.AcquireProducer():
                self.acquire(op)
            case tile.StageIndex() | tile.StageBarrier():
                self.use(op.stage)
            case tile.TmaLoad():
                self.use(op.barrier).nbytes += tile_bytes(op)
            case tile.Release():
                self.release(op)

    def acquire(self, op: tile.AcquireProducer) -> None:
        assert isinstance(op.ring.type, RingType)
        if sum(not held.released for held in self.live) >= op.ring.type.stages:
            raise Fault("more stages than the ring has")
        if any(self.env[value] for value in op.ready) and not self.ready:
            raise Fault("the slot is not ready")
        self.ready = False
        self.held[op.result] = Held(op)
        self.live.append(self.held[op.result])

    def use(self, value: Value) -> Held:
        stage = self.guards.stage(value)
        if stage is None or stage not in self.held:
            raise Fault("no stage")
        if self.held[stage].released:
            raise Fault("used after release")
        return self.held[stage]

    def release(self, op: tile.Release) -> None:
        stage = self.guards.stage(op.stage)
        assert stage is not None
        held = self.use(stage)
        held.released = True
        if self.expected.setdefault(held.acquire, held.nbytes) != held.nbytes:
            raise Fault("other bytes than on another path")
