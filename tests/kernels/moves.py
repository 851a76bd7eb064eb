"""Kernels that move tiles and compute nothing, by every way that the language has.

Each case makes fresh arrays, runs on a place (``places.py``) and compares bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

import tiledsl as td
from tests.kernels.places import Place, poisoned, random_array, same_bits

DTYPES = (
    np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.uint8, np.int16, np.int32,
    np.int64, ml_dtypes.float8_e4m3fn,
)  # fmt: skip

# --------------------------------------------------------------- register tiles, global memory


@td.kernel(grid=1, warps=8)
def shift(x: td.Tensor, y: td.Tensor, fr: td.int32, fc: td.int32, tr: td.int32, tc: td.int32,
          *, rows: td.Constant[int] = 128, columns: td.Constant[int] = 24):  # fmt: skip
    """A tile of x at (fr, fc) goes to (tr, tc) of y, by registers."""
    td.store(td.load(x, (fr, fc), (rows, columns)), y, (tr, tc))


@td.kernel(grid=1, warps=4)
def shift_line(x: td.Tensor, y: td.Tensor, plane: td.int32, first: td.int32, to: td.int32,
               *, length: td.Constant[int] = 64):  # fmt: skip
    """length elements of x[plane, 1, first:] go to y[to:], by a tile of rank 1."""
    td.store(td.load(x, (plane, 1, first), (length,)), y, (to,))


def window(x: Any, first: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """x[first : first + shape], zero outside."""
    found = np.zeros(shape, x.dtype)
    _overlap(found, x, first)
    return found


def put_window(y: Any, first: tuple[int, ...], tile: Any) -> None:
    """Write a tile into y, nothing outside."""
    inside = tuple(
        slice(max(0, at), max(0, min(extent, at + size)))
        for at, extent, size in zip(first, y.shape, tile.shape, strict=True)
    )
    own = tuple(slice(s.start - at, s.stop - at) for s, at in zip(inside, first, strict=True))
    if all(s.stop > s.start for s in inside):
        y[inside] = tile[own]


def _overlap(found: Any, x: Any, first: tuple[int, ...]) -> None:
    inside = tuple(
        slice(max(0, at), max(0, min(extent, at + size)))
        for at, extent, size in zip(first, x.shape, found.shape, strict=True)
    )
    own = tuple(slice(s.start - at, s.stop - at) for s, at in zip(inside, first, strict=True))
    if all(s.stop > s.start for s in inside):
        found[own] = x[inside]


def run_shift(place: Place, rng: np.random.Generator, dtype: Any, tile: tuple[int, int]) -> None:
    """Any extents, any corner, partly or wholly outside."""
    shapes = [tuple(int(n) for n in rng.integers(1, 200, 2)) for _ in range(2)]
    corners = [tuple(int(n) for n in rng.integers(-60, 150, 2)) for _ in range(2)]
    x, y = random_array(rng, shapes[0], dtype), poisoned(shapes[1], dtype)
    expected = y.copy()
    put_window(expected, corners[1], window(x, corners[0], tile))
    out = place.put(y)
    shift(place.put(x), out, *corners[0], *corners[1], rows=tile[0], columns=tile[1])
    same_bits(place.get(out), expected, f"{shapes} {corners} {dtype}")


def run_shift_line(place: Place, rng: np.random.Generator, dtype: Any, length: int) -> None:
    shape = tuple(int(n) for n in rng.integers(2, 90, 3))
    size = int(rng.integers(1, 90))
    plane, first, to = (int(rng.integers(-1, shape[0])), *map(int, rng.integers(-40, 80, 2)))
    x, y = random_array(rng, shape, dtype), poisoned((size,), dtype)
    expected = y.copy()
    put_window(expected, (to,), window(x, (plane, 1, first), (1, 1, length))[0, 0])
    out = place.put(y)
    shift_line(place.put(x), out, plane, first, to, length=length)
    same_bits(place.get(out), expected, f"{shape} {plane} {first} -> {to} {dtype}")


# --------------------------------------------------------------------- through a ring of tiles


@td.kernel(grid=td.persistent)
def through_a_ring(
    x: td.Tensor,
    y: td.Tensor,
    *,
    way: td.Constant[str],
    stages: td.Constant[int] = 2,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 32,
    warps: td.Constant[int] = 4,
):
    """y = x: tiles come into a ring by ``way``, and leave it through registers."""
    M, N = y.shape
    ring = td.InputTilePipeline(td.TileArray(x.dtype, (BM, BN), stages), stages)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN))
    with td.role("fill", warps=1 if way == "tma" else warps):
        for m, n in tiles:
            with ring.producer().acquire() as stage:
                if way == "tma":
                    td.tma_prefetch(x, (m * BM, (n + 1) * BN), (BM, BN), cache="evict_first")
                    td.tma_load(
                        x, (m * BM, n * BN), stage.tile(), stage.barrier(), cache="evict_first"
                    )
                elif way == "async":
                    td.async_copy(x, (m * BM, n * BN), stage.tile(), stage.barrier())
                else:
                    stage.tile().store(td.load(x, (m * BM, n * BN), (BM, BN)))
    with td.role("use", warps=4):
        for m, n in tiles:
            with ring.consumer().acquire() as stage:
                tile = stage.tile().load()
                td.store(tile, y, (m * BM, n * BN))


def run_ring(
    place: Place,
    rng: np.random.Generator,
    way: str,
    dtype: Any,
    shape: tuple[int, int],
    **tile: int,
) -> None:
    x = random_array(rng, shape, dtype)
    y = place.put(poisoned(shape, dtype))
    through_a_ring(place.put(x), y, way=way, **tile)
    same_bits(place.get(y), x, f"{way} {dtype} {shape} {tile}")


@td.kernel(grid=td.persistent)
def lines(x: td.Tensor, y: td.Tensor, *, length: td.Constant[int], stages: td.Constant[int]):
    """y = x[:, 16:] by bulk copies of lines, and what lies behind a row as zeros."""
    rows = x.shape[0]
    ring = td.InputTilePipeline(td.TileArray(x.dtype, (length,), stages), stages)
    tiles = td.TileScheduler(rows, td.cdiv(y.shape[1], length))
    with td.role("fill", warps=1):
        for m, n in tiles:
            with ring.producer().acquire() as stage:
                td.bulk_load(
                    x, (m, 16 + n * length), stage.tile(), stage.barrier(), cache="evict_last"
                )
    with td.role("use", warps=4):
        for m, n in tiles:
            with ring.consumer().acquire() as stage:
                td.store(stage.tile().load(), y, (m, n * length))


def run_lines(
    place: Place, rng: np.random.Generator, dtype: Any, rows: int, stages: int, length: int
) -> None:
    unit = 16 // np.dtype(dtype).itemsize
    columns = 16 + unit * int(rng.integers(1, 20))
    x = random_array(rng, (rows, columns), dtype)
    y = place.put(poisoned((rows, columns + 9), dtype))
    lines(place.put(x), y, length=length, stages=stages)
    expected = np.pad(x[:, 16:], ((0, 0), (0, 25)))
    same_bits(place.get(y), expected, f"{rows} x {columns} {dtype} by {length}")


# ----------------------------------------------------------------------------------- multicast


@dataclass(frozen=True, slots=True)
class Spread:
    """A tile that the blocks of a cluster share along ``axes``, ``steps`` tiles one by one."""

    cluster: tuple[int, ...]
    axes: tuple[int, ...] | int
    partitioned: bool
    shape: tuple[int, ...] = (64, 32)
    steps: int = 5
    stages: int = 2
    dtype: Any = np.float32
    clusters: int = 2


def spread(
    x: td.Tensor,
    y: td.Tensor,
    steps: td.int32,
    axes: td.Constant,
    partitioned: td.Constant[bool],
    shape: td.Constant[tuple],
    stages: td.Constant[int],
):
    """y[block, i] = the tile that the block's group takes in step i.

    A group is the blocks that differ along ``axes`` only; the tile's number in x is the block's
    rank with the coordinates along ``axes`` taken out.
    """
    ring = td.InputTilePipeline(td.TileArray(x.dtype, shape, stages), stages)
    group = 0
    scale = 1
    for axis in td.static_range(3):
        if axis != axes and (isinstance(axes, int) or axis not in axes):
            group = group + scale * td.cluster_id(axis)
        scale = scale * td.cluster_shape(axis)
    rest = (0,) * (len(shape) - 1)
    with td.role("load", warps=1):
        for i in range(steps):
            with ring.producer().acquire() as stage:
                td.tma_load(
                    x,
                    (group, i * shape[0], *rest),
                    stage.tile(),
                    stage.barrier(),
                    multicast=axes,
                    partitioned=partitioned,
                )
    with td.role("store", warps=1):
        for i in range(steps):
            with ring.consumer().acquire() as stage:
                td.tma_store(stage.tile(), y, (td.block_id(), i * shape[0], *rest))


def run_spread(place: Place, rng: np.random.Generator, case: Spread) -> None:
    size, steps = prod(case.cluster), case.steps
    rows, *rest = case.shape
    x = random_array(rng, (size, max(1, steps) * rows, *rest), case.dtype)
    y = place.put(poisoned((size * case.clusters, max(1, steps) * rows, *rest), case.dtype))
    kernel = td.kernel(cluster=case.cluster, grid=td.persistent)(spread)
    kernel[size * case.clusters](
        place.put(x), y, steps, case.axes, case.partitioned, case.shape, case.stages
    )
    expected = poisoned((size * case.clusters, max(1, steps) * rows, *rest), case.dtype)
    axes = (case.axes,) if isinstance(case.axes, int) else case.axes
    for block in range(size * case.clusters):
        group, before = 0, 1
        for axis, extent in enumerate(case.cluster):
            if axis not in axes:
                group += block % size // before % extent * before
            before *= extent
        if steps:
            expected[block] = x[group]
    same_bits(place.get(y), expected, str(case))


SPREADS = [
    Spread((2,), 0, True),
    Spread((2, 1), 0, False),
    Spread((1, 2), 1, True, stages=1),
    Spread((2, 2), 0, True),
    Spread((2, 2), (1,), False),
    Spread((2, 2), (0, 1), True, dtype=np.float16),
    Spread((2, 2), (1, 0), False, stages=3),
    Spread((4, 2), (0,), True, shape=(128, 64), dtype=ml_dtypes.bfloat16),
    Spread((2, 1, 2), (0, 2), True, stages=4),
    Spread((3,), 0, True, shape=(24, 16)),
    Spread((3,), 0, False, shape=(20, 20), dtype=np.float32),
    Spread((8,), 0, True, shape=(64, 128), dtype=np.int8, clusters=1),
    Spread((2,), 0, True, shape=(4, 8, 16)),
    Spread((2,), 0, True, shape=(16, 24), stages=2),
    Spread((2,), 0, True, steps=0),
    Spread((2,), 0, True, steps=1, stages=4),
    Spread((2,), 0, False, steps=9, stages=4),
    Spread((1, 1), 0, True),
    Spread((2,), 0, True, shape=(1024, 8), dtype=np.float32),
]

# -------------------------------------------------------------------------- stores that combine

REDUCTIONS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
WIDE = (np.int32, np.uint32, np.int64, np.uint64)
REDUCED = [
    *(("add", dtype) for dtype in (*WIDE, np.float32, np.float16, ml_dtypes.bfloat16)),
    *((kind, dtype) for kind in ("min", "max")
      for dtype in (*WIDE, np.float16, ml_dtypes.bfloat16)),
    *((kind, dtype) for kind in ("and", "or", "xor") for dtype in WIDE),
]  # fmt: skip


@td.kernel
def combine(
    x: td.Tensor, y: td.Tensor, *, kind: td.Constant[str], shared: td.Constant[bool],
    BM: td.Constant[int] = 64, BN: td.Constant[int] = 32,
):  # fmt: skip
    """y = y kind x[0] kind x[1] ...: each block brings one x, from registers or shared memory."""
    _, M, N = x.shape
    block = td.block_id()
    if shared:
        ring = td.InputTilePipeline(td.TileArray(x.dtype, (BM, BN), 2), 2)
        with td.role("load", warps=1):
            for m in range(td.cdiv(M, BM)):
                for n in range(td.cdiv(N, BN)):
                    with ring.producer().acquire() as stage:
                        td.tma_load(x, (block, m * BM, n * BN), stage.tile(), stage.barrier())
        with td.role("store", warps=1):
            for m in range(td.cdiv(M, BM)):
                for n in range(td.cdiv(N, BN)):
                    with ring.consumer().acquire() as stage:
                        td.tma_store(
                            stage.tile(), y, (m * BM, n * BN), reduce=kind, cache="evict_last"
                        )
    else:
        with td.role("store", warps=4):
            for m in range(td.cdiv(M, BM)):
                for n in range(td.cdiv(N, BN)):
                    tile = td.load(x, (block, m * BM, n * BN), (BM, BN))
                    td.tma_store(tile, y, (m * BM, n * BN), reduce=kind)


def run_combine(
    place: Place, rng: np.random.Generator, kind: str, dtype: Any, *, shared: bool, blocks: int
) -> None:
    unit = 16 // np.dtype(dtype).itemsize
    shape = (int(rng.integers(1, 150)), unit * int(rng.integers(1, 20)))
    x, y = random_array(rng, (blocks, *shape), dtype), random_array(rng, shape, dtype)
    expected = y.copy()
    for one in x:
        expected = REDUCTIONS[kind](expected, one)
    out = place.put(y)
    combine[blocks](place.put(x), out, kind=kind, shared=shared)
    same_bits(place.get(out), expected.astype(dtype), f"{kind} of {blocks} x {shape} {dtype}")
