"""The interpreter: runs the rows of a warp, and interleaves the warps of a cluster.

``run_cluster`` is what the host calls, once for each cluster of blocks.
"""

from __future__ import annotations

from typing import Any

from tiledsl.runtime.ptx_machine.core.barrier import block_ended, warp_ended
from tiledsl.runtime.ptx_machine.core.common import count_lanes, counts_of, fault, lanes, random
from tiledsl.runtime.ptx_machine.core.divergence import choose, end_lanes, meet, part
from tiledsl.runtime.ptx_machine.core.hazards import note_writes, register_hazard
from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, i64, none
from tiledsl.runtime.ptx_machine.core.links import RANDOM_WGMMA, call_link
from tiledsl.runtime.ptx_machine.core.order import order_reset
from tiledsl.runtime.ptx_machine.core.queue import drain, perform_late, perform_random
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.core.sizes import C_WAITED, C_WAITS
from tiledsl.runtime.ptx_machine.isa.control_ops import BRA, BRX, CLOCK, EXIT, TRAP
from tiledsl.runtime.ptx_machine.opcodes import (
    CONTROL,
    F_BUDGET,
    F_DEADLOCK,
    F_TRAP,
    FAMILY,
    FAULTED,
    GUARD,
    NEGATED,
    NOTED,
    NVEC,
    OP,
    PARK,
    PCT,
    RANDOM,
    RECONVERGE,
    TARGET,
    VEC,
    A,
)  # fmt: skip

# How a warp's slice ends.
RAN, BLOCKED, DONE, FAULT = range(4)
PATIENCE = 64  # rounds of try_waits that all give up, before it is called a deadlock
POLLS = 20000  # rows without an event, before something under way happens though warps run
# Rows without any change at all (an event, a store), before loops are said to poll in vain: so
# many, and for each warp so many more.
VAIN, VAIN_OF_WARP = 10_000_000, 500_000


@compiled(i64, i64, i64, i64)
def _guarded(M: Any, W: Any, warp: int, row: int, group: int) -> int:
    """The lanes of a group whose guard holds."""
    columns = i64p(row)
    if columns[GUARD] < 0:
        return group
    values, wanted, mask = lanes(M, W, warp, columns[GUARD]), 1 - columns[NEGATED], 0
    for lane in range(32):
        if i64(values[lane]) & 1 == wanted:
            mask |= 1 << lane
    return mask & group


@compiled(none, i64, i64, i64)
def _move(M: Any, W: Any, warp: int, group: int, row: int) -> None:
    for lane in range(32):
        if (group >> lane) & 1:
            W[warp].pc[lane] = row


@compiled(i64, i64, i64, i64, i64)
def _branch(M: Any, W: Any, warp: int, number: int, group: int, mask: int) -> int:
    """Run a branch: which lanes go on together. All lanes of the group get their next row."""
    columns = i64p(M.code + (number << 8))
    if columns[OP] == BRA:
        away = group & ~mask
        if mask and away:
            part(M, W, warp, group, number, columns[RECONVERGE])
        _move(M, W, warp, mask, columns[TARGET])
        _move(M, W, warp, away, number + 1)
        if mask and away:
            return mask if M.policy >= RANDOM and random(M, W, 2) else away
        return group
    # brx.idx: a list of rows, and an index for each lane.
    index, first, chosen = lanes(M, W, warp, columns[A]), -1, 0
    _move(M, W, warp, group & ~mask, number + 1)
    for lane in range(32):
        if (mask >> lane) & 1:
            at = i64(index[lane])
            if at < 0 or at >= columns[NVEC]:
                fault(M, W, F_TRAP, warp, number, lane, at, columns[NVEC])
                return 0
            W[warp].pc[lane] = i64p(M.vectors)[columns[VEC] + at]
    for lane in range(32):
        if (group >> lane) & 1:
            if first < 0:
                first = W[warp].pc[lane]
            if W[warp].pc[lane] == first:
                chosen |= 1 << lane
    if chosen != group:
        part(M, W, warp, group, number, columns[RECONVERGE])
    return chosen


@compiled(none, i64, i64, i64)
def _note_wait(M: Any, W: Any, warp: int, number: int, waits: int) -> None:
    """Count how often and how long warps wait at a row; one wait of a warp at a time."""
    counts = counts_of(M, W, number)
    if waits:
        if W[warp].waits_since == 0 or W[warp].wait_row != number:
            counts[C_WAITS] += 1
            W[warp].waits_since = M.instructions + 1
    elif W[warp].waits_since and W[warp].wait_row == number:
        counts[C_WAITED] += M.instructions - W[warp].waits_since
        W[warp].waits_since = 0


@compiled(i64, i64, i64)
def run_warp(M: Any, W: Any, warp: int, limit: int) -> int:
    """Run at most so many rows of a warp."""
    everyone = (1 << 32) - 1
    ran = 0
    while ran < limit:
        if W[warp].ended == everyone:
            return DONE
        group = choose(M, W, warp, False)
        if group == 0:
            return RAN if ran else BLOCKED
        number = 0
        for lane in range(32):
            if (group >> lane) & 1:
                number = W[warp].pc[lane]
                break
        # These lanes run until they park, part, meet, or end.
        while ran < limit and number < M.ncode:
            if W[warp].nmeetings:
                group = meet(M, W, warp, group, number)
                if group == 0:
                    break
            row = M.code + (number << 8)
            columns = i64p(row)
            mask = _guarded(M, W, warp, row, group)
            ran += 1
            M.instructions += 1
            i64p(M.row_warps)[number] += 1
            i64p(M.row_lanes)[number] += count_lanes(mask)
            if columns[FAMILY] == CONTROL:
                op = columns[OP]
                if op == BRA or op == BRX:
                    group = _branch(M, W, warp, number, group, mask)
                    if M.error[0]:
                        return FAULT
                    for lane in range(32):
                        if (group >> lane) & 1:
                            number = W[warp].pc[lane]
                            break
                    continue
                if op == EXIT and mask:
                    end_lanes(M, W, warp, mask)
                    M.epoch += 1
                    group &= ~mask
                    if group == 0:
                        break
                elif op == TRAP and mask:
                    fault(M, W, F_TRAP, warp, number, -1, 0, 0)
                    return FAULT
                elif op >= CLOCK and mask and call_link(M, W, CONTROL, warp, row, mask) == FAULTED:
                    return FAULT
            elif mask:
                if M.checks and W[warp].wgmmas and not register_hazard(M, W, warp, row):
                    return FAULT
                status = call_link(M, W, columns[FAMILY], warp, row, mask)
                if status == FAULTED or M.error[0]:
                    return FAULT
                if status == PARK:
                    for lane in range(32):
                        if (group >> lane) & 1:
                            W[warp].parked[lane] = M.epoch
                    if M.profiling:
                        _note_wait(M, W, warp, number, 1)
                    W[warp].wait_row = number
                    ran -= 1
                    M.instructions -= 1
                    i64p(M.row_warps)[number] -= 1
                    i64p(M.row_lanes)[number] -= count_lanes(mask)
                    break
                if M.profiling and W[warp].waits_since:
                    _note_wait(M, W, warp, number, 0)
                if columns[NOTED]:
                    note_writes(M, W, warp, row)
            number += 1
            _move(M, W, warp, group, number)
        if number >= M.ncode and group and W[warp].ended != everyone:
            end_lanes(M, W, warp, group)  # ran off the end, as behind a `ret`
            M.epoch += 1
    return RAN


@compiled(b1, i64)
def _block_done(M: Any, W: Any, block: int) -> bool:
    for warp in range(block * M.nwarps, (block + 1) * M.nwarps):
        if W[warp].ended != (1 << 32) - 1:
            return False
    return True


@compiled(i64, i64)
def _pick_pct(M: Any, W: Any, total: int) -> int:
    """The runnable warp of the highest priority, or -1; priorities seldom change."""
    priorities = i64p(M.priorities)
    if random(M, W, 60) == 0:
        changed = random(M, W, total)
        priorities[changed] = random(M, W, 1 << 20)
    best = -1
    for warp in range(total):
        if W[warp].finished or W[warp].blocked_at == M.epoch:
            continue
        if best < 0 or priorities[warp] > priorities[best]:
            best = warp
    return best


@compiled(b1, i64)
def _all_ask(M: Any, W: Any, total: int) -> bool:
    """Is every warp that can go on in a loop that only asks? None of them computes, then."""
    for warp in range(total):
        if W[warp].finished or W[warp].blocked_at == M.epoch:
            continue
        for lane in range(32):
            row = W[warp].pc[lane]
            active = ((W[warp].ended | W[warp].waiting) >> lane) & 1 == 0
            if active and row < M.ncode and i64p(M.asking)[row] == 0:
                return False
    return True


@compiled(i64, host=True)
def run_cluster(M: Any, W: Any) -> int:
    """Run all blocks of a cluster to their end: 0, or the code of a fault (M.error)."""
    total, turn, rounds, stuck_at = M.nblocks * M.nwarps, 0, 0, -1
    since, seen = M.instructions, M.epoch  # when something last happened
    changed, change = M.instructions, M.epoch + M.progress  # both only grow
    order_reset(M, W)
    M.epoch += 1
    for warp in range(total):
        W[warp].blocked_at = 0
        i64p(M.priorities)[warp] = random(M, W, 1 << 20)
    while True:
        # One warp: the next in turn, or by priority.
        warp = -1
        if M.policy == PCT:
            warp = _pick_pct(M, W, total)
        else:
            start = random(M, W, total) if M.policy == RANDOM else turn
            for k in range(total):
                candidate = (start + k) % total
                if W[candidate].finished == 0 and W[candidate].blocked_at != M.epoch:
                    warp = candidate
                    break
        if warp < 0:
            # Nobody can go on: something that is under way must happen now.
            left = 0
            for block in range(M.nblocks):
                left += 0 if _block_done(M, W, block) else 1
            if left == 0:
                return 0
            if perform_late(M, W):
                if M.error[0]:
                    return M.error[0]
                M.epoch += 1
                continue
            # A try_wait may give up: do the programs go on to something else then?
            rounds = rounds + 1 if M.epoch == stuck_at else 0
            if rounds > PATIENCE:
                fault(M, W, F_DEADLOCK, 0, 0, -1, 0, 0)
                return M.error[0]
            M.impatient += 1
            M.epoch += 1
            stuck_at = M.epoch
            continue
        turn = (warp + 1) % total
        if M.epoch != seen:
            since, seen = M.instructions, M.epoch
        elif M.instructions - since > POLLS:
            # Somebody polls: let something under way happen, although warps run.
            since = M.instructions
            perform_late(M, W)
        if M.epoch + M.progress != change:
            changed, change = M.instructions, M.epoch + M.progress
        elif M.instructions - changed > VAIN + VAIN_OF_WARP * total:
            changed = M.instructions
            if _all_ask(M, W, total):
                fault(M, W, F_DEADLOCK, 0, 0, -1, 1, 0)
                return M.error[0]
        limit = 2000
        if M.policy >= RANDOM:
            limit = 1 + random(M, W, 200)
        before = M.instructions
        status = run_warp(M, W, warp, limit)
        if status == FAULT:
            return M.error[0]
        if status == BLOCKED or status == DONE:
            W[warp].blocked_at = M.epoch
        if status == DONE and W[warp].finished == 0:
            W[warp].finished = 1
            warp_ended(M, W, warp)
            block = warp // M.nwarps
            if _block_done(M, W, block):
                drain(M, W, block)
                block_ended(M, W, block)
                if M.error[0]:
                    return M.error[0]
        M.budget -= M.instructions - before
        if M.budget < 0:
            fault(M, W, F_BUDGET, warp, W[warp].pc[0], -1, 0, 0)
            return M.error[0]
        if M.policy >= RANDOM and random(M, W, 4) == 0:
            if M.queued:
                perform_random(M, W)
            call_link(M, W, RANDOM_WGMMA, random(M, W, total), 0, 0)
            if M.error[0]:
                return M.error[0]
