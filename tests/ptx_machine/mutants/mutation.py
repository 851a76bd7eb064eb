"""A mutation of PTX text: a pattern that finds statements, and what it makes of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Change = str | Callable[[re.Match[str]], str]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One way to damage PTX.

    Attributes:
        name: what it does; unique.
        kind: of damage, as in KINDS of catalogue.py.
        pattern: of the text that it replaces. Registers are ``%r12``, whatever their numbers.
        change: the text that takes its place, as for ``re.sub``.
        places: in each program at most so many of the places found, spread over all of them.
        programs: the names of those it is for; all if empty.
    """

    name: str
    kind: str
    pattern: str
    change: Change
    places: int = 2
    programs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mutant:
    """A damaged program."""

    mutation: Mutation
    program: str
    line: int  # of the PTX, from 1
    ptx: str
    before: str  # the text that was replaced
    after: str

    @property
    def label(self) -> str:
        return f"{self.program}:{self.line} {self.mutation.name}"


def mutants(mutation: Mutation, program: str, ptx: str, lines: set[int]) -> Iterator[Mutant]:
    """The mutants that a mutation makes of a program, in lines that a right run comes by."""
    if mutation.programs and program not in mutation.programs:
        return
    body = ptx.index("{\n")  # behind the parameters; directives in front of it stay
    found = []
    for match in re.compile(mutation.pattern).finditer(ptx, body):
        change = mutation.change
        after = change(match) if callable(change) else match.expand(change)
        line = ptx.count("\n", 0, match.start()) + 1
        if after != match[0] and line in lines:
            found.append((match, after))
    count = min(mutation.places, len(found))
    for k in range(count):
        match, after = found[k * len(found) // count]
        yield Mutant(
            mutation,
            program,
            ptx.count("\n", 0, match.start()) + 1,
            ptx[: match.start()] + after + ptx[match.end() :],
            match[0],
            after,
        )
