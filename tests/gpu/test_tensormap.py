"""Tensor maps on a GPU: boxes through shared memory, byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gpu.launch_ptx import TmaCopy, framework
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.layouts import swizzled_offset

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns about other packages' versions

RNG = np.random.default_rng()


@pytest.fixture
def torch() -> Any:
    return framework("torch")


def host_box(
    values: np.ndarray[Any, Any], start: tuple[int, ...], box: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """The box of ``values`` at ``start``, with zeros where it reaches outside."""
    result = np.zeros(box, values.dtype)
    extents = [max(0, min(b, n - s)) for b, n, s in zip(box, values.shape, start, strict=True)]
    inside = tuple(slice(0, extent) for extent in extents)
    where = tuple(slice(s, s + extent) for s, extent in zip(start, extents, strict=True))
    result[inside] = values[where]
    return result


def swizzled(box: np.ndarray[Any, Any], swizzle: int) -> bytes:
    """The bytes of a box as they lie in shared memory."""
    raw = np.frombuffer(box.tobytes(), np.uint8)
    if not swizzle:
        return raw.tobytes()
    rows = raw.reshape(-1, swizzle)
    result = np.zeros(raw.size, np.uint8)
    for row in range(len(rows)):
        for byte in range(swizzle):
            result[swizzled_offset(row, byte, swizzle)] = rows[row, byte]
    return result.tobytes()


CASES = [
    (dtypes.bfloat16, (100, 72), (64, 64), 128),
    (dtypes.bfloat16, (100, 200), (64, 32), 64),
    (dtypes.float16, (100, 200), (256, 16), 32),
    (dtypes.float32, (33, 40), (16, 32), 128),
    (dtypes.float64, (33, 40), (16, 16), 128),
    (dtypes.int8, (100, 160), (64, 128), 128),
    (dtypes.float8_e4m3fn, (100, 160), (64, 64), 64),
    (dtypes.int16, (100, 200), (8, 256), 0),
    (dtypes.int32, (17, 24), (8, 4), 0),
    (dtypes.int64, (17, 24), (8, 4), 32),
    (dtypes.bfloat16, (1000,), (64,), 128),
    (dtypes.bfloat16, (7, 3, 72), (4, 1, 64), 128),
    (dtypes.bfloat16, (3, 2, 5, 72), (2, 1, 4, 64), 128),
    (dtypes.bfloat16, (2, 3, 2, 5, 72), (2, 1, 1, 4, 64), 128),
]


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "shape", "box", "swizzle"), CASES)
def test_boxes_through_shared_memory(
    torch: Any, dtype: DType, shape: tuple[int, ...], box: tuple[int, ...], swizzle: int
) -> None:
    kind = getattr(torch, dtype.name)
    # Wider rows than the tensor has, so that the pitch counts; bytes carry any dtype.
    wide = (*shape[:-1], shape[-1] + 16 // dtype.itemsize)

    def make(fill: bytes) -> Any:
        raw = torch.frombuffer(bytearray(fill), dtype=torch.uint8).cuda()
        return raw.view(kind).reshape(wide)[..., : shape[-1]]

    size = int(np.prod(wide)) * dtype.itemsize
    source_bytes, target_bytes = RNG.bytes(size), RNG.bytes(size)
    unsigned = np.dtype(f"uint{dtype.bits}")
    host = np.frombuffer(source_bytes, unsigned).reshape(wide)[..., : shape[-1]]
    run = TmaCopy(dtype, box, swizzle)
    # The H200 takes innermost coordinates at multiples of 16 bytes only.
    unit = 16 // dtype.itemsize
    for outer, inner in [
        (0, 0),
        (shape[0] - 1, 0),
        (0, shape[-1] - unit),
        (1, -unit),
        (-1, 16),
    ]:
        if len(shape) == 1:
            outer = 0
        source, target = make(source_bytes), make(target_bytes)
        start = (inner,) if len(shape) == 1 else (outer, *(0,) * (len(shape) - 2), inner)
        dump = run(torch, source, target, outer, inner)
        # Negative coordinates: the part before the tensor is zero as well.
        before = tuple(max(0, -s) for s in start)
        part = tuple(b - skip for b, skip in zip(box, before, strict=True))
        expected = np.zeros(box, unsigned)
        inside = host_box(host, tuple(max(0, s) for s in start), part)
        expected[tuple(slice(skip, None) for skip in before)] = inside
        assert dump == swizzled(expected, swizzle), (outer, inner)
        wanted = np.frombuffer(bytearray(target_bytes), unsigned).reshape(wide)
        where = tuple(
            slice(max(0, s), min(s + b, n)) for s, b, n in zip(start, box, shape, strict=True)
        )
        if min(outer, inner) >= 0:  # else nothing is stored, see launch_ptx.tma_copy
            wanted[where] = host[where]
        full = target.as_strided(wide, target.stride()).view(torch.uint8)
        assert full.cpu().numpy().tobytes() == wanted.tobytes(), (outer, inner)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(0, 64), (64, 0), (0, 0)])
def test_tensors_without_elements_load_zeros(torch: Any, shape: tuple[int, int]) -> None:
    run = TmaCopy(dtypes.bfloat16, (64, 64), 128)
    empty = torch.empty(shape, dtype=torch.bfloat16, device="cuda")
    full = torch.randn((64, 64), device="cuda").bfloat16()
    run(torch, full, empty, 0, 0)  # stores go nowhere
    target = torch.full((64, 64), float("nan"), dtype=torch.bfloat16, device="cuda")
    assert run(torch, empty, target, 0, 0) == bytes(64 * 64 * 2)
    assert not target.any()


@pytest.mark.gpu
def test_strides_of_single_dimensions_do_not_matter(torch: Any) -> None:
    run = TmaCopy(dtypes.bfloat16, (1, 8, 64), 128)
    data = torch.randn((8, 64), device="cuda").bfloat16()
    target = torch.zeros((1, 8, 64), dtype=torch.bfloat16, device="cuda")
    for stride in (1, 3, 7 << 40):
        target.zero_()
        run(torch, data.as_strided((1, 8, 64), (stride, 64, 1)), target, 0, 0)
        assert torch.equal(target[0], data)
