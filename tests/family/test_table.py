"""docs/pipeline-family.md: every ID once, with a legal status and with places that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATUS = ("done", "derived", "differs", "later")
# Rows that are not P0 and come with it all the same: fp8 with scales, and what the ring needs.
TOO = {*(f"M{number:03}" for number in range(15, 21)), "M109", "M124", "M130", "M131"}
ROW = re.compile(
    r"\| (M\d{3}) \| (P[012]|-) \| `(.+?)` \| (\w+) \| (?:`(.*?)`)? \| (?:`(.*?)`)? \| (.*?) ?\|$"
)


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
    _, _, _, status, where, test, reason = row
    assert status in STATUS
    assert (ROOT / where).exists() and (ROOT / test).exists()
    if status in ("done", "derived"):
        assert where and test
    else:
        assert reason


def named_tests() -> dict[str, set[str]]:
    """The IDs that the tests of each file of this folder are named after."""
    return {
        f"tests/family/{path.name}": set(re.findall(r"^def test_(M\d{3})_", path.read_text(), re.M))
        for path in Path(__file__).parent.glob("test_*.py")
    }


@pytest.mark.parametrize("row", [row for row in rows() if row[1] == "P0" or row[0] in TOO])
def test_what_every_kernel_needs_has_a_test_of_its_own(row: tuple[str, ...]) -> None:
    assert row[3] != "later"
    assert row[0] in named_tests().get(row[5], set())
