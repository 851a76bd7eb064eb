"""Names of other texts that a user may try: each says what to write instead, and that exists."""

from __future__ import annotations

import re

import pytest

import tiledsl as td
from tests.language.traced import report
from tiledsl.frontend.other_names import INSTEAD, hint_for


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_a_name_that_is_not_there_has_what_replaces_it(name: str) -> None:
    assert not hasattr(td, name)
    for written in re.findall(r"\btd\.(\w+)", INSTEAD[name]):
        assert hasattr(td, written), f"{name}: there is no td.{written}"


def test_the_report_says_what_to_write() -> None:
    assert report(old_pipeline, {}) == (
        "TypeMismatch: the module tiledsl has no attribute 'TilePipeline' at: td.TilePipeline "
        "hint: write td.InputTilePipeline(payload, num_group_stages=...)"
    )


def old_pipeline():
    td.TilePipeline(4)


def test_a_misspelt_name_still_has_the_nearest() -> None:
    assert hint_for("InputTilePipelin") is None
    assert "hint: did you mean InputTilePipeline" in report(misspelt, {})


def misspelt():
    td.InputTilePipelin(4)


def test_another_module_has_no_such_hints() -> None:
    assert "hint: write" not in report(in_another_module, {})


def in_another_module():
    re.RingBuffer()
