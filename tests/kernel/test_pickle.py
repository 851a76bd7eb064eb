"""Kernels and helpers travel to other processes by name, and a copy of one is itself."""

from __future__ import annotations

import copy
import pickle

import pytest

import tiledsl as td


@td.function
def helper(x):
    return x + 1


@td.kernel(grid=1)
def fill(x: td.Tensor):
    x[0] = helper(1)


@pytest.mark.parametrize("thing", [fill, helper], ids=["kernel", "function"])
def test_by_name(thing: object) -> None:
    assert pickle.loads(pickle.dumps(thing)) is thing
    assert copy.copy(thing) is thing
    assert copy.deepcopy(thing) is thing


def test_a_local_kernel_has_no_name() -> None:
    local = td.kernel(grid=1)(lambda x: None)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(local)
