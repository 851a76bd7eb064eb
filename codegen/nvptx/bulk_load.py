"""Bulk copies of contiguous elements to shared memory, without a tensor map.

The hardware copies multiples of 16 bytes between addresses that are multiples of 16, and counts
what it has copied on the barrier. What it cannot take, the issuing thread moves itself: the odd
elements at the end of the tensor, everything where the address is not aligned, and the zeros
behind the end. It then fences those stores, for the consumers that the barrier wakes and for the
async proxy, and completes their bytes on the barrier, which always counts the whole tile.
"""

from __future__ import annotations

from typing import Any

from tiledsl.codegen.ir.ops import copy
from tiledsl.codegen.ir.types import SharedTile
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.global_address import Source
from tiledsl.codegen.nvptx.llvm_ext import I1, I32, I64
from tiledsl.codegen.nvptx.policies import cache_policy
from tiledsl.codegen.nvptx.registry import lower

CHUNK = 16  # bytes


@lower(copy.BulkLoad)
def _bulk_load(low: Lowering, op: copy.BulkLoad) -> None:
    shared = op.tile.type
    assert isinstance(shared, SharedTile)
    builder, itemsize = low.builder, shared.dtype.itemsize
    source = Source(low, op.tensor, op.coords)
    address = source.element([I32(0)])[0]
    before, end = _inside(low, source, shared.shape[0])
    before, end = (builder.mul(n, I32(itemsize)) for n in (before, end))
    step = builder.mul(source.strides[-1], I64(itemsize))
    fits = builder.and_(
        builder.icmp_unsigned("==", builder.and_(address, I64(CHUNK - 1)), I64(0)),
        builder.and_(
            builder.icmp_signed("==", step, I64(itemsize)),
            builder.icmp_unsigned("==", before, I32(0)),
        ),
    )
    bulk = builder.select(fits, builder.and_(end, I32(-CHUNK)), I32(0))
    operands = [
        ("r", low.get(op.tile)), ("l", address), ("r", bulk), ("r", before), ("r", end),
        ("l", step), ("r", low.get(op.barrier)),
    ]  # fmt: skip
    suffix, policy = cache_policy(low, op.cache)
    hint = f", ${len(operands)}" if policy else ""
    operands += policy
    elected = ""
    if not low.runner.single:
        elected = f"${len(operands)}"
        operands.append(("b", low.runner.leads_role))
    text = _text(shared, suffix, hint, elected)
    low.asm(text, operands, convergent=not low.runner.single)


def _inside(low: Lowering, source: Source, count: int) -> tuple[Any, Any]:
    """The elements of the tile that are inside of the tensor: from ... to (i32).

    Both are 0 where none is.
    """
    builder = low.builder
    inside: Any = I1(1)
    for axis in range(source.rank - 1):
        inside = builder.and_(inside, source.at(axis, None)[1])

    def within(number: Any) -> Any:
        """An i64 cut to 0 ... count, as i32."""
        number = low.intrinsic("llvm.smax", I64, (number, I64(0)), I64)
        number = low.intrinsic("llvm.smin", I64, (number, I64(count)), I64)
        return builder.select(inside, builder.trunc(number, I32), I32(0))

    before = within(builder.sub(I64(0), source.coords[-1]))
    return before, within(builder.sub(source.extents[-1], source.coords[-1]))


def _text(shared: SharedTile, suffix: str, hint: str, elected: str) -> str:
    """The PTX, one block: LLVM must not see branches that only one thread of a role takes.

    ``$0`` tile, ``$1`` first element, ``$2`` bytes to copy in bulk, ``$3`` ... ``$4`` bytes inside
    of the tensor, ``$5`` bytes from one element to the next, ``$6`` barrier.
    """
    nbytes, itemsize, bits = shared.nbytes, shared.dtype.itemsize, shared.dtype.bits
    word = max(16, bits)
    lines = [
        f".reg .pred p; .reg .b32 at, end, to, z; .reg .b64 from; .reg .b{word} v;",
        f"@!{elected} bra DONE${{:uid}};" if elected else "",
        "setp.ne.u32 p, $2, 0;",
        f"@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{suffix}"
        f" [$0], [$1], $2, [$6]{hint};",
        f"setp.eq.u32 p, $2, {nbytes};",
        "@p bra DONE${:uid};",
        "mov.b32 at, $2; add.u32 to, $0, $2; mov.b32 z, 0;",
        f"add.u32 end, $4, {CHUNK - 1}; and.b32 end, end, {-CHUNK};",
        # Element by element up to the next whole chunk.
        "ELEMENT${:uid}: setp.ge.u32 p, at, end;",
        "@p bra ZERO${:uid};",
        "setp.ge.u32 p, at, $3; setp.lt.and.u32 p, at, $4, p;",
        f"shr.u32 z, at, {itemsize.bit_length() - 1}; cvt.u64.u32 from, z;",
        "mad.lo.s64 from, from, $5, $1;",
        f"mov.b{word} v, 0; @p ld.global.b{bits} v, [from];",
        f"st.shared.b{bits} [to], v;",
        f"add.u32 at, at, {itemsize}; add.u32 to, to, {itemsize};",
        "bra ELEMENT${:uid};",
        # Zeros, a chunk at a time.
        f"ZERO${{:uid}}: setp.ge.u32 p, at, {nbytes};",
        "@p bra FILLED${:uid};",
        "mov.b32 z, 0; st.shared.v4.b32 [to], {z, z, z, z};",
        f"add.u32 at, at, {CHUNK}; add.u32 to, to, {CHUNK};",
        "bra ZERO${:uid};",
        "FILLED${:uid}: fence.proxy.async.shared::cta; fence.acq_rel.cta;",
        f"sub.u32 at, {nbytes}, $2;",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [$6], at;",
        "DONE${:uid}:" + (" bar.warp.sync 0xffffffff;" if elected else ""),
    ]
    return "{ " + " ".join(line for line in lines if line) + " }"
