"""The test helpers themselves: a check that cannot fail would be worth nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import golden as golden_module
from tests.filecheck import filecheck, filecheck_function
from tests.golden import Golden, golden_path

TEXT = "acquire %0\nload %0, 16\nrelease %0\n"


def test_filecheck_passes() -> None:
    filecheck(TEXT, "CHECK: acquire [[S:%[0-9]+]]\nCHECK-NEXT: load [[S]]\nCHECK-NOT: acquire")


@pytest.mark.parametrize(
    "directives",
    ["CHECK: release\nCHECK: load", "CHECK: acquire\nCHECK-NEXT: release", "CHECK-NOT: load"],
)
def test_filecheck_fails_and_shows_the_text(directives: str) -> None:
    with pytest.raises(AssertionError) as failure:
        filecheck(TEXT, directives)
    assert "<directives>:" in str(failure.value)
    assert TEXT in str(failure.value)


def test_filecheck_without_a_directive_fails() -> None:
    with pytest.raises(AssertionError, match="No check strings found with prefix PTX"):
        filecheck(TEXT, "CHECK: acquire", prefix="PTX")


def test_filecheck_takes_variables() -> None:
    filecheck(TEXT, "CHECK: load %0, [[#BYTES]]", variables={"BYTES": 16})


def commented() -> None:
    # CHECK: load %0, 16
    # LINE: .loc 1 [[# @LINE + 1]]
    raise NotImplementedError


def test_filecheck_function_reads_the_source() -> None:
    filecheck_function(TEXT, commented)
    first = commented.__code__.co_firstlineno
    filecheck_function(f".loc 1 {first + 3} 0", commented, prefix="LINE")
    with pytest.raises(AssertionError):
        filecheck_function(f".loc 1 {first} 0", commented, prefix="LINE")


def test_golden_file_of_this_test(golden: Callable[..., None]) -> None:
    golden(TEXT, ".ir")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Golden files below a temporary folder."""
    monkeypatch.setattr(golden_module, "TESTS", tmp_path / "tests")
    monkeypatch.setattr(golden_module, "GOLDEN", tmp_path / "tests" / "golden")
    return tmp_path / "tests" / "passes" / "test_some.py"


def test_golden_path_follows_from_the_test(elsewhere: Path) -> None:
    path = golden_path(elsewhere, "test_ring[4-a/b]", ".ir")
    assert path.relative_to(elsewhere.parents[1]).as_posix() == (
        "golden/passes/test_some/test_ring[4-a_b].ir"
    )


def test_golden_missing_then_written_then_compared(elsewhere: Path) -> None:
    with pytest.raises(AssertionError, match="no golden file tests/golden/passes/test_some/test_x"):
        Golden(elsewhere, "test_x", update=False)("one\ntwo")
    writer = Golden(elsewhere, "test_x", update=True)
    writer("one\ntwo")
    assert [path.read_text() for path in writer.written] == ["one\ntwo\n"]
    Golden(elsewhere, "test_x", update=False)("one\ntwo\n")
    with pytest.raises(AssertionError) as failure:
        Golden(elsewhere, "test_x", update=False)("one\nthree")
    assert "-two\n+three" in str(failure.value)
    assert "make golden" in str(failure.value)


def test_golden_twice_with_one_suffix_is_a_mistake(elsewhere: Path) -> None:
    comparer = Golden(elsewhere, "test_x", update=True)
    comparer("one")
    with pytest.raises(AssertionError, match="called twice"):
        comparer("two")


def test_marker_gpu_skips_or_fails_without_a_device(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "from tests import cuda_device, conftest\n"
        "from tests.conftest import *\n"
        "conftest.find_cuda_device = lambda: cuda_device.CudaDevice(None, 'no CUDA device')\n"
    )
    pytester.makepyfile("import pytest\n@pytest.mark.gpu\ndef test_a(): pass\ndef test_b(): pass")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["GPU tests: 0 ran, 1 skipped (no CUDA device)"])
    pytester.runpytest_inprocess("--require-gpu").assert_outcomes(passed=1, errors=1)
