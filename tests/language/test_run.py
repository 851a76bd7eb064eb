"""What the language computes, on the emulator, beside the same thing in Python or NumPy."""

from __future__ import annotations

import random
from fractions import Fraction
from math import ceil

import numpy as np
import pytest

import tiledsl as td

# ---------------------------------------------------------------------------------- scheduler


@td.kernel
def walk(order: td.Tensor, m_tiles: td.int32, n_tiles: td.int32, *, group: td.Constant[int]):
    """order[block, i] = (m, n) of the block's i-th tile; the second half repeats it."""
    tiles = td.TileScheduler(m_tiles, n_tiles, group=group)
    i = 0
    for m, n in tiles:
        order[td.block_id(), i, 0] = m
        order[td.block_id(), i, 1] = n
        i += 1
    for m, n in tiles:
        order[td.block_id(), i, 0] = m
        order[td.block_id(), i, 1] = n
        i += 1
    order[td.block_id(), i, 0] = tiles.num_tiles


def grouped(m_tiles: int, n_tiles: int, group: int) -> list[tuple[int, int]]:
    """The documented order: ``group`` rows at a time, down each column of the group."""
    return [
        (m, n)
        for top in range(0, m_tiles, group)
        for n in range(n_tiles)
        for m in range(top, min(top + group, m_tiles))
    ]


@pytest.mark.parametrize("group", [1, 2, 3, 8, 1000])
def test_scheduler_visits_every_tile_once_in_grouped_order(group: int) -> None:
    shapes = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 40), (40, 1)]
    shapes += [(random.randint(1, 12), random.randint(1, 12)) for _ in range(4)]
    for m_tiles, n_tiles in shapes:
        blocks = random.randint(1, 5)
        wanted = grouped(m_tiles, n_tiles, group)
        order = np.full((blocks, 2 * len(wanted) + 1, 2), -1, np.int32)
        walk[blocks](order, m_tiles, n_tiles, group=group)
        for block in range(blocks):
            mine = wanted[block::blocks]
            assert order[block, : 2 * len(mine)].tolist() == [list(t) for t in mine + mine]
            assert order[block, 2 * len(mine), 0] == len(wanted)
            assert (order[block, 2 * len(mine) + 1 :] == -1).all()


@td.kernel
def walk_known(order: td.Tensor, *, m: td.Constant[int], n: td.Constant[int]):
    i = 0
    for row, column in td.TileScheduler(m, n, group=2):
        order[i, 0] = row
        order[i, 1] = column
        i += 1


def test_scheduler_of_known_extents() -> None:
    m, n = random.randint(1, 9), random.randint(1, 9)
    order = np.full((m * n, 2), -1, np.int32)
    walk_known[1](order, m=m, n=n)
    assert [tuple(t) for t in order.tolist()] == grouped(m, n, 2)


@td.kernel
def walk_known_rows(order: td.Tensor, n: td.int32, *, m: td.Constant[int]):
    i = 0
    for row, column in td.TileScheduler(m, n, group=2):
        order[i, 0] = row
        order[i, 1] = column
        i += 1


@pytest.mark.parametrize(("m", "n"), [(0, 0), (0, 3), (3, 0), (1, 0), (0, 1)])
def test_scheduler_of_a_grid_known_to_be_empty(m: int, n: int) -> None:
    order = np.full((4, 2), -1, np.int32)
    walk_known[1](order, m=m, n=n)
    walk_known_rows[1](order, n, m=m)
    walk_known_columns[1](order, m, n=n)
    assert (order == -1).all()


@td.kernel
def walk_known_columns(order: td.Tensor, m: td.int32, *, n: td.Constant[int]):
    i = 0
    for row, column in td.TileScheduler(m, n, group=2):
        order[i, 0] = row
        order[i, 1] = column
        i += 1


@td.kernel
def first_and_last(out: td.Tensor, m_tiles: td.int32, n_tiles: td.int32):
    """Walks only the first tiles of a grid that has nearly 2**31."""
    tiles = td.TileScheduler(m_tiles, n_tiles, group=8)
    i = 0
    for m, n in tiles:
        if i == out.shape[0]:
            break
        out[i] = m
        i += 1


def test_scheduler_of_a_huge_grid() -> None:
    """group * n_tiles must not overflow where m_tiles * n_tiles does not."""
    out = np.full(4, -1, np.int32)
    first_and_last[1](out, 1, 2**29)
    assert out.tolist() == [0, 0, 0, 0]
    first_and_last[1](out, 3, 2**29)
    assert out.tolist() == [0, 1, 2, 0]


# ------------------------------------------------------------------------------------- stages


@td.kernel(grid=1)
def copy_in_branches(x: td.Tensor, y: td.Tensor):
    """y = x. Each branch has a stage of its own; ``stage`` is also a parameter of ``load``."""
    payload = td.StandardTilePayload(x.dtype, x.dtype, (8, 64), (8, 8), num_pipeline_stages=2)
    pipeline = td.InputTilePipeline(payload, num_group_stages=2)

    def load(stage, row):
        tile = stage.payload().get_a_tile(stage.stage())
        td.tma_load(x, (row, 0), tile, stage.barrier())

    with td.role("load", warps=1):
        for i in range(td.cdiv(x.shape[0], 8)):
            if i % 2:
                with pipeline.producer().acquire() as stage:
                    load(stage, i * 8)
            else:
                stage = pipeline.producer().acquire()
                load(stage, i * 8)
                stage.release()

    with td.role("store", warps=1):
        for i in range(td.cdiv(x.shape[0], 8)):
            with pipeline.consumer().acquire() as stage:
                td.tma_store(stage.payload().get_a_tile(stage.stage()), y, (i * 8, 0))


def test_a_name_of_a_nested_function_is_not_carried_out_of_branches() -> None:
    x = np.random.default_rng().standard_normal((35, 64)).astype(np.float32)
    y = np.zeros_like(x)
    copy_in_branches(x, y)
    np.testing.assert_array_equal(y, x)


# ---------------------------------------------------------------------------------- functions


@td.kernel
def divide_signed(out: td.Tensor, a: td.int32, b: td.int32):
    out[0] = td.cdiv(a, b)
    out[1] = td.cdiv(a, 7)
    out[2] = td.cdiv(a, 16)
    out[3] = td.cdiv(100, b)
    out[4] = td.minimum(a, b)
    out[5] = td.maximum(a, b)
    out[6] = td.minimum(a, 5)
    out[7] = td.cdiv(1000, 7)


@td.kernel
def divide_unsigned(out: td.Tensor, a: td.uint32, b: td.uint8):
    out[0] = td.cdiv(a, b)
    out[1] = td.cdiv(a, 7)
    out[2] = td.cdiv(a, 16)
    out[3] = td.cdiv(100, b)


def ceiling(a: int, b: int) -> int:
    return ceil(Fraction(a, b))


def test_cdiv_and_extremes_of_run_time_numbers() -> None:
    for _ in range(10):
        a = random.randint(-(2**31) + 1, 2**31 - 1)
        b = random.choice([-1, 1]) * random.randint(2, 2 ** random.randint(2, 30))
        out = np.zeros(8, np.int64)
        divide_signed[1](out, a, b)
        assert out.tolist() == [
            ceiling(a, b), ceiling(a, 7), ceiling(a, 16), ceiling(100, b),
            min(a, b), max(a, b), min(a, 5), 143,
        ]  # fmt: skip


def test_cdiv_of_unsigned_numbers() -> None:
    for a in (0, 1, 2**31, 2**32 - 1, random.randint(0, 2**32 - 1)):
        b = random.randint(1, 255)
        out = np.zeros(4, np.int64)
        divide_unsigned[1](out, a, b)
        assert out.tolist() == [ceiling(a, b), ceiling(a, 7), ceiling(a, 16), ceiling(100, b)]


@td.kernel
def unrolled(out: td.Tensor, *, n: td.Constant[int]):
    names = {0: 10, 3: 13, 6: 16}
    for i in td.static_range(0, n, 3):
        out[i] = names[i] + td.num_blocks() + td.num_blocks(1) * td.block_id(0)


def test_static_range_counts_at_compile_time() -> None:
    out = np.zeros(9, np.int32)
    unrolled[1](out, n=9)
    assert out.tolist() == [11, 0, 0, 14, 0, 0, 17, 0, 0]


@td.kernel
def convert(out: td.Tensor, x: td.float32, i: td.int32):
    out[0] = td.int32(x)
    out[1] = x.to(td.int64)
    out[2] = td.uint8(i)
    out[3] = td.int32(td.bool_(x))
    out[4] = td.int32(2.9)
    out[5] = td.int32(td.bool_(0.5))


def test_dtypes_convert_numbers() -> None:
    for _ in range(10):
        x, i = random.uniform(-1e6, 1e6), random.randint(-(2**31), 2**31 - 1)
        out = np.zeros(6, np.int64)
        convert[1](out, x, i)
        whole = int(np.float32(x))
        assert out.tolist() == [whole, whole, i % 256, 1, 2, 1]


# -------------------------------------------------------------------------------------- tiles


@td.kernel(warps=4)
def tile_arithmetic(out: td.Tensor, x: td.float32, y: td.float16, i: td.int16):
    t = td.full((64, 32), x)
    u = (t * 2 - y) / (abs(t) + 1.5)
    u = td.maximum(u, -t) + td.minimum(i, u)
    td.tma_store(u, out, (0, 0))


def test_tile_arithmetic() -> None:
    f = np.float32
    for _ in range(3):
        x, y, i = f(random.uniform(-9, 9)), np.float16(random.uniform(-9, 9)), random.randint(-9, 9)
        out = np.zeros((64, 32), f)
        tile_arithmetic[1](out, x, y, i)
        u = (x * f(2) - f(y)) / (abs(x) + f(1.5))
        wanted = max(u, -x) + min(f(i), u)
        np.testing.assert_array_equal(out, np.full_like(out, wanted))


# -------------------------------------------------------------------------------------- print


@td.kernel
def say(n: td.int32, big: td.uint64, x: td.float32, truth: td.bool_, *, title: td.Constant[str]):
    td.print()
    td.print(title, "100%", n, big, -n, None, (n, "text", [1.5]))
    td.print(f"{n:6d}|{n:<6}|{n:+d}|{n:08d}|{big:x}|{x:10.3f}|{x:.2e}|{n:.1f}", end="!\n")
    td.print(n, n, sep="")
    td.print({"n": n, 2: (x > x,)})
    td.print("a", "b", sep=None, end=None)
    td.print(f"{title!r:>12} {truth}")
    td.print(f"{n=} {n = :d} {n!r} {n!s}")


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    n, big = random.randint(-9999, 9999), random.randint(0, 2**64 - 1)
    x = np.float32(random.uniform(-99, 99))
    say[1](n, big, x, True, title="title")
    assert capsys.readouterr().out == (
        "\n"
        f"title 100% {n} {big} {-n} None ({n}, 'text', [1.5])\n"
        f"{n:6d}|{n:<6}|{n:+d}|{n:08d}|{big:x}|{x:10.3f}|{x:.2e}|{n:.1f}!\n"
        f"{n}{n}\n"
        f"{{'n': {n}, 2: (0,)}}\n"
        "a b\n"
        f"{'title'!r:>12} 1\n"
        f"{n=} {n = :d} {n!r} {n!s}\n"
    )


@td.kernel
def hexadecimal(a: td.int8, b: td.int64, x: td.float64):
    td.print(f"{a:x} {a:o} {b:X} {x} {x:g} {b:G}")


def test_negative_numbers_show_their_bits(capsys: pytest.CaptureFixture[str]) -> None:
    a, b, x = random.randint(-128, -1), random.randint(-(2**63), -1), random.random()
    hexadecimal[1](a, b, x)
    wanted = f"{a % 256:x} {a % 256:o} {b % 2**64:X} {x:g} {x:g} {float(b):G}\n"
    assert capsys.readouterr().out == wanted
