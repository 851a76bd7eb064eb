"""The report of a benchmark: a table for people, JSON for comparison."""

from __future__ import annotations

import datetime
import json
import platform
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import compile_time
from timing import ROTATED_BYTES, Sample, geometric_mean

PACKAGES = ("tiledsl", "llvmlite", "cuda-bindings", "nvidia-nvjitlink", "torch", "numpy")
DISTRIBUTION = "standard normal, rounded to the dtype; the same buffers for all contenders"


@dataclass(frozen=True, slots=True)
class Row:
    """One contender on one shape, timed in one way. Times in microseconds."""

    way: str
    name: str
    shape: tuple[int, int, int]
    median: float
    spread: float
    tflops: float
    ratio: float  # torch's median over this one's


@dataclass
class Report:
    title: str
    dtype: str
    repeats: int
    environment: dict[str, Any]
    states: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    launch: dict[str, float] = field(default_factory=dict)
    compile: dict[str, float] = field(default_factory=dict)

    def add(
        self, way: str, name: str, shape: tuple[int, int, int], sample: Sample, peer: float
    ) -> None:
        m, n, k = shape
        tflops = 2 * m * n * k / sample.median / 1e6
        ratio = peer / sample.median
        self.rows.append(Row(way, name, shape, sample.median, sample.spread, tflops, ratio))

    def means(self) -> dict[tuple[str, str], float]:
        """The geometric mean of the ratios, by (way, contender)."""
        keys = dict.fromkeys((row.way, row.name) for row in self.rows if row.name != "torch")
        return {
            key: geometric_mean([row.ratio for row in self.rows if (row.way, row.name) == key])
            for key in keys
        }

    def missed(self, each: float, mean: float) -> list[str]:
        """The goals that the plain contender misses."""
        texts = [
            f"{row.way} {'x'.join(map(str, row.shape))}: {row.ratio:.3f} < {each}"
            for row in self.rows
            if row.name == "tiledsl" and row.ratio < each
        ]
        for (way, name), value in self.means().items():
            if name == "tiledsl" and value < mean:
                texts.append(f"{way}, geometric mean: {value:.3f} < {mean}")
        return texts

    def table(self) -> list[str]:
        """Markdown: a line for each contender and shape, both ways beside each other."""
        lines = [
            "| M x N x K | contender | cold us | TFLOP/s | ratio | mix us | TFLOP/s | ratio |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        by_key: dict[tuple[Any, str], dict[str, Row]] = {}
        for row in self.rows:
            by_key.setdefault((row.shape, row.name), {})[row.way] = row
        for (shape, name), ways in by_key.items():
            cells = [" x ".join(map(str, shape)), name]
            for way in ("cold", "mix"):
                row = ways[way]
                cells += [
                    f"{row.median:.1f} ±{100 * row.spread:.0f}%",
                    f"{row.tflops:.0f}",
                    f"{row.ratio:.3f}",
                ]
            lines.append("| " + " | ".join(cells) + " |")
        means = self.means()
        for name in dict.fromkeys(name for _, name in means):
            cold, mix = means["cold", name], means["mix", name]
            lines.append(f"| geometric mean | {name} | | | **{cold:.3f}** | | | **{mix:.3f}** |")
        return lines

    def text(self) -> str:
        """The whole report in Markdown."""
        there = self.environment
        versions = ", ".join(f"{name} {number}" for name, number in there["versions"].items())
        lines = [
            f"# {self.title}",
            "",
            f"{there['device']}, {there['date']}. {versions}; driver {there['driver']}.",
            f"Data: {DISTRIBUTION}. Median of {self.repeats} calls, ± half of the 10-90 % range.",
            f"Buffers rotate over {ROTATED_BYTES >> 20} MiB or more. Clocks were left alone:",
            *(f"after {way}: {state}." for way, state in self.states.items()),
            "Ratio: torch's time over this one's; above 1 is faster than torch.",
            "cold: alone after idling, behind a spin. mix: random order, back to back.",
            "",
            *self.table(),
        ]
        if self.launch:
            each = ", ".join(f"{name} {us:.1f} us" for name, us in self.launch.items())
            lines += ["", f"Host time of a call with three torch tensors: {each}."]
        if self.compile:
            lines += ["", "Cold compile, in fresh processes:", "", "```text"]
            lines += [compile_time.table(self.compile), "```"]
        return "\n".join(lines)


def environment() -> dict[str, Any]:
    """Where and with what the numbers were made."""
    import torch

    versions = {"python": platform.python_version(), "CUDA": torch.version.cuda}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "device": torch.cuda.get_device_name(),
        "driver": _nvidia_smi("driver_version") or "unknown",
        "versions": versions,
        "distribution": DISTRIBUTION,
    }


def gpu_state() -> str:
    """Clocks, power and temperature right now, only read."""
    found = _nvidia_smi("clocks.sm,clocks.max.sm,power.draw,temperature.gpu")
    if found is None:
        return "not read"
    clock, most, power, degrees = (part.strip() for part in found.split(","))
    return f"SM clock {clock} of {most}, {power}, {degrees} C"


def _nvidia_smi(query: str) -> str | None:
    """The first GPU's answer to a query; None without nvidia-smi."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (subprocess.SubprocessError, OSError):
        return None
    return done.stdout.splitlines()[0].strip() if done.stdout.strip() else None


def write(report: Report, folder: Path, name: str = "gemm") -> None:
    """``gemm-h200.json`` and ``gemm-h200.md``; other dtypes than bfloat16 are in the name."""
    chip = re.sub(r"[^a-z0-9]+", "-", report.environment["device"].lower().replace("nvidia", ""))
    other = "" if report.dtype == "bfloat16" else f"-{report.dtype}"
    path = folder / f"{name}-{chip.strip('-')}{other}"
    folder.mkdir(parents=True, exist_ok=True)
    means = {f"{way} {name}": value for (way, name), value in report.means().items()}
    data = asdict(report) | {"geometric_means": means}
    path.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(report.text() + "\n", encoding="utf-8")
