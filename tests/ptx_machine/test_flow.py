"""Where lanes meet again, against post-dominators found by taking blocks away."""

from __future__ import annotations

import random

import pytest

from tiledsl.runtime.ptx_machine.flow import Branch, meeting_rows

END = -1


def by_removal(count: int, branches: dict[int, Branch]) -> dict[int, int]:
    """The same by the definition: the nearest row without which no way leads to the end."""
    ways: dict[int, list[int]] = {}
    for row in range(count):
        branch = branches.get(row, Branch())
        found = [END if target == count else target for target in branch.targets]
        if branch.falls:
            found.append(row + 1 if row + 1 < count else END)
        if branch.ends and not found:
            found.append(END)
        ways[row] = list(dict.fromkeys(found))

    def reaches(start: int, without: int | None) -> bool:
        seen, stack = set(), [start]
        while stack:
            row = stack.pop()
            if row == END:
                return True
            if row not in seen and row != without:
                seen.add(row)
                stack += ways[row]
        return False

    meetings = {}
    for row in branches:
        if len(ways[row]) < 2:
            continue
        if not reaches(row, None):
            continue
        behind = [other for other in range(count) if other != row and not reaches(row, other)]
        if not behind:
            continue
        # Of those that all ways pass, the one that all others come behind.
        nearest = [
            one
            for one in behind
            if all(not reaches(one, other) for other in behind if other != one)
        ]
        assert len(nearest) == 1
        meetings[row] = nearest[0]
    return meetings


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed: int) -> None:
    choose = random.Random(seed)
    count = choose.randrange(2, 24)
    branches: dict[int, Branch] = {}
    for row in range(count):
        kind = choose.random()
        if kind < 0.35:
            branches[row] = Branch((choose.randrange(count + 1),), choose.random() < 0.6)
        elif kind < 0.45:
            targets = tuple(choose.randrange(count) for _ in range(choose.randrange(1, 4)))
            branches[row] = Branch(targets, False)
        elif kind < 0.55:
            branches[row] = Branch((), choose.random() < 0.5, ends=True)
        elif kind < 0.6:
            branches[row] = Branch((), False)
    expected = by_removal(count, branches)
    found = meeting_rows(count, branches)
    # Where no way leads to the end (endless loops), anything goes; elsewhere the two agree.
    assert {row: found.get(row) for row in expected} == expected
    for row in found:
        assert 0 <= found[row] < count


def test_a_loop_meets_behind_it() -> None:
    # 0: work, 1: if p goto 0, 2: end
    assert meeting_rows(3, {1: Branch((0,), True), 2: Branch((), False, ends=True)}) == {1: 2}


def test_nested_ifs() -> None:
    # 0: if -> 5, 1: if -> 3, 2: x, 3: y, 4: z, 5: exit
    branches = {0: Branch((5,)), 1: Branch((3,)), 5: Branch((), False, ends=True)}
    assert meeting_rows(6, branches) == {0: 5, 1: 3}


def test_a_trap_is_no_way_out() -> None:
    # 0: if -> 4, 1: if bad -> 3, 2: goto 4, 3: trap, 4: exit. The assertion does not part anybody.
    branches = {
        0: Branch((4,)),
        1: Branch((3,)),
        2: Branch((4,), False),
        3: Branch((), False),
        4: Branch((), False, ends=True),
    }
    assert meeting_rows(5, branches) == {0: 4, 1: 2}


def test_lanes_that_end_are_not_awaited() -> None:
    # 0: if -> 3, 1: @p exit, 2: work, 3: exit
    branches = {0: Branch((3,)), 1: Branch((), True, True), 3: Branch((), False, True)}
    assert meeting_rows(4, branches) == {0: 3}


def test_an_endless_loop_has_meetings() -> None:
    # 0: if -> 2, 1: work, 2: if -> 4, 3: work, 4: goto 0
    branches = {0: Branch((2,)), 2: Branch((4,)), 4: Branch((0,), False)}
    assert meeting_rows(5, branches) == {0: 2, 2: 4}


def test_an_endless_loop_beside_the_rest() -> None:
    # 0: if -> 2, 1: goto 1, 2: exit. Who spins for ever is not awaited by whom can go on.
    branches = {0: Branch((2,)), 1: Branch((1,), False), 2: Branch((), False, True)}
    assert meeting_rows(3, branches) == {0: 2}


def test_join_blocks_above_their_branch() -> None:
    # 0: goto 3, 1: join, 2: exit, 3: if -> 5, 4: goto 1, 5: goto 1
    branches = {
        0: Branch((3,), False),
        2: Branch((), False, True),
        3: Branch((5,)),
        4: Branch((1,), False),
        5: Branch((1,), False),
    }
    assert meeting_rows(6, branches) == {3: 1}


def test_many_ways() -> None:
    # 0: brx 1 2 3, each goes to 4
    branches = {
        0: Branch((1, 2, 3), False),
        1: Branch((4,), False),
        2: Branch((4,), False),
        4: Branch((), False, True),
    }
    assert meeting_rows(5, branches) == {0: 4}


def test_a_branch_to_the_next_row_parts_nobody() -> None:
    assert meeting_rows(2, {0: Branch((1,))}) == {}


def test_a_function_without_branches() -> None:
    assert meeting_rows(3, {}) == {}
    assert meeting_rows(0, {}) == {}


def test_a_long_chain_is_no_recursion() -> None:
    count = 20_000
    branches = {row: Branch((row + 2,)) for row in range(0, count - 2, 2)}
    found = meeting_rows(count, branches)
    assert all(found[row] == row + 2 for row in branches)
