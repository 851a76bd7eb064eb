"""The driver probe, device facts, and what a device runs."""

from __future__ import annotations

import pytest

from tests.runtime.conftest import forget_driver
from tests.runtime.fake_cuda import FakeDriver
from tiledsl.errors import LaunchError
from tiledsl.runtime import device


def test_without_a_driver_there_is_one_try_and_one_message(no_driver: list[int]) -> None:
    for ask in (lambda: device.device(0), device.current_device, device.driver):
        with pytest.raises(LaunchError) as caught:
            ask()
        assert str(caught.value) == (
            "no usable NVIDIA GPU: expected a CUDA driver and a device, got RuntimeError:"
            " libcuda.so.1 is not there\n"
            "hint: call the kernel with NumPy arrays to run it on the emulator, or use"
            " kernel.compile(...), which needs no GPU"
        )
    assert not device.is_available()
    assert no_driver == [1]


def test_the_real_probe_gives_the_same_answer_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine has. Without a driver some bindings hang at the second question."""

    def ask() -> str:
        try:
            return device.device(0).name
        except LaunchError as error:
            return error.message

    forget_driver(monkeypatch)
    assert ask() == ask() != ""


def test_facts(cuda: FakeDriver) -> None:
    assert device.is_available()
    facts = device.device(1)
    assert (facts.ordinal, facts.name, facts.capability) == (1, "Fake GPU 1", (9, 0))
    assert (facts.multiprocessors, facts.shared_bytes, facts.context) == (132, 232448, 101)
    assert facts.target == "sm_90a"
    assert device.device(1) is facts
    assert cuda.log == [("retain", 1)]


def test_a_device_that_does_not_exist(cuda: FakeDriver) -> None:
    with pytest.raises(LaunchError) as caught:
        device.device(2)
    assert caught.value.message == "no CUDA device 2: expected 0 <= device < 2, got 2"


def test_no_devices_at_all(cuda: FakeDriver) -> None:
    cuda.devices = 0
    assert not device.is_available()


@pytest.mark.parametrize(
    ("capability", "runs", "refuses"),
    [
        ((9, 0), ["sm_90a", "sm_90"], ["sm_80", "sm_100a", "sm_100", "sm_9", "compute_90"]),
        ((8, 9), ["sm_89", "sm_86", "sm_80"], ["sm_90", "sm_89a1", "sm_75"]),
        ((10, 3), ["sm_103a", "sm_100f", "sm_103f", "sm_100"], ["sm_100a", "sm_110f", "sm_90a"]),
        ((12, 0), ["sm_120a", "sm_120f", "sm_120"], ["sm_121f", "sm_100f"]),
    ],
)
def test_what_a_device_runs(
    cuda: FakeDriver, capability: tuple[int, int], runs: list[str], refuses: list[str]
) -> None:
    cuda.capability = capability
    facts = device.device(0)
    assert [target for target in runs + refuses if facts.runs(target)] == runs
    assert facts.runs(facts.target)


def test_current_switches_and_comes_back(cuda: FakeDriver) -> None:
    with device.device(1).current():
        assert cuda.context == 101
        assert device.current_device().ordinal == 1
    assert cuda.context == 100
    cuda.context = 0
    assert device.current_device().ordinal == 0  # a thread without a context
    with pytest.raises(ZeroDivisionError), device.device(0).current():
        _ = 1 / 0
    assert cuda.context == 0


def test_a_failing_call_says_what_for(cuda: FakeDriver) -> None:
    cuda.fail["cuDevicePrimaryCtxRetain"] = cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(LaunchError) as caught:
        device.device(0)
    assert str(caught.value) == (
        "opening device 0 failed: CUDA_ERROR_OUT_OF_MEMORY (text of 2)\n"
        "hint: free device memory; other processes may hold it"
    )
    sticky = device.error_hint(cuda.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    assert sticky is not None and "restarted" in sticky
