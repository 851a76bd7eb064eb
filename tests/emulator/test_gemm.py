"""Matrix multiplication through the whole machine: rings, TMA, wgmma and staged stores."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.emulator.samples import Array, gemm, normal, poisoned
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.runtime.emulator import EmulationResult, emulate

SMALL = {"bm": 64, "bn": 64, "bk": 64, "warps": 4}


def check(
    kernel: Kernel,
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    *,
    seed: int | None = None,
    blocks: int = 3,
    dtype: DType = dtypes.bfloat16,
    out: DType = dtypes.bfloat16,
    a_mn: bool = False,
    b_mn: bool = False,
) -> EmulationResult:
    """Run on random numbers and compare with NumPy's product in float64."""
    m, n, k = shape
    a, b = normal(rng, (m, k), dtype), normal(rng, (n, k), dtype)
    c = poisoned((m, n), out)
    given = [np.ascontiguousarray(a.T) if a_mn else a, np.ascontiguousarray(b.T) if b_mn else b]
    result = emulate(kernel, [*given, c], grid=(blocks, 1, 1), seed=seed)
    compare(c, a, b)
    return result


def compare(c: Array, a: Array, b: Array) -> None:
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    exact = wide_a @ wide_b.T
    rounding = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-23}[c.dtype.name]
    accumulated = np.abs(wide_a) @ np.abs(wide_b).T * 2.0**-22
    error = np.abs(c.astype(np.float64) - exact)
    assert (error <= np.abs(exact) * rounding * 1.01 + accumulated).all()


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(64, 64, 0), (64, 64, 1), (65, 72, 130), (200, 136, 520)])
def test_stages_and_trip_counts(
    rng: np.random.Generator, seed: int, stages: int, shape: tuple[int, int, int]
) -> None:
    kernel = gemm(stages=stages, **SMALL)
    for one in (None, seed, seed + 1):
        check(kernel, rng, shape, seed=one)


@pytest.mark.parametrize("out", [dtypes.bfloat16, dtypes.float16, dtypes.float32])
@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.float16])
@pytest.mark.parametrize("mn", [(False, False), (True, False), (False, True), (True, True)])
def test_dtypes_and_majors(
    rng: np.random.Generator, dtype: DType, out: DType, mn: tuple[bool, bool]
) -> None:
    a_mn, b_mn = mn
    kernel = gemm(dtype=dtype, out=out, a_mn=a_mn, b_mn=b_mn, stages=3, **SMALL)
    check(kernel, rng, (130, 72, 200), dtype=dtype, out=out, a_mn=a_mn, b_mn=b_mn)


@pytest.mark.parametrize("dtype", [dtypes.float8_e4m3fn, dtypes.float8_e5m2])
def test_fp8(rng: np.random.Generator, dtype: DType) -> None:
    kernel = gemm(dtype=dtype, bk=128, stages=2, bm=64, bn=64, warps=4)
    check(kernel, rng, (100, 80, 400), dtype=dtype)


@pytest.mark.parametrize(("bm", "warps"), [(128, 8), (128, 4), (256, 8), (192, 12)])
def test_parts_of_a_role(rng: np.random.Generator, seed: int, bm: int, warps: int) -> None:
    kernel = gemm(bm=bm, bn=64, warps=warps, stages=2)
    result = check(kernel, rng, (bm + 9, 130, 300), seed=seed)
    steps = 5 * 2 * 3  # k steps of a tile, tiles
    assert result.wgmma_groups == steps * warps // 4
    assert result.tma_loads == steps * 2
    assert result.tma_load_bytes == steps * (bm + 64) * 64 * 2
    # The loader's arrivals, and one of each part for each stage.
    assert result.arrivals == steps * (1 + warps // 4)


def test_one_group_stays_in_flight(rng: np.random.Generator) -> None:
    result = check(gemm(stages=4, **SMALL), rng, (64, 64, 1024))
    assert result.most_groups_in_flight == 2  # the one before is retired behind the next
    assert check(gemm(stages=1, **SMALL), rng, (64, 64, 1024)).most_groups_in_flight == 1


def test_every_schedule_gives_the_same_bits(rng: np.random.Generator, seed: int) -> None:
    kernel = gemm(stages=2, bm=128, bn=128, warps=8)
    a, b = normal(rng, (150, 200)), normal(rng, (140, 200))
    expected = poisoned((150, 140))
    emulate(kernel, [a, b, expected], grid=(2, 1, 1))
    compare(expected, a, b)
    stalls = set()
    for one in range(seed, seed + 60):
        c = poisoned((150, 140))
        stalls.add(emulate(kernel, [a, b, c], grid=(2, 1, 1), seed=one).stalls)
        assert c.tobytes() == expected.tobytes(), f"seed {one} gives another result"
    assert len(stalls) > 5, "the schedules hardly differ"


def test_a_seed_repeats_its_schedule(rng: np.random.Generator, seed: int) -> None:
    kernel = gemm(stages=3, **SMALL)
    a, b = normal(rng, (130, 600)), normal(rng, (64, 600))
    one, two = (
        emulate(kernel, [a, b, poisoned((130, 64))], grid=(2, 1, 1), seed=seed) for _ in range(2)
    )
    assert one == two


def test_views_with_any_strides(rng: np.random.Generator) -> None:
    kernel = gemm(stages=2, **SMALL)
    big_a, big_b = normal(rng, (200, 400)), normal(rng, (300, 150))
    a, b = big_a[::2, ::-2], big_b[10:, :].T[::-1, :200]
    c_base = poisoned((160, 240))
    c = c_base[5:105, 1:151]
    emulate(kernel, [a, b, c], grid=(4, 1, 1))
    compare(c, a, b)
    outside = np.ones(c_base.shape, bool)
    outside[5:105, 1:151] = False
    assert np.isnan(c_base[outside].astype(np.float32)).all()


@pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1)])
def test_any_grid_covers_all_tiles(rng: np.random.Generator, grid: tuple[int, int, int]) -> None:
    result = check(gemm(stages=2, **SMALL), rng, (256, 192, 64), blocks=grid[0])
    assert result.blocks == grid[0]


def test_speed(rng: np.random.Generator) -> None:
    """The large tile with K = 4096: well under a second an output tile."""
    kernel = gemm()
    a, b = normal(rng, (128, 4096)), normal(rng, (256, 4096))
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        emulate(kernel, [a, b, poisoned((128, 256))], grid=(1, 1, 1))
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.8
