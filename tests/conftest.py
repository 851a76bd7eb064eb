"""Fixtures and options of all tests: golden files, and what needs a GPU.

A test marked ``gpu`` runs where there is a usable CUDA device and is skipped elsewhere; the
summary says how many ran. ``--require-gpu`` turns the skip into a failure, so that a run that is
meant for a GPU cannot pass without one. What can be checked by compiling alone belongs in an
unmarked test: compiling needs no GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cuda_device import find_cuda_device
from tests.golden import TESTS, Golden
from tests.kernels.places import CPU_PLACES, Emulator, place_named

# Keys of `user_properties`, which pytest-xdist carries from the workers to the summary.
_GPU = "tiledsl_gpu"
_WRITTEN = "tiledsl_golden_written"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiledsl")
    group.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )
    group.addoption(
        "--require-gpu", action="store_true", help="fail, not skip, tests marked gpu without a GPU"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Iterator[Golden]:
    """Compare a text with this test's golden file: ``golden(text, ".ir")``."""
    comparer = Golden(request.path, request.node.name, request.config.getoption("--update-golden"))
    yield comparer
    for path in comparer.written:
        request.node.user_properties.append((_WRITTEN, str(path.relative_to(TESTS.parent))))


@pytest.fixture(params=CPU_PLACES)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """The emulator and the PTX machine, one after the other: where calls of kernels run."""
    made = place_named(request.param)
    made.enter(monkeypatch)
    return made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "ptx" in getattr(getattr(item, "callspec", None), "params", {}).get("place", ""):
            # The first test that needs the machine compiles it: minutes, on a busy CPU.
            item.add_marker(pytest.mark.timeout(900))
        if item.get_closest_marker("gpu"):
            device = find_cuda_device()
            item.user_properties.append((_GPU, device.name or device.reason))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not item.get_closest_marker("gpu") or find_cuda_device().usable:
        return
    reason = f"needs a GPU: {find_cuda_device().reason}"
    if item.config.getoption("--require-gpu"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    stats: dict[str, list[Any]] = terminalreporter.stats
    ran, skipped, device = 0, 0, ""
    for outcome in ("passed", "failed", "skipped", "error", "xfailed", "xpassed"):
        for value in _properties(stats.get(outcome, []), _GPU):
            device = value
            ran += outcome != "skipped"
            skipped += outcome == "skipped"
    terminalreporter.write_line(
        f"GPU tests: {ran} ran, {skipped} skipped ({device or 'none selected'})"
    )
    reports = [report for category in stats.values() for report in category]
    for path in sorted(set(_properties(reports, _WRITTEN))):
        terminalreporter.write_line(f"golden file written: {path}")


def _properties(reports: list[Any], name: str) -> list[str]:
    """The values of one user property in some test reports."""
    return [
        value
        for report in reports
        for key, value in getattr(report, "user_properties", [])
        if key == name
    ]
