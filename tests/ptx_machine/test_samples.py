"""The samples' PTX on the machine under every policy, against float64: no error, no false alarm."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.kernels.oracle import difference, fresh_seed, reference

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
POLICIES = ("eager", "late", "random", "pct")
GEMMS: dict[str, tuple[str, dict[str, Any]]] = {
    "gemm": ("gemm", {}),
    "gemm lockstep": ("gemm", {"lockstep": True}),
    "gemm_flat": ("gemm_flat", {}),
    "gemm_cluster": ("gemm_cluster", {}),
    "gemm_cluster whole": ("gemm_cluster", {"partitioned": False, "stages": 3}),
    "gemm_pingpong": ("gemm_pingpong", {}),
    "gemm_pingpong k_group": ("gemm_pingpong", {"k_group": 2}),
}


def sample(monkeypatch: pytest.MonkeyPatch, name: str) -> td.Kernel:
    monkeypatch.setattr(sys, "path", [str(SAMPLES), *sys.path])
    kernel: td.Kernel = getattr(importlib.import_module(name), name)
    return kernel


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", GEMMS)
def test_gemm(monkeypatch: pytest.MonkeyPatch, name: str, policy: str) -> None:
    module, constants = GEMMS[name]
    _check_gemm(sample(monkeypatch, module), policy, constants)


@pytest.mark.parametrize("policy", POLICIES)
def test_turns_in_clusters(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    """A fence before the relaxed arrival at the cluster barrier publishes where the turns begin."""
    plain = sample(monkeypatch, "gemm_pingpong")
    clustered = td.kernel(grid=td.persistent, cluster=(2, 1))(plain.function)
    _check_gemm(clustered, policy, {})


def _check_gemm(kernel: td.Kernel, policy: str, constants: dict[str, Any]) -> None:
    """Ragged shapes, one tile and several, no step of K at all."""
    rng = np.random.default_rng(fresh_seed())
    steps = 8 * int(rng.integers(1, 60))
    for m, n, k in ((256, 512, 128), (130, 264, steps), (1, 8, 8), (64, 72, 0)):
        a, b = (rng.standard_normal((rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
        c = np.full((m, n), np.nan, np.float32).astype(ml_dtypes.bfloat16)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", td.PerformanceWarning)
            options = {"policy": policy, "seed": int(rng.integers(1 << 30))}
            result = kernel.run_ptx(a, b, c, options=options, **constants)
        assert result.instructions > 0
        wrong = difference(c, reference(a, b, "bfloat16"))
        assert not wrong, f"{m}x{n}x{k}: {wrong}"
