"""Which warps run which role: asked where all lanes of a warp are still together."""

from __future__ import annotations

import tiledsl as td
from tests.filecheck import filecheck
from tests.kernels.family.producers import three_ways


def test_the_warp_is_asked_before_a_thread_leaves_for_its_role() -> None:
    """A role of one thread and one of whole warps share a warpgroup.

    Lane 0 of the first warp leaves for the role of one thread, and may end there: what the others
    ask it for then, by ``shfl``, has no answer.
    """
    x = td.spec((256, 256), td.bfloat16)
    ptx = three_ways.compile(x, x, td.spec((256, 256), td.float32)).ptx
    filecheck(
        ptx,
        """
        CHECK: bar.sync 0;
        CHECK: shfl.sync.idx.b32
        CHECK: setmaxnreg.dec
        CHECK: shfl.sync.idx.b32 [[WARP:%r[0-9]+]], {{%r[0-9]+}}, 0, 31, -1;
        CHECK: bra
        CHECK: add.s32 {{%r[0-9]+}}, [[WARP]], -1;
        """,
    )
