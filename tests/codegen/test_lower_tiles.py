"""Register tiles from and to memory: every byte, for every dtype, layout, swizzle and alignment.

The kernels run on the CPU (``host_machine``) and are assembled, for which ptxas must have nothing
to say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.arith_reference import NUMPY
from tests.codegen.host_machine import HostMachine
from tests.codegen.tile_samples import Mover, columns_of, coordinates, fragment, rows_of, stored
from tiledsl.codegen.assemble import assemble
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import ALL_DTYPES, DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.layouts import SliceLayout, WgmmaFragment
from tiledsl.codegen.ir.ops import arith, memory
from tiledsl.codegen.ir.plan import RolePlan
from tiledsl.codegen.ir.types import SharedTile
from tiledsl.codegen.nvptx.lower import emit_llvm, emit_ptx

BY_SIZE = [dtypes.bool_, dtypes.float8_e5m2, dtypes.int16, dtypes.bfloat16, dtypes.float32,
           dtypes.uint32, dtypes.int64, dtypes.float64]  # fmt: skip
Layout = WgmmaFragment | SliceLayout


def assembled(kernel: Kernel) -> str:
    """The PTX of a kernel, about which ptxas has nothing to say."""
    _, ptx = emit_ptx(emit_llvm(kernel), "sm_90a")
    used = assemble(ptx, "sm_90a", kernel.name).resources
    assert used.warnings == () and used.stack_bytes == used.spill_store_bytes == 0
    return ptx


def random(shape: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> Any:
    """Any bits; bool_ is 0 or 1."""
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    return raw.view(NUMPY[dtype])[..., 0].copy()


def bits(values: Any) -> Any:
    return np.ascontiguousarray(values).view(np.uint8)


def same_bits(a: Any, b: Any) -> bool:
    return np.array_equal(bits(a), bits(b))


def box(tensor: Any, at: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The elements of a box, zero outside of the tensor; and where in the tensor it lies."""
    found = np.zeros((1,) * (tensor.ndim - len(shape)) + shape, tensor.dtype)
    source, target = [], []
    for start, extent, limit in zip(at, found.shape, tensor.shape, strict=True):
        low, high = max(start, 0), min(start + extent, limit)
        high = max(low, high) if low <= limit else low
        source.append(slice(low, max(low, high)))
        target.append(slice(low - start, max(low, high) - start))
    inside = tensor[tuple(source)]
    if inside.size:
        found[tuple(target)] = inside
    return found.reshape(shape), (tuple(source), tuple(target))


def role(parts: int, first_warp: int = 0) -> RolePlan:
    return RolePlan("main", 4 * parts, first_warp, "warpgroup")


def layouts(parts: int) -> list[tuple[tuple[int, ...], Layout]]:
    return [
        ((64 * parts, 8), fragment(parts, 64 * parts, 8)),
        ((128 * parts, 24), fragment(parts, 128 * parts, 24)),
        ((64 * parts,), rows_of(parts, 64 * parts)),
        ((192 * parts,), rows_of(parts, 192 * parts)),
        ((40,), columns_of(parts, 40)),
    ]


# ------------------------------------------------------------------------------ global memory


def copy_kernel(
    shape: tuple[int, ...], layout: Layout, dtype: DType, rank: int, parts: int
) -> Kernel:
    """out[to ...] = source[at ...] for one tile, coordinates at0, at1, ..., to0, to1, ..."""
    s = Mover("copy", role=role(parts))
    source, out = s.tensor("source", dtype, rank), s.tensor("out", dtype, rank)
    at, to = (
        tuple(s.scalar(f"{name}{axis}", dtypes.int32) for axis in range(rank))
        for name in ("at", "to")
    )
    value = s.value(memory.TileLoad(source, at, shape, layout))
    s.add(memory.TileStore(value, out, to))
    return s.planned(warps=4 * parts)


def views(extents: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> dict[str, Any]:
    """Tensors of these extents whose memory looks different."""
    whole = random(extents, dtype, rng)
    wider = random((*extents[:-1], extents[-1] + 3), dtype, rng)
    flipped = random(extents[::-1], dtype, rng).T
    sparse = random((*extents[:-1], 2 * extents[-1]), dtype, rng)
    return {
        "whole": whole,
        "odd rows": wider[..., 1 : 1 + extents[-1]],
        "transposed": flipped,
        "every other": sparse[..., ::2],
    }


@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
@pytest.mark.parametrize("parts", [1, 2])
def test_tiles_come_from_and_go_to_any_tensor(dtype: DType, parts: int) -> None:
    seed = np.random.SeedSequence().entropy
    rng = np.random.default_rng(seed)
    found = layouts(parts)
    for place in rng.permutation(len(found))[:3]:
        shape, layout = found[place]
        rank = int(rng.integers(len(shape), 4))
        kernel = copy_kernel(shape, layout, dtype, rank, parts)
        machine = HostMachine(kernel)
        extents = tuple(int(n) for n in rng.integers(2, 5, rank - len(shape)))
        extents += tuple(int(e + rng.integers(-5, 9)) for e in shape)
        for name, source in views(extents, dtype, rng).items():
            out = random(extents, dtype, rng)
            at, to = (
                [int(rng.integers(-2, 3)) for _ in extents[: -len(shape)]]
                + [int(2 * rng.integers(-4, 5) + rng.integers(0, 2)) for _ in shape]
                for _ in range(2)
            )
            expected = out.copy()
            loaded, _ = box(source, tuple(at), shape)
            _, (where, taken) = box(out, tuple(to), shape)
            if out[where].size:
                full = loaded.reshape((1,) * (rank - len(shape)) + shape)
                expected[where] = full[taken]
            machine.run([source, out, *at, *to])
            what = f"seed {seed}: {name}, {shape} at {at} of {extents} to {to}"
            assert same_bits(out, expected), what


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_neighbours_go_at_once_where_they_can(dtype: DType) -> None:
    rng = np.random.default_rng()
    kernel = copy_kernel((64, 8), fragment(1, 64, 8), dtype, 2, 1)
    machine = HostMachine(kernel)

    def widths(columns: int, at: int, pitch: int) -> set[str]:
        source = random((70, pitch), dtype, rng)[:, :columns]
        out = np.zeros((70, columns), NUMPY[dtype])
        used = machine.run([source, out, 0, at, 0, 0]).widths
        return {name for name in used if name.startswith("ld.global")}

    one = {f"ld.global.b{dtype.bits}"}
    two = {8: {"ld.global.b16"}, 16: {"ld.global.b32"}}.get(
        dtype.bits, {f"ld.global.v2.b{dtype.bits}"}
    )
    assert widths(16, 2, 16) == two
    assert widths(16, 1, 16) == one  # an odd column
    assert widths(15, 2, 16) == one  # a pair at the end is half inside
    assert widths(15, 2, 15) == one  # odd rows
    assembled(kernel)


def test_what_cannot_be_inside_is_not_touched() -> None:
    """Coordinates so large that their sums wrap around in 32 bits."""
    kernel = copy_kernel((64, 8), fragment(1, 64, 8), dtypes.float32, 2, 1)
    machine = HostMachine(kernel)
    source, out = np.ones((9, 9), np.float32), np.full((9, 9), 7, np.float32)
    for at in [(2**31 - 1, 0), (0, 2**31 - 1), (-(2**31), 0), (9, 0), (0, 9), (-64, 0), (0, -8)]:
        machine.run([source, out, *at, 0, 0])
        assert not out[:9, :8].any() and (out[:, 8] == 7).all(), at
        out[:] = 7
        machine.run([source, out, 0, 0, *at])
        assert (out == 7).all(), at


# ------------------------------------------------------------------------------ shared memory

SWIZZLES = [0, 32, 64, 128]


def shared_shapes(dtype: DType, swizzle: int, parts: int) -> list[tuple[tuple[int, int], bool]]:
    """(shape of the view, whether it is transposed) of tiles that such a swizzle fits."""
    found = []
    for shape in [(64, 8), (64, 24), (128, 16), (192, 8), (64, 72)]:
        view = (shape[0] * parts, shape[1])
        for transposed in (False, True):
            row = view[0 if transposed else 1] * dtype.itemsize
            if not swizzle or row % swizzle == 0:
                found.append((view, transposed))
    return found


def shared_kernel(
    view: tuple[int, ...], layout: Layout, shared: SharedTile, *, load: bool, parts: int
) -> tuple[Kernel, int]:
    """The shared tile's view to or from a tensor of its shape; and where the tile lies."""
    s = Mover("shared_tile", role=role(parts, 4))
    tensor = s.tensor("tensor", shared.dtype, len(view))
    tile = s.shared("t", shared.stored_shape, shared.dtype, shared.swizzle)

    def body() -> None:
        seen = s.transposed(tile) if shared.transposed else tile
        zeros = coordinates(s, [0] * len(view))
        if load:
            s.add(memory.TileStore(s.value(memory.SharedLoad(seen, layout)), tensor, zeros))
        else:
            value = s.value(memory.TileLoad(tensor, zeros, view, layout))
            s.add(memory.SharedStore(value, seen))

    return s.planned(body), s.where("t")


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
def test_shared_tiles_lie_as_a_copy_would_write_them(dtype: DType, swizzle: int) -> None:
    seed = np.random.SeedSequence().entropy
    rng = np.random.default_rng(seed)
    for parts in (1, 2):
        shapes = shared_shapes(dtype, swizzle, parts)
        for place in rng.permutation(len(shapes))[:2]:
            view, transposed = shapes[place]
            shared = SharedTile(view, dtype, swizzle, transposed)
            layout = fragment(parts, *view)
            values = random(view, dtype, rng)
            lying = values.T if transposed else values
            lying = stored(shared, np.ascontiguousarray(lying))
            what = f"{shared} over {parts} parts, seed {seed}"
            kernel, where = shared_kernel(view, layout, shared, load=False, parts=parts)
            block = HostMachine(kernel).run([values])
            assert bytes(block.shared[where : where + len(lying)]) == lying, f"store to {what}"
            kernel, where = shared_kernel(view, layout, shared, load=True, parts=parts)
            out = random(view, dtype, rng)
            HostMachine(kernel).run([out], shared=lying + bytes(1024))
            assert same_bits(out, values), f"load of {what}"


@pytest.mark.parametrize("dtype", BY_SIZE, ids=str)
def test_shared_tiles_of_rank_1(dtype: DType) -> None:
    rng = np.random.default_rng()
    for parts in (1, 2):
        for extent, layout in [
            (128 * parts, rows_of(parts, 128 * parts)), (64, columns_of(parts, 64)),
        ]:  # fmt: skip
            for swizzle in (0, 32):
                shared = SharedTile((extent,), dtype, swizzle)
                values = random((extent,), dtype, rng)
                lying = stored(shared, values)
                kernel, where = shared_kernel((extent,), layout, shared, load=False, parts=parts)
                block = HostMachine(kernel).run([values])
                assert bytes(block.shared[where : where + len(lying)]) == lying
                # Each element is written once.
                count = sum(n for name, n in block.widths.items() if name.startswith("st.shared"))
                assert count >= extent  # predicated ones that do nothing are not counted
                assert count == extent
                kernel, where = shared_kernel((extent,), layout, shared, load=True, parts=parts)
                out = random((extent,), dtype, rng)
                HostMachine(kernel).run([out], shared=lying + bytes(1024))
                assert same_bits(out, values)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_shared_tiles_assemble(dtype: DType, transposed: bool) -> None:
    for load in (False, True):
        shared = SharedTile((128, 64), dtype, 64, transposed)
        kernel, _ = shared_kernel((128, 64), fragment(2, 128, 64), shared, load=load, parts=2)
        ptx = assembled(kernel)
        matrix = "ldmatrix" if load else "stmatrix"
        assert (matrix in ptx) == (dtype.bits == 16)
        assert (".trans.shared" in ptx) == (dtype.bits == 16 and transposed)


# ------------------------------------------------------------------------------------- views


@pytest.mark.parametrize(
    "dtype", [dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.float32, dtypes.float64], ids=str
)
@pytest.mark.parametrize("parts", [1, 2])
def test_iota_broadcast_and_select(dtype: DType, parts: int) -> None:
    """out = select(row < 10 column, per_row[:, None], per_column[None, :]), and both indices."""
    rng = np.random.default_rng()
    rows, columns = 128 * parts, 24
    s = Mover("views", role=role(parts))
    per_row, per_column = s.tensor("per_row", dtype, 1), s.tensor("per_column", dtype, 1)
    out = s.tensor("out", dtype, 2)
    down, along = s.tensor("down", dtype, 1), s.tensor("along", dtype, 1)
    layout = fragment(parts, rows, columns)
    zero = s.const(0)
    left = s.value(memory.TileLoad(per_row, (zero,), (rows,), rows_of(parts, rows)))
    right = s.value(memory.TileLoad(per_column, (zero,), (columns,), columns_of(parts, columns)))
    row = s.value(memory.Iota((rows, columns), 0, dtypes.int32, layout))
    column = s.value(memory.Iota((rows, columns), 1, dtypes.int32, layout))
    ten = s.value(arith.Full(s.const(10), (rows, columns), layout))
    condition = s.value(arith.Compare("lt", row, s.value(arith.Binary("mul", column, ten))))
    value = s.value(
        arith.Select(
            condition,
            s.value(memory.Broadcast(left, 1, columns, layout)),
            s.value(memory.Broadcast(right, 0, rows, layout)),
        )
    )
    s.add(memory.TileStore(value, out, (zero, zero)))
    for tensor, lies, extent in [
        (down, rows_of(parts, rows), rows), (along, columns_of(parts, columns), columns),
    ]:  # fmt: skip
        index = s.value(memory.Iota((extent,), 0, dtype, lies))
        s.add(memory.TileStore(index, tensor, (zero,)))
    kernel = s.planned(warps=4 * parts)
    given = [random((rows,), dtype, rng), random((columns,), dtype, rng)]
    got = [random((rows, columns), dtype, rng), random((rows,), dtype, rng),
           random((columns,), dtype, rng)]  # fmt: skip
    HostMachine(kernel).run([*given, *got])
    chosen = np.arange(rows)[:, None] < 10 * np.arange(columns)[None, :]
    assert same_bits(got[0], np.where(chosen, given[0][:, None], given[1][None, :]))
    for found, extent in ((got[1], rows), (got[2], columns)):
        assert same_bits(found, np.arange(extent).astype(NUMPY[dtype]))
    assembled(kernel)
