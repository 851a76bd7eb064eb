"""Kernels over and over, in several processes at once: what only goes wrong on a shared GPU.

A GPU that processes share stops a kernel every few milliseconds, wherever it is. That shows orders
which are missing but hold by luck when a kernel runs alone: without the fences of decision 0014
`relay` is wrong in one launch out of twelve.

    python -m tests.gpu.stress --seconds 10 --processes 8
    python -m tests.gpu.stress --unfenced      # takes the fences out, to see them missed
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import tiledsl.codegen.assemble as assembling
from tests.kernels.family.barriers import by_numbers
from tests.kernels.family.epilogues import add_residual, gemm_residual
from tests.kernels.family.rings import relay


def without_fences(ptx: str) -> str:
    """PTX without the fences that follow a load from shared memory, not a store."""
    kept, loaded = [], False
    for line in ptx.splitlines():
        if "fence.proxy.async" in line and loaded:
            continue
        if re.search(r"\b(ld\.shared|st\.shared|stmatrix)", line):
            loaded = "ld.shared" in line
        kept.append(line)
    return "\n".join(kept) + "\n"


def take_fences_out() -> None:
    """Let every kernel of this process be assembled without fences between loads and arrivals."""
    assemble: Any = assembling.assemble

    def unfenced(ptx: str, *args: Any, **kwargs: Any) -> Any:
        changed = without_fences(ptx)
        assert changed.count("fence.proxy.async") < ptx.count("fence.proxy.async")
        return assemble(changed, *args, **kwargs)

    assembling.assemble = unfenced


def relays(torch: Any) -> Callable[[], bool]:
    m, n, k = 882, 928, 1464
    a = torch.randn(m, k, device="cuda")
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    expected = torch.relu(a).bfloat16().float() @ b.float().T
    c = torch.empty(m, n, device="cuda")

    def right() -> bool:
        c.fill_(float("nan"))
        relay(a, b, c, stages=2, relayed=1)
        return bool(((c - expected).abs() < 1).all())

    return right


def sums(torch: Any) -> Callable[[], bool]:
    """Barriers by hand, many blocks' worth of tiles in one block."""
    n = 400
    x = torch.randn(64 * n, 32, device="cuda")
    y = torch.empty_like(x)

    def right() -> bool:
        y.fill_(float("nan"))
        by_numbers(x, y, n, slots=2)
        return bool((y == x + 1).all())

    return right


def residuals(torch: Any) -> Callable[[], bool]:
    """Short products, so that the residual's ring turns often."""
    m, n = 2048, 1536
    a, b = (torch.randn(rows, 64, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
    r = torch.randn(m, n, device="cuda")
    expected = a.float() @ b.float().T + r
    c = torch.empty(m, n, device="cuda")

    def right() -> bool:
        c.fill_(float("nan"))
        gemm_residual(a, b, r, c, epilogue=add_residual)
        return bool(((c - expected).abs() < 0.1).all())

    return right


CASES = {"relays": relays, "sums": sums, "residuals": residuals}


def run(seconds: float) -> int:
    """Launch in turn until the time is over; how many results were wrong."""
    import torch

    cases = {name: make(torch) for name, make in CASES.items()}
    launches, bad = dict.fromkeys(cases, 0), dict.fromkeys(cases, 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, right in cases.items():
            launches[name] += 1
            bad[name] += not right()
    print(", ".join(f"{name}: {bad[name]} of {launches[name]} wrong" for name in cases), flush=True)
    return sum(bad.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--unfenced", action="store_true")
    options = parser.parse_args()
    if options.processes == 1:
        if options.unfenced:
            take_fences_out()
        return int(run(options.seconds) > 0)
    command = [sys.executable, "-m", "tests.gpu.stress", "--processes", "1"]
    command += ["--seconds", str(options.seconds)] + ["--unfenced"] * options.unfenced
    children = [subprocess.Popen(command) for _ in range(options.processes)]
    return max(child.wait() for child in children)


if __name__ == "__main__":
    sys.exit(main())
