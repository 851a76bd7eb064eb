"""Misuse of tile arrays and payloads, each with its whole report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import tiledsl as td
from tests.language.traced import Refused, one_line, report

cases: list[Any] = []
refused = Refused(cases)

INT = td.int32


@td.payload
class Pairs:
    k: td.TileArray
    v: td.TileArray
    extra: object = None


@td.payload
class Nothing:
    number: int = 1


@dataclass
class Plain:
    k: object


@td.function
def pairs(k_stages, v_stages):
    return Pairs(
        td.TileArray(td.int8, (64, 64), k_stages), v=td.TileArray(td.int8, (8, 64), v_stages)
    )


@td.function
def one_stage():
    return td.InputTilePipeline(td.TileArray(td.int8, (64, 64), 2), 2).acquire_consumer()


# ------------------------------------------------------------------------------- tile arrays


@refused()
def array_of_other_swizzle():
    """InvalidValue: td.TileArray: swizzle: expected 128, 64, 32 or 0 bytes, got 96
    at: td.TileArray(td.bfloat16, (64, 64), 2, swizzle=96)
    hint: leave it out: the widest that fits is taken"""
    td.TileArray(td.bfloat16, (64, 64), 2, swizzle=96)


@refused()
def array_of_narrow_rows():
    """InvalidValue: td.TileArray: swizzle: a row of 24 float32 elements is 96 bytes, which a
    swizzle of 128 bytes does not divide
    at: td.TileArray(td.float32, (64, 24), 2, swizzle=128)
    hint: use a multiple of 32 for the last extent of (64, 24), or swizzle=32"""
    td.TileArray(td.float32, (64, 24), 2, swizzle=128)


@refused()
def array_of_few_rows():
    """InvalidValue: td.TileArray: swizzle: a tile of shape (1, 4, 64) has 4 rows, but a swizzle
    repeats every 8 rows
    at: td.TileArray(td.bfloat16, (1, 4, 64), 2, swizzle=64)
    hint: use a multiple of 8 rows, or swizzle=0"""
    td.TileArray(td.bfloat16, (1, 4, 64), 2, swizzle=64)


@refused()
def array_of_one_row():
    """InvalidValue: td.TileArray: swizzle: a tile of shape (128,) has 1 row, but a swizzle repeats
    every 8 rows
    at: td.TileArray(td.float32, (128,), 2, swizzle=32)
    hint: use a multiple of 8 rows, or swizzle=0"""
    td.TileArray(td.float32, (128,), 2, swizzle=32)


@refused()
def array_of_no_stages():
    """InvalidValue: td.TileArray: stages: expected at least 1, got 0
    at: td.TileArray(td.float32, (128,), 0)"""
    td.TileArray(td.float32, (128,), 0)


@refused()
def array_without_stages():
    """TypeMismatch: td.TileArray: missing a required argument: 'stages'
    at: td.TileArray(td.float32, (128,))
    hint: its signature is td.TileArray(dtype, shape, stages, *, swizzle=None)"""
    td.TileArray(td.float32, (128,))


@refused()
def array_without_storage():
    """TypeMismatch: this tile array has no storage: expected an array of the payload of a stage
    at: array[0]
    hint: make a pipeline of the payload, and take the tiles from stage.payload()"""
    array = td.TileArray(td.float32, (128,), 2)
    array[0]


@refused()
def array_of_another_attribute():
    """TypeMismatch: a tile array has no attribute 'shapes'
    at: td.TileArray(td.float32, (128,), 2).shapes
    hint: did you mean shape?"""
    td.TileArray(td.float32, (128,), 2).shapes


@refused()
def stages_that_do_not_divide():
    """InvalidValue: td.InputTilePipeline: array 'v' has 6 tiles, which 4 group stages do not share
    evenly
    at: td.InputTilePipeline(pairs(8, 6), num_group_stages=4)
    hint: write stages=4 or 8 for it: a multiple of num_group_stages"""
    td.InputTilePipeline(pairs(8, 6), num_group_stages=4)


@refused()
def fewer_tiles_than_stages():
    """InvalidValue: td.InputTilePipeline: array 'tile' has 2 tiles, which 4 group stages do not
    share evenly
    at: td.InputTilePipeline(td.TileArray(td.int8, (64, 64), 2), num_group_stages=4)
    hint: write stages=4 for it: a multiple of num_group_stages"""
    td.InputTilePipeline(td.TileArray(td.int8, (64, 64), 2), num_group_stages=4)


@refused()
def group_that_no_array_has():
    """InvalidValue: td.InputTilePipeline: k_group_size: expected 2, the most tiles that an array
    has in each of 4 group stages, got 3
    at: td.InputTilePipeline(pairs(4, 8), num_group_stages=4, k_group_size=3)
    hint: leave it out: it follows from the stages of the arrays"""
    td.InputTilePipeline(pairs(4, 8), num_group_stages=4, k_group_size=3)


@refused(n=INT)
def slice_of_an_array(n):
    """TypeMismatch: tile array 'tile': expected one tile, by its stage and its number k in there
    at: stage.payload()[stage, :n]
    hint: write array[stage, k], or array[stage] for the first tile"""
    stage = one_stage()
    stage.payload()[stage, :n]


@refused()
def three_indices():
    """TypeMismatch: tile array 'tile': expected one tile, by its stage and its number k in there
    at: stage.payload()[stage, 0, 0]
    hint: write array[stage, k], or array[stage] for the first tile"""
    stage = one_stage()
    stage.payload()[stage, 0, 0]


@refused()
def tile_of_no_stage():
    """InvalidValue: tile array 'tile': stage: expected a number from 0 to 1, got 2
    at: one_stage().payload()[2]
    hint: write stage.stage()"""
    one_stage().payload()[2]


@refused()
def tile_of_a_negative_stage():
    """InvalidValue: tile array 'tile': stage: expected a number from 0 to 1, got -1
    at: one_stage().payload()[-1]
    hint: write stage.stage()"""
    one_stage().payload()[-1]


@refused()
def tile_of_an_array_beyond_its_stage():
    """InvalidValue: tile array 'k': k: expected a number from 0 to 0, got 1
    at: stage.payload().k[stage, 1]
    hint: k counts the tiles of a stage: array 'k' has 1"""
    pipeline = td.InputTilePipeline(pairs(4, 8), num_group_stages=4)
    stage = pipeline.acquire_consumer()
    stage.payload().v[stage, 1]
    stage.payload().k[stage, 1]


@refused()
def one_tile_of_two_arrays():
    """TypeMismatch: tile: expected a payload of one array, got one of 2: k, v
    at: pipeline.acquire_consumer().tile()
    hint: write stage.tiles(k) for a tile of each, or stage.payload()"""
    pipeline = td.InputTilePipeline(pairs(4, 8), num_group_stages=4)
    pipeline.acquire_consumer().tile()


@refused()
def stage_of_another_pipeline():
    """InvalidValue: tile array 'tile': stage: expected a stage of pipeline 'values', got one of
    'keys'
    at: values.acquire_consumer().payload()[stage]
    hint: each pipeline has slots of its own: use the payload of that stage"""
    keys = td.InputTilePipeline(td.TileArray(td.int8, (64, 64), 2), 2)
    values = td.InputTilePipeline(td.TileArray(td.int8, (64, 64), 2), 2)
    stage = keys.acquire_consumer()
    values.acquire_consumer().payload()[stage]


# ------------------------------------------------------------------------ the user's payloads


@refused()
def payload_that_is_a_class():
    """TypeMismatch: td.InputTilePipeline: payload: expected a tile payload, got the class Pairs
    at: td.InputTilePipeline(Pairs, 4)
    hint: make one: Pairs(...)"""
    td.InputTilePipeline(Pairs, 4)


@refused()
def payload_of_a_missing_array():
    """TypeMismatch: Pairs: missing a required argument: 'v'
    at: Pairs(k=td.TileArray(td.int8, (64, 64), 2))"""
    Pairs(k=td.TileArray(td.int8, (64, 64), 2))


@refused()
def payload_of_a_dtype():
    """TypeMismatch: td.InputTilePipeline: payload: field 'v' of Pairs: expected a tile array, got
    the dtype int8
    at: td.InputTilePipeline(payload, 2)
    hint: write td.TileArray(dtype, shape, stages=...)"""
    payload = Pairs(td.TileArray(td.int8, (64, 64), 2), td.int8)
    td.InputTilePipeline(payload, 2)


@refused()
def payload_of_listed_arrays():
    """TypeMismatch: td.InputTilePipeline: payload: field 'extra' of Pairs: tile arrays inside of a
    list of length 1
    at: td.InputTilePipeline(Pairs(array, array, [array]), 2)
    hint: give each array a field of its own"""
    array = td.TileArray(td.int8, (64, 64), 2)
    td.InputTilePipeline(Pairs(array, array, [array]), 2)


@refused(n=INT)
def payload_of_a_run_time_number(n):
    """TypeMismatch: td.InputTilePipeline: payload: field 'extra' of Pairs: expected a value known
    at compile time, got a run-time int32
    at: td.InputTilePipeline(Pairs(array, array, n), 2)
    hint: a payload describes storage: hand run-time values to its methods instead"""
    array = td.TileArray(td.int8, (64, 64), 2)
    td.InputTilePipeline(Pairs(array, array, n), 2)


@refused()
def payload_of_no_array():
    """TypeMismatch: td.InputTilePipeline: payload: Nothing has no tile array
    at: td.InputTilePipeline(Nothing(), 2)
    hint: annotate a field as td.TileArray, and make it with td.TileArray(...)"""
    td.InputTilePipeline(Nothing(), 2)


@refused()
def payload_of_a_plain_class():
    """TypeMismatch: td.InputTilePipeline: payload: expected a tile payload, got a Plain object
    at: td.InputTilePipeline(Plain(td.TileArray(td.int8, (64, 64), 2)), 2)
    hint: decorate the class Plain with @td.payload"""
    td.InputTilePipeline(Plain(td.TileArray(td.int8, (64, 64), 2)), 2)


@refused()
def payload_of_a_tuple():
    """TypeMismatch: td.InputTilePipeline: payload: expected a tile payload, got a tuple of length
    2
    at: td.InputTilePipeline((array, array), 2)
    hint: give the arrays names: the fields of a class decorated with @td.payload"""
    array = td.TileArray(td.int8, (64, 64), 2)
    td.InputTilePipeline((array, array), 2)


@refused()
def payload_of_a_stage():
    """TypeMismatch: td.InputTilePipeline: payload: expected a tile payload, got a tile array
    at: td.InputTilePipeline(one_stage().payload(), 2)
    hint: a pipeline is made of a payload of its own: td.StandardTilePayload(...)"""
    td.InputTilePipeline(one_stage().payload(), 2)


@refused()
def unknown_array_of_a_payload():
    """TypeMismatch: a Pairs object has no attribute 'queries'
    at: stage.payload().queries
    hint: its fields are: k, v, extra"""
    stage = td.InputTilePipeline(pairs(4, 4), 4).acquire_consumer()
    stage.payload().queries


@refused()
def payload_decorated_in_a_kernel():
    """SyntaxNotSupported: td.payload decorates a class: expected it outside of the kernel
    at: td.payload(Pairs)
    hint: write @td.payload in front of the class, and make an instance of it here"""
    td.payload(Pairs)


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")


@pytest.mark.parametrize("other", [3, "payload", None])
def test_payload_decorates_classes_only(other: Any) -> None:
    with pytest.raises(td.TypeMismatch) as caught:
        td.payload(other)
    assert str(caught.value) == (
        f"td.payload: expected a class, got {other!r}\n"
        "hint: write @td.payload in front of a class with fields: td.TileArray"
    )
