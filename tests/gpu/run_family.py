"""A script: the cases of one subject of the family; prints what is wrong. See test_family.py.

In a process of its own, so that a kernel that hangs ends with it. Each case prints its name first.

    python -m tests.gpu.run_family clusters
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings

import numpy as np

import tiledsl as td
from tests.gpu.launch_ptx import framework
from tests.kernels.family import FAMILY, Run, problems
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import Gpu

# Each case as in the emulator, several times, since a race shows as an error that comes and goes;
# then with larger shapes and more trips.
RUNS = (False, False, True)


def main() -> int:
    subject = sys.argv[1]
    place = Gpu(framework("torch"))
    warnings.simplefilter("ignore", td.PerformanceWarning)
    failed = False
    for name in FAMILY[subject]:
        print(f"{subject}: {name}", flush=True)
        began = time.perf_counter()
        for large in RUNS:
            try:
                run = Run(place, np.random.default_rng(fresh_seed()), large)
                wrong = problems(subject, name, run)
            except Exception:  # go on with the other cases, as far as the GPU still answers
                wrong = [traceback.format_exc()]
            failed |= bool(wrong)
            print("".join(f"{text}\n" for text in wrong[:20]), end="", flush=True)
        print(f"  {time.perf_counter() - began:.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
