"""Keep wgmma groups in flight: where to wait, and when a stage may really be released.

``mma`` means its value, but the hardware computes it later. This pass turns each ``mma`` into an
asynchronous group and keeps one group in flight:

* behind each new group, ``wgmma.wait 1`` retires the one before it;
* before anything but another group reads the accumulator, ``wgmma.wait 0``;
* a consumer's release of a stage that a group in flight still reads is put off until that group
  has retired. Across the back edge of a loop the slot to release is kept in a variable of the role
  (``pending``), so that the release of one iteration happens behind the first group of the next.

Putting a release off must not make the role wait for itself. Before a wait on a ring of which this
role would leave the producer too few slots to fill the one that is waited for (it may have to get
several before it fills the first: ``derive_lookahead``), and before waits on anything else,
everything is flushed. So it is before arrivals on raw mbarriers and named barriers, which say that
what stands above them is done, and before a tile of the kernel's own is written that a group may
read. Behind a loop everything is flushed; only the handing on of a turn to the next replica
(``turn.end``) may come in between, for it says no more than that the groups have been issued.

Example, the k loop of a GEMM::

    for k carry(acc) {                      for k carry(acc) {
      mbarrier.wait full[s]                   mbarrier.wait full[s]
      acc1 = mma a[s], b[s], acc     ->       acc1 = wgmma.mma a[s], b[s], acc
      mbarrier.arrive empty[s]                wgmma.wait 1
      continue acc1                           mbarrier.arrive empty[pending] if pending
    }                                         pending = s
                                              continue acc1
                                            }
                                            acc2 = wgmma.wait 0, acc
                                            mbarrier.arrive empty[pending] if pending
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tiledsl.codegen.checks.stages import Guards
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Block, Op, Value, users
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import control, protocol, tile
from tiledsl.codegen.passes.async_rules import (
    chain_root,
    hands_on,
    must_be_done,
    releases,
    rings_read,
    starves,
    waits_on,
)
from tiledsl.codegen.passes.rewrite import Emitter, emitter
from tiledsl.errors import Loc


@dataclass(slots=True)
class _Deferred:
    """A release that waits for the group in flight.

    ``slot`` and, when the release may not have happened on this path, ``flag`` say which slot to
    free and whether: plain values within an iteration, variables of the role across iterations.
    """

    ring: Value
    slot: Value  # int32, or a local variable
    flag: Value | None  # a local variable of bool_, or None: surely pending
    loc: Loc


@dataclass(slots=True)
class _State:
    """What is in flight at a point of the role's program."""

    acc: Value | None = None  # the accumulator of the group in flight
    rings: frozenset[Value] = frozenset()  # rings whose tiles that group reads
    deferred: list[_Deferred] = field(default_factory=list)
    held: dict[Value, int] = field(default_factory=dict)  # slots acquired and not yet freed
    leaving: bool = False  # behind a loop: to be flushed as soon as the turn is handed on

    @property
    def idle(self) -> bool:
        return self.acc is None

    def copy(self) -> _State:
        return _State(self.acc, self.rings, list(self.deferred), dict(self.held), self.leaving)


@dataclass(slots=True)
class _Carry:
    """What a loop keeps in flight across its back edge."""

    index: int  # which carried value is the accumulator
    rings: frozenset[Value]
    releases: list[tuple[Value, Value, Value, Loc]]  # ring, slot variable, flag variable, loc


def schedule_async(kernel: Kernel) -> None:
    """Replace every ``mma``; place ``wgmma.wait`` and the releases that depend on it."""
    for _, body in roles_of(kernel):
        if any(isinstance(op, tile.Mma) for op in body.walk()):
            scheduler = _Scheduler(body)
            scheduler.block(body, _State())
            creates = [i for i, op in enumerate(body.ops) if isinstance(op, tile.PipelineCreate)]
            at = creates[-1] + 1 if creates else 0
            body.ops[at:at] = scheduler.header


def _touches(op: Op, state: _State) -> bool:
    """Whether anything inside ``op`` cares about groups in flight."""
    inner = [i for block in op.blocks for i in block.walk()]
    for candidate in inner:
        if isinstance(candidate, tile.Mma | protocol.MbarrierWait | protocol.MbarrierArrive):
            return True
        if must_be_done(candidate):
            return True
        if candidate.is_terminator and not isinstance(candidate, control.Yield):
            return True
        if state.acc is not None and state.acc in candidate.operands:
            return True
    return False


class _Scheduler:
    def __init__(self, body: Block) -> None:
        self.header: list[Op] = []
        self.values: dict[Value, Value] = {}
        self.carries: list[_Carry | None] = []  # innermost loop last
        guards = Guards(body)
        self.read = {op: rings_read(op, guards) for op in body.walk() if isinstance(op, tile.Mma)}
        used = users(body)
        # An accumulator that is read again later cannot be handed over while it is in flight.
        self.read_again = {
            op for op in body.walk() if isinstance(op, tile.Mma) and len(used[op.acc]) > 1
        }

    # ----------------------------------------------------------------------- blocks

    def block(self, block: Block, state: _State) -> _State:
        """Rewrite ``block``; the state where it falls off its end or at its terminator."""
        source = block.ops
        block.ops = []
        for op in source:
            if state.leaving and not hands_on(op):
                state = self.flush(self._at(block, op.loc), state)
            self._rename(op)
            state = self.operation(op, block, state)
        if block.terminator is None and not state.idle:
            out = self._at(block, source[-1].loc if source else Loc("<unknown>", 0))
            state = self.flush(out, state)
        return state

    @staticmethod
    def _at(block: Block, loc: Loc) -> Emitter:
        return Emitter(block, loc)

    def operation(self, op: Op, block: Block, state: _State) -> _State:
        out = self._at(block, op.loc)
        if isinstance(op, tile.Mma):
            return self._mma(out, op, state)
        if barrier := releases(op):
            return self._release(out, op, barrier, state)
        if barrier := waits_on(op, "full"):
            held = state.held.get(barrier.ring, 0)
            others = any(d.ring is not barrier.ring for d in state.deferred)
            if state.deferred and (others or starves(barrier.ring, held)):
                state = self.flush(out, state)
                held = state.held.get(barrier.ring, 0)
            state = state.copy()
            state.held[barrier.ring] = held + 1
            block.ops.append(op)
            return state
        if (isinstance(op, protocol.MbarrierWait) and state.deferred) or must_be_done(op):
            state = self.flush(out, state)
        if isinstance(op, control.For | control.Loop):
            return self._loop(op, block, state)
        if isinstance(op, control.If | control.Scope):
            return self._branches(op, block, state)
        if op.is_terminator:
            return self._terminator(op, block, state)
        if state.acc is not None and state.acc in op.operands:
            state = self.flush(out, state)
            self._rename(op)
        block.ops.append(op)
        return state

    # ---------------------------------------------------------------------- pieces

    def flush(self, out: Emitter, state: _State) -> _State:
        """Retire what is in flight and free what waited for it."""
        if state.acc is None:
            return state
        acc = state.acc
        wait = out.add(protocol.WgmmaWait((acc,), 0), acc.name)
        self.values[acc] = wait.result
        return self._free(out, state)

    def _free(self, out: Emitter, state: _State) -> _State:
        held = dict(state.held)
        for release in state.deferred:
            self._emit_release(out, release)
            held[release.ring] = held.get(release.ring, 1) - 1
        return _State(held=held)

    @staticmethod
    def _emit_release(out: Emitter, release: _Deferred) -> None:
        at, out.loc = out.loc, release.loc
        predicate: tuple[Value, ...] = ()
        slot = release.slot
        if release.flag is not None:
            predicate = (out.value(protocol.LocalGet(release.flag), "pending"),)
            slot = out.value(protocol.LocalGet(release.slot), "pending_slot")
        empty = out.value(protocol.RingBarrier(release.ring, slot, "empty"), "empty")
        create = release.ring.owner
        assert isinstance(create, tile.PipelineCreate)
        out.add(protocol.MbarrierArrive(empty, predicate, "part", create.axes, create.spans))
        if release.flag is not None:
            out.add(protocol.LocalSet(release.flag, out.const(False, dtypes.bool_)))
        out.loc = at

    def _mma(self, out: Emitter, op: tile.Mma, state: _State) -> _State:
        if op in self.read_again and state.acc is op.acc:
            state = self.flush(out, state)
            self._rename(op)
        name = op.result.name
        result = out.value(protocol.Wgmma(op.a, op.b, op.acc), name)
        self.values[op.result] = result
        after = _State(held=dict(state.held))
        if state.acc is not None:
            # The same chain stays in flight; another accumulator is ready behind this wait.
            ready = () if state.acc is op.acc else (state.acc,)
            wait = out.add(protocol.WgmmaWait(ready, 1))
            for old, new in zip(ready, wait.results, strict=True):
                new.name = old.name
                self.values[old] = new
            after = self._free(out, state)
        after.acc = result
        after.rings = self.read[op]
        return after

    def _release(
        self, out: Emitter, op: Op, barrier: protocol.RingBarrier, state: _State
    ) -> _State:
        state = state.copy()
        if barrier.ring in state.rings:
            # The barrier's address is computed again where the release happens.
            state.deferred.append(_Deferred(barrier.ring, barrier.index, None, op.loc))
        else:
            out.block.ops.append(op)
            state.held[barrier.ring] = state.held.get(barrier.ring, 1) - 1
        return state

    def _branches(self, op: control.If | control.Scope, block: Block, state: _State) -> _State:
        self._rename_inside(op)
        if not _touches(op, state):
            block.ops.append(op)
            return state
        state = self.flush(self._at(block, op.loc), state)
        self._rename(op)
        for nested in op.blocks:
            self.block(nested, state.copy())
        block.ops.append(op)
        return state

    def _rename(self, op: Op) -> None:
        """Let ``op`` take the values that stand for its operands by now."""
        for value in op.operands:
            latest = value
            while latest in self.values:
                latest = self.values[latest]
            if latest is not value:
                op.replace_operands({value: latest})

    def _rename_inside(self, op: Op) -> None:
        for block in op.blocks:
            for inner in block.walk():
                self._rename(inner)

    def _terminator(self, op: Op, block: Block, state: _State) -> _State:
        carry = self.carries[-1] if self.carries else None
        if isinstance(op, control.Continue) and carry is not None:
            in_flight = state.acc is not None and op.values[carry.index] is state.acc
            if in_flight and self._matches(state, carry):
                self._store_carry(self._at(block, op.loc), state, carry)
                block.ops.append(op)
                return _State(held=dict(state.held))
        state = self.flush(self._at(block, op.loc), state)
        self._rename(op)
        block.ops.append(op)
        return state

    @staticmethod
    def _matches(state: _State, carry: _Carry) -> bool:
        rings = [release.ring for release in state.deferred]
        return rings == [ring for ring, *_ in carry.releases] and state.rings <= carry.rings

    @staticmethod
    def _store_carry(out: Emitter, state: _State, carry: _Carry) -> None:
        for release, (_, slot, flag, _) in zip(state.deferred, carry.releases, strict=True):
            if release.slot is slot:
                continue  # it is in the variables already
            out.add(protocol.LocalSet(slot, release.slot))
            out.add(protocol.LocalSet(flag, out.const(True, dtypes.bool_)))

    # ------------------------------------------------------------------------- loops

    def _loop(self, op: control.For | control.Loop, block: Block, state: _State) -> _State:
        self._rename_inside(op)
        if not _touches(op, state):
            block.ops.append(op)
            return state
        out = self._at(block, op.loc)
        state = self.flush(out, state)
        self._rename(op)
        carry = self._find_carry(op, state)
        entry = state.copy()
        args = op.body.args[1:] if isinstance(op, control.For) else op.body.args
        if carry is not None:
            for _, _, flag, loc in carry.releases:
                out.add(protocol.LocalSet(flag, out.const(False, dtypes.bool_))).at(loc)
            self._enter(entry, carry, args[carry.index])
        self.carries.append(carry)
        self.block(op.body, entry)
        self.carries.pop()
        block.ops.append(op)
        if carry is None:
            return state
        after = state.copy()
        self._enter(after, carry, op.results[carry.index])
        after.leaving = True
        return after

    @staticmethod
    def _enter(state: _State, carry: _Carry, acc: Value) -> None:
        """The state behind a back edge: perhaps a group in flight, perhaps slots to free."""
        state.acc = acc
        state.rings = carry.rings
        for ring, slot, flag, loc in carry.releases:
            state.deferred.append(_Deferred(ring, slot, flag, loc))
            state.held[ring] = state.held.get(ring, 0) + 1

    def _find_carry(self, op: control.For | control.Loop, state: _State) -> _Carry | None:
        """What is still in flight where the body's last statement continues the loop, if anything.

        Only the straight line of the body counts: its own operations, with everything flushed
        around statements that contain groups themselves.
        """
        last = op.body.terminator
        if not isinstance(last, control.Continue):
            return None
        acc: Value | None = None
        rings: frozenset[Value] = frozenset()
        owed: list[tuple[Value, Loc]] = []
        for inner in op.body.ops:
            if isinstance(inner, tile.Mma):
                acc, rings, owed = inner.result, self.read[inner], []
            elif acc is None:
                continue
            elif (barrier := releases(inner)) and barrier.ring in rings:
                owed.append((barrier.ring, inner.loc))
            elif self._flushes(inner, acc, state):
                acc, owed = None, []
        if acc is None or last.values.count(acc) != 1:
            # Not carried; or under two names, one of which would be read before the wait.
            return None
        index = last.values.index(acc)
        args = op.body.args[1:] if isinstance(op, control.For) else op.body.args
        root = chain_root(acc)
        if root in args and root is not args[index]:
            return None  # it changes its place: its registers would be copied while in flight
        held = dict(state.held)
        for ring, _ in owed:
            held[ring] = held.get(ring, 0) + 1
            if starves(ring, held[ring]):
                return None  # the next iteration would wait for what it holds back itself
        carried = [
            (ring, *self._variables(ring, number, loc), loc)
            for number, (ring, loc) in enumerate(owed)
        ]
        return _Carry(index, rings, carried)

    @staticmethod
    def _flushes(op: Op, acc: Value, state: _State) -> bool:
        if isinstance(op, control.For | control.Loop | control.If | control.Scope):
            return _touches(op, _State(acc=acc)) or acc in op.operands
        if op.is_terminator:
            return False
        return acc in op.operands or isinstance(op, protocol.MbarrierWait) or must_be_done(op)

    def _variables(self, ring: Value, number: int, loc: Loc) -> tuple[Value, Value]:
        """The role's variables for a release that crosses a back edge."""
        assert isinstance(ring.owner, tile.PipelineCreate)
        out = emitter(loc)
        label = f"{ring.owner.name}.pending" + (f".{number}" if number else "")
        slot = out.value(protocol.LocalNew(out.const(0), f"{label}_slot"), f"{label}_slot")
        flag = out.value(protocol.LocalNew(out.const(False, dtypes.bool_), label), label)
        self.header += out.block.ops
        return slot, flag
