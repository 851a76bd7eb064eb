"""The GEMM samples against each other and ``torch.matmul``: clusters, turns, stages in groups.

    python benchmarks/gemm_variants.py              # all shapes; writes benchmarks/results/
    python benchmarks/gemm_variants.py --quick      # fewer repeats, writes nothing
    python benchmarks/gemm_variants.py --variant pingpong --shape 4096,4096,1024

One process, random order, checked results, rotated buffers: see ``timing.py`` and ``contest.py``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "samples"))

from common import find_torch
from contest import (
    RESULTS,
    Method,
    Shape,
    build_report,
    measure,
    parse_shape,
    prepare,
    torch_method,
)
from gemm import gemm
from gemm_cluster import gemm_cluster
from gemm_pingpong import gemm_pingpong
from report import Report, write

import tiledsl as td

CUBES: tuple[Shape, ...] = tuple((n, n, n) for n in (4096, 8192, 16384))
SHORT: tuple[Shape, ...] = ((4096, 4096, 1024), (8192, 4096, 1024), (4096, 11008, 4096))
# The goals of the project, cold: of what, at which shapes, against which, at least how much.
CLUSTER_GOAL = 0.99  # the cluster GEMM, the better way to load b, over the plain one, at each cube
CLUSTERS = ("cluster", "cluster free", "cluster whole")
PINGPONG_GOAL = 1.03  # ping-pong with 128 x 128 tiles over torch, where K is short
BEST_GOAL = 1.0  # the best variant over torch, at the two large cubes


def clustered(kernel: Any, shape: tuple[int, ...]) -> Any:
    """The same kernel in clusters of another shape."""
    return td.kernel(grid=td.persistent, cluster=shape)(kernel.function)


def variants() -> dict[str, Method]:
    """Each variant by its name: the tile of a block, what is special, the size of a K group."""
    found: dict[str, Method] = {"plain": gemm, "plain lockstep": partial(gemm, lockstep=True)}

    def add(name: str, kernel: Any, stages: int, **constants: int) -> None:
        """With tiles alone, and in pairs behind one barrier: a whole number of pairs."""
        found[name] = partial(kernel, **constants, stages=stages)
        found[f"{name} k2"] = partial(kernel, **constants, stages=stages // 2 * 2, k_group=2)

    alone = clustered(gemm_cluster, (1, 1))
    found["plain k2"] = partial(alone, stages=4, k_group=2, lockstep=False)
    add("cluster", gemm_cluster, stages=4)
    found["cluster free"] = partial(gemm_cluster, stages=4, lockstep=False)
    # Fewer stages keep blocks closer together, too, so that the L2 cache serves more of them.
    found["cluster whole"] = partial(gemm_cluster, stages=3, partitioned=False, lockstep=False)
    pairs = clustered(gemm_pingpong, (2, 1))
    for name, kernel in (("pingpong", gemm_pingpong), ("pingpong cluster", pairs)):
        add(f"{name} 128", kernel, BN=128, stages=6)
        add(f"{name} 192", kernel, BN=192, stages=4)
    return found


def ratios(report: Report, shape: Shape) -> dict[str, float]:
    """The cold ratios at a shape, by contender."""
    return {row.name: row.ratio for row in report.rows if (row.way, row.shape) == ("cold", shape)}


def missed(report: Report) -> list[str]:
    """The goals that are missed, of the shapes and contenders that were measured."""
    texts = []

    def goal(what: str, shape: Shape, got: float | None, least: float) -> None:
        if got is not None and got < least:
            texts.append(f"{what}, {'x'.join(map(str, shape))}: {got:.3f} < {least}")

    for shape in {row.shape: None for row in report.rows}:
        found = ratios(report, shape)
        ours = [ratio for name, ratio in found.items() if name != "torch"]
        clusters = [ratio for name, ratio in found.items() if name in CLUSTERS]
        if shape in CUBES and clusters and "plain" in found:
            goal("cluster over plain", shape, max(clusters) / found["plain"], CLUSTER_GOAL)
        if shape in SHORT:
            goal("pingpong 128 over torch", shape, found.get("pingpong 128"), PINGPONG_GOAL)
        if shape in CUBES[1:] and ours:
            goal("the best over torch", shape, max(ours), BEST_GOAL)
    return texts


def wanted(names: list[str], known: dict[str, Method]) -> list[str]:
    """The variants whose names start with one of ``names``; all without names."""
    if not names:
        return list(known)
    return [name for name in known if any(name.startswith(start) for start in names)]


def main() -> int:
    parser = argparse.ArgumentParser(description="the GEMM samples against torch.matmul")
    parser.add_argument("--quick", action="store_true", help="a third of the repeats, no files")
    parser.add_argument("--dtype", choices=("bfloat16", "float16"), default="bfloat16")
    parser.add_argument("--repeats", type=int, help="samples of each call; default 30, quick 10")
    parser.add_argument(
        "--shape", action="append", type=parse_shape, help="M,N,K; may be given several times"
    )
    parser.add_argument(
        "--variant", action="append", default=[], help="how its name starts; default: all"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch, why = find_torch()
    if torch is None:
        print(f"benchmarks/gemm_variants.py needs a GPU: {why}")
        return 1
    known: dict[str, Callable[..., object]] = variants()
    repeats = options.repeats or (10 if options.quick else 30)
    shapes = options.shape or (*CUBES, *SHORT)

    methods = [torch_method(torch)]
    methods += [(name, known[name]) for name in wanted(options.variant, known)]
    prepared = prepare(torch, shapes, methods, options.dtype)
    for text in prepared.wrong:
        print(f"WRONG: {text}", flush=True)
    measured = measure(torch, prepared.contenders, repeats)
    title = f"Variants of GEMM, {options.dtype}, against torch.matmul"
    report = build_report(title, prepared.contenders, measured, repeats, options.dtype)
    if not options.quick:
        write(report, options.out, "gemm-variants")
    print(report.text())
    texts = missed(report)
    print("\n".join(f"MISSED: {text}" for text in texts) or "all speed goals met")
    return 1 if prepared.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
