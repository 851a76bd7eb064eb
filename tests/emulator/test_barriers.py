"""mbarriers: phases, parities, pending arrivals and transaction bytes, as PTX defines them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tiledsl.errors import Loc, StageError
from tiledsl.runtime.emulator.barriers import MAX_BYTES, Mbarrier

HERE = Loc("/home/user/none.py", 1)


class _Part:
    """What a barrier needs to know of a part: how to call it."""

    def __init__(self, label: str) -> None:
        self.label = label


LOADER: Any = _Part("role 'load'")
MMA: Any = _Part("role 'mma' part 0 of 2")


def barrier(count: int) -> Mbarrier:
    return Mbarrier("ring", "full", 3, count)


def test_before_the_first_phase_only_parity_one_passes() -> None:
    b = barrier(1)
    assert b.passed(1) and not b.passed(0)


def test_parity_of_completed_phases() -> None:
    b = barrier(2)
    for phase in range(5):
        assert b.phase == phase
        assert b.passed(1 - phase % 2) and not b.passed(phase % 2)
        b.arrive(LOADER, HERE)
        assert not b.passed(phase % 2)
        b.arrive(MMA, HERE)
        assert b.passed(phase % 2)


def test_bytes_hold_the_phase_back() -> None:
    b = barrier(1)
    b.arrive(LOADER, HERE, 100)
    assert (b.pending, b.bytes, b.passed(0)) == (0, 100, False)
    b.complete_bytes(60)
    assert not b.passed(0)
    b.complete_bytes(40)
    assert b.passed(0) and (b.pending, b.bytes, b.phase) == (1, 0, 1)


def test_bytes_may_come_before_they_are_announced() -> None:
    b = barrier(2)
    b.complete_bytes(64)
    assert b.bytes == -64 and not b.passed(0)
    b.arrive(LOADER, HERE, 64)
    assert b.bytes == 0 and not b.passed(0), "one arrival is missing still"
    b.arrive(MMA, HERE)
    assert b.passed(0)


def test_bytes_count_for_the_phase_in_which_they_come() -> None:
    b = barrier(1)
    b.arrive(LOADER, HERE, 8)
    b.complete_bytes(8)
    b.complete_bytes(8)  # of the next phase, ahead of time
    assert b.phase == 1
    b.arrive(LOADER, HERE, 8)
    assert b.phase == 2


def test_any_order_of_one_phase_completes_it_once() -> None:
    for _ in range(200):
        count = random.randint(1, 5)
        loads = [random.randint(1, 1000) for _ in range(random.randint(0, 6))]
        steps = [("arrive", 0)] * (count - 1) + [("arrive", sum(loads))]
        steps += [("bytes", n) for n in loads]
        random.shuffle(steps)
        b = barrier(count)
        seen = []
        for kind, nbytes in steps:
            if kind == "arrive":
                b.arrive(LOADER, HERE, nbytes)
            else:
                b.complete_bytes(nbytes)
            seen.append(b.phase)
        # It can look complete before all bytes are announced only if arrivals were missing.
        assert seen[-1] == 1
        assert seen[:-1] == [0] * (len(steps) - 1)


def test_one_arrival_too_many() -> None:
    b = barrier(1)
    b.arrive(LOADER, HERE, 64)
    with pytest.raises(StageError) as caught:
        b.arrive(MMA, HERE)
    assert str(caught.value) == (
        "role 'mma' part 0 of 2 arrives on ring.full[3] once too often in phase 0: expected 1"
        " arrival(s), which came from role 'load'; 64 bytes are still missing\n"
        '  File "/home/user/none.py", line 1'
    )


def test_more_bytes_than_the_hardware_counts() -> None:
    b = barrier(2)
    b.arrive(LOADER, HERE, MAX_BYTES)
    with pytest.raises(StageError, match=r"ring.full\[3\] expects 1048576 bytes in phase 0"):
        b.arrive(LOADER, HERE, 1)
