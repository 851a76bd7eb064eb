"""Blocks of a cluster that take the same tile: which share is this block's, and who gets it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from tiledsl.codegen.ir.core import Op
from tiledsl.codegen.nvptx.cluster import coordinate, rank
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I16, I32
from tiledsl.errors import InvalidValue


@dataclass(frozen=True, slots=True)
class Multicast:
    """The blocks that differ from this one along some cluster axes only, itself included.

    Attributes:
        index: this block's number among them, the first axis fastest (i32).
        mask: one bit for the rank of each of them (i16).
        first: whether this block is number 0 (i1).
    """

    index: Any
    mask: Any
    first: Any


def multicast(low: Lowering, op: Op, axes: tuple[int, ...]) -> Multicast | None:
    """The group of this block along ``axes``; None where it is alone.

    Raises:
        InvalidValue: an axis that the cluster does not have.
    """
    dims = low.kernel.cluster
    if any(not 0 <= axis < len(dims) for axis in axes):
        raise InvalidValue(
            f"{op.opcode}: multicast along cluster axes {axes}: expected axes of the cluster"
            f" {dims}",
            op.loc,
            hint="declare the cluster: @td.kernel(cluster=(2, 1))",
        )
    axes = tuple(sorted({axis for axis in axes if dims[axis] > 1}))
    if not axes:
        return None
    builder = low.builder
    steps = {axis: prod(dims[:axis]) for axis in axes}  # ranks from one block to the next
    index: Any = I32(0)
    base = rank(low)  # the rank of number 0
    weight = 1
    for axis in axes:
        here = coordinate(low, axis)
        index = builder.add(index, builder.mul(here, I32(weight)))
        base = builder.sub(base, builder.mul(here, I32(steps[axis])))
        weight *= dims[axis]
    pattern = 0
    for place in product(*(range(dims[axis]) for axis in axes)):
        pattern |= 1 << sum(n * steps[axis] for n, axis in zip(place, axes, strict=True))
    mask = builder.trunc(builder.shl(I32(pattern), base), I16)
    return Multicast(index, mask, builder.icmp_unsigned("==", index, I32(0)))
