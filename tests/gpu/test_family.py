"""The pipeline family on the GPU: the cases of ``tests/kernels/family``, and larger shapes.

tests/numeric/test_family_emulator.py runs the same cases in the emulator.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu.launch_ptx import framework
from tests.kernels.family import FAMILY

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120  # seconds for all of them together


class Running:
    """A process for each subject, all at the same time: starting one takes longest."""

    def __init__(self) -> None:
        self.until = time.monotonic() + LIMIT
        self.processes = {
            subject: subprocess.Popen(
                [sys.executable, "-m", "tests.gpu.run_family", subject],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for subject in FAMILY
        }

    def output(self, subject: str) -> tuple[int | None, str]:
        """Exit status and output of a subject; None when it did not end in time."""
        process = self.processes[subject]
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
@pytest.mark.parametrize("subject", FAMILY)
def test_subject(running: Running, subject: str) -> None:
    status, text = running.output(subject)
    print(text)
    assert status is not None, f"{subject} hangs in the last of these cases:\n{text}"
    assert status == 0, text
