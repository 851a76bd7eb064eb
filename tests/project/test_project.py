"""The project as a whole: packaging, sizes, import time, and that the documents are true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.golden import GOLDEN, TESTS
from tests.project.source_tree import (
    PACKAGE_FOLDERS,
    ROOT,
    package_modules,
    pyproject,
    python_files,
)

MAX_LINES = 600
IMPORT_SECONDS = 0.2
HEAVY_MODULES = ("cuda", "llvmlite", "numba", "numpy", "ml_dtypes", "torch")

# In the order in which a changelog lists them.
CHANGE_KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed")


def documents() -> list[Path]:
    """The Markdown files that people read."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def shown(paths: Iterable[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in paths]


# --- packaging


def test_every_package_is_listed() -> None:
    found = sorted(
        module for module, file in package_modules().items() if file.name == "__init__.py"
    )
    assert sorted(pyproject()["tool"]["setuptools"]["packages"]) == found


def test_every_folder_with_python_files_is_a_package() -> None:
    folders = {file.parent for file in package_modules().values()}
    assert not shown(folder for folder in folders if not (folder / "__init__.py").exists())


def test_the_layout_of_the_tests_is_that_of_the_build() -> None:
    assert pyproject()["tool"]["setuptools"]["package-dir"] == PACKAGE_FOLDERS


def test_the_package_is_typed() -> None:
    assert (ROOT / "tiledsl" / "py.typed").exists()
    assert "py.typed" in pyproject()["tool"]["setuptools"]["package-data"]["tiledsl"]


def test_version() -> None:
    from tiledsl._version import __version__

    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|(a|b|rc)\d+)?", __version__)
    assert version("tiledsl") == __version__, "installed from other sources; run `make setup`"


def test_every_run_time_dependency_has_both_bounds() -> None:
    pattern = re.compile(r"[\w.-]+>=[\w.]+,<[\w.]+")
    assert all(pattern.fullmatch(text) for text in pyproject()["project"]["dependencies"])


# --- sizes


def test_no_file_is_too_long() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in python_files()}
    assert not shown(file for file, length in lengths.items() if length > MAX_LINES)


# --- import


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, set[str]]]:
    """CPU seconds of ``import tiledsl``, and the modules there after it, in six processes."""
    program = (
        "import sys, time\n"
        "start = time.process_time()\n"
        "import tiledsl\n"
        "print(time.process_time() - start, *sys.modules)\n"
    )
    # With a byte code cache of its own: as for a user, whatever the environment says about it.
    environment = {key: value for key, value in os.environ.items() if key[:6] != "PYTHON"}
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path_factory.mktemp("pycache"))
    runs = []
    for _ in range(6):
        output = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            cwd=tmp_path_factory.getbasetemp(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        runs.append((float(output[0]), set(output[1:])))
    return runs


def test_import_is_quick(imported: list[tuple[float, set[str]]]) -> None:
    # The first run compiles the byte code; the best of the others is the least disturbed.
    assert min(seconds for seconds, _ in imported[1:]) <= IMPORT_SECONDS


def test_import_loads_no_heavy_library(imported: list[tuple[float, set[str]]]) -> None:
    loaded = {module.split(".")[0] for module in imported[0][1]}
    assert not loaded.intersection(HEAVY_MODULES)


# --- documents


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.name)
def test_make_commands_exist(document: Path) -> None:
    named = set(re.findall(r"`make ([a-z]+)|^make ([a-z]+)", document.read_text(), re.M))
    assert {a or b for a, b in named} <= make_targets()


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.name)
def test_links_and_paths_exist(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    local = [link for link in links if link and "://" not in link]
    assert not [link for link in local if not (document.parent / link).exists()]


def test_readme_names_what_lies_at_the_top() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    folders = [*PACKAGE_FOLDERS.values(), "tests", "samples", "benchmarks", "docs"]
    assert not [folder for folder in folders if f"`{folder}/`" not in readme]


def test_changelog_fragments_have_the_right_form() -> None:
    """``NNNN-title.md``: a heading for each kind of change, below it bullets of whole sentences."""
    for file in sorted((ROOT / "changelog.d").iterdir()):
        if file.name == "README.md":
            continue
        assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", file.name), file.name
        lines = file.read_text(encoding="utf-8").splitlines()
        kinds = [line.removeprefix("## ") for line in lines if line.startswith("#")]
        assert kinds, f"{file.name}: no heading"
        assert kinds == [kind for kind in CHANGE_KINDS if kind in kinds], file.name
        wrong = [line for line in lines if line and not line.startswith(("## ", "- ", "  "))]
        assert not wrong, f"{file.name}: {wrong[0]!r}"


# --- golden files


def test_every_golden_file_belongs_to_a_test() -> None:
    """A test that was renamed or removed leaves no golden file behind."""
    orphans = []
    for file in sorted(path for path in GOLDEN.rglob("*") if path.is_file()):
        test_file = TESTS / file.parent.relative_to(GOLDEN).with_suffix(".py")
        function = re.match(r"\w+", file.name)
        if (
            function is None
            or not test_file.exists()
            or f"def {function[0]}(" not in test_file.read_text(encoding="utf-8")
        ):
            orphans.append(file)
    assert not shown(orphans)


def test_the_source_folder_alone_says_what_is_missing() -> None:
    """`pip install .`, then Python in the checkout: the folder `tiledsl/` is found first."""
    code = "import tiledsl"
    run = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    assert "ImportError: tiledsl was found as a source folder" in run.stderr, run.stderr
