"""Where a kernel runs: NumPy arrays for the emulator or the PTX machine, or copies on the GPU."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pytest

from tests.kernels import agreement


class Emulator:
    """Arrays stay where they are."""

    contracts = False  # rounds every operation

    def enter(self, patch: pytest.MonkeyPatch) -> None:
        """Let calls of kernels with NumPy arrays run here."""
        patch.delenv("TILEDSL_BACKEND", raising=False)

    def put(self, x: np.ndarray[Any, Any]) -> Any:
        """An array for the kernel, with the same bits."""
        return x

    def get(self, x: Any) -> np.ndarray[Any, Any]:
        """What the kernel left in it."""
        found: np.ndarray[Any, Any] = x
        return found


class Machine(Emulator):
    """The emitted PTX on the CPU, under one of the machine's policies and a seed of its own.

    Each launch runs in the emulator as well, on copies, and where every operation is exact or
    rounded once the two must leave the same bits.
    """

    contracts = True  # as the compiler does

    def __init__(self, policy: str, seed: int) -> None:
        self.policy, self.seed = policy, seed

    def enter(self, patch: pytest.MonkeyPatch) -> None:
        print(f"TILEDSL_BACKEND=ptx TILEDSL_PTX_POLICY={self.policy} TILEDSL_PTX_SEED={self.seed}")
        patch.setenv("TILEDSL_BACKEND", "ptx")
        patch.setenv("TILEDSL_PTX_POLICY", self.policy)
        patch.setenv("TILEDSL_PTX_SEED", str(self.seed))
        agreement.demand(patch)


class Gpu:
    """Contiguous copies in GPU memory, by torch. Bits go there and back, so any dtype does."""

    contracts = True  # x * y + z may be rounded once

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def put(self, x: np.ndarray[Any, Any]) -> Any:
        if x.dtype == np.bool_:
            return self.torch.from_numpy(np.ascontiguousarray(x)).cuda()
        bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}")
        return self.torch.from_numpy(bits).cuda().view(getattr(self.torch, x.dtype.name))

    def get(self, x: Any) -> np.ndarray[Any, Any]:
        import ml_dtypes

        name = str(x.dtype).removeprefix("torch.")
        if name == "bool":
            return np.asarray(x.cpu().numpy())
        dtype = np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
        bits = x.view(getattr(self.torch, f"int{8 * dtype.itemsize}")).cpu().numpy()
        return np.asarray(bits).view(dtype)


Place = Emulator | Gpu

# What a test with the fixture ``place`` goes through. The policies are those that find most.
EMULATOR, LATE, PCT = "emulator", "ptx late", "ptx pct"
CPU_PLACES = (EMULATOR, LATE, PCT)


def place_named(name: str) -> Emulator:
    """One of ``CPU_PLACES``; a machine with a seed that no run had before."""
    if name == EMULATOR:
        return Emulator()
    return Machine(name.removeprefix("ptx "), secrets.randbits(30))


def same_bits(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], what: str) -> None:
    """Fail unless two arrays have the same bits."""
    assert found.dtype == expected.dtype and found.shape == expected.shape, what
    unsigned = f"u{expected.dtype.itemsize}"
    wrong = np.argwhere(
        np.ascontiguousarray(found).view(unsigned) != np.ascontiguousarray(expected).view(unsigned)
    )
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        raise AssertionError(
            f"{what}: {len(wrong)} of {expected.size} elements differ, the first at {at}:"
            f" {found[at]}, not {expected[at]}"
        )


def random_array(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: Any
) -> np.ndarray[Any, Any]:
    """Small numbers: sums of a few are exact in every dtype of at least 16 bits."""
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.integers(-30, 31, shape).astype(dtype)


def poisoned(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Bits that no test expects: NaN in every float."""
    bits = np.full(shape, -1, f"i{np.dtype(dtype).itemsize}")
    return bits.view(dtype)
