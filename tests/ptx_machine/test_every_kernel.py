"""No kernel of samples/ and tests/kernels/ is left out: each runs on the PTX machine.

The other tests run them on many shapes and under several schedules (the fixture ``place``); this
one finds the kernels by itself, and fails for one that is new and that nothing here runs. The
kernels of the pipeline family are those of their cases, all of which test_family.py runs.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tests.kernels import agreement, cases, elementwise, moves, unfold
from tests.kernels.family import FAMILY
from tests.kernels.oracle import NumpyArrays, fresh_seed
from tests.kernels.places import LATE, PCT, Emulator, place_named

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = {path.stem: path for path in (ROOT / "samples").glob("*.py")}
NO_KERNELS = {"common"}
REFUSED = {"forgetful"}  # of quickstart: shows an error
ARGUMENTS = {"conv_im2col": "--height 5 --width 6", "quickstart": ""}  # others: a small product


def found_in(names: dict[str, Any]) -> set[str]:
    return {value.name for value in names.values() if isinstance(value, td.Kernel)}


@pytest.fixture(params=[LATE, PCT])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """The PTX machine, which has run no kernel yet."""
    made = place_named(request.param)
    made.enter(monkeypatch)
    monkeypatch.setattr(agreement, "LAUNCHED", set())
    return made


def launched(file: Path) -> set[str]:
    """Kernels of a file that the machine has run in this test."""
    return {name for where, name in agreement.LAUNCHED if Path(where) == file}


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("name", sorted(set(SAMPLES) - NO_KERNELS))
def test_sample(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its script, as run by a user, goes through each of its kernels, and finds no error."""
    monkeypatch.syspath_prepend(str(SAMPLES[name].parent))
    arguments = ARGUMENTS.get(name, "--m 136 --n 264 --k 136 --device emulator").split()
    monkeypatch.setattr(sys, "argv", [str(SAMPLES[name]), *arguments])
    names = runpy.run_path(str(SAMPLES[name]))
    assert "main" not in names or names["main"]() == 0, capsys.readouterr().out
    own = found_in(names) - REFUSED
    assert own
    assert own == launched(SAMPLES[name])


def test_common_has_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NO_KERNELS:
        assert not found_in(runpy.run_path(str(SAMPLES[name])))


def form(name: str) -> Callable[[Emulator, np.random.Generator], None]:
    """The first case of one of the forms of a product."""

    def run(place: Emulator, rng: np.random.Generator) -> None:
        arrays = NumpyArrays(int(rng.integers(1 << 30)))
        assert not next(cases.FORMS[name](arrays, ("bfloat16", "float32")), "")

    return run


def product(place: Emulator, rng: np.random.Generator) -> None:
    arrays = NumpyArrays(int(rng.integers(1 << 30)))
    cases.run(arrays, (65, 72, 136), ("float16", "bfloat16"), cases.CONFIGS[1])


def unfolded(place: Emulator, rng: np.random.Generator) -> None:
    problem = unfold.UNFOLDS[4]
    x = unfold.random_bits(rng, problem.shape, problem.dtype)
    expected = problem.expected(x)
    y = np.full(expected.shape, np.nan, x.dtype)
    unfold.unfold(x, y, **problem.constants())
    assert (y == expected).all()


def skipped(place: Emulator, rng: np.random.Generator) -> None:
    x = unfold.random_bits(rng, (77, 40), "bfloat16")
    y = np.full((39, 40), np.nan, x.dtype)
    unfold.skip_rows(x, y, step=2, BM=24)
    assert (y == x[::2]).all()


CASES: dict[str, list[Callable[[Emulator, np.random.Generator], None]]] = {
    "gemm": [product, *map(form, ("nn", "tn", "k_group", "batched"))],
    "control_flow": [*map(form, ("some_blocks", "early_return", "one_program", "copies"))],
    "moves": [
        lambda place, rng: moves.run_shift(place, rng, np.int32, (128, 24)),
        lambda place, rng: moves.run_shift_line(place, rng, np.float16, 40),
        lambda place, rng: moves.run_ring(place, rng, "async", np.int16, (70, 45)),
        lambda place, rng: moves.run_lines(place, rng, np.int8, 17, 3, 64),
        lambda place, rng: moves.run_spread(place, rng, moves.SPREADS[3]),
        lambda place, rng: moves.run_combine(place, rng, "xor", np.int64, shared=True, blocks=3),
    ],
    "elementwise": [lambda place, rng: elementwise.run_function(place, rng, "exp", np.float32)],
    "unfold": [unfolded, skipped],
}


@pytest.mark.parametrize("name", sorted(
    path.stem for path in (ROOT / "tests/kernels").glob("*.py") if not path.stem.startswith("test_")
))  # fmt: skip
def test_module(name: str, machine: Emulator) -> None:
    module = importlib.import_module(f"tests.kernels.{name}")
    own = {k.name for k in vars(module).values() if isinstance(k, td.Kernel)
           and k.function.__module__ == module.__name__}  # fmt: skip
    assert bool(own) == (name in CASES), f"tests/kernels/{name}.py: which cases run its kernels?"
    for run in CASES.get(name, ()):
        run(machine, np.random.default_rng(fresh_seed()))
    assert own <= launched(Path(str(module.__file__)))


def test_every_subject_of_the_family_has_cases() -> None:
    """test_family.py runs them all; test_family_emulator.py demands that they run each kernel."""
    folder = ROOT / "tests/kernels/family"
    subjects = {path.stem for path in folder.glob("*.py")} - {"__init__", "registry"}
    assert subjects == set(FAMILY)
