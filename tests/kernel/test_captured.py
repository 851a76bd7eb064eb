"""A kernel sees the globals and closure variables of the moment of its call, as Python does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tests.kernel import settings

SCALE = 2
UNUSED = 1


@td.function
def scaled(x):
    return x * SCALE


@td.kernel(grid=1)
def fill(out: td.Tensor, x: td.int32):
    out[0] = scaled(x)


def run(kernel: td.Kernel, *args: int) -> int:
    out = np.full(1, -1, np.int32)
    kernel(out, *args)
    return int(out[0])


def test_a_changed_global_is_compiled_anew() -> None:
    global SCALE
    SCALE = 2
    assert run(fill, 5) == 10
    first = fill.variants
    assert run(fill, 6) == 12 and fill.variants == first
    SCALE = 3
    assert run(fill, 5) == 15
    assert len(fill.variants) == 1 and fill.variants != first
    SCALE = 2


def test_what_is_not_used_does_not_count() -> None:
    global UNUSED
    assert run(fill, 1) == 2
    first = fill.variants
    UNUSED = 7
    assert run(fill, 1) == 2 and fill.variants == first


def test_a_changed_closure_variable() -> None:
    shift = 1

    @td.kernel(grid=1)
    def moved(out: td.Tensor, x: td.int32):
        out[0] = x + shift

    assert run(moved, 5) == 6
    shift = 10
    assert run(moved, 5) == 15


def test_a_list_that_is_changed_in_place() -> None:
    weights = [1, 2]

    @td.kernel(grid=1)
    def weighted(out: td.Tensor):
        out[0] = weights[0] + weights[1]

    assert run(weighted) == 3
    weights[1] = 40
    assert run(weighted) == 41


def test_an_attribute_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    @td.kernel(grid=1)
    def seen(out: td.Tensor):
        out[0] = settings.SIZE

    assert run(seen) == settings.SIZE
    monkeypatch.setattr(settings, "SIZE", 77)
    assert run(seen) == 77


def test_an_equal_number_of_another_type() -> None:
    ratio = (1,)

    @td.kernel(grid=1)
    def half(out: td.Tensor):
        out[0] = 1 if isinstance(ratio[0], int) else 2

    assert run(half) == 1
    ratio = (1.0,)
    assert run(half) == 2


def test_an_equal_value_keeps_the_variant() -> None:
    size = (2, 3)

    @td.kernel(grid=1)
    def summed(out: td.Tensor):
        out[0] = size[0] + size[1]

    assert run(summed) == 5
    first = summed.variants
    size = (*size,)  # another object
    assert run(summed) == 5 and summed.variants == first


def adding(step: int) -> Any:
    def added(x):
        return x + step

    return added


def stepping(count: int) -> type:
    class Stepping:
        step = count

    return Stepping


def test_helpers_that_are_defined_again() -> None:
    """As in a notebook, where the cell of a helper is run again."""
    plain, decorated, base = adding(1), td.function(adding(1)), stepping(1)

    @td.kernel(grid=1)
    def both(out: td.Tensor, x: td.int32):
        out[0] = plain(x) * decorated(x) + base.step

    assert run(both, 4) == 26
    first = both.variants
    assert run(both, 4) == 26 and both.variants == first
    plain = adding(2)
    assert run(both, 4) == 31
    decorated = td.function(adding(3))
    assert run(both, 4) == 43
    base = stepping(2)
    assert run(both, 4) == 44


@dataclass
class Settings:
    step: int


@dataclass(frozen=True)
class Frozen:
    step: int


@dataclass(eq=False)
class Identified:
    step: int


def test_settings_in_a_dataclass() -> None:
    changed, replaced, same = Settings(1), Frozen(10), Identified(100)

    @td.kernel(grid=1)
    def summed(out: td.Tensor):
        out[0] = changed.step + replaced.step + same.step

    assert run(summed) == 111
    first = summed.variants
    replaced = Frozen(10)
    assert run(summed) == 111 and summed.variants == first
    changed.step = 2
    assert run(summed) == 112
    replaced = Frozen(20)
    assert run(summed) == 122
    same = Identified(200)
    assert run(summed) == 222


def test_values_that_cannot_be_compared() -> None:
    pair = (np.array([1, 2]), 3)

    @td.kernel(grid=1)
    def second(out: td.Tensor):
        out[0] = pair[1]

    assert run(second) == 3
    pair = (np.array([1, 2]), 4)
    assert run(second) == 4


def test_variants_share_what_they_captured() -> None:
    """A launch looks at each name once, however many variants there are."""
    shift = 1

    @td.kernel(grid=1)
    def moved(out: td.Tensor, *, by: td.Constant[int] = 0):
        out[0] = by + shift

    out = np.zeros(1, np.int32)
    for by in range(5):
        moved(out, by=by)
    assert len(moved.variants) == 5 and len(moved._captured) == 1
    shift = 2
    moved(out, by=3)
    assert out[0] == 5 and len(moved.variants) == 1
