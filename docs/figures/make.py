"""Draws the figures of docs/pipelines.md from runs of the kernels on that page.

    python -m docs.figures.make          # in the folder of the checkout; writes docs/figures/*.svg

A test draws them again and compares.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from docs.figures import pictures
from tests.docs.snippets import Document

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parent / "pipelines.md"

FIGURES: dict[str, Callable[[dict[str, Any]], str]] = {
    "overlap": pictures.overlap,
    "parity": pictures.parity,
    "phases": pictures.phases,
    "ring": pictures.ring,
    "pingpong": pictures.ping_pong,
    "multicast": pictures.multicast,
    "explain": pictures.explained,
}


@cache
def kernels() -> dict[str, Any]:
    """What the snippets of the page have defined when they have run."""
    namespace: dict[str, Any] = {"__name__": "pipelines"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        outcomes = Document.read(PAGE).run(Path(folder), namespace, gpu=False)
        if outcomes[-1].problem:
            raise RuntimeError(outcomes[-1].problem)
        namespace["drawn"] = {name: draw(namespace) for name, draw in FIGURES.items()}
    return namespace


def figures() -> dict[str, str]:
    """Every figure as SVG, by its name."""
    drawn: dict[str, str] = kernels()["drawn"]
    return drawn


def main() -> int:
    for name, text in figures().items():
        (FOLDER / f"{name}.svg").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
