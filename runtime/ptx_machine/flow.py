"""Where lanes that part at a branch meet again: immediate post-dominators."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Branch", "meeting_rows"]


@dataclass(frozen=True, slots=True)
class Branch:
    """What a row does to the flow of control: where it goes, and whether it may go on behind.

    ``ends``: lanes may end here. Nobody waits for lanes that have ended, so that a row which ends
    some of them is no place where ways part.
    """

    targets: tuple[int, ...] = ()
    falls: bool = True
    ends: bool = False


def meeting_rows(count: int, branches: Mapping[int, Branch]) -> dict[int, int]:
    """For each row of several ways, the row where they all meet; none where they meet at the end.

    Args:
        count: rows of the function; targets may be ``count``, its end.
        branches: rows that do not just go on.
    """
    starts = sorted(
        {0}
        | {row + 1 for row in branches if row + 1 < count}
        | {row for branch in branches.values() for row in branch.targets if row < count}
    )
    numbers = {row: number for number, row in enumerate(starts)}
    end = len(starts)  # a block behind the last
    numbers[count] = end
    successors: list[list[int]] = []
    for behind in [*starts[1:], count]:
        branch = branches.get(behind - 1, _GOES_ON)
        ways = [numbers[row] for row in _ways(behind - 1, branch)]
        if branch.ends and not ways:
            ways.append(end)
        successors.append(ways)
    successors.append([])
    parents = _post_dominators(successors, end)
    endless = [number for number in range(end) if parents[number] < 0]
    if endless:
        # Loops without an end, or ways into a trap. A loop gets one: its jump back.
        back = {number for number in _jumps_back(successors) if parents[number] < 0}
        ended = [[*ways, end] if number in back else ways for number, ways in enumerate(successors)]
        other = _post_dominators(ended, end)
        for number in endless:
            parents[number] = other[number]
    found = {}
    for row, branch in branches.items():
        if len(_ways(row, branch)) > 1:
            meeting = parents[bisect_right(starts, row) - 1]
            if 0 <= meeting < end:
                found[row] = starts[meeting]
    return found


_GOES_ON = Branch()


def _ways(row: int, branch: Branch) -> list[int]:
    """The rows that may follow, each once."""
    ways = dict.fromkeys(branch.targets)
    if branch.falls:
        ways[row + 1] = None
    return list(ways)


def _post_dominators(successors: Sequence[Sequence[int]], end: int) -> list[int]:
    """The immediate post-dominator of each block, -1 where no way leads to the end.

    Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm", on the reversed graph.
    """
    before: list[list[int]] = [[] for _ in successors]
    for number, ways in enumerate(successors):
        for way in ways:
            before[way].append(number)
    order = _postorder(before, end)
    rank = {number: place for place, number in enumerate(order)}
    parents = [-1] * len(successors)
    parents[end] = end
    changed = True
    while changed:
        changed = False
        for number in reversed(order[:-1]):
            new = -1
            for way in successors[number]:
                if parents[way] < 0:
                    continue
                new = way if new < 0 else _common(way, new, parents, rank)
            if new != parents[number]:
                parents[number] = new
                changed = True
    return parents


def _common(first: int, second: int, parents: Sequence[int], rank: Mapping[int, int]) -> int:
    while first != second:
        while rank[first] < rank[second]:
            first = parents[first]
        while rank[second] < rank[first]:
            second = parents[second]
    return first


def _postorder(ways: Sequence[Sequence[int]], start: int) -> list[int]:
    """The blocks that can be reached, each behind all that follow it."""
    seen, order = {start}, []
    stack = [(start, iter(ways[start]))]
    while stack:
        number, rest = stack[-1]
        for way in rest:
            if way not in seen:
                seen.add(way)
                stack.append((way, iter(ways[way])))
                break
        else:
            order.append(number)
            stack.pop()
    return order


def _jumps_back(successors: Sequence[Sequence[int]]) -> set[int]:
    """Blocks that go to one on the way to them, by a walk from the first."""
    found: set[int] = set()
    seen, on_the_way = {0}, {0}
    stack = [(0, iter(successors[0]))]
    while stack:
        number, rest = stack[-1]
        for way in rest:
            if way in on_the_way:
                found.add(number)
            elif way not in seen:
                seen.add(way)
                on_the_way.add(way)
                stack.append((way, iter(successors[way])))
                break
        else:
            on_the_way.discard(number)
            stack.pop()
    return found
