"""A PTX kernel that loads one box with TMA, tiled or im2col, and dumps its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tests.gpu.launch_ptx import HEADER, THREADS, load
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.plan import ParamSlot, TensorMapSpec
from tiledsl.runtime.launch import Launcher


def tma_load(rank: int, nbytes: int, *, im2col: bool) -> str:
    """Arguments (source, dump, a coordinate a dimension, with im2col an offset a spatial one).

    Coordinates and offsets come in the tensor's order, outermost first. ``nbytes`` of the box,
    then of dynamic shared memory 16 more for the barrier.
    """
    spatial = rank - 2 if im2col else 0
    coords = [f"c{n}" for n in range(rank)]
    offsets = [f"o{n}" for n in range(spatial)]
    params = "".join(f", .param .s32 {name}" for name in coords + offsets)
    reads = "".join(f"  ld.param.s32 %{name}, [{name}];\n" for name in coords + offsets)
    reads += "".join(f"  cvt.u16.s32 %h{name}, %{name};\n" for name in offsets)
    names = "".join(f" .reg .b32 %{name};" for name in coords + offsets)
    names += "".join(f" .reg .b16 %h{name};" for name in offsets)
    at = ", ".join(f"%{name}" for name in reversed(coords))
    behind = ", {" + ", ".join(f"%h{name}" for name in reversed(offsets)) + "}" if offsets else ""
    mode = "im2col" if im2col else "tile"
    return f"""{HEADER}
.extern .shared .align 1024 .b8 smem[];
.visible .entry tma_load(.param .align 64 .b8 source[128], .param .u64 dump{params})
{{
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<7>;{names}
{reads}
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, smem;
  add.u32 %r3, %r2, {nbytes};
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra started;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r3], {nbytes};
  mov.b64 %rd1, source;
  cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes
    [%r2], [%rd1, {{{at}}}], [%r3]{behind};
started:
  bar.sync 0;
again:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra again;
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


class TmaLoad:
    """Loads one box of a tensor and gives its bytes as they lie in shared memory."""

    def __init__(self, spec: TensorMapSpec, rank: int) -> None:
        self.nbytes = prod(spec.box) * spec.dtype.itemsize
        im2col = spec.im2col is not None
        count = rank + (rank - 2 if im2col else 0)
        ptx = tma_load(rank, self.nbytes, im2col=im2col)
        slots = [ParamSlot("tensormap", 0, spec=spec), ParamSlot("pointer", 1)]
        slots += [ParamSlot("scalar", 2 + n, dtype=dtypes.int32) for n in range(count)]
        names = ["source", "dump", *(f"at{n}" for n in range(count))]
        self.launcher = Launcher(load(ptx, "tma_load", shared=self.nbytes + 16), slots, names)

    def __call__(
        self, torch: Any, source: Any, coords: Sequence[int], offsets: Sequence[int] = ()
    ) -> bytes:
        dump = torch.full((self.nbytes,), 0xA5, dtype=torch.uint8, device="cuda")
        self.launcher([source, dump, *map(int, coords), *map(int, offsets)], 1)
        return bytes(dump.cpu().numpy().tobytes())
