"""Plain Python that calls the language: a clear error, or the plain meaning where there is one."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from fractions import Fraction
from math import ceil
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tiledsl.errors import InvalidValue, TypeMismatch
from tiledsl.frontend import intrinsics, registry
from tiledsl.language import (
    barrier,
    grid,
    mma,
    payload,
    pipeline,
    ring,
    role,
    scheduler,
    shared,
    stage,
    tensor,
    tile,
    tma,
)

KERNEL_ONLY: dict[str, Callable[[], Any]] = {
    "td.mma": lambda: td.mma(None, None, None),
    "td.tma_load": lambda: td.tma_load(None, (0,), None, None),
    "td.tma_store": lambda: td.tma_store(None, None, (0,)),
    "td.zeros": lambda: td.zeros((64, 64), td.float32),
    "td.full": lambda: td.full((64, 64), 1.0),
    "td.role": lambda: td.role("load", warps=1),
    "td.block_id": td.block_id,
    "td.num_blocks": td.num_blocks,
    "td.print": lambda: td.print("x"),
    "td.TileScheduler": lambda: td.TileScheduler(1, 1),
    "td.InputTilePipeline": lambda: td.InputTilePipeline(None, 1),
    "td.StandardTilePayload": lambda: td.StandardTilePayload(
        td.bfloat16, td.bfloat16, (64, 64), (64, 64), num_pipeline_stages=1
    ),
    "td.BlockwiseFP8TilePayload": lambda: td.BlockwiseFP8TilePayload(
        td.float8_e4m3fn, td.float8_e4m3fn, (64, 64), (64, 64), (64,), num_pipeline_stages=1
    ),
    "td.TileArray": lambda: td.TileArray(td.bfloat16, (64, 64), 2),
    "td.ProducerConsumerPipeline": lambda: td.ProducerConsumerPipeline(2),
    "td.mbarrier": lambda: td.mbarrier(number=2),
    "td.named_barrier": td.named_barrier,
    "td.tma_load_im2col": lambda: td.tma_load_im2col(
        None, (0, 0, 0), (0,), None, None, lower=(0,), upper=(0,)
    ),
    "td.tma_prefetch": lambda: td.tma_prefetch(None, (0, 0), (64, 64)),
    "td.async_copy": lambda: td.async_copy(None, (0, 0), None, None),
    "td.bulk_load": lambda: td.bulk_load(None, (0,), None, None),
    "td.load": lambda: td.load(None, (0, 0), (64, 64)),
    "td.store": lambda: td.store(None, None, (0, 0)),
    "td.iota": lambda: td.iota((64,)),
    "td.where": lambda: td.where(True, 1, 2),
    "td.cluster_rank": td.cluster_rank,
    "td.cluster_size": td.cluster_size,
    "td.cluster_shape": lambda: td.cluster_shape(0),
    "td.cluster_id": lambda: td.cluster_id(0),
    "td.cluster_sync": td.cluster_sync,
    "td.shared": lambda: td.shared((64, 64), td.float32),
}


@pytest.mark.parametrize("name", KERNEL_ONLY)
def test_meaningless_outside_of_a_kernel(name: str) -> None:
    with pytest.raises(TypeError) as caught:
        KERNEL_ONLY[name]()
    assert isinstance(caught.value, TypeMismatch)
    assert str(caught.value) == (
        f"{name} is only meaningful inside of a @td.kernel, but plain Python called it\n"
        "hint: call it in a function decorated with @td.kernel, or in a @td.function that such a"
        " kernel calls"
    )


def _members() -> list[Any]:
    classes = [
        tensor.Tensor, tile.Tile, tile.SharedTile, payload.StandardTilePayload,
        payload.BlockwiseFP8TilePayload, payload.TileArray,
        pipeline.InputTilePipeline, pipeline.InputProducer, pipeline.InputConsumer,
        stage.Stage, stage.TileStage, stage.InputProducerStage, stage.ProducerStage,
        ring.ProducerConsumerPipeline, ring.RingProducer, ring.RingConsumer, barrier.Barrier,
        barrier.Barriers, barrier.NamedBarrier, shared.SharedTiles, role.Role, role.Me, role.Turn,
        scheduler.TileScheduler,
    ]  # fmt: skip
    return [
        pytest.param(cls, name, id=f"{cls.__name__}.{name}")
        for cls in classes
        for name, member in vars(cls).items()
        if isinstance(member, property) or inspect.isfunction(member)
    ]


@pytest.mark.parametrize(("cls", "name"), _members())
def test_members_are_meaningless_too(cls: type, name: str) -> None:
    member = vars(cls)[name]
    function = member.fget if isinstance(member, property) else member
    parameters = inspect.signature(function).parameters.values()
    keywords = {p.name: None for p in parameters if p.kind is p.KEYWORD_ONLY}
    with pytest.raises(TypeMismatch):
        function(object.__new__(cls), *[None] * (len(parameters) - 1 - len(keywords)), **keywords)


def test_cdiv_of_plain_numbers() -> None:
    for _ in range(200):
        a, b = random.randint(-1000, 1000), random.choice([-1, 1]) * random.randint(1, 50)
        assert td.cdiv(a, b) == ceil(Fraction(a, b))
    assert td.cdiv(10**30 + 1, 10) == 10**29 + 1, "no rounding through floats"
    with pytest.raises(ZeroDivisionError):
        td.cdiv(1, 0)


def test_cdiv_refuses_floats() -> None:
    with pytest.raises(TypeMismatch) as caught:
        td.cdiv(1.5, 2)
    assert str(caught.value) == "td.cdiv: expected two integers, got 1.5 and 2"


def test_plain_meaning_of_the_other_functions() -> None:
    a, b = random.random(), random.random()
    assert (td.minimum(a, b), td.maximum(a, b)) == (min(a, b), max(a, b))
    n = random.randint(2, 20)
    assert list(td.static_range(n)) == list(range(n))
    assert list(td.static_range(1, n, 3)) == list(range(1, n, 3))


# ------------------------------------------------------------------------------ annotations


def test_constant_is_its_type_to_a_type_checker() -> None:
    hints = inspect.get_annotations(_annotated, eval_str=True)
    assert tensor.is_constant(hints["n"]) and tensor.constant_type(hints["n"]) is int
    assert tensor.is_constant(hints["any"]) and tensor.constant_type(hints["any"]) is None
    assert not tensor.is_constant(hints["x"]) and not tensor.is_constant(int)


def _annotated(x: td.Tensor, n: td.Constant[int], any: td.Constant) -> None: ...


def test_persistent() -> None:
    assert isinstance(td.persistent, grid.Persistent)
    assert repr(td.persistent) == "td.persistent"


# ------------------------------------------------------------------------------------- spec


def test_spec_takes_dtypes_of_every_library() -> None:
    rows, columns = random.randint(0, 999), random.randint(0, 999)
    for dtype in (td.bfloat16, "bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)):
        described = td.spec((rows, np.int64(columns)), dtype)
        assert described == tensor.Spec((rows, columns), td.bfloat16)
    assert td.spec(rows, np.float32) == tensor.Spec((rows,), td.float32)


@pytest.mark.parametrize(
    ("shape", "dtype", "text"),
    [
        pytest.param(
            (4, 2.5), td.int8,
            "td.spec: expected a shape of integers, got (4, 2.5)\n"
            "hint: write td.spec((rows, columns), dtype)", id="float",
        ),
        pytest.param(
            (4, -1), td.int8,
            "td.spec: expected one to 5 extents, none negative, got (4, -1)", id="negative",
        ),
        pytest.param(
            (), td.int8, "td.spec: expected one to 5 extents, none negative, got ()", id="none"
        ),
        pytest.param(
            (1,) * 6, td.int8,
            "td.spec: expected one to 5 extents, none negative, got (1, 1, 1, 1, 1, 1)", id="many",
        ),
        pytest.param(
            (4,), "complex64",
            "td.spec: no tiledsl dtype for 'complex64': expected one of bool_, int8, int16, int32,"
            " int64, uint8, uint16, uint32, uint64, float8_e4m3fn, float8_e5m2, float16, bfloat16,"
            " float32, float64", id="dtype",
        ),
    ],
)  # fmt: skip
def test_spec_refuses(shape: Any, dtype: Any, text: str) -> None:
    with pytest.raises((TypeMismatch, InvalidValue)) as caught:
        td.spec(shape, dtype)
    assert str(caught.value) == text


# ------------------------------------------------------------------- language and meaning


def test_every_function_of_the_language_has_a_meaning() -> None:
    """What a user can call in a kernel is implemented; what is public is documented."""
    assert intrinsics.__all__
    for name in set(td.__all__) - {"Constant", "persistent", "spec", "__version__"}:
        member = getattr(td, name)
        if isinstance(member, td.DType) or member is td.DType:
            continue
        if getattr(member, "__module__", "").startswith("tiledsl.language"):
            assert registry.function_of(member) is not None, name
        assert inspect.getdoc(member), name


def test_docstrings_have_an_example() -> None:
    for stub in (
        td.mma, td.tma_load, td.tma_store, td.zeros, td.full, td.role, td.print, td.cdiv,
        td.static_range, td.TileScheduler, td.InputTilePipeline, td.StandardTilePayload, td.spec,
        td.BlockwiseFP8TilePayload, td.ProducerConsumerPipeline, td.TileArray, td.mbarrier,
        td.named_barrier, td.payload, td.shared,
        td.Tensor, td.Tile,
    ):  # fmt: skip
        assert "Example::" in (stub.__doc__ or ""), stub
    assert mma.mma is td.mma and tma.tma_load is td.tma_load
