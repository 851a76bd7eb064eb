"""Loops in lockstep on a GPU: right results whatever runs beside them, and no wait that stays.

A wait that runs out takes some 70 microseconds, so that launches that wait for too many tickets
show in their time.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.launch_ptx import framework
from tests.kernels.oracle import fresh_seed

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

NAMES = ["gemm", "gemm_cluster"]
# Ragged; fewer tiles than blocks, one, none, and many for each block; short and empty sums.
SHAPES = [
    (8, 8, 64), (0, 64, 64), (129, 136, 72), (640, 776, 0), (1000, 1032, 328), (2048, 2048, 64),
    (4097, 4104, 1000), (4096, 8192, 256), (16640, 4104, 64),
]  # fmt: skip
LIMIT_MS = 2000.0  # of a few launches, each far below a millisecond


@pytest.fixture
def torch() -> Any:
    return framework("torch")


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A module of samples/ by name."""
    samples = Path(__file__).resolve().parents[2] / "samples"
    monkeypatch.setattr(sys, "path", [str(samples), *sys.path])
    return import_module


class Problem:
    """A product by one of the kernels, checked on each call of ``check``."""

    def __init__(
        self, torch: Any, sample: Callable[[str], Any], name: str, shape: tuple[int, int, int]
    ) -> None:
        self.kernel = getattr(sample(name), name)
        self.shape = shape
        self.problem = sample("common").make_problem(
            shape, "bfloat16", "float32", fresh_seed(), torch
        )

    def launch(self, grid: int | None = None, *, lockstep: bool = True) -> None:
        kernel = self.kernel if grid is None else self.kernel[grid]
        kernel(self.problem.a, self.problem.b, self.problem.c, lockstep=lockstep)

    def check(self) -> None:
        error, ratio = self.problem.check()
        assert ratio <= 1, (self.shape, error, ratio)

    def run(self, grid: int | None = None) -> None:
        self.problem.poison()
        self.launch(grid)
        self.check()


def milliseconds(torch: Any, run: Callable[[], None]) -> float:
    """What the device takes for ``run``, in the current stream, once all of it is queued."""
    torch.cuda._sleep(2_000_000)  # a millisecond for the host to get ahead
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


@pytest.mark.parametrize("name", NAMES)
def test_every_shape(torch: Any, sample: Callable[[str], Any], name: str) -> None:
    for shape in SHAPES:
        made = Problem(torch, sample, name, shape)
        for _ in range(3):
            made.run()


@pytest.mark.parametrize("name", NAMES)
def test_the_counter_is_back_at_zero(torch: Any, sample: Callable[[str], Any], name: str) -> None:
    """Twenty launches with other grids and shapes between them; none of them gets slower."""
    main = Problem(torch, sample, name, (4096, 4096, 512))
    others = [Problem(torch, sample, name, shape) for shape in ((130, 264, 64), (3000, 4104, 72))]
    main.run()
    free = min(milliseconds(torch, partial(main.launch, lockstep=False)) for _ in range(10))
    times = []
    for _ in range(20):
        random.choice(others).run(random.choice([2, 6, 64, 400, None]))
        main.problem.poison()
        times.append(milliseconds(torch, main.launch))
        main.check()
    times.sort()
    # Each took its time alone: a wait that runs out in each launch would make all of them slow.
    assert times[10] < 3 * free, (times, free)
    assert times[10] < free + 0.05, (times, free)


@pytest.mark.parametrize("name", NAMES)
def test_more_blocks_than_run_at_once(torch: Any, sample: Callable[[str], Any], name: str) -> None:
    """Those that run wait for those that do not: once, and then no more."""
    made = Problem(torch, sample, name, (4096, 8192, 512))
    for grid in (2000, 512, 266):
        made.run(grid)
        free = milliseconds(torch, partial(made.launch, grid, lockstep=False))
        made.problem.poison()
        assert milliseconds(torch, partial(made.launch, grid)) < 10 * free + 2
        made.check()
    made.run()


@pytest.mark.parametrize("other", NAMES)
@pytest.mark.parametrize("name", NAMES)
def test_two_streams_at_once(
    torch: Any, sample: Callable[[str], Any], name: str, other: str
) -> None:
    """Launches that share a word, or the multiprocessors only; grids that fit beside each other."""
    pair = [
        Problem(torch, sample, name, (2048, 4104, 1024)),
        Problem(torch, sample, other, (4096, 2056, 512)),
    ]
    for each in pair:
        each.run()
    streams = [torch.cuda.Stream() for _ in pair]

    def both() -> None:
        for _ in range(10):
            grids = random.choice([(None, None), (64, 66), (32, 100), (130, 132), (20, 300)])
            for each, stream, grid in zip(pair, streams, grids, strict=True):
                with torch.cuda.stream(stream):
                    each.launch(grid)

    for each in pair:
        each.problem.poison()
    torch.cuda.synchronize()
    now = torch.cuda.current_stream()

    def run() -> None:
        for stream in streams:
            stream.wait_stream(now)
        both()
        for stream in streams:
            now.wait_stream(stream)

    assert milliseconds(torch, run) < LIMIT_MS
    for each in pair:
        each.check()
    # Whatever they did to the word: when nobody is in the loop it is zero again.
    for each in pair:
        free = min(milliseconds(torch, partial(each.launch, lockstep=False)) for _ in range(10))
        again = sorted(milliseconds(torch, each.launch) for _ in range(11))
        assert again[5] < free + 0.05, (again, free)


@pytest.mark.parametrize("name", NAMES)
def test_beside_a_kernel_that_occupies_multiprocessors(
    torch: Any, sample: Callable[[str], Any], name: str
) -> None:
    """Some blocks cannot begin before a long kernel ends: the others wait once, not for it."""
    made = Problem(torch, sample, name, (4096, 4096, 512))
    # Another kernel of one block a multiprocessor, whose 40 blocks run for a long time.
    long = Problem(torch, sample, "gemm", (40 * 128, 256, 131072))
    made.run()
    long.launch(40, lockstep=False)
    torch.cuda.synchronize()
    busy = torch.cuda.Stream()
    for _ in range(5):
        made.problem.poison()
        torch.cuda.synchronize()
        with torch.cuda.stream(busy):
            long.launch(40, lockstep=False)
        made.launch()
        torch.cuda.synchronize()
        made.check()
    long.check()


def test_captured_in_a_graph(torch: Any, sample: Callable[[str], Any]) -> None:
    made = Problem(torch, sample, "gemm_cluster", (4096, 4096, 512))
    made.run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made.launch()
        made.launch()
    for _ in range(5):
        made.problem.poison()
        graph.replay()
        torch.cuda.synchronize()
        made.check()
