"""GEMM on the GPU: every shape, dtype and tile size, and kernels in other forms.

The cases, the reference and the tolerance are those of the emulator's tests (``tests/kernels``);
here all shapes run, thousands of launches in one process.
"""

from __future__ import annotations

import pytest

from tests.kernels import cases
from tests.kernels.oracle import TorchArrays, fresh_seed

pytestmark = pytest.mark.gpu

CONFIGS = [pytest.param(config, id=cases.config_id(config)) for config in cases.CONFIGS]
DTYPES = [pytest.param(pair, id="-".join(pair)) for pair in cases.DTYPE_PAIRS]


def arrays() -> TorchArrays:
    return TorchArrays(fresh_seed())


@pytest.mark.parametrize("dtype", cases.INPUTS)
@pytest.mark.parametrize("config", CONFIGS)
def test_every_shape(config: cases.Config, dtype: str) -> None:
    count, wrong = cases.every_shape(arrays(), dtype, config)
    assert count == (len(cases.SHAPES) + len(cases.ROWS) * len(cases.COLUMNS)) * len(cases.OUTPUTS)
    assert not wrong, f"{len(wrong)} of {count} are wrong:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("dtypes", DTYPES)
@pytest.mark.parametrize("config", CONFIGS)
def test_tile_sizes(config: cases.Config, dtypes: tuple[str, str]) -> None:
    shape = (7 * config["BM"] + 3, 9 * config["BN"] + 8, 5 * config["BK"] + 8)
    cases.run(arrays(), shape, dtypes, config)


@pytest.mark.parametrize("shape", [(0, 64, 64), (64, 0, 64), (0, 0, 0)])
def test_nothing_to_do(shape: tuple[int, int, int]) -> None:
    cases.run(arrays(), shape, ("bfloat16", "bfloat16"), cases.CONFIGS[0])


@pytest.mark.parametrize("dtypes", DTYPES)
@pytest.mark.parametrize("config", CONFIGS)
def test_views_of_larger_arrays(config: cases.Config, dtypes: tuple[str, str]) -> None:
    cases.run_views(arrays(), (130, 200, 72), dtypes, config)


@pytest.mark.parametrize("dtypes", DTYPES)
@pytest.mark.parametrize("form", cases.FORMS)
def test_forms(form: str, dtypes: tuple[str, str]) -> None:
    cases.run_form(form, arrays(), dtypes)


@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (8192, 4096, 1024), (4097, 5000, 3000)])
def test_large(shape: tuple[int, int, int]) -> None:
    """Many tiles for each block, several times: a race shows as an error that moves."""
    made = arrays()
    for _ in range(3):
        cases.run(made, shape, ("bfloat16", "bfloat16"), cases.CONFIGS[0])


def test_results_do_not_depend_on_timing() -> None:
    """The same inputs give the same bits, also while another stream keeps the GPU busy."""
    import torch

    from tests.kernels.gemm import gemm

    made = arrays()
    a, b = made.normal((1000, 2048), "bfloat16"), made.normal((1032, 2048), "bfloat16")
    results = []
    busy = torch.cuda.Stream()
    noise = torch.randn(2048, 2048, device="cuda")
    for number in range(20):
        c = made.poisoned((1000, 1032), "float32")
        torch.cuda.synchronize()
        if number % 2:
            with torch.cuda.stream(busy):
                noise @ noise
        gemm(a, b, c)
        torch.cuda.synchronize()
        results.append(c)
    assert all(bool((c == results[0]).all()) for c in results)
