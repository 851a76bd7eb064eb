"""The pipeline family in the emulator, under several schedules; and each kernel assembled.

The cases, with trip counts around the number of stages and ragged shapes, are those of
``tests/kernels/family``; tests/gpu/test_family.py runs them on a GPU.
"""

from __future__ import annotations

import secrets

import numpy as np
import pytest

from tests.kernels.family import FAMILY, SUBJECTS, Run, kernels, problems
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import Emulator

CASES = [(subject, name) for subject, cases in FAMILY.items() for name in cases]


def test_every_subject_is_run() -> None:
    assert sorted(FAMILY) == sorted(module.__name__.rpartition(".")[2] for module in SUBJECTS)


@pytest.mark.parametrize("schedule", ["in order", "random"])
@pytest.mark.parametrize(("subject", "name"), CASES, ids=[f"{s}-{n}" for s, n in CASES])
@pytest.mark.filterwarnings("ignore::tiledsl.PerformanceWarning")
def test_case(subject: str, name: str, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the emulator's own order of events, and in one that no run had before."""
    chosen = str(secrets.randbits(32)) if schedule == "random" else ""
    print(f"TILEDSL_EMULATOR_SEED={chosen}")
    monkeypatch.setenv("TILEDSL_EMULATOR_SEED", chosen)
    wrong = problems(subject, name, Run(Emulator(), np.random.default_rng(fresh_seed())))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("subject", FAMILY)
@pytest.mark.filterwarnings("ignore::tiledsl.PerformanceWarning")
def test_kernels_assemble(subject: str) -> None:
    """No spills, no warnings of the assembler: every variant that the cases make."""
    for name in FAMILY[subject]:
        assert not problems(subject, name, Run(Emulator(), np.random.default_rng(fresh_seed())))
    for kernel in kernels(subject):
        assert kernel.variants, f"no case runs {kernel.name}"
        for variant in kernel.variants:
            resources = variant.resources
            spilled = resources.spill_store_bytes + resources.spill_load_bytes
            assert (spilled, resources.stack_bytes, resources.warnings) == (0, 0, ()), kernel.name
