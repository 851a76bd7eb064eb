"""What all families need: faults, random numbers, registers, masks of lanes.

The signature of a family's step is ``i64(M, W, warp, row, mask)``: ``row`` points to the columns of
the instruction, bit ``l`` of ``mask`` says whether lane l takes part. It returns NEXT; PARK, to be
run again when an event has happened; FAULTED; or, in control, JUMPED.
"""

from __future__ import annotations

from typing import Any

from tiledsl.runtime.ptx_machine.core.jit import compiled, i64, none, pi64, pu64
from tiledsl.runtime.ptx_machine.core.raw import i64p, u64p
from tiledsl.runtime.ptx_machine.core.sizes import COUNTS
from tiledsl.runtime.ptx_machine.opcodes import RANK_SHIFT

__all__ = ["block_at", "count_lanes", "counts_of", "fault", "lanes", "random", "row_of", "vector"]


@compiled(none, i64, i64, i64, i64, i64, i64)
def fault(
    M: Any, W: Any, code: int, warp: int, row: int, lane: int, first: int, second: int
) -> None:
    """Note a fault, if it is the first: its code (F_...), where, and two numbers for the message.

    ``row``: the number of the row, as ``M.code`` counts.
    """
    if M.error[0] == 0:
        M.error[0] = code
        M.error[1] = warp
        M.error[2] = row
        M.error[3] = lane
        M.error[4] = first
        M.error[5] = second


@compiled(i64, i64)
def random(M: Any, W: Any, below: int) -> int:
    """A random number, 0 <= it < below."""
    x = (M.rng * 6364136223846793005 + 1442695040888963407) & 0x7FFFFFFFFFFFFFFF
    M.rng = x
    return (x >> 33) % below


@compiled(pu64, i64, i64)
def lanes(M: Any, W: Any, warp: int, register: int) -> Any:
    """The 32 values of a register."""
    return u64p(M.regs + (((warp * M.nregs) + register) << 8))


@compiled(i64, i64)
def vector(M: Any, W: Any, place: int) -> int:
    """Entry of the list of vectors: a register number, or a word of the family's own."""
    return i64p(M.vectors)[place]


@compiled(i64, i64)
def row_of(M: Any, W: Any, address: int) -> int:
    """The number of the row at an address in ``M.code``."""
    return (address - M.code) >> 8


@compiled(pi64, i64)
def counts_of(M: Any, W: Any, number: int) -> Any:
    """What is counted of the row with a number."""
    return i64p(M.row_counts + 8 * COUNTS * number)


@compiled(i64, i64, i64)
def block_at(M: Any, W: Any, warp: int, address: int) -> int:
    """The block whose shared memory an address in the shared window means, -1 if there is none."""
    rank = address >> RANK_SHIFT
    if rank < 0 or rank >= M.cluster_size:
        return -1
    block = warp // M.nwarps
    return block - block % M.cluster_size + rank


@compiled(i64, i64, state=False)
def count_lanes(mask: int) -> int:
    """The number of lanes in a mask."""
    x = mask - ((mask >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    return (((x + (x >> 4)) & 0x0F0F0F0F) * 0x01010101 >> 24) & 0xFF
