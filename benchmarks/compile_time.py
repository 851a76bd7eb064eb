"""How long the GEMM takes to compile, in fresh processes, and where the time goes. Needs no GPU.

python benchmarks/compile_time.py               # a table: median of five processes
python benchmarks/compile_time.py --once        # one compilation in this process, as JSON
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS = ("import", "frontend", "passes", "llvm_ir", "llvm", "assemble")
# Seconds, from the project's goals: frontend to cubin, and frontend with passes.
TOTAL_GOAL = 0.5
FRONT_GOAL = 0.15


def compile_once() -> dict[str, float]:
    """Seconds of each step, from a process that has not imported tiledsl before.

    ``total`` is the time of the ``compile`` call, with the imports that it makes itself.
    """
    started = time.perf_counter()
    import tiledsl as td

    seconds = {"import": time.perf_counter() - started}
    sys.path.insert(0, str(ROOT / "samples"))
    from gemm import gemm

    spec = td.spec((4096, 4096), td.bfloat16)
    started = time.perf_counter()
    compiled = gemm.compile(spec, spec, spec)
    seconds["total"] = time.perf_counter() - started
    return seconds | dict(compiled.timings)


def fresh_processes(count: int) -> list[dict[str, float]]:
    """``compile_once`` in processes of their own; a first one warms the file cache, uncounted."""
    runs = []
    for _ in range(count + 1):
        command = [sys.executable, __file__, "--once"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        runs.append(json.loads(output))
    return runs[1:]


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    """The median of each step. Imports that a call makes count as the step that made them."""
    return {step: statistics.median(run[step] for run in runs) for step in runs[0]}


def table(seconds: dict[str, float]) -> str:
    """The steps in milliseconds, and the goals."""
    lines = [f"{step:<10} {seconds[step] * 1e3:7.1f} ms" for step in STEPS if step in seconds]
    front = seconds["frontend"] + seconds["passes"]
    for name, value, goal in (
        ("frontend and passes", front, FRONT_GOAL),
        ("compile() in all", seconds["total"], TOTAL_GOAL),
    ):
        verdict = "met" if value <= goal else "MISSED"
        goals = f"goal {goal * 1e3:.0f} ms on the CI machine"
        lines.append(f"{name:<20} {value * 1e3:6.1f} ms, {goals}: {verdict}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="compile time of samples/gemm.py")
    parser.add_argument("--once", action="store_true", help="compile here and print JSON")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the medians as JSON")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(compile_once()))
        return 0
    seconds = medians(fresh_processes(options.processes))
    print(json.dumps(seconds) if options.json else table(seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
