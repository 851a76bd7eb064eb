"""The benchmarks' own arithmetic and output, with a GPU that only pretends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A module of benchmarks/ by name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module


class FakeTorch:
    """A GPU whose clock moves by what each call says it takes, in milliseconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []
        self.cuda = SimpleNamespace(Event=self._event, synchronize=lambda: None, _sleep=self._sleep)

    def _sleep(self, cycles: int) -> None:
        self.now += cycles / 2e6

    def _event(self, enable_timing: bool) -> Any:
        event = SimpleNamespace(time=None)
        event.record = lambda: setattr(event, "time", self.now)
        event.elapsed_time = lambda end: end.time - event.time
        return event

    def call(self, name: str, milliseconds: float) -> Callable[[], None]:
        def run() -> None:
            self.calls.append(name)
            self.now += milliseconds

        return run


def test_both_ways_of_timing(
    benchmark: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = benchmark("timing")
    monkeypatch.setattr(timing, "IDLE_SECONDS", 0)
    torch = FakeTorch()
    calls = [torch.call("slow", 2.0), torch.call("fast", 0.5)]
    for way in (timing.cold, timing.mix):
        torch.calls.clear()
        slow, fast = way(torch, calls, 20)
        assert slow.median == pytest.approx(2000) and fast.median == pytest.approx(500)
        assert len(slow.times) == len(fast.times) == 20
        assert slow.spread == pytest.approx(0, abs=1e-6)
        counts = Counter(torch.calls)
        assert counts["slow"] == counts["fast"] > 20  # warmed up first
        pairs = {tuple(torch.calls[i : i + 2]) for i in range(2, len(torch.calls), 2)}
        assert pairs == {("slow", "fast"), ("fast", "slow")}  # in random order


def test_buffers_rotate(benchmark: Callable[[str], Any]) -> None:
    timing = benchmark("timing")
    made = iter(range(10**6))
    rotated = timing.Rotated(lambda: (next(made),), 24 << 20)
    seen = [rotated.following() for _ in range(3 * len(rotated.sets))]
    assert (len(rotated.sets) - 1) * (24 << 20) >= timing.ROTATED_BYTES
    assert set(Counter(seen).values()) == {3}
    assert len(timing.Rotated(lambda: (), 1 << 40).sets) == 2


@pytest.fixture
def report(benchmark: Callable[[str], Any]) -> Any:
    made = benchmark("report").Report(
        title="GEMM",
        dtype="bfloat16",
        repeats=4,
        environment={
            "device": "NVIDIA H200",
            "date": "today",
            "driver": "580",
            "versions": {"torch": "2"},
        },
        states={"cold": "not read", "mix": "not read"},
    )
    sample = benchmark("timing").Sample
    times = {"torch": 100.0, "tiledsl": 98.0, "tiledsl(BN=128)": 125.0}
    for way in ("cold", "mix"):
        for shape in ((1000, 1000, 1000), (2000, 1000, 1000)):
            for name, us in times.items():
                slower = us * 1.08 if way == "mix" and name == "tiledsl" else us
                made.add(way, name, shape, sample((slower,) * 4), 100.0)
    return made


def test_report_ratios(report: Any) -> None:
    row = next(row for row in report.rows if row.name == "tiledsl")
    assert row.ratio == pytest.approx(100 / 98)
    assert row.tflops == pytest.approx(2e9 / 98e-6 / 1e12)
    assert report.means()["cold", "tiledsl"] == pytest.approx(100 / 98)
    assert report.means()["mix", "tiledsl(BN=128)"] == pytest.approx(0.8)


def test_report_says_what_is_missed(report: Any) -> None:
    """Goals are for the plain contender; 0.945 in the mix misses both of them."""
    texts = report.missed(0.97, 1.0)
    assert texts == [
        "mix 1000x1000x1000: 0.945 < 0.97",
        "mix 2000x1000x1000: 0.945 < 0.97",
        "mix, geometric mean: 0.945 < 1.0",
    ]


def test_report_files(report: Any, benchmark: Callable[[str], Any], tmp_path: Path) -> None:
    report.launch = {"tiledsl": 4.5}
    benchmark("report").write(report, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"gemm-h200.json", "gemm-h200.md"}
    data = json.loads((tmp_path / "gemm-h200.json").read_text())
    assert data["geometric_means"]["cold tiledsl"] == pytest.approx(100 / 98)
    assert data["environment"]["device"] == "NVIDIA H200" and len(data["rows"]) == 12
    text = (tmp_path / "gemm-h200.md").read_text()
    assert (
        "| 1000 x 1000 x 1000 | tiledsl | 98.0 ±0% | 20 | 1.020 | 105.8 ±0% | 19 | 0.945 |" in text
    )
    assert "standard normal" in text and "tiledsl 4.5 us" in text


def test_compile_time_table(benchmark: Callable[[str], Any]) -> None:
    compile_time = benchmark("compile_time")
    run = dict.fromkeys(compile_time.STEPS, 0.05) | {"total": 0.3}
    medians = compile_time.medians([run, run | {"total": 0.7}, run | {"total": 0.6}])
    assert medians["total"] == 0.6
    text = compile_time.table(medians)
    assert "frontend and passes   100.0 ms, goal 150 ms on the CI machine: met" in text
    assert "compile() in all      600.0 ms, goal 500 ms on the CI machine: MISSED" in text
