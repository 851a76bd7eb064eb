"""What a launch did: instructions, bytes, bank conflicts, time in flight, waits.

Counts are exact, not sampled, and say nothing about seconds: time is counted in *steps*, warp
instructions of all the warps that run together.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tiledsl.runtime.ptx_machine import opcodes as col
from tiledsl.runtime.ptx_machine.core import sizes
from tiledsl.runtime.ptx_machine.isa import bulk_ops, memory_ops, tensor_ops
from tiledsl.runtime.ptx_machine.syntax import Loc

if TYPE_CHECKING:
    from tiledsl.runtime.ptx_machine.machine import Result

__all__ = ["Asynchronous", "Conflicts", "Profile", "Site", "Traffic", "Wait", "profile_of"]

_SHOWN = 12  # rows of a table
_TEXT = 60  # characters of an instruction
_WGMMA_K = 32  # bytes of a row of A, or a column of B, that one wgmma multiplies


@dataclass(frozen=True, slots=True)
class Site:
    """One instruction of the program.

    Attributes:
        ptx_line: its line in the PTX, from 1. A function that is called twice has two sites a line.
        text: as written.
        loc: the source line (``.file``, ``.line``), or None.
        runs: how often a warp ran it.
        lanes: how many threads took part in these runs.
    """

    ptx_line: int
    text: str
    loc: Loc | None
    runs: int
    lanes: int

    @property
    def mnemonic(self) -> str:
        """Opcode and modifiers, without guard and operands."""
        words = self.text.split()
        if words and words[0].startswith("@"):
            words = words[1:]
        return words[0].rstrip(";") if words else ""

    @property
    def source(self) -> str:
        """``file.py:12``, or an empty string; line 0 is the compiler's own code."""
        if self.loc is None or not self.loc.line:
            return ""
        return f"{self.loc.file.rsplit('/', 1)[-1]}:{self.loc.line}"


@dataclass(slots=True)
class Traffic:
    """Bytes that threads moved to and from one memory space.

    ``read`` and ``written`` by loads and stores, also ldmatrix and stmatrix; ``atomic``: by atom
    and red, which do both.
    """

    read: int = 0
    written: int = 0
    atomic: int = 0


@dataclass(slots=True)
class Asynchronous:
    """All asynchronous operations of one kind.

    Attributes:
        operations: that have ended; a wgmma of a warpgroup is one.
        global_bytes: read or written there. Of TMA only what lies inside the tensor.
        shared_bytes: written or read there. Of a multicast, in all blocks that it goes to.
        steps: from issue to end, together; ``longest``: the most of one.
    """

    operations: int = 0
    global_bytes: int = 0
    shared_bytes: int = 0
    steps: int = 0
    longest: int = 0

    @property
    def mean_steps(self) -> float:
        """Steps in flight of one operation."""
        return self.steps / self.operations if self.operations else 0.0


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Bank conflicts of one instruction that accesses shared memory.

    Attributes:
        site: the instruction.
        wavefronts: that its accesses would take without conflicts: one for up to 128 bytes.
        extra: wavefronts beyond these.
        worst: the most of one access: 1 is none, 8 an 8-way conflict.
    """

    site: Site
    wavefronts: int
    extra: int
    worst: int


@dataclass(frozen=True, slots=True)
class Wait:
    """One instruction at which warps wait: mbarrier try_wait, bar.sync, barrier.cluster...

    Attributes:
        site: the instruction; ``site.runs`` counts how often warps got past it.
        waits: how often a warp had to wait there.
        steps: that they waited, together.
    """

    site: Site
    waits: int
    steps: int


@dataclass(frozen=True)
class Profile:
    """What was counted in one launch. ``print`` it, or show it in a notebook.

    Attributes:
        name: of the kernel.
        instructions: of warps.
        thread_instructions: of threads: the same where all 32 lanes take part, times 32.
        sites: the instructions, in the order of the PTX.
        traffic: by space ("global", "shared", "local", "param", "const"): bytes moved by threads.
        asynchronous: by kind ("TMA load", "TMA load, multicast", "wgmma", "cp.async"...).
        conflicts: of each instruction that accessed shared memory, the most first.
        waits: of each instruction at which a warp waited, the longest first.
    """

    name: str
    instructions: int
    thread_instructions: int
    sites: tuple[Site, ...] = field(repr=False)
    traffic: dict[str, Traffic]
    asynchronous: dict[str, Asynchronous]
    conflicts: tuple[Conflicts, ...] = field(repr=False)
    waits: tuple[Wait, ...] = field(repr=False)

    @cached_property
    def opcodes(self) -> dict[str, int]:
        """Warp instructions by opcode with its modifiers, the most first."""
        return _sums((site.mnemonic, site.runs) for site in self.sites)

    @cached_property
    def ptx_lines(self) -> dict[int, int]:
        """Warp instructions by line of the PTX, in order."""
        found: Counter[int] = Counter()
        for site in self.sites:
            found[site.ptx_line] += site.runs
        return dict(sorted(found.items()))

    @cached_property
    def source_lines(self) -> dict[str, int]:
        """Warp instructions by source line (``"gemm.py:12"``), the most first; without ``.loc``
        there are none."""
        return _sums((site.source, site.runs) for site in self.sites if site.source)

    @property
    def extra_wavefronts(self) -> int:
        """Bank conflicts of all instructions."""
        return sum(conflict.extra for conflict in self.conflicts)

    def __str__(self) -> str:
        return "\n\n".join(
            [
                f"kernel {self.name}: {self.instructions:,} instructions of warps,"
                f" {self.thread_instructions:,} of threads",
                *(_text_table(*table) for table in self._tables()),
            ]
        )

    def _repr_html_(self) -> str:
        tables = "".join(_html_table(*table) for table in self._tables())
        return (
            f"<p><b>{html.escape(self.name)}</b>: {self.instructions:,} instructions of warps,"
            f" {self.thread_instructions:,} of threads</p>{tables}"
        )

    def _tables(self) -> list[_Table]:
        bad = [conflict for conflict in self.conflicts if conflict.extra]
        tables = [
            _table("instructions", ("opcode", "warps"), list(self.opcodes.items())),
            _table("source lines", ("line", "warps"), list(self.source_lines.items())),
            _table(
                "memory, bytes moved by threads",
                ("space", "read", "written", "atomic"),
                [(space, t.read, t.written, t.atomic) for space, t in self.traffic.items()],
            ),
            _table(
                "asynchronous operations",
                ("kind", "number", "global bytes", "shared bytes", "mean steps", "longest"),
                [_operations(kind, found) for kind, found in self.asynchronous.items()],
            ),
            _table(
                "bank conflicts",
                ("instruction", "PTX line", "source", "wavefronts", "extra", "worst"),
                [(*_place(c.site), c.wavefronts, c.extra, f"{c.worst}-way") for c in bad],
            ),
            _table(
                "waits",
                ("instruction", "PTX line", "source", "passed", "waits", "steps"),
                [(*_place(w.site), w.site.runs, w.waits, w.steps) for w in self.waits],
            ),
        ]
        if self.conflicts and not bad:
            clean = sum(conflict.wavefronts for conflict in self.conflicts)
            tables.append((f"no bank conflicts in {clean:,} wavefronts", (), []))
        return [table for table in tables if table[2] or not table[1]]


_Table = tuple[str, Sequence[str], list[tuple[str, ...]]]


def profile_of(result: Result) -> Profile:
    """The profile of a launch that counted everything."""
    program, counts = result.program, result.counts
    sites = tuple(
        Site(int(row[col.LINE]), text, loc, int(runs), int(lanes))
        for row, text, loc, runs, lanes in zip(
            program.rows, program.texts, program.locs, result.warps, result.lanes, strict=True
        )
    )
    traffic: dict[str, Traffic] = {}
    kinds: dict[str, Asynchronous] = {}
    conflicts, waits = [], []
    for row, site, count in zip(program.rows, sites, counts, strict=True):
        numbers = [int(x) for x in count]
        if kind := _kind(row):
            _add_operations(kinds.setdefault(kind, Asynchronous()), row, site, numbers)
        else:
            _add_traffic(traffic, row, site, numbers)
        if numbers[sizes.C_WAVEFRONTS]:
            conflicts.append(
                Conflicts(site, *(numbers[c] for c in (
                    sizes.C_WAVEFRONTS, sizes.C_CONFLICTS, sizes.C_WORST)))
            )  # fmt: skip
        if numbers[sizes.C_WAITS]:
            waits.append(Wait(site, numbers[sizes.C_WAITS], numbers[sizes.C_WAITED]))
    return Profile(
        name=program.name,
        instructions=result.instructions,
        thread_instructions=sum(site.lanes for site in sites),
        sites=sites,
        traffic={space: traffic[space] for space in col.SPACES if space in traffic},
        asynchronous={kind: found for kind, found in kinds.items() if found.operations},
        conflicts=tuple(sorted(conflicts, key=lambda c: -c.extra)),
        waits=tuple(sorted(waits, key=lambda w: -w.steps)),
    )


_COPIES = {
    bulk_ops.TMA_LOAD: "TMA load", bulk_ops.TMA_STORE: "TMA store",
    bulk_ops.TMA_REDUCE: "TMA reduce", bulk_ops.BULK_LOAD: "bulk load",
    bulk_ops.BULK_STORE: "bulk store", bulk_ops.BULK_REDUCE: "bulk reduce",
    bulk_ops.BULK_COPY: "bulk copy within a cluster", bulk_ops.CP_ASYNC: "cp.async",
    bulk_ops.ST_ASYNC: "st.async",
}  # fmt: skip
_Row = Sequence[int]


def _kind(row: _Row) -> str:
    """The kind of an asynchronous operation; "" for any other instruction."""
    family, op = row[col.FAMILY], row[col.OP]
    if family == col.TENSOR and op == tensor_ops.WGMMA:
        return "wgmma"
    if family != col.BULK:
        return ""
    loads = op in (bulk_ops.TMA_LOAD, bulk_ops.BULK_LOAD)
    cast = loads and row[col.MODE] & bulk_ops.MULTICAST
    return _COPIES.get(int(op), "") + (", multicast" if cast else "")


def _add_operations(found: Asynchronous, row: _Row, site: Site, counts: list[int]) -> None:
    number, steps = counts[sizes.C_COPIES], counts[sizes.C_FLIGHT]
    if row[col.FAMILY] == col.TENSOR:
        # Counted by warps; each of four computes 16 rows of the 64 and reads the whole of B.
        number, steps = number // 4, steps // 4
        rows = int(row[col.X1])
        if not row[col.MODE] & tensor_ops.A_REGISTERS:
            rows += 64
        found.shared_bytes += number * rows * _WGMMA_K
    found.operations += number
    found.steps += steps
    found.longest = max(found.longest, counts[sizes.C_LONGEST])
    found.global_bytes += counts[sizes.C_GLOBAL]
    found.shared_bytes += counts[sizes.C_SHARED]


def _add_traffic(traffic: dict[str, Traffic], row: _Row, site: Site, counts: list[int]) -> None:
    family, op = row[col.FAMILY], row[col.OP]
    if family == col.TENSOR and op in (tensor_ops.LDMATRIX, tensor_ops.STMATRIX):
        loads, counts = op == tensor_ops.LDMATRIX, [0] * len(counts)
        counts[col.SHARED] = site.runs * int(row[col.NVEC]) * 128
    elif family == col.MEMORY:
        loads = op == memory_ops.LD
    else:
        return
    for space, name in enumerate(col.SPACES):
        if nbytes := counts[space]:
            found = traffic.setdefault(name, Traffic())
            if family == col.MEMORY and op == memory_ops.ATOM:
                found.atomic += nbytes
            elif loads:
                found.read += nbytes
            else:
                found.written += nbytes


# ------------------------------------------------------------------ tables


def _sums(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for name, number in pairs:
        if number:
            found[name] += number
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _place(site: Site) -> tuple[str, int, str]:
    text = site.text if len(site.text) <= _TEXT else site.text[: _TEXT - 3] + "..."
    return text, site.ptx_line, site.source


def _operations(kind: str, found: Asynchronous) -> tuple[str | int, ...]:
    counts = (found.operations, found.global_bytes, found.shared_bytes)
    return (kind, *counts, round(found.mean_steps), found.longest)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str | int]]) -> _Table:
    """A table as texts; long ones end with how many rows were left out."""
    shown = [
        tuple(f"{cell:,}" if isinstance(cell, int) else cell for cell in row)
        for row in rows[:_SHOWN]
    ]
    if len(rows) > _SHOWN:
        shown.append((f"... and {len(rows) - _SHOWN} more", *[""] * (len(head) - 1)))
    return title, head, shown


def _text_table(title: str, head: Sequence[str], rows: list[tuple[str, ...]]) -> str:
    every = [tuple(head), *rows] if rows else []
    widths = [max(len(row[k]) for row in every) for k in range(len(head))]
    lines = [
        "  " + "  ".join(_aligned(k)(row[k], widths[k]) for k in range(len(head))).rstrip()
        for row in every
    ]
    return "\n".join([title, *lines])


def _aligned(column: int) -> Callable[[str, int], str]:
    return str.ljust if column == 0 else str.rjust


def _html_table(title: str, head: Sequence[str], rows: list[tuple[str, ...]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        sides = ["left"] + ["right"] * (len(cells) - 1)
        return "<tr>{}</tr>".format(
            "".join(
                f'<{tag} style="text-align:{side}">{html.escape(cell)}</{tag}>'
                for side, cell in zip(sides, cells, strict=True)
            )
        )

    if not rows:
        return f"<p>{html.escape(title)}</p>"
    body = "".join(line(row, "td") for row in rows)
    return f"<p>{html.escape(title)}</p><table>{line(head, 'th')}{body}</table>"
