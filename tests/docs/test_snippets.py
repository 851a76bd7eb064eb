"""Every Python snippet in the documents runs, and shows its true output."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cuda_device import find_cuda_device
from tests.docs.snippets import Document, same
from tests.kernels.places import CPU_PLACES, EMULATOR, Emulator, Machine

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_SNIPPETS = [path for path in DOCUMENTS if Document.read(path).snippets]
# Those that only compile, and show messages of errors, are the same wherever kernels run.
COMPILE_ONLY = {"errors.md", "ir.md"}
RUNS = [
    pytest.param(where, path, id=f"{path.stem}-{where}")
    for where in CPU_PLACES
    for path in WITH_SNIPPETS
    if where == EMULATOR or path.name not in COMPILE_ONLY
]


def assumed(path: Path) -> dict[str, Any]:
    """Names that a document uses without defining them, since its readers have their own."""
    if path.name != "README.md":
        return {}
    rng = np.random.default_rng()
    a, b = (
        rng.standard_normal((rows, 72), np.float32).astype(ml_dtypes.bfloat16)
        for rows in (130, 264)
    )
    return {"a": a, "b": b, "c": np.zeros((130, 264), ml_dtypes.bfloat16)}


@pytest.mark.timeout(900)  # the first use of the PTX machine compiles it
@pytest.mark.parametrize(("place", "path"), RUNS, indirect=["place"])
def test_snippets(
    place: Emulator,
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """In the emulator, and the same kernels' PTX on the machine, with the same output."""
    monkeypatch.chdir(tmp_path)
    document = Document.read(path)
    namespace = {"__name__": path.stem.lower(), **assumed(path)}
    outcomes = document.run(tmp_path, namespace, find_cuda_device().usable)
    assert not outcomes[-1].problem, outcomes[-1].problem
    machine = isinstance(place, Machine)
    if request.config.getoption("--update-golden") and not machine:
        path.write_text(document.with_outputs(outcomes), encoding="utf-8")
        return
    for outcome in outcomes:
        shown = outcome.snippet.output
        if machine and outcome.snippet.raises == "Deadlock":
            continue  # the PTX knows addresses of barriers, not the names of roles and rings
        if shown is not None and not same(shown, outcome.text):
            diff = difflib.unified_diff(
                shown.splitlines(), outcome.text.splitlines(), "shown", "real", lineterm=""
            )
            where = f"{path.name}:{outcome.snippet.line}"
            pytest.fail(
                f"{where}: the output differs from what the document shows; if it is right, run"
                " `make golden`\n" + "\n".join(diff),
                pytrace=False,
            )


def test_the_documents_with_snippets_are_found() -> None:
    assert {"README.md", "guide.md", "errors.md", "ir.md", "ptx-machine.md"} <= {
        p.name for p in WITH_SNIPPETS
    }


def test_shown_outputs() -> None:
    assert same("one\ntwo\n", "one\ntwo\n")
    assert same("one\n...\nfour\n", "one\ntwo\nthree\nfour\n")
    assert same("one\n...\n", "one\n")
    assert not same("one\n...\nfour\n", "one\ntwo\n")
    assert not same("one\n", "one\ntwo\n")
    assert not same("a.b\n", "axb\n")


def test_a_wrong_snippet_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "page.md"
    path.write_text(
        "```python\nx = 1\nprint(x)\n```\n\n```text output\n2\n```\n"
        "```python raises=ValueError\nint('x' * x)\n```\n"
        "```python\nassert x == 2\n```\n"
    )
    document = Document.read(path)
    first, second, third = document.run(tmp_path, {}, gpu=False)
    assert first.text == "1\n" and not same(first.snippet.output or "", first.text)
    assert second.text == "ValueError: invalid literal for int() with base 10: 'x'\n"
    assert "page.md:13: raised AssertionError" in third.problem
    assert "```text output\n1\n```" in document.with_outputs([first, second])


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command runs between the snippets, and must end as the document says."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "page.md"
    command = "```sh run{words}\npython -m tiledsl run-ptx \\\n  none.ptx --list\n```\n\n"
    shown = "```text output\nerror: cannot read 'none.ptx' as PTX: [Errno 2] No such file or"
    shown += " directory: 'none.ptx'\n```\n"
    path.write_text("```sh\nmake test\n```\n" + command.format(words=" status=2") + shown)
    document = Document.read(path)
    (outcome,) = document.run(tmp_path, {}, gpu=False)
    assert not outcome.problem
    assert same(document.snippets[0].output or "", outcome.text)
    path.write_text(command.format(words=""))
    (outcome,) = Document.read(path).run(tmp_path, {}, gpu=False)
    assert "page.md:2: ended with status 2, not 0" in outcome.problem
