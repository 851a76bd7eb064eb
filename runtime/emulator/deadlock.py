"""Reports of roles that do not fit together: who waits for what, and what nobody took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl import deadlocks
from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import copy, protocol, sync, tile
from tiledsl.errors import Deadlock, Loc, StageError
from tiledsl.runtime.emulator.barriers import (
    BarrierPoll,
    BarrierWait,
    Mbarrier,
    Named,
    NamedWait,
    RendezvousWait,
)
from tiledsl.runtime.emulator.geometry import Cluster
from tiledsl.runtime.emulator.machine import BlockState
from tiledsl.runtime.emulator.scheduler import Task

Note = tuple[str, Loc | None]
BlockId = tuple[int, int, int]
Arrival = protocol.MbarrierArrive | protocol.MbarrierArriveExpectTx | copy.AsyncArrive
Load = tile.TmaLoad | copy.TmaLoadIm2col | copy.BulkLoad


def deadlock(kernel: Kernel, blocks: Sequence[BlockId], tasks: list[Task]) -> Deadlock:
    """The error for a cluster (or a single block) none of whose parts can go on."""
    waiting = [task for task in tasks if not task.ended]
    reports = [_describe(kernel, task, tasks) for task in waiting]
    # The part that waits for what can never come first; the others often wait for that one.
    reports.sort(key=lambda report: not report.final)
    notes = [note for report in reports for note in report.notes]
    # What stands before the roles may always end.
    roles = {name for name, _ in roles_of(kernel)}
    notes += [
        (f"{task.part.label} has ended", None)
        for task in tasks
        if task.ended and task.part.role in roles
    ]
    (first, loc), *rest = notes
    return Deadlock(
        f"{deadlocks.head(blocks, kernel.name)}\n{first}",
        loc,
        hint=_hint(waiting),
        notes=tuple(rest),
    )


@dataclass(frozen=True, slots=True)
class _Report:
    """What one part waits for; ``final`` when no other part that still runs could bring it."""

    notes: list[Note]
    final: bool


def _describe(kernel: Kernel, task: Task, tasks: list[Task]) -> _Report:
    wait, label = task.waits_for, task.part.label
    if isinstance(wait, RendezvousWait):
        here, parts = wait.rendezvous.waiting, wait.rendezvous.parts
        if wait.cluster:
            text = f"{label} waits for the whole cluster: {here} of {parts} parts have come"
            others = [other for other in tasks if other.part.rendezvous is not task.part.rendezvous]
        else:
            text = f"{label} waits for the other parts: {here} of {parts} have come"
            others = [o for o in tasks if o.part.rendezvous is task.part.rendezvous]
        return _Report([(text, wait.loc)], final=any(other.ended for other in others))
    if isinstance(wait, NamedWait):
        return _describe_named(kernel, task, wait, tasks)
    assert isinstance(wait, BarrierWait | BarrierPoll)
    return _describe_mbarrier(kernel, task, wait, tasks)


def _describe_mbarrier(
    kernel: Kernel, task: Task, wait: BarrierWait | BarrierPoll, tasks: list[Task]
) -> _Report:
    barrier = wait.barrier
    verb = "waits" if isinstance(wait, BarrierWait) else "asks again and again, in vain, and waits"
    text = deadlocks.mbarrier_wait(
        task.part.label, verb, barrier.ring, barrier.which, barrier.stage, barrier.name
    )
    missing = deadlocks.missing(barrier.pending, barrier.count, barrier.bytes)
    text += deadlocks.phase(missing, barrier.phase, wait.parity)
    notes: list[Note] = [(text, wait.loc)]
    absent = _absent(kernel, barrier, tasks)
    for role, (late, where) in absent.items():
        notes.append((f"{deadlocks.ARRIVE_HERE}{_who(role, late)}", where))
    if barrier.pending == 0:
        notes += [
            (deadlocks.bytes_from(barrier.ring, barrier.which), op.loc)
            for op in loads_onto(kernel, barrier.ring, barrier.which)
        ]
    elif not absent:
        came = ", ".join(part.label for part in barrier.arrived)
        only = f"only {came} arrives" if came else "no role arrives"
        which = barrier.ring if barrier.which == "raw" else f"{barrier.ring}.{barrier.which}"
        notes.append((f"{only} on {which}", None))
    return _Report(notes, final=all(one.ended for late, _ in absent.values() for one in late))


def _describe_named(kernel: Kernel, task: Task, wait: NamedWait, tasks: list[Task]) -> _Report:
    barrier: Named = wait.barrier
    text = deadlocks.named_wait(task.part.label, repr(barrier.name), barrier.came, barrier.threads)
    notes: list[Note] = [(text, wait.loc)]
    final = True
    for role, body in roles_of(kernel):
        ops = [
            op
            for op in body.walk()
            if isinstance(op, sync.NamedSync | sync.NamedArrive)
            and isinstance(op.barrier.owner, sync.NamedCreate)
            and op.barrier.owner.name == barrier.name
        ]
        late = [
            other
            for other in tasks
            if ops
            and other.part.role == role
            and other.part.block is task.part.block
            and other.part not in barrier.parts
        ]
        if late:
            notes.append((f"{deadlocks.ARRIVE_HERE}{_who(role, late)}", ops[0].loc))
            final = final and all(one.ended for one in late)
    return _Report(notes, final)


def _absent(
    kernel: Kernel, barrier: Mbarrier, tasks: list[Task]
) -> dict[str, tuple[list[Task], Loc]]:
    """The parts that could arrive and have not, by role, and where they would."""
    found: dict[str, tuple[list[Task], Loc]] = {}
    if barrier.pending == 0:
        return found
    cluster = Cluster(kernel.cluster)
    for role, arrivals in arrivals_on(kernel, barrier.ring, barrier.which).items():
        late = [
            task
            for task in tasks
            if task.part.role == role
            and task.part not in barrier.arrived
            and any(
                _performs(task, op) and _reaches(op, task.part.block.rank, barrier.rank, cluster)
                for op in arrivals
            )
        ]
        if late:
            found[role] = late, arrivals[0].loc
    return found


def _who(role: str, late: list[Task]) -> str:
    one = late[0].part
    if len(late) == 1:
        return f"{one.label}, which {'has ended' if late[0].ended else 'waits itself'}"
    same = len({task.ended for task in late}) == 1
    if len(one.block.cluster) > 1:
        if not same:
            states = (
                f"{t.part.label} ({'has ended' if t.ended else 'waits itself'})" for t in late
            )
            return " and ".join(states)
        state = "have ended" if late[0].ended else "wait themselves"
        return " and ".join(t.part.label for t in late) + f", which {state}"
    if same:
        numbers = " and ".join(str(task.part.index) for task in late)
        state = "have ended" if late[0].ended else "wait themselves"
        return f"role {role!r} parts {numbers} of {one.parts}, which {state}"
    states = (f"{t.part.index} ({'has ended' if t.ended else 'waits itself'})" for t in late)
    return f"role {role!r} parts {' and '.join(states)} of {one.parts}"


def _performs(task: Task, op: Arrival) -> bool:
    if isinstance(op, copy.AsyncArrive):
        return True
    elect = op.elect if isinstance(op, protocol.MbarrierArrive) else "role"
    return task.part.elected(elect)


def _reaches(op: Arrival, source: int, target: int, cluster: Cluster) -> bool:
    """Whether an arrival in block ``source`` of a cluster may be one in block ``target``."""
    if isinstance(op, protocol.MbarrierArrive):
        if op.rank:
            return True
        if op.axes:
            reached = cluster.group(op.axes) if op.spans else cluster.sharing(op.axes)
            return target in reached[source]
    return source == target


def _named_by(barrier: Value) -> tuple[str, str] | None:
    """The ring and ``full`` or ``empty``, or the name and ``raw``, of an mbarrier."""
    owner = barrier.owner
    if isinstance(owner, protocol.RingBarrier) and isinstance(
        owner.ring.owner, tile.PipelineCreate
    ):
        return owner.ring.owner.name, owner.which
    if isinstance(owner, sync.MbarrierAt) and isinstance(owner.barriers.owner, sync.MbarrierCreate):
        return owner.barriers.owner.name, "raw"
    return None


def arrivals_on(kernel: Kernel, ring: str, which: str) -> dict[str, list[Arrival]]:
    found: dict[str, list[Arrival]] = {}
    for role, body in roles_of(kernel):
        for op in body.walk():
            if isinstance(op, Arrival) and _named_by(op.barrier) == (ring, which):
                found.setdefault(role, []).append(op)
    return found


def loads_onto(kernel: Kernel, ring: str, which: str) -> list[Op]:
    return [
        op
        for op in kernel.body.walk()
        if isinstance(op, Load) and _named_by(op.barrier) == (ring, which)
    ]


def _hint(waiting: list[Task]) -> str | None:
    waits = [task.waits_for for task in waiting]
    barriers = [wait.barrier for wait in waits if isinstance(wait, BarrierWait | BarrierPoll)]
    return deadlocks.hint(
        any(barrier.pending == 0 and barrier.bytes != 0 for barrier in barriers),
        any(barrier.which != "raw" for barrier in barriers),
    )


# ------------------------------------------------------------------------ the end of a block


def check_all_taken(
    kernel: Kernel, block: BlockState, creators: Sequence[tile.PipelineCreate | sync.MbarrierCreate]
) -> None:
    """What was loaded must have been waited for when the block ends.

    On the hardware a load that nobody waits for may arrive when the block's shared memory belongs
    to the next block already.

    Raises:
        StageError: the producer gave more stages than a consumer took.
    """
    for op in creators:
        if isinstance(op, tile.PipelineCreate):
            _check_ring(kernel, block, op)
        else:
            late = [b for b in block.mbarriers[op.name] if b.loaded >= b.seen]
            if late:
                raise StageError(
                    f"block {block.id} of kernel {kernel.name!r} ends before anybody has waited for"
                    f" the loads onto mbarrier {late[0].name}: expected every load to be waited"
                    " for",
                    op.loc,
                    notes=tuple(
                        ("loaded here", load.loc) for load in loads_onto(kernel, op.name, "raw")
                    ),
                )


def _check_ring(kernel: Kernel, block: BlockState, op: tile.PipelineCreate) -> None:
    ring = block.rings[op.name]
    left = 0
    for full, empty in zip(ring.barriers["full"], ring.barriers["empty"], strict=True):
        # A stage that was waited for and given back without a signal is no fault.
        taken = full.seen == full.phase and not empty.arrived
        if not taken and (op.ring.arrays or full.loaded >= 0):
            left += full.phase - empty.phase
    if not left:
        return
    notes: dict[Note, None] = {}
    for role, body in roles_of(kernel):
        for inner in body.walk():
            if isinstance(inner, Arrival):
                named = _named_by(inner.barrier)
                if named is not None and named[0] == op.name and named[1] != "raw":
                    verb = "fills" if named[1] == "full" else "takes"
                    notes[f"role {role!r} {verb} stages here", inner.loc] = None
    raise StageError(
        f"block {block.id} of kernel {kernel.name!r} ends with {left} stage(s) of pipeline"
        f" {ring.name!r} filled that were never taken: expected every load to be waited for",
        op.loc,
        hint="both sides of a pipeline must acquire and release equally many stages",
        notes=tuple(notes),
    )
