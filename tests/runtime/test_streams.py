"""On which stream a launch runs, and how it is ordered with the streams of the arguments."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from tests.runtime.fake_cuda import FakeArray, FakeDriver
from tests.runtime.fake_frameworks import Producer
from tests.runtime.launching import make_args
from tiledsl.errors import LaunchError, TypeMismatch
from tiledsl.runtime.launch import Launcher
from tiledsl.runtime.streams import stream_handle


def test_a_given_stream_wins(cuda: FakeDriver, torch: Any, launcher: Launcher) -> None:
    torch.streams[0] = 4711
    launcher(make_args(torch), 1, stream=99)
    launcher(make_args(torch), 1, stream=0)
    launcher(make_args(torch), 1)
    assert [launched.stream for launched in cuda.launches] == [99, 0, 4711]
    assert not [entry for entry in cuda.log if entry[0] in ("record", "wait", "synchronize")]


def test_a_stream_of_another_device(cuda: FakeDriver, torch: Any, launcher: Launcher) -> None:
    cuda.stream_devices[99] = 1
    with pytest.raises(LaunchError) as caught:
        launcher(make_args(torch), 1, stream=99)
    assert str(caught.value) == (
        "the stream of kernel gemm is on another device than its arrays: expected one of cuda:0,"
        " got one of cuda:1\nhint: make the stream while cuda:0 is current"
    )
    assert cuda.launches == []


def test_a_stream_under_capture_is_asked_nothing(
    cuda: FakeDriver, torch: Any, launcher: Launcher
) -> None:
    """Asking for its device would end the capture (seen on an H200)."""
    cuda.capturing.add(99)
    launcher(make_args(torch), 1, stream=99)
    assert [launched.stream for launched in cuda.launches] == [99]


def test_stream_handles() -> None:
    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 77

    assert stream_handle(Protocol()) == 77
    assert stream_handle(types.SimpleNamespace(__cuda_stream__=(0, 78))) == 78
    assert stream_handle(types.SimpleNamespace(cuda_stream=79)) == 79
    assert stream_handle(types.SimpleNamespace(ptr=0)) == 0
    assert stream_handle(types.SimpleNamespace(handle=types.SimpleNamespace(value=None))) == 0
    assert stream_handle(1) == 0  # CU_STREAM_LEGACY is the null stream
    assert stream_handle(2) == 2
    with pytest.raises(
        TypeMismatch, match=r"stream: expected a CUDA stream or its handle, got True"
    ):
        stream_handle(True)
    with pytest.raises(
        TypeMismatch, match=r"stream: expected a CUDA stream or its handle, got 's'"
    ):
        stream_handle("s")
    with pytest.raises(TypeMismatch, match=r"expected __cuda_stream__ of version 0, got version 1"):
        stream_handle(types.SimpleNamespace(__cuda_stream__=(1, 78)))


def test_streams_of_other_frameworks_are_ordered(
    cuda: FakeDriver, torch: Any, launcher: Launcher
) -> None:
    torch.streams[0] = 4711
    a, _, eps = make_args(torch)
    c = FakeArray(cuda.address(0, 1 << 20), (40, 52), "<f4", stream=33)
    launcher([a, c, eps], 1)
    assert cuda.log[-5:] == [
        ("record", 1, 33),
        ("wait", 4711, 1),
        ("launch", 4711),
        ("record", 2, 4711),
        ("wait", 33, 2),
    ]
    same = FakeArray(cuda.address(0, 1 << 20), (40, 52), "<f4", stream=4711)
    launcher([a, same, eps], 1)
    assert cuda.log[-2:] == [("wait", 33, 2), ("launch", 4711)]
    launcher([a, c, eps], 1, stream=5)
    assert cuda.log[-2:] == [("launch", 4711), ("launch", 5)]


def test_an_interface_gives_the_stream(cuda: FakeDriver, launcher: Launcher) -> None:
    def args(stream: int | None) -> list[Any]:
        a = FakeArray(cuda.address(0), (100, 72), "|V2", stream=stream)
        a.dtype = "bfloat16"  # type: ignore[attr-defined]
        return [a, FakeArray(cuda.address(0, 1 << 20), (40, 52), "<f4", stream=stream), 0.0]

    for stream, handle in ((33, 33), (None, 0), (1, 0)):
        launcher(args(stream), 1)
        assert cuda.log[-1] == ("launch", handle)


def test_a_producer_without_a_stream_is_waited_for(
    cuda: FakeDriver, torch: Any, launcher: Launcher
) -> None:
    torch.streams[0] = 4711
    _, c, eps = make_args(torch)
    made = Producer(cuda.address(0), (100, 72), 4, 16)
    launcher([made, c, eps], 1)
    assert cuda.log[-3:] == [
        ("record", 2, 0),  # torch's stream goes on after the launch on the null stream
        ("wait", 4711, 2),
        ("synchronize", 0),
    ]
    launcher([made, c, eps], 1, stream=8)
    assert cuda.log[-2:] == [("launch", 8), ("synchronize", 8)]
    assert made.asked[-1] == 8


def test_jax_arrays_cannot_be_written(
    cuda: FakeDriver, torch: Any, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ArrayImpl(Producer):
        pass

    ArrayImpl.__module__ = "jaxlib._jax"
    a, c, eps = make_args(torch)
    launcher([ArrayImpl(cuda.address(0), (100, 72), 4, 16), c, eps], 1)
    assert len(cuda.launches) == 1
    with pytest.raises(LaunchError) as caught:
        launcher([a, ArrayImpl(cuda.address(0), (40, 52), 2, 32), eps], 1)
    assert caught.value.message == (
        "argument c: expected a writable array, for the kernel stores to it, got a read-only"
        " ArrayImpl"
    )


def test_cupy_arrays_and_their_stream(
    cuda: FakeDriver, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = {0: 12}
    module = types.ModuleType("cupy")
    module.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        get_current_stream=lambda device: types.SimpleNamespace(ptr=streams[device])
    )

    class ndarray:
        def __init__(self, pointer: int, shape: tuple[int, ...], dtype: str, pitch: int) -> None:
            self.data = types.SimpleNamespace(ptr=pointer, device_id=0)
            self.shape, self.ndim, self.dtype = shape, len(shape), dtype
            self.strides = (pitch, 2 if dtype == "bfloat16" else 4)

    ndarray.__module__ = "cupy"
    monkeypatch.setitem(sys.modules, "cupy", module)
    a = ndarray(cuda.address(0), (100, 72), "bfloat16", 160)
    c = ndarray(cuda.address(0, 4096), (40, 48), "float32", 208)
    launcher([a, c, 0.0], 1)
    assert cuda.launches[0].stream == 12
    assert [entry["strides"] for entry in cuda.maps] == [[160], [208]]
