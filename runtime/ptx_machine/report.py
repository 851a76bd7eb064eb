"""What went wrong, for people: the PTX line, the Python line, what was expected and what came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiledsl.errors import Deadlock, TileError
from tiledsl.runtime.ptx_machine.core.sizes import (
    AGENTS,
    WAIT_CLUSTER,
    WAIT_LANES,
    WAIT_MBARRIER,
    WAIT_NAMED,
    WAIT_REGISTERS,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.errors import python_loc
from tiledsl.runtime.ptx_machine.isa.bulk_ops import BEFORE, OFF_GRANULE
from tiledsl.runtime.ptx_machine.opcodes import (
    F_ALIGN,
    F_BARRIER,
    F_BOUNDS,
    F_BUDGET,
    F_DEADLOCK,
    F_DIVERGED,
    F_EXITED,
    F_IN_FLIGHT,
    F_MBARRIER,
    F_OVERFLOW,
    F_PENDING,
    F_PROXY,
    F_RACE,
    F_READ_ONLY,
    F_REGISTER,
    F_REGISTERS,
    F_TENSORMAP,
    F_TRAP,
    F_WGMMA,
    F_WGMMA_FENCE,
    FAULTS,
    GLOBAL_BASE,
    LINE,
    OFFSET_MASK,
    RANK_SHIFT,
    SHARED_BASE,
)  # fmt: skip

if TYPE_CHECKING:
    from tiledsl.runtime.ptx_machine.machine import _Runner

__all__ = ["MachineDeadlock", "MachineFault", "fault_error"]


class MachineFault(TileError):
    """A program did something wrong on the PTX machine.

    Attributes:
        kind: which of ``opcodes.FAULTS``.
        ptx_line: line of the PTX text, from 1; 0 for a deadlock.
        prints: what the program had printed before, a text for each call.
    """

    kind: str = ""
    ptx_line: int = 0
    prints: tuple[str, ...] = ()


class MachineDeadlock(MachineFault, Deadlock):
    """Warps wait on each other for ever: a ``td.Deadlock``, as in the emulator."""


_AGENTS = ("a thread", "a wgmma", "a copy")
_KINDS = ("reads", "writes", "atomically changes")
_MBARRIER = {
    1: "it has not been initialised",
    2: "it has got more arrivals than its phase expects",
    3: "its tx-count leaves its range",
    4: "a count that no mbarrier can have",
    5: "bytes are still to come",
}
_DESCRIPTOR = {1: "a base offset", 2: "reserved bits", 3: "a start that is not aligned"}


def fault_error(runner: _Runner) -> MachineFault:
    """The exception of the fault in the machine's record."""
    error = [int(x) for x in runner.state["error"]]
    code, warp, row, lane, first, second = error[:6]
    if code == F_DEADLOCK:
        return _deadlock(runner)
    program = runner.program
    row = min(max(row, 0), len(program.rows) - 1)
    what, hint, notes = _explained(runner, code, first, second)
    line = int(program.rows[row][LINE])
    who = _who(runner, warp) + (f", lane {lane}" if lane >= 0 else "")
    found = MachineFault(
        f"{FAULTS[code]}: {what}\n    PTX line {line}: {program.texts[row]}\n    {who}",
        python_loc(program.locs[row]),
        hint,
        tuple(notes),
    )
    found.kind, found.ptx_line = FAULTS[code], line
    return found


def _who(runner: _Runner, warp: int) -> str:
    block, inside = divmod(warp, runner.warps)
    return f"block {runner.ids[block]}, warp {inside}"


def _shared(runner: _Runner, address: int) -> str:
    rank, offset = address >> RANK_SHIFT, (address & OFFSET_MASK) - SHARED_BASE
    where = f" of block {rank} of the cluster" if runner.cluster_size > 1 else ""
    return f"byte {offset} of shared memory{where}"


def _explained(
    runner: _Runner, code: int, first: int, second: int
) -> tuple[str, str | None, list[Any]]:
    """What happened, a hint, and notes with other lines."""
    program = runner.program
    if code in (F_RACE, F_IN_FLIGHT, F_PROXY):
        row, component, how = second >> 32, second >> 8 & 0xFFFFFF, second & 3
        other = f"{_AGENTS[component % AGENTS]} of {_who(runner, component // AGENTS)}"
        state = "still " if code == F_IN_FLIGHT else ""
        text = (
            f"{_shared(runner, first)}: {other} {state}{_KINDS[how]} it, and nothing orders the two"
        )
        hint = None
        if code == F_PROXY:
            did = "read it, perhaps not yet" if how == 0 else "wrote it"
            who = "reader" if how == 0 else "writer"
            text = f"{_shared(runner, first)}: {other} {did}; the async proxy need not heed that"
            hint = f"fence.proxy.async by the {who}, in front of the barrier"
        note = (f"PTX line {int(program.rows[row][LINE])}: {program.texts[row]}", python_loc(
            program.locs[row]))  # fmt: skip
        return text, hint, [note]
    if code in (F_BOUNDS, F_ALIGN, F_READ_ONLY):
        place = (
            runner.launch.memory.describe(first) if first >= GLOBAL_BASE else _shared(runner, first)
        )
        texts = {
            F_BOUNDS: f"{second} bytes at {place}: outside of any array or variable",
            F_ALIGN: f"{place}: not at a multiple of {second} bytes (address 0x{first:x})",
            F_READ_ONLY: f"a write to {place}, which may only be read",
        }
        return texts[code], None, []
    if code == F_TENSORMAP and second == OFF_GRANULE:
        return (
            f"the innermost coordinate is {first} bytes from the tensor's start: expected a"
            " multiple of 16",
            None,
            [],
        )
    if code == F_TENSORMAP and second == BEFORE:
        text = f"a coordinate of a store is {first}: expected none before the tensor's start"
        return text, None, []
    if code == F_MBARRIER:
        return f"mbarrier at {_shared(runner, first)}: {_MBARRIER.get(second, '')}", None, []
    if code == F_REGISTER:
        what = "whose product is still under way" if second == 0 else "which a wgmma still reads"
        return f"register {program.names[first]}, {what}", "wait for the wgmma group first", []
    if code == F_WGMMA_FENCE:
        return (
            f"register {program.names[first]} was written, and no wgmma.fence follows",
            "wgmma.fence behind the last write of accumulators or A",
            [],
        )
    texts = {
        F_TRAP: "the program stopped itself",
        F_BUDGET: "more instructions than the limit: a loop that polls for ever?",
        F_DIVERGED: f"lanes 0x{first & 0xFFFFFFFF:x} came, but lanes 0x{second & 0xFFFFFFFF:x} must be together",  # noqa: E501
        F_EXITED: f"{_shared(runner, first)} belongs to a block that has ended",
        F_BARRIER: f"barrier {first & 0xFF}: {first >> 8} threads here, {second} elsewhere",
        F_TENSORMAP: f"no tensor map fits: address or rank {first}, expected {second}",
        F_WGMMA: f"descriptor 0x{first & 0xFFFFFFFFFFFFFFFF:x} has {_DESCRIPTOR.get(second, '?')}",
        F_REGISTERS: f"setmaxnreg from {first} to {second} registers",
        F_PENDING: "the block ends while this copy still reads or writes its shared memory",
        F_OVERFLOW: f"a table of the machine is too small ({first}): please report it",
    }
    return texts.get(code, f"{first}, {second}"), None, []


def _deadlock(runner: _Runner) -> MachineFault:
    """Each warp that waits, its line, and what it waits for."""
    program, lines, notes = runner.program, [], []
    for number, record in enumerate(runner.warp_state):
        if int(record["ended"]) == 0xFFFFFFFF:
            continue
        row = min(int(record["wait_row"]), len(program.rows) - 1)
        lines.append(f"  {_who(runner, number)}: {_waits(runner, record)}")
        notes.append(
            (f"{_who(runner, number)} waits at PTX line {int(program.rows[row][LINE])}:"
             f" {program.texts[row]}", python_loc(program.locs[row]))
        )  # fmt: skip
    found = MachineDeadlock(
        f"deadlock in kernel {program.name!r}: no warp can go on, and no copy is under way\n"
        + "\n".join(lines[:64]),
        notes[0][1] if notes else None,
        None,
        tuple(notes[:16]),
    )
    found.kind = FAULTS[F_DEADLOCK]
    return found


def _waits(runner: _Runner, record: Any) -> str:
    kind, what, value = (int(record[name]) for name in ("wait_kind", "wait_what", "wait_value"))
    if kind == WAIT_MBARRIER:
        block, offset = what >> 32, what & 0xFFFFFFFF
        word = int(runner.buffers["shared"][block, offset : offset + 8].view("<u8")[0])
        pending, expected = word >> 41 & 0xFFFFF, word >> 21 & 0xFFFFF
        tx = word & 0x1FFFFF
        tx -= 0x200000 if tx & 0x100000 else 0
        return (
            f"mbarrier at byte {offset} of shared memory, parity {value}: {pending} of {expected}"
            f" arrivals missing, {tx} bytes still to come"
        )
    if kind == WAIT_NAMED:
        come = int(runner.buffers["named"][0, what, 0])
        return f"barrier {what}: {come} of {value or 'all'} threads have come"
    return {
        WAIT_CLUSTER: "the barrier of the cluster",
        WAIT_REGISTERS: f"{what} registers, of which the pool has {value} left",
        WAIT_LANES: "the other lanes of its warp",
    }.get(kind, "the other warps of its warpgroup")
