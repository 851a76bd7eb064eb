"""Constants that Python takes for equal, and that make other kernels."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tiledsl.codegen.ir.exact import exact
from tiledsl.errors import TypeMismatch


@dataclass(frozen=True)
class Box:
    size: object


class Mode(enum.Enum):
    FAST = 1


class Number(enum.IntEnum):
    ONE = 1


DISTINCT = [
    1, 1.0, True, 0.0, -0.0, 0, False, None, "1", 1 + 0j, (1,), (1.0,), (True,), ((1,),), ((1.0,),),
    frozenset({1}), frozenset({1.0}), Box(1), Box(1.0), Box((0.0,)), Box((-0.0,)),
    Mode.FAST, Number.ONE, np.float32(1), np.int32(1),
]  # fmt: skip


def test_equal_values_of_other_types_have_other_keys() -> None:
    assert len({exact(value) for value in DISTINCT}) == len(DISTINCT)


@pytest.mark.parametrize("value", [1, 1.5, (1, (2.0, "a")), Box(3), Mode.FAST, float("nan")])
def test_the_same_value_has_the_same_key(value: Any) -> None:
    again = type(value)(*vars(value).values()) if isinstance(value, Box) else value
    again = float("nan") if value != value else again
    assert exact(value) == exact(again)


@td.kernel(grid=1)
def first_of(out: td.Tensor, *, pair: td.Constant[tuple]):
    out[0] = 2 * pair[0] if isinstance(pair[0], float) else 10 * pair[0]


def test_each_gets_a_variant_of_its_own() -> None:
    out = np.zeros(1, np.float32)
    found = []
    for pair in [(1,), (1.0,), (-0.0,), (0.0,), (1,)]:
        first_of(out, pair=pair)
        found.append((float(out[0]), bool(np.signbit(out[0]))))
    assert found == [(10, False), (2, False), (0, True), (0, False), (10, False)]
    assert len(first_of.variants) == 4


@pytest.mark.parametrize("pair", [([1],), (1, {2: 3})])
def test_what_cannot_be_hashed_is_refused(pair: Any) -> None:
    with pytest.raises(TypeMismatch) as caught:
        first_of(np.zeros(1, np.float32), pair=pair)
    inner = "list" if isinstance(pair[0], list) else "dict"
    assert str(caught.value) == (
        "constant pair of kernel first_of: expected a hashable value, got tuple (unhashable type:"
        f" '{inner}')\nhint: pass a tuple instead of a list, or a frozen dataclass"
    )


@td.kernel(grid=1)
def chosen(out: td.Tensor, *, n: td.Constant[int | float | None] = None):
    out[0] = -1 if n is None else n


def test_a_constant_of_several_types() -> None:
    out = np.zeros(1, np.float32)
    for n, wanted in [(None, -1), (3, 3), (2.5, 2.5)]:
        chosen(out, n=n)
        assert out[0] == wanted
    for n in ("3", True):
        with pytest.raises(TypeMismatch) as caught:
            chosen(out, n=n)
        assert str(caught.value).startswith(
            f"constant n of kernel chosen: expected int or float or NoneType, known at compile"
            f" time, got {n!r}\nhint: write n: td.Constant[{type(n).__name__}]"
        )
