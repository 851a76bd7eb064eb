"""Kernels checked without the passes behind the checks, and those that pass run on the emulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import tiledsl as td
from tiledsl.codegen.checks.accesses import check_accesses
from tiledsl.codegen.checks.clusters import check_clusters
from tiledsl.codegen.checks.linear import check_linear_stages
from tiledsl.codegen.checks.producers import check_producers
from tiledsl.codegen.checks.raw_bytes import check_raw_bytes
from tiledsl.codegen.checks.ready import check_ready
from tiledsl.codegen.checks.turns import check_turns
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.nvptx.targets import get_target
from tiledsl.codegen.passes.derive_bytes import derive_bytes

BF = td.spec((512, 512), td.bfloat16)
F32 = td.spec((512, 512), td.float32)


def traced(kernel: td.Kernel, *args: Any, **constants: Any) -> Kernel:
    """The tile-level kernel for given argument types, not checked."""
    bound = kernel.binder.bind(args, constants)
    params = {
        name: kernel.binder.spec(name, kernel.binder.described(name, bound[name]))
        for name in kernel.binder.run_time
    }
    return kernel._build(bound, params, get_target("sm_90a"))


def run_checks(kernel: Kernel) -> None:
    """All checks at tile level, in the compiler's order."""
    for run in (
        check_linear_stages,
        check_turns,
        check_producers,
        check_ready,
        check_clusters,
        check_raw_bytes,
        check_accesses,
        derive_bytes,
    ):
        run(kernel)


def check(kernel: td.Kernel, *args: Any, **constants: Any) -> Kernel:
    """Trace and check; returns the tile-level kernel."""
    ir = traced(kernel, *args, **constants)
    run_checks(ir)
    return ir


def run(kernel: td.Kernel, *args: Any, grid: tuple[int, ...] | None = None) -> None:
    """Emulate a kernel that must be accepted, on random matrices: it must not hang."""
    rng = np.random.default_rng()
    dtypes = {"bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
    values = [
        rng.standard_normal(arg.shape, np.float32).astype(dtypes[str(arg.dtype)])
        if arg is BF or arg is F32
        else arg
        for arg in args
    ]
    kernel.launch(*values, grid=grid)
