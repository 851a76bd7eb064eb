"""What the assembler warns of is a Python warning at the user's line."""

from __future__ import annotations

import linecache

import pytest

import tiledsl as td
from tests.kernels.gemm import gemm
from tiledsl.codegen import assemble


def test_without_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "find_tool", lambda name: None)
    matrix = td.spec((512, 512), td.bfloat16)
    compiled = gemm.lower(matrix, matrix, matrix)
    with pytest.warns(td.PerformanceWarning) as found:
        assert compiled.resources.assembler.startswith("nvJitLink")
    warning = found.pop(td.PerformanceWarning)
    assert str(warning.message).startswith("gemm: (C7504) Potential Performance Loss: 'setmaxnreg'")
    assert str(warning.message).endswith(
        "hint: ptxas does not ignore it: pip install nvidia-cuda-nvcc"
    )
    assert warning.filename == gemm.function.__code__.co_filename
    assert "for m, n in tiles" in linecache.getline(warning.filename, warning.lineno)
