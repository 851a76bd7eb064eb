"""What ``@td.kernel(cluster=...)`` takes, and the whole message where it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tiledsl.errors import InvalidValue

SHAPE = "cluster: expected one to three numbers of blocks, each at least 1, got "
SHAPE_HINT = "\nhint: write cluster=(2, 1), or cluster=(2,) for blocks along one axis"
SIZE_HINT = "\nhint: use a smaller cluster, such as cluster=(2, 1)"


def kernel(x: td.Tensor):
    x[0] = td.cluster_size()


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        (2, SHAPE + "2" + SHAPE_HINT),
        ((), SHAPE + "()" + SHAPE_HINT),
        ((2, 1, 1, 1), SHAPE + "(2, 1, 1, 1)" + SHAPE_HINT),
        ((2, 0), SHAPE + "(2, 0)" + SHAPE_HINT),
        ((2, -1), SHAPE + "(2, -1)" + SHAPE_HINT),
        ((2, 1.5), SHAPE + "(2, 1.5)" + SHAPE_HINT),
        ((2, True), SHAPE + "(2, True)" + SHAPE_HINT),
        (("2", 1), SHAPE + "('2', 1)" + SHAPE_HINT),
        ("21", SHAPE + "'21'" + SHAPE_HINT),
        (
            (4, 4),
            "cluster: expected at most 8 blocks, got (4, 4) = 16 blocks: larger clusters are not"
            " portable, and not every GPU can place them" + SIZE_HINT,
        ),
        (
            (3, 3, 2),
            "cluster: expected at most 8 blocks, got (3, 3, 2) = 18 blocks" + SIZE_HINT,
        ),
    ],
)
def test_refused(cluster: Any, text: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        td.kernel(grid=1, cluster=cluster)(kernel)
    assert str(caught.value) == text


@pytest.mark.parametrize("cluster", [(1,), (8,), (2, 4), (2, 2, 2), (1, 7), [2, 1], (np.int64(2),)])
def test_accepted(cluster: Any) -> None:
    made = td.kernel(grid=td.persistent, cluster=cluster)(kernel)
    assert made.cluster == tuple(cluster)
    x = np.zeros(1, np.int32)
    made(x)
    assert x[0] == np.prod(cluster)


def test_no_cluster() -> None:
    assert td.kernel(kernel).cluster is None
    assert td.kernel(grid=1)(kernel).lower(td.spec(1, td.int32)).kernel.cluster == (1,)
