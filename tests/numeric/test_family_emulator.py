"""The pipeline family in the emulator, under several schedules; and each kernel assembled.

The cases, with trip counts around the number of stages and ragged shapes, are those of
``tests/kernels/family``; tests/gpu/test_family.py runs them on a GPU.
"""

from __future__ import annotations

import secrets
import warnings

import numpy as np
import pytest

import tiledsl as td
from tests.kernels.family import FAMILY, SUBJECTS, Run, kernels, problems
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import Emulator
from tests.numeric.fills import Key, recorded

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


@pytest.fixture(scope="module", params=FAMILY)
def ran(request: pytest.FixtureRequest) -> tuple[str, dict[Key, set[int]]]:
    """A subject of which all cases have run, and how often stages were filled on the way."""
    subject: str = request.param
    with recorded() as fills, warnings.catch_warnings():
        warnings.simplefilter("ignore", td.PerformanceWarning)
        for name in FAMILY[subject]:
            assert not problems(subject, name, Run(Emulator(), np.random.default_rng(fresh_seed())))
    return subject, fills


# Roles that meet at named barriers, without a ring and without mbarriers.
NO_STAGES = {"met", "three_meet"}


def test_stages_are_filled_for_each_trip_count(ran: tuple[str, dict[Key, set[int]]]) -> None:
    """None, one, and around one lap and two of every ring that the cases make."""
    subject, fills = ran
    assert {kernel.name for kernel in kernels(subject)} - NO_STAGES <= {key[0] for key in fills}
    for (kernel, cluster, ring, stages), counts in fills.items():
        missing = {0, 1, stages - 1, stages, stages + 1, 2 * stages + 1} - counts
        what = f"{kernel} in clusters of {cluster}, {ring} with {stages} stages"
        assert not missing, f"{what}: filled {sorted(counts)} times, never {sorted(missing)}"


def test_kernels_assemble(ran: tuple[str, dict[Key, set[int]]]) -> None:
    """No spills, no warnings of the assembler: every variant that the cases make."""
    subject, _ = ran
    for kernel in kernels(subject):
        assert kernel.variants, f"no case runs {kernel.name}"
        for variant in kernel.variants:
            resources = variant.resources
            spilled = resources.spill_store_bytes + resources.spill_load_bytes
            assert (spilled, resources.stack_bytes, resources.warnings) == (0, 0, ()), kernel.name
