"""Matrix descriptors of wgmma: where an operand's 16-byte granules lie in shared memory.

A descriptor (64 bits): start address / 16 in bits 0-13, leading byte offset / 16 in 16-29, stride
byte offset / 16 in 32-45, base offset in 49-51, swizzle in 62-63 (0 none, 1 128, 2 64, 3 32 bytes).

*K-major*: granule (i, j) holds row i, elements j of 16 bytes along K. *MN-major* (transposed): row
i is a K index, and j counts 16 bytes along M or N.
"""

from __future__ import annotations

import numpy as np

from tiledsl.runtime.ptx_machine.core.boxes import swizzled
from tiledsl.runtime.ptx_machine.core.jit import compiled, i64, u64

# What is wrong with a descriptor.
BASE_OFFSET, RESERVED = 1, 2


@compiled(i64, u64, state=False)
def swizzle_of(descriptor: int) -> int:
    """Bytes of the swizzle's span, 0 for none."""
    mode = np.int64(descriptor >> np.uint64(62))
    return 0 if mode == 0 else 256 >> mode


@compiled(i64, u64, state=False)
def flaw(descriptor: int) -> int:
    """0, or what makes a descriptor one that this machine cannot read."""
    if descriptor >> np.uint64(49) & np.uint64(7):
        return BASE_OFFSET
    if descriptor & np.uint64(0x3FFFC000C000C000) & ~np.uint64(0x000E000000000000):
        return RESERVED
    return 0


@compiled(i64, u64, i64, i64, i64, state=False)
def granule(descriptor: int, transposed: int, i: int, j: int) -> int:
    """The shared address (within its block) of granule (i, j)."""
    start = np.int64(descriptor & np.uint64(0x3FFF)) << 4
    leading = np.int64(descriptor >> np.uint64(16) & np.uint64(0x3FFF)) << 4
    stride = np.int64(descriptor >> np.uint64(32) & np.uint64(0x3FFF)) << 4
    span = swizzle_of(descriptor)
    if transposed == 0:
        if span == 0:
            return start + (i >> 3) * stride + j * leading + (i & 7) * 16
        return swizzled(start + (i >> 3) * stride + (i & 7) * span + j * 16, span)
    if span == 0:
        return start + j * stride + (i >> 3) * leading + (i & 7) * 16
    per = span >> 4
    inside = (i & 7) * span + (j % per) * 16
    return swizzled(start + (j // per) * leading + (i >> 3) * stride + inside, span)
