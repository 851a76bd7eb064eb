"""The pipeline family's PTX on the machine: every case, under the two policies that find most."""

from __future__ import annotations

import secrets

import numpy as np
import pytest

from tests.kernels.family import FAMILY
from tests.kernels.family.registry import Run, problems
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import Emulator

CASES = [(subject, name) for subject, cases in FAMILY.items() for name in cases]


@pytest.mark.parametrize("policy", ["late", "pct"])
@pytest.mark.parametrize(("subject", "name"), CASES, ids=[f"{s}-{n}" for s, n in CASES])
@pytest.mark.filterwarnings("ignore::tiledsl.PerformanceWarning")
def test_case(subject: str, name: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same arrays and references as in the emulator and on a GPU."""
    seed = str(secrets.randbits(30))
    print(f"TILEDSL_PTX_POLICY={policy} TILEDSL_PTX_SEED={seed}")
    monkeypatch.setenv("TILEDSL_BACKEND", "ptx")
    monkeypatch.setenv("TILEDSL_PTX_POLICY", policy)
    monkeypatch.setenv("TILEDSL_PTX_SEED", seed)
    wrong = problems(subject, name, Run(Emulator(), np.random.default_rng(fresh_seed())))
    assert not wrong, "\n".join(wrong)
