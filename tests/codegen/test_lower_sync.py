"""mbarriers, named barriers and words of shared memory: the PTX, and who runs it."""

from __future__ import annotations

import pytest

from tests.codegen.host_asm import HostThreads
from tests.codegen.ir_samples import Sketch
from tests.codegen.sync_samples import Protocol, hand_over, machine_code, ptx_of, role_body
from tests.filecheck import filecheck
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, copy, protocol, sync
from tiledsl.codegen.ir.plan import NamedBarrier, RolePlan
from tiledsl.codegen.nvptx.lower import emit_llvm
from tiledsl.codegen.sass import SassReport
from tiledsl.errors import InternalError, InvalidValue

THREAD = RolePlan("all", 1, 0, "thread")
WARP = RolePlan("all", 1, 0, "warps")
WARPS = RolePlan("all", 3, 0, "warps", part_barrier=4, role_barrier=4)
GROUPS = RolePlan("all", 8, 0, "warpgroup", part_barrier=4, role_barrier=6)
ROLES = {"thread": THREAD, "warp": WARP, "warps": WARPS, "warpgroups": GROUPS}


def test_raw_barriers_are_initialised_with_those_of_rings() -> None:
    s = Protocol()
    row = s.value(sync.MbarrierCreate("row", 3), "row")
    s.barrier("one")
    word = s.value(sync.WordCreate("word", 65536), "word")
    with s.planned_role(WARPS):
        last = s.value(sync.MbarrierAt(row, s.const(2)))
        s.add(protocol.MbarrierArrive(last, (), "part"))
        s.add(sync.WordSet(word, s.const(7)))
    kernel = s.planned({"row": 5, "one": 1048575})
    filecheck(
        ptx_of(kernel),
        """
        CHECK: setp.ne.b32 [[P:%p[0-9]+]], {{%r[0-9]+}}, 0;
        CHECK: @[[P]] bra
        CHECK: mbarrier.init.shared::cta.b64 [[[R:%r[0-9]+]]+0], 5;
        CHECK-SAME: mbarrier.init.shared::cta.b64 [[[R]]+8], 5;
        CHECK-SAME: mbarrier.init.shared::cta.b64 [[[R]]+16], 5;
        CHECK: mbarrier.init.shared::cta.b64 [{{%r[0-9]+}}+0], 1048575;
        CHECK: st.volatile.shared::cta.u32
        CHECK: fence.mbarrier_init.release.cluster;
        CHECK: bar.sync 0;
        CHECK: mbarrier.arrive.shared::cta.b64
        """,
    )
    machine_code(kernel)
    run = HostThreads(kernel)
    assert run.run(0).operands("mbarrier.arrive") == [(16, 1)]  # behind two others
    assert run.run(0).operands("st.volatile") == [(32, 65536), (32, 7, 1)]
    assert run.run(1).operands("st.volatile") == run.run(95).operands("mbarrier.arrive") == []


@pytest.mark.parametrize("count", [0, 1048576])
def test_counts_that_no_mbarrier_has(count: int) -> None:
    s = Protocol()
    s.barrier("row")
    with s.planned_role(THREAD):
        pass
    with pytest.raises(InvalidValue, match=f"'row' is completed by {count} arrivals: expected 1"):
        emit_llvm(s.planned({"row": count}))


# ------------------------------------------------------------------------------------- waits


def waiting(role: RolePlan, unless: bool, elect: str) -> Kernel:
    s = Protocol("waits")
    bar = s.barrier()
    with s.planned_role(role):
        ready: tuple[Value, ...] = ()
        if unless:
            ready = (s.value(sync.MbarrierTryWait(bar, s.const(0), False)),)
        s.add(protocol.MbarrierWait(bar, s.const(1), unless=ready, elect=elect))
    return s.planned()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("unless", [False, True])
@pytest.mark.parametrize("elect", ["all", "role"])
def test_who_waits(role: str, unless: bool, elect: str) -> None:
    """The predicate operand says it: true for who waits if elected, else for who need not."""
    kernel = waiting(ROLES[role], unless, elect)
    machine_code(kernel)
    many = role != "thread"
    elected = elect == "role" and many
    for ready in (0, 1) if unless else (0,):
        run = HostThreads(kernel, lambda text, _, ready=ready: ready)  # type: ignore[misc]
        for index in range(kernel.plan.threads if many else 1):  # type: ignore[union-attr]
            ((text, operands),) = [r for r in run.run(index).ran if "try_wait" in r[0]]
            assert ("bar.warp.sync" in text) == elected
            if elected:
                assert operands[2] == int(index == 0 and not ready)
            elif unless:
                assert operands[2] == ready
            else:
                assert len(operands) == 2


def test_a_wait_that_may_be_skipped_is_one_loop() -> None:
    """Without a branch around it: in a loop with wgmma ptxas would let the warp diverge."""
    loops = SassReport.of(machine_code(waiting(GROUPS, True, "all")).cubin)
    assert loops.count("BSSY") == loops.count("WARPSYNC") == 0, str(loops)


PROBES = {
    "thread": "CHECK-NOT: bar.",
    "warp": "CHECK: vote.sync.all.pred {{%p[0-9]+}}, [[P]], 0xffffffff;",
    "warps": "CHECK: bar.red.and.pred {{%p[0-9]+}}, 4, 96, [[P]];",
    "warpgroups": "CHECK: bar.red.and.pred {{%p[0-9]+}}, 6, 256, [[P]];",
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("uniform", [True, False])
def test_try_wait(role: str, uniform: bool) -> None:
    s = Protocol("probe")
    bar = s.barrier()
    with s.planned_role(ROLES[role]):
        done = s.value(sync.MbarrierTryWait(bar, s.const(0), uniform))
        s.branch(done, lambda: s.add(protocol.MbarrierArrive(bar, (), "part")))  # type: ignore[arg-type, return-value]
    kernel = s.planned()
    machine_code(kernel)
    filecheck(
        ptx_of(kernel),
        f"""
        CHECK: bar.sync 0;
        CHECK: mbarrier.test_wait.parity.shared::cta.b64 [[P:%p[0-9]+]],
        {PROBES[role] if uniform else PROBES["thread"]}
        CHECK: mbarrier.arrive
        """,
    )


def test_a_probe_without_a_barrier_in_the_plan() -> None:
    s = Protocol("probe")
    bar = s.barrier()
    with s.planned_role(RolePlan("all", 2, 0, "warps")):
        s.add(sync.MbarrierTryWait(bar, s.const(0)))
    with pytest.raises(InternalError, match="needs a named barrier, which the plan lacks"):
        emit_llvm(s.planned())


# ---------------------------------------------------------------------------- named barriers


@pytest.mark.parametrize(
    ("role", "part", "whole"),
    [("thread", "", ""), ("warp", "bar.warp.sync 0xffffffff;", "bar.warp.sync 0xffffffff;"),
     ("warps", "bar.sync 4+0, 96;", "bar.sync 4, 96;"),
     ("warpgroups", "bar.sync 4+part, 128;", "bar.sync 6, 256;")],
)  # fmt: skip
def test_threads_of_a_role_meet(role: str, part: str, whole: str) -> None:
    s = Protocol("meet")
    with s.planned_role(ROLES[role]):
        s.add(protocol.PartSync())
        s.add(protocol.RoleSync())
    kernel = s.planned()
    machine_code(kernel)
    run = HostThreads(kernel)
    assert kernel.plan is not None
    for index in range(kernel.plan.threads if role != "thread" else 1):
        texts = run.run(index).texts()
        if role in ("warps", "warpgroups"):
            number = 4 + (index // 128 if role == "warpgroups" else 0)
            assert run.thread.ran[0][1] == (number,)
            texts[0] = texts[0].replace("$0", "4+part" if role == "warpgroups" else "4+0")
        assert texts == [text for text in (part, whole) if text]


def test_named_barriers_between_roles() -> None:
    s = Protocol("between")
    a, b = s.named("a"), s.named("b")
    with s.planned_role(RolePlan("first", 4, 0, "warpgroup")):
        s.add(sync.NamedArrive(a))
        s.add(sync.NamedSync(b))
    with s.planned_role(RolePlan("second", 8, 4, "warpgroup")):
        s.add(sync.NamedSync(a))
        s.add(sync.NamedArrive(b))
    named = {"a": NamedBarrier(1, 384), "b": NamedBarrier(2, 384)}
    kernel = s.planned(named=named)
    assert machine_code(kernel).resources.barriers == 3
    run = HostThreads(kernel)
    for index in range(384):
        wanted = ["bar.sync 1, 384;", "bar.arrive 2, 384;"]
        if index < 128:
            wanted = ["bar.arrive 1, 384;", "bar.sync 2, 384;"]
        assert run.run(index).texts() == wanted


def test_a_named_barrier_that_the_plan_lacks() -> None:
    s = Protocol("lost")
    s.named("lost")
    with s.planned_role(THREAD):
        pass
    with pytest.raises(InternalError, match="the plan has no named barrier 'lost'"):
        emit_llvm(s.planned())


# --------------------------------------------------------------------------- other arrivals


@pytest.mark.parametrize("role", ROLES)
def test_every_thread_arrives_when_its_copies_have_landed(role: str) -> None:
    s = Protocol("landed")
    bar = s.barrier()
    with s.planned_role(ROLES[role]):
        s.add(copy.AsyncArrive(bar))
    kernel = s.planned({"bar": 128})
    machine_code(kernel)
    run = HostThreads(kernel)
    text = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];"
    for index in range(32):
        assert run.run(index).texts().count(text) == int(role != "thread" or index == 0)


@pytest.mark.parametrize("sync_role", [False, True], ids=["alone", "behind a role.sync"])
def test_a_turn_is_handed_on_while_wgmma_computes(sync_role: bool) -> None:
    """In front of the wait that retires the last group, and without ptxas serialising wgmma."""
    kernel = hand_over(sync_role=sync_role)
    found = machine_code(kernel)
    assert found.resources.spill_store_bytes == 0
    loop = SassReport.of(found.cubin).hot_loop()
    assert loop.count("HGMMA") == 4
    for opcode in ("R2UR", "WARPSYNC", "LDL", "STL", "BSSY", "YIELD"):  # though the slot is loaded
        assert loop.count(opcode) == 0, str(loop)
    assert loop.count("MOV") + loop.count("IMAD.MOV") <= 4, str(loop)
    text = ptx_of(kernel)
    # On the paths with and without an iteration.
    assert text.count("st.volatile.shared::cta.u32") == 3
    filecheck(
        text,
        """
        CHECK: ld.volatile.shared::cta.u32
        CHECK: wgmma.mma_async
        CHECK: wgmma.wait_group.sync.aligned 1;
        CHECK: @{{%p[0-9]+}} st.volatile.shared::cta.u32
        CHECK-NOT: wgmma.wait_group
        CHECK: @{{%p[0-9]+}} mbarrier.arrive
        CHECK: wgmma.wait_group.sync.aligned 0;
        """,
    )


def test_results_between_a_loop_and_its_wait_live_on_behind_it() -> None:
    kernel = hand_over()
    body = role_body(kernel, "mma")
    (word,) = [op for op in body.walk() if isinstance(op, sync.WordSet)]
    out = next(op for op in body.walk() if isinstance(op, protocol.TmaStoreBuffer))
    # The coordinates of the store use the word that was made between loop and wait.
    out.coords = (out.coords[0], word.value)
    machine_code(kernel)


def test_a_loop_that_may_be_left_hands_its_turn_on_there_too() -> None:
    kernel = hand_over()
    body = role_body(kernel, "mma")
    loop = next(
        op
        for op in body.walk()
        if isinstance(op, control.For) and any(isinstance(i, protocol.Wgmma) for i in op.body.ops)
    )
    *loop.body.ops, last = loop.body.ops
    assert isinstance(last, control.Continue)
    s = Sketch()
    with s.inside(loop.body):
        stop = s.compare("eq", loop.body.args[0], 77)
        s.branch(stop, lambda: s.add(control.Break(last.values)) and None)
        s.add(last)
    machine_code(kernel)
    text = ptx_of(kernel)
    assert text.count("st.volatile.shared::cta.u32") == 4  # at the start, and on three paths
    assert text.count("wgmma.mma_async") == 4


def test_words_are_read_behind_the_wait() -> None:
    s = Protocol("words")
    bar = s.barrier()
    word = s.value(sync.WordCreate("word", 3), "word")
    other = s.value(sync.WordCreate("other", 4), "other")
    with s.planned_role(GROUPS):

        def step(_: Value) -> tuple[()]:
            s.add(protocol.MbarrierWait(bar, s.const(0)))
            found = s.value(sync.WordGet(word))
            s.add(sync.WordSet(other, s.op("add", found, 1)))
            s.add(protocol.MbarrierArrive(bar, (), "role"))
            return ()

        s.loop(0, s.const(10), 1, step)
    kernel = s.planned()
    machine_code(kernel)
    filecheck(
        ptx_of(kernel),
        """
        CHECK: mbarrier.try_wait
        CHECK: ld.volatile.shared::cta.u32 [[W:%r[0-9]+]],
        CHECK: shfl.sync.idx.b32 [[U:%r[0-9]+]], [[W]], 0, 31, -1;
        CHECK: add.s32 [[V:%r[0-9]+]], [[U]], 1;
        CHECK: st.volatile.shared::cta.u32 {{.*}}, [[V]];
        CHECK: mbarrier.arrive
        """,
    )
