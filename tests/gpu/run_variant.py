"""A script: one variant of GEMM on every shape; prints what is wrong. See test_gemm_variants.py.

In a process of its own, so that a kernel that hangs ends with it.

    python -m tests.gpu.run_variant "pingpong 128"
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "samples"), str(ROOT / "benchmarks")]

import gemm_variants  # noqa: E402
from common import find_torch, make_problem  # noqa: E402

# Fewer and more tiles than blocks, ragged in each dimension, short and empty sums.
SHAPES = [
    (128, 128, 64),
    (8, 8, 8),
    (1, 8, 64),
    (129, 136, 72),
    (384, 256, 200),
    (640, 776, 0),
    (1000, 1032, 328),
    (2048, 2048, 64),
    (4096, 4104, 64),  # many short turns
    (4097, 4104, 1000),
    (8192, 256, 4096),
    (256, 8192, 4096),
    (4096, 4096, 4096),
]


def main() -> int:
    name = sys.argv[1]
    torch, why = find_torch()
    if torch is None:
        print(f"no GPU: {why}")
        return 2
    method = gemm_variants.variants()[name]
    wrong = 0
    for seed, shape in enumerate(SHAPES):
        for dtype, out in (("bfloat16", "bfloat16"), ("float16", "float32")):
            problem = make_problem(shape, dtype, out, seed, torch)
            for _ in range(3):  # a race shows as an error that comes and goes
                problem.poison()
                method(problem.a, problem.b, problem.c)
                error, ratio = problem.check()
                if not ratio <= 1:
                    print(f"{name} {shape} {dtype} -> {out}: {error}, {ratio} times the allowed")
                    wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
