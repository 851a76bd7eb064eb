"""Whatever the user calls things, LLVM and ptxas get names that they take."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tiledsl as td
from tests.frontend.programs import define
from tiledsl.compiled import CompiledKernel

LONG = "v" * 2500  # LLVM cuts names at 1024 characters, and then finds two that are alike
X = td.spec((64, 64), td.float32)


def compiled(source: str, name: str = "kernel", *specs: Any) -> CompiledKernel:
    function = define(f"{source}\nkernel = {name}\n", td=td)
    return td.kernel(grid=1)(function).compile(X, *specs)


@pytest.mark.filterwarnings("ignore:.*Local memory used")  # by td.print
@pytest.mark.parametrize(
    "name", ["vprintf", "WARP_SZ", "tiledsl_shared", "tiledsl_fmod_f32", "größe"]
)
def test_kernel_with_a_name_that_means_something_else(name: str) -> None:
    source = f"""
def {name}(x):
    x[0, 0] = x[0, 1] % x[0, 2]
    td.print(x[0, 0])
"""
    found = compiled(source, name)
    assert re.search(rf"\.visible \.entry {found.name}\b", found.ptx)
    assert found.name != name and found.name.isascii()


@pytest.mark.parametrize("name", [LONG, "漢字"])
def test_variables_and_parameters(name: str) -> None:
    source = f"""
def kernel(x, {name}n):
    {name}_ = {name}__ = 0
    for {name}i in range({name}n):
        {name}_ += {name}i
        while {name}__ < {name}_:
            {name}__ += 3
    x[0, 0] = {name}_ + {name}__
"""
    assert compiled(source, "kernel", td.int32).cubin


def test_tensors_and_pipelines() -> None:
    source = f"""
def kernel({LONG}):
    {LONG}p = td.StandardTilePayload(td.float32, td.float32, (8, 8), (8, 8), num_pipeline_stages=1)
    {LONG}r = td.InputTilePipeline({LONG}p, 1)
    with {LONG}r.producer().acquire() as s:
        td.tma_load({LONG}, (0, 0), s.payload().get_a_tile(s.stage()), s.barrier())
    with {LONG}r.consumer().acquire() as s:
        td.tma_store(s.payload().get_a_tile(s.stage()), {LONG}, (8, 8))
"""
    assert compiled(source).cubin


@pytest.mark.parametrize("name", [LONG, "\0", 'a "quoted" name', "漢字", "%s", "\n"])
def test_roles(name: str) -> None:
    source = f"""
def kernel(x):
    with td.role({name!r}, warps=1):
        x[0, 0] = 1.0
    with td.role({name + "2"!r}, warps=4):
        x[0, 1] = 1.0
    with td.role({name + "3"!r}, warps=4):
        x[0, 2] = 1.0
"""
    assert compiled(source).cubin
