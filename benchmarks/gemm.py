"""samples/gemm.py against ``torch.matmul``, in one process, on the same random data.

    python benchmarks/gemm.py                   # all shapes; writes benchmarks/results/
    python benchmarks/gemm.py --quick           # fewer repeats, writes nothing
    python benchmarks/gemm.py --config BN=128,stages=6 --config BM=256,BN=128

``timing.py`` says what *cold* and *mix* are. Buffers rotate, so that the cache does not flatter;
each contender's result is checked before it is timed. A ratio above 1 means that tiledsl is faster.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "samples"))

import compile_time  # noqa: E402
import timing  # noqa: E402
from common import find_torch, make_problem  # noqa: E402
from gemm import gemm  # noqa: E402
from report import Report, environment, gpu_state, write  # noqa: E402

SHAPES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 1024))
# The goals of the project: at least so much of torch's speed at each shape, and on average.
EACH_GOAL, MEAN_GOAL = 0.97, 1.0
Config = dict[str, int]


@dataclass(frozen=True)
class Contender:
    """One way to compute a product, on one shape."""

    name: str
    shape: tuple[int, int, int]
    call: Callable[[], object]


@dataclass
class Prepared:
    """All contenders, and what was wrong with the results of some."""

    contenders: list[Contender] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def config_name(config: Config) -> str:
    text = ",".join(f"{name}={value}" for name, value in config.items())
    return f"tiledsl({text})" if text else "tiledsl"


def parse_config(text: str) -> Config:
    """``BN=128,stages=6`` as constants of the kernel."""
    pairs = (part.split("=") for part in text.split(",") if part)
    return {name.strip(): int(value) for name, value in pairs}


def parse_shape(text: str) -> tuple[int, int, int]:
    """``4096,4096,512`` as (M, N, K)."""
    m, n, k = map(int, text.split(","))
    return m, n, k


def prepare(
    torch: Any, shapes: Sequence[tuple[int, int, int]], configs: Sequence[Config], dtype: str
) -> Prepared:
    """Buffers and calls for each shape, with the results checked."""
    done = Prepared()
    for shape in shapes:
        m, n, k = shape
        size = 2 * (m * k + n * k + m * n)
        buffers = timing.Rotated(partial(_buffers, torch, shape, dtype, itertools.count()), size)
        methods: list[tuple[str, Callable[[Any, Any, Any], object]]] = [
            ("torch", lambda a, b, c: torch.matmul(a, b.T, out=c))
        ]
        methods += [(config_name(config), partial(_ours, config)) for config in configs]
        for name, method in methods:
            problem = make_problem(shape, dtype, dtype, 1, torch)
            method(problem.a, problem.b, problem.c)
            _, ratio = problem.check()
            if not ratio <= 1:
                done.wrong.append(f"{name} at {shape}: {ratio:.2f} times the allowed error")
            call = partial(_call, method, buffers)
            done.contenders.append(Contender(name, shape, call))
    return done


def _buffers(
    torch: Any, shape: tuple[int, int, int], dtype: str, seeds: Iterator[int]
) -> tuple[Any, ...]:
    problem = make_problem(shape, dtype, dtype, next(seeds), torch)
    return problem.a, problem.b, problem.c


def _ours(config: Config, a: Any, b: Any, c: Any) -> None:
    gemm(a, b, c, **config)


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


def launch_overhead(torch: Any) -> dict[str, float]:
    """Host time of a call with three small torch tensors, in microseconds."""
    problem = make_problem((64, 64, 64), "bfloat16", "bfloat16", 0, torch)
    a, b, c = problem.a, problem.b, problem.c
    transposed = b.T
    return {
        "tiledsl": timing.host_microseconds(torch, lambda: gemm(a, b, c)),
        "torch.matmul": timing.host_microseconds(torch, lambda: torch.matmul(a, transposed, out=c)),
    }


def build_report(
    contenders: Sequence[Contender], measured: dict[str, Any], repeats: int, dtype: str
) -> Report:
    report = Report(
        title=f"GEMM, {dtype}: tiledsl against torch.matmul",
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


def main() -> int:
    parser = argparse.ArgumentParser(description="samples/gemm.py against torch.matmul")
    parser.add_argument("--quick", action="store_true", help="a third of the repeats, no files")
    parser.add_argument("--dtype", choices=("bfloat16", "float16"), default="bfloat16")
    parser.add_argument("--repeats", type=int, help="samples of each call; default 50, quick 15")
    parser.add_argument(
        "--shape", action="append", type=parse_shape, help="M,N,K; may be given several times"
    )
    parser.add_argument("--config", action="append", type=parse_config, default=[])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--no-compile-time", action="store_true")
    options = parser.parse_args()
    torch, why = find_torch()
    if torch is None:
        print(f"benchmarks/gemm.py needs a GPU: {why}")
        return 1
    repeats = options.repeats or (15 if options.quick else 50)
    shapes = options.shape or SHAPES

    prepared = prepare(torch, shapes, [{}, *options.config], options.dtype)
    for text in prepared.wrong:
        print(f"WRONG: {text}")
    measured = measure(torch, prepared.contenders, repeats)
    report = build_report(prepared.contenders, measured, repeats, options.dtype)
    report.launch = launch_overhead(torch)
    if not options.no_compile_time:
        report.compile = compile_time.medians(compile_time.fresh_processes(3))
    if not options.quick:
        write(report, options.out)
    print(report.text())
    missed = [*prepared.wrong, *report.missed(EACH_GOAL, MEAN_GOAL)]
    print("\n".join(f"MISSED: {text}" for text in missed) or "all speed goals met")
    return 1 if prepared.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
