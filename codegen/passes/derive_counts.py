"""How many arrivals complete a phase of each mbarrier, from the roles that really arrive.

A full barrier sees what its producers bring: one arrival that announces the bytes of bulk copies,
one of each part behind its stores, one of every thread behind its ``cp.async`` copies, or a single
one at the release of a stage that nothing of this fills. An empty barrier sees one arrival of each
part of each consumer, from every block that shares the slot. Replicas that take turns are one
producer or consumer, others are one each. What the user states is checked where all arrivals are
known, and needed where they are not. Runs when the modes of the roles are known.
"""

from __future__ import annotations

from math import prod

from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, protocol, sync, tile
from tiledsl.codegen.ir.plan import Arrival, RolePlan
from tiledsl.codegen.passes.ring_use import (
    CONSUMER,
    COPIES,
    LOADS,
    PRODUCER,
    SIGNALS_ON,
    STORES,
    RingUse,
    RoleUse,
    arrivals_by_hand,
    role_uses,
)
from tiledsl.errors import Loc, StageError, counted

Notes = tuple[tuple[str, Loc | None], ...]


def derive_counts(kernel: Kernel) -> None:
    """Fill ``plan.counts`` and ``plan.arrivals``.

    Raises:
        StageError: a side of a ring is missing, a stated count is not what arrives, or a count is
            needed and not stated.
    """
    roles = role_uses(kernel)
    by_hand = arrivals_by_hand(roles)
    for op in kernel.body.walk():
        if isinstance(op, tile.PipelineCreate):
            _Ring(kernel, op, roles, by_hand).count()
        elif isinstance(op, sync.MbarrierCreate):
            _count_own(kernel, op, roles)


def sharing_blocks(create: tile.PipelineCreate, cluster: tuple[int, ...]) -> int:
    """Blocks of a cluster that write into the stages of one of them, itself included."""
    extents = [cluster[axis] for axis in create.axes if axis < len(cluster)]
    return prod(extents) if create.spans else 1 + sum(extent - 1 for extent in extents)


class _Ring:
    """The counts of one ring."""

    def __init__(
        self,
        kernel: Kernel,
        create: tile.PipelineCreate,
        roles: list[RoleUse],
        by_hand: dict[tuple[Value, str], list[tuple[str, Op]]],
    ) -> None:
        assert kernel.plan is not None
        self.kernel, self.plan = kernel, kernel.plan
        self.create, self.name = create, create.name
        ring = create.result
        self.uses = {
            side: [(role, use) for role in roles if (use := role.rings.get((ring, side)))]
            for side in (PRODUCER, CONSUMER)
        }
        self.by_hand = {side: by_hand.get((ring, SIGNALS_ON[side]), []) for side in self.uses}

    def count(self) -> None:
        self._need_both_sides()
        for number, side in enumerate((PRODUCER, CONSUMER)):
            which = SIGNALS_ON[side]
            arrivals = self._arrivals(side)
            blocks = sharing_blocks(self.create, self.kernel.cluster) if side == CONSUMER else 1
            derived = blocks * sum(arrival.number for arrival in arrivals)
            stated = self.create.counts[number]
            if stated is None:
                self._check_known(side)
            elif derived != stated and self._all_known(side):
                raise self._disagrees(side, stated, derived, blocks, arrivals)
            self.plan.counts[self.name, which] = max(1, derived) if stated is None else stated
            self.plan.arrivals[self.name, which] = tuple(arrivals)

    def _need_both_sides(self) -> None:
        present = {side: bool(self.uses[side] or self.by_hand[side]) for side in self.uses}
        for side, other in ((PRODUCER, CONSUMER), (CONSUMER, PRODUCER)):
            if present[side] or not present[other] or self.create.counts[side == CONSUMER]:
                continue
            roles = dict.fromkeys(role.name for role, _ in self.uses[other])
            raise StageError(
                f"pipeline {self.name!r} has a {other} but no {side}: its {other} would wait for"
                " ever",
                self.create.loc,
                notes=tuple((f"role {role!r} is a {other}", None) for role in roles),
                hint=f"let a role acquire stages from {self.name}.{side}()",
            )

    def _arrivals(self, side: str) -> list[Arrival]:
        found: list[Arrival] = []
        taking_turns: set[str] = set()
        for role, use in self.uses[side]:
            if not use.signals:
                continue
            name = role.name
            if use.turn is not None:
                if role.group in taking_turns:
                    continue
                taking_turns.add(role.group)
                name = role.group
            found += _arrivals_of(use, self.plan.role(role.name), name)
        return found

    def _all_known(self, side: str) -> bool:
        """Whether each arrival of a phase is one that was derived."""
        uses = [use for _, use in self.uses[side]]
        loose = any(use.early or use.silent or not use.signals for use in uses)
        return bool(uses) and not loose and not self.by_hand[side]

    def _check_known(self, side: str) -> None:
        silent = [(role.name, op) for role, use in self.uses[side] for op in use.silent]
        if not silent and not self.by_hand[side]:
            return
        which = SIGNALS_ON[side]
        notes = [(f"role {role!r} gives a stage up without an arrival", op.loc)
                 for role, op in silent]  # fmt: skip
        notes += [(f"role {role!r} arrives by hand", op.loc) for role, op in self.by_hand[side]]
        raise StageError(
            f"how many arrivals complete a phase of the {which} barriers of pipeline"
            f" {self.name!r} cannot be told, because some of them are made by hand: expected a"
            f" {side}_count",
            self.create.loc,
            notes=tuple(notes),
            hint=f"write td.ProducerConsumerPipeline(..., {side}_count=n), or let release() arrive",
        )

    def _disagrees(
        self, side: str, stated: int, derived: int, blocks: int, arrivals: list[Arrival]
    ) -> StageError:
        which = SIGNALS_ON[side]
        notes: Notes = tuple(
            (f"role {a.role!r} brings {a.number}: {a.why}", None) for a in arrivals
        )
        if blocks > 1:
            notes += ((f"{blocks} blocks of the cluster share each slot", None),)
        return StageError(
            f"{side}_count={stated} disagrees with the roles of pipeline {self.name!r}, which bring"
            f" {counted(derived, 'arrival')} to each phase of its {which} barriers",
            self.create.loc,
            notes=notes,
            hint=f"leave {side}_count out: the number is derived from the roles",
        )


def _arrivals_of(use: RingUse, role: RolePlan, name: str) -> list[Arrival]:
    """What one role brings to each phase of the barrier on which a side arrives."""
    if use.side == CONSUMER:
        return [Arrival(name, role.parts, "one of each part at the release")]
    found = []
    if LOADS in use.kinds:
        found.append(Arrival(name, 1, "one that announces the bytes of the loads"))
    if STORES in use.kinds:
        found.append(Arrival(name, role.parts, "one of each part behind its stores"))
    if COPIES in use.kinds:
        threads = role.parts * role.part_threads
        found.append(Arrival(name, threads, "one of every thread, when its copies have landed"))
    return found or [Arrival(name, 1, "one at the release")]


# ----------------------------------------------------------------- mbarriers of the user's own


def _count_own(kernel: Kernel, create: sync.MbarrierCreate, roles: list[RoleUse]) -> None:
    """The count of a row of raw mbarriers: one for each role that arrives, if none is stated."""
    plan = kernel.plan
    assert plan is not None
    row = create.result
    by_index: dict[int, dict[str, Arrival]] = {index: {} for index in range(create.number)}
    for role in roles:
        arrives = [op for op in role.by_hand if row in role.rows(_barrier_of(op))]
        copies = role.copies_onto(row)
        if copies and not arrives:
            raise StageError(
                f"role {role.name!r} copies onto mbarrier {create.name!r} and never arrives there:"
                " nothing would tell when the copies have landed",
                copies[0].loc,
                hint="call .arrive() on the mbarrier behind the copies",
            )
        if create.count is None:
            for op in arrives:
                _refuse_uncounted(create, op)
                arrival = _arrival_at(plan.role(role.name), bool(copies))
                for index in _indices(role, op, row, create.number):
                    by_index[index][role.name] = arrival
    key = (create.name, "raw")
    if create.count is not None:
        plan.counts[key] = create.count
        return
    counts = {index: sum(a.number for a in found.values()) for index, found in by_index.items()}
    used = any(isinstance(op, sync.MbarrierAt) and op.barriers is row for op in kernel.body.walk())
    if used and not any(counts.values()):
        raise StageError(
            f"no role arrives on mbarrier {create.name!r}: whoever waits for it waits for ever",
            create.loc,
            hint="let a role call .arrive() or .arrive_and_expect_bytes(n), or state count=",
        )
    numbers = sorted({count for count in counts.values() if count})
    if len(numbers) > 1:
        raise StageError(
            f"the mbarriers of the row {create.name!r} get {' and '.join(map(str, numbers))}"
            " arrivals a phase: expected the same number for all of them",
            create.loc,
            notes=tuple(
                (f"mbarrier {index}: {', '.join(found) or 'nobody'}", None)
                for index, found in by_index.items()
            ),
            hint="make a td.mbarrier() of its own for each of them, or state count=",
        )
    plan.counts[key] = numbers[0] if numbers else 1
    merged = {role: arrival for found in by_index.values() for role, arrival in found.items()}
    plan.arrivals[key] = tuple(merged.values())


def _barrier_of(op: Op) -> Value:
    assert isinstance(op, protocol.MbarrierArrive | protocol.MbarrierArriveExpectTx)
    return op.barrier


def _arrival_at(role: RolePlan, copies: bool) -> Arrival:
    if copies:
        threads = role.parts * role.part_threads
        return Arrival(role.name, threads, "one of every thread, when its copies have landed")
    return Arrival(role.name, 1, "one when all of its threads have got there")


def _refuse_uncounted(create: sync.MbarrierCreate, op: Op) -> None:
    if isinstance(op, protocol.MbarrierArrive) and op.rank:
        raise StageError(
            f"mbarrier {create.name!r} gets arrivals of other blocks, whose number cannot be told:"
            " expected a count",
            create.loc,
            notes=(("this arrives in another block", op.loc),),
            hint="write td.mbarrier(count=n)",
        )


def _indices(role: RoleUse, op: Op, row: Value, number: int) -> set[int]:
    """Which barriers of a row an arrival may be on."""
    found: set[int] = set()
    for origin in role.guards.origins(_barrier_of(op)):
        if isinstance(origin, sync.MbarrierAt) and origin.barriers is row:
            index = origin.index.owner
            if not isinstance(index, arith.Constant):
                return set(range(number))
            found.add(int(index.value))
    return found & set(range(number))
