"""GEMM in clusters, in turns and with stages in groups, on every shape, against float64."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu.launch_ptx import framework

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 90  # seconds for all of them together; about twenty are enough

VARIANTS = [
    f"{name}{group}"
    for name in (
        "plain", "cluster", "pingpong 128", "pingpong 192", "pingpong cluster 128",
        "pingpong cluster 192",
    )
    for group in ("", " k2")
] + ["cluster whole"]  # fmt: skip


class Running:
    """A process for each variant, all at the same time: starting one takes longest."""

    def __init__(self) -> None:
        self.until = time.monotonic() + LIMIT
        self.processes = {
            name: subprocess.Popen(
                [sys.executable, "-m", "tests.gpu.run_variant", name],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for name in VARIANTS
        }

    def output(self, name: str) -> tuple[int | None, str]:
        """Exit status and output of a variant; None when it did not end in time."""
        process = self.processes[name]
        try:
            text, _ = process.communicate(timeout=max(1, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            return None, process.communicate()[0]
        return process.returncode, text


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    framework("torch")
    made = Running()
    yield made
    for process in made.processes.values():
        process.kill()
        process.wait()


@pytest.mark.gpu
@pytest.mark.parametrize("name", VARIANTS)
def test_every_shape(running: Running, name: str) -> None:
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
