"""The notebook: in step with its script, stored without outputs, and running."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kernels.places import Emulator

jupytext = pytest.importorskip("jupytext", reason="needs the extra [notebook]")
nbformat = pytest.importorskip("nbformat", reason="needs the extra [notebook]")
nbclient = pytest.importorskip("nbclient", reason="needs the extra [notebook]")

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
NOTEBOOKS = sorted(path.stem for path in SAMPLES.glob("*.ipynb"))


def notebook(name: str) -> Any:
    return nbformat.read(SAMPLES / f"{name}.ipynb", as_version=4)


def cells(document: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in document.cells]


def test_there_is_a_notebook() -> None:
    assert "quickstart" in NOTEBOOKS


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_and_script_are_in_step(name: str) -> None:
    script = jupytext.read(SAMPLES / f"{name}.py")
    hint = f"run `jupytext --sync samples/{name}.py`"
    assert cells(notebook(name)) == cells(script), hint
    formats = {document.metadata.jupytext.formats for document in (notebook(name), script)}
    assert formats == {"ipynb,py:percent"}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_has_no_outputs(name: str) -> None:
    code = [cell for cell in notebook(name).cells if cell.cell_type == "code"]
    assert code
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.filterwarnings("default")  # of Jupyter's own libraries
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs(place: Emulator, name: str) -> None:
    """Cell by cell, in a kernel of Jupyter's, which inherits where kernels of ours run."""
    document = notebook(name)
    nbclient.NotebookClient(document, timeout=150, kernel_name="python3").execute()
    printed = "".join(
        output.get("text", "")
        for cell in document.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    for expected in ("largest relative error", "pipeline.acquire_producer", "wgmma.mma_async"):
        assert expected in printed
