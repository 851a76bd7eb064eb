"""GEMM in the emulator: dtypes, ragged shapes, tile sizes, and kernels in other forms.

The reference and the tolerance (one unit in the last place, and what float32 accumulation loses)
are those of ``tests/kernels/oracle.py``. Outputs are full of NaN before each run. Inputs are
random, fresh in each run; ``TILEDSL_SEED`` repeats one. tests/gpu/test_gemm.py runs the same
cases, and every shape, on a GPU.
"""

from __future__ import annotations

import pytest

from tests.kernels import cases
from tests.kernels.oracle import NumpyArrays, fresh_seed

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
CONFIGS = [pytest.param(config, id=cases.config_id(config)) for config in cases.CONFIGS]
DTYPES = [pytest.param(pair, id="-".join(pair)) for pair in cases.DTYPE_PAIRS]


def arrays() -> NumpyArrays:
    return NumpyArrays(fresh_seed())


@pytest.mark.parametrize(("shape", "dtypes", "config"), SHAPES)
def test_shapes(shape: tuple[int, int, int], dtypes: tuple[str, str], config: cases.Config) -> None:
    cases.run(arrays(), shape, dtypes, config)


@pytest.mark.parametrize("dtypes", DTYPES)
@pytest.mark.parametrize("config", CONFIGS)
def test_tile_sizes(config: cases.Config, dtypes: tuple[str, str]) -> None:
    """Several tiles for each block, ragged in all three extents."""
    shape = (2 * config["BM"] + 3, 2 * config["BN"] + 8, 5 * config["BK"] + 8)
    cases.run(arrays(), shape, dtypes, config)


@pytest.mark.parametrize("dtypes", DTYPES)
@pytest.mark.parametrize("config", CONFIGS[:3])
def test_k_zero(config: cases.Config, dtypes: tuple[str, str]) -> None:
    cases.run(arrays(), (129, 264, 0), dtypes, config)


@pytest.mark.parametrize("shape", [(0, 64, 64), (64, 0, 64), (0, 0, 0)])
def test_nothing_to_do(shape: tuple[int, int, int]) -> None:
    cases.run(arrays(), shape, ("bfloat16", "bfloat16"), cases.CONFIGS[0])


@pytest.mark.parametrize("dtypes", DTYPES)
@pytest.mark.parametrize("config", CONFIGS[:4])
def test_views_of_larger_arrays(config: cases.Config, dtypes: tuple[str, str]) -> None:
    cases.run_views(arrays(), (130, 200, 72), dtypes, config)


@pytest.mark.parametrize("dtypes", DTYPES)
@pytest.mark.parametrize("form", cases.FORMS)
def test_forms(form: str, dtypes: tuple[str, str]) -> None:
    cases.run_form(form, arrays(), dtypes)
