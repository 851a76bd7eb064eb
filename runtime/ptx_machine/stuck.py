"""A deadlock: who waits for what, in the emulator's words (tiledsl/deadlocks.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiledsl import deadlocks
from tiledsl.errors import Loc
from tiledsl.runtime.ptx_machine.core.sizes import (
    WAIT_CLUSTER,
    WAIT_LANES,
    WAIT_MBARRIER,
    WAIT_NAMED,
    WAIT_REGISTERS,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.errors import python_loc
from tiledsl.runtime.ptx_machine.names import BarrierName, RoleName
from tiledsl.runtime.ptx_machine.opcodes import LINE, RANK_SHIFT, SHARED_BASE
from tiledsl.runtime.ptx_machine.places import (
    dynamic_base,
    instruction,
    label,
    role_of,
    shared,
    warps_text,
)
from tiledsl.runtime.ptx_machine.residency import polled_row

if TYPE_CHECKING:
    from tiledsl.runtime.ptx_machine.machine import _Runner

__all__ = ["deadlock"]

Note = tuple[str, Loc | None]
ALL = 0xFFFFFFFF
MOST = 32  # reports; the others are counted


@dataclass(frozen=True)
class _Wait:
    """What warps of one part of a role wait for: the same thing at the same row."""

    block: int
    who: str
    row: int
    kind: int
    what: int
    value: int
    polls: bool


def deadlock(runner: _Runner, polls: bool) -> tuple[str, Loc | None, str | None, list[Note], int]:
    """Message, line, hint, notes, and the row where the first one waits.

    Args:
        polls: not all are parked: some ask again and again.
    """
    waits = _waits(runner, polls)
    reports = [(wait, *_report(runner, wait)) for wait in waits[:MOST]]
    # Who waits for what can never come first; the others often wait for that one, and warps
    # without a role for all.
    reports.sort(key=lambda report: (not report[2], report[0].kind == WAIT_CLUSTER))
    # Parts of a role wait for the same arrivals and loads: each of these once.
    notes = list(dict.fromkeys(note for _, found, _ in reports for note in found))
    if len(waits) > MOST:
        notes.append((f"{len(waits) - MOST} more wait", None))
    notes += [(f"{name} has ended", None) for name in _ended_roles(runner)]
    (first, loc), *rest = notes
    head = deadlocks.head(runner.ids, runner.program.name, len(runner.ids) <= runner.cluster_size)
    mbarriers = [_counts(runner, w.what) for w in waits if w.kind == WAIT_MBARRIER]
    hint = deadlocks.hint(
        any(pending == 0 and tx for pending, _, tx in mbarriers),
        any(_named(runner, w.what) for w in waits if w.kind == WAIT_MBARRIER),
    )
    others = int(runner.launch.grid[0] * runner.launch.grid[1] * runner.launch.grid[2])
    if polls and others > len(runner.ids):
        hint = (
            f"only {len(runner.ids)} of the grid's {others} blocks ran at once: those that wait on"
            " each other need together=True"
        )
    return f"{head}\n{first}", loc, hint, rest, reports[0][0].row


# ------------------------------------------------------------------------ who waits


def _waits(runner: _Runner, polls: bool) -> list[_Wait]:
    """All that wait, the warps of a part together."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for warp, record in enumerate(runner.warp_state):
        if int(record["ended"]) == ALL:
            continue
        block, inside = divmod(warp, runner.warps)
        role = role_of(runner, inside)
        asks = polls and int(record["blocked_at"]) != int(runner.state["epoch"])
        row, kind = _row(runner, record), int(record["wait_kind"])
        if asks:
            row = polled_row(runner.program, row)
            kind = kind if "_wait" in runner.program.texts[row] else -1
        what, value = int(record["wait_what"]), int(record["wait_value"])
        found.setdefault((block, role, row, kind, what, value, asks), []).append(inside)
    waits = []
    for (block, role, row, kind, what, value, asks), warps in found.items():
        who = warps_text(warps)
        if role:
            who = f"{label(*role)} ({who})"
        elif len(warps) > 1:
            who = f"each of {who}"
        if runner.cluster_size > 1 and len(runner.ids) == runner.cluster_size:
            who += f" in block {block % runner.cluster_size} of its cluster"
        elif len(runner.ids) > 1:
            who += f" in block {runner.ids[block]}"
        waits.append(_Wait(block, who, row, kind, what, value, asks))
    return waits


def _row(runner: _Runner, record: Any) -> int:
    """Where a warp's lanes wait that do not wait for others of their warp."""
    active = ~int(record["ended"]) & ~int(record["waiting"]) & ALL
    rows = [int(record["pc"][lane]) for lane in range(32) if active >> lane & 1]
    wait = int(record["wait_row"])
    row = wait if wait in rows or not rows else rows[0]
    return min(row, len(runner.program.rows) - 1)


# ------------------------------------------------------------------------ for what


def _report(runner: _Runner, wait: _Wait) -> tuple[list[Note], bool]:
    """Notes, and whether nobody who still runs could bring what is waited for."""
    program = runner.program
    line, text = int(program.rows[wait.row][LINE]), instruction(program.texts[wait.row])
    at = f"\n    PTX line {line}: {text}"
    loc = python_loc(program.locs[wait.row])
    verb = "asks again and again, in vain, and waits" if wait.polls else "waits"
    if wait.kind == WAIT_MBARRIER:
        return _mbarrier(runner, wait, verb, at, loc)
    if wait.kind == WAIT_NAMED:
        return _named_barrier(runner, wait, at, loc)
    if wait.kind == WAIT_CLUSTER:
        come, warps = _cluster(runner, wait.block)
        text = f"{wait.who} waits for the whole cluster: {come} of {warps} warps have come"
        return [(text + at, loc)], False
    if wait.kind == WAIT_REGISTERS:
        text = (
            f"{wait.who} waits for registers: it wants {wait.what} a thread, and the pool has"
            f" {wait.value} left"
        )
        return [(text + at, loc)], True
    if wait.kind == WAIT_LANES:
        return [(f"{wait.who} waits for the other lanes of its warp{at}", loc)], False
    if wait.polls:
        text = f"{wait.who} asks again and again, in vain, for a word that nobody changes"
        return [(text + at, loc)], True
    return [(f"{wait.who} waits for the other warps of its warpgroup{at}", loc)], False


def _mbarrier(
    runner: _Runner, wait: _Wait, verb: str, at: str, loc: Loc | None
) -> tuple[list[Note], bool]:
    block, offset = wait.what >> 32, wait.what & 0xFFFFFFFF
    pending, expected, tx = _counts(runner, wait.what)
    phase, arrived = (int(x) for x in runner.buffers["phases"][block, offset >> 3])
    named = _named(runner, wait.what)
    if named is None:
        rank = block % runner.cluster_size
        place = shared(runner, rank << RANK_SHIFT | offset + SHARED_BASE)
        text = deadlocks.mbarrier_wait(wait.who, verb, "", "raw", 0, f"at {place}")
    else:
        raw = f"{named.ring}[{named.stage}]"
        text = deadlocks.mbarrier_wait(wait.who, verb, named.ring, named.which, named.stage, raw)
    missing = deadlocks.missing(pending, expected, tx)
    notes: list[Note] = [(text + deadlocks.phase(missing, phase, wait.value) + at, loc)]
    if named is None:
        return notes, False
    final = True
    if pending:
        for role, where in named.arrivals:
            late = _late(runner, role, block, arrived)
            if late:
                notes.append((f"{deadlocks.ARRIVE_HERE}{_who(late)}", where))
                final = final and all(ended for _, _, ended in late)
    else:
        final = False
        text = deadlocks.bytes_from(named.ring, named.which)
        notes += [(text, where) for where in named.loads]
    return notes, final


def _counts(runner: _Runner, what: int) -> tuple[int, int, int]:
    """Arrivals that are missing, arrivals of a phase, bytes that are missing."""
    block, offset = what >> 32, what & 0xFFFFFFFF
    word = int(runner.buffers["shared"][block, offset : offset + 8].view("<u8")[0])
    tx = word & 0x1FFFFF
    return word >> 41 & 0xFFFFF, word >> 21 & 0xFFFFF, tx - (0x200000 if tx & 0x100000 else 0)


def _named(runner: _Runner, what: int) -> BarrierName | None:
    return runner.launch.names.barriers.get((what & 0xFFFFFFFF) - dynamic_base(runner))


def _named_barrier(
    runner: _Runner, wait: _Wait, at: str, loc: Loc | None
) -> tuple[list[Note], bool]:
    come = int(runner.buffers["named"][wait.block, wait.what, 0])
    threads = wait.value or 32 * sum(
        int(runner.warp_state[warp]["ended"]) != ALL for warp in _warps(runner, wait.block)
    )
    named = runner.launch.names.named.get(wait.what)
    name = repr(named.name) if named else str(wait.what)
    notes: list[Note] = [(deadlocks.named_wait(wait.who, name, come, threads) + at, loc)]
    final = named is not None
    for role, where in named.arrivals if named else ():
        late = [
            one
            for one in _parts(runner, role, wait.block)
            if not any(int(runner.warp_state[w]["bar_phase"]) for w in one[1])
        ]
        if late:
            notes.append((f"{deadlocks.ARRIVE_HERE}{_who(late)}", where))
            final = final and all(ended for _, _, ended in late)
    return notes, final


def _cluster(runner: _Runner, block: int) -> tuple[int, int]:
    """Warps that have come to the barrier of a block's cluster, and those it waits for."""
    first = block // runner.cluster_size * runner.cluster_size
    phase = int(runner.buffers["cluster"][block // runner.cluster_size, 1])
    warps = [w for b in range(first, first + runner.cluster_size) for w in _warps(runner, b)]
    left = [w for w in warps if int(runner.warp_state[w]["ended"]) != ALL]
    come = [w for w in left if int(runner.warp_state[w]["cluster_phase"]) == phase + 1]
    return len(come), len(left)


# ------------------------------------------------------------------------ who should have come

# A part of a role: its name, its warps, and whether they have ended.
_Part = tuple[str, list[int], bool]


def _warps(runner: _Runner, block: int) -> range:
    return range(block * runner.warps, (block + 1) * runner.warps)


def _parts(runner: _Runner, name: str, block: int) -> list[_Part]:
    found = []
    for role in runner.launch.names.roles:
        if role.name == name:
            found += [_part(runner, role, part, block) for part in range(role.parts)]
    return found


def _part(runner: _Runner, role: RoleName, part: int, block: int) -> _Part:
    size = role.warps // role.parts
    first = block * runner.warps + role.first_warp + part * size
    warps = list(range(first, first + size))
    ended = all(int(runner.warp_state[warp]["ended"]) == ALL for warp in warps)
    where = f" in block {block % runner.cluster_size} of its cluster"
    return label(role, part) + (where if runner.cluster_size > 1 else ""), warps, ended


def _late(runner: _Runner, role: str, block: int, arrived: int) -> list[_Part]:
    """Parts of a role, in all blocks of the cluster, of which no warp has arrived."""
    first = block // runner.cluster_size * runner.cluster_size
    start = first * runner.warps
    return [
        part
        for other in range(first, first + runner.cluster_size)
        for part in _parts(runner, role, other)
        if not any(arrived >> (warp - start) & 1 for warp in part[1])
    ]


def _who(late: list[_Part]) -> str:
    if len(late) == 1:
        return f"{late[0][0]}, which {'has ended' if late[0][2] else 'waits itself'}"
    if len({ended for _, _, ended in late}) == 1:
        state = "have ended" if late[0][2] else "wait themselves"
        return " and ".join(name for name, _, _ in late) + f", which {state}"
    return " and ".join(f"{name} ({'has ended' if e else 'waits itself'})" for name, _, e in late)


def _ended_roles(runner: _Runner) -> list[str]:
    return [
        name
        for block in range(len(runner.ids))
        for role in runner.launch.names.roles
        for name, _, ended in _parts(runner, role.name, block)
        if ended
    ]
