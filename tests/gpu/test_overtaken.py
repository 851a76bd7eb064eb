"""Copies that overtake loads (decision 0014): rings in processes that share the GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.gpu.children import ROOT

pytestmark = pytest.mark.gpu


def test_loads_are_not_overtaken() -> None:
    """Without the fences some thousand launches are wrong in this time (``--unfenced``)."""
    command = [sys.executable, "-m", "tests.gpu.stress", "--seconds", "12", "--processes", "8"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    print(done.stdout, done.stderr)
    assert done.returncode == 0 and done.stdout.count(" 0 of ") == 24, done.stdout
