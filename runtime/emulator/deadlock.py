"""The report of a deadlock: who waits, for what, and who should have come."""

from __future__ import annotations

from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import protocol, tile
from tiledsl.errors import Deadlock, Loc
from tiledsl.runtime.emulator.barriers import BarrierWait, Mbarrier, RendezvousWait
from tiledsl.runtime.emulator.scheduler import Task

Note = tuple[str, Loc | None]
Arrival = protocol.MbarrierArrive | protocol.MbarrierArriveExpectTx


def deadlock(kernel: Kernel, block: tuple[int, int, int], tasks: list[Task]) -> Deadlock:
    """The error for a block none of whose parts can go on."""
    waiting = [task for task in tasks if not task.ended]
    notes: list[Note] = []
    for task in waiting:
        notes += _describe(kernel, task, tasks)
    notes += [(f"{task.part.label} has ended", None) for task in tasks if task.ended]
    (first, loc), *rest = notes
    return Deadlock(
        f"deadlock in block {block} of kernel {kernel.name!r}: no role can go on, and no load is"
        f" in flight\n{first}",
        loc,
        hint=_hint(waiting),
        notes=tuple(rest),
    )


def _describe(kernel: Kernel, task: Task, tasks: list[Task]) -> list[Note]:
    wait = task.waits_for
    if isinstance(wait, RendezvousWait):
        here, parts = wait.rendezvous.waiting, wait.rendezvous.parts
        text = f"{task.part.label} waits for the other parts: {here} of {parts} have come"
        return [(text, wait.loc)]
    assert isinstance(wait, BarrierWait)
    barrier = wait.barrier
    text = (
        f"{task.part.label} waits for {barrier.name}, phase {barrier.phase} (parity"
        f" {wait.parity}): {_missing(barrier)}"
    )
    return [(text, wait.loc), *_absent(kernel, barrier, tasks)]


def _missing(barrier: Mbarrier) -> str:
    parts = []
    if barrier.pending:
        parts.append(f"{barrier.pending} of {barrier.count} arrivals missing")
    if barrier.bytes > 0:
        parts.append(f"{barrier.bytes} bytes missing")
    elif barrier.bytes < 0:
        parts.append(f"{-barrier.bytes} bytes more than announced")
    return ", ".join(parts)


def _absent(kernel: Kernel, barrier: Mbarrier, tasks: list[Task]) -> list[Note]:
    """One note for each role that could have arrived: which of its parts have not, and where."""
    notes: list[Note] = []
    for role, arrivals in _arrivals(kernel, barrier.ring, barrier.which).items():
        absent = [
            task
            for task in tasks
            if task.part.role == role
            and task.part not in barrier.arrived
            and any(_performs(task, op) for op in arrivals)
        ]
        if not absent:
            continue
        states = {"has ended" if task.ended else "waits itself" for task in absent}
        who = " and ".join(task.part.label for task in absent)
        state = states.pop() if len(states) == 1 else "has ended or waits itself"
        notes.append((f"expected to arrive here: {who}, which {state}", arrivals[0].loc))
    if barrier.pending == 0:
        notes += [
            (f"bytes for {barrier.ring}.{barrier.which} come from this load", op.loc)
            for op in _loads(kernel, barrier.ring, barrier.which)
        ]
    elif not notes and barrier.count:
        notes.append((f"no role arrives on {barrier.ring}.{barrier.which}", None))
    return notes


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
