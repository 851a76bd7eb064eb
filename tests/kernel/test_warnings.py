"""What the assembler warns of is a Python warning at the user's line."""

from __future__ import annotations

import linecache
import os
import runpy
import warnings
from pathlib import Path

import pytest

import tiledsl as td
from tests.kernels.gemm import gemm
from tiledsl.codegen import assemble
from tiledsl.codegen.ptxas_log import PtxasMessage


def test_without_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "find_tool", lambda name: None)
    own = td.kernel(grid=td.persistent)(gemm.function)  # not the variant that other tests share
    matrix = td.spec((512, 512), td.bfloat16)
    compiled = own.lower(matrix, matrix, matrix)
    with pytest.warns(td.PerformanceWarning) as found:
        assert compiled.resources.assembler.startswith("nvJitLink")
    warning = found.pop(td.PerformanceWarning)
    assert str(warning.message).startswith("gemm: (C7504) Potential Performance Loss: 'setmaxnreg'")
    assert str(warning.message).endswith(
        "hint: ptxas does not ignore it: pip install nvidia-cuda-nvcc"
    )
    assert warning.filename == gemm.function.__code__.co_filename
    assert "for m, n in tiles" in linecache.getline(warning.filename, warning.lineno)


def test_a_message_without_a_place_stands_at_the_kernel() -> None:
    matrix = td.spec((512, 512), td.bfloat16)
    compiled = gemm.lower(matrix, matrix, matrix)
    with pytest.warns(td.PerformanceWarning, match="gemm: something odd") as found:
        compiled._warn(PtxasMessage("warning", None, "something odd"), "ptxas")
    assert found[0].filename == gemm.function.__code__.co_filename
    assert "gemm(" in linecache.getline(found[0].filename, found[0].lineno)


@td.kernel(warps=4)
def loud(x: td.Tensor):
    td.print(f"{x.shape[0]} elements")


def test_printing_is_not_warned_of() -> None:
    """It takes local memory, which the user can do nothing about."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loud.compile(td.spec((4,), td.float32)).resources.stack_bytes > 0


def test_a_file_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "kern\udce9l.py"  # as Python reads a byte 0xe9
    path.write_text(
        "import tiledsl as td\n\n@td.kernel(warps=4)\ndef fill(x: td.Tensor):\n    x[0] = 1\n"
    )
    namespace = runpy.run_path(os.fsdecode(path))
    compiled = namespace["fill"].compile(td.spec((4,), td.float32))
    assert "kern?l.py" in compiled.ptx
