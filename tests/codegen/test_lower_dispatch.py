"""Which threads run which role, thread by thread on the CPU; and what ptxas says of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.codegen.host_asm import HostThreads, Thread
from tests.codegen.sync_samples import Protocol, machine_code
from tests.filecheck import filecheck
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import protocol, sync
from tiledsl.codegen.ir.plan import NamedBarrier, Plan, RolePlan
from tiledsl.codegen.nvptx.dispatch import segments
from tiledsl.codegen.nvptx.lower import emit_llvm
from tiledsl.errors import InternalError

FENCE = "fence.proxy.async.shared::cta;"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [$0];"


def thread(name: str, warps: int, first: int, **fields: int) -> RolePlan:
    return RolePlan(name, warps, first, "thread", **fields)  # type: ignore[arg-type]


def warps(name: str, warps: int, first: int, **fields: int) -> RolePlan:
    return RolePlan(name, warps, first, "warps", **fields)  # type: ignore[arg-type]


def groups(name: str, warps: int, first: int, **fields: int) -> RolePlan:
    return RolePlan(name, warps, first, "warpgroup", **fields)  # type: ignore[arg-type]


# The roles of a block, and registers at entry.
BLOCKS: dict[str, tuple[list[RolePlan], int | None]] = {
    "one thread": ([thread("a", 1, 0)], None),
    "one warp": ([warps("a", 1, 0)], None),
    "three warps": ([warps("a", 3, 0)], None),
    "six warps": ([warps("a", 6, 0)], None),
    "threads beside each other": ([thread("a", 1, 0), thread("b", 2, 1), thread("c", 1, 3)], None),
    "warps beside each other": ([warps("a", 1, 0), warps("b", 2, 1), warps("c", 1, 3)], None),
    "thread and warps": ([thread("a", 1, 0), warps("b", 2, 1), thread("c", 1, 3)], None),
    "warps reach into the next group": (
        [thread("a", 1, 0), warps("b", 4, 1), thread("c", 1, 6), warps("d", 1, 7)],
        None,
    ),
    "a chain of warps": ([warps("a", 3, 0), warps("b", 6, 3), warps("c", 2, 9)], None),
    "idle warps reach into the next group": ([thread("a", 6, 0), warps("b", 2, 6)], None),
    "a loader and warpgroups": (
        [thread("a", 1, 0, registers=40), groups("b", 8, 4, registers=232)],
        168,
    ),
    "all kinds": (
        [
            thread("a", 1, 0, registers=24),
            warps("b", 5, 1, registers=24),
            thread("c", 1, 6, registers=24),
            groups("d", 4, 8, registers=160),
            groups("e", 4, 12, registers=160),
        ],
        128,
    ),
    "warps give registers up": (
        [warps("a", 4, 0, registers=40), groups("b", 8, 4, registers=232)],
        168,
    ),
}


@dataclass
class Expected:
    fences: int
    arrivals: int
    registers: int | None


def block(name: str, cluster: tuple[int, ...] = (1,)) -> Kernel:
    """Each role runs ``number`` fences, by all of its threads, and one elected arrival."""
    roles, entry = BLOCKS[name]
    s = Protocol("block")
    bar = s.barrier()
    for number, role in enumerate(roles, 1):
        with s.planned_role(role):
            for _ in range(number):
                s.add(protocol.FenceProxyAsync())
            s.add(protocol.MbarrierArrive(bar, (), "part"))
    return s.planned({"bar": len(roles)}, cluster=cluster, entry_registers=entry)


def expected(roles: list[RolePlan], index: int) -> Expected:
    """What thread ``index`` of the block does, from the plan alone."""
    warp = index // 32
    found = Expected(0, 0, None)
    for number, role in enumerate(roles, 1):
        if not role.first_warp <= warp < role.first_warp + role.warps:
            # Idle warps of a warpgroup give registers up with the others.
            if warp // 4 in {w // 4 for w in range(role.first_warp, role.first_warp + role.warps)}:
                found.registers = role.registers
            continue
        found.registers = role.registers
        first = index == 32 * role.first_warp
        if role.mode != "thread" or first:
            found.fences = number
        part = index % 128 == 0 if role.mode == "warpgroup" else first
        found.arrivals = int(part)
    return found


def setmaxnreg(ran: Thread) -> int | None:
    found = [int(text.split()[1][:-1]) for text in ran.texts() if text.startswith("setmaxnreg")]
    assert len(found) < 2
    return found[0] if found else None


@pytest.mark.parametrize("name", BLOCKS)
def test_each_thread_runs_its_role(name: str) -> None:
    roles, _ = BLOCKS[name]
    kernel = block(name)
    run = HostThreads(kernel)
    assert kernel.plan is not None
    for index in range(kernel.plan.threads):
        ran = run.run(index)
        texts = ran.texts()
        got = Expected(texts.count(FENCE), texts.count(ARRIVE), setmaxnreg(ran))
        assert got == expected(roles, index), f"thread {index}: {texts}"
        assert texts.count("bar.sync 0;") == 1  # behind the initialisation


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("cluster", [(1,), (2, 1)], ids=str)
def test_ptxas_takes_it(name: str, cluster: tuple[int, ...]) -> None:
    used = machine_code(block(name, cluster)).resources
    if BLOCKS[name][1] is not None:  # else setmaxnreg would be ignored
        assert used.registers == BLOCKS[name][1]


@pytest.mark.parametrize("name", BLOCKS)
def test_every_thread_meets_the_cluster_twice(name: str) -> None:
    """Ready to be signalled, and finished with signalling: those without work too."""
    kernel = block(name, (2, 1))
    run = HostThreads(kernel)
    assert kernel.plan is not None
    for index in range(kernel.plan.threads):
        text = " ".join(run.run(index).texts())
        meetings = re.findall(r"barrier\.cluster\.(\w+)", text)
        assert meetings == ["arrive", "wait", "arrive", "wait"], f"thread {index}"
        assert text.endswith("barrier.cluster.wait.aligned;")
        assert "bar.sync 0;" not in text


def test_a_role_that_runs_on_all_warps_of_its_segment_needs_no_branch() -> None:
    text = emit_llvm(block("warps give registers up"))
    assert text.count("br i1") == 2  # who initialises; which warpgroup


def test_one_thread_at_a_named_barrier_stands_for_its_warp() -> None:
    """A barrier waits for all threads of a warp that are left: the 31 others must have gone."""
    s = Protocol("meet")
    bar = s.barrier()
    meet = s.named()
    with s.planned_role(thread("alone", 1, 0)):
        s.add(sync.NamedSync(meet))
    with s.planned_role(thread("other", 1, 1)):
        s.add(protocol.MbarrierArrive(bar, (), "role"))
    with s.planned_role(warps("many", 2, 2)):
        s.add(sync.NamedArrive(meet))
    kernel = s.planned(named={"meet": NamedBarrier(3, 96)}, cluster=(2,))
    run = HostThreads(kernel)
    for index in range(128):
        texts = run.run(index).texts()
        assert texts.count("barrier.sync 3, 96;") == int(index == 0)
        assert texts.count("bar.arrive 3, 96;") == int(index >= 64)
        assert texts.count(ARRIVE) == int(index == 32)
        left = 0 < index < 32
        assert (texts[-1] == "exit;") == left
        assert texts[-1].endswith("barrier.cluster.wait.aligned;") != left
    machine_code(kernel)


def test_a_kernel_without_roles_that_meets_its_cluster() -> None:
    s = Protocol("main")
    s.plans.append(thread("main", 8, 0))
    bar = s.barrier()
    s.add(protocol.MbarrierArrive(bar, (), "role"))
    s.add(sync.ClusterSync())
    kernel = s.planned(cluster=(2,))
    run = HostThreads(kernel)
    for index in range(256):
        text = " ".join(run.run(index).texts())
        assert ("exit;" in text) == (index > 0)
        assert text.count("barrier.cluster.arrive;") == int(index == 0)
    machine_code(kernel)


# ---------------------------------------------------------------------------------- segments


def shape(*roles: RolePlan) -> list[tuple[int, int, list[str]]]:
    plan = Plan(list(roles), threads=32 * max(r.first_warp + r.warps for r in roles))
    return [(s.first, s.end, [r.name for r in s.roles]) for s in segments(plan)]


def test_segments() -> None:
    assert shape(thread("a", 1, 0), groups("b", 8, 4)) == [(0, 1, ["a"]), (1, 3, ["b"])]
    assert shape(warps("a", 3, 0), warps("b", 6, 3), warps("c", 2, 9)) == [(0, 3, ["a", "b", "c"])]
    assert shape(thread("a", 6, 0), thread("b", 1, 6)) == [(0, 1, ["a"]), (1, 2, ["b"])]
    assert shape(thread("a", 1, 0), warps("b", 4, 4)) == [(0, 1, ["a"]), (1, 2, ["b"])]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ([thread("a", 1, 0), groups("b", 4, 1)], "roles share warpgroup 0 with 'b'"),
        ([warps("a", 5, 0), groups("b", 4, 4)], "roles share warpgroup 0 with 'b'"),
        ([groups("b", 4, 2)], "roles share warpgroup 0 with 'b'"),
        (
            [warps("a", 5, 0, registers=24), thread("b", 1, 5, registers=40)],
            "roles of warpgroup 0 disagree on registers",
        ),
    ],
    ids=range(4),
)
def test_plans_that_cannot_be(roles: list[RolePlan], message: str) -> None:
    with pytest.raises(InternalError, match=message):
        shape(*roles)


def test_the_prologue_runs_between_arriving_at_and_waiting_for_the_cluster() -> None:
    s = Protocol("overlap")
    bar = s.barrier()
    size = s.scalar("size", s.const(0).type.dtype)  # type: ignore[union-attr]
    steps = s.op("mul", size, 3)
    with s.planned_role(thread("a", 1, 0)):
        s.loop(0, steps, 1, lambda _: s.add(protocol.MbarrierArrive(bar, (), "role")).results)
    filecheck(
        emit_llvm(s.planned(cluster=(2,))),
        """
        CHECK: mbarrier.init
        CHECK: fence.mbarrier_init.release.cluster;
        CHECK: barrier.cluster.arrive.relaxed.aligned;
        CHECK: mul i32
        CHECK-NOT: br
        CHECK: barrier.cluster.wait.aligned;
        CHECK: br i1
        """,
    )
