"""The full text of a diagnostic, with this machine's folders taken out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tiledsl.errors import TileError

ROOT = Path(__file__).resolve().parents[2]


def message(run: Callable[[], object], kind: type[TileError]) -> str:
    """Run, expect an error of exactly this kind, and return ``Kind: text``."""
    with pytest.raises(TileError) as caught:
        run()
    assert type(caught.value) is kind, f"{type(caught.value).__name__}: {caught.value}"
    text = f"{kind.__name__}: {caught.value}"
    # Line numbers move with every edit of the test file; the excerpt shows the line.
    text = re.sub(r'(File ")[^"]*/([^"/]+", line )\d+', r"\1\2N", text.replace(str(ROOT), ""))
    return text
