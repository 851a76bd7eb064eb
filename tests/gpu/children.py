"""Tests in processes of their own: a kernel that hangs or faults ends with its process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Children:
    """A process for each name, all at the same time: starting one takes longest."""

    def __init__(self, module: str, names: Iterable[str], limit: float) -> None:
        """Run ``python -m module name`` for each name; all must end within ``limit`` seconds."""
        self.until = time.monotonic() + limit
        self.processes = {
            name: subprocess.Popen(
                [sys.executable, "-m", module, name],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for name in names
        }

    def output(self, name: str) -> tuple[int | None, str]:
        """Exit status and output of a process; None when it did not end in time."""
        process = self.processes[name]
        try:
            text, _ = process.communicate(timeout=max(1, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            return None, process.communicate()[0]
        return process.returncode, text

    def end(self) -> None:
        """Kill what still runs."""
        for process in self.processes.values():
            process.kill()
            process.wait()
