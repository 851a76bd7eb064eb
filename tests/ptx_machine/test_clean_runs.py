"""Right programs under random schedules: no false alarm. TILEDSL_CLEAN_RUNS=500 runs more."""

from __future__ import annotations

import os

import numpy as np

from tests.kernels.oracle import fresh_seed
from tests.ptx_machine.mutants.programs import programs

RUNS = int(os.environ.get("TILEDSL_CLEAN_RUNS", "50"))


def test_clean_runs() -> None:
    """The five programs of the mutants, fresh arrays, every policy."""
    rng = np.random.default_rng(fresh_seed())
    made = programs(rng)
    for run in range(RUNS):
        program = made[run % len(made)]
        policy = ("late", "pct", "random", "pct")[int(rng.integers(4))]
        seed = int(rng.integers(1 << 30))
        wrong = program.run(program.compiled.ptx, policy=policy, seed=seed)
        assert not wrong, f"{program.name} {policy} {seed}: {wrong}"
