"""samples/conv_im2col.py against ``torch.nn.functional.conv2d`` (cuDNN), both channels last.

    python benchmarks/conv.py                   # 3 x 3 filters, stride 1 and 2
    python benchmarks/conv.py --quick           # fewer repeats, writes nothing

cuDNN picks its fastest algorithm (``torch.backends.cudnn.benchmark``). Timing as in ``timing.py``;
each result is checked against float32 before it is timed. A ratio above 1: tiledsl is faster.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "samples"))

import timing
from common import UNIT, find_torch
from contest import RESULTS
from conv_im2col import convolve, extent
from report import environment, gpu_state

import tiledsl as td

# Tiles of our kernel that compete; the best of each problem is reported.
TILINGS: tuple[dict[str, int], ...] = (
    {"BM": 128, "BN": 64, "stages": 6},
    {"BM": 256, "BN": 64, "stages": 4},
    {"BM": 128, "BN": 128, "stages": 5},
    {"BM": 256, "BN": 128, "stages": 4},
    {"BM": 128, "BN": 256, "stages": 4},
)
FILTER = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """A 3 x 3 convolution of square images: images, height = width, channels, and how."""

    images: int
    size: int
    channels: int
    filters: int
    stride: int
    padding: int = 1

    @property
    def pixels(self) -> int:
        """Pixels of the result."""
        return self.images * extent(self.size, FILTER, self.stride, self.padding) ** 2

    @property
    def flops(self) -> int:
        return 2 * self.pixels * self.filters * FILTER**2 * self.channels

    def __str__(self) -> str:
        return (
            f"{self.images} x {self.size} x {self.size} x {self.channels} -> {self.filters},"
            f" stride {self.stride}"
        )


# The 3 x 3 layers of ResNet-50, and larger ones as in image generation.
PROBLEMS = (
    Problem(128, 56, 64, 64, 1),
    Problem(128, 56, 128, 128, 2),
    Problem(128, 28, 128, 128, 1),
    Problem(128, 28, 256, 256, 2),
    Problem(128, 14, 256, 256, 1),
    Problem(128, 14, 512, 512, 2),
    Problem(128, 7, 512, 512, 1),
    Problem(16, 64, 512, 512, 1),
    Problem(16, 64, 512, 512, 2),
    Problem(8, 128, 256, 256, 1),
)


def make(torch: Any, problem: Problem, dtype: Any, seeds: Any) -> tuple[Any, ...]:
    """x (N, H, W, C), w (K, R, S, C) and y (N, P, Q, K) full of NaN, contiguous."""
    generator = torch.Generator("cuda").manual_seed(next(seeds))
    p = extent(problem.size, FILTER, problem.stride, problem.padding)
    shapes = (
        (problem.images, problem.size, problem.size, problem.channels),
        (problem.filters, FILTER, FILTER, problem.channels),
    )
    x, w = (
        torch.randn(shape, device="cuda", generator=generator, dtype=torch.float32).to(dtype)
        for shape in shapes
    )
    y = torch.full((problem.images, p, p, problem.filters), float("nan"), device="cuda")
    return x, w, y.to(dtype)


def torch_conv(torch: Any, problem: Problem, x: Any, w: Any, y: Any) -> Any:
    """The same by torch: its tensors are (N, C, H, W) to look at, and channels last in memory."""
    # The views have channels_last strides, so that nothing is copied.
    return torch.nn.functional.conv2d(
        x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), stride=problem.stride, padding=problem.padding
    )


def fault(torch: Any, problem: Problem, y: Any, x: Any, w: Any) -> str | None:
    """What is wrong with y, against a float32 convolution without TF32."""
    reference = torch_conv(torch, problem, x.float(), w.float(), None).permute(0, 2, 3, 1)
    squares = torch_conv(torch, problem, x.float() ** 2, w.float() ** 2, None).permute(0, 2, 3, 1)
    digits = 7 if y.dtype == torch.bfloat16 else 10
    terms = FILTER**2 * problem.channels
    # Both sides accumulate in float32 here: twice its part of the error.
    allowed = 2.0**-digits * reference.abs() + 2 * terms * UNIT * squares.sqrt() + 2.0**-20
    ratio = float(((y.float() - reference).abs() / allowed).max())
    return None if ratio <= 1 else f"{ratio:.2f} times the allowed error"  # NaN is wrong, too


@dataclass
class Timed:
    problem: Problem
    name: str
    call: Callable[[], object]


def contenders(torch: Any, problem: Problem, dtype: Any) -> tuple[list[Timed], list[str]]:
    """torch and our tilings on one problem, those that are right, and what is wrong with others."""
    seeds = iter(range(1 << 30))
    inputs = problem.images * problem.size**2 * problem.channels
    size = 2 * (inputs + problem.pixels * problem.filters)
    buffers = timing.Rotated(partial(make, torch, problem, dtype, seeds), size)
    found, wrong = [], []

    def run(method: Callable[..., object]) -> object:
        return method(*buffers.following())

    found.append(Timed(problem, "torch", partial(run, partial(torch_conv, torch, problem))))
    for tiling in TILINGS:
        name = "tiledsl " + "x".join(str(tiling[axis]) for axis in ("BM", "BN"))
        method = partial(convolve, stride=problem.stride, padding=problem.padding, **tiling)
        x, w, y = make(torch, problem, dtype, iter((1,)))
        try:
            method(x, w, y)
            why = fault(torch, problem, y, x, w)
        except td.TileError as error:
            why = f"{type(error).__name__}: {error}"
        if why is None:
            found.append(Timed(problem, name, partial(run, method)))
        else:
            wrong.append(f"{name}, {problem}: {why}")
    return found, wrong


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| images x height x width x channels | contender | cold us | TFLOP/s | ratio | mix us |"
        " ratio |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        lines.append(
            f"| {row['problem']} | {row['name']} | {row['cold']:.1f} ±{100 * row['spread']:.0f}% |"
            f" {row['tflops']:.0f} | {row['cold_ratio']:.3f} | {row['mix']:.1f} |"
            f" {row['mix_ratio']:.3f} |"
        )
    for way in ("cold", "mix"):
        best: dict[str, float] = {}
        for row in rows:
            if row["name"] != "torch":
                best[row["problem"]] = max(best.get(row["problem"], 0), row[f"{way}_ratio"])
        mean = timing.geometric_mean(list(best.values()))
        lines.append(f"| geometric mean of the best, {way} | | | | **{mean:.3f}** | | |")
    return lines


def measure(torch: Any, timed: list[Timed], repeats: int) -> list[dict[str, Any]]:
    """A row for each contender; ratios are torch's time over its own."""
    calls = [each.call for each in timed]
    cold, mix = timing.cold(torch, calls, repeats), timing.mix(torch, calls, repeats)
    rows: list[dict[str, Any]] = []
    peers: dict[Problem, tuple[float, float]] = {}
    for each, one, other in zip(timed, cold, mix, strict=True):
        if each.name == "torch":
            peers[each.problem] = one.median, other.median
        peer = peers[each.problem]
        rows.append(
            {
                "problem": str(each.problem), "name": each.name, **asdict(each.problem),
                "cold": one.median, "spread": one.spread, "mix": other.median,
                "tflops": each.problem.flops / one.median / 1e6,
                "cold_ratio": peer[0] / one.median, "mix_ratio": peer[1] / other.median,
            }
        )  # fmt: skip
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="im2col convolution against cuDNN")
    parser.add_argument("--quick", action="store_true", help="a third of the repeats, no files")
    parser.add_argument("--dtype", choices=("bfloat16", "float16"), default="bfloat16")
    parser.add_argument("--repeats", type=int, help="samples of each call; default 30, quick 10")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch, why = find_torch()
    if torch is None:
        print(f"benchmarks/conv.py needs a GPU: {why}")
        return 1
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    repeats = options.repeats or (10 if options.quick else 30)
    timed, wrong = [], []
    for problem in PROBLEMS:
        right, others = contenders(torch, problem, getattr(torch, options.dtype))
        timed += right
        wrong += others
    for text in wrong:
        print(f"WRONG: {text}", flush=True)
    rows = measure(torch, timed, repeats)
    there = environment()
    lines = [
        f"# 3 x 3 convolution, {options.dtype}: tiledsl's im2col sample against cuDNN",
        "",
        f"{there['device']}, {there['date']}, torch {there['versions'].get('torch')}, cuDNN"
        f" {torch.backends.cudnn.version()}; {gpu_state()}.",
        f"Median of {repeats} calls. Ratio: torch's time over this one's. Padding 1.",
        "",
        *table(rows),
    ]
    if not options.quick:
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / "conv-h200"
        path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        data = {"environment": there, "rows": rows}
        path.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
