"""Tensor maps with element strides, and im2col maps: their rules, and what the driver gets."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.fake_cuda import FakeDriver
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.plan import Im2col, TensorMapSpec
from tiledsl.errors import LaunchError
from tiledsl.runtime.arrays import ArrayArg, contiguous_strides
from tiledsl.runtime.tensormap import encode
from tiledsl.runtime.tensormap_rules import check_tensormap

BASE = FakeDriver.address(0)
BF16 = dtypes.bfloat16
TMA = "(rule of the tensor memory accelerator)"


def array(shape: tuple[int, ...], **more: Any) -> ArrayArg:
    given = {"pointer": BASE, "dtype": BF16, "device": 0, "strides": contiguous_strides(shape)}
    return ArrayArg(shape=shape, **given | more)


def strided(box: tuple[int, ...], steps: tuple[int, ...], swizzle: int = 128) -> TensorMapSpec:
    return TensorMapSpec(0, BF16, box, swizzle, "load", element_strides=steps)


def im2col(
    box: tuple[int, ...], lower: tuple[int, ...], upper: tuple[int, ...], swizzle: int = 128,
    **more: Any,
) -> TensorMapSpec:  # fmt: skip
    return TensorMapSpec(0, BF16, box, swizzle, "load", im2col=Im2col(lower, upper), **more)


# --- element strides


def test_the_driver_gets_a_box_that_spans_the_elements(cuda: FakeDriver) -> None:
    wanted = strided((4, 32, 64), (1, 3, 1))
    given_array = array((9, 100, 64))
    check_tensormap("a", given_array, wanted)
    assert encode(given_array, wanted) == cuda.map_bytes(0)
    (found,) = cuda.maps
    assert found["steps"] == [1, 3, 1]
    # The driver loads ceil(box / step) elements.
    assert found["box"] == [64, 94, 4]
    assert [-(-b // s) for b, s in zip(found["box"], found["steps"], strict=True)] == [64, 32, 4]


def test_element_strides_are_part_of_the_cache_key(cuda: FakeDriver) -> None:
    given_array = array((100, 64))
    for steps in [(), (1, 1), (2, 1), (3, 1)]:
        encode(given_array, strided((16, 64), steps))
        encode(given_array, strided((16, 64), steps))
    assert [found["steps"] for found in cuda.maps] == [[1, 1], [1, 1], [1, 2], [1, 3]]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            strided((16, 64), (9, 1)),
            f"expected element strides from 1 to 8 {TMA}, got 9 in dimension 0\n"
            "hint: pass a view that skips elements, such as a[::9]",
        ),
        (
            strided((16, 64), (0, 1)),
            f"expected element strides from 1 to 8 {TMA}, got 0 in dimension 0",
        ),
        (
            strided((16, 64), (1, 2)),
            f"expected an element stride of 1 in the innermost dimension {TMA}, got 2\n"
            "hint: load the elements in between as well, and skip them when you read the tile",
        ),
        (
            strided((16, 64), (2,)),
            "expected 2 element strides, one a dimension, got (2,)",
        ),
        (
            strided((129, 64), (2, 1)),
            f"expected a box that spans at most 256 elements {TMA}, got 129 elements that are 2"
            " apart, which span 257, in dimension 0\n"
            "hint: make the tile smaller there, or load it in parts",
        ),
    ],
)
def test_rules_of_element_strides(wanted: TensorMapSpec, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        check_tensormap("a", array((512, 64)), wanted)
    box = "x".join(map(str, wanted.box))
    assert str(caught.value) == f"argument a: the load of {box} bfloat16 elements: {message}"


def test_the_widest_strided_box_is_accepted(cuda: FakeDriver) -> None:
    for step in range(1, 9):
        count = 255 // step + 1
        wanted = strided((count, 64), (step, 1))
        check_tensormap("a", array((512, 64)), wanted)
        encode(array((512, 64)), wanted)
        with pytest.raises(LaunchError):
            check_tensormap("a", array((512, 64)), strided((count + 1, 64), (step, 1)))


# --- im2col


def test_what_the_driver_gets_for_im2col(cuda: FakeDriver) -> None:
    """Of a (N, D, H, W, C) tensor, all innermost first: C, W, H, D, N."""
    given_array = array((2, 3, 5, 7, 64))
    wanted = im2col((200, 32), (-1, -2, 0), (1, 0, -3), 64, element_strides=(1, 1, 2, 3, 1))
    check_tensormap("a", given_array, wanted)
    assert encode(given_array, wanted) == cuda.map_bytes(0)
    assert cuda.maps == [
        {
            "dtype": "BFLOAT16",
            "pointer": BASE,
            "dims": [64, 7, 5, 3, 2],
            "strides": [128, 896, 4480, 13440],
            "steps": [1, 3, 2, 1, 1],
            "swizzle": "64B",
            "lower": [0, -2, -1],
            "upper": [-3, 0, 1],
            "channels": 32,
            "pixels": 200,
        }
    ]


@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize(("swizzle", "channels"), [(0, 256), (32, 16), (64, 32), (128, 64)])
def test_every_rank_and_swizzle(cuda: FakeDriver, rank: int, swizzle: int, channels: int) -> None:
    given_array = array((2, *(6,) * (rank - 2), 256))
    pixels = random.randrange(1, 1025)
    wanted = im2col((pixels, channels), (0,) * (rank - 2), (0,) * (rank - 2), swizzle)
    check_tensormap("a", given_array, wanted)
    encode(given_array, wanted)
    assert cuda.maps[0]["steps"] == [1] * rank
    assert cuda.maps[0]["swizzle"] == ("NONE" if swizzle == 0 else f"{swizzle}B")
    assert (cuda.maps[0]["pixels"], cuda.maps[0]["channels"]) == (pixels, channels)


def test_im2col_maps_are_cached_by_their_corners(cuda: FakeDriver) -> None:
    given_array = array((2, 8, 8, 64))
    wanted = im2col((64, 64), (-1, -1), (-1, -1))
    assert wanted.im2col is not None
    same = [wanted, replace(wanted, param=3), replace(wanted, im2col=Im2col((-1, -1), (-1, -1)))]
    assert len({encode(given_array, each) for each in same}) == len(cuda.maps) == 1
    others = [
        replace(wanted, im2col=Im2col((-1, 0), (-1, -1))),
        replace(wanted, im2col=Im2col((-1, -1), (-1, -2))),
        replace(wanted, box=(32, 64)),
        replace(wanted, element_strides=(1, 2, 2, 1)),
        # A box of as many numbers that is a tiled one.
        TensorMapSpec(0, BF16, (1, 1, 64, 64), 128, "load"),
    ]
    for count, other in enumerate(others, start=2):
        encode(given_array, other)
        assert len(cuda.maps) == count


IMAGE = array((2, 8, 8, 64))
REFUSED: list[tuple[ArrayArg, TensorMapSpec, str]] = [
    (
        array((64, 64)),
        im2col((64, 64), (0, 0), (0, 0)),
        f"argument a: expected rank 3 to 5 for an im2col load {TMA}, got rank 2\n"
        "hint: the dimensions of a are (image, 1 to 3 spatial ones, channel)",
    ),
    (
        IMAGE,
        im2col((64, 64), (0,), (0,)),
        "argument a: expected rank 3, for which the kernel was compiled, got rank 4",
    ),
    (
        IMAGE,
        im2col((1025, 64), (0, 0), (0, 0)),
        "argument a: the im2col load of 1025x64 bfloat16 elements: expected 1 to 1024 pixels"
        f" {TMA}, got 1025\nhint: change the shape of the tile",
    ),
    (
        IMAGE,
        im2col((0, 64), (0, 0), (0, 0)),
        "argument a: the im2col load of 0x64 bfloat16 elements: expected 1 to 1024 pixels"
        f" {TMA}, got 0\nhint: change the shape of the tile",
    ),
    (
        IMAGE,
        im2col((64, 264), (0, 0), (0, 0), 0),
        "argument a: the im2col load of 64x264 bfloat16 elements: expected 1 to 256 channels"
        f" {TMA}, got 264\nhint: change the shape of the tile",
    ),
    (
        IMAGE,
        im2col((64, 12), (0, 0), (0, 0), 0),
        "argument a: the im2col load of 64x12 bfloat16 elements: expected a box whose rows are a"
        f" multiple of 16 bytes {TMA}, got 24 bytes\nhint: change the shape of the tile",
    ),
    (
        IMAGE,
        im2col((64, 64), (0, 0), (0, 0), 64),
        "argument a: the im2col load of 64x64 bfloat16 elements: expected box rows of at most the"
        f" swizzle span, 64 bytes {TMA}, got 128 bytes\nhint: change the shape of the tile",
    ),
    (
        IMAGE,
        im2col((64, 64), (0, -129), (0, 0)),
        "argument a: the im2col load of 64x64 bfloat16 elements: expected lower bounds of the"
        f" window corners from -128 to 127 in a tensor of rank 4 {TMA}, got -129 in dimension 2\n"
        "hint: pad the tensor in memory, or use a smaller filter or dilation",
    ),
    (
        array((2, 8, 8, 8, 64)),
        im2col((64, 64), (0, 0, 0), (16, 0, 0)),
        "argument a: the im2col load of 64x64 bfloat16 elements: expected upper bounds of the"
        f" window corners from -16 to 15 in a tensor of rank 5 {TMA}, got 16 in dimension 1\n"
        "hint: pad the tensor in memory, or use a smaller filter or dilation",
    ),
    (
        IMAGE,
        im2col((64, 64), (0, 0), (0, -8)),
        "argument a: the im2col load of 64x64 bfloat16 elements: expected at least one window"
        f" corner in dimension 2 {TMA}, got corners from 0 to -1 in an extent of 8\n"
        "hint: the filter is larger than the padded tensor: there is nothing to compute",
    ),
    (
        IMAGE,
        im2col((64, 64), (0, 0), (0, 0), element_strides=(1, 9, 1, 1)),
        "argument a: the im2col load of 64x64 bfloat16 elements: expected element strides from 1"
        f" to 8 {TMA}, got 9 in dimension 1\n"
        "hint: pass a view that skips elements, such as a[::9]",
    ),
    (
        array((2, 8, 8, 63)),
        im2col((64, 64), (0, 0), (0, 0)),
        "argument a: expected a stride that is a multiple of 16 bytes in dimension 2"
        f" {TMA}, got 126 bytes (63 bfloat16 elements)\n"
        "hint: pad the rows of a: allocate 64 columns and slice [..., :63], which keeps the rows"
        " 128 bytes apart",
    ),
]


@pytest.mark.parametrize(("given_array", "wanted", "message"), REFUSED)
def test_every_rule_of_im2col_has_its_message(
    given_array: ArrayArg, wanted: TensorMapSpec, message: str
) -> None:
    with pytest.raises(LaunchError) as caught:
        check_tensormap("a", given_array, wanted)
    assert str(caught.value) == message


@pytest.mark.parametrize("shape", [(0, 8, 8, 64), (2, 0, 8, 64), (2, 8, 8, 0)])
def test_an_image_without_elements_is_zero(cuda: FakeDriver, shape: tuple[int, ...]) -> None:
    given_array = array(shape, pointer=0)
    wanted = im2col((64, 64), (0, 0), (-2, -2))
    check_tensormap("a", given_array, wanted)
    encode(given_array, wanted)
    assert cuda.maps[0]["dims"] == [1, 1, 1, 1]
    assert cuda.maps[0]["lower"] == cuda.maps[0]["upper"] == [0, 0]


def test_a_refusal_of_the_driver_is_reported(cuda: FakeDriver) -> None:
    cuda.fail["cuTensorMapEncodeIm2col"] = cuda.CUresult.CUDA_ERROR_INVALID_VALUE
    wanted = im2col((128, 64), (-1, 0), (-1, -2), element_strides=(1, 2, 1, 1))
    with pytest.raises(LaunchError) as caught:
        encode(IMAGE, wanted)
    assert caught.value.message == (
        "encoding a tensor map (load, extents (64, 8, 8, 2), strides (128, 1024, 8192) bytes,"
        " corners (0, -1) to (-2, -1), 64 channels, 128 pixels, element strides (1, 1, 2, 1), all"
        " innermost first, swizzle 128, bfloat16) failed: CUDA_ERROR_INVALID_VALUE (text of 1)"
    )


@given(st.data())
def test_what_is_accepted_is_legal(data: st.DataObject) -> None:
    """For any bounds: refused, or such as the driver documents them."""
    rank = data.draw(st.integers(3, 5))
    spatial = rank - 2
    limit = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}[rank]
    bounds = st.tuples(*(st.integers(-limit - 2, limit + 1) for _ in range(spatial)))
    lower, upper = data.draw(bounds), data.draw(bounds)
    shape = (2, *(data.draw(st.integers(1, 40)) for _ in range(spatial)), 64)
    legal = all(-limit <= bound < limit for bound in (*lower, *upper)) and all(
        low <= extent - 1 + up for low, up, extent in zip(lower, upper, shape[1:-1], strict=True)
    )
    wanted = im2col((64, 64), lower, upper)
    if legal:
        check_tensormap("a", array(shape), wanted)
    else:
        with pytest.raises(LaunchError, match="window corner"):
            check_tensormap("a", array(shape), wanted)
