"""Barriers and shared tiles outside of rings: a resident tile, mbarriers, named barriers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tiledsl as td
from tests.kernels.family.registry import Run, case

BM, BN = 64, 64


@td.kernel(grid=td.persistent)
def resident(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, D: td.Constant[int] = 64,
             stages: td.Constant[int] = 2):  # fmt: skip
    """c = a @ b.T for K <= D: a tile of a stays in shared memory while those of b pass by."""
    N = b.shape[0]
    rows = td.shared((BM, D), a.dtype)
    loaded = td.mbarrier()
    free = td.mbarrier()
    ring = td.InputTilePipeline(td.TileArray(b.dtype, (BN, D), stages), stages)
    tiles = td.TileScheduler(td.cdiv(a.shape[0], BM), 1)
    with td.role("load", warps=1):
        phase = 0
        for m, _ in tiles:
            free.wait(phase ^ 1)
            loaded.arrive_and_expect_bytes(rows.nbytes)
            td.tma_load(a, (m * BM, 0), rows, loaded)
            phase = phase ^ 1
            for n in range(td.cdiv(N, BN)):
                with ring.producer().acquire() as stage:
                    td.tma_load(b, (n * BN, 0), stage.tile(), stage.barrier())
    with td.role("mma", warps=4):
        phase = 0
        for m, _ in tiles:
            loaded.wait(phase)
            for n in range(td.cdiv(N, BN)):
                with ring.consumer().acquire() as stage:
                    acc = td.mma(rows, stage.tile().T, td.zeros((BM, BN), td.float32))
                td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))
            free.arrive()
            phase = phase ^ 1


@case
def resident_tile(run: Run) -> Iterator[str]:
    for stages in (1, 2):
        for trips in run.trips(stages):
            for m in (1, 64, run.extent() + 200):
                n, k = run.tiled(trips, BN, 8), 8 * int(run.rng.integers(1, 9))
                yield run.product(resident, (m, n, k), stages=stages)
    for laps in run.trips(1):  # of the resident tile, in one block
        yield run.product(resident[1], (run.tiled(laps, BM), 72, 64))


@td.kernel(grid=1)
def by_numbers(x: td.Tensor, y: td.Tensor, n: td.int32, *, slots: td.Constant[int] = 3):
    """y = x + 1, a ring made by hand: rows of mbarriers, parities counted by the user."""
    tiles = td.shared((64, 32), x.dtype, number=slots)
    full = td.mbarrier(1, number=slots)
    empty = td.mbarrier(number=slots)
    with td.role("load", warps=1):
        for i in range(n):
            at, lap = i % slots, i // slots
            if not empty[at].try_wait(lap + 1):
                empty[at].wait(lap + 1)
            full[at].arrive_and_expect_bytes(tiles[at].nbytes)
            td.tma_load(x, (i * 64, 0), tiles[at], full[at])
    with td.role("add", warps=4):
        for i in range(n):
            at = i % slots
            full[at].wait(i // slots)
            value = tiles[at].load()
            empty[at].arrive()
            td.tma_store(value + 1.0, y, (i * 64, 0))


@td.kernel(grid=1)
def met(x: td.Tensor, y: td.Tensor, n: td.int32):
    """y = x + 1, by two roles that meet at named barriers: one tile, written and read in turn."""
    tile = td.shared((64, 32), x.dtype)
    written = td.named_barrier()
    read = td.named_barrier()
    with td.role("write", warps=4):
        for i in range(n):
            tile.store(td.load(x, (i * 64, 0), (64, 32)) + 1.0)
            written.arrive()
            read.wait()
    with td.role("read", warps=8):
        for i in range(n):
            written.sync()
            td.tma_store(tile, y, (i * 64, 0))
            read.arrive()


@td.kernel(grid=1)
def three_meet(x: td.Tensor, y: td.Tensor, n: td.int32):
    """y[2 i] = x[i] + 1 and y[2 i + 1] = x[i] - 1: two readers of each tile that one role wrote."""
    tile = td.shared((64, 32), x.dtype)
    written = td.named_barrier()
    read = td.named_barrier()
    with td.role("write", warps=4):
        for i in range(n):
            tile.store(td.load(x, (i * 64, 0), (64, 32)))
            written.arrive()
            read.sync()
    with td.role("above", warps=4):
        for i in range(n):
            written.sync()
            value = tile.load()
            read.arrive()
            td.store(value + 1.0, y, (2 * i * 64, 0))
    with td.role("below", warps=4):
        for i in range(n):
            written.sync()
            value = tile.load()
            read.arrive()
            td.store(value - 1.0, y, (2 * i * 64 + 64, 0))


def _numbers(run: Run, tiles: int) -> np.ndarray:
    shape = max(1, run.tiled(tiles, 64)), run.tiled(1, 32, 4)
    return run.rng.integers(-50, 50, shape).astype(np.float32)


@case
def mbarriers_in_rows(run: Run) -> Iterator[str]:
    for slots in (1, 3):
        for n in run.trips(slots):
            x = _numbers(run, n)
            y = run.output(x.shape)
            by_numbers(run.place.put(x), y, n, slots=slots)
            expected = x + 1
            expected[n * 64 :] = np.nan
            yield run.same(y, expected, f"{n} tiles, {slots} slots")


@case
def named_barriers(run: Run) -> Iterator[str]:
    """No ring: the one tile is a stage, and trips are those around one and two of them."""
    for n in run.trips(1, 2):
        x = _numbers(run, n)
        y = run.output(x.shape)
        met(run.place.put(x), y, n)
        expected = x + 1
        expected[n * 64 :] = np.nan
        yield run.same(y, expected, f"{n} tiles")


@case
def named_barriers_of_three(run: Run) -> Iterator[str]:
    """No ring, as above."""
    for n in run.trips(1, 2):
        x = _numbers(run, n)
        columns = x.shape[1]
        y = run.output((2 * max(1, n) * 64, columns))
        three_meet(run.place.put(x), y, n)
        whole = np.pad(x, ((0, -len(x) % 64), (0, 0)))  # behind the end of x a load reads zeros
        parts = whole.reshape(-1, 1, 64, columns) + np.array([1, -1], np.float32)[:, None, None]
        expected = parts.reshape(-1, columns)
        expected[2 * n * 64 :] = np.nan
        yield run.same(y, expected, f"{n} tiles")
