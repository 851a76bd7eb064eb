"""M118-M119 of docs/pipeline-family.md: what runs a ring's protocol. One test per ID."""

from __future__ import annotations

import tiledsl as td
from tests.family.kernels import check_product, compiled, refused
from tests.filecheck import filecheck
from tests.kernels.family.registry import Run


def test_M118_one_protocol_two_backends(run: Run) -> None:
    """The same protocol-level program runs in the emulator and as PTX: `run` is either."""
    check_product(run, stages=(2,))
    variant = compiled(stages=2)
    ops = ("mbarrier.wait", "mbarrier.arrive_expect_tx", "tma.load", "wgmma.mma", "mbarrier.arrive")
    ptx = ("mbarrier.try_wait", "mbarrier.arrive.expect_tx", "cp.async.bulk.tensor",
           "wgmma.mma_async", "mbarrier.arrive")  # fmt: skip
    for op, instruction in zip(ops, ptx, strict=True):
        assert op in variant.protocol_ir and instruction in variant.ptx
    refused(lambda: model_backend.compile(td.spec((1,), td.int32)), "hint: write nothing: the same")


@td.kernel(grid=1)
def model_backend(y: td.Tensor):
    td.PipelineBackend()


def test_M119_mbarriers_of_nvidia(run: Run) -> None:
    """Init, fence, arrive with bytes, wait by parity, arrive: default semantics, no wider scope."""
    check_product(run, stages=(1,))
    ptx = compiled(stages=1).ptx
    filecheck(
        ptx,
        """
        CHECK: mbarrier.init.shared::cta.b64
        CHECK: fence.mbarrier_init.release.cluster
        CHECK: bar.sync
        """,
    )
    # Both tiles of a stage, 64 x 64 numbers of 2 bytes each.
    filecheck(ptx, "CHECK: mbarrier.arrive.expect_tx.shared::cta.b64 _, [{{.*}}], 16384;")
    assert "mbarrier.arrive.release.cluster" not in ptx and ".suspend" not in ptx
