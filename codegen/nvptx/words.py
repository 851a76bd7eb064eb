"""Words of shared memory that the replicas of a role hand on with their turns."""

from __future__ import annotations

from tiledsl.codegen.ir.ops import sync
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.dispatch import warp_uniform
from tiledsl.codegen.nvptx.llvm_ext import I32
from tiledsl.codegen.nvptx.registry import lower

STORE = "st.volatile.shared::cta.u32 [$0], $1;"


def init_word(low: Lowering, op: sync.WordCreate) -> None:
    """Give the word its first value, by the thread that prepares the block."""
    low.asm(STORE, [("r", low.shared_at(op.name)), ("r", I32(op.init))])


@lower(sync.WordCreate)
def _create(low: Lowering, op: sync.WordCreate) -> None:
    low.define(op.result, low.shared_at(op.name))


@lower(sync.WordGet)
def _get(low: Lowering, op: sync.WordGet) -> None:
    """Behind the wait for the turn: the memory clobber keeps it there, and the wait acquires."""
    text = "ld.volatile.shared::cta.u32 $0, [$1];"
    word = low.asm(text, [("r", low.get(op.word))], outputs="=r", result=I32)
    # A slot that ptxas takes for different in each thread would make addresses and descriptors so.
    low.define(op.result, word if low.runner.single else warp_uniform(low, word))


@lower(sync.WordSet)
def _set(low: Lowering, op: sync.WordSet) -> None:
    operands = [("r", low.get(op.word)), ("r", low.get(op.value))]
    low.elected(STORE, operands, "role")
