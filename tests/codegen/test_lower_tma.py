"""Bulk tensor copies in PTX: which copies a tile takes, and who issues them."""

from __future__ import annotations

import math
import re

import pytest

from tests.codegen.ir_samples import lowered
from tests.codegen.tma_samples import copy_kernel, one_role_gemm
from tiledsl.codegen.assemble import assemble
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.nvptx.lower import emit_llvm, emit_ptx

# shape of the tile, rank of the tensor, dtype, swizzle, copies
COPIES: list[tuple[tuple[int, ...], int, DType, int, int]] = [
    ((64, 64), 2, dtypes.bfloat16, 128, 1),
    ((512, 64), 2, dtypes.bfloat16, 128, 2),
    ((64, 256), 2, dtypes.float32, 128, 8),
    ((300, 32), 2, dtypes.float16, 64, 2),
    ((300, 96), 2, dtypes.float16, 64, 6),
    ((256,), 1, dtypes.int32, 128, 8),
    ((128,), 1, dtypes.uint8, 0, 1),
    ((8, 24), 2, dtypes.float16, 0, 1),
    ((3, 4, 8, 64), 4, dtypes.bfloat16, 128, 1),
    ((2, 3, 2, 8, 64), 5, dtypes.uint8, 32, 2),
    ((16, 32), 4, dtypes.float64, 128, 2),
    ((16,), 3, dtypes.int64, 128, 1),
    ((4, 8, 128), 3, dtypes.float8_e4m3fn, 64, 2),
]


def ptx_of(shape: tuple[int, ...], rank: int, dtype: DType, swizzle: int) -> str:
    return emit_ptx(emit_llvm(lowered(copy_kernel(shape, rank, dtype, swizzle))), "sm_90a")[1]


@pytest.mark.parametrize(("shape", "rank", "dtype", "swizzle", "copies"), COPIES, ids=str)
def test_a_tile_is_copied_box_by_box(
    shape: tuple[int, ...], rank: int, dtype: DType, swizzle: int, copies: int
) -> None:
    text = ptx_of(shape, rank, dtype, swizzle)
    loads = re.findall(r"cp\.async\.bulk\.tensor\.(\d)d\.shared::cluster\.global\S* .*", text)
    stores = re.findall(r"cp\.async\.bulk\.tensor\.(\d)d\.global\.shared::cta\S* .*", text)
    assert loads == stores == [str(rank)] * copies
    # Every byte of the tile is expected, once.
    expected = re.search(r"arrive\.expect_tx\S* _, \[\S+\], (\d+);", text)
    assert expected is not None
    assert int(expected[1]) == math.prod(shape) * dtype.itemsize
    used = assemble(text, "sm_90a", "copy").resources
    assert used.warnings == () and used.stack_bytes == 0


def test_one_thread_needs_no_predicates() -> None:
    text = ptx_of((64, 64), 2, dtypes.bfloat16, 128)
    assert not re.search(r"@%p\d+ (cp\.async|mbarrier\.arrive)", text)
    assert "setmaxnreg" not in text


def test_a_warpgroup_elects_by_predicate() -> None:
    """No branch stands around what one thread does: see ``Lowering.elected``."""
    kernel = lowered(one_role_gemm())
    text = emit_ptx(emit_llvm(kernel), "sm_90a")[1]
    for what in (
        "cp.async.bulk.tensor",
        "cp.async.bulk.commit_group",
        "cp.async.bulk.wait_group",
        "mbarrier.arrive.shared",
        "mbarrier.arrive.expect_tx",
        "st.global.b64",
    ):
        lines = [line.strip() for line in text.splitlines() if what in line]
        assert lines, what
        assert all(re.match(r"@%p\d+ " + re.escape(what), line) for line in lines), lines
    used = assemble(text, "sm_90a", kernel.name).resources
    assert used.warnings == () and used.spill_store_bytes == used.stack_bytes == 0


@pytest.mark.parametrize("warps", [4, 8])
def test_parts_sync_on_their_own_barriers(warps: int) -> None:
    kernel = lowered(one_role_gemm(warps=warps))
    text = emit_ptx(emit_llvm(kernel), "sm_90a")[1]
    assert kernel.plan is not None
    assert kernel.plan.role("main").part_barrier >= 1
    assert len(re.findall(r"bar\.sync %r\d+, 128;|bar\.sync \d+, 128;", text)) >= 2
