"""Raw mbarriers, questions about them, named barriers and words in shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.protocol import Machine, rows_of
from tests.emulator.samples import normal, poisoned
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, copy, protocol, sync, tile
from tiledsl.errors import Deadlock, InternalError, InvalidValue, StageError
from tiledsl.runtime.emulator import emulate

I32, F32 = dtypes.int32, dtypes.float32


def note(s: Machine, out: Value, at: int, value: Value | int) -> None:
    value = value if isinstance(value, Value) else s.const(value)
    s.add(tile.TensorStore(value, out, (s.const(at),)))


def load_and_spin(ask_first: int = 0) -> Kernel:
    """A tile is loaded onto a raw barrier; the reader polls until it is there."""
    s = Machine("spin")
    x, y = s.tensor("x", F32, 2), s.tensor("y", F32, 2)
    own, bars = s.shared(rows_of(8)), s.bars(1, 1)
    zero = s.const(0)
    with s.role("load"):
        for _ in range(ask_first):  # answers that change nothing
            s.value(sync.MbarrierTryWait(s.bar(bars), zero))
        s.expect(s.bar(bars), 8 * 64 * 4)
        s.add(tile.TmaLoad(x, (zero, zero), s.own(own), s.bar(bars)))
    with s.role("store"):
        s.spin(lambda: s.value(sync.MbarrierTryWait(s.bar(bars), zero)))
        s.store(s.own(own), y, (zero, zero))
    return s.done()


@pytest.mark.parametrize("ask_first", [0, 1, 5])
def test_a_loop_of_questions_ends(rng: np.random.Generator, seed: int, ask_first: int) -> None:
    polls = set()
    for one in (None, *range(seed, seed + 30)):
        x, y = normal(rng, (8, 64), F32), poisoned((8, 64), F32)
        polls.add(emulate(load_and_spin(ask_first), [x, y], grid=(1,), seed=one).polls)
        assert (x == y).all()
    assert min(polls) == ask_first + 1 or min(polls) > ask_first
    assert len(polls) > 3, "the schedules hardly differ"


def test_questions_in_vain_are_a_deadlock(seed: int) -> None:
    s = Machine("vain")
    bars = s.bars(2, 1)
    zero = s.const(0)
    with s.role("ask"):
        s.spin(lambda: s.value(sync.MbarrierTryWait(s.bar(bars, 1), zero)))
        s.arrive(s.bar(bars))
    with s.role("wait"):
        s.wait(s.bar(bars), 0)
        s.arrive(s.bar(bars, 1))
    kernel = s.done()
    for one in (None, seed):
        with pytest.raises(Deadlock) as caught:
            emulate(kernel, [], grid=(1,), seed=one)
        text = str(caught.value)
        assert (
            "role 'ask' asks again and again, in vain, and waits for a phase of mbarrier bars[1]:"
            " 1 of 1 arrivals missing (phase 0, parity 0)" in text
        )
        assert "expected to arrive here: role 'wait', which waits itself" in text


def test_questions_do_not_keep_others_from_working(seed: int) -> None:
    """One role asks until another has gone through many phases with a third."""
    s = Machine("busy")
    out = s.tensor("out", I32, 1)
    bars = s.bars(3, 1)
    zero, laps = s.const(0), s.const(200)

    def lead(i: Value) -> list[Value]:
        s.arrive(s.bar(bars))
        s.wait(s.bar(bars, 1), s.op("mod", i, 2))
        return []

    def follow(i: Value) -> list[Value]:
        s.wait(s.bar(bars), s.op("mod", i, 2))
        s.add(tile.TensorStore(i, out, (zero,)))
        s.arrive(s.bar(bars, 1))
        return []

    with s.role("ask"):
        s.spin(lambda: s.value(sync.MbarrierTryWait(s.bar(bars, 2), zero)))
        s.add(tile.TensorStore(s.op("sub", zero, 1), out, (zero,)))
    with s.role("lead"):
        s.loop(0, laps, 1, lead)
        s.arrive(s.bar(bars, 2))
    with s.role("follow"):
        s.loop(0, laps, 1, follow)
    kernel = s.done()
    for one in (None, seed, seed + 1):
        out_ = np.zeros(1, np.int32)
        emulate(kernel, [out_], grid=(1,), seed=one)
        assert out_[0] == -1


def test_an_answer_spares_the_wait(rng: np.random.Generator, seed: int) -> None:
    s = Machine("ready")
    x, y = s.tensor("x", F32, 2), s.tensor("y", F32, 2)
    own, bars = s.shared(rows_of(8)), s.bars(1, 1)
    zero = s.const(0)
    with s.role("load"):
        s.expect(s.bar(bars), 8 * 64 * 4)
        s.add(tile.TmaLoad(x, (zero, zero), s.own(own), s.bar(bars)))
    with s.role("store"):
        ready = s.value(sync.MbarrierTryWait(s.bar(bars), zero, uniform=False))
        s.wait(s.bar(bars), 0, unless=(ready,))
        s.store(s.own(own), y, (zero, zero))
    kernel = s.done()
    waits = set()
    for one in range(seed, seed + 40):
        x_, y_ = normal(rng, (8, 64), F32), poisoned((8, 64), F32)
        waits.add(emulate(kernel, [x_, y_], grid=(1,), seed=one).waits)
        assert (x_ == y_).all()
    assert waits == {0, 1}, "both answers should come"


def test_a_stale_answer_is_found(seed: int) -> None:
    s = Machine("stale")
    bars = s.bars(1, 1)
    yes = s.const(True, dtypes.bool_)
    with s.role("get"):
        s.wait(s.bar(bars), 0, unless=(yes,))
    with pytest.raises(StageError, match="does not wait for phase 0 of bars"):
        emulate(s.done(), [], grid=(1,), seed=seed)


def test_all_parts_get_one_answer(seed: int) -> None:
    """A role of three parts asks while another one arrives; all parts must see the same."""
    s = Machine("uniform")
    bars = s.bars(1, 1)
    zero, counts = s.const(0), s.const(20)

    def ask(i: Value) -> list[Value]:
        yes = s.value(sync.MbarrierTryWait(s.bar(bars), zero))
        s.branch(yes, lambda: s.add(control.Break(())))  # type: ignore[arg-type]
        s.add(protocol.RoleSync())
        return []

    with s.role("send"):
        for _ in range(5):
            s.value(sync.MbarrierTryWait(s.bar(bars), zero))
        s.arrive(s.bar(bars))
    with s.role("ask", 12, "warpgroup"):
        s.loop(0, counts, 1, ask)
    kernel = s.done()
    # A part that broke off while the others go on would leave them at role.sync: a deadlock.
    for one in (None, *range(seed, seed + 40)):
        emulate(kernel, [], grid=(1,), seed=one)


@pytest.mark.parametrize(
    ("number", "message"),
    [(-1, "mbarrier -1 of 'bars': expected 0 to 2"), (3, "mbarrier 3 of 'bars': expected 0 to 2")],
)
def test_a_barrier_that_does_not_exist(number: int, message: str) -> None:
    s = Machine()
    bars = s.bars(3, 1)
    with s.role("r"):
        s.arrive(s.bar(bars, number))
    with pytest.raises(InvalidValue) as caught:
        emulate(s.done(), [], grid=(1,))
    assert caught.value.message == message


def test_a_parity_that_does_not_exist() -> None:
    s = Machine()
    bars = s.bars(1, 1)
    with s.role("r"):
        s.wait(s.bar(bars), 2)
    with pytest.raises(InvalidValue, match=r"parity 2 of bars\[0\]: expected 0 or 1"):
        emulate(s.done(), [], grid=(1,))


# ------------------------------------------------------------------------- named barriers


def test_named_barriers_order_two_roles(seed: int) -> None:
    """One role writes, the other reads, round after round; arrive tells, sync waits."""
    rounds = 6
    s = Machine("rounds")
    x, out = s.tensor("x", I32, 1), s.tensor("out", I32, 1)
    written, read = s.named(32 + 256, "written"), s.named(32 + 256, "read")
    count, zero = s.const(rounds), s.const(0)

    def write(i: Value) -> list[Value]:
        s.branch(s.compare("gt", i, 0), lambda: s.add(sync.NamedSync(read)))
        s.add(tile.TensorStore(i, x, (zero,)))
        s.add(sync.NamedArrive(written))
        return []

    def copy(i: Value) -> list[Value]:
        s.add(sync.NamedSync(written))
        s.add(tile.TensorStore(s.value(tile.TensorLoad(x, (zero,))), out, (i,)))
        last = s.compare("lt", i, rounds - 1)
        s.branch(last, lambda: s.add(sync.NamedArrive(read)))
        return []

    with s.role("write"):
        s.loop(0, count, 1, write)
    with s.role("copy", 8, "warpgroup"):
        s.loop(0, count, 1, copy)
    kernel = s.done()
    for one in (None, *range(seed, seed + 30)):
        x_, out_ = np.full(1, -1, np.int32), np.full(rounds, -1, np.int32)
        emulate(kernel, [x_, out_], grid=(2,), seed=one)
        assert out_.tolist() == list(range(rounds))


def test_a_named_barrier_that_one_role_leaves_out() -> None:
    s = Machine("alone")
    meet = s.named(32 + 128)
    never = s.const(False, dtypes.bool_)
    with s.role("there", 4, "warpgroup"):
        s.add(sync.NamedSync(meet))
    with s.role("away"):
        s.branch(never, lambda: s.add(sync.NamedSync(meet)))
    with pytest.raises(Deadlock) as caught:
        emulate(s.done(), [], grid=(1,))
    text = str(caught.value)
    assert "role 'there' waits at named barrier 'meet': 128 of 160 threads have arrived" in text
    assert "note: expected to arrive here: role 'away', which has ended" in text


def test_more_threads_than_a_named_barrier_takes() -> None:
    s = Machine("crowd")
    meet = s.named(64)
    with s.role("one", 3, "warps"):
        s.add(sync.NamedArrive(meet))
    with pytest.raises(StageError, match="arrives with 96 threads at named barrier 'meet', at"):
        emulate(s.done(), [], grid=(1,))


# ---------------------------------------------------------------------------------- words


def test_words_are_handed_on(seed: int) -> None:
    """Three replicas count a word up in turns."""
    s = Machine("turns")
    out = s.tensor("out", I32, 1)
    word = s.value(sync.WordCreate("word", 7))
    bars = s.bars(3, 1)
    for replica in range(3):
        with s.role(f"r.{replica}", 4, "warpgroup"):
            for lap in range(4):
                s.wait(s.bar(bars, replica), (lap + (replica == 0)) % 2)
                now = s.value(sync.WordGet(word))
                note(s, out, 3 * lap + replica, now)
                s.add(sync.WordSet(word, s.op("add", now, 1)))
                s.arrive(s.bar(bars, (replica + 1) % 3))
    kernel = s.done()
    for one in (None, *range(seed, seed + 20)):
        out_ = np.zeros(12, np.int32)
        emulate(kernel, [out_], grid=(2,), seed=one)
        assert out_.tolist() == list(range(7, 19))


def test_a_bare_ring_may_end_with_stages_that_nobody_took() -> None:
    s = Machine("bare")
    ring = s.ring(2, [], 1, 1)
    with s.role("produce"):
        s.arrive(s.full(ring, s.const(0)))
    with s.role("other"):
        s.wait(s.full(ring, s.const(0)), 0)
    emulate(s.done(), [], grid=(1,))


def test_cp_async_without_an_arrival() -> None:
    s = Machine("lost")
    x = s.tensor("x", F32, 2)
    own, bars = s.shared(rows_of(8)), s.bars(1, 32)
    with s.role("copy", 1, "warps"):
        at = (s.const(0), s.const(0))
        s.add(copy.AsyncCopy(x, at, s.own(own), s.bar(bars)))
    with pytest.raises(InternalError, match=r"behind 1 cp\.async copies that no arrival follows"):
        emulate(s.done(), [np.zeros((8, 64), np.float32)], grid=(1,))
