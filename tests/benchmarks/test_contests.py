"""The contests' own arithmetic: which variants compete, what is missed, what is left out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import tiledsl as td
from tests.benchmarks.test_report import FakeTorch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A module of benchmarks/ by name; the path is as it was when the test is over."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.path.insert(0, str(ROOT / "benchmarks"))
    sys.path.insert(0, str(ROOT / "samples"))  # gemm.py is there and here
    monkeypatch.delitem(sys.modules, "gemm", raising=False)
    return import_module


def report(benchmark: Callable[[str], Any], times: dict[Any, dict[str, float]]) -> Any:
    """A report with these cold times; in the mix all are equal."""
    made = benchmark("report").Report("", "bfloat16", 2, {}, {})
    sample = benchmark("timing").Sample
    for shape, found in times.items():
        for name, us in found.items():
            made.add("cold", name, shape, sample((us, us)), found["torch"])
            made.add("mix", name, shape, sample((9.0, 9.0)), 9.0)
    return made


CUBE, LARGE, SHORT = (4096, 4096, 4096), (8192, 8192, 8192), (4096, 4096, 1024)


def test_variants_that_miss_a_goal_are_named(benchmark: Callable[[str], Any]) -> None:
    missed = benchmark("gemm_variants").missed
    good = {
        CUBE: {"torch": 100, "plain": 102, "cluster": 103, "pingpong 128": 110},
        LARGE: {"torch": 100, "plain": 99.5, "cluster": 100.2},
        SHORT: {"torch": 100, "plain": 105, "pingpong 128": 97},
        (1000, 1000, 1000): {"torch": 100, "plain": 300},  # no goal there
    }
    assert missed(report(benchmark, good)) == []
    bad = {
        CUBE: {"torch": 100, "plain": 100, "cluster": 103},
        LARGE: {"torch": 100, "plain": 101, "cluster": 101.5},
        SHORT: {"torch": 100, "plain": 90, "pingpong 128": 99},
    }
    assert missed(report(benchmark, bad)) == [
        "cluster over plain, 4096x4096x4096: 0.971 < 0.99",
        "the best over torch, 8192x8192x8192: 0.990 < 1.0",
        "pingpong 128 over torch, 4096x4096x1024: 1.010 < 1.03",
    ]


def test_variants_by_the_start_of_their_names(benchmark: Callable[[str], Any]) -> None:
    module = benchmark("gemm_variants")
    known = module.variants()
    assert module.wanted([], known) == list(known)
    assert module.wanted(["pingpong 1"], known) == [
        "pingpong 128", "pingpong 128 k2", "pingpong 192", "pingpong 192 k2",
    ]  # fmt: skip
    assert module.wanted(["cluster", "plain"], known)[0] == "plain"


def test_every_variant_fits_the_device(benchmark: Callable[[str], Any]) -> None:
    """Down to the plan; and the groups of tiles are what the name says."""
    spec = td.spec((4096, 4096), td.bfloat16)
    for name, method in benchmark("gemm_variants").variants().items():
        kernel = getattr(method, "func", method)
        compiled = kernel.lower(spec, spec, spec, **getattr(method, "keywords", {}))
        assert (" k2" in name) == (" x 2, a:" in compiled.ir), name
        assert (2 in compiled.cluster) == ("cluster" in name), name
    conv = benchmark("conv")
    sample = benchmark("conv_im2col").conv
    specs = [td.spec(shape, td.bfloat16) for shape in ((8, 64, 64, 64), (9, 64, 64), (32768, 64))]
    for tiling in conv.TILINGS:
        sample.lower(*specs, **tiling)


def test_a_contender_that_fails_is_left_out(
    benchmark: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = benchmark("contest")

    def refuse(a: Any, b: Any, c: Any) -> None:
        raise td.LaunchError("not today")

    def half(a: Any, b: Any, c: Any) -> None:
        c[: len(c) // 2] = (a.astype("f4") @ b.astype("f4").T)[: len(c) // 2]

    def right(a: Any, b: Any, c: Any) -> None:
        c[...] = a.astype("f4") @ b.astype("f4").T

    make = benchmark("common").make_problem
    monkeypatch.setattr(contest, "make_problem", lambda *given: make(*given[:4], None))
    monkeypatch.setattr(benchmark("timing"), "ROTATED_BYTES", 1)
    methods = [("torch", half), ("a", refuse), ("b", half), ("c", right)]
    done = contest.prepare(None, [(16, 24, 32)], methods, "float16")
    assert [each.name for each in done.contenders] == ["torch", "c"]
    assert done.wrong == [
        "torch at (16, 24, 32): nan times the allowed error",
        "a at (16, 24, 32): LaunchError: not today",
        "b at (16, 24, 32): nan times the allowed error",
    ]
    done.contenders[1].call()


def test_convolutions(benchmark: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    conv = benchmark("conv")
    monkeypatch.setattr(benchmark("timing"), "IDLE_SECONDS", 0)
    problem = conv.Problem(2, 14, 64, 128, 2)
    assert problem.pixels == 2 * 7 * 7
    assert problem.flops == 2 * 98 * 128 * 9 * 64
    torch = FakeTorch()
    timed = [
        conv.Timed(problem, name, torch.call(name, ms))
        for name, ms in (("torch", 1.0), ("tiledsl 128x64", 2.0), ("tiledsl 128x128", 0.8))
    ]
    rows = conv.measure(torch, timed, 5)
    assert [row["cold_ratio"] for row in rows] == pytest.approx([1, 0.5, 1.25])
    assert [row["mix_ratio"] for row in rows] == pytest.approx([1, 0.5, 1.25])
    assert rows[0]["tflops"] == pytest.approx(problem.flops / 1e-3 / 1e12)
    lines = conv.table(rows)
    assert "2 x 14 x 14 x 64 -> 128, stride 2" in lines[2]
    assert "**1.250**" in lines[-1] and "**1.250**" in lines[-2]  # of the best tiling
