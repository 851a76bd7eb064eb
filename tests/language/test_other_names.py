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


OLD_METHODS = (
    "acquire",
    "arrive_empty_barriers",
    "enqueue_tile",
    "get_consumer_tiles",
    "get_expected_bytes",
    "get_producer_tiles",
    "get_slot",
    "get_tile",
    "init_barriers",
    "release_slot",
    "wait_consumer_if_needed",
    "wait_producer_if_needed",
)


@pytest.mark.parametrize("name", OLD_METHODS)
def test_an_old_method_of_a_pipeline(name: str) -> None:
    text = report(old_method, {"name": name})
    assert f"a tile pipeline has no attribute {name!r}" in text
    hint = text.partition("hint: write ")[2]
    written = re.findall(r"pipeline\.(\w+)\(", hint) or re.findall(r"^(wait_\w+)\(", hint)
    assert written or hint.startswith(("nothing: ", "stage.release()"))
    assert all(hasattr(td.InputTilePipeline, method) for method in written)


def old_method(name):
    pipeline = td.InputTilePipeline(td.TileArray(td.float32, (8, 64), 2), 2)
    getattr(pipeline, name)


@pytest.mark.parametrize("side", ["producer", "consumer"])
def test_an_old_method_of_a_view(side: str) -> None:
    text = report(old_method_of_a_view, {"side": side})
    assert f"a pipeline {side} has no attribute 'get_tiles'" in text
    assert "hint: write acquire()" in text


def old_method_of_a_view(side):
    pipeline = td.InputTilePipeline(td.TileArray(td.float32, (8, 64), 2), 2)
    view = pipeline.producer() if side == "producer" else pipeline.consumer()
    view.get_tiles()


def test_a_misspelt_name_still_has_the_nearest() -> None:
    assert hint_for("InputTilePipelin") is None
    assert "hint: did you mean InputTilePipeline" in report(misspelt, {})


def misspelt():
    td.InputTilePipelin(4)


def test_another_module_has_no_such_hints() -> None:
    assert "hint: write" not in report(in_another_module, {})


def in_another_module():
    re.RingBuffer()
