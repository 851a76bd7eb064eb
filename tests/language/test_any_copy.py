"""Whatever copies, tiles and functions are given: an error of the language, or IR that verifies.

Arguments are likely ones more often than not, so that the checks behind the first are reached.
"""

from __future__ import annotations

import inspect
import random
from typing import Any

import numpy as np
import pytest

import tiledsl as td
from tests.frontend.programs import define
from tests.language.traced import trace
from tiledsl.errors import InternalError, TileError
from tiledsl.frontend.build import TensorSpec

ROUNDS = 30
FUNCTIONS = (
    td.tma_load, td.tma_load_im2col, td.tma_prefetch, td.tma_store, td.async_copy, td.bulk_load,
    td.load, td.store, td.iota, td.where, td.exp, td.rsqrt, td.sigmoid, td.abs, td.maximum,
    td.cluster_id, td.cluster_shape, td.cluster_sync, td.full, td.TileScheduler,
)  # fmt: skip
ANYTHING = (
    "a", "b3", "b4", "b5", "line", "f32", "None", "0", "1", "-1", "2", "7", "64", "2.5",
    "float('nan')", "10**30", "True", "'add'", "'evict_last'", "''", "(0, 0)", "(0,)", "()",
    "(0, 0, 0)", "(64, 64)", "(8, 8, 8)", "[0, 0]", "(n, 0)", "(n, f)", "n", "f", "flag", "tile",
    "shared", "shared.T", "rank1", "row", "barrier", "stage", "ring", "tiles", "td", "td.float32",
    "td.bool_", "td.float8_e5m2", "reg", "half", "whole", "mask", "vec", "vec[None, :]",
    "vec[:, None]", "np.zeros(3)", "np.int64(3)", "slice(None)", "{}", "...", "(None, None)",
    "(-40000,)", "(1.5, 2)", "('x', 1)", "((0, 0), 0)", "me",
)  # fmt: skip
LIKELY = {
    "tensor": ("a", "b3", "b4", "b5", "line", "f32"),
    "coords": ("(0, 0)", "(0,)", "(n, 0, 0)", "(n, n)", "(0, 0, 0, 0)", "(0, 0, 0, 0, 0)"),
    "tile": ("tile", "shared", "rank1", "reg", "half"),
    "barrier": ("barrier", "stage.barrier()"),
    "shape": ("(64, 64)", "(64,)", "(128, 8)", "(8, 64)"),
    "value": ("reg", "vec", "whole", "half"),
    "cache": ("None", "'evict_first'"),
    "reduce": ("None", "'add'", "'min'", "'xor'"),
    "multicast": ("None", "0", "1", "(0, 1)"),
    "partitioned": ("True", "False"),
    "element_strides": ("None", "(2, 1)", "(1, 2, 1)"),
    "offsets": ("(0,)", "(n, 0)", "(0, 0, 31)"),
    "lower": ("(0,)", "(-1, 0)", "(0, 0, -16)"),
    "upper": ("(0,)", "(0, 0)", "(0, 0, 0)"),
    "strides": ("(1,)", "(1, 2)", "None"),
    "axis": ("0", "1"),
    "x": ("reg", "f", "vec", "vec[None, :]", "half"),
    "a": ("reg", "f", "vec[None, :]"),
    "b": ("reg", "f", "1.0"),
    "condition": ("mask", "flag"),
}
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "<<", "<", "==", "and", "in")


def argument(name: str) -> str:
    likely = random.random() < 0.75
    return random.choice(LIKELY[name] if likely and name in LIKELY else ANYTHING)


def call(function: Any) -> str:
    target = function.__init__ if inspect.isclass(function) else function
    given: list[str] = []
    for p in inspect.signature(target).parameters.values():
        if p.name == "self" or (p.default is not p.empty and random.random() < 0.5):
            continue
        given.append(f"{p.name}={argument(p.name)}")
    return f"td.{function.__name__}({', '.join(given)})"


def check(text: str) -> None:
    kernel = define(
        "def kernel(a, b3, b4, b5, line, f32, n, f, flag):\n"
        "    ring = td.InputTilePipeline(td.TileArray(a.dtype, (64, 64), 2), 2)\n"
        "    row, barrier = td.mbarrier(number=2), td.mbarrier()\n"
        "    shared = td.shared((64, 64), a.dtype)\n"
        "    rank1 = td.shared((64,), a.dtype)\n"
        "    tiles = td.TileScheduler(4, 4)\n"
        "    with td.role('one', warps=4) as me:\n"
        "        reg, half = td.zeros((64, 64)), td.zeros((64, 64), td.bfloat16)\n"
        "        whole, mask = td.zeros((64, 64), td.int32), reg > 0\n"
        "        vec = td.load(line, (0,), (64,))\n"
        "        stage = ring.producer().acquire()\n"
        "        tile = stage.tile()\n"
        f"        found = {text}\n",
        td=td,
        np=np,
    )
    two, three, four, five = (TensorSpec(td.bfloat16, rank) for rank in (2, 3, 4, 5))
    found: TileError | None = None
    try:
        trace(
            kernel,
            cluster=random.choice([None, (2, 1), (2, 2), (3,)]),
            a=two, b3=three, b4=four, b5=five,
            line=TensorSpec(td.float32, 1), f32=TensorSpec(td.float32, 2),
            n=td.int32, f=td.float32, flag=td.bool_,
        )  # fmt: skip
    except InternalError:
        raise
    except TileError as error:
        found = error
    assert found is None or (found.message and found.loc is not None), text


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions(function: Any) -> None:
    for _ in range(ROUNDS):
        check(call(function))


def test_operators() -> None:
    for _ in range(2 * ROUNDS):
        left, right = (random.choice([*ANYTHING, *LIKELY["x"], *LIKELY["value"]]) for _ in "ab")
        check(f"({left}) {random.choice(OPERATORS)} ({right})")


def test_members() -> None:
    owners = ("reg", "vec", "vec[None, :]", "shared", "tile", "tiles", "whole")
    for _ in range(2 * ROUNDS):
        given = random.choice([*ANYTHING, "reg", "half", "me"])
        member = random.choice([
            f"[{given}]", ".load()", f".store({given})", f".to({given})", ".T", ".shape", ".dtype",
            f".deal({given})", ".nbytes", ".num_tiles",
        ])  # fmt: skip
        check(random.choice(owners) + member)
