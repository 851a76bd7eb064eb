"""Whatever a method or function is given: an error of the language, or IR that verifies."""

from __future__ import annotations

import inspect
import itertools
import random
from typing import Any

import pytest

import tiledsl as td
from tests.frontend.programs import define
from tests.language.traced import trace
from tiledsl.errors import InternalError, TileError
from tiledsl.frontend.build import TensorSpec

ROUNDS = 20


@td.payload
class Two:
    k: td.TileArray
    v: td.TileArray

    def both(self, stage, k=0):
        return self.k[stage], self.v[stage, k]


@td.function
def everything(x, n, wide, f, flag):
    """Objects of every kind, by name."""
    pipeline = td.InputTilePipeline(
        Two(td.TileArray(x.dtype, (64, 64), 2), td.TileArray(x.dtype, (8, 64), 4)), 2
    )
    single = td.InputTilePipeline(td.TileArray(x.dtype, (64, 64), 3), 3)
    bare = td.ProducerConsumerPipeline(2)
    scaled = td.InputTilePipeline(
        td.BlockwiseFP8TilePayload(x.dtype, x.dtype, (64, 64), (64, 64), (64,),
                                   num_pipeline_stages=2), 2)  # fmt: skip
    made = {
        "pipeline": pipeline, "bare": bare, "producer": single.producer(),
        "consumer": bare.consumer(), "stage": pipeline.acquire_producer(),
        "single": single.acquire_consumer(), "ring stage": bare.produce(),
        "explicit": bare.consume_explicit(), "scaled": scaled.acquire_consumer().payload(),
        "array": single.acquire_consumer().payload(),
        "description": td.TileArray(x.dtype, (8,), 1),
        "row": td.mbarrier(number=2), "bar": td.mbarrier(),
        "rows": td.shared((8,), x.dtype, number=2),
        "tile": td.shared((64, 64), x.dtype), "named": td.named_barrier(),
        "payload": pipeline.acquire_consumer().payload(),
    }  # fmt: skip
    values = {
        "x": x, "n": n, "wide": wide, "f": f, "flag": flag, "0": 0, "1": 1, "-1": -1,
        "2**20": 1 << 20, "2**70": 1 << 70, "0.5": 0.5, "True": True, "False": False,
        "None": None, "text": "text",
        "dtype": td.float32, "tuple": (64, 64), "deep": ((1, 2), (n, None)), "list": [n],
        "acc": td.zeros((64, 64), td.float32), "class": Two, "slice": slice(1, None),
        "nan": float("nan"), "module": td, "zero": (0,), "dict": {"a": n},
    }  # fmt: skip
    return made, {**made, **values}


METHODS = {
    "pipeline": (
        "acquire_producer", "acquire_consumer", "try_acquire_producer", "wait_empty_if_needed",
        "wait_full_if_needed", "producer_stage", "full_mbar", "empty_mbar", "producer_mbar",
        "consumer_mbar", "drain_producer", "smem_bytes", "producer", "nothing",
    ),
    "bare": (
        "produce", "consume", "consume_explicit", "wait_empty", "wait_full", "try_wait_empty",
        "producer_step", "consumer_signal_and_step", "consumer_mbar", "wait_producer", "nothing",
    ),
    "producer": ("acquire", "acquire_stage", "try_acquire", "acquire_if_needed", "drain"),
    "consumer": ("acquire", "acquire_if_needed", "drain"),
    "stage": ("payload", "stage", "barrier", "tile", "tiles", "expect_bytes", "arrive", "release"),
    "single": ("tile", "tiles", "mbar", "release_without_signal", "expect_bytes"),
    "ring stage": ("payload", "index", "release", "expect_bytes"),
    "explicit": ("release", "arrive", "tile"),
    "scaled": ("get_tile", "get_a_tile", "get_b_tile", "get_a_scales_tile"),
    "array": ("__getitem__", "shape", "stages"),
    "description": ("__getitem__", "shape"),
    "row": ("__getitem__", "wait", "number"),
    "bar": ("arrive", "arrive_and_expect_bytes", "wait", "try_wait", "__getitem__"),
    "rows": ("__getitem__", "number", "load"),
    "tile": ("__getitem__", "load", "T"),
    "named": ("sync", "wait", "arrive", "__getitem__"),
    "payload": ("both", "k", "queries"),
}  # fmt: skip
FUNCTIONS = (
    td.TileArray, td.StandardTilePayload, td.BlockwiseFP8TilePayload, td.InputTilePipeline,
    td.ProducerConsumerPipeline, td.mbarrier, td.named_barrier, td.shared, td.role, td.payload, Two,
)  # fmt: skip


def only_errors_of_the_language(kernel: Any, what: str) -> None:
    parameters = {
        "x": TensorSpec(td.bfloat16, 2), "n": td.int32, "wide": td.int64, "f": td.float32,
        "flag": td.bool_,
    }  # fmt: skip
    found: TileError | None = None
    try:
        trace(kernel, **parameters)
    except InternalError:
        raise
    except TileError as error:
        found = error
    assert found is None or (found.message and found.loc is not None), what


def some(pool: list[str], most: int) -> list[str]:
    return [random.choice(pool) for _ in range(random.randint(0, most))]


POOL = [
    "x", "n", "wide", "f", "flag", "0", "1", "-1", "2**20", "2**70", "0.5", "True", "False", "None",
    "text", "dtype", "tuple", "deep", "list", "acc", "class", "slice", "nan", "module", "zero",
    "dict", *METHODS,
]  # fmt: skip


def kernel_of(statement: str) -> Any:
    return define(
        "def kernel(x, n, wide, f, flag):\n"
        "    made, values = everything(x, n, wide, f, flag)\n"
        "    with td.role('one', warps=1) as me:\n"
        f"        {statement}\n",
        td=td,
        everything=everything,
    )


def test_what_is_asked_exists() -> None:
    """Else the tests below would only ever see that."""

    def kernel(x, n, wide, f, flag):
        made, values = everything(x, n, wide, f, flag)
        assert len(made) == len(METHODS) and len(values) == len(POOL)

    parameters = {"n": td.int32, "wide": td.int64, "f": td.float32, "flag": td.bool_}
    trace(kernel, x=TensorSpec(td.bfloat16, 2), **parameters)


@pytest.mark.parametrize("owner", METHODS)
def test_methods(owner: str) -> None:
    for name, _ in itertools.product(METHODS[owner], range(max(1, ROUNDS // len(METHODS[owner])))):
        given = [f"values[{key!r}]" for key in some(POOL, 2)]
        text = f"made[{owner!r}]"
        if name == "__getitem__":
            text += f"[{', '.join(given) or '()'}]"
        elif given or random.random() < 0.5:
            text += f".{name}({', '.join(given)})"
        else:
            text += f".{name}"
        only_errors_of_the_language(kernel_of(f"found = {text}"), text)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions(function: Any) -> None:
    """At the top of a kernel, and in a role."""
    keywords = [name for name in inspect.signature(function).parameters if name != "self"]
    name = "values['class']" if function is Two else f"td.{function.__name__}"
    for number in range(ROUNDS):
        chosen = random.sample(keywords, random.randint(0, len(keywords)))
        given = [f"{key}=values[{random.choice(POOL)!r}]" for key in chosen]
        text = f"{name}({', '.join(given)})"
        if number % 2:
            kernel = kernel_of(text)
        else:
            kernel = define(
                "def kernel(x, n, wide, f, flag):\n"
                "    made, values = everything(x, n, wide, f, flag)\n"
                f"    found = {text}\n",
                td=td,
                everything=everything,
            )
        only_errors_of_the_language(kernel, text)


def test_me_and_turns() -> None:
    for _ in range(ROUNDS):
        given = ", ".join(f"values[{key!r}]" for key in some(POOL, 2))
        for text in (f"with me.turn({given}): n + 1", f"with me.turn({given}) as t: t", "me.turn"):
            only_errors_of_the_language(kernel_of(text), text)
