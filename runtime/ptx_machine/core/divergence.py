"""Lanes that go different ways, and where they meet again.

A branch whose lanes part opens a *meeting*: the row where all their ways come together (its
immediate post-dominator), the lanes that part, those that have come there. Whoever comes waits
until all that have not ended are there. Between, any lanes at one row run together, so that lanes
which wait for each other (a lock, an mbarrier) all make progress.
"""

from __future__ import annotations

from typing import Any

from tiledsl.runtime.ptx_machine.core.common import fault, random
from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, i64, none
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.core.sizes import MEETINGS
from tiledsl.runtime.ptx_machine.opcodes import END, F_OVERFLOW, RANDOM

_ROW, _LANES, _COME = range(3)
ALL = (1 << 32) - 1


@compiled(i64, i64, i64)
def _meeting(M: Any, W: Any, warp: int, number: int) -> int:
    """The address of an open meeting; the last opened has the highest number."""
    return M.meetings + 8 * 3 * (warp * MEETINGS + number)


@compiled(none, i64, i64)
def _close(M: Any, W: Any, warp: int, number: int) -> None:
    last = W[warp].nmeetings - 1
    for k in range(number, last):
        here, there = i64p(_meeting(M, W, warp, k)), i64p(_meeting(M, W, warp, k + 1))
        for column in range(3):
            here[column] = there[column]
    W[warp].nmeetings = last


@compiled(i64, i64, i64, i64)
def meet(M: Any, W: Any, warp: int, group: int, row: int) -> int:
    """Lanes come to a row: which may go on there, with those that waited for them."""
    number = W[warp].nmeetings - 1
    while number >= 0:
        meeting = i64p(_meeting(M, W, warp, number))
        if meeting[_ROW] == row and meeting[_LANES] & group != 0:
            come = meeting[_COME] | (meeting[_LANES] & group)
            if come == meeting[_LANES] & ~W[warp].ended:
                group |= come
                W[warp].waiting &= ~come
                _close(M, W, warp, number)
            else:
                meeting[_COME] = come
                group &= ~come
                W[warp].waiting |= come
        number -= 1
    return group


@compiled(none, i64, i64)
def end_lanes(M: Any, W: Any, warp: int, group: int) -> None:
    """Lanes end: nobody waits for them any longer."""
    W[warp].ended |= group
    for lane in range(32):
        if (group >> lane) & 1:
            W[warp].pc[lane] = END
    number = W[warp].nmeetings - 1
    while number >= 0:
        meeting = i64p(_meeting(M, W, warp, number))
        meeting[_COME] &= ~group
        left = meeting[_LANES] & ~W[warp].ended
        if meeting[_COME] == left:
            W[warp].waiting &= ~left
            _close(M, W, warp, number)
        number -= 1


@compiled(none, i64, i64, i64, i64)
def part(M: Any, W: Any, warp: int, group: int, row: int, meeting_row: int) -> None:
    """The lanes of a group part at a branch (``row``), to meet at a row, or at the end."""
    if meeting_row == END:
        return
    last = W[warp].nmeetings - 1
    if last >= 0:
        top = i64p(_meeting(M, W, warp, last))
        if top[_ROW] == meeting_row and group & ~top[_LANES] == 0:
            return  # they meet there anyway
    if last + 1 == MEETINGS:
        fault(M, W, F_OVERFLOW, warp, row, -1, MEETINGS, 2)
        return
    made = i64p(_meeting(M, W, warp, last + 1))
    made[_ROW] = meeting_row
    made[_LANES] = group
    made[_COME] = 0
    W[warp].nmeetings = last + 2


@compiled(i64, i64, b1)
def choose(M: Any, W: Any, warp: int, again: bool) -> int:
    """A group of lanes at one row, of which one may run; 0 if there is none.

    ``again``: take lanes, too, that parked while nothing has happened since.
    """
    start = W[warp].turn
    if M.policy >= RANDOM:
        start = random(M, W, 32)
    for k in range(32):
        lane = (start + k) & 31
        if (W[warp].ended | W[warp].waiting) >> lane & 1:
            continue
        if not again and W[warp].parked[lane] == M.epoch:
            continue
        group = 0
        row = W[warp].pc[lane]
        for other in range(32):
            gone = (W[warp].ended | W[warp].waiting) >> other & 1
            if gone == 0 and W[warp].pc[other] == row:
                group |= 1 << other
        W[warp].turn = (lane + 1) & 31
        return group
    return 0
