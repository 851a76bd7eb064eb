"""Kernels traced to tile level, and kernels that must be refused with an exact text."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import tiledsl as td
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.errors import Loc, TileError
from tiledsl.frontend.build import ConstantSpec, ScalarSpec, TensorSpec, build_kernel


def trace(
    function: Callable[..., Any],
    *,
    cluster: tuple[int, ...] | None = None,
    persistent: bool = False,
    **params: Any,
) -> Kernel:
    """The tile-level kernel. A parameter is a TensorSpec, a dtype (scalar) or a constant."""
    specs = {name: _spec(value) for name, value in params.items()}
    return build_kernel(
        function,
        specs,
        name=function.__name__,
        persistent=persistent,
        warps=None,
        target="sm_90a",
        cluster=cluster,
    )


def _spec(value: Any) -> TensorSpec | ScalarSpec | ConstantSpec:
    if isinstance(value, TensorSpec):
        return value
    return ScalarSpec(value) if isinstance(value, DType) else ConstantSpec(value)


@dataclass
class Refused:
    """Kernels that must be refused; the docstring of each is the whole report.

    Spaces and line breaks count as one space. A report reads::

        Kind: message at: source under the caret note: text at: source hint: text
    """

    cases: list[Any]

    def __call__(self, **params: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.cases.append(pytest.param(function, params, id=function.__name__))
            return function

        return register


def report(function: Callable[..., Any], params: dict[str, Any]) -> str:
    """What is said when the kernel is traced; fails where it is accepted."""
    with pytest.raises(TileError) as caught:
        trace(function, **params)
    error = caught.value
    parts = [f"{type(error).__name__}: {error.message}"]
    if error.loc is not None:
        parts.append(f"at: {_source(error.loc)}")
    for note, loc in error.notes:
        parts.append(f"note: {note}" + (f" at: {_source(loc)}" if loc is not None else ""))
    if error.hint:
        parts.append(f"hint: {error.hint}")
    return one_line("\n".join(parts))


def one_line(text: str) -> str:
    return " ".join(text.split())


def _source(loc: Loc) -> str:
    """The source that the caret marks (of a range over several lines: the first)."""
    line = linecache.getline(loc.file, loc.line)
    end = loc.end_col if loc.end_line in (None, loc.line) else None
    return line[loc.col : end].strip()


@td.function
def operands(a_shape, b_shape, a_dtype=td.bfloat16, b_dtype=td.bfloat16):
    """A stage that holds one A tile and one B tile of these shapes."""
    payload = td.StandardTilePayload(a_dtype, b_dtype, a_shape, b_shape, num_pipeline_stages=1)
    stage = td.InputTilePipeline(payload, 1).producer().acquire()
    a_tile, b_tile = stage.payload().get_tile(stage.stage())
    return stage, a_tile, b_tile


@td.function
def held(shape, dtype=td.bfloat16, swizzle=None):
    """A tile of a stage that is held, and the stage's barrier."""
    ring = td.InputTilePipeline(td.TileArray(dtype, shape, 1, swizzle=swizzle), 1)
    stage = ring.producer().acquire()
    return stage.tile(), stage.barrier()
