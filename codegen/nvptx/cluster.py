"""Clusters: this block's rank, the blocks it shares barriers with, and where all of them meet."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import sync
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I32
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.codegen.nvptx.targets import Target
from tiledsl.errors import InvalidValue, TargetNotSupported

MAX_AXES = 3

ARRIVE = "barrier.cluster.arrive.aligned;"
# What came before need not be seen by the others: a fence has said what must be.
ARRIVE_RELAXED = "barrier.cluster.arrive.relaxed.aligned;"
WAIT = "barrier.cluster.wait.aligned;"


def check_cluster(kernel: Kernel, target: Target) -> None:
    """Raise unless a block of this target can be one of such a cluster."""
    shape = kernel.cluster
    size = kernel.cluster_size
    if not 1 <= len(shape) <= MAX_AXES or any(extent < 1 for extent in shape):
        raise InvalidValue(
            f"a cluster has one to {MAX_AXES} axes with at least one block each: got {shape}",
            kernel.loc,
        )
    if size == 1:
        return
    if "cluster" not in target.features:
        raise TargetNotSupported(f"{target.name} has no clusters: got cluster={shape}", kernel.loc)
    if size > target.cluster_blocks:
        raise InvalidValue(
            f"a cluster of {target.name} has at most {target.cluster_blocks} blocks: got {size},"
            f" cluster={shape}",
            kernel.loc,
            hint="use a smaller cluster",
        )


def rank(low: Lowering) -> Any:
    """i32 rank of this block in its cluster, the first axis fastest."""
    if low.kernel.cluster_size == 1:
        return I32(0)
    return low.intrinsic("llvm.nvvm.read.ptx.sreg.cluster.ctarank", I32, ())


def coordinate(low: Lowering, axis: int) -> Any:
    """i32 coordinate of this block in its cluster along one axis."""
    shape = low.kernel.cluster
    if axis >= len(shape) or shape[axis] == 1:
        return I32(0)
    builder = low.builder
    found = rank(low)
    stride = prod(shape[:axis])
    if stride > 1:
        found = builder.udiv(found, I32(stride))
    if stride * shape[axis] < prod(shape):
        found = builder.urem(found, I32(shape[axis]))
    return found


class Peers:
    """Blocks of the cluster that share something with this one, itself included.

    They differ from it in the coordinate of at most one of ``axes``; with ``spans`` in those of
    any of ``axes``. Numbered 0 ... ``count`` - 1.
    """

    def __init__(self, low: Lowering, axes: Sequence[int], *, spans: bool = False) -> None:
        self.low = low
        shape = low.kernel.cluster
        self.axes = [a for a in sorted(set(axes)) if a < len(shape) and shape[a] > 1]
        extents = [shape[axis] for axis in self.axes]
        self.spans = spans or len(extents) < 2
        self.count = prod(extents) if self.spans else 1 + sum(e - 1 for e in extents)

    def rank(self, number: Any) -> Any:
        """i32 rank of peer ``number`` (i32, less than ``count``), without a branch."""
        return self._in_box(number) if self.spans else self._on_cross(number)

    def _in_box(self, number: Any) -> Any:
        """The first of the axes counts fastest."""
        builder, shape = self.low.builder, self.low.kernel.cluster
        found = rank(self.low)
        for place, axis in enumerate(self.axes):
            there = number
            if place:
                there = builder.udiv(there, I32(prod(shape[a] for a in self.axes[:place])))
            if place + 1 < len(self.axes):
                there = builder.urem(there, I32(shape[axis]))
            found = self._moved(found, axis, there)
        return found

    def _on_cross(self, number: Any) -> Any:
        """First those along the first axis, this block among them, then others along the next."""
        builder, shape = self.low.builder, self.low.kernel.cluster
        found = rank(self.low)
        first = 0
        for place, axis in enumerate(self.axes):
            there = builder.sub(number, I32(first)) if first else number
            if place:  # this block has had its turn
                passed = builder.icmp_signed(">=", there, coordinate(self.low, axis))
                there = builder.add(there, builder.zext(passed, I32))
            along = self._moved(rank(self.low), axis, there)
            is_here = builder.icmp_signed(">=", number, I32(first))
            found = builder.select(is_here, along, found) if place else along
            first += shape[axis] - bool(place)
        return found

    def _moved(self, block: Any, axis: int, to: Any) -> Any:
        """The rank ``block``, moved along ``axis`` from this block's coordinate to ``to``."""
        builder = self.low.builder
        by = builder.sub(to, coordinate(self.low, axis))
        return builder.add(block, builder.mul(by, I32(prod(self.low.kernel.cluster[:axis]))))


def address_in(low: Lowering, address: Any, block: Any) -> Any:
    """i32 address of what lies at ``address`` (i32) in the block of rank ``block`` (i32)."""
    text = "mapa.shared::cluster.u32 $0, $1, $2;"
    operands = [("r", address), ("r", block)]
    return low.asm(text, operands, outputs="=r", result=I32, pure=True)


@lower(sync.ClusterRank)
def _rank(low: Lowering, op: sync.ClusterRank) -> None:
    low.define(op.result, rank(low))


@lower(sync.ClusterSync)
def _sync(low: Lowering, op: sync.ClusterSync) -> None:
    single = low.runner.single
    if low.kernel.cluster_size == 1:
        if not single:
            low.asm("bar.sync 0;", convergent=True)
    elif single:  # all other threads have exited, see dispatch
        low.asm("barrier.cluster.arrive; barrier.cluster.wait;", convergent=True)
    else:
        low.asm(f"{ARRIVE} {WAIT}", convergent=True)


def leave_together(low: Lowering) -> None:
    """No block ends while another could still signal its barriers or write into its tiles.

    All threads get here: those that had nothing to do, and the 31 beside an elected one, which
    meet it first because a warp takes part as a whole.
    """
    low.asm(f"bar.warp.sync 0xffffffff; {ARRIVE} {WAIT}", convergent=True)
