"""What a kernel keeps of its launches on a GPU, with a stand-in for the launcher."""

from __future__ import annotations

from typing import Any

import pytest

import tiledsl as td
from tests.runtime.fake_cuda import FakeArray, FakeDriver


@td.kernel
def fill(x: td.Tensor, *, value: td.Constant[float] = 1.0):
    x[td.block_id(0)] = value


class Recorder:
    """Launches nothing; knows again what it has launched with ``blocks`` before."""

    def __init__(self) -> None:
        self.first: list[Any] = []
        self.again: list[Any] = []

    def __call__(self, args: Any, blocks: Any, stream: Any) -> None:
        self.first.append(blocks)

    def launch_again(self, args: Any, blocks: Any, stream: Any) -> bool:
        self.again.append(blocks)
        return True


@pytest.fixture
def recorder(cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(fill, "_known", {})
    monkeypatch.setattr(fill, "_launcher", lambda bound, params, target: made)
    return made


def test_the_second_launch_takes_the_short_way(recorder: Recorder) -> None:
    x = FakeArray(FakeDriver.address(0), (40,), "<f4")
    for _ in range(3):
        fill[8](x)
        fill[8](x, value=0.0)
    assert recorder.first == [(8,), (8,)]
    assert recorder.again == [(8,)] * 4
    fill[8](x, value=-0.0)
    assert len(recorder.first) == 3  # equal to 0.0 in Python, and another constant


def test_the_target_is_that_of_the_arrays_device(
    cuda: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current device may be another, older one."""
    cuda.devices = 2
    cuda.capabilities = {0: (8, 0)}
    asked: list[str] = []

    def launcher(bound: Any, params: Any, target: Any) -> Recorder:
        asked.append(target.name)
        return Recorder()

    monkeypatch.setattr(fill, "_known", {})
    monkeypatch.setattr(fill, "_launcher", launcher)
    fill[8](FakeArray(FakeDriver.address(1), (40,), "<f4"))
    assert asked == ["sm_90a"]
    with pytest.raises(td.TileError, match="no target 'sm_80'"):
        fill[9](FakeArray(FakeDriver.address(0), (40,), "<f4"))


def test_grids_that_never_repeat_are_forgotten(recorder: Recorder) -> None:
    x = FakeArray(FakeDriver.address(0), (4000,), "<f4")
    for grid in range(1, 2000):
        fill[grid](x)
    assert [blocks for (blocks,) in recorder.first] == list(range(1, 2000))
    assert len(fill._known) <= 512
