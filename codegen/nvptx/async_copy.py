"""Copies to shared memory by ``cp.async``, by all threads of a role; any alignment and strides.

The width of a copy, 16, 8 or 4 bytes, is chosen at run time from the tensor's address, strides and
the coordinates, all of which are the same in every thread: one branch, and a loop for each width.
Elements that are four bytes or more can always be copied one by one so; smaller ones of a tensor
that is less aligned go through registers (``ld.global``, ``st.shared``). What lies outside of the
tensor is filled with zeros by the copy itself, which reads fewer bytes than it writes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tiledsl.codegen.ir.ops import copy
from tiledsl.codegen.ir.types import SharedTile
from tiledsl.codegen.nvptx import packing
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.global_address import Source
from tiledsl.codegen.nvptx.llvm_ext import I32, I64
from tiledsl.codegen.nvptx.registry import lower
from tiledsl.codegen.nvptx.shared_address import shared_address

WIDTHS = (16, 8, 4)  # bytes of one copy


@lower(copy.AsyncCopy)
def _async_copy(low: Lowering, op: copy.AsyncCopy) -> None:
    shared = op.tile.type
    assert isinstance(shared, SharedTile)
    builder, itemsize = low.builder, shared.dtype.itemsize
    threads, thread = _threads(low)
    source = Source(low, op.tensor, op.coords)
    columns = shared.shape[-1]
    wide = [w for w in WIDTHS if w > itemsize and columns * itemsize % w == 0]
    address = low.get(op.tile)

    def loop(width: int) -> None:
        step = max(1, width // itemsize)  # elements of one copy
        count = prod(shared.shape) // step

        def body(number: Any) -> None:
            row, column = _split(low, number, columns // step)
            if step > 1:
                column = builder.mul(column, I32(step))
            to = shared_address(low, address, shared, row, builder.mul(column, I32(itemsize)))
            _copy(low, op, source, shared, to, _indices(low, row, column, shared.shape), width)

        _for_each(low, thread, threads, count, body)

    behind = low.label("copied")
    if wide:
        loose = source.alignment()  # bits that are 0 where everything is aligned
    for width in wide:
        aligned, else_ = low.label(f"copy{width}"), low.label("narrower")
        bits = builder.and_(loose, I32(width - 1))
        builder.cbranch(builder.icmp_unsigned("==", bits, I32(0)), aligned, else_)
        builder.position_at_end(aligned)
        loop(width)
        builder.branch(behind)
        builder.position_at_end(else_)
    loop(itemsize)
    if itemsize < min(WIDTHS):
        # The arrival that follows is one of the copies' own: these stores must come before it.
        low.asm("fence.acq_rel.cta;")
    builder.branch(behind)
    builder.position_at_end(behind)


def _threads(low: Lowering) -> tuple[int, Any]:
    """How many threads copy, and this thread's number among them (i32)."""
    role = low.runner.role
    if role is None or low.runner.single:
        return 1, I32(0)
    first = role.first_warp * 32
    thread = low.builder.sub(low.thread, I32(first)) if first else low.thread
    return role.parts * role.part_threads, thread


def _split(low: Lowering, number: Any, by: int) -> tuple[Any, Any]:
    """``number`` divided by a constant: quotient and remainder."""
    return low.builder.udiv(number, I32(by)), low.builder.urem(number, I32(by))


def _indices(low: Lowering, row: Any, column: Any, shape: tuple[int, ...]) -> list[Any]:
    """The indices in the tile of an element, from its row counted through and its column."""
    found = [column]
    for extent in shape[-2:0:-1]:
        row, index = _split(low, row, extent)
        found.append(index)
    if len(shape) > 1:
        found.append(row)
    return found[::-1]


def _for_each(
    low: Lowering, thread: Any, threads: int, count: int, body: Callable[[Any], None]
) -> None:
    """Run ``body`` for the numbers below ``count`` that are this thread's: every ``threads``-th.

    A loop whose trip count is a constant wherever the threads divide the work, so that LLVM may
    unroll it: the copies depend on nothing but their number.
    """
    builder = low.builder
    start = builder.block
    top, inside, step, behind = (low.label(f"copy.{n}") for n in ("top", "one", "next", "end"))
    builder.branch(top)
    builder.position_at_end(top)
    done = builder.phi(I32)
    done.add_incoming(I32(0), start)
    number = builder.add(thread, done)
    rest = count % threads
    if rest:
        mine = builder.icmp_unsigned("<", number, I32(count))
        builder.cbranch(mine, inside, step)
    else:
        builder.branch(inside)
    builder.position_at_end(inside)
    body(number)
    builder.branch(step)
    builder.position_at_end(step)
    following = builder.add(done, I32(threads))
    done.add_incoming(following, step)
    builder.cbranch(builder.icmp_unsigned("<", following, I32(count)), top, behind)
    builder.position_at_end(behind)


def _copy(
    low: Lowering,
    op: copy.AsyncCopy,
    source: Source,
    shared: SharedTile,
    to: Any,
    indices: list[Any],
    width: int,
) -> None:
    """Copy ``width`` bytes from the element at ``indices`` of the tile on."""
    builder, itemsize = low.builder, shared.dtype.itemsize
    address, inside = source.element(indices)
    if width < min(WIDTHS):
        _through_register(low, shared, to, address, inside)
        return
    nbytes: Any = I32(width)
    if width > itemsize:
        # A copy never straddles column 0 of the tensor: the alignment says so.
        left = builder.mul(source.left(indices), I64(itemsize))
        fits = builder.icmp_signed(">", left, I64(width))
        nbytes = builder.select(fits, I32(width), builder.trunc(left, I32))
    nbytes = builder.select(inside, nbytes, I32(0))
    cache = "cg" if width == 16 else "ca"  # 16 bytes may pass by the first-level cache
    low.asm(
        f"cp.async.{cache}.shared.global [$0], [$1], {width}, $2;",
        [("r", to), ("l", address), ("r", nbytes)],
    )


def _through_register(
    low: Lowering, shared: SharedTile, to: Any, address: Any, inside: Any
) -> None:
    bits = shared.dtype.bits
    constraint, kind = packing.register(shared.dtype)
    loaded = low.asm(
        f"mov.b16 $0, 0; @$2 ld.global.b{bits} $0, [$1];",
        [("l", address), ("b", inside)],
        outputs=f"=&{constraint}",
        result=kind,
    )
    low.asm(f"st.shared.b{bits} [$0], $1;", [("r", to), (constraint, loaded)])
