"""Kernels from the decorator on, under many schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tests.emulator.programs import long_consumer, two_consumers, two_rings
from tests.emulator.samples import Array, normal, poisoned
from tiledsl.codegen.ir import dtypes
from tiledsl.runtime.emulator import EmulationResult, emulate

FILE = two_rings.function.__code__.co_filename


def line_of(text: str) -> int:
    """The first line of programs.py that holds ``text``."""
    lines = Path(FILE).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def run(kernel: td.Kernel, *args: Any, seed: int | None, **constants: Any) -> EmulationResult:
    compiled = kernel.lower(*args, **constants)
    return emulate(compiled.kernel, args, grid=(3, 1, 1), seed=seed)


def product(a: Array, b: Array) -> Array:
    return a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize(("stages", "group"), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (2, 3)])
def test_two_consumers_share_a_ring(
    rng: np.random.Generator, seed: int, stages: int, group: int
) -> None:
    a, b = normal(rng, (130, 520)), normal(rng, (200, 520))
    for one in (None, *range(seed, seed + 5)):
        c, d = (poisoned((130, 200), dtypes.float32) for _ in range(2))
        result = run(two_consumers, a, b, c, d, seed=one, stages=stages, group=group)
        np.testing.assert_allclose(c, product(a, b), rtol=1e-4, atol=1e-3)
        assert (d == 2 * c).all()
        steps = -(-520 // (64 * group)) * 3 * 4
        assert result.tma_loads == 2 * group * steps
        assert result.arrivals == 3 * steps


def test_two_rings_and_three_roles(rng: np.random.Generator, seed: int) -> None:
    a, b = normal(rng, (100, 200)), normal(rng, (136, 200))
    c, d = normal(rng, (100, 72)), normal(rng, (136, 72))
    first: bytes | None = None
    for one in (None, *range(seed, seed + 20)):
        out = poisoned((100, 136), dtypes.float32)
        run(two_rings, a, b, c, d, out, seed=one)
        first = first or out.tobytes()
        assert out.tobytes() == first, f"seed {one} gives another result"
        np.testing.assert_allclose(out, product(a, b) + product(c, d), rtol=1e-4, atol=1e-3)


def test_a_user_reads_where_the_deadlock_is(rng: np.random.Generator) -> None:
    a, b = normal(rng, (64, 320)), normal(rng, (64, 320))
    c = poisoned((64, 64))
    long_consumer(a, b, c, 0)
    assert not np.isnan(c.astype(np.float32)).any()
    with pytest.raises(td.Deadlock) as caught:
        long_consumer(a, b, c, 1)
    assert str(caught.value) == (
        "deadlock in block (0, 0, 0) of kernel 'long_consumer': no role can go on, and no load is"
        " in flight\n"
        "role 'mma' waits until stage 1 of pipeline 'pipeline' is full: 1 of 1 arrivals missing"
        " (phase 2, parity 0)\n"
        f'  File "{FILE}", line {line_of("consumer.acquire()")}, in long_consumer\n'
        "                with consumer.acquire() as stage:\n"
        "                     ^^^^^^^^^^^^^^^^^^\n"
        "note: expected to arrive here: role 'load', which has ended\n"
        f'  File "{FILE}", line {line_of("producer.acquire()")}, in long_consumer\n'
        "                with producer.acquire() as stage:\n"
        "                     ^^^^^^^^^^^^^^^^^^\n"
        "note: role 'load' has ended\n"
        "hint: both sides of a pipeline must acquire and release equally many stages"
    )
