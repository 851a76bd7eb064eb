"""GEMM in clusters, in turns and with stages in groups, on every shape, against float64."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.gpu.children import ROOT, Children
from tests.gpu.launch_ptx import framework

LIMIT = 90  # seconds for all of them together; about twenty are enough

VARIANTS = [
    f"{name}{group}"
    for name in (
        "plain", "cluster", "pingpong 128", "pingpong 192", "pingpong cluster 128",
        "pingpong cluster 192",
    )
    for group in ("", " k2")
] + ["plain lockstep", "cluster free", "cluster whole"]  # fmt: skip


@pytest.fixture(scope="module")
def running() -> Iterator[Children]:
    framework("torch")
    made = Children("tests.gpu.run_variant", VARIANTS, LIMIT)
    yield made
    made.end()


@pytest.mark.gpu
@pytest.mark.parametrize("name", VARIANTS)
def test_every_shape(running: Children, name: str) -> None:
    status, text = running.output(name)
    assert status is not None, f"{name} hangs:\n{text}"
    assert status == 0, text


def test_every_variant_is_tested() -> None:
    script = "import sys; sys.path[:0] = ['samples', 'benchmarks']\n"
    script += "import gemm_variants; print('\\n'.join(gemm_variants.variants()))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.splitlines()) == set(VARIANTS)
