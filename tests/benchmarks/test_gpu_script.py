"""benchmarks/gpu.sh with a Python that only pretends: limits, order, summary, exit status."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Takes the place of python3: one test file hangs, and does not listen to SIGTERM either.
FAKE = """#!/usr/bin/env bash
echo "$*" >> "$CALLS"
case "$*" in
    *test_gemm.py*) trap '' TERM; sleep 60 & wait; sleep 60 ;;
    *test_launch.py*) echo '3 passed in 0.1s'; exit 0 ;;
    *samples/gemm_flat.py*) echo 'wrong result'; exit 1 ;;
    *samples/*) echo 'speed 700 TFLOP/s' ;;
    *benchmarks/gemm.py*) echo 'a table' ;;
esac
"""


def run(
    tmp_path: Path, steps: str, limit: int = 60
) -> tuple[subprocess.CompletedProcess[str], str]:
    """The script's result, and how Python was called."""
    fake = tmp_path / "python"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    calls = tmp_path / "calls"
    environment = {
        **os.environ,
        "PYTHON": str(fake),
        "CALLS": str(calls),
        "OUT": str(tmp_path / "out"),
        "STEPS": steps,
        "LIMIT": str(limit),
        "GRACE": "1",
    }
    done = subprocess.run(
        ["bash", str(ROOT / "benchmarks" / "gpu.sh")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done, calls.read_text()


def summary(output: str) -> str:
    return output.split("=== summary")[1]


def test_a_hung_test_costs_its_limit_only(tmp_path: Path) -> None:
    started = time.monotonic()
    done, calls = run(tmp_path, "tests", limit=2)
    assert time.monotonic() - started < 30
    assert done.returncode == 1
    lines = summary(done.stdout).splitlines()
    assert any("test_gemm " in line and "TIMED OUT after 2 s" in line for line in lines)
    assert any("test_launch " in line and "ok" in line and "3 passed" in line for line in lines)
    files = [line for line in calls.splitlines() if "-m pytest" in line]
    # A file of tests/gpu each, and the folder tests/family.
    assert len(files) == len(list((ROOT / "tests" / "gpu").glob("test_*.py"))) + 1
    assert all("--require-gpu" in line for line in files)


def test_a_failure_does_not_stop_what_follows(tmp_path: Path) -> None:
    done, calls = run(tmp_path, "samples bench")
    assert done.returncode == 1
    assert "sample_gemm_flat" in summary(done.stdout)
    assert "FAILED (1)" in summary(done.stdout)
    assert "wrong result" in done.stdout
    assert "a table" in done.stdout
    assert calls.splitlines()[-1].startswith("benchmarks/gemm.py")
    assert (tmp_path / "out" / "bench_gemm.log").read_text() == "a table\n"


def test_all_well(tmp_path: Path) -> None:
    done, _ = run(tmp_path, "bench")
    assert done.returncode == 0
    assert "FAILED" not in done.stdout


@pytest.mark.parametrize("steps", ["", "tests"])
def test_installs_first_and_without_network(tmp_path: Path, steps: str) -> None:
    _, calls = run(tmp_path, steps, limit=1)
    # In front of the checkout itself may come wheels that lie in .whl/.
    installs = [call for call in calls.splitlines() if call.startswith("-m pip install")]
    assert installs == calls.splitlines()[: len(installs)] and installs[-1].endswith("-e .")
    assert all("--no-index" in call and "--no-deps" in call for call in installs)
