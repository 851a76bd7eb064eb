"""Memory that the tensor family needs, for the host to allocate."""

from __future__ import annotations

WGMMAS = 64  # in flight, of a warp
# An entry: place of the accumulators, N, mode, types of A, B, D, scale-d, descriptors, group, row,
# whether it has been done, place of A's registers, step at which it was issued.
(E_VEC, E_N, E_MODE, E_A_TYPE, E_B_TYPE, E_D_TYPE, E_SCALE, E_A, E_B, E_GROUP, E_ROW, E_DONE,
 E_VEC2, E_COUNT, E_ISSUED) = range(15)  # fmt: skip
E_COLUMNS = 16


def tensor_buffers(warps: int, registers: int) -> dict[str, tuple[str, tuple[int, ...], int]]:
    """Fields of the machine's record: dtype, shape, and what each cluster starts with."""
    return {
        "wgmma_queue": ("i8", (warps, WGMMAS, E_COLUMNS), 0),
        "inflight": ("i4", (warps, registers), 0),
        "inflight_a": ("i4", (warps, registers), 0),
        "stamps": ("i8", (warps, registers), -1),
        "mma_buffer": ("f8", (4096,), 0),
        # A [32][16], B [32][256], sums [16][256]: float32.
        "wgmma_buffer": ("f4", (32 * 16 + 32 * 256 + 16 * 256,), 0),
    }
