"""wgmma: asynchronous matrix products of a warpgroup.

Each of the four warps computes its 16 rows, some time between issue and wait_group: it then reads
shared memory and A's registers, and writes the accumulators. Until it has been waited for, the
operands in shared memory must stay, and the registers must not be touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.core.bits import ZERO, ones, signed, width
from tiledsl.runtime.ptx_machine.core.common import fault, lanes, random, row_of
from tiledsl.runtime.ptx_machine.core.counting import count_flight
from tiledsl.runtime.ptx_machine.core.descriptor import flaw, granule
from tiledsl.runtime.ptx_machine.core.floats import RN, pack, rounded
from tiledsl.runtime.ptx_machine.core.jit import b1, compiled, i64, none
from tiledsl.runtime.ptx_machine.core.links import EXECUTE_WGMMA, RANDOM_WGMMA, call_link
from tiledsl.runtime.ptx_machine.core.mma import element, place_in_a
from tiledsl.runtime.ptx_machine.core.order import READ, TENSOR, async_begin, async_end, observe
from tiledsl.runtime.ptx_machine.core.raw import (
    f32_bits,
    f32_of,
    f32p,
    i32p,
    i64p,
    u8p,
    u16p,
    u32p,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.core.sizes import WAIT_WARPGROUP
from tiledsl.runtime.ptx_machine.core.tensor_state import (
    E_A,
    E_A_TYPE,
    E_B,
    E_B_TYPE,
    E_COLUMNS,
    E_COUNT,
    E_D_TYPE,
    E_DONE,
    E_GROUP,
    E_ISSUED,
    E_MODE,
    E_N,
    E_ROW,
    E_SCALE,
    E_VEC,
    E_VEC2,
    WGMMAS,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.isa.tensor_ops import (
    A_NEGATED,
    A_REGISTERS,
    A_TRANSPOSED,
    B_NEGATED,
    B_TRANSPOSED,
    SATURATE,
    WG_COMMIT,
    WG_FENCE,
)  # fmt: skip
from tiledsl.runtime.ptx_machine.opcodes import (
    BF16,
    EAGER,
    F16,
    F_BOUNDS,
    F_DIVERGED,
    F_OVERFLOW,
    F_WGMMA,
    F_WGMMA_FENCE,
    FAULTED,
    MODE,
    NEXT,
    NVEC,
    OP,
    PARK,
    S32,
    SHARED_BASE,
    SHARED_WINDOW,
    TYPE,
    TYPE2,
    VEC,
    VEC2,
    X0,
    X1,
    X2,
    A,
    B,
    C,
)  # fmt: skip

ALL = 0xFFFFFFFF
_B, _SUMS = 32 * 16, 32 * 16 + 32 * 256  # in wgmma_buffer, behind A


@compiled(i64, i64, i64)
def _entry(M: Any, W: Any, warp: int, index: int) -> int:
    return M.wgmma_queue + 8 * E_COLUMNS * (warp * WGMMAS + index)


@compiled(none, i64, i64, i64, i64, i64, i64, i64, i64)
def _fetch(
    M: Any, W: Any, block: int, descriptor: int, transposed: int, first: int, rows: int, kind: int,
    target: int, pitch: int,
) -> None:  # fmt: skip
    """Rows of an operand from shared memory, as float32 [k][row]."""
    out, described = f32p(target), np.uint64(descriptor)
    size = width(kind) >> 3
    per = 16 // size
    base = M.shared + block * M.shared_stride - SHARED_BASE
    for a in range(16 if transposed else rows):
        for b in range(rows // per if transposed else 2):
            i = a if transposed else first + a
            j = first // per + b if transposed else b
            place = base + granule(described, transposed, i, j)
            for e in range(per):
                value = np.float32(0.0)
                if kind == BF16:
                    value = f32_of(np.uint32(u16p(place)[e]) << np.uint32(16))
                elif kind == F16:
                    value = f32p(M.half_table)[u16p(place)[e]]
                elif size == 4:
                    value = f32_of(u32p(place)[e] & np.uint32(0xFFFFE000))
                else:
                    value = np.float32(element(np.uint64(u8p(place)[e]), kind))
                if transposed:
                    out[a * pitch + b * per + e] = value
                else:
                    out[(b * per + e) * pitch + a] = value


@compiled(none, i64, i64, i64, i64)
def _fetch_registers(M: Any, W: Any, warp: int, place: int, kind: int, target: int) -> None:
    """This warp's 16 rows of A from its registers, as float32 [k][row]."""
    out, bits = f32p(target), width(kind)
    per = 32 // bits
    for r in range(4):
        values = lanes(M, W, warp, i64p(M.vectors)[place + r])
        for lane in range(32):
            for part in range(per):
                code = values[lane] >> np.uint64(bits * part) & ones(bits)
                at = place_in_a(r, lane, part, per)
                out[(at & 63) * 16 + (at >> 6)] = np.float32(element(code, kind))


@compiled(none, i64, i64, i64, i64, i64, state=False)
def _multiply(a_at: int, b_at: int, sums_at: int, n: int, depth: int) -> None:
    """sums[r][:n] += A[:, r] @ B[:, :n], eight steps of k at a time."""
    a = f32p(a_at)
    for r in range(16):
        sums = f32p(sums_at + 4 * 256 * r)
        for k in range(0, depth, 8):
            at = 16 * k + r
            a0, a1, a2, a3 = a[at], a[at + 16], a[at + 32], a[at + 48]
            a4, a5, a6, a7 = a[at + 64], a[at + 80], a[at + 96], a[at + 112]
            b = f32p(b_at + 4 * 256 * k)
            for c in range(n):
                sums[c] = (
                    sums[c]
                    + (a0 * b[c] + a1 * b[256 + c])
                    + (a2 * b[512 + c] + a3 * b[768 + c])
                    + (a4 * b[1024 + c] + a5 * b[1280 + c])
                    + (a6 * b[1536 + c] + a7 * b[1792 + c])
                )


@compiled(i64, i64, i64, i64, link=EXECUTE_WGMMA)
def _execute_now(M: Any, W: Any, warp: int, index: int, unused: int) -> int:
    """Do a warp's part of a product now."""
    q = i64p(_entry(M, W, warp, index))
    n, mode, kind, block = q[E_N], q[E_MODE], q[E_D_TYPE], warp // M.nwarps
    depth = 256 // width(q[E_A_TYPE])
    buffer = M.wgmma_buffer
    a_at, b_at, sums_at = buffer, buffer + 4 * _B, buffer + 4 * _SUMS
    if mode & A_REGISTERS:
        _fetch_registers(M, W, warp, q[E_VEC2], q[E_A_TYPE], a_at)
    else:
        turned = 1 if mode & A_TRANSPOSED else 0
        _fetch(M, W, block, q[E_A], turned, 16 * (warp & 3), 16, q[E_A_TYPE], a_at, 16)
    _fetch(M, W, block, q[E_B], 1 if mode & B_TRANSPOSED else 0, 0, n, q[E_B_TYPE], b_at, 256)
    negative = (mode & A_NEGATED != 0) != (mode & B_NEGATED != 0)
    if negative:
        for k in range(16 * depth):
            f32p(a_at)[k] = -f32p(a_at)[k]
    sums, integers, scaled = f32p(sums_at), kind == S32, q[E_SCALE] != 0
    # The accumulators of a lane: rows l // 4 and 8 below, columns 2 * (l % 4) and the next of 8.
    for i in range(q[E_COUNT]):
        values = lanes(M, W, warp, i64p(M.vectors)[q[E_VEC] + i])
        for lane in range(32):
            if kind == F16:
                r, c = (lane >> 2) + 8 * (i & 1), 8 * (i >> 1) + 2 * (lane & 3)
                for half in range(2):
                    code = values[lane] >> np.uint64(16 * half) & np.uint64(0xFFFF)
                    old = f32p(M.half_table)[np.int64(code)] if scaled else np.float32(0.0)
                    sums[256 * r + c + half] = old
            else:
                r = (lane >> 2) + 8 * ((i >> 1) & 1)
                c = 8 * (i >> 2) + 2 * (lane & 3) + (i & 1)
                if integers or not scaled:
                    sums[256 * r + c] = np.float32(0.0)
                else:
                    sums[256 * r + c] = f32_of(np.uint32(values[lane]))
    _multiply(a_at, b_at, sums_at, n, depth)
    for i in range(q[E_COUNT]):
        register = i64p(M.vectors)[q[E_VEC] + i]
        values = lanes(M, W, warp, register)
        i64p(M.stamps)[warp * M.nregs + register] = -1
        for lane in range(32):
            if kind == F16:
                r, c = (lane >> 2) + 8 * (i & 1), 8 * (i >> 1) + 2 * (lane & 3)
                value = ZERO
                for half in range(2):
                    total = rounded(np.float64(sums[256 * r + c + half]), 0.0, F16, RN)
                    value |= pack(total, F16) << np.uint64(16 * half)
                values[lane] = value
                continue
            r = (lane >> 2) + 8 * ((i >> 1) & 1)
            total = sums[256 * r + 8 * (i >> 2) + 2 * (lane & 3) + (i & 1)]
            if integers:
                whole = np.int64(total) + (signed(values[lane], 32) if scaled else 0)
                if mode & SATURATE:
                    whole = 0x7FFFFFFF if whole > 0x7FFFFFFF else whole
                    whole = -0x80000000 if whole < -0x80000000 else whole
                values[lane] = np.uint64(whole) & ones(32)
            elif total != total:
                values[lane] = np.uint64(0x7FFFFFFF)
            else:
                values[lane] = np.uint64(f32_bits(total))
    q[E_DONE] = 1
    return 0


@compiled(none, i64, i64)
def _execute(M: Any, W: Any, warp: int, index: int) -> None:
    call_link(M, W, EXECUTE_WGMMA, warp, index, 0)


@compiled(b1, i64, i64, i64, i64, i64, i64, i64)
def _span(
    M: Any, W: Any, warp: int, descriptor: int, transposed: int, first: int, rows: int, kind: int,
    row: int,
) -> bool:  # fmt: skip
    """Open windows over all granules of some rows of an operand."""
    per, block = 128 // width(kind), warp // M.nwarps
    for a in range(16 if transposed else rows):
        for b in range(rows // per if transposed else 2):
            i = a if transposed else first + a
            j = first // per + b if transposed else b
            offset = granule(np.uint64(descriptor), transposed, i, j) - SHARED_BASE
            if offset < 0 or offset + 16 > M.shared_size:
                fault(M, W, F_BOUNDS, warp, row, -1, (offset + SHARED_BASE) | SHARED_WINDOW, 16)
                return False
            if not async_begin(M, W, warp, TENSOR, block, offset, 16, READ, row):
                return False
    return True


@compiled(none, i64, i64, i64, i64, i64, i64, i64)
def _close(
    M: Any, W: Any, warp: int, descriptor: int, transposed: int, first: int, rows: int, kind: int,
    row: int,
) -> None:  # fmt: skip
    """Close the windows of some rows of an operand."""
    per, block = 128 // width(kind), warp // M.nwarps
    for a in range(16 if transposed else rows):
        for b in range(rows // per if transposed else 2):
            i = a if transposed else first + a
            j = first // per + b if transposed else b
            offset = granule(np.uint64(descriptor), transposed, i, j) - SHARED_BASE
            async_end(M, W, warp, TENSOR, block, offset, 16, READ, row)


@compiled(i64, i64, i64, i64)
def step_wgmma(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """Issue a product: check the operands, and put it into the warp's queue."""
    columns, number = i64p(row), row_of(M, W, row)
    if mask != ALL or warp % M.nwarps // 4 * 4 + 4 > M.nwarps:
        fault(M, W, F_DIVERGED, warp, number, -1, mask, ALL)
        return FAULTED
    if W[warp].wgmmas >= WGMMAS:
        fault(M, W, F_OVERFLOW, warp, number, -1, WGMMAS, 3)
        return FAULTED
    q = i64p(_entry(M, W, warp, W[warp].wgmmas))
    mode = columns[MODE]
    b = lanes(M, W, warp, columns[B])
    scale = lanes(M, W, warp, columns[C])
    a = lanes(M, W, warp, columns[A] if columns[A] >= 0 else columns[B])
    for lane in range(1, 32):
        if a[lane] != a[0] or b[lane] != b[0] or (scale[lane] ^ scale[0]) & np.uint64(1):
            fault(M, W, F_DIVERGED, warp, number, lane, np.int64(a[lane]), np.int64(b[lane]))
            return FAULTED
    if mode & A_REGISTERS == 0 and flaw(a[0]):
        fault(M, W, F_WGMMA, warp, number, 0, np.int64(a[0]), flaw(a[0]))
        return FAULTED
    if flaw(b[0]):
        fault(M, W, F_WGMMA, warp, number, 1, np.int64(b[0]), flaw(b[0]))
        return FAULTED
    q[E_VEC], q[E_N], q[E_MODE], q[E_COUNT] = columns[VEC], columns[X1], mode, columns[NVEC]
    q[E_A_TYPE], q[E_B_TYPE], q[E_D_TYPE] = columns[TYPE], columns[TYPE2], columns[X0]
    q[E_SCALE] = (np.int64(scale[0]) & 1) ^ columns[X2]
    q[E_A], q[E_B], q[E_GROUP] = np.int64(a[0]), np.int64(b[0]), W[warp].wgmma_groups
    q[E_ROW], q[E_DONE], q[E_VEC2] = number, 0, columns[VEC2]
    q[E_ISSUED] = M.instructions
    if M.checks:
        for i in range(columns[NVEC] + (4 if mode & A_REGISTERS else 0)):
            at = columns[VEC] + i if i < columns[NVEC] else columns[VEC2] + i - columns[NVEC]
            place = warp * M.nregs + i64p(M.vectors)[at]
            # Without any fence so far, not even the first product may be issued.
            if i64p(M.stamps)[place] == W[warp].wgmma_fences or W[warp].wgmma_fences == 0:
                fault(M, W, F_WGMMA_FENCE, warp, number, -1, i64p(M.vectors)[at], 0)
                return FAULTED
            if i < columns[NVEC]:
                i32p(M.inflight)[place] += np.int32(1)
            else:
                i32p(M.inflight_a)[place] += np.int32(1)
        turned = 1 if mode & B_TRANSPOSED else 0
        # All four warps read the whole of B: the first one keeps the record.
        if warp & 3 == 0 and not _span(M, W, warp, q[E_B], turned, 0, q[E_N], q[E_B_TYPE], number):
            return FAULTED
        if mode & A_REGISTERS == 0:
            turned = 1 if mode & A_TRANSPOSED else 0
            if not _span(M, W, warp, q[E_A], turned, 16 * (warp & 3), 16, q[E_A_TYPE], number):
                return FAULTED
    W[warp].wgmmas += 1
    if M.policy == EAGER:
        _execute(M, W, warp, W[warp].wgmmas - 1)
    return NEXT


@compiled(none, i64, i64)
def _retire(M: Any, W: Any, warp: int, limit: int) -> None:
    """Finish a warp's products of all groups below ``limit``."""
    done = 0
    while done < W[warp].wgmmas and i64p(_entry(M, W, warp, done))[E_GROUP] < limit:
        q = i64p(_entry(M, W, warp, done))
        if q[E_DONE] == 0:
            _execute(M, W, warp, done)
        count_flight(M, W, q[E_ROW], q[E_ISSUED])
        if M.checks:
            mode = q[E_MODE]
            for i in range(q[E_COUNT]):
                i32p(M.inflight)[warp * M.nregs + i64p(M.vectors)[q[E_VEC] + i]] -= np.int32(1)
            if mode & A_REGISTERS:
                for i in range(4):
                    place = warp * M.nregs + i64p(M.vectors)[q[E_VEC2] + i]
                    i32p(M.inflight_a)[place] -= np.int32(1)
            else:
                turned = 1 if mode & A_TRANSPOSED else 0
                _close(M, W, warp, q[E_A], turned, 16 * (warp & 3), 16, q[E_A_TYPE], q[E_ROW])
            if warp & 3 == 0:
                turned = 1 if mode & B_TRANSPOSED else 0
                _close(M, W, warp, q[E_B], turned, 0, q[E_N], q[E_B_TYPE], q[E_ROW])
        done += 1
    if done == 0:
        return
    left = W[warp].wgmmas - done
    for k in range(left * E_COLUMNS):
        i64p(_entry(M, W, warp, 0))[k] = i64p(_entry(M, W, warp, done))[k]
    W[warp].wgmmas = left


@compiled(i64, i64, i64, i64)
def step_wgmma_sync(M: Any, W: Any, warp: int, row: int, mask: int) -> int:
    """WG_FENCE, WG_COMMIT, WG_WAIT."""
    columns = i64p(row)
    if mask != ALL:
        fault(M, W, F_DIVERGED, warp, row_of(M, W, row), -1, mask, ALL)
        return FAULTED
    if columns[OP] == WG_FENCE:
        W[warp].wgmma_fences += 1
        return NEXT
    if columns[OP] == WG_COMMIT:
        W[warp].wgmma_groups += 1
        M.epoch += 1
        return NEXT
    limit = W[warp].wgmma_groups - columns[X0]
    if limit <= 0:
        return NEXT
    first = warp // M.nwarps * M.nwarps + warp % M.nwarps // 4 * 4
    last = first + 4
    if last > (warp // M.nwarps + 1) * M.nwarps:
        last = (warp // M.nwarps + 1) * M.nwarps
    # A product starts when all four warps have issued it.
    for other in range(first, last):
        if W[other].wgmma_groups < limit and W[warp].wgmmas:
            W[warp].wait_kind = WAIT_WARPGROUP
            return PARK
    for other in range(first, last):
        _retire(M, W, other, limit)
        if M.error[0]:
            return FAULTED
        if M.checks:
            observe(M, W, warp, TENSOR, other)
    return NEXT


@compiled(i64, i64, i64, i64, link=RANDOM_WGMMA)
def _perform_random(M: Any, W: Any, warp: int, unused: int, unused_too: int) -> int:
    """Do a warp's next product that has not been done, perhaps."""
    for index in range(W[warp].wgmmas):
        if i64p(_entry(M, W, warp, index))[E_DONE] == 0:
            if random(M, W, 2):
                _execute(M, W, warp, index)
            return 0
    return 0
