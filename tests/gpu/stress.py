"""A script: one kernel over and over, in several processes at once, until a result is wrong.

Races that need a rare delay show when processes share the GPU. ``--edit`` changes the PTX before it
is assembled, to find out which order is missing: "sync": the warps of a part meet behind their
wgmma wait; "fence": a proxy fence in front of each wgmma.

    python -m tests.gpu.stress --seconds 10 --processes 6 --edit sync
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import Any

import tiledsl.codegen.assemble as assembling
from tests.kernels.family.rings import relay

SHAPE = (882, 928, 1464)
EDITS = {
    "none": ("", ""),
    "sync": (
        "wgmma.wait_group.sync.aligned 0;",
        "wgmma.wait_group.sync.aligned 0; bar.sync 2, 128;",
    ),
    "fence": (
        "wgmma.fence.sync.aligned;",
        "fence.proxy.async.shared::cta; wgmma.fence.sync.aligned;",
    ),
}


def edit(which: str) -> None:
    """Let every kernel of this process be assembled from changed PTX."""
    assemble: Any = assembling.assemble
    old, new = EDITS[which]

    def edited(ptx: str, *args: Any, **kwargs: Any) -> Any:
        if old and old not in ptx:
            raise SystemExit(f"the PTX has no {old!r}")
        return assemble(ptx.replace(old, new) if old else ptx, *args, **kwargs)

    assembling.assemble = edited


def run(which: str, seconds: float) -> int:
    """Launch until the time is over; how many results were wrong."""
    import torch

    edit(which)
    m, n, k = SHAPE
    a = torch.randn(m, k, device="cuda")
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    expected = torch.relu(a).bfloat16().float() @ b.float().T
    c = torch.empty(m, n, device="cuda")
    bad = launches = 0
    rows: set[int] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        c.fill_(float("nan"))
        relay(a, b, c, stages=2, relayed=1)
        launches += 1
        wrong = ~((c - expected).abs() < 1)
        if bool(wrong.any()):
            bad += 1
            rows |= {int(row) % 64 for row in wrong.any(1).nonzero().flatten()}
    print(f"{which}: {bad} of {launches} launches wrong, rows of tiles: {sorted(rows)}", flush=True)
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--edit", choices=list(EDITS), default="none")
    options = parser.parse_args()
    if options.processes == 1:
        return int(run(options.edit, options.seconds) > 0)
    command = [sys.executable, "-m", "tests.gpu.stress", "--processes", "1"]
    command += ["--seconds", str(options.seconds), "--edit", options.edit]
    children = [subprocess.Popen(command) for _ in range(options.processes)]
    return max(child.wait() for child in children)


if __name__ == "__main__":
    sys.exit(main())
