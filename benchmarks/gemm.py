"""samples/gemm.py against ``torch.matmul``, in one process, on the same random data.

    python benchmarks/gemm.py                   # all shapes; writes benchmarks/results/
    python benchmarks/gemm.py --quick           # fewer repeats, writes nothing
    python benchmarks/gemm.py --config BN=128,stages=6 --config BM=256,BN=128

``timing.py`` says what *cold* and *mix* are. Buffers rotate, so that the cache does not flatter;
each contender's result is checked before it is timed. A ratio above 1 means that tiledsl is faster.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "samples"))

import compile_time
import timing
from common import find_torch, make_problem
from contest import (
    RESULTS,
    Method,
    build_report,
    measure,
    parse_shape,
    prepare,
    torch_method,
)
from gemm import gemm
from report import write

SHAPES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 1024))
# The goals of the project: at least so much of torch's speed at each shape, and on average.
EACH_GOAL, MEAN_GOAL = 0.97, 1.0
Config = dict[str, int]


def config_name(config: Config) -> str:
    text = ",".join(f"{name}={value}" for name, value in config.items())
    return f"tiledsl({text})" if text else "tiledsl"


def parse_config(text: str) -> Config:
    """``BN=128,stages=6`` as constants of the kernel."""
    pairs = (part.split("=") for part in text.split(",") if part)
    return {name.strip(): int(value) for name, value in pairs}


def _ours(config: Config, a: Any, b: Any, c: Any) -> None:
    gemm(a, b, c, **config)


def launch_overhead(torch: Any) -> dict[str, float]:
    """Host time of a call with three small torch tensors, in microseconds."""
    problem = make_problem((64, 64, 64), "bfloat16", "bfloat16", 0, torch)
    a, b, c = problem.a, problem.b, problem.c
    transposed = b.T
    return {
        "tiledsl": timing.host_microseconds(torch, lambda: gemm(a, b, c)),
        "torch.matmul": timing.host_microseconds(torch, lambda: torch.matmul(a, transposed, out=c)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="samples/gemm.py against torch.matmul")
    parser.add_argument("--quick", action="store_true", help="a third of the repeats, no files")
    parser.add_argument("--dtype", choices=("bfloat16", "float16"), default="bfloat16")
    parser.add_argument("--repeats", type=int, help="samples of each call; default 50, quick 15")
    parser.add_argument(
        "--shape", action="append", type=parse_shape, help="M,N,K; may be given several times"
    )
    parser.add_argument("--config", action="append", type=parse_config, default=[])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--no-compile-time", action="store_true")
    options = parser.parse_args()
    torch, why = find_torch()
    if torch is None:
        print(f"benchmarks/gemm.py needs a GPU: {why}")
        return 1
    repeats = options.repeats or (15 if options.quick else 50)
    shapes = options.shape or SHAPES

    methods: list[tuple[str, Method]] = [torch_method(torch)]
    methods += [(config_name(each), partial(_ours, each)) for each in [{}, *options.config]]
    prepared = prepare(torch, shapes, methods, options.dtype)
    for text in prepared.wrong:
        print(f"WRONG: {text}")
    measured = measure(torch, prepared.contenders, repeats)
    title = f"GEMM, {options.dtype}: tiledsl against torch.matmul"
    report = build_report(title, prepared.contenders, measured, repeats, options.dtype)
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
