"""Tensor maps: every rule of the hardware, and what goes to the driver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.fake_cuda import FakeDriver
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.layouts import pick_swizzle, tma_box
from tiledsl.codegen.ir.plan import TensorMapSpec
from tiledsl.errors import LaunchError
from tiledsl.runtime.arrays import ArrayArg, contiguous_strides
from tiledsl.runtime.tensormap import encode, geometry
from tiledsl.runtime.tensormap_rules import check_tensormap

BASE = FakeDriver.address(0)
BF16 = dtypes.bfloat16


def array(shape: tuple[int, ...], strides: tuple[int, ...] | None = None, **more: Any) -> ArrayArg:
    strides = contiguous_strides(shape) if strides is None else strides
    given = {"pointer": BASE, "dtype": BF16, "device": 0} | more
    return ArrayArg(shape=shape, strides=strides, **given)


def spec(box: tuple[int, ...], swizzle: int = 128, use: str = "load", **more: Any) -> TensorMapSpec:
    return TensorMapSpec(
        **{"param": 0, "dtype": BF16, "box": box, "swizzle": swizzle, "use": use} | more
    )


TMA = "(rule of the tensor memory accelerator)"

REFUSED = [
    (
        array((64, 64), pointer=BASE + 2),
        spec((64, 64)),
        f"argument a: expected an address that is a multiple of 16 bytes {TMA}, got {BASE + 2:#x},"
        " which is 2 bytes past one\n"
        "hint: a slice can start anywhere: pass a copy (a.clone() or a.copy())",
    ),
    (
        array((64, 1001)),
        spec((64, 64)),
        "argument a: expected a stride that is a multiple of 16 bytes in dimension 0"
        f" {TMA}, got 2002 bytes (1001 bfloat16 elements)\n"
        "hint: pad the rows of a: allocate 1008 columns and slice [..., :1001], which keeps the"
        " rows 2016 bytes apart",
    ),
    (
        array((4, 64, 64), (64 * 65, 65, 1)),
        spec((1, 64, 64)),
        "argument a: expected a stride that is a multiple of 16 bytes in dimension 1"
        f" {TMA}, got 130 bytes (65 bfloat16 elements)\n"
        "hint: pass a contiguous copy of a, whose rows are 64 elements",
    ),
    (
        array((64, 64), (1, 64)),
        spec((64, 64)),
        f"argument a: expected an innermost stride of 1 element {TMA}, got 64, strides (1, 64)\n"
        "hint: a looks transposed (dimension 0 is the contiguous one): pass it the other way round"
        " and index it so in the kernel, or pass a contiguous copy of a",
    ),
    (
        array((64, 64), (128, 2)),
        spec((64, 64)),
        f"argument a: expected an innermost stride of 1 element {TMA}, got 2, strides (128, 2)\n"
        "hint: pass a contiguous copy of a",
    ),
    (
        array((64, 64), (-64, 1)),
        spec((64, 64)),
        f"argument a: expected positive strides {TMA}, got a negative stride (-64 elements) in"
        " dimension 0\n"
        "hint: a broadcast or flipped view must be copied: a.contiguous() or a.copy()",
    ),
    (
        array((64, 64), (0, 1)),
        spec((64, 64)),
        f"argument a: expected positive strides {TMA}, got a zero stride (0 elements) in dimension"
        " 0\nhint: a broadcast or flipped view must be copied: a.contiguous() or a.copy()",
    ),
    (
        array((2, 64), (1 << 39, 1)),
        spec((64, 64)),
        f"argument a: expected strides below 2**40 bytes {TMA}, got {1 << 40} bytes in dimension 0",
    ),
    (
        array((2, (1 << 32) + 8), dtype=dtypes.int8),
        spec((1, 16), 0, dtype=dtypes.int8),
        f"argument a: expected extents up to 4294967296 {TMA}, got 4294967304 in dimension 1",
    ),
    (
        array((64, 64), dtype=dtypes.float16),
        spec((64, 64)),
        "argument a: expected dtype bfloat16, for which the kernel was compiled, got float16",
    ),
    (
        array((64, 64, 64)),
        spec((64, 64)),
        "argument a: expected rank 2, for which the kernel was compiled, got rank 3",
    ),
    (
        array((1,) * 6),
        spec((1,) * 6),
        f"argument a: expected rank 1 to 5 {TMA}, got rank 6",
    ),
    (
        array((512, 64)),
        spec((257, 64)),
        "argument a: the load of 257x64 bfloat16 elements: expected box extents from 1 to 256"
        f" {TMA}, got 257 in dimension 0\nhint: change the shape of the tile",
    ),
    (
        array((512, 64)),
        spec((64, 60)),
        "argument a: the load of 64x60 bfloat16 elements: expected a box whose rows are a multiple"
        f" of 16 bytes {TMA}, got 120 bytes\nhint: change the shape of the tile",
    ),
    (
        array((512, 64)),
        spec((64, 64), 64),
        "argument a: the load of 64x64 bfloat16 elements: expected box rows of at most the swizzle"
        f" span, 64 bytes {TMA}, got 128 bytes\nhint: change the shape of the tile",
    ),
    (
        array((512, 64)),
        spec((64, 64), 96),
        "argument a: the load of 64x64 bfloat16 elements: expected a swizzle of 0, 32, 64 or 128,"
        " got 96",
    ),
    (
        array((64, 64), readonly=True, owner=np.zeros(1)),
        spec((64, 64), use="store"),
        "argument a: expected a writable array, for the kernel stores to it, got a read-only"
        " ndarray\nhint: pass a writable copy of a",
    ),
    (
        array((512, 64)),
        spec((64, 32), 128),
        "argument a: the load of 64x32 bfloat16 elements: expected box rows of the swizzle span,"
        f" 128 bytes, got 64 bytes, which TMA would place 128 bytes apart {TMA}\n"
        "hint: change the shape of the tile",
    ),
    (
        array((64, 50), (64, 1)),
        spec((64, 64), use="store"),
        "argument a: expected rows of a multiple of 16 bytes, for the kernel stores to it by TMA,"
        " got 50 elements of bfloat16: a store would also change the 12 bytes behind each row"
        f" {TMA}\n"
        "hint: pass an array with 6 more columns, or store with td.store, which writes single"
        " elements",
    ),
]


@pytest.mark.parametrize(("given", "wanted", "message"), REFUSED)
def test_every_rule_has_its_message(given: ArrayArg, wanted: TensorMapSpec, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        check_tensormap("a", given, wanted)
    assert str(caught.value) == message


def test_checking_needs_no_driver(no_driver: list[int]) -> None:
    check_tensormap("a", array((100, 64)), spec((64, 64)))
    with pytest.raises(LaunchError):
        check_tensormap("a", array((100, 65)), spec((64, 64)))
    assert no_driver == []
    with pytest.raises(LaunchError, match="no usable NVIDIA GPU"):
        encode(array((100, 64)), spec((64, 64)))


def test_dimensions_of_one_element_may_have_any_stride(cuda: FakeDriver) -> None:
    for strides in [(7, 0, -3, 1), (-1, 5, 1, 99), (3, 3, 3, 3)]:
        given = array((1, 1, 1, 1), strides)
        check_tensormap("a", given, spec((1, 1, 64, 64)))
        encode(given, spec((1, 1, 64, 64)))
    last = array((64, 1), (8, 5))  # one column: the inner stride is never used
    check_tensormap("a", last, spec((64, 64)))
    encode(last, spec((64, 64)))
    assert cuda.maps[-1]["strides"] == [16]


def test_what_the_driver_gets(cuda: FakeDriver) -> None:
    given = array((3, 100, 72), (9000, 80, 1), pointer=BASE + 48)
    got = encode(given, spec((1, 64, 32), 64))
    assert got == cuda.map_bytes(0)
    assert cuda.maps == [
        {
            "dtype": "BFLOAT16",
            "pointer": BASE + 48,
            "dims": [72, 100, 3],
            "strides": [160, 18000],
            "steps": [1, 1, 1],
            "box": [32, 64, 1],
            "swizzle": "64B",
        }
    ]


def test_rank_one(cuda: FakeDriver) -> None:
    encode(array((1001,)), spec((64,)))
    assert cuda.maps[0]["dims"] == [1001]
    assert cuda.maps[0]["strides"] == []


@pytest.mark.parametrize("dtype", dtypes.ALL_DTYPES, ids=str)
def test_every_dtype_has_a_data_type_of_its_size(cuda: FakeDriver, dtype: dtypes.DType) -> None:
    encode(array((16, 16), dtype=dtype), spec((16, 16), 0, dtype=dtype))
    name = cuda.maps[0]["dtype"]
    bits = 16 if name == "BFLOAT16" else int(name.lstrip("UINTFLOA"))
    assert bits == dtype.bits
    assert name.startswith(("FLOAT", "BFLOAT")) == (dtype.is_float and dtype.bits > 8)


def test_maps_are_cached_by_all_that_goes_into_them(cuda: FakeDriver) -> None:
    given, wanted = array((64, 64)), spec((64, 64))
    first = encode(given, wanted)
    assert encode(replace(given, owner=object()), replace(wanted, param=3)) == first
    assert len(cuda.maps) == 1
    others = [
        (replace(given, pointer=BASE + 16), wanted),
        (replace(given, shape=(64, 32)), wanted),
        (replace(given, strides=(128, 1)), wanted),
        (replace(given, dtype=dtypes.float16), replace(wanted, dtype=dtypes.float16)),
        (given, replace(wanted, box=(32, 64))),
        (given, replace(wanted, box=(64, 32), swizzle=64)),
        (given, replace(wanted, swizzle=0)),
    ]
    for count, (one, other) in enumerate(others, start=2):
        encode(one, other)
        assert len(cuda.maps) == count


@pytest.mark.parametrize("shape", [(0, 64), (64, 0), (0, 0), (0,), (3, 0, 64)])
def test_arrays_without_elements_map_to_zeros(cuda: FakeDriver, shape: tuple[int, ...]) -> None:
    box = (1,) * (len(shape) - 1) + (64,)
    given = array(
        shape, pointer=0, strides=(3,) * len(shape)
    )  # no rule applies to what is not read
    for use in ("load", "store"):
        check_tensormap("a", given, spec(box, use=use))
        encode(given, spec(box, use=use))
    load, store = cuda.maps
    assert load["dims"] == store["dims"] == [1] * len(shape)
    assert load["pointer"] != store["pointer"]
    allocated = {entry[1]: entry[2] for entry in cuda.log if entry[0] == "alloc"}
    cleared = {entry[1]: entry[3] for entry in cuda.log if entry[0] == "memset" and entry[2] == 0}
    assert allocated == cleared and set(allocated) == {load["pointer"], store["pointer"]}
    encode(replace(given, shape=(*shape[:-1], 0)), spec(box))
    assert len([entry for entry in cuda.log if entry[0] == "alloc"]) == 2  # one each a device


def test_a_map_without_elements_is_made_on_the_arrays_device(cuda: FakeDriver) -> None:
    encode(array((0, 64), device=1), spec((1, 64)))
    assert [entry[3] for entry in cuda.log if entry[0] == "alloc"] == [101]
    assert cuda.context == 100


def test_a_refusal_of_the_driver_is_reported(cuda: FakeDriver) -> None:
    cuda.fail["cuTensorMapEncodeTiled"] = cuda.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(LaunchError) as caught:
        encode(array((100, 72)), spec((64, 64)))
    assert caught.value.message == (
        "encoding a tensor map (load, extents (72, 100), strides (144,) bytes, box (64, 64), all"
        " innermost first, swizzle 128, bfloat16) failed: CUDA_ERROR_INVALID_VALUE (text of 1)"
    )


@given(st.data())
def test_what_is_accepted_is_legal(data: st.DataObject) -> None:
    """For any strides: refused, or a geometry that the driver takes."""
    dtype = data.draw(st.sampled_from([dtypes.int8, BF16, dtypes.float32, dtypes.float64]))
    rank = data.draw(st.integers(1, 5))
    shape = tuple(data.draw(st.lists(st.integers(1, 300), min_size=rank, max_size=rank)))
    if data.draw(st.booleans()):
        strides = tuple(data.draw(st.lists(st.integers(-9, 9), min_size=rank, max_size=rank)))
    else:  # rows padded to what the rules want
        step = 16 // dtype.itemsize
        padded = (*shape[:-1], -(-shape[-1] // step) * step)
        strides = contiguous_strides(padded)
    given_array = array(shape, strides, dtype=dtype)
    tile = (*(1,) * (rank - 2), 64, 64)[-rank:]
    swizzle = pick_swizzle(64 * dtype.itemsize)
    wanted = spec(tma_box(tile, dtype.itemsize, swizzle), swizzle, dtype=dtype)
    stepped = [axis for axis in range(rank) if shape[axis] > 1]
    legal = all(
        strides[axis] == 1
        if axis == rank - 1
        else strides[axis] > 0 and strides[axis] * dtype.itemsize % 16 == 0
        for axis in stepped
    )
    if not legal:
        with pytest.raises(LaunchError, match=r"^argument a: expected .* stride"):
            check_tensormap("a", given_array, wanted)
        return
    check_tensormap("a", given_array, wanted)
    extents, steps = geometry(given_array)
    assert extents == shape[::-1]
    assert all(0 < step < 1 << 40 and step % 16 == 0 for step in steps)
    for axis, extent in enumerate(shape[:-1]):
        if extent > 1:
            assert steps[rank - 2 - axis] == strides[axis] * dtype.itemsize
