"""The pipeline family's PTX on the machine: every case, under the two policies that find most."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.family import FAMILY
from tests.kernels.family.registry import Run, problems
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import LATE, PCT, place_named

CASES = [(subject, name) for subject, cases in FAMILY.items() for name in cases]


@pytest.mark.parametrize("where", [LATE, PCT])
@pytest.mark.parametrize(("subject", "name"), CASES, ids=[f"{s}-{n}" for s, n in CASES])
@pytest.mark.filterwarnings("ignore::tiledsl.PerformanceWarning")
def test_case(subject: str, name: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same arrays and references as in the emulator and on a GPU."""
    place = place_named(where)
    place.enter(monkeypatch)
    wrong = problems(subject, name, Run(place, np.random.default_rng(fresh_seed())))
    assert not wrong, "\n".join(wrong)
