"""Blocks that count in one word of global memory, to run their loops over tiles in step.

The word of a loop, 64 bits::

    63         62 ... 24            23 ... 0
    gave up    tickets: tiles       blocks that are
               that were begun      in the loop

Each block enters, takes a ticket for each of its tiles, and waits until as many tickets are gone
as all blocks take up to this round. Where that lasts too long, because some blocks do not run at
all yet, it sets the topmost bit, and from then on nobody waits: the number of tickets is large
enough for all. The last block that leaves puts the word back to zero. It does so by comparing, and
so not where another has entered since: then that one, or one behind it, is the last.

So the word is zero whenever no block is in the loop, whatever ran before: grids of any size, two
launches at once, blocks that skipped the loop. Nothing else depends on the word, and one word has
one order of changes: all accesses are relaxed.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tiledsl.codegen.ir.ops.lockstep import GridEnter, GridLeave, GridPace
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I32, I64
from tiledsl.codegen.nvptx.registry import lower

TICKET_SHIFT = 24
INSIDE = (1 << TICKET_SHIFT) - 1  # more blocks than run at once on any device
GAVE_UP = 1 << 63
# Some 70 microseconds: blocks of one launch are apart by less, unless some of them do not run.
PATIENCE = 1 << 17  # clock cycles

ENTER = "red.relaxed.gpu.global.add.u64 [$0], 1;"

# The loop stands inside of the asm, so that LLVM sees one instruction and cannot take it apart.
PACE = (
    "{ .reg .pred done; .reg .b64 word, begin, now; "
    f"red.relaxed.gpu.global.add.u64 [$0], {1 << TICKET_SHIFT}; "
    "mov.u64 begin, %clock64; "
    "WAIT${:uid}: ld.relaxed.gpu.global.u64 word, [$0]; "
    f"shr.u64 word, word, {TICKET_SHIFT}; "
    "setp.ge.u64 done, word, $1; @done bra DONE${:uid}; "
    "mov.u64 now, %clock64; sub.u64 now, now, begin; "
    f"setp.lt.u64 done, now, {PATIENCE}; @done bra WAIT${{:uid}}; "
    f"red.relaxed.gpu.global.or.b64 [$0], {GAVE_UP:#x}; "
    "DONE${:uid}: }"
)

LEAVE = (
    "{ .reg .pred last; .reg .b64 word, inside; "
    "atom.relaxed.gpu.global.add.u64 word, [$0], -1; "
    f"and.b64 inside, word, {INSIDE:#x}; setp.eq.u64 last, inside, 1; "
    "sub.u64 word, word, 1; "
    "@last atom.relaxed.gpu.global.cas.b64 inside, [$0], word, 0; }"
)


def _word(low: Lowering, counter: str) -> Any:
    """The address (i64) of a loop's word: a global that is zero when the module is loaded."""
    name = f"lockstep_{counter}".replace(".", "_")
    words = low.lockstep
    if counter not in words:
        word = ir.GlobalVariable(low.module, I64, low.module.get_unique_name(name), addrspace=1)
        word.linkage = "internal"
        word.initializer = I64(0)
        word.align = 8
        words[counter] = word
    return low.builder.ptrtoint(words[counter], I64)


@lower(GridEnter)
def _enter(low: Lowering, op: GridEnter) -> None:
    low.asm(ENTER, [("l", _word(low, op.counter))])


@lower(GridLeave)
def _leave(low: Lowering, op: GridLeave) -> None:
    low.asm(LEAVE, [("l", _word(low, op.counter))])


@lower(GridPace)
def _pace(low: Lowering, op: GridPace) -> None:
    builder = low.builder
    tile, step, total = (low.get(value) for value in op.operands)
    rounds = builder.add(builder.zext(builder.udiv(tile, step), I64), I64(1))
    dealt = builder.mul(rounds, builder.zext(step, I64))
    total = builder.zext(total, I64)
    dealt = builder.select(builder.icmp_unsigned("<", dealt, total), dealt, total)
    awaited = builder.mul(dealt, _blocks_of_a_number(low))
    low.asm(PACE, [("l", _word(low, op.counter)), ("l", awaited)])


def _blocks_of_a_number(low: Lowering) -> Any:
    """How many blocks of the launch get one number of the loop (i64).

    Those of a cluster, and those that differ along axes of the grid along which nothing is dealt:
    all but the first and those along which clusters have several blocks.
    """
    found: Any = I64(low.kernel.cluster_size)
    for axis, along in zip("yz", low.kernel.cluster_dims[1:], strict=True):
        if along == 1:
            blocks = low.intrinsic(f"llvm.nvvm.read.ptx.sreg.nctaid.{axis}", I32, ())
            found = low.builder.mul(found, low.builder.zext(blocks, I64))
    return found
