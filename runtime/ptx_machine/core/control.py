"""Operations of the family "control" that are no branches: clocks, vprintf, __assertfail."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.core.address import in_arrays, space_of
from tiledsl.runtime.ptx_machine.core.common import fault, lanes, row_of
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64, none
from tiledsl.runtime.ptx_machine.core.order import READ
from tiledsl.runtime.ptx_machine.core.raw import i64p, u8p
from tiledsl.runtime.ptx_machine.isa.control_ops import (
    ASSERT,
    CLOCK,
    PRINT,
    PRINT_ARGUMENTS,
    PRINT_BYTES,
    PRINT_FORMAT,
    PRINT_LANE,
    PRINT_WARP,
    PRINT_WORDS,
)
from tiledsl.runtime.ptx_machine.opcodes import (
    CONTROL,
    D0,
    F_TRAP,
    F_UNSUPPORTED,
    FAULTED,
    LOCAL,
    NEXT,
    OP,
    VEC,
    WINDOW_MASK,
    X0,
    A,
    B,
)

__all__ = ["step_control"]

_LOW = 0xFFFFFFFF


@compiled(none, i64, i64, i64)
def _clock(M: Any, W: Any, warp: int, row: int, mask: int) -> None:
    """Time is the number of instructions that were run: it grows, and it is reproducible."""
    columns = i64p(row)
    which, time = columns[X0], M.instructions
    if which in (0, 4):  # %clock, %globaltimer_lo
        time = time & _LOW
    elif which in (1, 5):  # %clock_hi, %globaltimer_hi
        time = time >> 32
    values = lanes(M, W, warp, columns[D0])
    for lane in range(32):
        if (mask >> lane) & 1:
            values[lane] = np.uint64(time)


@compiled(i64, i64, i64, i64, i64, i64)
def _print_lane(M: Any, W: Any, warp: int, number: int, lane: int, text: int, given: int) -> int:
    """Put a call on record: FAULTED, or NEXT."""
    if M.printed < M.prints_limit:
        record = i64p(M.prints + 8 * PRINT_WORDS * M.printed)
        record[PRINT_WARP], record[PRINT_LANE] = warp, lane
        record[PRINT_FORMAT], record[PRINT_BYTES] = text, 0
        if given:
            # How long the arguments are, the format says, which the host reads.
            offset = given & WINDOW_MASK
            if space_of(given) != LOCAL or offset >= M.local_size:
                fault(M, W, F_UNSUPPORTED, warp, number, lane, given, 0)
                return FAULTED
            count = min(M.local_size - offset, 8 * (PRINT_WORDS - PRINT_ARGUMENTS))
            source = u8p(M.local + (warp * 32 + lane) * M.local_size + offset)
            target = u8p(M.prints + 8 * (PRINT_WORDS * M.printed + PRINT_ARGUMENTS))
            for k in range(count):
                target[k] = source[k]
            record[PRINT_BYTES] = count
    M.printed += 1
    return NEXT


@compiled(i64, i64, i64, i64)
def _print(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    columns = i64p(row)
    number = row_of(M, W, row)
    texts, given = lanes(M, W, warp, columns[A]), lanes(M, W, warp, columns[B])
    results = lanes(M, W, warp, columns[D0])
    for lane in range(32):
        if (mask >> lane) & 1:
            if in_arrays(M, W, warp, number, lane, i64(texts[lane]), 1, READ) == 0:
                return FAULTED
            if _print_lane(M, W, warp, number, lane, i64(texts[lane]), i64(given[lane])) != NEXT:
                return FAULTED
            results[lane] = np.uint64(0)
    return NEXT


@compiled(i64, i64, i64, i64)
def _assert(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """A fault; its numbers are the addresses of message and file, the line, and the function's."""
    first = 0
    while (mask >> first) & 1 == 0:
        first += 1
    place = i64p(row)[VEC]
    vectors = i64p(M.vectors)
    message = i64(lanes(M, W, warp, vectors[place])[first])
    line = i64(lanes(M, W, warp, vectors[place + 2])[first])
    if M.error[0] == 0:
        M.error[6] = i64(lanes(M, W, warp, vectors[place + 1])[first])
        M.error[7] = i64(lanes(M, W, warp, vectors[place + 3])[first])
    fault(M, W, F_TRAP, warp, row_of(M, W, row), first, message, line)
    return FAULTED


@compiled(i64, i64, i64, i64, link=CONTROL)
def step_control(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Run a row that is no branch, exit or trap."""
    op, status = i64p(row)[OP], NEXT
    if op == CLOCK:
        _clock(M, W, warp, row, mask)
    elif op == PRINT:
        status = _print(M, W, warp, row, mask)
    elif op == ASSERT:
        status = _assert(M, W, warp, row, mask)
    return status
