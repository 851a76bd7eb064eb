"""Tensor maps with element strides and im2col maps on a GPU, byte by byte."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.gpu import tma_ptx
from tests.gpu.launch_ptx import framework
from tests.gpu.test_tensormap import swizzled
from tests.gpu.tma_ptx import TmaLoad
from tiledsl.codegen.assemble import assemble
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.plan import Im2col, TensorMapSpec
from tiledsl.runtime.arguments import read_array
from tiledsl.runtime.tensormap import encode

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns about other packages' versions

RNG = np.random.default_rng()
Shape = tuple[int, ...]
Bits = np.ndarray[Any, Any]


@pytest.fixture
def torch() -> Any:
    return framework("torch")


def tensor(torch: Any, shape: Shape, dtype: DType) -> tuple[Any, Bits]:
    """Random bits on the GPU, with rows wider than the tensor, and the same bits on the host."""
    wide = (*shape[:-1], shape[-1] + 16 // dtype.itemsize)
    raw = RNG.bytes(int(np.prod(wide)) * dtype.itemsize)
    host = np.frombuffer(raw, f"uint{dtype.bits}").reshape(wide)[..., : shape[-1]]
    there = torch.frombuffer(bytearray(raw), dtype=torch.uint8).cuda()
    return there.view(getattr(torch, dtype.name)).reshape(wide)[..., : shape[-1]], host


def element(host: Bits, at: Shape) -> Any:
    """The innermost row at an index, or zeros where it lies outside."""
    inside = all(0 <= place < extent for place, extent in zip(at, host.shape, strict=False))
    return host[at] if inside else np.zeros(host.shape[-1], host.dtype)


def channels(row: Bits, first: int, count: int) -> Bits:
    result = np.zeros(count, row.dtype)
    part = row[first : first + count]
    result[: len(part)] = part
    return result


@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("im2col", [False, True])
def test_the_kernels_of_these_tests_assemble(rank: int, im2col: bool) -> None:
    if im2col and rank < 3:
        return
    ptx = tma_ptx.tma_load(rank, 8192, im2col=im2col)
    assert assemble(ptx, "sm_90a", "tma_load").resources.warnings == ()


# --- element strides

STRIDED: list[tuple[DType, Shape, Shape, Shape, int]] = [
    (dtypes.bfloat16, (200, 72), (16, 64), (3, 1), 128),
    (dtypes.bfloat16, (300, 72), (128, 64), (2, 1), 128),  # spans 255
    (dtypes.float32, (9, 40, 40), (4, 8, 16), (2, 5, 1), 64),
    (dtypes.int8, (5, 9, 40, 48), (2, 3, 8, 48), (2, 1, 8, 1), 0),
    (dtypes.float16, (3, 5, 9, 20, 32), (2, 1, 3, 8, 16), (1, 2, 4, 2, 1), 32),
]


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "shape", "box", "steps", "swizzle"), STRIDED)
def test_element_strides(
    torch: Any, dtype: DType, shape: Shape, box: Shape, steps: Shape, swizzle: int
) -> None:
    source, host = tensor(torch, shape, dtype)
    spec = TensorMapSpec(0, dtype, box, swizzle, "load", element_strides=steps)
    run = TmaLoad(spec, len(shape))
    unit = 16 // dtype.itemsize
    corners: list[Shape] = [(0,) * len(shape), (1,) * (len(shape) - 1) + (unit,)]
    corners.append((*(extent - 2 for extent in shape[:-1]), 0))  # reaches outside
    for corner in corners:
        expected = np.zeros((*box[:-1], box[-1]), host.dtype)
        for index in itertools.product(*map(range, box[:-1])):
            at = tuple(c + i * s for c, i, s in zip(corner, index, steps, strict=False))
            expected[index] = channels(element(host, at), corner[-1], box[-1])
        assert run(torch, source, corner) == swizzled(expected, swizzle), corner


# --- im2col


def windows(shape: Shape, im2col: Im2col, steps: Shape, start: Shape) -> Iterator[Shape]:
    """The window corners from ``start`` = (image, spatial position ...) on, without an end."""
    lasts = [extent - 1 + up for extent, up in zip(shape[1:-1], im2col.upper, strict=True)]
    at = list(start)
    while True:
        yield tuple(at)
        for axis in range(len(lasts), 0, -1):
            at[axis] += steps[axis - 1]
            if at[axis] <= lasts[axis - 1]:
                break
            at[axis] = im2col.lower[axis - 1]
        else:
            at[0] += 1


def filter_positions(extent: Shape) -> list[Shape]:
    """All of a small filter, else its corners and one inside."""
    return list(itertools.product(*(sorted({0, n // 2, n - 1}) for n in extent)))


# dtype, tensor, filter, (lower padding), (upper padding), strides, (pixels, channels), swizzle
CONVOLUTIONS: list[tuple[DType, Shape, Shape, Shape, Shape, Shape, Shape, int]] = [
    (dtypes.bfloat16, (3, 50, 72), (3,), (1,), (1,), (1,), (64, 64), 128),
    (dtypes.float32, (3, 50, 40), (5,), (3,), (0,), (4,), (16, 32), 128),
    (dtypes.bfloat16, (3, 9, 13, 72), (3, 3), (1, 1), (1, 1), (1, 1), (128, 64), 128),
    (dtypes.bfloat16, (3, 9, 14, 64), (3, 3), (1, 1), (1, 1), (2, 2), (64, 64), 128),
    # Nothing is the same in two dimensions, so that none can be taken for another.
    (dtypes.float16, (3, 11, 17, 40), (2, 4), (0, 3), (1, 2), (3, 2), (96, 32), 64),
    (dtypes.int8, (2, 12, 10, 48), (1, 1), (0, 0), (0, 0), (1, 1), (256, 48), 0),
    (dtypes.float32, (5, 4, 4, 16), (4, 4), (0, 0), (0, 0), (1, 1), (32, 8), 32),  # 1 an image
    (dtypes.bfloat16, (2, 4, 6, 5, 64), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (128, 64), 128),
    (dtypes.bfloat16, (2, 5, 7, 9, 24), (2, 3, 4), (0, 1, 2), (1, 2, 0), (2, 1, 3), (40, 16), 32),
]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dtype", "shape", "window", "before", "behind", "steps", "box", "swizzle"), CONVOLUTIONS
)
def test_im2col(
    torch: Any, dtype: DType, shape: Shape, window: Shape, before: Shape, behind: Shape,
    steps: Shape, box: Shape, swizzle: int,
) -> None:  # fmt: skip
    source, host = tensor(torch, shape, dtype)
    lower = tuple(-pad for pad in before)
    upper = tuple(pad - (size - 1) for pad, size in zip(behind, window, strict=True))
    im2col = Im2col(lower, upper)
    spec = TensorMapSpec(0, dtype, box, swizzle, "load", (1, *steps, 1), im2col)
    run = TmaLoad(spec, len(shape))
    unit = 16 // dtype.itemsize
    count = 1
    for extent, low, up, step in zip(shape[1:-1], lower, upper, steps, strict=True):
        count *= (extent - 1 + up - low) // step + 1
    everywhere = list(
        itertools.islice(windows(shape, im2col, steps, (0, *lower)), shape[0] * count)
    )
    firsts = sorted({0, 1, count // 2, count - 1, len(everywhere) - 1})
    for first, offsets in itertools.product(firsts, filter_positions(window)):
        channel = unit * int(RNG.integers(0, 2))
        start = everywhere[first]
        expected = np.zeros(box, host.dtype)
        for pixel, corner in zip(range(box[0]), windows(shape, im2col, steps, start), strict=False):
            at = (corner[0], *(c + o for c, o in zip(corner[1:], offsets, strict=True)))
            expected[pixel] = channels(element(host, at), channel, box[1])
        dump = run(torch, source, (*start, channel), offsets)
        assert dump == swizzled(expected, swizzle), (start, offsets, channel)


@pytest.mark.gpu
def test_an_image_without_elements_loads_zeros(torch: Any) -> None:
    spec = TensorMapSpec(0, dtypes.bfloat16, (64, 64), 128, "load", im2col=Im2col((0, 0), (-2, -2)))
    empty = torch.empty((0, 8, 8, 64), dtype=torch.bfloat16, device="cuda")
    assert TmaLoad(spec, 4)(torch, empty, (0, 0, 0, 0), (1, 1)) == bytes(64 * 64 * 2)


@pytest.mark.gpu
def test_bounds_of_the_documented_ranges_are_taken(torch: Any) -> None:
    """What our rules accept, the driver accepts."""
    for rank, limit in ((3, 1 << 15), (4, 1 << 7), (5, 1 << 4)):
        shape = (1, *(2,) * (rank - 2), 64)
        source, _ = tensor(torch, shape, dtypes.bfloat16)
        spatial = rank - 2
        for lower, upper in ((-limit, limit - 1), (limit - 1, limit - 1), (-limit, -limit)):
            bounds = Im2col((lower,) * spatial, (upper,) * spatial)
            spec = TensorMapSpec(0, dtypes.bfloat16, (1024, 8), 0, "load", im2col=bounds)
            first = (0, *(lower,) * spatial, 0)
            dump = TmaLoad(spec, rank)(torch, source, first, (0,) * spatial)
            assert len(dump) == 1024 * 16


def by_the_bindings(call: Any, *arguments: Any) -> bytes:
    """The 128 bytes of the driver's map, by cuda.bindings.

    Its map lies in a Python object, which is often not aligned as the driver wants: tried again
    with other objects in between.
    """
    keep = []
    for _ in range(64):
        status, found = call(*arguments)
        if int(status) == 0:
            return b"".join(int(word).to_bytes(8, "little") for word in found.opaque)
        keep.append((found, bytearray(16 * len(keep) + 16)))
    pytest.skip("the bindings gave no aligned map")


@pytest.mark.gpu
@pytest.mark.parametrize("steps", [(1, 1, 1, 1), (1, 2, 3, 1)])
def test_the_same_bytes_as_by_the_bindings(torch: Any, steps: Shape) -> None:
    from cuda.bindings import driver as drv

    source, _ = tensor(torch, (3, 9, 14, 72), dtypes.bfloat16)
    array = read_array("x", source)
    pitch = 2 * (72 + 8)
    head = (
        drv.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        4,
        source.data_ptr(),
        [drv.cuuint64_t(n) for n in (72, 14, 9, 3)],
        [drv.cuuint64_t(n) for n in (pitch, 14 * pitch, 9 * 14 * pitch)],
    )
    tail = (
        [drv.cuuint32_t(n) for n in reversed(steps)],
        drv.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        drv.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        drv.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        drv.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    box = (2, 3, 4, 64)
    spans = [drv.cuuint32_t((n - 1) * s + 1) for n, s in zip(box, steps, strict=True)][::-1]
    spec = TensorMapSpec(0, dtypes.bfloat16, box, 128, "load", steps)
    tiled = by_the_bindings(drv.cuTensorMapEncodeTiled, *head, spans, *tail)
    assert encode(array, spec) == tiled
    bounds = Im2col((-1, -2), (0, -3))
    spec = TensorMapSpec(0, dtypes.bfloat16, (100, 64), 128, "load", steps, bounds)
    im2col = by_the_bindings(drv.cuTensorMapEncodeIm2col, *head, [-2, -1], [-3, 0], 64, 100, *tail)
    assert encode(array, spec) == im2col != tiled
