"""GEMM on the CPU: dtypes, ragged shapes, tile sizes, and kernels in other forms.

The reference and the tolerance (one unit in the last place, and what float32 accumulation loses)
are those of ``tests/kernels/oracle.py``. Outputs are full of NaN before each run. Inputs are
random, fresh in each run; ``TILEDSL_SEED`` repeats one. tests/gpu/test_gemm.py runs the same
cases, and every shape, on a GPU. The PTX machine takes turns with what the emulator runs in full.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from tests.kernels import cases
from tests.kernels.oracle import NumpyArrays, fresh_seed
from tests.kernels.places import EMULATOR, LATE, PCT

# Each shape once; dtypes and tile sizes take turns, tile sizes as far as the time allows.
SHAPES = [
    pytest.param(
        shape,
        cases.DTYPE_PAIRS[number % len(cases.DTYPE_PAIRS)],
        cases.affordable(shape, number * 5, most_steps=1500),
        id="x".join(map(str, shape)),
    )
    for number, shape in enumerate(cases.SHAPES)
]
MACHINE = (LATE, PCT)


def in_turn(values: Sequence[Any], every: int = 1) -> list[Any]:
    """Parameters (place, value, dtypes): all in the emulator, and on the machine dtypes in turn."""
    found = [
        pytest.param(EMULATOR, value, pair, id=f"emulator-{_id(value)}-{'-'.join(pair)}")
        for value in values
        for pair in cases.DTYPE_PAIRS
    ]
    pairs = itertools.cycle(cases.DTYPE_PAIRS)
    for value, where in itertools.product(values[::every], MACHINE):
        pair = next(pairs)
        found.append(pytest.param(where, value, pair, id=f"{where}-{_id(value)}-{'-'.join(pair)}"))
    return found


def _id(value: Any) -> str:
    return value if isinstance(value, str) else cases.config_id(value)


def arrays() -> NumpyArrays:
    return NumpyArrays(fresh_seed())


# Shapes on the machine too, as far as its time allows: those of few steps, tile sizes in turn.
SMALL = [
    pytest.param(
        MACHINE[number % 2],
        shape,
        cases.DTYPE_PAIRS[number % len(cases.DTYPE_PAIRS)],
        cases.affordable(shape, number * 5, most_steps=40),
        id=f"{MACHINE[number % 2]}-" + "x".join(map(str, shape)),
    )
    for number, shape in enumerate(cases.SHAPES)
    if shape[0] * shape[1] * shape[2] < 1 << 23
]


@pytest.mark.parametrize(("place", "shape", "dtypes", "config"), SMALL, indirect=["place"])
@pytest.mark.usefixtures("place")
def test_shapes_on_the_machine(
    shape: tuple[int, int, int], dtypes: tuple[str, str], config: cases.Config
) -> None:
    cases.run(arrays(), shape, dtypes, config)


@pytest.mark.parametrize(("shape", "dtypes", "config"), SHAPES)
def test_shapes(shape: tuple[int, int, int], dtypes: tuple[str, str], config: cases.Config) -> None:
    cases.run(arrays(), shape, dtypes, config)


@pytest.mark.parametrize(("place", "config", "dtypes"), in_turn(cases.CONFIGS), indirect=["place"])
@pytest.mark.usefixtures("place")
def test_tile_sizes(config: cases.Config, dtypes: tuple[str, str]) -> None:
    """Several tiles for each block, ragged in all three extents."""
    shape = (2 * config["BM"] + 3, 2 * config["BN"] + 8, 5 * config["BK"] + 8)
    cases.run(arrays(), shape, dtypes, config)


@pytest.mark.parametrize(
    ("place", "config", "dtypes"), in_turn(cases.CONFIGS[:3]), indirect=["place"]
)
@pytest.mark.usefixtures("place")
def test_k_zero(config: cases.Config, dtypes: tuple[str, str]) -> None:
    cases.run(arrays(), (129, 264, 0), dtypes, config)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("shape", [(0, 64, 64), (64, 0, 64), (0, 0, 0)])
def test_nothing_to_do(shape: tuple[int, int, int]) -> None:
    cases.run(arrays(), shape, ("bfloat16", "bfloat16"), cases.CONFIGS[0])


@pytest.mark.parametrize(
    ("place", "config", "dtypes"), in_turn(cases.CONFIGS[:4]), indirect=["place"]
)
@pytest.mark.usefixtures("place")
def test_views_of_larger_arrays(config: cases.Config, dtypes: tuple[str, str]) -> None:
    cases.run_views(arrays(), (130, 200, 72), dtypes, config)


@pytest.mark.parametrize(
    ("place", "form", "dtypes"), in_turn(list(cases.FORMS)), indirect=["place"]
)
@pytest.mark.usefixtures("place")
def test_forms(form: str, dtypes: tuple[str, str]) -> None:
    cases.run_form(form, arrays(), dtypes)
