"""How a deadlock reads, in the emulator and on the PTX machine alike. A leaf, as errors.py."""

from __future__ import annotations

from collections.abc import Sequence

BlockId = tuple[int, int, int]

ARRIVE_HERE = "expected to arrive here: "


def head(blocks: Sequence[BlockId], kernel: str, cluster: bool = True) -> str:
    """The first line: where nothing goes on."""
    if len(blocks) == 1:
        where = f"block {blocks[0]}"
    else:
        what = "the cluster of blocks" if cluster else "blocks"
        where = f"{what} {blocks[0]} to {blocks[-1]}"
    return f"deadlock in {where} of kernel {kernel!r}: no role can go on, and no load is in flight"


def mbarrier_wait(who: str, verb: str, ring: str, which: str, stage: int, raw: str) -> str:
    """Who waits for what: a stage of a pipeline, or a phase of a raw mbarrier called ``raw``."""
    if which == "raw":
        return f"{who} {verb} for a phase of mbarrier {raw}"
    return f"{who} {verb} until stage {stage} of pipeline {ring!r} is {which}"


def phase(missing: str, number: int, parity: int) -> str:
    """What is missing for the phase under way, and its number."""
    return f": {missing} (phase {number}, parity {parity})"


def missing(pending: int, count: int, nbytes: int) -> str:
    """What an mbarrier waits for: arrivals, and bytes (negative: more than were announced)."""
    parts = []
    if pending:
        parts.append(f"{pending} of {count} arrivals missing")
    if nbytes > 0:
        parts.append(f"{nbytes} bytes missing")
    elif nbytes < 0:
        parts.append(f"{-nbytes} bytes more than announced")
    return ", ".join(parts)


def named_wait(who: str, name: str, come: int, threads: int) -> str:
    """Who waits at a named barrier."""
    return f"{who} waits at named barrier {name}: {come} of {threads} threads have arrived"


def bytes_from(ring: str, which: str) -> str:
    """The note that goes with a load that brings a barrier's bytes."""
    place = "mbarrier" if which == "raw" else "pipeline"
    return f"the bytes for {place} {ring!r} come from this load"


def hint(bytes_alone: bool, pipelines: bool) -> str | None:
    """What to look for.

    Args:
        bytes_alone: somebody waits for bytes only.
        pipelines: somebody waits for a stage of a pipeline.
    """
    if bytes_alone:
        return "the bytes that a stage expects must be those that its loads bring, zeros included"
    if pipelines:
        return "both sides of a pipeline must acquire and release equally many stages"
    return None
