"""Reports of roles that do not fit together: who waits for what, and what nobody took."""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import protocol, tile
from tiledsl.errors import Deadlock, Loc, StageError
from tiledsl.runtime.emulator.barriers import BarrierWait, Mbarrier, RendezvousWait
from tiledsl.runtime.emulator.memory import Ring
from tiledsl.runtime.emulator.scheduler import Task

Note = tuple[str, Loc | None]
Arrival = protocol.MbarrierArrive | protocol.MbarrierArriveExpectTx


def deadlock(kernel: Kernel, block: tuple[int, int, int], tasks: list[Task]) -> Deadlock:
    """The error for a block none of whose parts can go on."""
    waiting = [task for task in tasks if not task.ended]
    reports = [_describe(kernel, task, tasks) for task in waiting]
    # The part that waits for what can never come first; the others often wait for that one.
    reports.sort(key=lambda report: not report.final)
    notes = [note for report in reports for note in report.notes]
    notes += [(f"{task.part.label} has ended", None) for task in tasks if task.ended]
    (first, loc), *rest = notes
    return Deadlock(
        f"deadlock in block {block} of kernel {kernel.name!r}: no role can go on, and no load is"
        f" in flight\n{first}",
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
    wait = task.waits_for
    if isinstance(wait, RendezvousWait):
        here, parts = wait.rendezvous.waiting, wait.rendezvous.parts
        text = f"{task.part.label} waits for the other parts: {here} of {parts} have come"
        ended = any(other.ended for other in tasks if other.part.role == task.part.role)
        return _Report([(text, wait.loc)], final=ended)
    assert isinstance(wait, BarrierWait)
    barrier = wait.barrier
    text = (
        f"{task.part.label} waits until stage {barrier.stage} of pipeline {barrier.ring!r} is"
        f" {barrier.which}: {_missing(barrier)} (phase {barrier.phase}, parity {wait.parity})"
    )
    notes: list[Note] = [(text, wait.loc)]
    absent = _absent(kernel, barrier, tasks)
    for role, (late, where) in absent.items():
        notes.append((f"expected to arrive here: {_who(role, late)}", where))
    if barrier.pending == 0:
        notes += [
            (f"the bytes for pipeline {barrier.ring!r} come from this load", op.loc)
            for op in _loads(kernel, barrier.ring, barrier.which)
        ]
    elif not absent:
        came = ", ".join(part.label for part in barrier.arrived)
        only = f"only {came} arrives" if came else "no role arrives"
        notes.append((f"{only} on {barrier.ring}.{barrier.which}", None))
    return _Report(notes, final=all(one.ended for late, _ in absent.values() for one in late))


def _missing(barrier: Mbarrier) -> str:
    parts = []
    if barrier.pending:
        parts.append(f"{barrier.pending} of {barrier.count} arrivals missing")
    if barrier.bytes > 0:
        parts.append(f"{barrier.bytes} bytes missing")
    elif barrier.bytes < 0:
        parts.append(f"{-barrier.bytes} bytes more than announced")
    return ", ".join(parts)


def _absent(
    kernel: Kernel, barrier: Mbarrier, tasks: list[Task]
) -> dict[str, tuple[list[Task], Loc]]:
    """The parts that could arrive and have not, by role, and where they would."""
    found: dict[str, tuple[list[Task], Loc]] = {}
    if barrier.pending == 0:
        return found
    for role, arrivals in _arrivals(kernel, barrier.ring, barrier.which).items():
        late = [
            task
            for task in tasks
            if task.part.role == role
            and task.part not in barrier.arrived
            and any(_performs(task, op) for op in arrivals)
        ]
        if late:
            found[role] = late, arrivals[0].loc
    return found


def _who(role: str, late: list[Task]) -> str:
    if len(late) == 1:
        return f"{late[0].part.label}, which {'has ended' if late[0].ended else 'waits itself'}"
    one = late[0].part
    if len({task.ended for task in late}) == 1:
        numbers = " and ".join(str(task.part.index) for task in late)
        state = "have ended" if late[0].ended else "wait themselves"
        return f"role {role!r} parts {numbers} of {one.parts}, which {state}"
    states = (f"{t.part.index} ({'has ended' if t.ended else 'waits itself'})" for t in late)
    return f"role {role!r} parts {' and '.join(states)} of {one.parts}"


def _performs(task: Task, op: Arrival) -> bool:
    elect = op.elect if isinstance(op, protocol.MbarrierArrive) else "role"
    return task.part.elected(elect)


def _on(op: Arrival | tile.TmaLoad, ring: str, which: str) -> bool:
    barrier = op.barrier.owner
    if not isinstance(barrier, protocol.RingBarrier) or barrier.which != which:
        return False
    create = barrier.ring.owner
    return isinstance(create, tile.PipelineCreate) and create.name == ring


def _arrivals(kernel: Kernel, ring: str, which: str) -> dict[str, list[Arrival]]:
    found: dict[str, list[Arrival]] = {}
    for role, body in roles_of(kernel):
        for op in body.walk():
            if isinstance(op, Arrival) and _on(op, ring, which):
                found.setdefault(role, []).append(op)
    return found


def _loads(kernel: Kernel, ring: str, which: str) -> list[tile.TmaLoad]:
    return [
        op for op in kernel.body.walk() if isinstance(op, tile.TmaLoad) and _on(op, ring, which)
    ]


def _hint(waiting: list[Task]) -> str | None:
    waits = [task.waits_for for task in waiting]
    barriers = [wait.barrier for wait in waits if isinstance(wait, BarrierWait)]
    if any(barrier.pending == 0 and barrier.bytes for barrier in barriers):
        return "the bytes that a stage expects must be those that its loads bring, zeros included"
    if barriers:
        return "both sides of a pipeline must acquire and release equally many stages"
    return None


def check_all_taken(kernel: Kernel, block: tuple[int, int, int], ring: Ring, loc: Loc) -> None:
    """What was filled must have been released when the block ends.

    On the hardware a load that nobody waits for may arrive when the block's shared memory belongs
    to the next block already.

    Raises:
        StageError: the producer gave more stages than a consumer took.
    """
    pairs = zip(ring.barriers["full"], ring.barriers["empty"], strict=True)
    left = sum(full.phase - empty.phase for full, empty in pairs)
    if not left:
        return
    notes: dict[Note, None] = {}
    for role, body in roles_of(kernel):
        for op in body.walk():
            if isinstance(op, Arrival) and isinstance(op.barrier.owner, protocol.RingBarrier):
                barrier = op.barrier.owner
                create = barrier.ring.owner
                if isinstance(create, tile.PipelineCreate) and create.name == ring.name:
                    verb = "fills" if barrier.which == "full" else "takes"
                    notes[f"role {role!r} {verb} stages here", op.loc] = None
    raise StageError(
        f"block {block} of kernel {kernel.name!r} ends with {left} stage(s) of pipeline"
        f" {ring.name!r} filled that were never taken: expected every load to be waited for",
        loc,
        hint="both sides of a pipeline must acquire and release equally many stages",
        notes=tuple(notes),
    )
