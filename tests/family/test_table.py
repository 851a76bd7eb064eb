"""docs/pipeline-family.md: every ID once, with a legal status and with places that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATUS = ("done", "derived", "differs", "later")
ROW = re.compile(r"\| (M\d{3}) \| `(.+?)` \| (\w+) \| (?:`(.*?)`)? \| (?:`(.*?)`)? \| (.*?) ?\|$")


def rows() -> list[tuple[str, ...]]:
    text = (ROOT / "docs" / "pipeline-family.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| M")]
    matches = [ROW.match(line) for line in lines]
    assert all(matches), [line for line, match in zip(lines, matches, strict=True) if not match]
    return [tuple(x or "" for x in match.groups()) for match in matches if match]


def test_every_id_once() -> None:
    assert [row[0] for row in rows()] == [f"M{number:03}" for number in range(1, 232)]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_places_exist(row: tuple[str, ...]) -> None:
    _, _, status, where, test, reason = row
    assert status in STATUS
    assert (ROOT / where).exists() and (ROOT / test).exists()
    if status in ("done", "derived"):
        assert where and test
    else:
        assert reason
