"""Clusters: who arrives in which block, where blocks meet, and what ptxas makes of it."""

from __future__ import annotations

from math import prod

import pytest

from tests.codegen.host_asm import HostThreads
from tests.codegen.ir_samples import GemmShape
from tests.codegen.sync_samples import Protocol, machine_code, ptx_of, share_stages
from tests.filecheck import filecheck
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import protocol, sync, tile
from tiledsl.codegen.ir.plan import RolePlan
from tiledsl.codegen.nvptx.lower import emit_llvm
from tiledsl.codegen.nvptx.targets import get_target
from tiledsl.codegen.sass import SassReport
from tiledsl.errors import InvalidValue

REMOTE = "mbarrier.arrive.shared::cluster.b64"
ROLES = {
    "thread": RolePlan("all", 1, 2, "thread"),
    "warps": RolePlan("all", 3, 2, "warps"),
    "warpgroups": RolePlan("all", 8, 4, "warpgroup"),
}


def arriving(
    role: RolePlan,
    cluster: tuple[int, ...],
    axes: tuple[int, ...],
    *,
    spans: bool = False,
    elect: str = "part",
    when: bool | None = None,
    rank: int | None = None,
) -> Kernel:
    s = Protocol("arrive")
    bar = s.barrier(index=1, number=2)
    with s.planned_role(role):
        predicate = () if when is None else (s.value(sync.MbarrierTryWait(bar, s.const(0), False)),)
        there = () if rank is None else (s.const(rank),)
        s.add(protocol.MbarrierArrive(bar, predicate, elect, rank=there, axes=axes, spans=spans))
    return s.planned({"bar": 8}, cluster=cluster)


def reached(kernel: Kernel, rank: int, when: bool | None = None) -> list[int]:
    """The blocks in which the threads of block ``rank`` arrive, -1 for its own without mapping.

    The answer to ``mapa`` is the address with the block's rank in its upper half.
    """

    def answer(text: str, operands: tuple[int, ...]) -> int:
        if text.startswith("mapa"):
            address, block = operands
            return address | block << 16
        return int(bool(when))

    run = HostThreads(kernel, answer)
    found = []
    assert kernel.plan is not None
    for index in range(kernel.plan.threads):
        ran = run.run(index, rank)
        for address, *_ in ran.operands(REMOTE):
            assert address & 0xFFFF == 8  # number 1 of the row
            found.append(address >> 16)
        found += [-1 for address, *_ in ran.operands("arrive.shared::cta") if address == 8]
    return found


def coordinates(rank: int, cluster: tuple[int, ...]) -> list[int]:
    return [rank // prod(cluster[:axis]) % cluster[axis] for axis in range(len(cluster))]


def peers(rank: int, cluster: tuple[int, ...], axes: tuple[int, ...], spans: bool) -> set[int]:
    """Blocks that differ in at most one of the axes; with ``spans`` in any of them."""
    own = coordinates(rank, cluster)
    found = set()
    for other in range(prod(cluster)):
        apart = {a for a, (x, y) in enumerate(zip(own, coordinates(other, cluster), strict=True))
                 if x != y}  # fmt: skip
        if apart <= set(axes) and (spans or len(apart) <= 1):
            found.add(other)
    return found


CLUSTERS = [
    ((2,), (0,)),
    ((2, 1), (0,)),
    ((1, 2), (1,)),
    ((1, 2), (0, 1)),
    ((2, 2), (0,)),
    ((2, 2), (1,)),
    ((2, 2), (0, 1)),
    ((4, 2), (1, 0)),
    ((3, 2), (0, 1)),
    ((2, 2, 2), (0, 1, 2)),
    ((2, 1, 4), (2, 0)),
    ((2, 2, 2), (0, 2)),
    ((8,), (0,)),
]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("spans", [False, True])
@pytest.mark.parametrize(("cluster", "axes"), CLUSTERS, ids=str)
def test_one_arrival_in_each_block(
    cluster: tuple[int, ...], axes: tuple[int, ...], spans: bool, role: str
) -> None:
    """Of each part; the blocks along the axes, this one included."""
    kernel = arriving(ROLES[role], cluster, axes, spans=spans)
    for rank in range(prod(cluster)):
        wanted = sorted([*peers(rank, cluster, axes, spans)] * ROLES[role].parts)
        assert sorted(reached(kernel, rank)) == wanted


@pytest.mark.parametrize("role", ROLES)
def test_one_arrival_of_the_role(role: str) -> None:
    kernel = arriving(ROLES[role], (2, 2), (0,), elect="role")
    assert sorted(reached(kernel, 3)) == [2, 3]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("axes", [(), (0,)], ids=str)
@pytest.mark.parametrize("when", [False, True])
def test_an_arrival_that_may_not_happen(role: str, axes: tuple[int, ...], when: bool) -> None:
    kernel = arriving(ROLES[role], (2, 2), axes, when=True)
    machine_code(kernel)
    blocks = ([0, 1] if axes else [-1]) * ROLES[role].parts
    assert sorted(reached(kernel, 0, when)) == sorted(blocks if when else [])


@pytest.mark.parametrize("role", ROLES)
def test_an_arrival_in_one_block(role: str) -> None:
    kernel = arriving(ROLES[role], (4,), (), rank=3)
    machine_code(kernel)
    assert reached(kernel, 1) == [3] * ROLES[role].parts


@pytest.mark.parametrize("cluster", [(1,), (1, 1), (2, 1)], ids=str)
def test_without_another_block_on_the_axis_it_stays_at_home(cluster: tuple[int, ...]) -> None:
    kernel = arriving(ROLES["warpgroups"], cluster, (1,))
    assert reached(kernel, 0) == [-1, -1]
    assert "mapa" not in emit_llvm(kernel)


def test_remote_arrivals_have_the_default_semantics() -> None:
    text = ptx_of(arriving(ROLES["warpgroups"], (2,), (0,)))
    assert REMOTE in text
    assert "release.cluster.shared" not in text  # costs 30 % of a GEMM


# ------------------------------------------------------------------------------ where they meet


def test_a_cluster_is_declared_and_meets_before_and_behind() -> None:
    filecheck(
        ptx_of(arriving(ROLES["warps"], (2, 2), (0,))),
        """
        CHECK: .maxntid 160
        CHECK-NEXT: .minnctapersm 1
        CHECK-NEXT: .explicitcluster
        CHECK-NEXT: .reqnctapercluster 2, 2, 1
        CHECK: fence.mbarrier_init.release.cluster;
        CHECK-NOT: bar.sync 0
        CHECK: barrier.cluster.arrive.relaxed.aligned;
        CHECK: barrier.cluster.wait.aligned;
        CHECK: mapa.shared::cluster.u32
        CHECK: mbarrier.arrive.shared::cluster.b64
        CHECK: bar.warp.sync 0xffffffff;
        CHECK-SAME: barrier.cluster.arrive.aligned;
        CHECK-SAME: barrier.cluster.wait.aligned;
        CHECK-NEXT: end inline asm
        CHECK-NEXT: ret;
        """,
    )


def test_a_persistent_cluster_lies_along_x() -> None:
    kernel = arriving(ROLES["warps"], (2, 2), (0,))
    kernel.persistent = True
    assert ".reqnctapercluster 4, 1, 1" in ptx_of(kernel)


def test_without_barriers_nobody_meets() -> None:
    s = Protocol("rank")
    out = s.tensor("out", s.const(0).type.dtype, 1)  # type: ignore[union-attr]
    rank = s.value(sync.ClusterRank())
    with s.planned_role(ROLES["thread"]):
        s.add(tile.TensorStore(rank, out, (rank,)))
    kernel = s.planned(cluster=(2,))
    machine_code(kernel)
    text = ptx_of(kernel)
    assert "%cluster_ctarank" in text and "barrier.cluster" not in text
    kernel.cluster = (1,)
    assert "cluster" not in ptx_of(kernel)


@pytest.mark.parametrize("cluster", [(1,), (2,)], ids=str)
def test_cluster_sync_outside_of_roles(cluster: tuple[int, ...]) -> None:
    s = Protocol("meet")
    bar = s.barrier()
    s.add(sync.ClusterSync())
    with s.planned_role(ROLES["warps"]):
        s.add(protocol.MbarrierArrive(bar, (), "part"))
    kernel = s.planned(cluster=cluster)
    machine_code(kernel)
    run = HostThreads(kernel)
    for index in range(160):
        text = " ".join(run.run(index).texts())
        if cluster == (1,):
            assert text.count("bar.sync 0;") == 2
        else:
            before = text.split("mbarrier.arrive")[0]
            assert before.count("barrier.cluster.wait.aligned;") == (2 if index == 64 else 3)
            assert text.count("barrier.cluster.wait.aligned;") == 3


def test_threads_of_an_elected_role_come_back_together() -> None:
    """The 31 others wait for the one: WARPSYNC stands in front of the last meeting."""
    report = SassReport.of(machine_code(arriving(ROLES["thread"], (2,), (0,))).cubin)
    opcodes = [i.opcode for i in report.instructions()]
    last = len(opcodes) - 1 - opcodes[::-1].index("UCGABAR_ARV")
    assert opcodes.count("UCGABAR_ARV") == opcodes.count("UCGABAR_WAIT") == 2
    assert any(o.startswith(("WARPSYNC", "BSYNC")) for o in opcodes[:last])


# ---------------------------------------------------------------------------------- the GEMM


@pytest.mark.parametrize(
    ("cluster", "axes"), [((2, 1), (0,)), ((1, 2), (1,)), ((2, 2), (0, 1))], ids=str
)
def test_a_gemm_that_frees_its_stages_everywhere(
    cluster: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    found = machine_code(share_stages(cluster=cluster, axes=axes))
    assert found.resources.spill_store_bytes == 0
    assert found.resources.registers == 168
    loop = SassReport.of(found.cubin).hot_loop()
    assert loop.count("HGMMA") == 4
    for opcode in ("R2UR", "WARPSYNC", "LDL", "STL", "BSSY", "YIELD", "S2R"):
        assert loop.count(opcode) == 0, str(loop)
    assert loop.count("SYNCS.ARRIVE") == 1, str(loop)
    assert len(loop.instructions) <= 80, str(loop)


def test_a_gemm_of_one_warpgroup_in_a_cluster() -> None:
    machine_code(share_stages(GemmShape(bm=64, warps=4)))


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ((3, 3), "a cluster of sm_90a has at most 8 blocks: got 9, cluster=\\(3, 3\\)"),
        ((2, 0), "a cluster has one to 3 axes with at least one block each"),
        ((1, 1, 1, 2), "a cluster has one to 3 axes with at least one block each"),
        ((), "a cluster has one to 3 axes with at least one block each"),
    ],
    ids=str,
)
def test_clusters_that_cannot_be(cluster: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        emit_llvm(arriving(ROLES["warps"], cluster, ()))
    assert get_target("sm_90a").cluster_blocks == 8
