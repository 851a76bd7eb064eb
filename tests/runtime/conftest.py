"""Fixtures: a fake driver in place of the real one."""

from __future__ import annotations

import sys

import pytest

from tests.runtime.fake_cuda import FakeDriver
from tests.runtime.fake_frameworks import make_torch
from tests.runtime.launching import NAMES, SIZES, SLOTS, make_kernel
from tiledsl.runtime import device, frameworks, tensormap
from tiledsl.runtime.launch import Launcher


def forget_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a fresh process: nothing probed, loaded or cached; undone after the test."""
    monkeypatch.setattr(device, "_driver", None)
    monkeypatch.setattr(device, "_failure", None)
    monkeypatch.setattr(device, "_devices", {})
    monkeypatch.setattr(tensormap, "_cache", {})
    monkeypatch.setattr(tensormap, "_standins", {})
    monkeypatch.setattr(tensormap, "_encoders", {})
    monkeypatch.setattr(frameworks, "_by_type", {})
    monkeypatch.setattr(frameworks, "_instances", {})


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A machine with two GPUs of capability 9.0; device 0 is current."""
    forget_driver(monkeypatch)
    fake = FakeDriver(devices=2, context=100)
    monkeypatch.setattr(device, "_load_driver", lambda: fake)
    return fake


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A machine without a driver; the list gets an entry for each try to load one."""
    forget_driver(monkeypatch)
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise RuntimeError("libcuda.so.1 is not there")

    monkeypatch.setattr(device, "_load_driver", fail)
    return tries


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> object:
    """A stand-in for torch, as far as the runtime looks at it."""
    module = make_torch()
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(frameworks, "_by_type", {})
    monkeypatch.setattr(frameworks, "_instances", {})
    return module


@pytest.fixture
def launcher(cuda: FakeDriver) -> Launcher:
    cuda.parameter_sizes = SIZES
    return Launcher(make_kernel(), SLOTS, NAMES)
