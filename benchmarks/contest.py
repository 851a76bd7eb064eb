"""Matrix products against each other: buffers, checked results, both ways of timing, a report."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT / "samples"))

import timing  # noqa: E402
from common import make_problem  # noqa: E402
from report import Report, environment, gpu_state  # noqa: E402

import tiledsl as td  # noqa: E402

Shape = tuple[int, int, int]
# Computes c = a @ b.T, given (a, b, c).
Method = Callable[[Any, Any, Any], object]


@dataclass(frozen=True)
class Contender:
    """One way to compute a product, on one shape."""

    name: str
    shape: Shape
    call: Callable[[], object]


@dataclass
class Prepared:
    """All contenders, and what was wrong with some: a result, or that there was none."""

    contenders: list[Contender] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def torch_method(torch: Any) -> tuple[str, Method]:
    """``torch.matmul``, which all others are compared with."""
    return "torch", lambda a, b, c: torch.matmul(a, b.T, out=c)


def parse_shape(text: str) -> Shape:
    """``4096,4096,512`` as (M, N, K)."""
    m, n, k = map(int, text.split(","))
    return m, n, k


def prepare(
    torch: Any, shapes: Sequence[Shape], methods: Sequence[tuple[str, Method]], dtype: str
) -> Prepared:
    """Buffers and calls for each shape, with the results checked.

    The contenders of a shape share its buffers. One that raises or is wrong is left out, but for
    torch, without which there is nothing to compare with.
    """
    done = Prepared()
    for shape in shapes:
        m, n, k = shape
        size = 2 * (m * k + n * k + m * n)
        buffers = timing.Rotated(partial(_buffers, torch, shape, dtype, itertools.count()), size)
        for name, method in methods:
            fault = _fault(torch, shape, dtype, method)
            if fault:
                done.wrong.append(f"{name} at {shape}: {fault}")
                if name != "torch":
                    continue
            done.contenders.append(Contender(name, shape, partial(_call, method, buffers)))
    return done


def _fault(torch: Any, shape: Shape, dtype: str, method: Method) -> str | None:
    """What is wrong with a method's result, if anything."""
    problem = make_problem(shape, dtype, dtype, 1, torch)
    try:
        method(problem.a, problem.b, problem.c)
    except td.TileError as error:
        return f"{type(error).__name__}: {error}"
    _, ratio = problem.check()
    return None if ratio <= 1 else f"{ratio:.2f} times the allowed error"  # NaN is wrong, too


def _buffers(torch: Any, shape: Shape, dtype: str, seeds: Iterator[int]) -> tuple[Any, ...]:
    problem = make_problem(shape, dtype, dtype, next(seeds), torch)
    return problem.a, problem.b, problem.c


def _call(method: Callable[..., object], buffers: timing.Rotated) -> object:
    return method(*buffers.following())


def measure(torch: Any, contenders: Sequence[Contender], repeats: int) -> dict[str, Any]:
    """Both ways of timing: the samples of each contender, and the GPU's state after each."""
    calls = [contender.call for contender in contenders]
    result: dict[str, Any] = {}
    for name, way in (("cold", timing.cold), ("mix", timing.mix)):
        result[name] = way(torch, calls, repeats)
        result[f"{name}_state"] = gpu_state()
    return result


def build_report(
    title: str,
    contenders: Sequence[Contender],
    measured: dict[str, Any],
    repeats: int,
    dtype: str,
) -> Report:
    report = Report(
        title=title,
        dtype=dtype,
        repeats=repeats,
        environment=environment(),
        states={way: measured[f"{way}_state"] for way in ("cold", "mix")},
    )
    for way in ("cold", "mix"):
        samples = dict(zip([(c.name, c.shape) for c in contenders], measured[way], strict=True))
        for (name, shape), sample in samples.items():
            report.add(way, name, shape, sample, samples["torch", shape].median)
    return report
