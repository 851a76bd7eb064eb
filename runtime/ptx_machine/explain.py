"""Each class of fault in words, from the two numbers that the interpreter notes with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiledsl.errors import Loc
from tiledsl.runtime.ptx_machine import opcodes as op
from tiledsl.runtime.ptx_machine.core.sizes import AGENTS
from tiledsl.runtime.ptx_machine.errors import python_loc
from tiledsl.runtime.ptx_machine.isa.bulk_ops import (
    BARRIER_ELSEWHERE,
    BEFORE,
    NO_SUCH_BLOCK,
    OFF_GRANULE,
    SIZE_OFF_GRANULE,
    SOURCE_ELSEWHERE,
)
from tiledsl.runtime.ptx_machine.places import address, instruction, shared, who

if TYPE_CHECKING:
    from tiledsl.runtime.ptx_machine.machine import _Runner

__all__ = ["EXPLAIN", "Fault", "Told"]

Note = tuple[str, Loc | None]


@dataclass(frozen=True, slots=True)
class Fault:
    """Where it happened, and the numbers that say what."""

    runner: _Runner
    warp: int
    row: int
    lane: int
    first: int
    second: int
    third: int
    fourth: int

    @property
    def text(self) -> str:
        """The instruction."""
        return self.runner.program.texts[self.row]


@dataclass(frozen=True, slots=True)
class Told:
    """The words: what is wrong, what was expected, what came, and what to write instead."""

    what: str
    expected: str
    got: str
    hint: str | None = None
    notes: tuple[Note, ...] = ()


_AGENTS = ("a thread", "a wgmma", "a copy")
_HOW = (("reads", "read"), ("writes", "written"), ("atomically changes", "changed"))


def _other(fault: Fault) -> tuple[str, int, int, Note]:
    """The other access of a race: who, agent, how, and its lines."""
    row, component, how = fault.second >> 32, fault.second >> 8 & 0xFFFFFF, fault.second & 3
    program = fault.runner.program
    text = f"{_AGENTS[component % AGENTS]} of {who(fault.runner, component // AGENTS)}"
    line = int(program.rows[row][op.LINE])
    note = (
        f"the other one: PTX line {line}: {instruction(program.texts[row])}",
        python_loc(program.locs[row]),
    )
    return text, component % AGENTS, how, note


def _race(fault: Fault) -> Told:
    other, _, how, note = _other(fault)
    return Told(
        shared(fault.runner, fault.first),
        f"an order between this instruction and {other}, which {_HOW[how][0]} it",
        "none",
        "a barrier that the one arrives at behind its access, and the other waits for",
        (note,),
    )


def _in_flight(fault: Fault) -> Told:
    other, agent, how, note = _other(fault)
    return Told(
        shared(fault.runner, fault.first),
        f"no access until {other} has {_HOW[how][1]} it",
        "one while that is under way",
        "wait for the wgmma group first" if agent == 1 else "wait for the copy first: its mbarrier,"
        " or its group",
        (note,),
    )  # fmt: skip


def _proxy(fault: Fault) -> Told:
    other, agent, how, note = _other(fault)
    did = "write" if how else "read"
    where = "behind the wait for its cp.async" if agent == 2 else f"behind its {did}"
    return Told(
        shared(fault.runner, fault.first),
        f"a fence.proxy.async between the {did} by {other} and this access by the async proxy",
        "none",
        f"fence.proxy.async {where}, in front of the barrier",
        (note,),
    )


_ELSEWHERE = {
    BARRIER_ELSEWHERE: "an mbarrier of the block that the data goes to",
    SOURCE_ELSEWHERE: "shared memory of this block as the source",
}


def _bounds(fault: Fault) -> Told:
    if fault.second == NO_SUCH_BLOCK:
        blocks = fault.runner.cluster_size
        return Told(
            "a multicast mask",
            f"ranks of the cluster's {blocks} blocks alone, and at least one",
            f"0x{fault.first:x}",
        )
    place = address(fault.runner, fault.first)
    if fault.second in _ELSEWHERE:
        return Told("an address in another block", _ELSEWHERE[fault.second], place)
    return Told(
        f"an access of {fault.second} bytes",
        "an address inside an array or variable",
        place,
    )


def _align(fault: Fault) -> Told:
    if fault.second == SIZE_OFF_GRANULE:
        return Told("the size of a copy", "a multiple of 16 bytes", f"{fault.first} bytes")
    place = address(fault.runner, fault.first)
    return Told("an address", f"a multiple of {fault.second} bytes", f"0x{fault.first:x}, {place}")


def _read_only(fault: Fault) -> Told:
    place = address(fault.runner, fault.first)
    return Told(f"a write of {fault.second} bytes", "memory that may be written", place)


def _exited(fault: Fault) -> Told:
    block = fault.runner.ids[fault.second]
    return Told(
        shared(fault.runner, fault.first),
        f"block {block} to be still running",
        "an access after all its threads have ended",
        "barrier.cluster.arrive and wait at the end of each block, behind its last access",
    )


_MBARRIER = {
    1: ("an mbarrier that has been initialised", "none", "mbarrier.init by one thread, and a"
        " barrier behind it"),
    2: ("no more arrivals than the phase waits for", "one more", "the count of mbarrier.init must"
        " be the number of arrivals of a phase"),
    3: ("a tx-count between -1048575 and 1048575", "one outside of it", None),
    4: ("a count from 1 to 1048575; with .noComplete one that leaves the phase open", "another",
        None),
    5: ("mbarrier.inval before it is initialised again", "none", "let one thread initialise it"),
}  # fmt: skip


def _mbarrier(fault: Fault) -> Told:
    return Told(f"the mbarrier at {address_or_shared(fault)}", *_MBARRIER[fault.second])


def address_or_shared(fault: Fault) -> str:
    """The place of an mbarrier: in shared memory, as all but a wrong generic address are."""
    if fault.first >= op.PARAM_WINDOW:
        return address(fault.runner, fault.first)
    return shared(fault.runner, fault.first)


def _barrier(fault: Fault) -> Told:
    if fault.text.startswith("barrier.cluster.arrive"):
        what = "the barrier of the cluster"
        return Told(what, "barrier.cluster.wait between two arrivals", "a second arrival")
    if fault.text.startswith("barrier.cluster"):
        return Told("the barrier of the cluster", "barrier.cluster.arrive in front of it", "none")
    number, threads = fault.first & 0xFF, fault.first >> 8
    if not 0 <= fault.first <= 15 and fault.second == 0 and fault.lane >= 0 and threads <= 0:
        return Told("the number of a barrier", "0 to 15", f"{fault.first}")
    if fault.lane >= 0 and threads == 0 and fault.second:
        return Told(
            f"the threads of barrier {number}",
            f"a multiple of 32, at most the block's {fault.runner.threads}",
            f"{fault.second}",
        )
    return Told(
        f"the threads of barrier {number}",
        f"{fault.second or 'all'}, as the first warp said that came",
        f"{threads or 'all'}",
    )


def _diverged(fault: Fault) -> Told:
    text, first, second = fault.text, fault.first & 0xFFFFFFFF, fault.second & 0xFFFFFFFF
    if text.startswith("shfl"):
        return Told(
            f"lane {fault.lane} takes a value from lane {first}",
            "a lane that runs the instruction, too",
            f"the lanes 0x{second:x}",
        )
    if text.startswith("wgmma") and fault.lane >= 0:
        return Told(
            "descriptors and scale of a warp's lanes",
            "the same in all lanes",
            f"others in lane {fault.lane} than in lane 0",
        )
    if text.startswith("wgmma") and first == second:
        warps = fault.runner.warps
        return Told("a wgmma", "a warpgroup of four warps", f"the last of the block's {warps}")
    hint = "let all lanes meet first: bar.warp.sync, or the end of the branch"
    if fault.lane >= 0:  # an instruction with a mask of its own
        return Told(
            "the lanes that an instruction names",
            f"lane {fault.lane} itself among them, and the same 0x{second:x} in all that run it",
            f"0x{first:x}",
            hint,
        )
    wanted = second or 0xFFFFFFFF
    return Told("the lanes of a warp", f"all of 0x{wanted:x} together", f"0x{first:x}", hint)


def _trap(fault: Fault) -> Told:
    if "__assertfail" in fault.text:
        # Addresses of message, file and function; and the line.
        message, file, function = (
            fault.runner.string(at).decode(errors="replace")
            for at in (fault.first, fault.third, fault.fourth)
        )
        where = f"{file}:{fault.second}" + (f", in {function}" if function else "")
        return Told(f"an assertion of the program, {where}", message, "its contrary")
    if fault.text.startswith("brx"):
        return Told(
            "the index of a branch",
            f"0 to {fault.second - 1}, as its list is long",
            f"{fault.first}",
        )
    return Told("the program stopped itself", "no lane to come here", "a trap")


def _register(fault: Fault) -> Told:
    name = fault.runner.program.names[fault.first]
    use = "read or written" if fault.second == 0 else "written"
    state = "whose product is still under way" if fault.second == 0 else "which a wgmma still reads"
    return Told(
        f"register {name}, {state}",
        f"wgmma.wait_group before it is {use}",
        "none",
        "wgmma.wait_group: registers of a wgmma belong to it until then",
    )


def _wgmma_fence(fault: Fault) -> Told:
    name = fault.runner.program.names[fault.first]
    return Told(
        f"register {name}, which this wgmma takes",
        "wgmma.fence behind its last write, and before a warp's first wgmma",
        "none",
        "wgmma.fence behind the last write of accumulators or A",
    )


def _tensor_map(fault: Fault) -> Told:
    first, second = fault.first, fault.second
    if second == OFF_GRANULE:
        return Told(
            "the innermost coordinate", "a multiple of 16 bytes from the tensor's start",
            f"{first} bytes",
        )  # fmt: skip
    if second == BEFORE:
        return Told("a coordinate of a store", "none before the tensor's start", f"{first}")
    if first == -1:
        kinds = ("a tiled map, as the instruction has no .im2col", "an im2col map")
        return Told("the mode of a tensor map", kinds[second], kinds[1 - second].split(",")[0])
    if second == 0:
        place = address(fault.runner, first)
        return Told("a tensor map", "the address of one", place)
    return Told("the rank of a tensor map", f"{second}, as many as coordinates", f"{first}")


_DESCRIPTOR = {1: "base offset 0", 2: "the reserved bits to be 0"}
_POLICY = "a loop that polls for ever? Launch.budget says how many may run"


def _wgmma(fault: Fault) -> Told:
    which = "B" if fault.lane == 1 else "A"
    bits = fault.first & 0xFFFFFFFFFFFFFFFF
    return Told(f"the matrix descriptor of {which}", _DESCRIPTOR[fault.second], f"0x{bits:016x}")


def _registers(fault: Fault) -> Told:
    more = ".inc" in fault.text
    return Told(
        f"setmaxnreg to {fault.second} registers",
        f"{'at least' if more else 'at most'} the {fault.first} that the warp has",
        f"{fault.second}",
    )


def _pending(fault: Fault) -> Told:
    return Told(
        "the end of a block",
        "no copy that still reads or writes its shared memory",
        "this one",
        "wait for it: cp.async.bulk.wait_group.read of a store, the mbarrier of a load",
    )


_TABLES = ("things to synchronise on", "copies under way", "places where lanes meet", "wgmmas of a"
           " warp under way")  # fmt: skip


def _overflow(fault: Fault) -> Told:
    return Told(
        "a table of the machine is full", f"at most {fault.first} {_TABLES[fault.second]}", "more",
        "this is the machine's limit, not the program's fault: please report it",
    )  # fmt: skip


EXPLAIN: dict[int, Callable[[Fault], Told]] = {
    op.F_BUDGET: lambda _: Told("the budget of instructions", "the program to end", "no end",
                                _POLICY),
    op.F_TRAP: _trap,
    op.F_DIVERGED: _diverged,
    op.F_BOUNDS: _bounds,
    op.F_ALIGN: _align,
    op.F_READ_ONLY: _read_only,
    op.F_EXITED: _exited,
    op.F_MBARRIER: _mbarrier,
    op.F_BARRIER: _barrier,
    op.F_RACE: _race,
    op.F_IN_FLIGHT: _in_flight,
    op.F_REGISTER: _register,
    op.F_WGMMA_FENCE: _wgmma_fence,
    op.F_PROXY: _proxy,
    op.F_TENSORMAP: _tensor_map,
    op.F_WGMMA: _wgmma,
    op.F_REGISTERS: _registers,
    op.F_PENDING: _pending,
    op.F_UNSUPPORTED: lambda _: Told("the arguments of vprintf", "them in local memory",
                                     "another address"),
    op.F_OVERFLOW: _overflow,
}  # fmt: skip
