"""Blocks that wait on each other's flags in global memory, as split-K kernels do."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.oracle import fresh_seed
from tests.ptx_machine.faulty import fault_of, start
from tiledsl.errors import Deadlock, LaunchError

POLICIES = ("eager", "late", "random", "pct")

# Block b waits until the flag says b + 1, adds its part, and hands on: from the last block down.
CHAIN = """mov.u32 %r2, %ctaid.x;
add.u32 %r3, %r2, 1;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra END;
.loc 1 6 5
AGAIN: ld.acquire.gpu.global.u32 %r4, [%d0];
setp.ne.u32 %p2, %r4, %r3;
@%p2 bra AGAIN;
ld.relaxed.gpu.global.u32 %r5, [%d0+4];
mad.lo.u32 %r5, %r5, 3, %r2;
st.relaxed.gpu.global.u32 [%d0+4], %r5;
st.release.gpu.global.u32 [%d0], %r2;
END:"""


def _expected(blocks: int, first: int) -> int:
    total = first
    for block in reversed(range(blocks)):
        total = (total * 3 + block) & 0xFFFFFFFF
    return total


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("together", [None, True])
def test_a_chain_from_the_last_block_down(policy: str, together: bool | None) -> None:
    rng = np.random.default_rng(fresh_seed())
    blocks = int(rng.integers(2, 30))
    x = np.zeros(68, np.uint32)
    x[0], x[1] = blocks, rng.integers(1 << 32)
    wanted = _expected(blocks, int(x[1]))
    start(CHAIN, blocks=blocks, x=x, policy=policy, together=together, seed=int(rng.integers(99)))
    assert x[0] == 0
    assert x[1] == wanted


def test_one_after_another_is_said_to_be_the_reason() -> None:
    x = np.zeros(68, np.uint32)
    x[0] = 3
    fault = fault_of(CHAIN, blocks=3, x=x, together=False)
    assert isinstance(fault, Deadlock)
    assert str(fault) == (
        "deadlock in block (0, 0, 0) of kernel 'k': no role can go on, and no load is in flight\n"
        "warp 0 asks again and again, in vain, for a word that nobody changes\n"
        "    PTX line 18: ld.acquire.gpu.global.u32 %r4, [%d0];\n"
        '  File "/home/user/kernel.py", line 6\n'
        "        line_6()\n"
        "        ^\n"
        "hint: only 1 of the grid's 3 blocks ran at once: those that wait on each other need"
        " together=True"
    )


def test_a_flag_that_nobody_sets_is_a_deadlock_of_all() -> None:
    x = np.zeros(68, np.uint32)
    x[0] = 99
    fault = fault_of(CHAIN, blocks=2, x=x)
    assert fault.message.startswith(
        "deadlock in blocks (0, 0, 0) to (1, 0, 0) of kernel 'k': no role can go on, and no load"
        " is in flight\n"
        "warp 0 in block (0, 0, 0) asks again and again, in vain, for a word that nobody changes\n"
    )
    assert "warp 0 in block (1, 0, 0) asks again" in str(fault)
    assert fault.hint is None


def test_more_blocks_together_than_the_machine_has_clocks_for() -> None:
    with pytest.raises(LaunchError, match="together=True with a grid of 200 blocks of 8 warps"):
        start("", blocks=200, threads=256, together=True)


# A relaxed wait for an mbarrier orders what lies behind a fence.acq_rel, and nothing else.
RELAXED = """mov.u32 %r1, bar;
mov.u32 %r2, buf;
setp.eq.u32 %p1, %r0, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
bar.sync 0;
setp.ge.u32 %p2, %r0, 32;
@%p2 bra OTHER;
@%p1 st.shared.u32 [%r2], 5;
@%p1 mbarrier.arrive.release.cta.shared::cta.b64 %d1, [%r1];
bra END;
OTHER:
WAIT: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p3, [%r1], 0;
@!%p3 bra WAIT;
FENCE
ld.shared.u32 %r3, [%r2];
END:"""


@pytest.mark.parametrize("fence", ["fence.acq_rel.cta;", "fence.acquire.cta;", "fence.sc.cta;"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_fence_behind_a_relaxed_wait(fence: str, policy: str) -> None:
    start(RELAXED.replace("FENCE", fence), threads=64, policy=policy)


@pytest.mark.parametrize("fence", ["", "fence.release.cta;", "fence.proxy.async;"])
def test_no_acquire_behind_a_relaxed_wait(fence: str) -> None:
    assert fault_of(RELAXED.replace("FENCE", fence), threads=64).kind == "race"
