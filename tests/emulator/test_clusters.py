"""Blocks of a cluster run together: multicast, remote arrivals, meetings, and their reports."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.protocol import Machine, rows_of
from tests.emulator.samples import normal, poisoned
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import sync, tile
from tiledsl.errors import Deadlock, InvalidValue, LaunchError, StageError
from tiledsl.runtime.emulator import EmulationResult, emulate
from tiledsl.runtime.emulator.geometry import Cluster

F32, I32 = dtypes.float32, dtypes.int32
ROWS, COLUMNS, STAGES = 16, 64, 2


# ------------------------------------------------------------------------------- geometry


@pytest.mark.parametrize("extents", [(1,), (2, 1), (1, 2), (2, 2), (4, 2), (2, 2, 2), (3, 1, 2)])
def test_who_shares_an_axis(extents: tuple[int, ...]) -> None:
    cluster = Cluster(extents)
    places = [cluster.coordinates(rank) for rank in range(cluster.size)]
    assert len(set(places)) == cluster.size
    for rank, place in enumerate(places):  # the first axis fastest
        assert rank == sum(p * int(np.prod(extents[:a])) for a, p in enumerate(place))
    for axes in [(), (0,), (len(extents) - 1,), tuple(range(len(extents)))]:
        for rank, place in enumerate(places):
            differ = [
                {a for a, (p, q) in enumerate(zip(place, other, strict=True)) if p != q}
                for other in places
            ]
            cross = [r for r, d in enumerate(differ) if len(d) <= 1 and d <= set(axes)]
            plane = [r for r, d in enumerate(differ) if d <= set(axes)]
            assert cluster.sharing(axes)[rank] == cross
            assert cluster.group(axes)[rank] == plane
            assert rank in cross


# ------------------------------------------------------------------------------ multicast


def broadcast(
    extents: tuple[int, ...],
    axes: tuple[int, ...],
    count: int,
    *,
    partitioned: bool = True,
    spans: bool = False,
    strides: tuple[int, ...] = (),
    remote: bool = True,
) -> Kernel:
    """y[block, i] = x[group, i] for i in range(count): all blocks along ``axes`` take one tile."""
    s = Machine("broadcast")
    x, y = s.tensor("x", F32, 3), s.tensor("y", F32, 3)
    cluster = Cluster(extents)
    peers = (cluster.group(axes) if spans else cluster.sharing(axes))[0]
    empty = len(peers) if remote else 1
    ring = s.ring(STAGES, [rows_of(ROWS, COLUMNS)], 1, empty)
    block = s.value(tile.BlockId(0))
    rank = s.value(sync.ClusterRank())
    # The coordinates along the other axes, and the cluster, name the group.
    group, scale, width = s.op("floordiv", block, cluster.size), 1, 1
    number = s.const(0)
    for axis, extent in enumerate(extents):
        if axis not in axes:
            place = s.op("mod", s.op("floordiv", rank, width), extent)
            number = s.op("add", number, s.op("mul", place, scale))
            scale *= extent
        width *= extent
    group = s.op("add", s.op("mul", group, scale), number)

    def load(i: Value, slot: Value, parity: Value) -> None:
        s.wait(s.empty(ring, slot), s.op("xor", parity, 1))
        s.expect(s.full(ring, slot), ROWS * COLUMNS * 4)
        at = (group, s.op("mul", i, ROWS * (strides[1] if strides else 1)), s.const(0))
        s.add(
            tile.TmaLoad(
                x, at, s.tile_of(ring, slot), s.full(ring, slot),
                multicast=axes, partitioned=partitioned, element_strides=strides,
            )
        )  # fmt: skip

    def store(i: Value, slot: Value, parity: Value) -> None:
        s.wait(s.full(ring, slot), parity)
        s.store(s.tile_of(ring, slot), y, (block, s.op("mul", i, ROWS), s.const(0)))
        s.arrive(s.empty(ring, slot), axes=axes if remote else (), spans=spans)

    with s.role("load"):
        s.each(STAGES, count, load)
    with s.role("store"):
        s.each(STAGES, count, store)
    return s.done(cluster=extents, persistent=True)


def run(
    kernel: Kernel, rng: np.random.Generator, groups: int, count: int, blocks: int, seed: int | None
) -> tuple[np.ndarray, np.ndarray, EmulationResult]:
    x = normal(rng, (groups, count * ROWS, COLUMNS), F32)
    y = poisoned((blocks, count * ROWS, COLUMNS), F32)
    result = emulate(kernel, [x, y], grid=(blocks,), seed=seed)
    return x, y, result


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize(
    ("extents", "axes"),
    [((2, 1), (0,)), ((1, 2), (1,)), ((4,), (0,)), ((2, 2), (0,)), ((2, 2), (1,)), ((1, 1), (0,))],
)
def test_multicast_along_an_axis(
    rng: np.random.Generator,
    seed: int,
    extents: tuple[int, ...],
    axes: tuple[int, ...],
    partitioned: bool,
    count: int,
) -> None:
    kernel = broadcast(extents, axes, count, partitioned=partitioned)
    cluster, clusters = Cluster(extents), 3
    size, along = cluster.size, len(cluster.group(axes)[0])
    groups = clusters * size // along
    for one in (None, *range(seed, seed + 6)):
        x, y, result = run(kernel, rng, groups, count, clusters * size, one)
        for block in range(clusters * size):
            first = cluster.group(axes)[block % size][0]
            firsts = sorted({g[0] for g in cluster.group(axes)})
            group = block // size * (size // along) + firsts.index(first)
            assert (y[block] == x[group]).all(), f"block {block}, seed {one}"
        assert result.blocks == clusters * size
        loads = clusters * size * count
        assert result.tma_loads == (loads if partitioned else loads // along)
        assert result.tma_load_bytes == groups * count * ROWS * COLUMNS * 4


@pytest.mark.parametrize("extents", [(2, 2), (2, 1, 2)])
def test_multicast_over_two_axes(
    rng: np.random.Generator, seed: int, extents: tuple[int, ...]
) -> None:
    axes = tuple(range(len(extents)))
    kernel = broadcast(extents, axes, 5, spans=True)
    for one in (None, *range(seed, seed + 8)):
        x, y, _ = run(kernel, rng, 2, 5, 8, one)
        for block in range(8):
            assert (y[block] == x[block // 4]).all()


def test_multicast_with_element_strides(rng: np.random.Generator, seed: int) -> None:
    kernel = broadcast((2,), (0,), 3, strides=(1, 2, 1))
    x, y = normal(rng, (1, 6 * ROWS, COLUMNS), F32), poisoned((2, 3 * ROWS, COLUMNS), F32)
    emulate(kernel, [x, y], grid=(2,), seed=seed)
    assert (y == x[:, ::2]).all()


def test_a_slot_that_a_peer_has_not_freed(rng: np.random.Generator, seed: int) -> None:
    """Without remote arrivals a block overwrites tiles that its peer still reads."""
    kernel = broadcast((2,), (0,), 9, remote=False)
    wrong = 0
    for one in range(seed, seed + 40):
        try:
            x, y, _ = run(kernel, rng, 1, 9, 2, one)
            wrong += not (y == x).all()
        except (Deadlock, InvalidValue):
            wrong += 1
    assert wrong > 5


def test_explicit_grids_follow_the_shape_of_the_cluster() -> None:
    s = Machine("where")
    out = s.tensor("out", I32, 3)
    s.main(1, "thread")
    ids = tuple(s.value(tile.BlockId(axis)) for axis in range(2))
    s.add(tile.TensorStore(s.value(sync.ClusterRank()), out, (*ids, s.const(0))))
    kernel = s.done(cluster=(2, 3))
    found = np.full((4, 6, 1), -1, np.int32)
    emulate(kernel, [found], grid=(4, 6))
    x, y = np.indices((4, 6))
    assert (found[..., 0] == x % 2 + 2 * (y % 3)).all()
    with pytest.raises(LaunchError) as caught:
        emulate(kernel, [found], grid=(4, 5))
    assert str(caught.value) == (
        "kernel where: a grid of 4 x 5 x 1 blocks cannot be cut into clusters of 2 x 3 x 1:"
        " expected multiples"
    )


# -------------------------------------------------------------------------------- signals


def ping(rank_of: int | None, extents: tuple[int, ...] = (2,)) -> Kernel:
    """Each block tells its right neighbour (or block ``rank_of``) that it may write."""
    s = Machine("ping")
    out = s.tensor("out", I32, 1)
    bars = s.bars(1, 1)
    rank = s.value(sync.ClusterRank())
    with s.role("send"):
        to = s.op("mod", s.op("add", rank, 1), 2) if rank_of is None else s.const(rank_of)
        s.arrive(s.bar(bars), rank=(to,))
    with s.role("get"):
        s.wait(s.bar(bars), 0)
        s.add(tile.TensorStore(rank, out, (rank,)))
    return s.done(cluster=extents, persistent=True)


def test_arrivals_in_a_block_by_rank(seed: int) -> None:
    for one in (None, *range(seed, seed + 10)):
        out = np.full(2, -1, np.int32)
        assert emulate(ping(None), [out], grid=(2,), seed=one).arrivals == 2
        assert out.tolist() == [0, 1]


def test_a_rank_outside_of_the_cluster() -> None:
    with pytest.raises(InvalidValue) as caught:
        emulate(ping(2), [np.zeros(2, np.int32)], grid=(2,))
    assert caught.value.message == (
        "role 'send' in block 0 of its cluster arrives on bars[0] of block 2 of its cluster:"
        " expected 0 to 1"
    )


def test_a_deadlock_names_the_blocks() -> None:
    s = Machine("forgotten")
    out = s.tensor("out", I32, 1)
    bars = s.bars(1, 2)
    rank = s.value(sync.ClusterRank())
    with s.role("send"):
        first = s.compare("eq", rank, 0)
        s.branch(first, lambda: s.arrive(s.bar(bars), axes=(0,)))
    with s.role("get"):
        s.wait(s.bar(bars), 0)
        s.add(tile.TensorStore(rank, out, (rank,)))
    with pytest.raises(Deadlock) as caught:
        emulate(s.done(cluster=(2,), persistent=True), [np.zeros(4, np.int32)], grid=(4,))
    text = str(caught.value)
    assert text.startswith(
        "deadlock in the cluster of blocks (0, 0, 0) to (1, 0, 0) of kernel 'forgotten': no role"
        " can go on, and no load is in flight\n"
        "role 'get' in block 0 of its cluster waits for a phase of mbarrier bars[0]: 1 of 2"
        " arrivals missing (phase 0, parity 0)\n"
    )
    assert (
        "note: expected to arrive here: role 'send' in block 1 of its cluster, which has ended"
        in text
    )
    assert "note: role 'get' in block 1 of its cluster waits for a phase of mbarrier" in text


@pytest.mark.parametrize("roles", [True, False])
def test_blocks_meet(seed: int, roles: bool) -> None:
    """Behind a cluster.sync each block sees what all of them wrote in front of it."""
    s = Machine("meet")
    x, out = s.tensor("x", I32, 1), s.tensor("out", I32, 1)
    rank = s.value(sync.ClusterRank())
    if not roles:
        s.main(8, "warpgroup")
    s.add(tile.TensorStore(s.op("add", rank, 10), x, (rank,)))
    s.add(sync.ClusterSync())
    peer = s.op("mod", s.op("add", rank, 1), 4)
    seen = s.value(tile.TensorLoad(x, (peer,)))
    if roles:
        with s.role("write"):
            s.add(tile.TensorStore(seen, out, (rank,)))
    else:
        s.add(tile.TensorStore(seen, out, (rank,)))
    kernel = s.done(cluster=(4,), persistent=True)
    for one in (None, *range(seed, seed + 10)):
        x_, out_ = np.zeros(4, np.int32), np.zeros(4, np.int32)
        emulate(kernel, [x_, out_], grid=(4,), seed=one)
        assert out_.tolist() == [11, 12, 13, 10]


def test_a_block_that_never_comes() -> None:
    s = Machine("late")
    s.main(1, "thread")
    rank = s.value(sync.ClusterRank())
    s.branch(s.compare("eq", rank, 0), lambda: s.add(sync.ClusterSync()))
    with pytest.raises(
        Deadlock,
        match="role 'main' in block 0 of its cluster waits for the whole cluster: 1 of 2 parts",
    ):
        emulate(s.done(cluster=(2,), persistent=True), [], grid=(2,))


def test_a_preamble_that_is_late_does_not_hold_peers_up(seed: int) -> None:
    """The roles of a block begin when its own preamble has ended."""
    s = Machine("early")
    bars = s.bars(1, 1)
    rank = s.value(sync.ClusterRank())
    # Block 1's preamble waits for an arrival that a role of block 0 makes.
    s.branch(s.compare("eq", rank, 1), lambda: s.wait(s.bar(bars), 0))
    with s.role("send"):
        s.branch(s.compare("eq", rank, 0), lambda: s.arrive(s.bar(bars), rank=(s.const(1),)))
    for one in (None, seed):
        emulate(s.done(cluster=(2,), persistent=True), [], grid=(2,), seed=one)


def test_loads_that_nobody_waits_for() -> None:
    s = Machine("hasty")
    x = s.tensor("x", F32, 2)
    own, bars = s.shared(rows_of(ROWS, COLUMNS)), s.bars(1, 1)
    with s.role("load"):
        s.expect(s.bar(bars), ROWS * COLUMNS * 4)
        at = (s.const(0), s.const(0))
        s.add(tile.TmaLoad(x, at, s.own(own), s.bar(bars)))
    with pytest.raises(StageError, match="before anybody has waited for the loads onto mbarrier"):
        emulate(s.done(), [np.zeros((16, 64), np.float32)], grid=(1,))
