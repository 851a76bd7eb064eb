"""Where a block stands in its cluster, and which tiles it gets."""

from __future__ import annotations

import itertools
import random
from math import prod
from typing import Any

import pytest

import tiledsl as td
from tests.golden import Golden
from tests.language.evaluated import TileEvaluator
from tests.language.traced import trace
from tiledsl.codegen.ir.ops import sync
from tiledsl.codegen.passes.rewrite import remove_dead
from tiledsl.frontend.build import TensorSpec

SHAPES = [(1,), (2,), (1, 1), (2, 1), (1, 2), (2, 2), (4, 2), (2, 1, 2), (1, 3), (2, 2, 2)]
INT = td.int32


def where(rank: int, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """The coordinates of a rank, the first axis fastest."""
    x, y, z = (*shape, 1, 1)[:3]
    return rank % x, rank // x % y, rank // (x * y) % z


def printed(kernel: Any, *arguments: Any, **place: Any) -> list[tuple[int, ...]]:
    lines = TileEvaluator(kernel, arguments, **place).printed
    return [tuple(map(int, line.split())) for line in lines]


# --------------------------------------------------------------------------------- coordinates


def place_of_a_block():
    td.print(td.cluster_rank(), td.cluster_id(0), td.cluster_id(1), td.cluster_id(2))
    td.print(td.cluster_size(), td.cluster_shape(0), td.cluster_shape(1), td.cluster_shape(2))


@pytest.mark.parametrize("shape", SHAPES)
def test_coordinates(shape: tuple[int, ...]) -> None:
    kernel = trace(place_of_a_block, cluster=shape)
    for rank in range(prod(shape)):
        place, extents = printed(kernel, rank=rank)
        assert place == (rank, *where(rank, shape))
        assert extents == (prod(shape), *(*shape, 1, 1)[:3])


def test_a_kernel_without_clusters_knows_its_place_at_compile_time() -> None:
    def kernel():
        assert td.cluster_rank() == 0 and td.cluster_size() == 1
        assert td.cluster_id(0) == td.cluster_id(2) == 0 and td.cluster_shape(1) == 1

    for shape in (None, (1,), (1, 1, 1)):
        made = trace(kernel, cluster=shape)
        remove_dead(made)
        assert not made.body.ops


def test_the_kernel_knows_its_cluster() -> None:
    def kernel():
        td.cluster_sync()

    made = trace(kernel, cluster=(2, 4))
    assert made.cluster == (2, 4)
    assert [type(op) for op in made.body.ops] == [sync.ClusterSync]
    assert trace(kernel).cluster == (1,)


# ----------------------------------------------------------------------------------- scheduling


def tiles_of_a_block(m_tiles, n_tiles, group):
    tiles = td.TileScheduler(m_tiles, n_tiles, group=group)
    for m, n in tiles:
        td.print(m, n, tiles.num_tiles)


def dealt(
    kernel: Any, shape: tuple[int, ...], clusters: int, *arguments: int
) -> dict[tuple[int, int], list[tuple[int, ...]]]:
    """The tiles of each block of a persistent grid, by cluster and rank."""
    size = prod(shape)
    return {
        (block // size, block % size): printed(
            kernel, *arguments, block=(block, 0, 0), grid=(size * clusters, 1, 1), rank=block % size
        )
        for block in range(size * clusters)
    }


def check_dealt(
    blocks: dict[tuple[int, int], list[tuple[int, ...]]],
    shape: tuple[int, ...],
    m_tiles: int,
    n_tiles: int,
) -> None:
    cm, cn = (*shape, 1, 1)[:2]
    found: list[tuple[int, int]] = []
    for (cluster, rank), tiles in blocks.items():
        i, j, deep = where(rank, shape)
        first = blocks[cluster, 0]
        assert len(tiles) == len(first), "the blocks of a cluster walk in step"
        for (m, n, count), (m0, n0, _) in zip(tiles, first, strict=True):
            assert (m, n) == (m0 + i, n0 + j) and m0 % cm == n0 % cn == 0
            assert count == m_tiles * n_tiles
        if deep == 0:
            found += [(m, n) for m, n, _ in tiles]
    inside = [(m, n) for m, n in found if m < m_tiles and n < n_tiles]
    assert sorted(inside) == list(itertools.product(range(m_tiles), range(n_tiles)))
    assert len(found) == -(-m_tiles // cm) * -(-n_tiles // cn) * cm * cn
    steps = [len(tiles) for tiles in blocks.values()]
    assert max(steps) - min(steps) <= 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("known", [False, True])
def test_every_tile_once(shape: tuple[int, ...], known: bool) -> None:
    for _ in range(4):
        m_tiles, n_tiles, group = (random.randint(0, 9), random.randint(0, 9), random.randint(1, 5))
        params: dict[str, Any] = {"m_tiles": m_tiles, "n_tiles": n_tiles}
        arguments: tuple[int, ...] = ()
        if not known:
            arguments = (m_tiles, n_tiles)
            params = {"m_tiles": INT, "n_tiles": INT}
        kernel = trace(tiles_of_a_block, cluster=shape, persistent=True, group=group, **params)
        blocks = dealt(kernel, shape, random.randint(1, 5), *arguments)
        check_dealt(blocks, shape, m_tiles, n_tiles)


def test_blocks_of_a_cluster_are_neighbours() -> None:
    """5 x 3 tiles to clusters of 2 x 1, in groups of 2: rows 4 and 5 are the ragged edge."""
    kernel = trace(tiles_of_a_block, cluster=(2, 1), persistent=True, m_tiles=5, n_tiles=3, group=2)
    blocks = dealt(kernel, (2, 1), 2)
    tiles = {key: [(m, n) for m, n, _ in found] for key, found in blocks.items()}
    assert tiles == {
        (0, 0): [(0, 0), (0, 1), (0, 2), (4, 0), (4, 2)],
        (0, 1): [(1, 0), (1, 1), (1, 2), (5, 0), (5, 2)],
        (1, 0): [(2, 0), (2, 1), (2, 2), (4, 1)],
        (1, 1): [(3, 0), (3, 1), (3, 2), (5, 1)],
    }


@pytest.mark.parametrize("shape", [(2, 2), (1, 2), (2, 1), (1, 2, 2)])
def test_clusters_along_the_axes_of_a_grid(shape: tuple[int, ...]) -> None:
    """In a kernel that is not persistent the cluster lies along the grid's axes.

    Axes but the first along which a cluster has one block are left to the user.
    """
    kernel = trace(tiles_of_a_block, cluster=shape, m_tiles=INT, n_tiles=INT, group=3)
    m_tiles, n_tiles = random.randint(1, 9), random.randint(1, 9)
    dims = (*shape, 1, 1)[:3]
    counts = [random.randint(1, 3) for _ in shape] + [1] * (3 - len(shape))
    grid = tuple(a * b for a, b in zip(dims, counts, strict=True))
    blocks = {}
    for block in itertools.product(*map(range, grid)):
        along = [
            (b // d, count)
            for axis, (b, d, count) in enumerate(zip(block, dims, counts, strict=True))
            if axis == 0 or d > 1
        ]
        cluster = 0
        for number, count in reversed(along):
            cluster = cluster * count + number
        i, j, k = (b % d for b, d in zip(block, dims, strict=True))
        rank = i + dims[0] * (j + dims[1] * k)
        found = printed(kernel, m_tiles, n_tiles, block=block, grid=grid, rank=rank)
        assert blocks.setdefault((cluster, rank), found) == found, "idle axes see the same tiles"
    check_dealt(blocks, shape, m_tiles, n_tiles)


# -------------------------------------------------------------------------------------- replicas


def tiles_of_a_replica(m_tiles, n_tiles, replicas):
    tiles = td.TileScheduler(m_tiles, n_tiles, group=2)
    with td.role("mma", warps=1, replicas=replicas) as me:
        for m, n in tiles.deal(me):
            td.print(m, n, 0)


@pytest.mark.parametrize("shape", [None, (2, 1), (2, 2)])
@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_replicas_share_the_tiles_of_their_block(
    shape: tuple[int, ...] | None, replicas: int
) -> None:
    m_tiles, n_tiles, clusters = (random.randint(0, 7) for _ in range(3))
    clusters = max(1, clusters)
    kernel = trace(
        tiles_of_a_replica, cluster=shape, persistent=True, m_tiles=INT, n_tiles=INT,
        replicas=replicas,
    )  # fmt: skip
    whole = trace(
        tiles_of_a_replica, cluster=shape, persistent=True, m_tiles=INT, n_tiles=INT, replicas=1
    )
    size = prod(shape or ())
    for block in range(size * clusters):
        place: dict[str, Any] = {
            "block": (block, 0, 0), "grid": (size * clusters, 1, 1), "rank": block % size
        }  # fmt: skip
        tiles = printed(whole, m_tiles, n_tiles, **place)
        for replica in range(replicas):
            mine = printed(kernel, m_tiles, n_tiles, replica=replica, **place)
            assert mine == tiles[replica::replicas]


# --------------------------------------------------------------------------------------- loads


def test_multicast(golden: Golden) -> None:
    def kernel(a, b):
        payload = td.StandardTilePayload(
            a.dtype, b.dtype, (128, 64), (64, 64), num_pipeline_stages=2
        )
        ring = td.InputTilePipeline(payload, num_group_stages=2)
        with td.role("load", warps=1):
            for k in range(td.cdiv(a.shape[1], 64)):
                with ring.producer().acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage())
                    row = 128 * td.cluster_id(0)
                    td.tma_load(a, (row, k * 64), a_tile, stage.barrier(), multicast=1)
                    td.tma_load(
                        b, (0, k * 64), b_tile, stage.barrier(), multicast=(0,), partitioned=False
                    )

    tensor = TensorSpec(td.bfloat16, 2)
    golden(str(trace(kernel, cluster=(2, 4), a=tensor, b=tensor)))


def test_multicast_to_one_block_is_a_plain_load() -> None:
    def kernel(a):
        payload = td.StandardTilePayload(a.dtype, a.dtype, (12, 64), (8, 64), num_pipeline_stages=1)
        ring = td.InputTilePipeline(payload, num_group_stages=1)
        with td.role("load", warps=1):
            with ring.producer().acquire() as stage:
                a_tile, b_tile = stage.payload().get_tile(stage.stage())
                td.tma_load(a, (0, 0), a_tile, stage.barrier(), multicast=0)
                td.tma_load(a, (0, 0), b_tile, stage.barrier(), multicast=(1, 0))

    made = trace(kernel, cluster=(1, 1), a=TensorSpec(td.bfloat16, 2))
    assert [op.multicast for op in made.body.walk() if op.opcode == "tma.load"] == [(), ()]
