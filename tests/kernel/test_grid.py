"""The grid of a call: what CUDA cannot launch is refused, in the emulator too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiledsl as td


@td.kernel(warps=4)
def count(x: td.Tensor):
    x[td.block_id(0)] = td.num_blocks(0)


@pytest.mark.parametrize(
    "grid", [3, np.int64(3), (3,), [3, 1], (3, 1, 1), lambda args: len(args.x)]
)
def test_grids(grid: Any) -> None:
    x = np.zeros(3, np.int32)
    count[grid](x)
    assert list(x) == [3, 3, 3]


@pytest.mark.parametrize(
    "grid", [-1, 1.5, "3", True, (), (1, 1, 1, 1), (1, None), np.array([1, 2]), lambda args: None]
)
def test_no_grids(grid: Any) -> None:
    with pytest.raises(td.LaunchError) as caught:
        count[grid](np.zeros(3, np.int32))
    assert str(caught.value).startswith(
        "kernel count: expected a grid of one to three numbers of blocks, got "
    )


@pytest.mark.parametrize("grid", [(0, 65536), (0, 1, 65536)])
def test_more_blocks_than_a_launch_takes(grid: tuple[int, ...]) -> None:
    with pytest.raises(td.LaunchError) as caught:
        count[grid](np.zeros(3, np.int32))
    assert str(caught.value) == (
        f"kernel count: expected at most 65535 blocks in dimension {len(grid) - 1} of the grid,"
        " got 65536\nhint: put the largest extent in dimension 0"
    )


def test_more_blocks_than_int32() -> None:
    with pytest.raises(td.LaunchError) as caught:
        count[2**31](np.zeros(3, np.int32))
    assert str(caught.value) == (
        "kernel count: expected at most 2147483647 blocks in dimension 0 of the grid,"
        " got 2147483648"
    )
