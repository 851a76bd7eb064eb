"""Small PTX kernels for the tests of the launch, with the parameters that a plan would have."""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any

import numpy as np
import pytest

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.plan import ParamSlot, TensorMapSpec
from tiledsl.runtime.launch import Launcher, LoadedKernel

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
THREADS = 128


SCALE = (
    HEADER
    + """
.visible .entry scale(.param .u64 x, .param .s32 n, .param .f32 factor)
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<3>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [x];
  ld.param.s32 %r1, [n];
  ld.param.f32 %f1, [factor];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 ret;
  mul.wide.s32 %rd2, %r5, 4;
  add.s64 %rd1, %rd1, %rd2;
  ld.global.f32 %f2, [%rd1];
  mul.f32 %f3, %f2, %f1;
  st.global.f32 [%rd1], %f3;
  ret;
}
"""
)
"""x[i] *= factor: arguments (x, factor)."""

SCALE_SLOTS = [
    ParamSlot("pointer", 0),
    ParamSlot("dim", 0, axis=0),
    ParamSlot("scalar", 1, dtype=dtypes.float32),
]


def echo(dtype: DType) -> tuple[str, list[ParamSlot]]:
    """Writes its scalar's bits: arguments (out, value)."""
    bits = dtype.bits
    register = "%rd2" if bits == 64 else "%rs1" if bits < 32 else "%r1"
    ptx = f"""{HEADER}
.visible .entry echo(.param .u64 out, .param .b{bits} value)
{{
  .reg .b16 %rs<2>; .reg .b32 %r<2>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  ld.param.b{bits} {register}, [value];
  cvta.to.global.u64 %rd1, %rd1;
  st.global.b{bits} [%rd1], {register};
  ret;
}}
"""
    return ptx, [ParamSlot("pointer", 0), ParamSlot("scalar", 1, dtype=dtype)]


LAST_BYTE = (
    HEADER
    + """
.extern .shared .align 16 .b8 smem[];
.visible .entry last_byte(.param .u64 out)
{
  .reg .b32 %r<4>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, smem;
  mov.u32 %r2, %dynamic_smem_size;
  add.u32 %r1, %r1, %r2;
  st.shared.b32 [%r1 + -4], %r2;
  ld.shared.b32 %r3, [%r1 + -4];
  st.global.b32 [%rd1], %r3;
  ret;
}
"""
)
"""Writes and reads the last word of dynamic shared memory, which is its size: argument (out)."""


def tma_copy(rank: int, nbytes: int) -> str:
    """One box through shared memory, at (outer, 0, ..., inner) in elements, and its raw bytes.

    A store that starts before the tensor is an illegal instruction on the H200 (a load is not), so
    that the box is only loaded where a coordinate is negative.

    Arguments (source, target, dump, outer, inner); ``nbytes`` of the box, then of dynamic shared
    memory 16 more for the barrier. For rank 1 only ``inner`` is used.
    """
    zeros = ["%r9"] * max(rank - 2, 0)
    at = ", ".join(["%r5", *zeros, "%r4"][: max(rank, 1)]) if rank > 1 else "%r5"
    return f"""{HEADER}
.extern .shared .align 1024 .b8 smem[];
.visible .entry tma_copy(
  .param .align 64 .b8 source[128], .param .align 64 .b8 target[128], .param .u64 dump,
  .param .s32 outer, .param .s32 inner)
{{
  .reg .pred %p<5>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, smem;
  add.u32 %r3, %r2, {nbytes};
  ld.param.s32 %r4, [outer];
  ld.param.s32 %r5, [inner];
  mov.u32 %r9, 0;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra started;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r3], {nbytes};
  mov.b64 %rd1, source;
  cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes
    [%r2], [%rd1, {{{at}}}], [%r3];
started:
  bar.sync 0;
again:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra again;
  @%p1 bra stored;
  min.s32 %r10, %r4, %r5;
  setp.lt.s32 %p4, %r10, 0;
  @%p4 bra stored;
  mov.b64 %rd2, target;
  cvta.param.u64 %rd2, %rd2;
  cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%rd2, {{{at}}}], [%r2];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
stored:
  ld.param.u64 %rd4, [dump];
  cvta.to.global.u64 %rd4, %rd4;
  shl.b32 %r6, %r1, 2;
copy:
  setp.ge.u32 %p3, %r6, {nbytes};
  @%p3 ret;
  add.u32 %r7, %r2, %r6;
  ld.shared.b32 %r8, [%r7];
  cvt.u64.u32 %rd5, %r6;
  add.s64 %rd6, %rd4, %rd5;
  st.global.b32 [%rd6], %r8;
  add.u32 %r6, %r6, {4 * THREADS};
  bra copy;
}}
"""


def tma_copy_slots(dtype: DType, box: tuple[int, ...], swizzle: int) -> list[ParamSlot]:
    return [
        ParamSlot("tensormap", 0, spec=TensorMapSpec(0, dtype, box, swizzle, "load")),
        ParamSlot("tensormap", 1, spec=TensorMapSpec(1, dtype, box, swizzle, "store")),
        ParamSlot("pointer", 2),
        ParamSlot("scalar", 3, dtype=dtypes.int32),
        ParamSlot("scalar", 4, dtype=dtypes.int32),
    ]


def load(ptx: str, name: str, *, threads: int = THREADS, shared: int = 0) -> LoadedKernel:
    # PTX text: the driver compiles it.
    return LoadedKernel(ptx.encode(), name, threads=threads, shared_bytes=shared, target="sm_90a")


class TmaCopy:
    """The kernel that copies one box, for a dtype, box and swizzle."""

    def __init__(self, dtype: DType, box: tuple[int, ...], swizzle: int) -> None:
        self.nbytes = int(np.prod(box)) * dtype.itemsize
        ptx = tma_copy(len(box), self.nbytes)
        kernel = load(ptx, "tma_copy", shared=self.nbytes + 16)
        slots = tma_copy_slots(dtype, box, swizzle)
        self.launcher = Launcher(kernel, slots, ("source", "target", "dump", "outer", "inner"))

    def __call__(self, torch: Any, source: Any, target: Any, outer: int, inner: int) -> bytes:
        dump = torch.full((self.nbytes,), 0xA5, dtype=torch.uint8, device="cuda")
        self.launcher([source, target, dump, outer, inner], 1)
        return bytes(dump.cpu().numpy().tobytes())


def framework(name: str) -> Any:
    """A module, or a skip where it is not installed."""
    # Else jax takes most of the GPU's memory, and the other frameworks of this process fail.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(name, exc_type=ImportError)
        return importlib.import_module(name)
