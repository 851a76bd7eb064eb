"""Register tiles from and to memory, their views, and plain writes that TMA and wgmma read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.protocol import Machine
from tests.emulator.samples import normal, numpy_of, poisoned
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.layouts import SliceLayout, WgmmaFragment
from tiledsl.codegen.ir.ops import arith, memory, protocol, tile
from tiledsl.codegen.ir.types import TileArray
from tiledsl.errors import InternalError, InvalidValue
from tiledsl.runtime.emulator import emulate
from tiledsl.runtime.emulator.arith import unary_function

F32, I32, BF16 = dtypes.float32, dtypes.int32, dtypes.bfloat16
PARTS = [1, 2, 3]


def layout_of(parts: int, rows: int = 64, columns: int = 24) -> WgmmaFragment:
    return WgmmaFragment(parts, rows, columns)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("dtype", [F32, BF16, dtypes.int8])
def test_load_and_store_anywhere(
    rng: np.random.Generator, seed: int, parts: int, dtype: DType
) -> None:
    s = Machine("move")
    x, y = s.tensor("x", dtype, 3), s.tensor("y", dtype, 3)
    at = [s.scalar(f"c{n}", I32) for n in range(6)]
    layout = layout_of(parts)
    shape = (64 * parts, 24)
    with s.role("r", 4 * parts, "warpgroup"):
        value = s.value(memory.TileLoad(x, tuple(at[:3]), shape, layout))
        s.add(memory.TileStore(value, y, tuple(at[3:])))
    kernel = s.done()
    for one in (None, seed, seed + 1):
        x_ = rng.integers(-100, 100, (3, 300, 90)).astype(numpy_of(dtype))[:, ::2, ::-3]
        y_ = np.full((2, 200, 40), 7, numpy_of(dtype))
        source = [int(c) for c in rng.integers(-20, 60, 3)]
        source[0] = int(rng.integers(-1, 4))
        target = [int(c) for c in rng.integers(-20, 60, 3)]
        target[0] = int(rng.integers(-1, 3))
        loaded = np.zeros(shape, x_.dtype)
        expected = y_.copy()
        for i, j in np.ndindex(*shape):
            n, r, c = source[0], source[1] + i, source[2] + j
            if 0 <= n < 3 and 0 <= r < x_.shape[1] and 0 <= c < x_.shape[2]:
                loaded[i, j] = x_[n, r, c]
            n, r, c = target[0], target[1] + i, target[2] + j
            if 0 <= n < 2 and 0 <= r < 200 and 0 <= c < 40:
                expected[n, r, c] = loaded[i, j]
        emulate(kernel, [x_, y_, *source, *target], grid=(1,), seed=one)
        assert (y_ == expected).all()


def epilogue(parts: int) -> Kernel:
    """out = where(i < j, x * column[None, :] + row[:, None], i), from tiles of rank 1 and 2."""
    s = Machine("epilogue")
    x, row, column = s.tensor("x", F32, 2), s.tensor("row", F32, 1), s.tensor("column", F32, 1)
    out = s.tensor("out", F32, 2)
    layout, shape = layout_of(parts), (64 * parts, 24)
    zero = s.const(0)
    with s.role("r", 4 * parts, "warpgroup"):
        acc = s.value(memory.TileLoad(x, (zero, zero), shape, layout))
        down = s.value(memory.TileLoad(row, (zero,), shape[:1], SliceLayout(layout, 1)))
        across = s.value(memory.TileLoad(column, (zero,), shape[1:], SliceLayout(layout, 0)))
        half = s.value(arith.Full(s.const(0.5, F32), shape[1:], SliceLayout(layout, 0)))
        across = s.value(arith.Binary("mul", across, half))
        wide = s.value(memory.Broadcast(across, 0, shape[0], layout))
        high = s.value(memory.Broadcast(down, 1, shape[1], layout))
        acc = s.value(arith.Binary("add", s.value(arith.Binary("mul", acc, wide)), high))
        i = s.value(memory.Iota(shape, 0, I32, layout))
        j = s.value(memory.Iota(shape, 1, I32, layout))
        below = s.value(arith.Compare("lt", i, j))
        acc = s.value(arith.Select(below, acc, s.value(arith.Cast(i, F32))))
        s.add(memory.TileStore(acc, out, (zero, zero)))
    return s.done()


@pytest.mark.parametrize("parts", PARTS)
def test_views(rng: np.random.Generator, seed: int, parts: int) -> None:
    rows = 64 * parts
    x, row, column = (
        normal(rng, (rows, 24), F32),
        normal(rng, (rows - 5,), F32),
        normal(rng, (24,), F32),
    )
    out = poisoned(x.shape, F32)
    emulate(epilogue(parts), [x, row, column, out], grid=(1,), seed=seed)
    i, j = np.indices(x.shape)
    padded = np.concatenate([row, np.zeros(5, np.float32)])
    expected = np.where(i < j, x * (column * np.float32(0.5)) + padded[:, None], i)
    assert (out == expected.astype(np.float32)).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_iota_of_rank_one(axis: int) -> None:
    s = Machine("iota")
    out = s.tensor("out", dtypes.int64, 1)
    layout = layout_of(2)
    length = 128 if axis == 1 else 24
    with s.role("r", 8, "warpgroup"):
        line = s.value(memory.Iota((length,), 0, dtypes.int64, SliceLayout(layout, axis)))
        s.add(memory.TileStore(line, out, (s.const(0),)))
    found = np.full(length, -1, np.int64)
    emulate(s.done(), [found], grid=(1,))
    assert (found == np.arange(length)).all()


# ----------------------------------------------------------------------------- shared tiles


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("transposed", [False, True])
def test_shared_tiles(rng: np.random.Generator, seed: int, parts: int, transposed: bool) -> None:
    """x + x.T through shared memory: what one part has stored another one loads."""
    s = Machine("turn")
    n = 64 * parts
    x, y = s.tensor("x", F32, 2), s.tensor("y", F32, 2)
    layout, zero = layout_of(parts, columns=n), s.const(0)
    own = s.shared(TileArray("tile", (n, n), F32, 0))
    with s.role("r", 4 * parts, "warpgroup"):
        value = s.value(memory.TileLoad(x, (zero, zero), (n, n), layout))
        s.add(memory.SharedStore(value, s.own(own)))
        s.add(protocol.RoleSync())
        view = s.own(own)
        if transposed:
            view = s.value(tile.SharedTranspose(view))
        other = s.value(memory.SharedLoad(view, layout))
        s.add(memory.TileStore(s.value(arith.Binary("add", value, other)), y, (zero, zero)))
    kernel = s.done()
    for one in (None, *range(seed, seed + 5)):
        x_, y_ = normal(rng, (n, n), F32), poisoned((n, n), F32)
        emulate(kernel, [x_, y_], grid=(1,), seed=one)
        assert (y_ == x_ + (x_.T if transposed else x_)).all()


def test_a_shared_tile_that_does_not_exist() -> None:
    s = Machine()
    own = s.shared(TileArray("tile", (8, 8), F32, 0, 3))
    with s.role("r"):
        s.own(own, 3)
    with pytest.raises(InvalidValue, match="shared tile 3 of 'own': expected 0 to 2"):
        emulate(s.done(), [], grid=(1,))


def test_a_tile_of_too_many_parts() -> None:
    s = Machine()
    x = s.tensor("x", F32, 2)
    with s.role("r", 4, "warpgroup"):
        s.value(memory.TileLoad(x, (s.const(0), s.const(0)), (128, 24), layout_of(2)))
    with pytest.raises(InternalError, match="is dealt to 2 part"):
        emulate(s.done(), [np.zeros((2, 2), np.float32)], grid=(1,))


Middle = Callable[[Machine], None]


def produced(writer: Middle, reader: Middle, *, multiply: bool) -> Kernel:
    """A role of two parts writes a tile by plain stores; another one stores or multiplies it."""
    s = Machine("produced")
    x, y = s.tensor("x", BF16, 2), s.tensor("y", F32 if multiply else BF16, 2)
    shape = (128, 64) if not multiply else (64, 64)
    parts = shape[0] // 64
    layout, zero = layout_of(parts, columns=64), s.const(0)
    ring = s.ring(1, [TileArray("tile", shape, BF16, 128)], parts, 1)
    with s.role("fill", 4 * parts, "warpgroup"):
        value = s.value(memory.TileLoad(x, (zero, zero), shape, layout))
        s.add(memory.SharedStore(value, s.tile_of(ring, zero)))
        writer(s)
        s.add(protocol.PartSync())
        s.arrive(s.full(ring, zero), elect="part")
    with s.role("use", 4, "warpgroup"):
        s.wait(s.full(ring, zero), 0)
        reader(s)
        source = s.tile_of(ring, zero)
        if multiply:
            acc = s.value(arith.Full(s.const(0.0, F32), (64, 64), layout_of(1, columns=64)))
            acc = s.value(protocol.Wgmma(source, s.value(tile.SharedTranspose(source)), acc))
            (acc,) = s.add(protocol.WgmmaWait((acc,), 0)).results
            s.add(memory.TileStore(acc, y, (zero, zero)))
        else:
            s.store(source, y, (zero, zero))
        s.arrive(s.empty(ring, zero))
    return s.done()


def fence(s: Machine) -> None:
    s.add(protocol.FenceProxyAsync())


def nothing(s: Machine) -> None:
    pass


@pytest.mark.parametrize("multiply", [False, True])
@pytest.mark.parametrize(("writer", "reader"), [(fence, nothing), (nothing, fence), (fence, fence)])
def test_a_fence_on_either_side(
    rng: np.random.Generator, seed: int, writer: Middle, reader: Middle, multiply: bool
) -> None:
    kernel = produced(writer, reader, multiply=multiply)
    for one in (None, *range(seed, seed + 10)):
        x = normal(rng, (64 if multiply else 128, 64))
        y = poisoned((64, 64), F32) if multiply else poisoned(x.shape)
        emulate(kernel, [x, y], grid=(2,), seed=one)
        if multiply:
            wide = x.astype(np.float32)
            np.testing.assert_allclose(y, wide @ wide.T, rtol=1e-5, atol=1e-4)
        else:
            assert (y == x).all()


def one_part_fences(s: Machine) -> None:
    part = s.value(protocol.PartIndex())
    s.branch(s.compare("eq", part, 0), lambda: fence(s))


@pytest.mark.parametrize("writer", [nothing, one_part_fences])
def test_a_missing_fence(rng: np.random.Generator, writer: Middle) -> None:
    kernel = produced(writer, nothing, multiply=False)
    part = 1 if writer is one_part_fences else 0
    with pytest.raises(InternalError) as caught:
        emulate(kernel, [normal(rng, (128, 64)), poisoned((128, 64))], grid=(1,))
    assert caught.value.message == (
        f"role 'use' stores ring.tile[0], which role 'fill' part {part} of 2 has written by plain"
        " stores or cp.async: expected a fence.proxy_async behind them, or here before"
    )
    (note,) = caught.value.notes
    assert note[0] == "written here"
    kernel = produced(nothing, nothing, multiply=True)
    with pytest.raises(InternalError, match=r"role 'use' multiplies ring\.tile\[0\], which"):
        emulate(kernel, [normal(rng, (64, 64)), poisoned((64, 64), F32)], grid=(1,))


# ----------------------------------------------------------------------------- mathematics

MATHS: dict[str, tuple[Callable[[float], float], float, float]] = {
    "exp": (math.exp, -80, 80), "exp2": (lambda v: 2.0**v, -100, 100), "log": (math.log, 1e-6, 1e6),
    "log2": (math.log2, 1e-6, 1e6), "sqrt": (math.sqrt, 0, 1e6),
    "rsqrt": (lambda v: 1 / math.sqrt(v), 1e-6, 1e6), "tanh": (math.tanh, -8, 8),
    "erf": (math.erf, -4, 4),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [F32, dtypes.float64, dtypes.float16, BF16])
@pytest.mark.parametrize("kind", list(MATHS))
def test_mathematics(rng: np.random.Generator, kind: str, dtype: DType) -> None:
    exact, low, high = MATHS[kind]
    if dtype is dtypes.float16:  # within its range
        low, high = max(low, -8), min(high, 8)
    numpy = numpy_of(dtype)
    values = rng.uniform(low, high, 200).astype(numpy)
    found = unary_function(kind, dtype, tile=True)(values)
    assert found.dtype == numpy
    wide = np.array([exact(float(v)) for v in values])
    eps = (4 if dtype is dtypes.float64 else 1) * float(ml_dtypes.finfo(numpy).eps)
    np.testing.assert_allclose(found.astype(np.float64), wide, rtol=eps, atol=0)
    alone = unary_function(kind, dtype, tile=False)
    for value, expected in zip(values[:20], found[:20], strict=True):
        one = alone(value)
        assert one == expected and np.asarray(one).dtype == numpy


def test_mathematics_at_the_edges() -> None:
    def of(kind: str, value: float) -> Any:
        with np.errstate(all="ignore"):
            return unary_function(kind, F32, tile=False)(np.float32(value))

    assert np.isnan(of("log", -1.0)) and of("log2", 0.0) == -np.inf
    assert of("exp", 100.0) == np.inf and of("exp2", -200.0) == 0
    assert np.isnan(of("sqrt", -1.0)) and of("rsqrt", 0.0) == np.inf and of("rsqrt", np.inf) == 0
    assert of("tanh", 99.0) == 1 and of("erf", -99.0) == -1 and np.isnan(of("erf", np.nan))
