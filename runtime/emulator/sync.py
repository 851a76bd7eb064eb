"""Operations that wait, signal and fence: mbarriers, named barriers, meetings, proxy fences."""

from __future__ import annotations

from tiledsl.codegen.ir.ops import protocol, sync
from tiledsl.codegen.ir.plan import WARP
from tiledsl.errors import InternalError, InvalidValue, Loc, StageError
from tiledsl.runtime.emulator.barriers import (
    BarrierPoll,
    BarrierWait,
    Mbarrier,
    Named,
    NamedWait,
    RendezvousWait,
)
from tiledsl.runtime.emulator.compile import Blocking, Compiler, Coroutine, Signal, Step, step
from tiledsl.runtime.emulator.machine import Part

# ----------------------------------------------------------------------- which mbarrier


@step(protocol.RingBarrier)
def _ring_barrier(cx: Compiler, op: protocol.RingBarrier) -> Step:
    out, ring, index = cx.slot(op.result), cx.slot(op.ring), cx.slot(op.index)
    which, loc = op.which, op.loc

    def run(part: Part) -> Signal:
        registers = part.registers
        barriers = registers[ring].barriers[which]
        stage = registers[index]
        if not 0 <= stage < len(barriers):
            raise InvalidValue(
                f"stage {stage} of pipeline {registers[ring].name!r}: expected 0 to"
                f" {len(barriers) - 1}",
                loc,
            )
        registers[out] = barriers[stage]
        return None

    return run


@step(sync.MbarrierCreate)
def _create(cx: Compiler, op: sync.MbarrierCreate) -> Step:
    out, name = cx.slot(op.result), op.name

    def run(part: Part) -> Signal:
        part.registers[out] = part.block.mbarriers[name]
        return None

    return run


@step(sync.MbarrierAt)
def _at(cx: Compiler, op: sync.MbarrierAt) -> Step:
    out, row, index, loc = cx.slot(op.result), cx.slot(op.barriers), cx.slot(op.index), op.loc

    def run(part: Part) -> Signal:
        registers = part.registers
        barriers: list[Mbarrier] = registers[row]
        number = registers[index]
        if not 0 <= number < len(barriers):
            raise InvalidValue(
                f"mbarrier {number} of {barriers[0].ring!r}: expected 0 to {len(barriers) - 1}", loc
            )
        registers[out] = barriers[number]
        return None

    return run


# ----------------------------------------------------------------------- waits and arrivals


def _check_parity(barrier: Mbarrier, parity: int, loc: Loc) -> None:
    if parity not in (0, 1):
        kind = InvalidValue if barrier.which == "raw" else InternalError
        raise kind(f"parity {parity} of {barrier.name}: expected 0 or 1", loc)


@step(protocol.MbarrierWait)
def _wait(cx: Compiler, op: protocol.MbarrierWait) -> Blocking:
    slot, parity_slot, loc = cx.slot(op.barrier), cx.slot(op.parity), op.loc
    unless = cx.slot(op.unless[0]) if op.unless else None
    elect = "part" if op.elect == "all" else op.elect

    def start(part: Part) -> Coroutine:
        if not part.elected(elect):
            return None
        barrier: Mbarrier = part.registers[slot]
        parity: int = part.registers[parity_slot]
        _check_parity(barrier, parity, loc)
        result = part.block.result
        if unless is not None and part.registers[unless]:
            if not barrier.passed(parity):
                raise StageError(
                    f"{part.label} does not wait for phase {barrier.phase} of {barrier.name}, which"
                    " has not completed: expected an answer of try_wait about this very phase",
                    loc,
                )
            return None
        result.waits += 1
        if not barrier.passed(parity):
            result.stalls += 1
            wait = BarrierWait(barrier, parity, loc)
            # Asked again when it is this part's turn: as on the hardware, a waiter that comes late
            # may find that the phase after the one it waits for has completed too.
            while not barrier.passed(parity):
                yield wait
        barrier.seen = barrier.phase
        return None

    return Blocking(start)


def _ask(part: Part, barrier: Mbarrier, parity: int) -> bool:
    part.block.result.polls += 1
    passed = barrier.passed(parity)
    if passed:
        barrier.seen = barrier.phase
    return passed


@step(sync.MbarrierTryWait)
def _try_wait(cx: Compiler, op: sync.MbarrierTryWait) -> Blocking:
    out, slot, parity_slot = cx.slot(op.result), cx.slot(op.barrier), cx.slot(op.parity)
    together, loc = op.uniform and cx.parts > 1, op.loc

    def start(part: Part) -> Coroutine:
        registers = part.registers
        barrier: Mbarrier = registers[slot]
        parity: int = registers[parity_slot]
        _check_parity(barrier, parity, loc)
        if together:
            # Each asks, then all meet, and the answer is yes if all have found it so.
            meeting = part.rendezvous
            before = meeting.meetings
            meeting.agree(_ask(part, barrier, parity))
            wait = RendezvousWait(meeting, before, loc, asks=True)
            while not wait.ready():
                yield wait
            threads_met(part)
            answer = meeting.answer
        else:
            answer = _ask(part, barrier, parity)
        registers[out] = answer
        if not answer:
            yield BarrierPoll(barrier, parity, loc)
        return None

    return Blocking(start)


@step(protocol.MbarrierArrive)
def _arrive(cx: Compiler, op: protocol.MbarrierArrive) -> Step:
    slot, loc, elect = cx.slot(op.barrier), op.loc, op.elect
    predicate = cx.slot(op.predicate[0]) if op.predicate else None
    if not op.axes and not op.rank:

        def run(part: Part) -> Signal:
            registers = part.registers
            if part.elected(elect) and (predicate is None or registers[predicate]):
                registers[slot].arrive(part, loc)
                part.block.result.arrivals += 1
            return None

        return run
    reached = cx.cluster.group(op.axes) if op.spans else cx.cluster.sharing(op.axes)
    rank_slot = cx.slot(op.rank[0]) if op.rank else None

    def run_remote(part: Part) -> Signal:
        registers, block = part.registers, part.block
        if not part.elected(elect) or not (predicate is None or registers[predicate]):
            return None
        barrier: Mbarrier = registers[slot]
        for rank in reached[block.rank] if rank_slot is None else (registers[rank_slot],):
            if not 0 <= rank < len(block.cluster):
                raise InvalidValue(
                    f"{part.label} arrives on {barrier.name} of block {rank} of its cluster:"
                    f" expected 0 to {len(block.cluster) - 1}",
                    loc,
                )
            block.cluster[rank].memory.barriers[barrier.number].arrive(part, loc)
            block.result.arrivals += 1
        return None

    return run_remote


@step(protocol.MbarrierArriveExpectTx)
def _arrive_expect(cx: Compiler, op: protocol.MbarrierArriveExpectTx) -> Step:
    slot, loc, nbytes = cx.slot(op.barrier), op.loc, op.nbytes

    def run(part: Part) -> Signal:
        if part.elected("role"):
            part.registers[slot].arrive(part, loc, nbytes)
            part.block.result.arrivals += 1
        return None

    return run


# --------------------------------------------------------------------- meetings of threads


def threads_met(part: Part) -> None:
    """What all threads of the part know now that one of them, or each for itself, knew before."""
    for buffer in part.buffers.values():
        buffer.advance("fenced", "visible")
    part.bulk.announce()


@step(protocol.PartSync)
def _part_sync(cx: Compiler, op: protocol.PartSync) -> Step:
    return threads_met  # the threads of a part are one coroutine


@step(protocol.RoleSync)
def _role_sync(cx: Compiler, op: protocol.RoleSync) -> Blocking:
    loc = op.loc

    def start(part: Part) -> Coroutine:
        meeting = part.rendezvous.meetings
        part.rendezvous.arrive()
        wait = RendezvousWait(part.rendezvous, meeting, loc)
        while not wait.ready():
            yield wait
        threads_met(part)
        return None

    return Blocking(start)


@step(sync.ClusterSync)
def _cluster_sync(cx: Compiler, op: sync.ClusterSync) -> Blocking:
    loc = op.loc

    def start(part: Part) -> Coroutine:
        place = part.block.meeting
        meeting = place.meetings
        place.arrive()
        wait = RendezvousWait(place, meeting, loc, cluster=True)
        while not wait.ready():
            yield wait
        threads_met(part)
        return None

    return Blocking(start)


@step(sync.NamedCreate)
def _named(cx: Compiler, op: sync.NamedCreate) -> Step:
    out, name = cx.slot(op.result), op.name

    def run(part: Part) -> Signal:
        part.registers[out] = part.block.named[name]
        return None

    return run


def _threads(part: Part) -> int:
    """Threads that arrive at a named barrier: the hardware counts whole warps."""
    return -(-part.threads // WARP) * WARP


@step(sync.NamedSync)
def _named_sync(cx: Compiler, op: sync.NamedSync) -> Blocking:
    slot, loc = cx.slot(op.barrier), op.loc

    def start(part: Part) -> Coroutine:
        barrier: Named = part.registers[slot]
        generation = barrier.generation
        barrier.arrive(part, _threads(part), loc)
        wait = NamedWait(barrier, generation, loc)
        while not wait.ready():
            yield wait
        threads_met(part)
        return None

    return Blocking(start)


@step(sync.NamedArrive)
def _named_arrive(cx: Compiler, op: sync.NamedArrive) -> Step:
    slot, loc = cx.slot(op.barrier), op.loc

    def run(part: Part) -> Signal:
        part.registers[slot].arrive(part, _threads(part), loc)
        return None

    return run


# ----------------------------------------------------------------------------- shared words


@step(sync.WordCreate)
def _word(cx: Compiler, op: sync.WordCreate) -> Step:
    out, name = cx.slot(op.result), op.name

    def run(part: Part) -> Signal:
        part.registers[out] = part.block.words[name]
        return None

    return run


@step(sync.WordGet)
def _word_get(cx: Compiler, op: sync.WordGet) -> Step:
    out, word = cx.slot(op.result), cx.slot(op.word)

    def run(part: Part) -> Signal:
        part.registers[out] = part.registers[word].value
        return None

    return run


@step(sync.WordSet)
def _word_set(cx: Compiler, op: sync.WordSet) -> Step:
    word, value = cx.slot(op.word), cx.slot(op.value)

    def run(part: Part) -> Signal:
        if part.elected("role"):
            part.registers[word].value = part.registers[value]
        return None

    return run


# ---------------------------------------------------------------------------------- fences


@step(protocol.FenceProxyAsync)
def _fence(cx: Compiler, op: protocol.FenceProxyAsync) -> Step:
    def run(part: Part) -> Signal:
        for buffer in part.buffers.values():
            buffer.advance("written", "fenced")
        part.block.memory.fence(part)
        return None

    return run
