"""Reports about compiled kernels: roles, pipelines, stages, tiles and arguments by their names."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.golden import Golden
from tests.kernels.oracle import difference, fresh_seed, reference
from tiledsl.runtime.ptx_backend import run_kernel
from tiledsl.runtime.ptx_machine.report import MachineFault

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
Edit = Callable[[str], str]


def _run(monkeypatch: pytest.MonkeyPatch, sample: str, edit: Edit, k: int = 512) -> str:
    """What is said about a sample's PTX with an edit; "" if nothing, and the result is right."""
    monkeypatch.setattr(sys, "path", [str(SAMPLES), *sys.path])
    kernel: td.Kernel = getattr(importlib.import_module(sample), sample)
    rng = np.random.default_rng(fresh_seed())
    a, b = (rng.standard_normal((256, k)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.full((256, 256), np.nan, np.float32).astype(ml_dtypes.bfloat16)
    made = kernel.compile(a, b, c)
    try:
        run_kernel(made.kernel, edit(made.ptx), ["a", "b", "c"], [a, b, c], (2, 1, 1))
    except MachineFault as fault:
        text = re.sub(r"PTX line \d+", "PTX line N", str(fault))
        text = re.sub(r"%(r|rd|p)\d+", r"%\1", text)
        return text.replace(str(SAMPLES), "samples") + "\n"
    wrong = difference(c, reference(a, b, "bfloat16"))
    assert not wrong, wrong
    return ""


def _replace(pattern: str, by: str) -> Edit:
    def edit(ptx: str) -> str:
        changed, count = re.subn(pattern, by, ptx)
        assert count, pattern
        return changed

    return edit


EDITS: dict[str, Edit] = {
    "more bytes": _replace(r"(expect_tx[^;]*), 49152;", r"\1, 49168;"),
    "fewer bytes": _replace(r"(expect_tx[^;]*), 49152;", r"\1, 16384;"),
    "no release": _replace(r"@%p\d+ mbarrier\.arrive\.shared::cta[^;]*;", ""),
    "no wait for products": _replace(r"wgmma\.wait_group\.sync\.aligned 1;", ""),
    "no wait for the loads": _replace(r"mbarrier\.try_wait[^;]*; @done bra DONE0; bra WAIT0;", ""),
    "no fence before stores": _replace(r"fence\.proxy\.async\.shared::cta;", ""),
}


@pytest.mark.parametrize("name", EDITS)
def test_report(monkeypatch: pytest.MonkeyPatch, golden: Golden, name: str) -> None:
    text = _run(monkeypatch, "gemm", EDITS[name])
    assert text
    golden(text)


def test_a_deadlock_of_a_cluster(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    text = _run(monkeypatch, "gemm_cluster", EDITS["more bytes"])
    golden(text)


@pytest.mark.parametrize("sample", ["gemm", "gemm_cluster"])
def test_no_report(monkeypatch: pytest.MonkeyPatch, sample: str) -> None:
    assert _run(monkeypatch, sample, lambda ptx: ptx) == ""


@td.kernel(grid=1)
def beyond(x: td.Tensor, y: td.Tensor, row: td.int32):
    y[0, 0] = x[row, 3]


def test_an_argument_by_name_and_index() -> None:
    x, y = np.ones((4, 8), np.float32), np.zeros((2, 2), np.float32)
    beyond.run_ptx(x, y, 3)
    assert y[0, 0] == 1
    with pytest.raises(MachineFault) as caught:
        beyond.run_ptx(x, y, 70)
    told = re.sub(r"0x1000[0-9a-f]+", "0x...", caught.value.message.split("\n")[0])
    assert told == (
        "out of bounds: an access of 4 bytes: expected an address inside an array or variable, got"
        " x[70, 3] (0x..., 2124 bytes behind the end of x (128 bytes); x is 4x8)"
    )
    assert caught.value.loc is not None
    assert caught.value.loc.line == beyond_line()


def beyond_line() -> int:
    """The line of the access."""
    lines = Path(__file__).read_text().splitlines()
    return 1 + next(k for k, line in enumerate(lines) if line.startswith("    y[0, 0] = x[row"))
