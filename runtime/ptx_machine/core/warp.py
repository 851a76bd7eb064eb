"""The warp family: what lanes of a warp do together.

The lanes that the mask operand names must all come to the instruction; those that are there wait
(PARK) for the others, which may have taken another way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine import opcodes
from tiledsl.runtime.ptx_machine.core.bits import ZERO, signed
from tiledsl.runtime.ptx_machine.core.common import fault, lanes, row_of
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.core.sizes import WAIT_LANES
from tiledsl.runtime.ptx_machine.isa.warp_ops import (
    ACTIVEMASK,
    ELECT,
    MATCH,
    REDUX,
    SHFL,
    VOTE,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.opcodes import (
    D0,
    D1,
    F_DIVERGED,
    FAULTED,
    MODE,
    NEXT,
    OP,
    PARK,
    S32,
    TYPE,
    X1,
    A,
    B,
    C,
    D,
)  # fmt: skip

_WARP_BITS = 0xFFFFFFFF


@compiled(i64, i64, i64, i64)
def _gathered(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Lanes that take part together: those that name the same lanes as the first of ``mask``.

    0 if some that they name must still come, -1 after a fault. Lanes with another mask form groups
    of their own, as the tiles of cooperative groups do.
    """
    columns = i64p(row)
    values, wanted, part = lanes(M, W, warp, columns[D]), np.int64(-1), 0
    for lane in range(32):
        if (mask >> lane) & 1:
            named = np.int64(values[lane]) & _WARP_BITS
            if (named >> lane) & 1 == 0:
                fault(M, W, F_DIVERGED, warp, row_of(M, W, row), lane, named, mask)
                return -1
            if wanted < 0:
                wanted = named
            if named == wanted:
                part |= 1 << lane
    # Lanes that have ended cannot come: the hardware does not wait for them.
    if wanted & ~part & ~W[warp].ended:
        return 0
    return part


@compiled(i64, i64, i64, i64)
def _shuffle(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    columns = i64p(row)
    mode = columns[MODE]
    a, b, c = (lanes(M, W, warp, columns[A]), lanes(M, W, warp, columns[B]),
               lanes(M, W, warp, columns[C]))  # fmt: skip
    scratch = i64p(M.scratch)
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        by, clamp = np.int64(b[lane]) & 31, np.int64(c[lane]) & 31
        segment = (np.int64(c[lane]) >> 8) & 31
        most = (lane & segment) | (clamp & ~segment & 31)
        least = lane & segment
        other, fits = 0, False
        if mode == 0:
            other = least | (by & ~segment & 31)
            fits = other <= most
        elif mode == 1:
            other = lane - by
            fits = other >= most
        elif mode == 2:
            other = lane + by
            fits = other <= most
        else:
            other = lane ^ by
            fits = other <= most
        if not fits:
            other = lane
        if (mask >> other) & 1 == 0:
            fault(M, W, F_DIVERGED, warp, row_of(M, W, row), lane, other, mask)
            return FAULTED
        scratch[lane] = np.int64(a[other])
        scratch[32 + lane] = 1 if fits else 0
    for lane in range(32):
        if (mask >> lane) & 1:
            if columns[D0] >= 0:
                lanes(M, W, warp, columns[D0])[lane] = np.uint64(scratch[lane])
            if columns[D1] >= 0:
                lanes(M, W, warp, columns[D1])[lane] = np.uint64(scratch[32 + lane])
    return NEXT


@compiled(i64, i64, i64, i64)
def _vote(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    columns = i64p(row)
    a, true = lanes(M, W, warp, columns[A]), 0
    for lane in range(32):
        if (mask >> lane) & 1 and (np.int64(a[lane]) & 1) ^ columns[X1]:
            true |= 1 << lane
    mode, result = columns[MODE], true
    if mode == 0:
        result = 1 if true == mask else 0
    elif mode == 1:
        result = 1 if true else 0
    elif mode == 2:
        result = 1 if true == mask or true == 0 else 0
    if columns[D0] >= 0:
        for lane in range(32):
            if (mask >> lane) & 1:
                lanes(M, W, warp, columns[D0])[lane] = np.uint64(result)
    return NEXT


@compiled(i64, i64, i64, i64)
def _match(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    columns = i64p(row)
    a, scratch = lanes(M, W, warp, columns[A]), i64p(M.scratch)
    for lane in range(32):
        same = 0
        for other in range(32):
            if (mask >> other) & 1 and a[other] == a[lane]:
                same |= 1 << other
        if columns[MODE]:
            same = same if same == mask else 0
        scratch[lane] = same
    for lane in range(32):
        if (mask >> lane) & 1:
            if columns[D0] >= 0:
                lanes(M, W, warp, columns[D0])[lane] = np.uint64(scratch[lane])
            if columns[D1] >= 0:
                lanes(M, W, warp, columns[D1])[lane] = np.uint64(1 if scratch[lane] else 0)
    return NEXT


@compiled(i64, i64, i64, i64)
def _reduce(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    columns = i64p(row)
    a, how, total, first = lanes(M, W, warp, columns[A]), columns[MODE], ZERO, True
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        x = a[lane]
        if first:
            total, first = x, False
        elif how == 0:
            total = total + x
        elif how == 3:
            total = total & x
        elif how == 4:
            total = total | x
        elif how == 5:
            total = total ^ x
        else:
            less = x < total
            if columns[TYPE] == S32:
                less = signed(x, 32) < signed(total, 32)
            total = x if less == (how == 1) else total
    for lane in range(32):
        if (mask >> lane) & 1:
            lanes(M, W, warp, columns[D0])[lane] = total & np.uint64(_WARP_BITS)
    return NEXT


@compiled(i64, i64, i64, i64)
def _together(M: Any, W: Any, warp: int, row: int, part: int) -> int:
    """Run a row for lanes that take part together."""
    columns = i64p(row)
    op = columns[OP]
    if op == SHFL:
        return _shuffle(M, W, warp, row, part)
    if op == VOTE:
        return _vote(M, W, warp, row, part)
    if op == MATCH:
        return _match(M, W, warp, row, part)
    if op == REDUX:
        return _reduce(M, W, warp, row, part)
    if op == ELECT:
        leader = 0
        while (part >> leader) & 1 == 0:
            leader += 1
        for lane in range(32):
            if (part >> lane) & 1:
                if columns[D0] >= 0:
                    lanes(M, W, warp, columns[D0])[lane] = np.uint64(leader)
                if columns[D1] >= 0:
                    lanes(M, W, warp, columns[D1])[lane] = np.uint64(1 if lane == leader else 0)
    return NEXT  # SYNC has nothing more to do


@compiled(i64, i64, i64, i64, link=opcodes.WARP)
def step_warp(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Run a row of the warp family."""
    columns = i64p(row)
    op = columns[OP]
    if op == ACTIVEMASK:
        for lane in range(32):
            if (mask >> lane) & 1:
                lanes(M, W, warp, columns[D0])[lane] = np.uint64(mask)
        return NEXT
    # All groups must be complete before one goes on: a row is run once for all lanes at it.
    left = mask
    while left:
        part = _gathered(M, W, warp, row, left)
        if part < 0:
            return FAULTED
        if part == 0:
            W[warp].wait_kind = WAIT_LANES
            return PARK
        left &= ~part
    left, status = mask, NEXT
    while left and status == NEXT:
        part = _gathered(M, W, warp, row, left)
        status = _together(M, W, warp, row, part)
        left &= ~part
    return status
