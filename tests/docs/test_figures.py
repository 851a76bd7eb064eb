"""The figures of docs/pipelines.md are what the kernels on that page do, and can be read."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import pytest

from docs.figures.make import FIGURES, FOLDER, PAGE, figures
from tests.kernel.test_explain import text_boxes


@pytest.mark.parametrize("name", FIGURES)
def test_figure(name: str, request: pytest.FixtureRequest) -> None:
    path, text = FOLDER / f"{name}.svg", figures()[name] + "\n"
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    shown = path.read_text(encoding="utf-8") if path.exists() else ""
    if shown != text:
        pytest.fail(
            f"{path.name} is not what the page's kernels do; if they are right, run `make golden`",
            pytrace=False,
        )


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_is_cut_or_covered(name: str) -> None:
    root = ElementTree.fromstring(figures()[name])
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    boxes = text_boxes(root)
    assert boxes
    for box in boxes:
        assert "\N{HORIZONTAL ELLIPSIS}" not in box.text
        assert box.left >= 0 and box.top >= 0, box
        assert box.right <= width and box.bottom <= height, box
    for one, other in itertools.combinations(boxes, 2):
        assert not one.meets(other), (one, other)


def test_every_figure_is_on_the_page() -> None:
    shown = re.findall(r"\]\(figures/(\w+)\.svg\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(FIGURES)
    assert sorted(path.stem for path in FOLDER.glob("*.svg")) == sorted(FIGURES)
